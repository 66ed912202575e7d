//! Programs that repeat themselves, simulated round by round.
//!
//! **Problem.** On 16,384 nodes an error comes every 0.3 s (004_c4a115d9f0ebac82.txt, table II, ten times Cielo's rate); a program that
//! reduces every 60 µs has 5,000 steps between two of them, a million events each, and some hundred errors must be met before
//! their cost is known. **Idea.** In such a program all ranks do the same in the same order, so no queue of events is needed: each
//! round is a pass over all ranks, from the times at which they ended the last. And where two cycles met no detour and took the same
//! time, the next will take it too: all cycles up to the next detour of any node are skipped at once. **Why this way.** Times of a
//! round are maxima and sums of those of the round before, so what goes on evenly keeps doing so; the cost of a run is that of its
//! errors, not of its length. *The same* means to a thousandth: after a detour ranks change places by microseconds for hundreds of
//! cycles, which is not worth working out (a test holds what is skipped within two thousandths).
//!
//! The rules are those of the [engine](mod@crate::engine), but for one: the CPU looks at the messages of a round when it comes to that
//! round, after its own sends, so a message that is early is not handled while the CPU waits for another. The times differ by
//! some overheads *o* a round: tests hold them within 1 %, and within 6 % for a program that hardly computes.

mod plan;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, Ordering};

use crate::detour::{Detours, Place};
use crate::error::Error;
use crate::network::LogGops;
use crate::operation::{Operation, Rank};
use crate::rounds::Program;
use crate::time::Time;
use crate::workload::{Running, Workload};
use plan::{Messages, Plan, Round};

/// A program, worked out for a network; many runs share it.
#[derive(Clone, Debug)]
pub struct Lockstep {
    plan: Plan,
    network: LogGops,
    ranks: u32,
}

/// What came of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// When the last rank was done.
    pub makespan: Time,
    /// Cycles that were worked out one by one; the others were like them.
    pub worked_out: u64,
}

impl Lockstep {
    /// Works out the cycle of a program.
    #[must_use]
    pub fn new(program: &Running, network: &LogGops) -> Self {
        Self { plan: Plan::new(program, network), network: *network, ranks: program.ranks() }
    }

    /// Memory for each rank of a run on so many nodes, in bytes: its messages, worked out and as they are gathered, and the times of
    /// each thread.
    pub(crate) fn bytes_a_rank(workload: &Workload, nodes: u32, threads: usize) -> u64 {
        let running = workload.on(nodes, 1);
        // The rank in the middle has most neighbours.
        let messages = running.most_messages(Rank(nodes / 2)).max(1) as u64;
        let gathered = messages * (2 * size_of::<Operation>() as u64 + 64);
        let rounds = running.distinct_messages(Rank(nodes / 2)) as u64 + u64::from(nodes.max(1).ilog2() + 2);
        let of_thread = (2 * size_of::<Times>() + size_of::<Place>()) as u64 + messages * 16;
        gathered + rounds * 13 + of_thread * threads as u64
    }

    /// Runs so many cycles.
    ///
    /// # Errors
    /// [`Error::Stopped`] if `stop` was set meanwhile, [`Error::TooLong`] if the end lies beyond [`Time::MAX`].
    pub fn run<D: Detours>(&self, cycles: u64, detours: &D, stop: &AtomicBool) -> Result<Outcome, Error> {
        let mut state = State::new(self, detours);
        let (mut left, mut worked_out) = (cycles, 0);
        // How long the last two cycles took, if nothing disturbed them.
        let mut calm: [Option<Time>; 2] = [None, None];
        while left > 0 {
            if stop.load(Ordering::Relaxed) {
                return Err(Error::Stopped);
            }
            let before = state.last();
            state.cycle();
            (left, worked_out) = (left - 1, worked_out + 1);
            if state.last() >= TOO_LATE {
                return Err(Error::TooLong);
            }
            calm = [calm[1], Some(state.last().since(before)).filter(|_| !state.disturbed)];
            if let Some(length) = steady(calm).filter(|length| state.spread() <= *length) {
                let skipped = state.quiet_cycles(length).min(left);
                state.shift(Time::from_picos(length.picos().saturating_mul(skipped)));
                left -= skipped;
            }
        }
        Ok(Outcome { makespan: state.last(), worked_out })
    }
}

/// Cycles that differ by less than this part of one are alike.
const ALIKE: u64 = 1000;

/// How long a cycle takes from now on, if two that nothing disturbed are alike.
fn steady(calm: [Option<Time>; 2]) -> Option<Time> {
    let (one, other) = (calm[0]?, calm[1]?);
    let apart = one.picos().abs_diff(other.picos());
    (other > Time::ZERO && apart <= other.picos() / ALIKE)
        .then(|| Time::from_picos(one.picos().midpoint(other.picos())))
}

/// Beyond this a cycle more might not be told from [`Time::MAX`].
const TOO_LATE: Time = Time::from_picos(u64::MAX / 2);

/// When a rank is free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Times {
    /// When its round ended.
    at: Time,
    sending: Time,
    receiving: Time,
    /// When its next detour starts.
    quiet_until: Time,
}

struct State<'a, D: Detours> {
    lockstep: &'a Lockstep,
    detours: &'a D,
    times: Vec<Times>,
    cursors: Vec<D::Cursor>,
    /// When each message of the round arrives.
    arrivals: Vec<Time>,
    /// When each was taken.
    taken: Vec<Time>,
    /// A rank's messages, in the order in which they come.
    coming: Vec<(Time, u32)>,
    /// Whether this cycle met a detour.
    disturbed: bool,
}

impl<'a, D: Detours> State<'a, D> {
    fn new(lockstep: &'a Lockstep, detours: &'a D) -> Self {
        let cursors: Vec<D::Cursor> = (0..lockstep.ranks).map(|rank| detours.begin(Rank(rank))).collect();
        let times = cursors.iter().map(|cursor| Times { quiet_until: detours.quiet_until(cursor), ..Times::default() });
        let messages = lockstep.plan.most_messages();
        Self {
            times: times.collect(),
            lockstep,
            detours,
            cursors,
            arrivals: vec![Time::ZERO; messages],
            taken: vec![Time::ZERO; messages],
            coming: Vec::new(),
            disturbed: false,
        }
    }

    fn cycle(&mut self) {
        self.disturbed = false;
        let plan = &self.lockstep.plan;
        for round in &plan.order {
            match &plan.rounds[*round as usize] {
                Round::Compute(time) => {
                    for rank in 0..self.times.len() {
                        self.times[rank].at = self.work(rank, self.times[rank].at, *time);
                    }
                }
                Round::Messages(messages) => self.messages(messages),
            }
        }
        // A NIC that is free before its CPU is as one that is free with it.
        for times in &mut self.times {
            times.sending = times.sending.max(times.at);
            times.receiving = times.receiving.max(times.at);
        }
    }

    fn messages(&mut self, messages: &Messages) {
        for rank in 0..self.times.len() {
            self.send(rank, messages);
        }
        for rank in 0..self.times.len() {
            self.receive(rank, messages);
        }
        if messages.prices.iter().any(|price| price.rendezvous) {
            for (rank, bounds) in messages.sends_of.windows(2).enumerate() {
                let (first, end) = (bounds[0] as usize, bounds[1] as usize);
                let last = self.taken[first..end].iter().copied().max().unwrap_or_default();
                self.times[rank].at = self.times[rank].at.max(last);
            }
        }
    }

    fn send(&mut self, rank: usize, messages: &Messages) {
        let network = &self.lockstep.network;
        let before = self.times[rank];
        let mut times = before;
        for message in messages.sends_of[rank] as usize..messages.sends_of[rank + 1] as usize {
            let price = messages.prices[messages.sends[message] as usize];
            let start = times.at.max(times.sending);
            let sent = start.plus(network.overhead);
            times.at = sent.plus(price.copy);
            times.sending = start.plus(network.gap).plus(price.wire);
            self.arrivals[message] = sent.plus(network.latency);
        }
        if times.at < times.quiet_until {
            self.times[rank] = times;
        } else {
            self.send_in_detours(rank, messages);
        }
    }

    /// As [`Self::send`], where a detour may come between.
    #[cold]
    fn send_in_detours(&mut self, rank: usize, messages: &Messages) {
        let network = &self.lockstep.network;
        for message in messages.sends_of[rank] as usize..messages.sends_of[rank + 1] as usize {
            let price = messages.prices[messages.sends[message] as usize];
            let start = self.free_from(rank, self.times[rank].at.max(self.times[rank].sending));
            let sent = self.work(rank, start, network.overhead);
            self.times[rank].at = self.work(rank, sent, price.copy);
            self.times[rank].sending = start.plus(network.gap).plus(price.wire);
            self.arrivals[message] = sent.plus(network.latency);
        }
    }

    fn receive(&mut self, rank: usize, messages: &Messages) {
        let takes = &messages.takes[messages.takes_of[rank] as usize..messages.takes_of[rank + 1] as usize];
        let mut coming = std::mem::take(&mut self.coming);
        coming.clear();
        coming.extend(takes.iter().map(|message| (self.arrivals[*message as usize], *message)));
        coming.sort_unstable();
        let network = &self.lockstep.network;
        let mut times = self.times[rank];
        for (arrival, message) in &coming {
            let price = messages.prices[messages.sends[*message as usize] as usize];
            let start = (*arrival).max(times.at).max(times.receiving);
            let first = start.plus(network.overhead);
            times.at = first.plus(price.copy.max(price.wire));
            times.receiving = start.plus(network.gap).plus(price.wire);
            self.taken[*message as usize] = if price.rendezvous { start } else { Time::ZERO };
        }
        if times.at < times.quiet_until {
            self.times[rank] = times;
        } else {
            coming.iter().for_each(|(_, message)| self.take_in_detours(rank, *message, messages));
        }
        self.coming = coming;
    }

    /// Takes one message, where a detour may come between.
    #[cold]
    fn take_in_detours(&mut self, rank: usize, message: u32, messages: &Messages) {
        let network = &self.lockstep.network;
        let price = messages.prices[messages.sends[message as usize] as usize];
        let times = self.times[rank];
        let start = self.free_from(rank, self.arrivals[message as usize].max(times.at).max(times.receiving));
        let first = self.work(rank, start, network.overhead);
        let copied = self.work(rank, first, price.copy);
        self.times[rank].at = copied.max(first.plus(price.wire));
        self.times[rank].receiving = start.plus(network.gap).plus(price.wire);
        self.taken[message as usize] = if price.rendezvous { start } else { Time::ZERO };
    }

    /// `now`, or the end of the detour that it lies in.
    fn free_from(&mut self, rank: usize, now: Time) -> Time {
        if now < self.times[rank].quiet_until || self.lockstep.network.overhead == Time::ZERO {
            return now;
        }
        let free = self.detours.free_from(name(rank), &mut self.cursors[rank], now);
        self.met(rank);
        free
    }

    /// When so much work is done that starts at `start`.
    fn work(&mut self, rank: usize, start: Time, work: Time) -> Time {
        let quiet_until = self.times[rank].quiet_until;
        let end = start.plus(work);
        if work == Time::ZERO || start < quiet_until && end <= quiet_until {
            return end;
        }
        let end = self.detours.finish(name(rank), &mut self.cursors[rank], start, work);
        self.met(rank);
        end
    }

    fn met(&mut self, rank: usize) {
        self.disturbed = true;
        self.times[rank].quiet_until = self.detours.quiet_until(&self.cursors[rank]);
    }

    /// When the last rank is where it is.
    fn last(&self) -> Time {
        self.times.iter().map(|times| times.at).max().unwrap_or_default()
    }

    /// How far the first rank is before the last.
    fn spread(&self) -> Time {
        self.last().since(self.times.iter().map(|times| times.at).min().unwrap_or_default())
    }

    /// How many cycles of this length end before any node's next detour.
    fn quiet_cycles(&self, shift: Time) -> u64 {
        let of = |times: &Times| times.quiet_until.min(TOO_LATE).since(times.at).picos() / shift.picos();
        self.times.iter().map(of).min().unwrap_or(0)
    }

    fn shift(&mut self, by: Time) {
        for times in &mut self.times {
            times.at = times.at.plus(by);
            times.sending = times.sending.plus(by);
            times.receiving = times.receiving.plus(by);
        }
    }
}

fn name(rank: usize) -> Rank {
    Rank(u32::try_from(rank).expect("ranks are counted in 32 bits"))
}
