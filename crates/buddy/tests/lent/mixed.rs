//! Mixed operations on an allocator, from a seed, whose results are folded into one number.

use rampart_buddy::{
    BankPools, Cpu, End, FramePlace, FreeLists, ListName, Mark, Migratetype, PageAllocator, Request, ZoneIndex,
};
use rampart_memory::{BlockOrder, Frame, FrameBlock, Node};

/// Frames 0 to here are in zones or in the hole between them.
pub const FRAMES: u64 = 24 * 1024;

/// How often each kind of operation had an effect.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Effects {
    pub allocated: u64,
    pub refused: u64,
    pub freed: u64,
    pub claimed: u64,
    pub retired: u64,
    pub isolated: u64,
    pub rejoined: u64,
    pub drained: u64,
    pub looked: u64,
}

/// What operations need besides the allocator. Nothing in it grows.
pub struct Mixed {
    state: u64,
    held: Vec<FrameBlock>,
    pub effects: Effects,
}

impl Mixed {
    pub fn new(seed: u64) -> Self {
        Self { state: seed, held: Vec::with_capacity(FRAMES as usize), effects: Effects::default() }
    }

    /// Performs so many operations on an allocator with or without pools.
    pub fn on_pages(&mut self, operations: u32, pages: &impl PageAllocator, pools: Option<&dyn BankPools>) {
        for _ in 0..operations {
            match (self.below(64), pools) {
                (0..28, _) => {
                    let request = self.request();
                    let got = pages.allocate(request);
                    self.effects.allocated += u64::from(got.is_some());
                    self.effects.refused += u64::from(got.is_none());
                    self.held.extend(got);
                }
                (28..56, _) => {
                    if let Some(block) = self.pick() {
                        pages.free(block, self.cpu());
                        self.effects.freed += 1;
                    }
                }
                (56..58, _) => {
                    let block = self.block();
                    if pages.claim(block) {
                        self.held.push(block);
                        self.effects.claimed += 1;
                    }
                }
                (58, _) if self.below(64) == 0 => {
                    let was = pages.retire(self.frame());
                    self.effects.retired += u64::from(matches!(was, FramePlace::Free(_) | FramePlace::Held));
                }
                (59..61, Some(pools)) => self.on_pool(pools),
                _ => {
                    let (frame, zone) = (self.frame(), ZoneIndex(self.below(3) as usize));
                    assert!(pages.zone(zone).is_some() && pages.watermarks(zone).min > 0);
                    let seen = pages.free_frames(zone) + pages.statistics().splits;
                    self.effects.looked += u64::from(pages.place(frame) != FramePlace::Absent && seen > 0);
                }
            }
        }
    }

    fn on_pool(&mut self, pools: &dyn BankPools) {
        let part = self.below(pools.parts() as u64) as usize;
        if self.below(2) == 0 {
            self.effects.isolated += u64::from(pools.isolate(part));
            return;
        }
        for part in 0..pools.parts() {
            pools.rejoin(part);
        }
        pools.put_best_first();
        self.effects.rejoined += 1;
    }

    /// Performs so many operations on the lists of an allocator.
    pub fn on_lists<L: FreeLists>(&mut self, operations: u32, lists: &mut L) {
        let (mark, ends) = (L::Mark::UNKNOWN, [End::Front, End::Back]);
        for _ in 0..operations {
            let end = ends[self.below(2) as usize];
            match self.below(16) {
                0..6 => {
                    let got = lists.allocate(self.request()).map(|got| got.block);
                    self.effects.allocated += u64::from(got.is_some());
                    self.effects.refused += u64::from(got.is_none());
                    self.held.extend(got);
                }
                6..12 => {
                    if let Some(block) = self.pick() {
                        lists.free(block, self.cpu(), mark, end);
                        self.effects.freed += 1;
                    }
                }
                12 => {
                    let block = self.block();
                    if lists.carve(block).or_else(|| lists.claim(block)).is_some() {
                        self.held.push(block);
                        self.effects.claimed += 1;
                    }
                }
                13 => {
                    let taken = lists.take(self.list(), end).map(|(block, _)| block);
                    if let Some(block) = taken {
                        lists.put(block, mark, end);
                    }
                    if self.below(64) == 0 {
                        self.effects.drained += u64::from(lists.drain() > 0);
                        lists.remark(|old| old);
                        self.effects.retired += u64::from(lists.retire(self.frame()) != FramePlace::Retired);
                    }
                }
                14 => {
                    if let Some(block) = self.pick() {
                        lists.split(block);
                        block.frames().for_each(|frame| lists.put(FrameBlock::of(frame), mark, end));
                        self.effects.freed += 1;
                    }
                }
                _ => {
                    let list = self.list();
                    let seen = lists.length(list) + lists.allocated_from(list) + lists.statistics().splits;
                    let place = lists.place(self.frame());
                    self.effects.looked += u64::from(place != FramePlace::Absent && seen > 0);
                }
            }
        }
    }

    /// Returns a number below a bound, by a generator of Marsaglia (xorshift64).
    fn below(&mut self, bound: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 11) % bound
    }

    fn cpu(&mut self) -> Cpu {
        Cpu(self.below(2) as u32)
    }

    fn frame(&mut self) -> Frame {
        Frame::new(self.below(FRAMES)).unwrap()
    }

    fn order(&mut self) -> BlockOrder {
        BlockOrder::new([0, 0, 0, 0, 1, 2, 4, 7, 9, 10][self.below(10) as usize]).unwrap()
    }

    fn block(&mut self) -> FrameBlock {
        let order = self.order();
        let first = self.frame().number() / order.frames() * order.frames();
        FrameBlock::new(Frame::new(first).unwrap(), order).unwrap()
    }

    fn list(&mut self) -> ListName {
        let (zone, order) = (ZoneIndex(self.below(3) as usize), self.order());
        ListName { zone, order, migratetype: self.migratetype() }
    }

    fn migratetype(&mut self) -> Migratetype {
        Migratetype::ALL[[0, 1, 1, 1, 2][self.below(5) as usize]]
    }

    fn request(&mut self) -> Request {
        let (order, migratetype, cpu) = (self.order(), self.migratetype(), self.cpu());
        Request { order, migratetype, cpu, node: Node(self.below(2) as u32), urgent: self.below(4) == 0 }
    }

    fn pick(&mut self) -> Option<FrameBlock> {
        let count = self.held.len() as u64;
        (count > 0).then(|| self.below(count) as usize).map(|place| self.held.swap_remove(place))
    }
}
