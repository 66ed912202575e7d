//! The requests to the device, as `kernel/rampart_abi.h` has them.

#![expect(unsafe_code, reason = "the device reads and writes memory of this process")]

use std::fs::File;
use std::mem::offset_of;

use rustix::io::Result;
use rustix::ioctl::{self, NoArg, Opcode, Setter, Updater, opcode};

/// The most frames of one claim.
pub(super) const CLAIM_MOST: u64 = 8192;

/// Frames in use refuse a claim.
pub(super) const CLAIM_FREE: u32 = 0;

/// Their content is moved.
pub(super) const CLAIM_MOVE: u32 = 1;

/// Zones, as `Listed` has them.
pub(super) const ZONE_DMA: u32 = 0;
pub(super) const ZONE_DMA32: u32 = 1;
pub(super) const ZONE_NORMAL: u32 = 2;

/// Migratetypes, as `Listed` has them.
pub(super) const TYPE_UNMOVABLE: u32 = 0;
pub(super) const TYPE_MOVABLE: u32 = 1;
pub(super) const TYPE_RECLAIMABLE: u32 = 2;

/// Frames that are not bad are good.
pub(super) const TESTED: u32 = 1;

/// `struct rampart_claim`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Claim {
    pub first: u64,
    pub frames: u32,
    pub how: u32,
    pub claim: u64,
    pub in_use: u32,
    pub zero: u32,
}

/// `struct rampart_listed`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Listed {
    pub node: u32,
    pub zone: u32,
    pub migratetype: u32,
    pub order: u32,
    pub first: u64,
    pub claim: u64,
    pub frames: u32,
    pub older: u32,
}

/// `struct rampart_node_block`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NodeBlock {
    pub first: u64,
    pub claim: u64,
    pub node: u32,
    pub frames: u32,
}

/// `struct rampart_give_back`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GiveBack {
    pub first: u64,
    pub claim: u64,
    pub bad: u64,
    pub bad_frames: u32,
    pub flags: u32,
}

/// `struct rampart_lifetime`, in seconds.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lifetime {
    pub seconds: u32,
    pub margin: u32,
}

const GROUP: u8 = 0xb7;
const CLAIM: Opcode = opcode::read_write::<Claim>(GROUP, 1);
const GIVE_BACK: Opcode = opcode::write::<GiveBack>(GROUP, 2);
const SET_LIFETIME: Opcode = opcode::write::<Lifetime>(GROUP, 3);
const RENEW: Opcode = opcode::none(GROUP, 4);
const CLAIM_LISTED: Opcode = opcode::read_write::<Listed>(GROUP, 5);
const CLAIM_NEW: Opcode = opcode::read_write::<NodeBlock>(GROUP, 6);
const CLAIM_DEMANDED: Opcode = opcode::read_write::<NodeBlock>(GROUP, 7);

const _: () = {
    assert!(size_of::<Claim>() == 32 && offset_of!(Claim, frames) == 8 && offset_of!(Claim, how) == 12);
    assert!(offset_of!(Claim, claim) == 16 && offset_of!(Claim, in_use) == 24 && offset_of!(Claim, zero) == 28);
    assert!(size_of::<Listed>() == 40 && offset_of!(Listed, zone) == 4 && offset_of!(Listed, migratetype) == 8);
    assert!(offset_of!(Listed, order) == 12 && offset_of!(Listed, first) == 16 && offset_of!(Listed, claim) == 24);
    assert!(offset_of!(Listed, frames) == 32 && offset_of!(Listed, older) == 36);
    assert!(size_of::<GiveBack>() == 32 && offset_of!(GiveBack, claim) == 8 && offset_of!(GiveBack, bad) == 16);
    assert!(offset_of!(GiveBack, bad_frames) == 24 && offset_of!(GiveBack, flags) == 28);
    assert!(size_of::<Lifetime>() == 8 && offset_of!(Lifetime, margin) == 4 && SET_LIFETIME == 0x4008_b703);
    assert!(CLAIM == 0xc020_b701 && GIVE_BACK == 0x4020_b702 && RENEW == 0xb704);
    assert!(CLAIM_LISTED == 0xc028_b705 && CLAIM_NEW == 0xc018_b706);
    assert!(size_of::<NodeBlock>() == 24 && offset_of!(NodeBlock, claim) == 8);
    assert!(offset_of!(NodeBlock, node) == 16 && offset_of!(NodeBlock, frames) == 20);
    assert!(CLAIM_DEMANDED == 0xc018_b707);
};

/// Claims; the results are in `request`, also after a refusal.
pub(super) fn claim(device: &File, request: &mut Claim) -> Result<()> {
    // SAFETY: the request of this number reads and writes a `struct rampart_claim`, as which `Claim` is laid out; no
    // reference to memory is in it, and frames that the module takes from this process are moved, content and all.
    unsafe { ioctl::ioctl(device, Updater::<CLAIM, Claim>::new(request)) }
}

/// Claims the first block of a free list; the results are in `request`.
pub(super) fn claim_listed(device: &File, request: &mut Listed) -> Result<()> {
    // SAFETY: the request of this number reads and writes a `struct rampart_listed`, as which `Listed` is laid out; no
    // reference to memory is in it, and the frames that the module takes are free.
    unsafe { ioctl::ioctl(device, Updater::<CLAIM_LISTED, Listed>::new(request)) }
}

/// Claims a block of memory that came online and was not used yet; the results are in `request`.
pub(super) fn claim_new(device: &File, request: &mut NodeBlock) -> Result<()> {
    // SAFETY: the request of this number reads and writes a `struct rampart_node_block`, as which `NodeBlock` is laid
    // out; no reference to memory is in it, and nobody uses the frames that the module takes.
    unsafe { ioctl::ioctl(device, Updater::<CLAIM_NEW, NodeBlock>::new(request)) }
}

/// Claims a block for which a task waits; the results are in `request`.
pub(super) fn claim_demanded(device: &File, request: &mut NodeBlock) -> Result<()> {
    // SAFETY: the request of this number reads and writes a `struct rampart_node_block`, as which `NodeBlock` is laid
    // out; no reference to memory is in it, and the task that waits for the frames does not have them yet.
    unsafe { ioctl::ioctl(device, Updater::<CLAIM_DEMANDED, NodeBlock>::new(request)) }
}

/// Gives back. The list that `request` names must be as long as it says; the module only reads it, and fails where
/// there is nothing.
pub(super) fn give_back(device: &File, request: &GiveBack) -> Result<()> {
    // SAFETY: the request of this number reads a `struct rampart_give_back`, as which `GiveBack` is laid out, and
    // writes nothing; whatever address it has for the list is checked by the kernel.
    unsafe { ioctl::ioctl(device, Setter::<GIVE_BACK, GiveBack>::new(*request)) }
}

/// Sets how long tests are good.
pub(super) fn set_lifetime(device: &File, lifetime: Lifetime) -> Result<()> {
    // SAFETY: the request of this number reads a `struct rampart_lifetime`, as which `Lifetime` is laid out, and writes
    // nothing.
    unsafe { ioctl::ioctl(device, Setter::<SET_LIFETIME, Lifetime>::new(lifetime)) }
}

/// Has the time of all claims begin anew.
pub(super) fn renew(device: &File) -> Result<()> {
    // SAFETY: the request of this number has no argument.
    unsafe { ioctl::ioctl(device, NoArg::<RENEW>::new()) }
}
