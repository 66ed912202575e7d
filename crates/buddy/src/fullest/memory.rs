//! The memory that the caller hands in.

#[cfg(feature = "alloc")]
use alloc::{vec, vec::Vec};

use super::cpu::CpuState;
use super::group::{ChunkWords, GROUP_SHIFT, GroupState};
use super::part::{CHUNK_FRAMES, PartState};
use super::zone::FullestZone;
use crate::{BankSize, Zone};

/// The lengths of the slices that a machine needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FullestNeeds {
    /// Zones but the first, which is a part of the allocator.
    pub zones: usize,
    /// Entries of the zonelists.
    pub zonelists: usize,
    /// Chunks of 2 MiB, in each of two slices.
    pub chunks: usize,
    /// Groups of chunks.
    pub groups: usize,
    /// Parts of banks.
    pub parts: usize,
    /// CPUs, for each zone.
    pub cpus: usize,
}

/// What a zone needs.
#[derive(Clone, Copy, Debug)]
pub struct ZoneNeeds {
    pub chunks: usize,
    pub groups: usize,
    pub parts: usize,
}

impl ZoneNeeds {
    pub fn of(zone: &Zone, bank: BankSize) -> Self {
        let base = bank.bank_of(zone.frames.start()) * bank.frames();
        // The largest block has two chunks.
        let frames = (zone.frames.last().number() + 1 - base).next_multiple_of(2 * CHUNK_FRAMES as u64);
        let chunks = usize::try_from(frames).expect("a zone is small enough") / CHUNK_FRAMES;
        let parts = usize::try_from(frames.div_ceil(bank.frames())).expect("a zone has few banks");
        let of_part = usize::try_from(bank.frames()).expect("a bank is small enough") / CHUNK_FRAMES;
        Self { chunks, groups: chunks.div_ceil(of_part.min(1 << GROUP_SHIFT)), parts }
    }
}

impl FullestNeeds {
    /// Returns what a machine of these zones and CPUs needs: about 65 KiB for each GiB of memory.
    #[must_use]
    pub fn of(zones: &[Zone], cpus: u32, bank: BankSize) -> Self {
        let count = zones.len();
        let start = Self {
            zones: count.saturating_sub(1),
            zonelists: count * count,
            cpus: count * cpus as usize,
            ..Self::default()
        };
        zones.iter().map(|zone| ZoneNeeds::of(zone, bank)).fold(start, |sum, zone| Self {
            chunks: sum.chunks + zone.chunks,
            groups: sum.groups + zone.groups,
            parts: sum.parts + zone.parts,
            ..sum
        })
    }
}

/// The slices of [`FullestBank`](super::FullestBank), each at least as long as [`FullestNeeds`] says. What they hold
/// before does not matter.
#[derive(Debug)]
pub struct FullestMemory<'a> {
    /// The zones but the first.
    pub zones: &'a mut [FullestZone<'a>],
    /// The order in which the requests of each node try the zones.
    pub zonelists: &'a mut [u32],
    /// A bit for each free frame of each chunk.
    pub words: &'a [ChunkWords],
    /// A bit for each retired frame of each chunk.
    pub retired: &'a [ChunkWords],
    /// Which chunks are free, in groups.
    pub groups: &'a [GroupState],
    /// The parts of banks.
    pub parts: &'a [PartState],
    /// The CPUs, for each zone.
    pub cpus: &'a [CpuState],
}

/// The slices of [`FullestMemory`], allocated.
#[cfg(feature = "alloc")]
#[derive(Debug)]
pub struct FullestSlices {
    zones: usize,
    zonelists: Vec<u32>,
    /// The bits of free frames, and of retired ones.
    bits: [Vec<ChunkWords>; 2],
    groups: Vec<GroupState>,
    parts: Vec<PartState>,
    cpus: Vec<CpuState>,
}

#[cfg(feature = "alloc")]
impl FullestSlices {
    /// Allocates what a machine of these zones and CPUs needs.
    #[must_use]
    pub fn of(zones: &[Zone], cpus: u32, bank: BankSize) -> Self {
        let needs = FullestNeeds::of(zones, cpus, bank);
        let bits = || (0..needs.chunks).map(|_| ChunkWords::default()).collect();
        Self {
            zones: needs.zones,
            zonelists: vec![0; needs.zonelists],
            bits: [bits(), bits()],
            groups: (0..needs.groups).map(|_| GroupState::default()).collect(),
            parts: (0..needs.parts).map(|_| PartState::default()).collect(),
            cpus: (0..needs.cpus).map(|_| CpuState::default()).collect(),
        }
    }

    /// Returns zones for [`lend`](Self::lend).
    #[must_use]
    pub fn vacant_zones<'a>(&self) -> Vec<FullestZone<'a>> {
        (0..self.zones).map(|_| FullestZone::default()).collect()
    }

    /// Returns all slices, for [`FullestBank::new`](super::FullestBank::new).
    pub fn lend<'a>(&'a mut self, zones: &'a mut [FullestZone<'a>]) -> FullestMemory<'a> {
        let Self { zonelists, bits: [words, retired], groups, parts, cpus, .. } = self;
        FullestMemory { zones, zonelists, words, retired, groups, parts, cpus }
    }
}
