//! Programs that repeat themselves, simulated round by round.
//!
//! **Problem.** On 16,384 nodes an error comes every 0.3 s ([Ferreira21, tab. II], ten times Cielo's rate). A program
//! that reduces every 60 µs has 5,000 steps between two errors, a million events each, and a run must meet hundreds of
//! errors for a useful mean. **Idea.** All ranks do the same in the same order. A round of messages therefore reduces
//! to two numbers: the arrival times of the ranks that a rank waits for, and the undisturbed length of the round, which
//! the [engine](mod@crate::simulator::engine) computes once. Where waiting changes nothing any more and no error is
//! due, a round is one addition; once all ranks are at the same time, so are all cycles up to the next error. **Why
//! this way.** The cost of a run follows from how the delay of an error spreads over the ranks, not from the run's
//! length or its messages.
//!
//! Two simplifications: a late rank delays each of its neighbours by its full delay, though the first of their messages
//! would have left some microseconds earlier; and the CPU counts as busy for the whole round, including its waiting for
//! the network. Errors therefore cost somewhat too much, by these microseconds relative to an error's time. Tests
//! compare the cost with that of the engine.

mod plan;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::Error;
use crate::model::detour::{ArrivalCursor, Detours};
use crate::model::network::LogGops;
use crate::model::operation::Rank;
use crate::programs::rounds::RankProgram;
use crate::programs::workload::WorkloadRun;
use crate::time::Time;
use plan::{LockstepPlan, LockstepRound, Peers, RoundWait};

/// A program expanded for one network; many runs share it.
#[derive(Clone, Debug)]
pub struct Lockstep {
    plan: LockstepPlan,
    /// The length of an undisturbed cycle.
    cycle: Time,
    ranks: u32,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockstepOutcome {
    /// The time at which the last rank was done.
    pub makespan: Time,
    /// Cycles that were computed round by round; in the others no detour was due.
    pub worked_out: u64,
}

impl Lockstep {
    /// Computes the cycle of a program.
    ///
    /// # Errors
    /// Those of a run: a round that takes longer than [`Time::MAX`].
    pub fn new(program: &WorkloadRun, network: &LogGops) -> Result<Self, Error> {
        let plan = LockstepPlan::new(program, network)?;
        Ok(Self { cycle: plan.length(), plan, ranks: program.ranks() })
    }

    /// The length of an undisturbed cycle.
    #[must_use]
    pub fn cycle(&self) -> Time {
        self.cycle
    }

    /// Memory per rank of a run, in bytes: the ranks that it waits for, and its times for each thread. Expanding a
    /// collective takes about as much as its messages, once.
    pub(crate) fn bytes_a_rank(program: &WorkloadRun, threads: usize) -> u64 {
        /// A message in flight in the engine, with the state of its rank: 420 B were measured with 1,048,576 ranks of
        /// `milc`.
        const WORKED_OUT: u64 = 512;
        // The rank in the middle has the most neighbours.
        let peers = program.distinct_messages(Rank(program.ranks() / 2)) as u64 * size_of::<u32>() as u64;
        let of_thread = (3 * size_of::<Time>() + size_of::<ArrivalCursor>()) as u64;
        peers + (of_thread * threads as u64).max(WORKED_OUT)
    }

    /// Runs this many cycles.
    ///
    /// # Errors
    /// [`Error::Stopped`] if `stop` was set meanwhile, [`Error::TooLong`] if the end lies beyond [`Time::MAX`].
    pub fn run<D: Detours>(&self, cycles: u64, detours: &D, stop: &AtomicBool) -> Result<LockstepOutcome, Error> {
        let mut state = State::new(self, detours);
        let (mut left, mut worked_out) = (cycles, 0);
        while left > 0 {
            if stop.load(Ordering::Relaxed) {
                return Err(Error::Stopped);
            }
            let skipped = state.skip(self.cycle, left);
            left -= skipped;
            if left > 0 {
                self.plan.in_order().for_each(|(number, round)| state.round(number, round));
                (left, worked_out) = (left - 1, worked_out + 1);
            }
            if state.last() >= TOO_LATE {
                return Err(Error::TooLong);
            }
        }
        Ok(LockstepOutcome { makespan: state.last(), worked_out })
    }
}

/// Beyond this, one more cycle might reach [`Time::MAX`].
const TOO_LATE: Time = Time::from_picos(u64::MAX / 2);

struct State<'a, D: Detours> {
    detours: &'a D,
    /// The time of each rank, minus `passed`.
    at: Vec<Time>,
    /// The time that passed for all ranks alike since each was last examined.
    passed: Time,
    /// The value of `at` before the last messages.
    before: Vec<Time>,
    cursors: Vec<D::Cursor>,
    /// The start of each rank's next detour.
    quiet_until: Vec<Time>,
    /// Whether all ranks are at the same time.
    level: bool,
    /// Where waiting for neighbours changes nothing: the time without any detour from now on.
    calm: Option<Time>,
    /// The rounds in which ranks wait for neighbours, and which of them changed nothing since the last change.
    with_peers: Vec<bool>,
    settled: Vec<bool>,
}

impl<'a, D: Detours> State<'a, D> {
    fn new(lockstep: &Lockstep, detours: &'a D) -> Self {
        let cursors: Vec<D::Cursor> = (0..lockstep.ranks).map(|rank| detours.begin(Rank(rank))).collect();
        let at = vec![Time::ZERO; cursors.len()];
        let with_peers = lockstep.plan.with_peers();
        let mut state = Self {
            detours,
            before: at.clone(),
            at,
            passed: Time::ZERO,
            quiet_until: cursors.iter().map(|cursor| detours.quiet_until(cursor)).collect(),
            cursors,
            level: true,
            calm: None,
            settled: vec![false; with_peers.len()],
            with_peers,
        };
        state.calm = Some(state.room());
        state
    }

    /// Skips up to `most` cycles of this length in which nothing happens; returns their number.
    fn skip(&mut self, cycle: Time, most: u64) -> u64 {
        let Some(room) = self.calm.filter(|_| self.level) else { return 0 };
        let quiet = room.min(TOO_LATE.since(self.last()));
        let skipped = quiet.picos().checked_div(cycle.picos()).unwrap_or(most).min(most);
        self.pass(Time::from_picos(cycle.picos() * skipped), room);
        skipped
    }

    /// Lets this time pass for all ranks; `room` is the time without any detour.
    fn pass(&mut self, time: Time, room: Time) {
        self.passed = self.passed.plus(time);
        self.calm = Some(room.since(time));
    }

    fn round(&mut self, number: usize, round: &LockstepRound) {
        match &round.wait {
            RoundWait::Nobody => {}
            RoundWait::Some(peers) => self.wait_for(number, peers),
            RoundWait::All => self.wait_for_all(),
        }
        match self.calm.filter(|room| round.takes <= *room) {
            Some(room) => self.pass(round.takes, room),
            None => self.work(round.takes),
        }
    }

    /// Each rank waits until the ranks that it waits for have got this far.
    fn wait_for(&mut self, number: usize, peers: &Peers) {
        if self.calm.is_some() {
            return;
        }
        std::mem::swap(&mut self.at, &mut self.before);
        let before = &self.before;
        for ((at, own), peers) in self.at.iter_mut().zip(before).zip(peers.of_ranks()) {
            *at = peers.iter().map(|peer| before[*peer as usize]).fold(*own, Time::max);
        }
        if self.at == self.before {
            self.settled[number] = true;
            self.calm = (self.settled == self.with_peers).then(|| self.room());
        } else {
            self.settled.fill(false);
        }
    }

    fn wait_for_all(&mut self) {
        if !self.level {
            let last = self.last();
            self.at.fill(last);
            (self.passed, self.level) = (Time::ZERO, true);
            self.calm = Some(self.room());
        }
    }

    /// Each rank works for this time, and some may meet a detour.
    fn work(&mut self, work: Time) {
        let passed = std::mem::take(&mut self.passed);
        let mut met = false;
        for (rank, (at, quiet_until)) in self.at.iter_mut().zip(&mut self.quiet_until).enumerate() {
            let start = at.plus(passed);
            let end = start.plus(work);
            if start < *quiet_until && end <= *quiet_until {
                *at = end;
            } else {
                let cursor = &mut self.cursors[rank];
                *at = self.detours.finish(name(rank), cursor, start, work);
                *quiet_until = self.detours.quiet_until(cursor);
                met = true;
            }
        }
        if met {
            (self.level, self.calm) = (false, None);
            self.settled.fill(false);
        }
    }

    /// The time until any rank meets a detour.
    fn room(&self) -> Time {
        let of = |(at, quiet_until): (&Time, &Time)| quiet_until.since(at.plus(self.passed));
        self.at.iter().zip(&self.quiet_until).map(of).min().unwrap_or(Time::MAX)
    }

    /// The time of the last rank.
    fn last(&self) -> Time {
        self.at.iter().copied().max().unwrap_or_default().plus(self.passed)
    }
}

fn name(rank: usize) -> Rank {
    Rank(u32::try_from(rank).expect("ranks are counted in 32 bits"))
}
