//! `FullestBank`: an allocator without lists of blocks, which fills the fullest bank first.
//!
//! **Problem.** `AdaptiveBuddy` keeps the pages of the kernel in few banks. But when a bank changes its pool, each free
//! block of the bank changes its list: the slowest allocation took 21 µs [Panwar15, table 6.1]. And lists need a lock.
//! **Idea.** A bit for each frame says whether the frame is free. So a bank changes its pool by one store, whatever is
//! in it, and buddies need no merging: a block is free if its bits are set. Each bank counts its free frames, and the
//! fullest bank with room gets the next page, so the others empty by themselves. A CPU *reserves* 2 MiB (a *chunk*) and
//! allocates there alone; so to allocate or free one page takes one atomic operation on one word. **Why this way.** The
//! bits are the only truth. Reservations, maps of chunks, counts and lists of banks are hints. A hint can be out of
//! date; no frame is given twice for that, and a search that finds nothing by hints reads the bits before it refuses.
//!
//! The parts: [`word`] has the bits of 64 frames, [`group`] the state of 32 chunks; `at_hand`, `take`, `give` and
//! `claim` change them; `pools` chooses the bank, or the [`mod@unit`] of interleaved banks; [`lists`] has these by
//! fullness; [`cpu`] what a CPU keeps for itself.
//!
//! A chunk all of which is free is one bit of its group, and its words are zero; so is one that is held as a whole,
//! with another bit of the same word. So a block of 2 or 4 MiB takes one operation too, and tells whether it is held.
//! Each CPU prefers groups in which no other CPU allocates, in the same bank: so two CPUs fill the fullest bank
//! together, but change different cache lines.
//!
//! Steps, at most: an allocation looks at 16 units of each of two pools, and in each at 128 chunks that are partly
//! free. Only if it finds nothing, it reads every word once, and again if another thread moved several words
//! meanwhile. `step_tests` has the formula.
//! LLFree \[Wrenger23\] has bits and reservations too, but neither pools nor an order of banks.

mod at_hand;
mod claim;
#[cfg(all(test, not(any(loom, shuttle))))]
mod counted;
mod cpu;
mod give;
mod group;
mod lists;
mod memory;
mod part;
mod pools;
mod sync;
mod take;
mod unit;
mod word;
mod zone;
mod zones;

use rampart_memory::{BlockOrder, Frame, FrameBlock, Node};

pub use cpu::CpuState;
pub use group::{ChunkWords, GroupState};
#[cfg(feature = "alloc")]
pub use memory::FullestSlices;
pub use memory::{FullestMemory, FullestNeeds};
pub use part::PartState;
pub use zone::FullestZone;

use crate::buddy::check_cpus;
use crate::zone_map::{check_zones, rank};
use crate::{
    AllocatorStatistics, BankPart, BankPool, BankPools, BankSets, BankSize, Cpu, Error, Footprint, FramePlace,
    PageAllocator, Request, Watermarks, Zone, ZoneIndex,
};
use cpu::PageUser;
use memory::ZoneNeeds;
use part::PartFlags;
use pools::Banks;
use sync::Ordering::{Relaxed, SeqCst};
use zone::ZoneSlices;
use zones::FullestZones;

/// An allocator that fills the fullest bank first, shared by threads without a lock on its usual path.
///
/// It keeps no record of blocks, only of frames. So it notices that frames are given back that are not held, but not
/// that only a part of a block is.
///
/// Banks of one of the [`BankSets`] are one unit: they change their pool together, and are isolated for as long as any
/// of them is. A set with a partial bank, or with banks in two zones, is the kernel's for good.
#[derive(Debug)]
pub struct FullestBank<'a> {
    zones: FullestZones<'a>,
    zonelists: &'a [u32],
}

impl<'a> FullestBank<'a> {
    /// Returns an allocator for a machine of these zones and CPUs. All frames are free.
    ///
    /// # Errors
    /// If there is no zone or no CPU, if zones overlap or are too large, if a slice of `memory` is too short.
    pub fn new(
        zones: &[Zone],
        cpus: u32,
        bank: BankSize,
        sets: &BankSets<'_>,
        memory: FullestMemory<'a>,
    ) -> Result<Self, Error> {
        check_zones(zones)?;
        check_cpus(cpus)?;
        let needs = FullestNeeds::of(zones, cpus, bank);
        let FullestMemory { zones: others, zonelists, words, retired, groups, parts, cpus: cpu_states } = memory;
        let lengths = [
            (others.len(), needs.zones),
            (zonelists.len(), needs.zonelists),
            (words.len().min(retired.len()), needs.chunks),
            (groups.len(), needs.groups),
            (parts.len(), needs.parts),
            (cpu_states.len(), needs.cpus),
        ];
        if lengths.iter().any(|(length, needed)| length < needed) {
            return Err(Error::TooLittleMemory);
        }
        let bits = words[..needs.chunks].iter().chain(&retired[..needs.chunks]);
        bits.flat_map(|chunk| &chunk.0).for_each(|word| word.store(0, Relaxed));
        let machine = zones.iter().map(|zone| zone.frames.count()).sum();
        let (mut first, others) = (FullestZone::default(), &mut others[..needs.zones]);
        let states = core::iter::once(&mut first).chain(others.iter_mut());
        let (mut chunk, mut group, mut part) = (0, 0, 0);
        let cpus = cpus as usize;
        for (index, (zone, state)) in zones.iter().zip(states).enumerate() {
            let need = ZoneNeeds::of(zone, bank);
            let memory = ZoneSlices {
                words: &words[chunk..chunk + need.chunks],
                retired: &retired[chunk..chunk + need.chunks],
                groups: &groups[group..group + need.groups],
                parts: &parts[part..part + need.parts],
                cpus: &cpu_states[index * cpus..(index + 1) * cpus],
            };
            memory.cpus.iter().enumerate().for_each(|(number, cpu)| cpu.begin(number));
            *state = FullestZone::default();
            state.begin(*zone, bank, Watermarks::of(zone.frames.count(), machine), memory);
            (chunk, group, part) = (chunk + need.chunks, group + need.groups, part + need.parts);
        }
        fill_zonelists(zones, zonelists);
        let zones = FullestZones { first, others };
        form_sets(&zones, bank, *sets);
        zones.iter().for_each(FullestZone::begin_lists);
        Ok(Self { zones, zonelists: &zonelists[..needs.zonelists] })
    }

    /// Returns the memory of the structures of its zones and banks.
    #[must_use]
    pub fn footprint(&self) -> Footprint {
        self.zones.iter().map(FullestZone::footprint).sum()
    }

    /// Returns the zones that a request for a node tries, in order: as [`Buddy`](crate::Buddy) does.
    #[inline(never)]
    fn zonelist(&self, node: Node) -> &[u32] {
        let count = self.zones.len();
        let of = |list: usize| &self.zonelists[list * count..(list + 1) * count];
        let has = |list: &usize| self.zones[*list].node().is_some_and(|own| own >= node);
        // A node without memory has the list of the node after it, or of the first.
        let next = (0..count).filter(has).min_by_key(|list| self.zones[*list].node());
        of(next.or_else(|| (0..count).min_by_key(|list| self.zones[*list].node())).unwrap_or(0))
    }

    /// Returns the zone that a request tries first. With a single zone, no list is read, which shortens the chain of
    /// loads.
    #[inline]
    fn first_zone(&self, request: &Request) -> &FullestZone<'a> {
        self.zones.only().unwrap_or_else(|| &self.zones[self.zonelist(request.node)[0] as usize])
    }

    /// Allocates a frame in the usual case.
    #[inline]
    fn allocate_frame(&self, request: &Request) -> Option<FrameBlock> {
        let zone = self.first_zone(request);
        let slot = zone.allocate_frame((zone.cpu(request.cpu), PageUser::of(request.migratetype)))?;
        Some(zone.block(slot, BlockOrder::ZERO))
    }

    /// Allocates a block where the CPU took the last one, or wherever there is one.
    #[inline(never)]
    fn allocate_block(&self, request: &Request) -> Option<FrameBlock> {
        let zone = self.first_zone(request);
        let cpu = (zone.cpu(request.cpu), PageUser::of(request.migratetype));
        let at_hand = zone.allocate_at_hand(request.order, cpu).map(|slot| zone.block(slot, request.order));
        at_hand.or_else(|| self.search(request))
    }

    /// Allocates a block wherever there is one.
    #[cold]
    fn search(&self, request: &Request) -> Option<FrameBlock> {
        self.first(request, |marks| marks.low).or_else(|| self.allocate_below_low(request))
    }

    /// Allocates a block if `floor` frames stay free. Memory stays on its node as long as that has room: in the banks
    /// in use of all its zones, then in offline ones. Programs take room of the kernel only if no node has other memory
    /// for them, else they would push the kernel into more banks. The kernel takes a bank of programs before it leaves
    /// its node, unless the bank is almost full: such a bank serves few requests, so the kernel would soon take the
    /// next.
    fn first(&self, request: &Request, floor: impl Fn(Watermarks) -> u64) -> Option<FrameBlock> {
        let zonelist = self.zonelist(request.node);
        let node = |zone: u32| self.zones[zone as usize].node();
        let mut nodes = zonelist.chunk_by(|&zone, &next| node(zone) == node(next));
        let search = |zones: &[u32], banks: &[Banks]| {
            banks.iter().find_map(|&banks| self.first_in(zones, request, &floor, banks))
        };
        match PageUser::of(request.migratetype) {
            PageUser::Program => nodes
                .find_map(|zones| search(zones, &[Banks::Own, Banks::Offline]))
                .or_else(|| search(zonelist, &[Banks::Others])),
            PageUser::Kernel => nodes
                .find_map(|zones| search(zones, &[Banks::Own, Banks::Offline, Banks::Roomy]))
                .or_else(|| search(zonelist, &[Banks::Others])),
        }
    }

    fn first_in(
        &self,
        zones: &[u32],
        request: &Request,
        floor: &impl Fn(Watermarks) -> u64,
        banks: Banks,
    ) -> Option<FrameBlock> {
        let (user, cpu) = (PageUser::of(request.migratetype), request.cpu.0 as usize);
        zones.iter().find_map(|&zone| {
            let zone = &self.zones[zone as usize];
            let slot = zone.allocate(request.order, (cpu, user), floor(zone.watermarks()), banks)?;
            Some(zone.block(slot, request.order))
        })
    }

    #[cold]
    fn allocate_below_low(&self, request: &Request) -> Option<FrameBlock> {
        let allocated = self.first(request, |marks| if request.urgent { 0 } else { marks.min });
        if allocated.is_none() {
            self.zones[0].cpu(request.cpu).count_refused();
        }
        allocated
    }

    /// Returns the zone of a part, its index, and the part's number in it.
    fn part_in_zone(&self, part: usize) -> (&FullestZone<'a>, ZoneIndex, usize) {
        let mut number = part;
        for (index, zone) in self.zones.iter().enumerate() {
            match number.checked_sub(zone.parts()) {
                None => return (zone, ZoneIndex(index), number),
                Some(rest) => number = rest,
            }
        }
        panic!("the machine has no part {part} of a bank");
    }
}

impl PageAllocator for FullestBank<'_> {
    #[inline]
    fn allocate(&self, request: Request) -> Option<FrameBlock> {
        let usual = if request.order == BlockOrder::ZERO { self.allocate_frame(&request) } else { None };
        usual.or_else(|| self.allocate_block(&request))
    }

    #[inline]
    fn free(&self, block: FrameBlock, cpu: Cpu) {
        let Some(zone) = self.zones.of(block.first()) else { lies_in_no_zone(block) };
        let (slot, cpu) = (zone.slot(block.first()), zone.cpu(cpu));
        if block.order() > BlockOrder::ZERO || !zone.free_frame(slot, cpu) {
            zone.free(slot, block.order(), cpu);
        }
    }

    fn claim(&self, block: FrameBlock) -> bool {
        let zone = self.zones.of(block.first());
        zone.is_some_and(|zone| zone.claim(zone.slot(block.first()), block.order()))
    }

    fn retire(&self, frame: Frame) -> FramePlace {
        self.zones.of(frame).map_or(FramePlace::Absent, |zone| zone.retire(zone.slot(frame)))
    }

    fn place(&self, frame: Frame) -> FramePlace {
        self.zones.of(frame).map_or(FramePlace::Absent, |zone| zone.place(zone.slot(frame)))
    }

    fn zone(&self, zone: ZoneIndex) -> Option<Zone> {
        self.zones.get(zone.0).and_then(FullestZone::zone)
    }

    fn free_frames(&self, zone: ZoneIndex) -> u64 {
        self.zones[zone.0].free_frames()
    }

    fn watermarks(&self, zone: ZoneIndex) -> Watermarks {
        self.zones[zone.0].watermarks()
    }

    fn statistics(&self) -> AllocatorStatistics {
        self.zones.iter().fold(AllocatorStatistics::default(), |sum, zone| {
            let (allocated, freed, refused) = zone.cpu_counts();
            let (steals, retired) = (zone.steals.load(SeqCst), zone.retired.load(SeqCst));
            sum + AllocatorStatistics { allocated, freed, refused, steals, retired, ..AllocatorStatistics::default() }
        })
    }
}

impl BankPools for FullestBank<'_> {
    fn parts(&self) -> usize {
        self.zones.iter().map(FullestZone::parts).sum()
    }

    fn part(&self, part: usize) -> BankPart {
        let (zone, index, part) = self.part_in_zone(part);
        zone.bank_part(part, index)
    }

    fn pool(&self, part: usize) -> BankPool {
        let (zone, _, part) = self.part_in_zone(part);
        zone.part(zone.part(part).unit()).flags().pool()
    }

    fn isolate(&self, part: usize) -> bool {
        let (zone, _, part) = self.part_in_zone(part);
        zone.isolate(part)
    }

    fn rejoin(&self, part: usize) {
        let (zone, _, part) = self.part_in_zone(part);
        zone.rejoin(part);
    }
}

/// Panics, in a function of its own: the message keeps the block in memory, which costs every free else.
#[cold]
#[inline(never)]
fn lies_in_no_zone(block: FrameBlock) -> ! {
    panic!("the block {block} is given back but lies in no zone");
}

/// Makes the banks of each set one unit. If a set has banks in several zones, no bank of it goes offline, as with a
/// bank that lies in several zones. Of the banks in a set, each is compared with all.
fn form_sets(zones: &FullestZones<'_>, bank: BankSize, sets: BankSets<'_>) {
    let bank_at =
        |zone: &FullestZone<'_>, part| bank.bank_of(Frame::new(zone.part_frames(part).start).expect("a frame"));
    let part_of = |zone: &FullestZone<'_>, number: u64| {
        let part = usize::try_from(number.checked_sub(bank_at(zone, 0))?).ok()?;
        (part < zone.parts()).then_some(part)
    };
    for (index, zone) in zones.iter().enumerate() {
        for part in 0..zone.parts() {
            let parts = sets.company(bank_at(zone, part)).flat_map(|number| {
                zones.iter().enumerate().filter_map(move |(index, zone)| Some((index, part_of(zone, number)?)))
            });
            let (home, first) = parts.min().expect("the part itself");
            if (home, first) == (index, part) {
                continue;
            }
            if home == index {
                zone.join(first, part);
            } else {
                zone.part(part).set_flags(PartFlags::partial());
                zones[home].part(first).set_flags(PartFlags::partial());
            }
        }
    }
}

/// Fills in the zonelist of the node of each zone.
fn fill_zonelists(zones: &[Zone], lists: &mut [u32]) {
    for (list, own) in lists.chunks_exact_mut(zones.len()).zip(zones) {
        for (place, zone) in list.iter_mut().zip(0..) {
            *place = zone;
        }
        list.sort_unstable_by_key(|&zone| rank(own.node, &zones[zone as usize]));
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, loom))]
mod loom_threes;
#[cfg(all(test, not(any(loom, shuttle))))]
mod pass_tests;
#[cfg(all(test, not(any(loom, shuttle))))]
mod set_tests;
#[cfg(all(test, shuttle))]
mod shuttle_tests;
#[cfg(all(test, any(loom, shuttle)))]
mod small;
#[cfg(all(test, not(any(loom, shuttle))))]
mod step_tests;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
