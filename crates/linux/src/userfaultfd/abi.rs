//! The kernel's interface: requests, their numbers, and the flags in them.
//!
//! Source: Linux 6.18, include/uapi/linux/userfaultfd.h and include/uapi/linux/fs.h.

#![expect(unsafe_code, reason = "requests are given to the kernel by their address")]

use std::ffi::c_void;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use rustix::io::Result;
use rustix::ioctl::{self, Ioctl, IoctlOutput, Opcode, opcode};

/// The only version of the interface there ever was.
pub(super) const VERSION: u64 = 0xaa;

const GROUP: u8 = 0xaa;
pub(super) const NEW: Opcode = opcode::none(GROUP, 0x00);
pub(super) const REGISTER: Opcode = opcode::read_write::<Register>(GROUP, 0x00);
pub(super) const UNREGISTER: Opcode = opcode::read::<UffdRange>(GROUP, 0x01);
pub(super) const WAKE: Opcode = opcode::read::<UffdRange>(GROUP, 0x02);
pub(super) const COPY: Opcode = opcode::read_write::<Transfer>(GROUP, 0x03);
pub(super) const ZERO_PAGE: Opcode = opcode::read_write::<Fill>(GROUP, 0x04);
pub(super) const MOVE: Opcode = opcode::read_write::<Transfer>(GROUP, 0x05);
pub(super) const WRITE_PROTECT: Opcode = opcode::read_write::<WriteProtect>(GROUP, 0x06);
pub(super) const CONTINUE: Opcode = opcode::read_write::<Fill>(GROUP, 0x07);
pub(super) const POISON: Opcode = opcode::read_write::<Fill>(GROUP, 0x08);
pub(super) const API: Opcode = opcode::read_write::<Api>(GROUP, 0x3f);
pub(super) const PAGEMAP_SCAN: Opcode = opcode::read_write::<Scan>(b'f', 16);

/// Flag of `userfaultfd(2)`: faults of user code only.
pub(super) const USER_MODE_ONLY: u32 = 1;

/// Bit 0 of the mode of each request that resolves faults: do not wake waiting threads.
pub(super) const DONT_WAKE: u64 = 1 << 0;
/// `UFFDIO_WRITEPROTECT_MODE_WP`.
pub(super) const PROTECT: u64 = 1 << 0;
/// `UFFDIO_WRITEPROTECT_MODE_DONTWAKE`.
pub(super) const PROTECT_DONT_WAKE: u64 = 1 << 1;
/// `UFFDIO_CONTINUE_MODE_WP` and `UFFDIO_COPY_MODE_WP`.
pub(super) const MAP_PROTECTED: u64 = 1 << 1;

/// `PM_SCAN_WP_MATCHING`: write-protect matching pages.
pub(super) const SCAN_PROTECT: u64 = 1 << 0;
/// `PM_SCAN_CHECK_WPASYNC`: fail where writes are not recorded asynchronously.
pub(super) const SCAN_CHECK_ASYNC: u64 = 1 << 1;

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Api {
    pub(super) version: u64,
    pub(super) features: u64,
    pub(super) requests: u64,
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct UffdRange {
    pub(super) start: u64,
    pub(super) bytes: u64,
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Register {
    pub(super) range: UffdRange,
    pub(super) modes: u64,
    pub(super) requests: u64,
}

/// `uffdio_copy` and `uffdio_move`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Transfer {
    pub(super) to: u64,
    pub(super) from: u64,
    pub(super) bytes: u64,
    pub(super) mode: u64,
    /// Bytes, or a negative error.
    pub(super) done: i64,
}

/// `uffdio_zeropage`, `uffdio_continue` and `uffdio_poison`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Fill {
    pub(super) range: UffdRange,
    pub(super) mode: u64,
    /// Bytes, or a negative error.
    pub(super) done: i64,
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct WriteProtect {
    pub(super) range: UffdRange,
    pub(super) mode: u64,
}

/// `pm_scan_arg`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Scan {
    pub(super) size: u64,
    pub(super) flags: u64,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) walk_end: u64,
    pub(super) regions: u64,
    pub(super) regions_length: u64,
    pub(super) max_pages: u64,
    pub(super) inverted: u64,
    pub(super) all_of: u64,
    pub(super) any_of: u64,
    pub(super) returned: u64,
}

/// `page_region`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct UffdRegion {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) categories: u64,
}

const _: () = assert!(size_of::<Api>() == 24);
const _: () = assert!(size_of::<UffdRange>() == 16);
const _: () = assert!(size_of::<Register>() == 32);
const _: () = assert!(size_of::<Transfer>() == 40);
const _: () = assert!(size_of::<Fill>() == 32);
const _: () = assert!(size_of::<WriteProtect>() == 24);
const _: () = assert!(size_of::<Scan>() == 96);
const _: () = assert!(size_of::<UffdRegion>() == 24);

struct Request<'a, T> {
    opcode: Opcode,
    argument: &'a mut T,
}

// SAFETY: the argument is a structure of the kernel's that it may read and write, by the promise of `ask`'s caller.
unsafe impl<T> Ioctl for Request<'_, T> {
    type Output = IoctlOutput;

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        self.opcode
    }

    fn as_ptr(&mut self) -> *mut c_void {
        ptr::from_mut(self.argument).cast()
    }

    unsafe fn output_from_ptr(output: IoctlOutput, _: *mut c_void) -> Result<IoctlOutput> {
        Ok(output)
    }
}

/// Sends one request, and returns what the kernel returns; the kernel may write to the argument even if it fails.
///
/// # Safety
/// `T` is the structure that belongs to the opcode, and what the request does to memory of this process is sound.
pub(super) unsafe fn ask<T>(descriptor: BorrowedFd<'_>, opcode: Opcode, argument: &mut T) -> Result<IoctlOutput> {
    // SAFETY: by this function's own condition.
    unsafe { ioctl::ioctl(descriptor, Request { opcode, argument }) }
}

struct NewDescriptor {
    flags: u32,
}

// SAFETY: the argument of `USERFAULTFD_IOC_NEW` is a number in place of an address, and a success is a new descriptor.
unsafe impl Ioctl for NewDescriptor {
    type Output = OwnedFd;

    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        NEW
    }

    fn as_ptr(&mut self) -> *mut c_void {
        ptr::without_provenance_mut(self.flags as usize)
    }

    unsafe fn output_from_ptr(output: IoctlOutput, _: *mut c_void) -> Result<OwnedFd> {
        // SAFETY: the kernel just made this descriptor for us, and nobody else knows of it.
        Ok(unsafe { OwnedFd::from_raw_fd(output) })
    }
}

/// A new userfaultfd of the open `/dev/userfaultfd`.
pub(super) fn new_of_device(device: BorrowedFd<'_>, flags: u32) -> Result<OwnedFd> {
    // SAFETY: the request makes a descriptor and touches no memory.
    unsafe { ioctl::ioctl(device, NewDescriptor { flags }) }
}
