//! The reference model: a deque for every list, searched from one end to the other.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rampart_buddy::{Cpu, End, LOCAL_BATCH, LOCAL_HIGH, ListName, Mark, Migratetype, PAGEBLOCK, Zone, ZoneIndex};
use rampart_memory::{BlockOrder, Frame, FrameBlock, Tested};

type Blocks = VecDeque<(FrameBlock, Tested)>;
type LocalFrames = VecDeque<(Frame, Tested, End)>;

pub struct Naive {
    index: ZoneIndex,
    pub lists: BTreeMap<ListName, Blocks>,
    pub local: BTreeMap<(Cpu, Migratetype), LocalFrames>,
    pub retired: BTreeSet<Frame>,
    /// Whether the CPUs have lists.
    has_local: bool,
    pageblocks: BTreeMap<u64, Migratetype>,
}

fn push<T>(deque: &mut VecDeque<T>, item: T, end: End) {
    match end {
        End::Front => deque.push_front(item),
        End::Back => deque.push_back(item),
    }
}

fn pop<T>(deque: &mut VecDeque<T>, end: End) -> Option<T> {
    match end {
        End::Front => deque.pop_front(),
        End::Back => deque.pop_back(),
    }
}

impl Naive {
    pub fn new(index: ZoneIndex, zone: Zone, mark: Tested, has_local: bool) -> Self {
        let (lists, local) = (BTreeMap::new(), BTreeMap::new());
        let mut naive = Self { index, lists, local, retired: BTreeSet::new(), has_local, pageblocks: BTreeMap::new() };
        let end = zone.frames.last().number() + 1;
        let mut first = zone.frames.start().number();
        while first < end {
            let fits = |order: &BlockOrder| first.is_multiple_of(order.frames()) && first + order.frames() <= end;
            let order = BlockOrder::all().rfind(fits).unwrap();
            let block = FrameBlock::new(Frame::new(first).unwrap(), order).unwrap();
            naive.list(order, Migratetype::Movable).push_back((block, mark));
            first += order.frames();
        }
        naive
    }

    fn name(&self, order: BlockOrder, migratetype: Migratetype) -> ListName {
        ListName { zone: self.index, order, migratetype }
    }

    fn list(&mut self, order: BlockOrder, migratetype: Migratetype) -> &mut Blocks {
        self.lists.entry(self.name(order, migratetype)).or_default()
    }

    pub fn free_frames(&self) -> u64 {
        self.lists.values().flatten().map(|(block, _)| block.count()).sum()
    }

    pub fn local_frames(&self, cpu: Cpu) -> usize {
        self.local.iter().filter(|((own, _), _)| *own == cpu).map(|(_, frames)| frames.len()).sum()
    }

    fn pageblock(frame: Frame) -> u64 {
        frame.number() / PAGEBLOCK.frames()
    }

    fn migratetype(&self, block: FrameBlock) -> Migratetype {
        *self.pageblocks.get(&Self::pageblock(block.first())).unwrap_or(&Migratetype::Movable)
    }

    pub fn take(&mut self, list: ListName, end: End) -> Option<(FrameBlock, Tested)> {
        pop(self.lists.entry(list).or_default(), end)
    }

    pub fn claim(&mut self, block: FrameBlock) -> Option<Tested> {
        let blocks = self.lists.values_mut().find(|blocks| blocks.iter().any(|(other, _)| *other == block))?;
        let place = blocks.iter().position(|(other, _)| *other == block)?;
        blocks.remove(place).map(|(_, mark)| mark)
    }

    /// Merges a block with its buddies and puts it on a list.
    fn merge(&mut self, block: FrameBlock, migratetype: Migratetype, mark: Tested, end: End) {
        let merged = block.order().above().and_then(|above| {
            let buddy = Frame::new(block.first().number() ^ block.count()).unwrap();
            let other = self.claim(FrameBlock::new(buddy, block.order()).unwrap())?;
            Some((FrameBlock::new(buddy.min(block.first()), above).unwrap(), mark.join(other)))
        });
        match merged {
            Some((larger, mark)) => self.merge(larger, migratetype, mark, end),
            None => push(self.list(block.order(), migratetype), (block, mark), end),
        }
    }

    pub fn put(&mut self, block: FrameBlock, mark: Tested, end: End) {
        if block.frames().all(|frame| !self.retired.contains(&frame)) {
            self.merge(block, self.migratetype(block), mark, end);
        } else if let Some(half) = block.order().below() {
            for first in [block.first(), block.first().checked_add(half.frames()).unwrap()] {
                self.put(FrameBlock::new(first, half).unwrap(), mark, end);
            }
        }
    }

    pub fn free(&mut self, block: FrameBlock, cpu: Cpu, mark: Tested, end: End) {
        if !self.has_local || block.order() > BlockOrder::ZERO || self.retired.contains(&block.first()) {
            self.put(block, mark, end);
            return;
        }
        let key = (cpu, self.migratetype(block));
        push(self.local.entry(key).or_default(), (block.first(), mark, end), end);
        if self.local_frames(cpu) >= LOCAL_HIGH as usize {
            self.drain(cpu, LOCAL_BATCH as usize);
        }
    }

    fn drain(&mut self, cpu: Cpu, limit: usize) {
        let remaining = self.local_frames(cpu) - limit.min(self.local_frames(cpu));
        for own in Migratetype::ALL.into_iter().cycle() {
            if self.local_frames(cpu) == remaining {
                return;
            }
            if let Some((frame, mark, end)) = self.local.entry((cpu, own)).or_default().pop_back() {
                self.merge(FrameBlock::of(frame), own, mark, end);
            }
        }
    }

    pub fn drain_all(&mut self) {
        let cpus: BTreeSet<Cpu> = self.local.keys().map(|(cpu, _)| *cpu).collect();
        cpus.into_iter().for_each(|cpu| self.drain(cpu, usize::MAX));
    }

    pub fn allocate(
        &mut self,
        order: BlockOrder,
        own: Migratetype,
        cpu: Cpu,
        floor: u64,
    ) -> Option<(FrameBlock, Tested)> {
        let spare = self.free_frames().checked_sub(floor).filter(|spare| *spare >= order.frames())?;
        if !self.has_local || order > BlockOrder::ZERO {
            return self.find(order, own);
        }
        if self.local.entry((cpu, own)).or_default().is_empty() {
            for _ in 0..spare.min(u64::from(LOCAL_BATCH)) {
                let Some((block, mark)) = self.find(order, own) else { break };
                self.local.entry((cpu, own)).or_default().push_back((block.first(), mark, End::Front));
            }
        }
        let (frame, mark, _) = self.local.entry((cpu, own)).or_default().pop_front()?;
        Some((FrameBlock::of(frame), mark))
    }

    /// Takes the first of the smallest blocks that are large enough, split to size.
    fn find(&mut self, order: BlockOrder, own: Migratetype) -> Option<(FrameBlock, Tested)> {
        let mut large_enough = BlockOrder::all().filter(|larger| *larger >= order);
        let smallest = large_enough.find_map(|larger| Some((self.list(larger, own).front()?.0, own)));
        let (block, rest) = smallest.or_else(|| self.steal(order, own))?;
        let mark = self.claim(block).unwrap();
        let mut size = block.order();
        while size > order {
            size = size.below().unwrap();
            let upper = FrameBlock::new(block.first().checked_add(size.frames()).unwrap(), size).unwrap();
            self.list(size, rest).push_front((upper, mark));
        }
        Some((FrameBlock::new(block.first(), order).unwrap(), mark))
    }

    fn steal(&mut self, order: BlockOrder, own: Migratetype) -> Option<(FrameBlock, Migratetype)> {
        for larger in BlockOrder::all().rev().filter(|larger| *larger >= order) {
            for other in own.fallbacks() {
                let Some(&(block, _)) = self.list(larger, other).front() else { continue };
                if larger.number() < PAGEBLOCK.number() / 2 && own != Migratetype::Reclaimable {
                    return Some((block, other));
                }
                self.claim_surroundings(block, own);
                return Some((block, own));
            }
        }
        None
    }

    fn claim_surroundings(&mut self, stolen: FrameBlock, own: Migratetype) {
        let pageblocks: BTreeSet<u64> = stolen.frames().map(Self::pageblock).collect();
        for &pageblock in &pageblocks {
            let free = self.lists.values().flatten().map(|(block, _)| *block);
            let mut inside: Vec<_> = free.filter(|block| Self::pageblock(block.first()) == pageblock).collect();
            inside.sort_unstable();
            for &block in &inside {
                let mark = self.claim(block).unwrap();
                self.list(block.order(), own).push_front((block, mark));
            }
            let moved: u64 = inside.iter().map(|block| block.count()).sum();
            if moved * 2 >= PAGEBLOCK.frames() || stolen.order() > PAGEBLOCK {
                self.pageblocks.insert(pageblock, own);
            }
        }
    }
}
