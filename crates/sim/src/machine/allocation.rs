//! Allocation with COMeT's hook: a program gets only frames with a good test [Rahman16, 4.1].

use rampart_buddy::{Cpu, End, FramePlace, FreeLists, Migratetype, Request};
use rampart_memory::{BlockOrder, Frame, FrameBlock, FrameSource, Node, Tested};
use rand::RngExt;

use super::frames::{Holder, long, short};
use super::{Fault, SimulatedMachine};

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

impl SimulatedMachine {
    /// Allocates a good frame for a program on this core, without recording its holder; `None` if memory has run out.
    pub(super) fn allocate(&mut self, core: u32, node: Node) -> Option<Given> {
        let request =
            Request { order: BlockOrder::ZERO, migratetype: Migratetype::Movable, cpu: Cpu(core), node, urgent: false };
        let fault = self.description.costs.page_fault.as_secs_f64();
        let mut cost = fault;
        let mut on_demand = false;
        loop {
            let block = self.allocator.allocate(request)?.block;
            let drawn = self.drawn();
            let frame = block.first();
            let Some(testing) = self.testing else { return Some(Given { frame, on_demand, cost }) };
            let tested = self.frames.get(frame).tested;
            if testing.lifetime.is_fresh(tested, self.now) {
                self.give_tested(frame, &drawn);
                return Some(Given { frame, on_demand, cost });
            }
            if let Some(fresh) = self.fresh_elsewhere(node) {
                self.give_tested(fresh, &drawn);
                self.allocator.put(block, tested, End::Back);
                return Some(Given { frame: fresh, on_demand, cost: cost + fault });
            }
            on_demand = true;
            cost += self.on_demand_wait();
            if self.test_on_demand(frame, &drawn) {
                return Some(Given { frame, on_demand, cost });
            }
            self.fail(frame);
            self.allocator.free(block, Cpu(core), Tested::NEVER, End::Back);
        }
    }

    fn give_tested(&mut self, frame: Frame, drawn: &[(usize, usize, u64)]) {
        self.statistics.bad_given += u64::from(self.faults.contains_key(&frame));
        self.count(frame, drawn, Was::Tested);
    }

    /// Tests a frame that a program waits for, and returns whether it is good.
    fn test_on_demand(&mut self, frame: Frame, drawn: &[(usize, usize, u64)]) -> bool {
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
    /// there is one [Rahman16, 4.1]. The rest of its block goes back. A frame on the list of a CPU cannot be taken now,
    /// but returns to the global lists later, so it stays recorded.
    fn fresh_elsewhere(&mut self, node: Node) -> Option<Frame> {
        let testing = self.testing?;
        let node = self.description.node_index(node);
        let mut skipped = 0;
        while skipped < MAX_SKIPPED
            && let Some(number) = self.fresh[node].pop_back()
        {
            let frame = long(number);
            let entry = self.frames.get(frame);
            let good = entry.holder == Holder::Nobody && testing.lifetime.is_fresh(entry.tested, self.now);
            match self.allocator.place(frame) {
                FramePlace::Free(block) if good => {
                    self.take_from_block(block, frame);
                    return Some(frame);
                }
                FramePlace::Local if good => {
                    self.fresh[node].push_front(number);
                    skipped += 1;
                }
                _ => {}
            }
        }
        None
    }

    /// Takes one frame of a free block and puts the others back.
    fn take_from_block(&mut self, block: FrameBlock, frame: Frame) {
        self.allocator.claim(block);
        self.allocator.split(block);
        for rest in block.frames().filter(|&rest| rest != frame) {
            self.allocator.put(FrameBlock::of(rest), self.frames.get(rest).tested, End::Front);
        }
    }

    /// Records that a free frame has a good test.
    pub(super) fn record_fresh(&mut self, frame: Frame) {
        let known = &mut self.fresh[self.description.node_index_of(frame)];
        if known.len() >= MAX_RECORDED {
            known.pop_front();
        }
        known.push_back(short(frame));
    }

    /// Returns the blocks that allocation took off each list since the last call, by node and order.
    pub(super) fn drawn(&mut self) -> Vec<(usize, usize, u64)> {
        let refills = self.allocator.statistics().refills;
        if self.testing.is_none() || refills == self.refills {
            return Vec::new();
        }
        self.refills = refills;
        let mut drawn = Vec::new();
        for list in self.lists() {
            let (node, order) = (self.description.node_index(list.node), list.order.index());
            let now: u64 = self.lists_of(list).iter().map(|&name| self.allocator.allocated_from(name)).sum();
            let before = std::mem::replace(&mut self.allocated_from[node][order], now);
            if now > before && list.order > BlockOrder::ZERO {
                drawn.push((node, order, now - before));
            }
        }
        drawn
    }

    /// Counts the allocation of a single frame, tested or not, for the list of single frames and for the lists that its
    /// batch came from.
    fn count(&mut self, frame: Frame, drawn: &[(usize, usize, u64)], was: Was) {
        let single = (self.description.node_index_of(frame), BlockOrder::ZERO.index(), 1);
        for &(node, order, blocks) in std::iter::once(&single).chain(drawn) {
            let asked = &mut self.demand[node][order];
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
        let (block, cpu, tested) = (FrameBlock::of(frame), Cpu(core), entry.tested);
        let Some(testing) = self.testing else {
            self.allocator.free(block, cpu, Tested::NEVER, End::Front);
            return;
        };
        let asked = &mut self.demand[self.description.node_index_of(frame)][BlockOrder::ZERO.index()];
        if !testing.recycling && testing.lifetime.is_fresh(tested, self.now) {
            asked.returned_fresh += 1;
            self.record_fresh(frame);
            self.allocator.free(block, cpu, tested, End::Front);
            return;
        }
        asked.returned_expired += 1;
        self.frames.get_mut(frame).tested = Tested::NEVER;
        if testing.recycling {
            self.allocator.put(block, Tested::NEVER, End::Back);
        } else {
            self.allocator.free(block, cpu, Tested::NEVER, End::Back);
        }
    }
}
