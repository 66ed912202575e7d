//! The pool as a source of frames, for the controller and the testers.

use rampart_memory::{
    BlockOrder, BlockVerdict, Bytes, FrameDemand, FrameRange, FrameSource, FreeList, Node, RePlacementCounts,
    TestLifetime, Tested, Timestamp,
};

use super::held_steps::HeldStep;
use super::{Ages, FreeMemoryPool, Kernel, PoolNews, Sweep};
use crate::sources::DaemonSource;
use crate::sources::step::{Step, StepMemory};

impl<K: Kernel<Region = StepMemory>> DaemonSource for FreeMemoryPool<K> {
    fn ages(&self) -> &Ages {
        self.ages()
    }

    fn claimed(&self) -> Bytes {
        self.claimed()
    }

    fn in_use(&self) -> Bytes {
        self.in_use()
    }

    fn rate(&self) -> f64 {
        self.rate()
    }

    fn is_overdue(&self, now: Timestamp) -> bool {
        self.is_overdue(now)
    }

    fn missing(&self) -> Bytes {
        self.missing()
    }

    fn is_sweeping(&self) -> bool {
        self.is_sweeping()
    }

    fn take_news(&mut self) -> Vec<PoolNews> {
        self.take_news()
    }

    fn rebound(&mut self, bound: TestLifetime, now: Timestamp) {
        self.rebound(bound, now);
    }

    fn hurry(&mut self, now: Timestamp) {
        self.hurry(now);
    }

    fn relieve(&mut self) {
        self.relieve();
    }

    fn let_go(&mut self) {
        self.let_go();
    }
}

impl<K: Kernel> FrameSource for FreeMemoryPool<K> {
    type Block = Step<K::Region>;

    fn lists(&self) -> Vec<FreeList> {
        self.lists.iter().map(|list| FreeList { node: list.node, order: BlockOrder::ZERO }).collect()
    }

    fn demand(&self, list: FreeList) -> FrameDemand {
        self.lists.iter().find(|known| known.node == list.node).map_or_else(FrameDemand::default, |known| known.demand)
    }

    /// Counts frames that were free when the pool tested them; it cannot know which of them programs have taken since.
    fn tested_free(&self, now: Timestamp) -> u64 {
        self.ages.fresh(self.bound, now)
    }

    /// Hands out whole steps: the last may exceed the requested number of frames, and later calls hand out fewer in
    /// return.
    fn take(&mut self, list: FreeList, max_frames: u64, now: Timestamp) -> Vec<Self::Block> {
        self.advance(list.node, now);
        let late = self.sweep.is_late(now);
        let max_credit = 4 * i64::try_from(self.step.frames()).expect("a step is small");
        let Some(known) = self.list(list.node) else { return Vec::new() };
        known.accrue(late, now);
        let requested = i64::try_from(max_frames).unwrap_or(i64::MAX);
        known.credit = known.credit.saturating_add(requested).min(max_credit);
        let mut credit = known.credit;
        let mut steps = Vec::new();
        while credit > 0
            && let Some(held) = self.held.take_work(list.node)
        {
            credit -= i64::try_from(held.bytes.frames()).expect("a step is small");
            self.out = Bytes::new(self.out.get() + held.bytes.get());
            steps.push(Step { region: held.region, frames: Vec::new(), node: held.node, bad: held.bad });
        }
        self.list(list.node).expect("it was found above").credit = credit;
        steps
    }

    /// Ends the sweep early.
    fn rest(&mut self, now: Timestamp) {
        if self.sweep.is_under_way() && self.out == Bytes::ZERO {
            self.sweep.miss();
            self.end(now);
        }
    }

    fn shape(&self, block: &Self::Block) -> (Node, u64) {
        (block.node, self.kernel.bytes(&block.region).frames())
    }

    fn give_back(&mut self, mut block: Self::Block, verdict: BlockVerdict, now: Timestamp) {
        let bytes = self.kernel.bytes(&block.region);
        self.out = self.out.saturating_sub(bytes);
        let frames = bytes.frames();
        let tested = verdict != BlockVerdict::NotTested;
        match &verdict {
            BlockVerdict::Good => self.note(&mut block, &[], now),
            BlockVerdict::Failed(bad) => self.note(&mut block, bad, now),
            BlockVerdict::NotTested => {}
        }
        if let Some(list) = self.list(block.node) {
            let returned = if tested { &mut list.demand.returned_fresh } else { &mut list.demand.returned_expired };
            *returned += frames;
        }
        let held = HeldStep { region: block.region, bytes, node: block.node, bad: block.bad };
        if self.missing > Bytes::ZERO {
            self.missing = self.missing.saturating_sub(bytes);
            if !tested {
                self.sweep.miss();
            }
            self.release(held);
        } else if !held.bad.is_empty() {
            // Release it immediately: until then, the kernel may move the content of a bad frame and hand the frame
            // out.
            self.release(held);
        } else if tested || !self.sweep.is_under_way() {
            self.held.hold(held);
        } else {
            self.held.add_work(held, false, Tested::NEVER);
        }
    }

    /// Does nothing: no frame of the pool is in use by a program.
    fn re_place_expiring(&mut self, _now: Timestamp, _until: Timestamp) -> RePlacementCounts {
        RePlacementCounts::default()
    }

    fn prefer(&mut self, frames: &[FrameRange]) {
        self.preferred = frames.to_vec();
        if !frames.is_empty() {
            self.sweep.hurry(Timestamp::from_micros(0));
        }
    }

    fn forget(&mut self) {
        self.ages.forget();
        self.sweep = Sweep::new(self.bound, Timestamp::from_micros(0));
    }
}
