//! The memory that the caller hands in.

#[cfg(feature = "alloc")]
use alloc::{vec, vec::Vec};

use super::cpu::{CHUNK_WORDS, CpuState};
use super::part::{CHUNK_FRAMES, PartState};
use super::sync::AtomicU64;
use super::zone::{FullestZone, MAP_CHUNKS};
use crate::{BankSize, Zone};

/// The lengths of the slices that a machine needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FullestNeeds {
    /// Zones.
    pub zones: usize,
    /// Entries of the zonelists.
    pub zonelists: usize,
    /// Words of bits, in each of two slices.
    pub words: usize,
    /// Words of the maps of chunks, in each of two slices.
    pub maps: usize,
    /// Parts of banks.
    pub parts: usize,
    /// CPUs, for each zone.
    pub cpus: usize,
}

/// What a zone needs.
#[derive(Clone, Copy, Debug)]
pub struct ZoneNeeds {
    pub words: usize,
    pub maps: usize,
    pub parts: usize,
}

impl ZoneNeeds {
    pub fn of(zone: &Zone, bank: BankSize) -> Self {
        let base = bank.bank_of(zone.frames.start()) * bank.frames();
        // The largest block has two chunks.
        let frames = (zone.frames.last().number() + 1 - base).next_multiple_of(2 * CHUNK_FRAMES as u64);
        let chunks = usize::try_from(frames).expect("a zone is small enough") / CHUNK_FRAMES;
        let parts = usize::try_from(frames.div_ceil(bank.frames())).expect("a zone has few banks");
        Self { words: chunks * CHUNK_WORDS, maps: chunks.div_ceil(MAP_CHUNKS), parts }
    }
}

impl FullestNeeds {
    /// Returns what a machine of these zones and CPUs needs: about 64 KiB for each GiB of memory.
    #[must_use]
    pub fn of(zones: &[Zone], cpus: u32, bank: BankSize) -> Self {
        let count = zones.len();
        let start = Self { zones: count, zonelists: count * count, cpus: count * cpus as usize, ..Self::default() };
        zones.iter().map(|zone| ZoneNeeds::of(zone, bank)).fold(start, |sum, zone| Self {
            words: sum.words + zone.words,
            maps: sum.maps + zone.maps,
            parts: sum.parts + zone.parts,
            ..sum
        })
    }
}

/// The slices of [`FullestBank`](super::FullestBank), each at least as long as [`FullestNeeds`] says. What they hold
/// before does not matter.
#[derive(Debug)]
pub struct FullestMemory<'a> {
    /// The zones.
    pub zones: &'a mut [FullestZone<'a>],
    /// The order in which the requests of each node try the zones.
    pub zonelists: &'a mut [u32],
    /// A bit for each free frame.
    pub words: &'a [AtomicU64],
    /// A bit for each retired frame.
    pub retired: &'a [AtomicU64],
    /// A bit for each chunk all of which is free.
    pub whole: &'a [AtomicU64],
    /// A bit for each chunk with free frames.
    pub some: &'a [AtomicU64],
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
    /// Words of free frames, of retired ones, of whole chunks, and of chunks with free frames.
    bits: [Vec<AtomicU64>; 4],
    parts: Vec<PartState>,
    cpus: Vec<CpuState>,
}

#[cfg(feature = "alloc")]
impl FullestSlices {
    /// Allocates what a machine of these zones and CPUs needs.
    #[must_use]
    pub fn of(zones: &[Zone], cpus: u32, bank: BankSize) -> Self {
        let needs = FullestNeeds::of(zones, cpus, bank);
        let bits = |words: usize| (0..words).map(|_| AtomicU64::default()).collect();
        Self {
            zones: needs.zones,
            zonelists: vec![0; needs.zonelists],
            bits: [bits(needs.words), bits(needs.words), bits(needs.maps), bits(needs.maps)],
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
        let Self { zonelists, bits: [words, retired, whole, some], parts, cpus, .. } = self;
        FullestMemory { zones, zonelists, words, retired, whole, some, parts, cpus }
    }
}
