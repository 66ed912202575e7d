//! Testers: threads that test blocks, one after the other.

use std::collections::VecDeque;

use rampart_memory::{BlockVerdict, Fidelity, Frame, Node};

use super::{SimulatedMachine, Taken};
use crate::allocators::TestableAllocator;

/// A block that a tester has finished.
#[derive(Debug)]
pub struct FinishedTest {
    /// The tester's number.
    pub tester: usize,
    /// The block.
    pub block: Taken,
    /// The result of the test.
    pub verdict: BlockVerdict,
}

#[derive(Debug)]
pub struct SimulatedTester {
    node: Node,
    jobs: VecDeque<Job>,
    /// Time of the jobs on local memory that is otherwise idle, in seconds.
    queued: f64,
    starved: bool,
}

#[derive(Debug)]
struct Job {
    block: Taken,
    fidelity: Fidelity,
    node: Node,
    /// Time still needed, on local memory that is otherwise idle.
    remaining: f64,
}

impl SimulatedTester {
    pub fn has_work(&self) -> bool {
        !self.starved && !self.jobs.is_empty()
    }

    /// Returns the node whose memory the tester tests now.
    pub fn works_on(&self) -> Option<Node> {
        self.jobs.front().filter(|_| !self.starved).map(|job| job.node)
    }
}

impl<A: TestableAllocator> SimulatedMachine<A> {
    /// Adds a tester, bound to a core of this node, and returns its number.
    pub fn add_tester(&mut self, node: Node) -> usize {
        self.testers.push(SimulatedTester { node, jobs: VecDeque::new(), queued: 0.0, starved: false });
        self.testers.len() - 1
    }

    /// Whether a tester will become idle in the next quantum.
    #[must_use]
    pub fn wants_work(&self, tester: usize) -> bool {
        let tester = &self.testers[tester];
        !tester.starved && tester.queued < self.description.quantum.as_secs_f64()
    }

    /// Stops a tester, or lets it run again.
    pub fn starve(&mut self, tester: usize, starved: bool) {
        self.testers[tester].starved = starved;
    }

    /// Gives a tester a block to test with this fidelity.
    pub fn begin(&mut self, tester: usize, block: Taken, fidelity: Fidelity) {
        let testing = self.testing.as_ref().expect("a machine with testing");
        let frames = f64::from(u32::try_from(block.block().count()).expect("at most 1,024"));
        let remaining = frames * self.description.costs.test(testing.access, fidelity);
        let node = self.description.node_of_frame(block.block().first());
        self.testers[tester].queued += remaining;
        self.testers[tester].jobs.push_back(Job { block, fidelity, node, remaining });
    }

    /// Returns the tests finished since the last call.
    pub fn finished(&mut self) -> Vec<FinishedTest> {
        std::mem::take(&mut self.finished)
    }

    pub(super) fn run_testers(&mut self, seconds: f64, share: f64, memory: &[f64]) {
        let before = self.statistics.concurrent;
        for at in 0..self.testers.len() {
            let mut time = seconds * share;
            while let Some(job) = self.run_tester(at, &mut time, memory) {
                let verdict = self.judge(&job);
                self.statistics.concurrent += job.block.block().count();
                self.finished.push(FinishedTest { tester: at, block: job.block, verdict });
            }
        }
        self.interrupt(self.statistics.concurrent - before, share);
    }

    /// Charges the programs for the interrupts of `unmapped` frames, by their share of running time.
    #[expect(clippy::cast_precision_loss, reason = "frames of a quantum")]
    fn interrupt(&mut self, unmapped: u64, share: f64) {
        let lost = unmapped as f64 * self.description.costs.unmapping.as_secs_f64() * share;
        self.programs.iter_mut().for_each(|program| program.debt += lost);
    }

    /// Runs a tester until it finishes a job or its time is over.
    fn run_tester(&mut self, at: usize, time: &mut f64, memory: &[f64]) -> Option<Job> {
        let tester = &mut self.testers[at];
        let job = tester.jobs.front_mut().filter(|_| !tester.starved)?;
        let distance = if job.node == tester.node { 1.0 } else { self.description.costs.remote };
        let takes = memory[self.description.node_index(job.node)] * distance;
        let done = (*time / takes).min(job.remaining);
        job.remaining -= done;
        tester.queued = (tester.queued - done).max(0.0);
        *time -= done * takes;
        if job.remaining <= 0.0 { tester.jobs.pop_front() } else { None }
    }

    fn judge(&mut self, job: &Job) -> BlockVerdict {
        if self.faults.is_empty() {
            return BlockVerdict::Good;
        }
        let frames: Vec<Frame> = job.block.block().frames().collect();
        let bad: Vec<Frame> =
            frames.into_iter().filter(|&frame| !self.passes(frame, job.fidelity.patterns())).collect();
        if bad.is_empty() { BlockVerdict::Good } else { BlockVerdict::Failed(bad) }
    }
}
