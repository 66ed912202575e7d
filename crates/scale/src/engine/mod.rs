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
//! | `lane` | events that come out in the order in which they went in |
//! | `matching` | which message is for which receive |
//! | `waiting` | what waits until a CPU or NIC is free |

mod lane;
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
        if handled.is_multiple_of(LOOKS) && stop.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
        handled = handled.wrapping_add(1);
        engine.handle(&event);
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
    /// What became free by the event at hand.
    free: Vec<Operation>,
    numbers: u64,
    finishes: u64,
}

struct RankState<P> {
    progress: P,
    matching: Matching,
}

/// What an event takes, as places in the engine's lists.
#[derive(Clone, Copy)]
struct Needs {
    cpu: usize,
    /// Its CPU once more if it needs none.
    nic: usize,
    /// Where it waits for them.
    line: usize,
}

/// What an event brought about; by default nothing.
#[derive(Default)]
struct Brought {
    /// An operation of the rank started.
    started: Option<OpId>,
    /// One in rendezvous met its other side, so its sender is done.
    met: Option<(Rank, OpId)>,
    /// An operation of the rank is done.
    done: Option<OpId>,
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

    fn handle(&mut self, event: &Event) {
        let brought = match (event.what, event.operation.kind) {
            (What::Start, Kind::Calc) => self.calc(event),
            (What::Start, Kind::Send) => self.send(event),
            (What::Start, Kind::Recv) => self.post(event),
            (What::Arrive, _) => self.arrive(event),
            (What::Finish, _) => Brought { done: Some(event.operation.id), ..Brought::default() },
        };
        self.settle(event.time, event.rank, &brought);
    }

    fn calc(&mut self, event: &Event) -> Brought {
        let &Event { time, rank, operation, .. } = event;
        let (needs, work) = (self.needs(event), Time::from_picos(operation.size));
        if self.must_wait(event, needs, work) {
            return Brought::default();
        }
        let end = self.work(rank, operation, time, work);
        self.free_at[needs.cpu] = end;
        self.went(event, needs);
        Brought { started: Some(operation.id), met: None, done: self.done(rank, operation, time, end) }
    }

    fn send(&mut self, event: &Event) -> Brought {
        let &Event { time, rank, operation, .. } = event;
        let needs = self.needs(event);
        if self.must_wait(event, needs, self.network.overhead) {
            return Brought::default();
        }
        let sent = self.work(rank, operation, time, self.network.overhead);
        let end = self.work(rank, operation, sent, self.network.copy(operation.size));
        self.free_at[needs.cpu] = end;
        self.free_at[needs.nic] = time.plus(self.network.gap).plus(self.network.wire(operation.size));
        self.went(event, needs);
        let arrival = Operation { peer: rank.0, ..operation };
        self.push(sent.plus(self.network.latency), Rank(operation.peer), arrival, What::Arrive);
        let done = if self.rendezvous(operation) { None } else { self.done(rank, operation, time, end) };
        Brought { started: Some(operation.id), met: None, done }
    }

    fn post(&mut self, event: &Event) -> Brought {
        let &Event { time, rank, operation, .. } = event;
        let (mut met, mut done) = (None, None);
        if let Some(Arrived { send, ready }) = self.ranks[rank.index()].matching.post(operation) {
            met = self.met(send);
            done = self.done(rank, operation, time, ready);
        }
        Brought { started: Some(operation.id), met, done }
    }

    fn arrive(&mut self, event: &Event) -> Brought {
        let &Event { time, rank, operation: send, .. } = event;
        let needs = self.needs(event);
        if self.must_wait(event, needs, self.network.overhead) {
            return Brought::default();
        }
        let wire = self.network.wire(send.size);
        let taken = self.work(rank, send, time, self.network.overhead);
        let copied = self.work(rank, send, taken, self.network.copy(send.size));
        let ready = copied.max(taken.plus(wire));
        self.free_at[needs.cpu] = ready;
        self.free_at[needs.nic] = time.plus(self.network.gap).plus(wire);
        self.went(event, needs);
        match self.ranks[rank.index()].matching.arrive(Arrived { send, ready }) {
            Some(receive) => {
                let done = self.done(rank, send.named(receive.id), time, ready);
                Brought { started: None, met: self.met(send), done }
            }
            None => Brought::default(),
        }
    }

    fn rendezvous(&self, send: Operation) -> bool {
        send.size > self.network.eager.get()
    }

    /// A message, with its sender as the peer, and its receive have met: who is done by that besides the receiver.
    fn met(&self, send: Operation) -> Option<(Rank, OpId)> {
        self.rendezvous(send).then_some((Rank(send.peer), send.id))
    }

    /// Whether its CPU, its NIC or a detour keeps an event from starting now; then it waits. What takes no time of the CPU does
    /// not wait for the end of a detour.
    fn must_wait(&mut self, event: &Event, needs: Needs, work: Time) -> bool {
        let mut free = self.free_at[needs.cpu].max(self.free_at[needs.nic]);
        if free <= event.time && work > Time::ZERO {
            let cursor = self.cursor(event.rank, event.operation);
            free = self.detours.free_from(event.rank, &mut self.cursors[cursor], event.time);
            if free > event.time {
                self.free_at[needs.cpu] = free;
            }
        }
        if free <= event.time {
            return false;
        }
        if self.lines.wait(needs.line, event) {
            self.queue.push(Event { time: free, ..*event });
        }
        true
    }

    /// Calls up the next of the line that this event was in.
    fn went(&mut self, event: &Event, needs: Needs) {
        if let Some(next) = self.lines.went(needs.line, event) {
            let time = self.free_at[needs.cpu].max(self.free_at[needs.nic]).max(event.time);
            self.queue.push(Event { time, ..next });
        }
    }

    /// When the CPU has done so much work that it starts at a time.
    fn work(&mut self, rank: Rank, operation: Operation, start: Time, work: Time) -> Time {
        let cursor = self.cursor(rank, operation);
        self.detours.finish(rank, &mut self.cursors[cursor], start, work)
    }

    /// An operation that is at hand now is done at `end`. Where its rank has one CPU only, whatever waits for it waits for that
    /// CPU too, so it may be told at once; else an event tells it when it is so.
    fn done(&mut self, rank: Rank, operation: Operation, now: Time, end: Time) -> Option<OpId> {
        if self.schedule.cpus() == 1 || end <= now {
            return Some(operation.id);
        }
        self.finishes += 1;
        self.push(end, rank, operation, What::Finish);
        None
    }

    /// Sees to what an event brought about, lowest rank first.
    fn settle(&mut self, now: Time, rank: Rank, &Brought { started, met, done }: &Brought) {
        let own = match met {
            Some((sender, send)) if sender == rank => Some(send),
            Some((sender, send)) if sender < rank => {
                self.tell(now, sender, None, [Some(send), None]);
                None
            }
            _ => None,
        };
        self.tell(now, rank, started, [own, done]);
        if let Some((sender, send)) = met.filter(|(sender, _)| *sender > rank) {
            self.tell(now, sender, None, [Some(send), None]);
        }
    }

    /// Tells the schedule what started and what is done on one rank, and starts what is free by that.
    fn tell(&mut self, now: Time, rank: Rank, started: Option<OpId>, done: [Option<OpId>; 2]) {
        let progress = &mut self.ranks[rank.index()].progress;
        if let Some(operation) = started {
            self.schedule.started(rank, progress, operation, &mut self.free);
        }
        for operation in done.into_iter().flatten() {
            self.schedule.done(rank, progress, operation, &mut self.free);
        }
        self.release(rank, now);
    }

    /// Makes events of what is free: sends first, then receives, then computing.
    fn release(&mut self, rank: Rank, now: Time) {
        if self.free.is_empty() {
            return;
        }
        let mut free = std::mem::take(&mut self.free);
        for kind in [Kind::Send, Kind::Recv, Kind::Calc] {
            for &operation in free.iter().filter(|operation| operation.kind == kind) {
                self.start(rank, operation, now);
            }
        }
        free.clear();
        self.free = free;
    }

    fn start(&mut self, rank: Rank, operation: Operation, now: Time) {
        let event = Event { time: now, number: self.numbers, operation, rank, what: What::Start };
        let needs = self.needs(&event);
        let time = self.free_at[needs.cpu].max(self.free_at[needs.nic]).max(now);
        self.numbers += 1;
        self.queue.push(Event { time, ..event });
    }

    fn push(&mut self, time: Time, rank: Rank, operation: Operation, what: What) {
        self.queue.push(Event { time, number: self.numbers, operation, rank, what });
        self.numbers += 1;
    }

    fn needs(&self, event: &Event) -> Needs {
        let (cpus, nics) = (usize::from(self.schedule.cpus()), usize::from(self.schedule.nics()));
        let (cpu, nic) = (usize::from(event.operation.cpu), usize::from(event.operation.nic));
        let (resources, lines) =
            (event.rank.index() * (cpus + 2 * nics), event.rank.index() * (cpus + 2 * cpus * nics));
        let with_nic = |nics_before: usize| Needs {
            cpu: resources + cpu,
            nic: resources + cpus + nics_before * nics + nic,
            line: lines + cpus + (nics_before * cpus + cpu) * nics + nic,
        };
        match (event.what, event.operation.kind) {
            (What::Arrive, _) => with_nic(1),
            (_, Kind::Send) => with_nic(0),
            _ => Needs { cpu: resources + cpu, nic: resources + cpu, line: lines + cpu },
        }
    }

    fn cursor(&self, rank: Rank, operation: Operation) -> usize {
        rank.index() * usize::from(self.schedule.cpus()) + usize::from(operation.cpu)
    }

    fn outcome(self) -> Result<Outcome, Error> {
        if self.queue.is_late() {
            return Err(Error::TooLong);
        }
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
        let (cpus, nics) = (usize::from(self.schedule.cpus()), usize::from(self.schedule.nics()));
        let finished: Vec<Time> = self
            .free_at
            .chunks(cpus + 2 * nics)
            .map(|rank| rank[..cpus].iter().copied().max().unwrap_or_default())
            .collect();
        if finished.contains(&Time::MAX) {
            return Err(Error::TooLong);
        }
        Ok(Outcome { finished, events: self.numbers - self.finishes })
    }
}
