//! The allocator of a whole machine.

use core::fmt;
use core::mem::MaybeUninit;

use rampart_memory::{Bytes, Frame, FrameBlock};

#[cfg(feature = "alloc")]
use crate::HeapStorage;
use crate::storage::StorageNeeds;
use crate::zone::ZoneAllocator;
use crate::zone_map::ZoneMap;
use crate::{
    Allocated, AllocatorStatistics, Cpu, End, Error, Footprint, FramePlace, FreeLists, LentStorage, ListName, Mark,
    Request, Storage, Watermarks, Zone, ZoneIndex,
};

/// The buddy system as in Linux.
///
/// Each operation takes a bounded number of steps, whatever the size of the machine, and tests assert the formulas
/// (`step_tests`). A block of order k is cut, or merged, 10 - k times at most. An allocation looks at 3 (11 - k) lists
/// of each zone, three times at most, and may move the free blocks of one pageblock to other lists, of which there are
/// at most 256. One that fills the list of a CPU looks at that many lists for each of
/// [`LOCAL_BATCH`](crate::LOCAL_BATCH) frames, and at the frames of one pageblock for each; it moves at most 256 blocks
/// and one per frame. A request that finds nothing, a claim and the retirement of a frame on the list of a CPU empty
/// the lists of all CPUs, with at most [`LOCAL_HIGH`](crate::LOCAL_HIGH) and two batches of frames for each CPU and
/// zone. A free of a block with a retired frame looks at each of its 2^k frames once per order. [`FreeLists::remark`]
/// visits every frame.
pub struct Buddy<'a, M: Mark, S: Storage<'a> = LentStorage<'a>> {
    zones: S::Array<ZoneAllocator<'a, M, S>>,
    map: ZoneMap<'a, S>,
    refused: u64,
}

#[cfg(feature = "alloc")]
impl<M: Mark> Buddy<'static, M, HeapStorage> {
    /// Returns an allocator for a machine of these zones, which may have holes between them, and `cpus` CPUs. All
    /// frames are free and movable, with the mark `mark`, and the lowest frames of a zone are at the front.
    ///
    /// # Errors
    /// If there is no zone or no CPU, if zones overlap or are too large.
    pub fn new(zones: &[Zone], cpus: u32, mark: M) -> Result<Self, Error> {
        check_cpus(cpus)?;
        Self::build(&HeapStorage, zones, cpus, mark)
    }

    /// Returns such an allocator without lists of the CPUs: single frames come from the global lists too. Any CPU may
    /// use it. It is there to see what those lists are worth.
    ///
    /// # Errors
    /// If there is no zone, if zones overlap or are too large.
    pub fn without_local_lists(zones: &[Zone], mark: M) -> Result<Self, Error> {
        Self::build(&HeapStorage, zones, 0, mark)
    }
}

impl<'a, M: Mark> Buddy<'a, M> {
    /// Returns how much memory [`Buddy::within`] needs for a machine.
    ///
    /// # Errors
    /// As `within`.
    pub fn needs(zones: &[Zone], cpus: u32) -> Result<Bytes, Error> {
        check_cpus(cpus)?;
        StorageNeeds::of(|measure| Buddy::build(measure, zones, cpus, M::UNKNOWN).map(drop))
    }

    /// Returns an allocator with its structures in this memory, whatever that holds; else as `new` does.
    ///
    /// # Errors
    /// If there is no zone or no CPU, if zones overlap or are too large, if the memory does not suffice.
    pub fn within(memory: &'a mut [MaybeUninit<u8>], zones: &[Zone], cpus: u32, mark: M) -> Result<Self, Error> {
        check_cpus(cpus)?;
        Self::build(&LentStorage::of(memory), zones, cpus, mark)
    }
}

impl<'a, M: Mark, S: Storage<'a>> Buddy<'a, M, S> {
    fn build(storage: &S, zones: &[Zone], cpus: u32, mark: M) -> Result<Self, Error> {
        let map = ZoneMap::new(storage, zones)?;
        let machine = zones.iter().map(|zone| zone.frames.count()).sum();
        let allocator = |index: usize| {
            let watermarks = Watermarks::of(zones[index].frames.count(), machine);
            ZoneAllocator::new(storage, (ZoneIndex(index), zones[index]), cpus, watermarks, mark)
        };
        let mut zones = storage.array(zones.len(), allocator)?;
        zones.iter_mut().for_each(|zone| zone.begin(mark));
        Ok(Self { zones, map, refused: 0 })
    }

    /// Returns the memory of the structures of its zones.
    #[must_use]
    pub fn footprint(&self) -> Footprint {
        self.zones.iter().map(ZoneAllocator::footprint).sum()
    }

    /// Allocates from the first zone of the request's zonelist that keeps `floor` frames free.
    fn first(&mut self, request: &Request, floor: impl Fn(Watermarks) -> u64) -> Option<Allocated<M>> {
        let Self { zones, map, .. } = self;
        map.zonelist(request.node).iter().find_map(|&zone| {
            let zone = &mut zones[zone];
            zone.allocate(request, floor(zone.watermarks()))
        })
    }

    /// Allocates for a request that every zone refused at its low watermark.
    #[cold]
    fn allocate_below_low(&mut self, request: &Request) -> Option<Allocated<M>> {
        let floor = |marks: Watermarks| if request.urgent { 0 } else { marks.min };
        let allocated =
            self.first(request, floor).or_else(|| if self.drain_all() > 0 { self.first(request, floor) } else { None });
        self.refused += u64::from(allocated.is_none());
        allocated
    }

    fn drain_all(&mut self) -> u64 {
        self.zones.iter_mut().map(ZoneAllocator::drain_all).sum()
    }

    fn owner(&mut self, block: FrameBlock) -> &mut ZoneAllocator<'a, M, S> {
        let zone = self.map.zone_of(block.first());
        let zone = zone.unwrap_or_else(|| panic!("the block {block} is given back but lies in no zone"));
        &mut self.zones[zone]
    }
}

impl<'a, M: Mark, S: Storage<'a>> FreeLists for Buddy<'a, M, S> {
    type Mark = M;

    /// Tries the zones down to the low watermark, then down to min, or to the last frame if the request is urgent; then
    /// once more with the frames of the lists of the CPUs (`__alloc_pages_slowpath` in mm/page_alloc.c, Linux 3.1).
    fn allocate(&mut self, request: Request) -> Option<Allocated<M>> {
        let allocated = self.first(&request, |marks| marks.low);
        if allocated.is_some() { allocated } else { self.allocate_below_low(&request) }
    }

    fn free(&mut self, block: FrameBlock, cpu: Cpu, mark: M, end: End) {
        self.owner(block).free(block, cpu, mark, end);
    }

    fn claim(&mut self, block: FrameBlock) -> Option<M> {
        let zone = self.map.zone_of(block.first())?;
        self.zones[zone].claim(block)
    }

    fn carve(&mut self, block: FrameBlock) -> Option<M> {
        let zone = self.map.zone_of(block.first())?;
        self.zones[zone].carve(block)
    }

    fn drain(&mut self) -> u64 {
        self.drain_all()
    }

    fn put(&mut self, block: FrameBlock, mark: M, end: End) {
        self.owner(block).put(block, mark, end);
    }

    fn split(&mut self, block: FrameBlock) {
        self.owner(block).split(block);
    }

    fn blocks(&self, list: ListName, end: End) -> impl Iterator<Item = (FrameBlock, M)> {
        self.zones[list.zone.0].blocks(list.order, list.migratetype, end)
    }

    fn retire(&mut self, frame: Frame) -> FramePlace {
        self.map.zone_of(frame).map_or(FramePlace::Absent, |zone| self.zones[zone].retire(frame))
    }

    fn place(&self, frame: Frame) -> FramePlace {
        self.map.zone_of(frame).map_or(FramePlace::Absent, |zone| self.zones[zone].place(frame))
    }

    fn remark(&mut self, mut mark: impl FnMut(M) -> M) {
        for zone in &mut *self.zones {
            zone.marks_mut().iter_mut().for_each(|old| *old = mark(*old));
        }
    }

    fn zones(&self) -> impl Iterator<Item = (ZoneIndex, Zone)> {
        self.zones.iter().enumerate().map(|(index, zone)| (ZoneIndex(index), zone.zone()))
    }

    fn length(&self, list: ListName) -> u64 {
        self.zones[list.zone.0].lists().length(list.order, list.migratetype)
    }

    fn allocated_from(&self, list: ListName) -> u64 {
        self.zones[list.zone.0].lists().allocated(list.order, list.migratetype)
    }

    fn free_frames(&self, zone: ZoneIndex) -> u64 {
        self.zones[zone.0].lists().free_frames()
    }

    fn local_frames(&self, zone: ZoneIndex, cpu: Cpu) -> u64 {
        self.zones[zone.0].local_frames(cpu)
    }

    fn watermarks(&self, zone: ZoneIndex) -> Watermarks {
        self.zones[zone.0].watermarks()
    }

    fn statistics(&self) -> AllocatorStatistics {
        let own = AllocatorStatistics { refused: self.refused, ..AllocatorStatistics::default() };
        self.zones.iter().fold(own, |sum, zone| sum + zone.statistics())
    }
}

impl<'a, M: Mark, S: Storage<'a>> fmt::Debug for Buddy<'a, M, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buddy of {} zones", self.zones.len())
    }
}

/// Refuses a number of CPUs that no machine has.
pub fn check_cpus(cpus: u32) -> Result<(), Error> {
    match cpus {
        0 => Err(Error::NoCpu),
        1..=Cpu::MOST => Ok(()),
        more => Err(Error::TooManyCpus(more)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Migratetype::Movable;
    use crate::testing::{frame, machine, request, urgent, zone};
    use crate::{
        AllocationOrigin,
        ZoneKind::{Dma, Normal},
    };
    use rampart_memory::Node;

    /// Two nodes, as on the machine of [Rahman16, 5.3], but small; a hole lies between the nodes.
    fn two_nodes() -> Buddy<'static, (), HeapStorage> {
        let zones = [zone(0, Dma, 1, 3071), zone(0, Normal, 8192, 4096), zone(1, Normal, 65_536, 4096)];
        Buddy::new(&zones, 2, ()).unwrap()
    }

    /// Returns the zones that large blocks come from, until there are none.
    fn zones_of_requests(buddy: &mut Buddy<'static, (), HeapStorage>, node: u32) -> Vec<usize> {
        let request_of_64 = Request { node: Node(node), ..request(6, Movable) };
        let mut zones: Vec<usize> = core::iter::from_fn(|| buddy.allocate(request_of_64))
            .map(|got| match got.from {
                AllocationOrigin::Global(list) => list.zone.0,
                AllocationOrigin::Local(_) => panic!("only single frames are kept by CPUs"),
            })
            .collect();
        zones.dedup();
        zones
    }

    #[test]
    fn a_request_tries_its_node_then_the_others_the_highest_zone_first() {
        assert!(zones_of_requests(&mut two_nodes(), 0).starts_with(&[1, 0, 2]));
        assert!(zones_of_requests(&mut two_nodes(), 1).starts_with(&[2, 1, 0]));
        assert!(zones_of_requests(&mut two_nodes(), 7).starts_with(&[1, 0, 2]), "a node without memory");
    }

    #[test]
    fn the_other_nodes_follow_in_a_ring() {
        let zones = [0, 1, 2].map(|node| zone(node, Normal, u64::from(node) * 4096, 4096));
        let mut buddy = Buddy::new(&zones, 1, ()).unwrap();
        assert!(zones_of_requests(&mut buddy, 1).starts_with(&[1, 2, 0]));
    }

    #[test]
    fn the_reserve_is_for_urgent_requests() {
        let mut buddy = two_nodes();
        zones_of_requests(&mut buddy, 0);
        for (zone, _) in buddy.zones().collect::<Vec<_>>() {
            let (free, min) = (buddy.free_frames(zone), buddy.watermarks(zone).min);
            // Blocks smaller than asked for are left besides: up to 63 frames at the start of a zone that begins
            // anywhere.
            assert!((min..min + 64 + 63).contains(&free), "{free} of {min}");
        }
        assert_eq!(buddy.allocate(request(6, Movable)), None);
        assert_eq!(buddy.statistics().refused, 2);
        while buddy.allocate(urgent(0, Movable)).is_some() {}
        assert!(buddy.zones().all(|(zone, _)| buddy.free_frames(zone) == 0));
    }

    #[test]
    fn no_request_but_an_urgent_one_goes_below_min_even_to_fill_a_cpus_list() {
        let mut buddy = machine(1024);
        let min = buddy.watermarks(ZoneIndex(0)).min;
        while buddy.allocate(request(0, Movable)).is_some() {
            assert!(buddy.free_frames(ZoneIndex(0)) >= min);
        }
        assert_eq!(buddy.free_frames(ZoneIndex(0)), min, "all but the reserve was given");
    }

    #[test]
    fn zones_may_begin_and_end_anywhere() {
        let buddy = Buddy::new(&[zone(3, Normal, 5, 1500)], 1, ()).unwrap();
        assert_eq!(buddy.free_frames(ZoneIndex(0)), 1500);
        assert_eq!((buddy.place(frame(4)), buddy.place(frame(1505))), (FramePlace::Absent, FramePlace::Absent));
        let mut covered: Vec<u64> = buddy
            .lists()
            .flat_map(|list| buddy.blocks(list, End::Front).flat_map(|(block, ())| block.frames()).collect::<Vec<_>>())
            .map(Frame::number)
            .collect();
        covered.sort_unstable();
        assert!(covered.into_iter().eq(5..1505));
    }

    #[test]
    fn what_is_no_machine_is_refused() {
        let refusal = |zones: &[Zone], cpus| Buddy::new(zones, cpus, ()).err();
        let good = zone(0, Normal, 1000, 100);
        assert_eq!(refusal(&[good], 1), None);
        assert_eq!(refusal(&[], 1), Some(Error::NoZone));
        assert_eq!(refusal(&[good], 0), Some(Error::NoCpu));
        assert_eq!(Buddy::<()>::needs(&[good], 0), Err(Error::NoCpu));
        let mut memory = [MaybeUninit::uninit(); 1 << 15];
        assert_eq!(Buddy::within(&mut memory, &[good], 0, ()).err(), Some(Error::NoCpu));
        assert_eq!(Buddy::within(&mut memory, &[good], 1, ()).err(), None);
        assert_eq!(refusal(&[good], Cpu::MOST + 1), Some(Error::TooManyCpus(Cpu::MOST + 1)));
        assert_eq!(refusal(&[good, zone(1, Normal, 900, 101)], 1), Some(Error::Overlap(frame(1000))));
        assert_eq!(
            refusal(&[zone(0, Normal, 0, Zone::MOST_FRAMES + 1)], 1),
            Some(Error::TooLarge(Zone::MOST_FRAMES + 1))
        );
    }
}
