//! Allocation with COMeT's hook: a program gets only frames with a good test [Rahman16, 4.1].

use rampart_buddy::{Cpu, End, Migratetype, Request};
use rampart_memory::{BlockOrder, Frame, FrameBlock, Node, Tested};
use rand::RngExt;

use super::{Fault, SimulatedMachine};
use crate::allocators::{DrawnBlocks, FrameTake, TestableAllocator};
use crate::frames::{FrameTests, Holder, long, short};

/// The most frames with good tests that are recorded for each node: 4 GiB.
const MAX_RECORDED: usize = 1 << 20;

/// The most frames that one search skips because they are on the list of a CPU.
const MAX_SKIPPED: u32 = 64;

/// A frame for a program, and the cost of waiting for it.
#[derive(Clone, Copy, Debug)]
pub struct Given {
    pub frame: Frame,
    /// Whether it had to be tested first.
    pub on_demand: bool,
    /// The cost in seconds.
    pub cost: f64,
}

/// Whether an allocated frame had a good test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Was {
    Tested,
    Untested,
}

impl<A: TestableAllocator> SimulatedMachine<A> {
    /// Allocates a good frame for a program on this core, without recording its holder; `None` if memory has run out.
    pub(super) fn allocate(&mut self, core: u32, node: Node) -> Option<Given> {
        let fault = self.description.costs.page_fault.as_secs_f64();
        let mut cost = fault;
        let mut on_demand = false;
        loop {
            let frame = self.allocate_any(core, node)?;
            let block = FrameBlock::of(frame);
            let drawn = self.drawn();
            let Some(testing) = self.testing else { return Some(Given { frame, on_demand, cost }) };
            let tested = self.frames.get(frame).tested;
            if testing.lifetime.is_fresh(tested, self.now) {
                self.give_tested(frame, &drawn);
                return Some(Given { frame, on_demand, cost });
            }
            if let Some(fresh) = self.fresh_elsewhere(node, frame) {
                self.give_tested(fresh, &drawn);
                self.allocator.put(block, tested, End::Back);
                self.forget_offline();
                return Some(Given { frame: fresh, on_demand, cost: cost + fault });
            }
            on_demand = true;
            cost += self.on_demand_wait();
            if self.test_on_demand(frame, &drawn) {
                return Some(Given { frame, on_demand, cost });
            }
            self.fail(frame);
            self.allocator.free(block, Cpu(core), Tested::NEVER, End::Back);
            self.forget_offline();
        }
    }

    /// Allocates a frame for a program, tested or not.
    pub(super) fn allocate_any(&mut self, core: u32, node: Node) -> Option<Frame> {
        let (order, migratetype) = (BlockOrder::ZERO, Migratetype::Movable);
        let block = self.allocator.allocate(Request { order, migratetype, cpu: Cpu(core), node, urgent: false });
        self.forget_offline();
        block.map(FrameBlock::first)
    }

    fn give_tested(&mut self, frame: Frame, drawn: &[DrawnBlocks]) {
        self.statistics.bad_given += u64::from(self.faults.contains_key(&frame));
        self.count(frame, drawn, Was::Tested);
    }

    /// Tests a frame that a program waits for, and returns whether it is good.
    fn test_on_demand(&mut self, frame: Frame, drawn: &[DrawnBlocks]) -> bool {
        let patterns = self.testing.map_or(0, |testing| testing.on_demand.patterns());
        self.statistics.on_demand += 1;
        self.count(frame, drawn, Was::Untested);
        let good = self.passes(frame, patterns);
        if good {
            self.frames.get_mut(frame).tested = Tested::at(self.now);
        }
        good
    }

    /// Takes the free frame of the node whose good test was recorded last: the allocator returns a tested block if
    /// there is one [Rahman16, 4.1]. One that cannot be taken now stays recorded.
    fn fresh_elsewhere(&mut self, node: Node, chosen: Frame) -> Option<Frame> {
        let testing = self.testing?;
        let node = self.description.node_index(node);
        let mut skipped = 0;
        while skipped < MAX_SKIPPED
            && let Some(number) = self.fresh[node].pop_back()
        {
            let frame = long(number);
            let entry = self.frames.get(frame);
            let good = entry.holder == Holder::Nobody && testing.lifetime.is_fresh(entry.tested, self.now);
            if !good {
                continue;
            }
            let Self { allocator, frames, now, .. } = self;
            match allocator.take_free(frame, chosen, &FrameTests::new(frames, Some(testing.lifetime), *now)) {
                FrameTake::Taken => return Some(frame),
                FrameTake::Later => {
                    self.fresh[node].push_front(number);
                    skipped += 1;
                }
                FrameTake::No => {}
            }
        }
        None
    }

    /// Records that a free frame has a good test.
    pub(super) fn record_fresh(&mut self, frame: Frame) {
        let known = &mut self.fresh[self.description.node_index_of(frame)];
        if known.len() >= MAX_RECORDED {
            known.pop_front();
        }
        known.push_back(short(frame));
    }

    /// Returns the blocks that allocation took since the last call.
    pub(super) fn drawn(&mut self) -> Vec<DrawnBlocks> {
        if self.testing.is_none() { Vec::new() } else { self.allocator.drawn() }
    }

    /// Counts the allocation of a single frame, tested or not, for the list of single frames and for the lists that it
    /// or its batch came from.
    fn count(&mut self, frame: Frame, drawn: &[DrawnBlocks], was: Was) {
        let node = self.description.node_of_frame(frame);
        let single = DrawnBlocks { node, order: BlockOrder::ZERO, blocks: 1 };
        for &DrawnBlocks { node, order, blocks } in std::iter::once(&single).chain(drawn) {
            let asked = &mut self.demand[self.description.node_index(node)][order.index()];
            match was {
                Was::Tested => asked.allocated_tested += blocks,
                Was::Untested => asked.allocated_untested += blocks,
            }
        }
    }

    /// Returns how long a program waits for a test of one frame on demand. Without a tester on each core, it waits for
    /// the only one, which has a queue of one frame per other program, half of it on average before this one.
    #[expect(clippy::cast_precision_loss, reason = "programs")]
    pub(super) fn on_demand_wait(&self) -> f64 {
        let testing = self.testing.as_ref().expect("only with testing");
        let alone = self.description.costs.test(testing.access, testing.on_demand);
        if testing.core_local { alone } else { alone * (1.0 + self.programs.len() as f64) / 2.0 }
    }

    /// Whether a test with this many patterns finds nothing in a frame.
    pub(super) fn passes(&mut self, frame: Frame, patterns: u32) -> bool {
        match self.faults.get(&frame) {
            None => true,
            Some(Fault::Permanent) => false,
            Some(&Fault::Intermittent(probability)) => {
                !(0..patterns).any(|_| self.random.random_bool(probability.clamp(0.0, 1.0)))
            }
        }
    }

    /// Retires a frame that a test found bad. The holder of its block gives the block back afterwards.
    pub(super) fn fail(&mut self, frame: Frame) {
        self.statistics.failed += 1;
        self.faults.remove(&frame);
        self.frames.get_mut(frame).holder = Holder::Failed;
        self.allocator.retire(frame);
    }

    /// Records that a program holds a frame from now on.
    pub(super) fn hold(&mut self, frame: Frame, program: u16, slot: u32) {
        let entry = self.frames.get_mut(frame);
        entry.holder = Holder::Program { program, slot, locked: false };
        let tested = entry.tested;
        if let Some(testing) = &self.testing {
            self.wheel.add(testing.lifetime.expiry(tested), short(frame));
        }
    }

    /// Frees a frame of a program. A frame that recycling expires goes past the core's list to the end of the global
    /// one [Rahman16, 5.2.3.2].
    pub(super) fn release(&mut self, frame: Frame, core: u32) {
        let entry = self.frames.get_mut(frame);
        entry.holder = Holder::Nobody;
        let tested = entry.tested;
        let (mark, end) = self.count_returned(frame, tested);
        let block = FrameBlock::of(frame);
        if self.testing.is_some_and(|testing| testing.recycling) {
            self.allocator.put(block, mark, end);
        } else {
            self.allocator.free(block, Cpu(core), mark, end);
        }
        self.forget_offline();
    }

    /// Counts a frame that a program freed, and returns its mark and the end of the list that it goes to.
    fn count_returned(&mut self, frame: Frame, tested: Tested) -> (Tested, End) {
        let Some(testing) = self.testing else { return (Tested::NEVER, End::Front) };
        let asked = &mut self.demand[self.description.node_index_of(frame)][BlockOrder::ZERO.index()];
        if !testing.recycling && testing.lifetime.is_fresh(tested, self.now) {
            asked.returned_fresh += 1;
            self.record_fresh(frame);
            return (tested, End::Front);
        }
        asked.returned_expired += 1;
        self.frames.get_mut(frame).tested = Tested::NEVER;
        (Tested::NEVER, End::Back)
    }
}
