//! The simulation of a schedule, event by event.
//!
//! **Problem.** When is each rank done? **Idea.** An operation that is free to start becomes an event; one that starts takes its
//! CPU and NIC and makes others free; a send makes the event of its message's arrival. **Why this way.** These are LogGOPSim's
//! rules (Hoefler et al., HPDC 2010), so times equal its times; where they differ, and why:
//!
//! - operations that become free at once start sends first, then receives, then computing, and otherwise in the order of the
//!   schedule (theirs is not stable, and messages of one sender overtake each other);
//! - *(s - 1) G* of a message without bytes is nothing (theirs wraps around);
//! - what waits for an operation on another CPU waits until it is done (theirs starts at once).
//!
//! A message is handled by the CPU and NIC of the receiver that have the numbers of the sender's. Receiving keeps the CPU until
//! the last byte is there. A sender in rendezvous is done when its message and the receive have met.
//!
//! One run is one thread's work, so it is the same on any machine; runs of other seeds are other threads' work.
//!
//! | module | owns |
//! |---|---|
//! | `queue` | what happens next |
//! | `matching` | which message is for which receive |
//! | `waiting` | what waits until a CPU or NIC is free |

mod matching;
mod queue;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod twin;
mod waiting;

use std::sync::atomic::{AtomicBool, Ordering};

use crate::detour::Detours;
use crate::error::Error;
use crate::network::LogGops;
use crate::operation::{ANY, Kind, OpId, Operation, Rank};
use crate::schedule::Schedule;
use crate::time::Time;
use matching::{Arrived, Matching};
use queue::{Event, Queue, What};
use waiting::Lines;

/// What came of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// When each rank was done.
    pub finished: Vec<Time>,
    /// Operations and messages.
    pub events: u64,
}

impl Outcome {
    /// When the last rank was done.
    #[must_use]
    pub fn makespan(&self) -> Time {
        self.finished.iter().copied().max().unwrap_or_default()
    }
}

/// Runs a schedule to its end.
///
/// # Errors
/// If a rank waits for ever, a message is never received, or the end lies beyond [`Time::MAX`].
pub fn simulate<S: Schedule, D: Detours>(schedule: &S, network: &LogGops, detours: &D) -> Result<Outcome, Error> {
    simulate_until(schedule, network, detours, &AtomicBool::new(false))
}

/// Events between two looks at whether to stop: some milliseconds of them.
const LOOKS: u32 = 1 << 14;

/// Runs a schedule to its end, or until `stop` is set.
///
/// # Errors
/// Those of [`simulate`], and [`Error::Stopped`].
pub fn simulate_until<S: Schedule, D: Detours>(
    schedule: &S,
    network: &LogGops,
    detours: &D,
    stop: &AtomicBool,
) -> Result<Outcome, Error> {
    let mut engine = Engine::new(schedule, network, detours);
    let mut handled: u32 = 0;
    while let Some(event) = engine.queue.pop() {
        if event.time == Time::MAX {
            return Err(Error::TooLong);
        }
        if handled.is_multiple_of(LOOKS) && stop.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
        handled = handled.wrapping_add(1);
        engine.handle(event);
    }
    engine.outcome()
}

struct Engine<'a, S: Schedule, D: Detours> {
    schedule: &'a S,
    network: &'a LogGops,
    detours: &'a D,
    queue: Queue,
    ranks: Vec<RankState<S::Progress>>,
    /// When each CPU, sending NIC and receiving NIC of each rank is free.
    free_at: Vec<Time>,
    /// Where each CPU of each rank is among its node's detours.
    cursors: Vec<D::Cursor>,
    lines: Lines,
    /// What the event at hand brought about, until it is settled.
    marks: Vec<Mark>,
    /// What became free by that.
    free: Vec<Operation>,
    numbers: u64,
    finishes: u64,
}

struct RankState<P> {
    progress: P,
    matching: Matching,
}

/// An operation started or is done.
struct Mark {
    rank: Rank,
    operation: OpId,
    done: bool,
}

impl<'a, S: Schedule, D: Detours> Engine<'a, S, D> {
    fn new(schedule: &'a S, network: &'a LogGops, detours: &'a D) -> Self {
        let ranks = schedule.ranks();
        let (count, cpus, nics) = (ranks as usize, usize::from(schedule.cpus()), usize::from(schedule.nics()));
        let mut engine = Self {
            schedule,
            network,
            detours,
            queue: Queue::new(),
            ranks: Vec::with_capacity(count),
            free_at: vec![Time::ZERO; count * (cpus + 2 * nics)],
            cursors: (0..ranks)
                .flat_map(|rank| std::iter::repeat_with(move || detours.begin(Rank(rank))).take(cpus))
                .collect(),
            lines: Lines::new(count * (cpus + 2 * cpus * nics)),
            marks: Vec::new(),
            free: Vec::new(),
            numbers: 0,
            finishes: 0,
        };
        for rank in (0..ranks).map(Rank) {
            let progress = schedule.begin(rank, &mut engine.free);
            engine.ranks.push(RankState { progress, matching: Matching::default() });
            engine.release(rank, Time::ZERO);
        }
        engine
    }

    fn handle(&mut self, event: Event) {
        match (event.what, event.operation.kind) {
            (What::Start, Kind::Calc) => self.calc(event),
            (What::Start, Kind::Send) => self.send(event),
            (What::Start, Kind::Recv) => self.post(event),
            (What::Arrive, _) => self.arrive(event),
            (What::Finish, _) => self.mark(event.rank, event.operation.id, true),
        }
        self.settle(event.time);
    }

    fn calc(&mut self, event: Event) {
        let Event { time, rank, operation, .. } = event;
        let (cpu, work) = (self.cpu(rank, operation), Time::from_picos(operation.size));
        let Some(event) = self.unless_busy(event, cpu, cpu, work, self.line(&event)) else { return };
        let end = self.work(event.rank, operation, time, work);
        self.free_at[cpu] = end;
        self.went(&event);
        self.mark(rank, operation.id, false);
        self.mark_done(rank, operation, time, end);
    }

    fn send(&mut self, event: Event) {
        let Event { time, rank, operation, .. } = event;
        let (cpu, nic) = (self.cpu(rank, operation), self.sending(rank, operation));
        let Some(event) = self.unless_busy(event, cpu, nic, self.network.overhead, self.line(&event)) else { return };
        let sent = self.work(rank, operation, time, self.network.overhead);
        let end = self.work(rank, operation, sent, self.network.copy(operation.size));
        self.free_at[cpu] = end;
        self.free_at[nic] = time.plus(self.network.gap).plus(self.network.wire(operation.size));
        self.went(&event);
        self.mark(rank, operation.id, false);
        let arrival = Operation { peer: rank.0, ..operation };
        self.push(sent.plus(self.network.latency), Rank(operation.peer), arrival, What::Arrive);
        if !self.rendezvous(operation) {
            self.mark_done(rank, operation, time, end);
        }
    }

    fn post(&mut self, event: Event) {
        let Event { time, rank, operation, .. } = event;
        self.mark(rank, operation.id, false);
        if let Some(Arrived { send, ready }) = self.ranks[rank.index()].matching.post(operation) {
            if self.rendezvous(send) {
                self.mark(Rank(send.peer), send.id, true);
            }
            self.mark_done(rank, operation, time, ready);
        }
    }

    fn arrive(&mut self, event: Event) {
        let Event { time, rank, operation: send, .. } = event;
        let (cpu, nic) = (self.cpu(rank, send), self.receiving(rank, send));
        let Some(event) = self.unless_busy(event, cpu, nic, self.network.overhead, self.line(&event)) else { return };
        let taken = self.work(rank, send, time, self.network.overhead);
        let copied = self.work(rank, send, taken, self.network.copy(send.size));
        let ready = copied.max(taken.plus(self.network.wire(send.size)));
        self.free_at[cpu] = ready;
        self.free_at[nic] = time.plus(self.network.gap).plus(self.network.wire(send.size));
        self.went(&event);
        if let Some(receive) = self.ranks[rank.index()].matching.arrive(Arrived { send, ready }) {
            if self.rendezvous(send) {
                self.mark(Rank(send.peer), send.id, true);
            }
            self.mark_done(rank, send.named(receive.id), time, ready);
        }
    }

    fn rendezvous(&self, send: Operation) -> bool {
        send.size > self.network.eager.get()
    }

    /// The event, if its CPU, its NIC and no detour keep it from starting now; else it waits. What takes no time of the CPU
    /// does not wait for the end of a detour.
    fn unless_busy(&mut self, event: Event, cpu: usize, nic: usize, work: Time, line: usize) -> Option<Event> {
        let mut free = self.free_at[cpu].max(self.free_at[nic]);
        if free <= event.time && work > Time::ZERO {
            let cursor = self.cursor(event.rank, event.operation);
            free = self.detours.free_from(event.rank, &mut self.cursors[cursor], event.time);
            if free > event.time {
                self.free_at[cpu] = free;
            }
        }
        if free <= event.time {
            return Some(event);
        }
        if let Some(head) = self.lines.wait(line, event) {
            self.queue.push(Event { time: free, ..head });
        }
        None
    }

    /// Calls up the next of the line that this event was in.
    fn went(&mut self, event: &Event) {
        let line = self.line(event);
        if let Some(next) = self.lines.went(line, event) {
            let Event { rank, operation, .. } = next;
            let nic = match (next.what, operation.kind) {
                (What::Arrive, _) => self.receiving(rank, operation),
                (_, Kind::Send) => self.sending(rank, operation),
                _ => self.cpu(rank, operation),
            };
            let time = self.free_at[self.cpu(rank, operation)].max(self.free_at[nic]).max(event.time);
            self.queue.push(Event { time, ..next });
        }
    }

    /// When the CPU has done so much work that it starts at a time.
    fn work(&mut self, rank: Rank, operation: Operation, start: Time, work: Time) -> Time {
        let cursor = self.cursor(rank, operation);
        self.detours.finish(rank, &mut self.cursors[cursor], start, work)
    }

    fn mark(&mut self, rank: Rank, operation: OpId, done: bool) {
        self.marks.push(Mark { rank, operation, done });
    }

    /// An operation that is at hand now is done at `end`. Where its rank has one CPU only, whatever waits for it waits for that
    /// CPU too, so it may be told at once; else an event tells it when it is so.
    fn mark_done(&mut self, rank: Rank, operation: Operation, now: Time, end: Time) {
        if self.schedule.cpus() == 1 || end <= now {
            self.mark(rank, operation.id, true);
        } else {
            self.finishes += 1;
            self.push(end, rank, operation, What::Finish);
        }
    }

    /// Tells the schedule what happened, lowest rank first, and starts what is free by that.
    fn settle(&mut self, now: Time) {
        let mut marks = std::mem::take(&mut self.marks);
        marks.sort_by_key(|mark| mark.rank);
        for of_a_rank in marks.chunk_by(|one, other| one.rank == other.rank) {
            let rank = of_a_rank[0].rank;
            let progress = &mut self.ranks[rank.index()].progress;
            for mark in of_a_rank {
                if mark.done {
                    self.schedule.done(rank, progress, mark.operation, &mut self.free);
                } else {
                    self.schedule.started(rank, progress, mark.operation, &mut self.free);
                }
            }
            self.release(rank, now);
        }
        marks.clear();
        self.marks = marks;
    }

    /// Makes events of what is free.
    fn release(&mut self, rank: Rank, now: Time) {
        let mut free = std::mem::take(&mut self.free);
        free.sort_by_key(|operation| operation.kind);
        for operation in free.drain(..) {
            let mut time = self.free_at[self.cpu(rank, operation)].max(now);
            if operation.kind == Kind::Send {
                time = time.max(self.free_at[self.sending(rank, operation)]);
            }
            self.push(time, rank, operation, What::Start);
        }
        self.free = free;
    }

    fn push(&mut self, time: Time, rank: Rank, operation: Operation, what: What) {
        self.queue.push(Event { time, number: self.numbers, operation, rank, what });
        self.numbers += 1;
    }

    fn cursor(&self, rank: Rank, operation: Operation) -> usize {
        rank.index() * usize::from(self.schedule.cpus()) + usize::from(operation.cpu)
    }

    fn cpu(&self, rank: Rank, operation: Operation) -> usize {
        self.resources(rank) + usize::from(operation.cpu)
    }

    fn sending(&self, rank: Rank, operation: Operation) -> usize {
        self.resources(rank) + usize::from(self.schedule.cpus()) + usize::from(operation.nic)
    }

    fn receiving(&self, rank: Rank, operation: Operation) -> usize {
        self.sending(rank, operation) + usize::from(self.schedule.nics())
    }

    fn resources(&self, rank: Rank) -> usize {
        rank.index() * (usize::from(self.schedule.cpus()) + 2 * usize::from(self.schedule.nics()))
    }

    /// Which line an event waits in: one for each CPU, then for each CPU and NIC those of sends and those of arrivals.
    fn line(&self, event: &Event) -> usize {
        let (cpus, nics) = (usize::from(self.schedule.cpus()), usize::from(self.schedule.nics()));
        let (cpu, nic) = (usize::from(event.operation.cpu), usize::from(event.operation.nic));
        let of_rank = match (event.what, event.operation.kind) {
            (What::Arrive, _) => cpus + cpus * nics + cpu * nics + nic,
            (_, Kind::Send) => cpus + cpu * nics + nic,
            _ => cpu,
        };
        event.rank.index() * (cpus + 2 * cpus * nics) + of_rank
    }

    fn outcome(self) -> Result<Outcome, Error> {
        for (rank, state) in (0..).zip(&self.ranks) {
            if let Some(receive) = state.matching.first_posted() {
                let shown =
                    |kind, any: &str, number| if number == ANY { any.to_owned() } else { format!("{kind} {number}") };
                let (from, tag) = (shown("rank", "any rank", receive.from), shown("tag", "any tag", receive.tag));
                return Err(Error::NeverSent { rank, from, tag });
            }
            if let Some(Arrived { send, .. }) = state.matching.first_arrived() {
                return Err(Error::NeverReceived { rank, from: send.peer, tag: send.tag });
            }
        }
        let (stride, cpus) = (self.resources(Rank(1)), usize::from(self.schedule.cpus()));
        let finished: Vec<Time> =
            self.free_at.chunks(stride).map(|rank| rank[..cpus].iter().copied().max().unwrap_or_default()).collect();
        if finished.contains(&Time::MAX) {
            return Err(Error::TooLong);
        }
        Ok(Outcome { finished, events: self.numbers - self.finishes })
    }
}
