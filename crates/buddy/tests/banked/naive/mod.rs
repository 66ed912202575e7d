//! The reference model: a plain set of free frames, the held blocks, and a pool for each set of banks.

mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use rampart_buddy::{BankPool, BankSets, Migratetype, Request, Watermarks, Zone};
use rampart_memory::{BlockOrder, Frame, FrameBlock, Node};

pub use rules::{Kind, Rule};

/// A block that was given out, and its type; none if it was claimed.
pub type Held = (FrameBlock, Option<Migratetype>);

/// Some frames of a zone that are free together.
pub type FreeBlock = (u64, BlockOrder);

pub struct NaivePart {
    pub zone: usize,
    pub frames: Range<u64>,
    pub set: u64,
    pub is_partial: bool,
    pub isolated: bool,
}

pub struct Naive {
    pub zones: Vec<Zone>,
    pub parts: Vec<NaivePart>,
    pub pools: BTreeMap<u64, BankPool>,
    free: Vec<bool>,
    pub held: Vec<Held>,
    pub retired: BTreeSet<u64>,
    pub stolen_banks: u64,
    rule: Rule,
}

impl Naive {
    pub fn new(zones: &[Zone], bank: u64, sets: &BankSets<'_>, kind: Kind) -> Self {
        let mut parts = Vec::new();
        let mut free = vec![false; zones.iter().map(|zone| zone.frames.last().number() as usize + 1).max().unwrap()];
        for (zone, Zone { frames, .. }) in zones.iter().enumerate() {
            let (start, end) = (frames.start().number(), frames.last().number() + 1);
            free[start as usize..end as usize].fill(true);
            for number in start / bank..=(end - 1) / bank {
                let frames = start.max(number * bank)..end.min((number + 1) * bank);
                let is_partial = frames.end - frames.start < bank;
                parts.push(NaivePart { zone, frames, set: sets.set_of(number), is_partial, isolated: false });
            }
        }
        let pinned: BTreeSet<u64> = parts.iter().filter(|part| part.is_partial).map(|part| part.set).collect();
        let pool = |set| if pinned.contains(&set) { BankPool::Kernel } else { BankPool::Offline };
        let pools = parts.iter().map(|part| (part.set, pool(part.set))).collect();
        let rule = Rule::new(kind, &parts);
        let (held, retired) = (Vec::new(), BTreeSet::new());
        Self { zones: zones.to_vec(), parts, pools, free, held, retired, stolen_banks: 0, rule }
    }

    pub fn part_of(&self, frame: u64) -> Option<&NaivePart> {
        self.parts.iter().find(|part| part.frames.contains(&frame))
    }

    pub fn of_set(&self, set: u64) -> impl Iterator<Item = &NaivePart> {
        self.parts.iter().filter(move |part| part.set == set)
    }

    pub fn is_isolated(&self, set: u64) -> bool {
        self.of_set(set).any(|part| part.isolated)
    }

    pub fn is_free(&self, frames: Range<u64>) -> bool {
        self.free.get(frames.start as usize..frames.end as usize).is_some_and(|all| all.iter().all(|free| *free))
    }

    pub fn free_in(&self, frames: &Range<u64>) -> u64 {
        frames.clone().filter(|&frame| self.free[frame as usize]).count() as u64
    }

    fn free_of_set(&self, set: u64) -> u64 {
        self.of_set(set).map(|part| self.free_in(&part.frames)).sum()
    }

    /// Returns the free frames of a zone that are not isolated.
    pub fn free_of_zone(&self, zone: usize) -> u64 {
        let parts = self.parts.iter().filter(|part| part.zone == zone && !self.is_isolated(part.set));
        parts.map(|part| self.free_in(&part.frames)).sum()
    }

    /// Returns the largest aligned blocks that are all free.
    pub fn blocks(&self, frames: &Range<u64>) -> Vec<FreeBlock> {
        let (mut blocks, mut first) = (Vec::new(), frames.start);
        while first < frames.end {
            let fits = |order: &BlockOrder| {
                let end = first + order.frames();
                first.is_multiple_of(order.frames()) && end <= frames.end && self.is_free(first..end)
            };
            let order = BlockOrder::all().rfind(fits);
            blocks.extend(order.map(|order| (first, order)));
            first += order.map_or(1, BlockOrder::frames);
        }
        blocks
    }

    /// Returns the pool and the blocks that a request may get a block of; none if it has to be refused.
    pub fn expect(&self, request: Request, watermarks: &[Watermarks]) -> Option<(BankPool, Vec<FreeBlock>)> {
        let by_node: [&[usize]; 2] = if request.node == Node(1) { [&[2], &[1, 0]] } else { [&[1, 0], &[2]] };
        let all = by_node.concat();
        let [own, offline, others] = self.reaches(request.migratetype);
        let in_zones = |zones: &[usize], pools: &[BankPool], floor: &dyn Fn(Watermarks) -> u64| {
            zones.iter().find_map(|&zone| {
                let leaves = self.free_of_zone(zone).checked_sub(request.order.frames())?;
                let allowed = leaves >= floor(watermarks[zone]);
                allowed.then(|| self.candidates(zone, (request.order, request.migratetype), pools)).flatten()
            })
        };
        let first = |floor: &dyn Fn(Watermarks) -> u64| {
            let is_movable = request.migratetype == Migratetype::Movable;
            let in_node = |zones: &&[usize]| {
                let block = in_zones(zones, &own, floor).or_else(|| in_zones(zones, &offline, floor));
                block.or_else(|| if is_movable { None } else { in_zones(zones, &others, floor) })
            };
            let anywhere = || if is_movable { in_zones(&all, &others, floor) } else { None };
            by_node.iter().find_map(in_node).or_else(anywhere)
        };
        first(&|marks| marks.low).or_else(|| first(&|marks| if request.urgent { 0 } else { marks.min }))
    }

    /// Gives out a block that a pool had; `own` is none if it was claimed.
    pub fn hold(&mut self, block: FrameBlock, own: Option<Migratetype>) {
        let part = self.part_index(block.first().number());
        block.frames().for_each(|frame| self.free[frame.number() as usize] = false);
        self.held.push((block, own));
        self.given(part, own);
    }

    fn part_index(&self, frame: u64) -> usize {
        self.parts.iter().position(|part| part.frames.contains(&frame)).unwrap()
    }

    pub fn is_held(&self, frame: u64) -> bool {
        self.held.iter().any(|(block, _)| block.contains(Frame::new(frame).unwrap()))
    }

    /// Takes a block back.
    pub fn free(&mut self, block: FrameBlock) {
        self.held.retain(|(other, _)| *other != block);
        for number in block.frames().map(Frame::number) {
            self.free[number as usize] = !self.retired.contains(&number);
        }
        self.came_back(self.part_index(block.first().number()));
    }

    pub fn retire(&mut self, frame: u64) {
        if self.part_of(frame).is_some() {
            self.retired.insert(frame);
            self.free[frame as usize] = false;
        }
    }

    /// Isolates a part, and returns whether it could be.
    pub fn isolate(&mut self, part: usize) -> bool {
        let can_be = self.pools[&self.parts[part].set] == BankPool::User;
        self.parts[part].isolated |= can_be;
        can_be
    }

    pub fn rejoin(&mut self, part: usize) {
        let was_isolated = self.is_isolated(self.parts[part].set);
        self.parts[part].isolated = false;
        if was_isolated {
            self.rejoined(part);
        }
    }
}
