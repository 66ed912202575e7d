//! The simulated machine.
//!
//! To drive it, call [`SimulatedMachine::step`], which advances time by a quantum; then give idle testers work
//! ([`SimulatedMachine::begin`]), take their results ([`SimulatedMachine::finished`]), and use the machine as a
//! [`FrameSource`](rampart_memory::FrameSource) for everything else.

mod allocation;
mod check;
mod choice;
mod describe;
mod program;
mod re_placement;
mod source;
mod start_midway;
mod tester;

use std::collections::{BTreeMap, VecDeque};

use rampart_buddy::{Buddy, HeapStorage, Zone};
use rampart_memory::{BlockOrder, Frame, FrameDemand, FrameRange, RePlacementCounts, Tested, Timestamp};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

pub use choice::{MachineAllocator, MachineUser};
pub use describe::{Description, Fault, Testing};
pub use source::Taken;
pub use tester::FinishedTest;

use self::program::Running;
use self::tester::SimulatedTester;
use crate::allocators::{ByLists, TestableAllocator};
use crate::frames::{FrameEntry, FrameTests, Frames, Holder};
use crate::timing_wheel::TimingWheel;

/// Counts since the start of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineStatistics {
    /// Frames given to programs.
    pub allocated: u64,
    /// Frames tested while a program waited for them, including those of migrations.
    pub on_demand: u64,
    /// Frames tested by testers.
    pub concurrent: u64,
    /// Frames moved because their test expired.
    pub migrated: u64,
    /// Frames tested in place because there was no free frame to move to.
    pub in_place: u64,
    /// Times that a frame was locked until it was tested.
    pub locked: u64,
    /// Bad frames found.
    pub failed: u64,
    /// Bad frames given to a program because no test had found them.
    pub bad_given: u64,
    /// Programs started again.
    pub relaunched: u64,
}

/// One second of a run, in frames per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Second {
    /// Frames allocated.
    pub demand: f64,
    /// Frames tested ahead.
    pub concurrent: f64,
    /// Frames tested on demand.
    pub on_demand: f64,
}

/// A running machine.
pub struct SimulatedMachine<A = ByLists<Buddy<'static, Tested, HeapStorage>>> {
    description: Description,
    testing: Option<Testing>,
    now: Timestamp,
    steps: u64,
    allocator: A,
    frames: Frames,
    /// Bad frames that no test has found.
    faults: BTreeMap<Frame, Fault>,
    wheel: TimingWheel,
    /// Frames in use that expire soon, with their expiry, the soonest first.
    expiring: VecDeque<(Timestamp, u32)>,
    /// Time left for re-placement, in seconds; negative while one takes longer than a quantum.
    re_placement_time: f64,
    /// Counts of re-placements since the last query.
    re_placed: RePlacementCounts,
    programs: Vec<Running>,
    testers: Vec<SimulatedTester>,
    finished: Vec<FinishedTest>,
    /// Requests to the lists, by node and order. Single frames count when programs take them, not when batches move to
    /// the lists of the CPUs.
    demand: Vec<[FrameDemand; BlockOrder::COUNT]>,
    /// Free frames of each node that had a good test when they were recorded, the latest at the back.
    fresh: Vec<VecDeque<u32>>,
    preferred: Vec<FrameRange>,
    /// Frames that the diagnostic holds.
    in_testing: u64,
    /// Tested blocks that the handler passed over and was not charged for yet.
    passed_over: u64,
    /// Frames whose last test the handler read and was not charged for yet.
    looked_at: u64,
    statistics: MachineStatistics,
    random: ChaCha8Rng,
    out_of_memory: bool,
    timeline: Vec<Second>,
    second: (u64, MachineStatistics),
    /// A buffer for frames that are due, kept to avoid allocating it each time.
    due: Vec<u32>,
}

impl SimulatedMachine {
    /// Returns a machine with the allocator of Linux, as [`Self::with_allocator`] does.
    #[must_use]
    pub fn new(description: Description, testing: Option<Testing>, seed: u64, now: Timestamp) -> Self {
        let buddy = Buddy::new(&description.zones, description.cpus, Tested::NEVER);
        let buddy = buddy.expect("a description is of a machine that can be");
        Self::with_allocator(ByLists::new(buddy), description, testing, seed, now)
    }
}

impl<A: TestableAllocator> SimulatedMachine<A> {
    /// Returns a machine at rest at the given time, with all memory free and untested. `allocator` is made for the
    /// description's zones and CPUs; `testing` is the support of the machine's kernel for the diagnostic; `None` for an
    /// unmodified kernel.
    #[must_use]
    pub fn with_allocator(
        allocator: A,
        description: Description,
        testing: Option<Testing>,
        seed: u64,
        now: Timestamp,
    ) -> Self {
        let nodes = description.nodes();
        Self {
            allocator,
            frames: Frames::new(description.frames()),
            faults: description.faults.iter().copied().collect(),
            wheel: TimingWheel::new(1_000_000),
            expiring: VecDeque::new(),
            re_placement_time: 0.0,
            re_placed: RePlacementCounts::default(),
            programs: Vec::new(),
            testers: Vec::new(),
            finished: Vec::new(),
            demand: vec![[FrameDemand::default(); BlockOrder::COUNT]; nodes],
            fresh: vec![VecDeque::new(); nodes],
            preferred: Vec::new(),
            in_testing: 0,
            passed_over: 0,
            looked_at: 0,
            statistics: MachineStatistics::default(),
            random: ChaCha8Rng::seed_from_u64(seed),
            out_of_memory: false,
            timeline: Vec::new(),
            second: (0, MachineStatistics::default()),
            due: Vec::new(),
            description,
            testing,
            now,
            steps: 0,
        }
    }

    /// Returns the description of the machine.
    #[must_use]
    pub const fn description(&self) -> &Description {
        &self.description
    }

    /// Returns the support of its kernel for the diagnostic.
    #[must_use]
    pub const fn testing(&self) -> Option<Testing> {
        self.testing
    }

    /// Returns the current time.
    #[must_use]
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// Returns the counts so far.
    #[must_use]
    pub const fn statistics(&self) -> MachineStatistics {
        self.statistics
    }

    /// Whether a program asked for memory and there was none. All programs then stop.
    #[must_use]
    pub const fn is_out_of_memory(&self) -> bool {
        self.out_of_memory
    }

    /// Returns each second so far.
    #[must_use]
    pub fn timeline(&self) -> &[Second] {
        &self.timeline
    }

    /// Returns the share of all frames, free or used, whose test is good; 0 without testing.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    pub fn coverage(&self) -> f64 {
        let Some(testing) = &self.testing else { return 0.0 };
        let good = self.frames.count(|frame| testing.lifetime.is_fresh(frame.tested, self.now));
        good as f64 / self.frames.len() as f64
    }

    /// Returns how many banks are offline; `None` if the allocator knows no banks.
    #[must_use]
    pub fn offline_banks(&self) -> Option<u64> {
        self.allocator.offline_banks()
    }

    /// Returns how many banks there are that could go offline, and in how many of them no program has a page. A bank
    /// that lies in two zones, or of which the machine has only a part, cannot go.
    #[must_use]
    pub fn empty_banks(&self) -> (u64, u64) {
        let size = self.description.bank.frames();
        let of_zone = |zone: &Zone| {
            let (start, end) = (zone.frames.start().number(), zone.frames.last().number() + 1);
            (start.div_ceil(size)..end / size).filter_map(move |bank| FrameRange::new(Frame::new(bank * size)?, size))
        };
        let is_used = |entry: &FrameEntry| matches!(entry.holder, Holder::Program { .. });
        let is_empty = |bank: FrameRange| !self.frames.of_range(bank).iter().any(is_used);
        let banks = self.description.zones.iter().flat_map(of_zone);
        banks.fold((0, 0), |(all, empty), bank| (all + 1, empty + u64::from(is_empty(bank))))
    }

    /// Returns the tests of all frames now.
    const fn tests(&self) -> FrameTests<'_> {
        let lifetime = match &self.testing {
            Some(testing) => Some(testing.lifetime),
            None => None,
        };
        FrameTests::new(&self.frames, lifetime, self.now)
    }

    /// Forgets the tests of memory that has gone offline.
    fn forget_offline(&mut self) {
        while let Some(frames) = self.allocator.gone_offline() {
            self.frames.forget_range(frames);
        }
    }

    /// Advances time by a quantum.
    pub fn step(&mut self) {
        let quantum = self.description.quantum;
        self.set_clock(self.now.after(quantum));
        self.steps += 1;
        let seconds = quantum.as_secs_f64();
        let share = self.cpu_share();
        let memory = self.memory_slowdown();
        self.run_testers(seconds, share, &memory);
        self.run_re_placement(seconds);
        self.run_programs(seconds, share, &memory);
        self.record_second();
    }

    /// Sets the clock, forward or back. Frames in use that expired meanwhile are locked before a program can touch
    /// them. If the clock goes back, every frame counts as never tested.
    pub fn set_clock(&mut self, now: Timestamp) {
        let back = now < self.now;
        self.now = now;
        if back {
            self.forget_tests();
        }
        self.lock_expired();
    }

    /// Charges the time of a handler, which delayed allocation, to a program.
    pub fn charge(&mut self, seconds: f64) {
        let alive = self.programs.len();
        if alive > 0 {
            let turn = usize::try_from(self.steps).unwrap_or(0) % alive;
            self.programs[turn].debt += seconds;
        }
    }

    /// Returns the cost in seconds of `calls` of handlers that took `blocks` blocks since the last call. Each block
    /// passed over costs a cache miss. What is read of the table of frames is read in order, so it takes bandwidth.
    #[expect(clippy::cast_precision_loss, reason = "blocks of one call")]
    pub fn handlers_cost(&mut self, calls: u32, blocks: u64) -> f64 {
        let costs = &self.description.costs;
        let passed_over = std::mem::take(&mut self.passed_over) as f64 * costs.latency.as_secs_f64();
        let read = std::mem::take(&mut self.looked_at) as f64 * size_of::<FrameEntry>() as f64 / costs.bandwidth;
        let calls = f64::from(calls) * costs.handler.as_secs_f64();
        calls + blocks as f64 * costs.handler_block.as_secs_f64() + passed_over + read
    }

    /// Returns the share of a core that each runnable thread gets.
    #[expect(clippy::cast_precision_loss, reason = "threads")]
    fn cpu_share(&self) -> f64 {
        let testers = self.testers.iter().filter(|tester| tester.has_work()).count();
        let runnable = (self.programs.len() + testers).max(1);
        (f64::from(self.description.cpus) / runnable as f64).min(1.0)
    }

    /// Returns the memory slowdown of each node.
    fn memory_slowdown(&self) -> Vec<f64> {
        let mut traffic = vec![0.0; self.description.nodes()];
        for program in &self.programs {
            traffic[self.description.node_index(program.node)] +=
                program.rates.memory * self.description.program_traffic;
        }
        if let Some(testing) = &self.testing {
            let per_tester = self.description.costs.traffic(testing.access);
            for node in self.testers.iter().filter_map(SimulatedTester::works_on) {
                traffic[self.description.node_index(node)] += per_tester;
            }
        }
        traffic.into_iter().map(|traffic| self.description.costs.memory_slowdown(traffic)).collect()
    }

    #[expect(clippy::cast_precision_loss, reason = "frames of one second")]
    fn record_second(&mut self) {
        let second = self.steps * u64::try_from(self.description.quantum.as_micros()).unwrap_or(0) / 1_000_000;
        if second > self.second.0 {
            let (seen, before) = (self.statistics, self.second.1);
            let passed = (second - self.second.0) as f64;
            self.timeline.push(Second {
                demand: (seen.allocated - before.allocated) as f64 / passed,
                concurrent: (seen.concurrent - before.concurrent) as f64 / passed,
                on_demand: (seen.on_demand - before.on_demand) as f64 / passed,
            });
            self.second = (second, seen);
        }
    }
}
