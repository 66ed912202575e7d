//! The simulation of a schedule, event by event.
//!
//! **Problem.** When is each rank done? **Idea.** An operation that is ready to start becomes an event. An operation
//! that starts takes its CPU and NIC and makes others ready; a send makes the event of its message's arrival. **Why
//! this way.** These are the rules of LogGOPSim (Hoefler et al., HPDC 2010), so the times are equal. There are three
//! differences:
//!
//! - operations that become ready at the same time start in this order: sends, receives, computing, and otherwise as in
//!   the schedule (LogGOPSim's sort is not stable, and messages of one sender overtake each other);
//! - *(s - 1) G* of a message without bytes is zero (in LogGOPSim it wraps around);
//! - an operation that waits for one on another CPU waits until that one is done (in LogGOPSim it starts at once).
//!
//! The receiver handles a message with the CPU and NIC that have the sender's numbers. Receiving keeps the CPU busy
//! until the last byte arrives. A send in rendezvous is done when its message and the receive have met, and not before
//! it has left the CPU.
//!
//! **Order.** Events that are ready for a CPU at the same time go in the order in which their ready times became known.
//! An operation joins this order when the last operation that it waits for starts; if that one is a receive or a send
//! in rendezvous, when its message is matched. A message joins it when it is sent. This is LogGOPSim's order, and it is
//! the same for any number of CPUs per rank.
//!
//! One run is the work of one thread, so it is the same on any machine; runs with other seeds are the work of other
//! threads.
//!
//! | module | owns |
//! |---|---|
//! | `event` | an event of a rank |
//! | `event_queue` | the next event |
//! | `per_delay_queue` | events that come out in the order in which they went in |
//! | `timing_wheel` | other events, by time slot |
//! | `matching` | which message is for which receive |
//! | `resource_queues` | what waits until a CPU or NIC is free |
//! | `resources` | which CPUs and NICs there are |

mod event;
mod event_queue;
mod matching;
mod per_delay_queue;
#[cfg(test)]
mod reference_model;
mod resource_queues;
mod resources;
#[cfg(test)]
mod tests;
mod timing_wheel;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::Error;
use crate::model::detour::Detours;
use crate::model::network::LogGops;
use crate::model::operation::{ANY, OpId, Operation, OperationKind, Rank};
use crate::programs::schedule::Schedule;
use crate::time::Time;
use event::{SimulationEvent, What};
use event_queue::EventQueue;
use matching::{Arrived, Matching};
use resource_queues::ResourceQueues;
use resources::{Needs, Resources, Use};

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulationOutcome {
    /// The time at which each rank was done.
    pub finished: Vec<Time>,
    /// The number of operations and messages.
    pub events: u64,
}

impl SimulationOutcome {
    /// The time at which the last rank was done.
    #[must_use]
    pub fn makespan(&self) -> Time {
        self.finished.iter().copied().max().unwrap_or_default()
    }
}

/// Runs a schedule to its end.
///
/// # Errors
/// If a rank waits for ever, a message is never received, or the end lies beyond [`Time::MAX`].
pub fn simulate<S: Schedule, D: Detours>(
    schedule: &S,
    network: &LogGops,
    detours: &D,
) -> Result<SimulationOutcome, Error> {
    simulate_until(schedule, network, detours, &AtomicBool::new(false))
}

/// Events between two checks of `stop`: some milliseconds.
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
) -> Result<SimulationOutcome, Error> {
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
    queue: EventQueue,
    ranks: Vec<RankState<S::Progress>>,
    resources: Resources,
    /// The time at which each CPU, sending NIC and receiving NIC of each rank becomes free.
    free_at: Vec<Time>,
    /// The position of each CPU of each rank in its node's detours.
    cursors: Vec<D::Cursor>,
    lines: ResourceQueues,
    /// The operations that the current event made ready.
    free: Vec<Operation>,
    /// The times at which sends in rendezvous leave the CPU, if their messages arrive earlier.
    leaving: HashMap<(Rank, OpId), Time>,
    numbers: u64,
}

struct RankState<P> {
    progress: P,
    matching: Matching,
    /// The time at which the rank's last send in rendezvous met its receive.
    met: Time,
}

/// The effects of an event; by default none.
#[derive(Default)]
struct Brought {
    /// An operation of the rank that started.
    started: Option<OpId>,
    /// A rendezvous that is complete, so that its sender is done.
    met: Option<(Rank, OpId, Time)>,
    /// An operation of the rank that is done, or will be at this time.
    done: Option<(OpId, Time)>,
}

impl<'a, S: Schedule, D: Detours> Engine<'a, S, D> {
    fn new(schedule: &'a S, network: &'a LogGops, detours: &'a D) -> Self {
        let ranks = schedule.ranks();
        let resources = Resources::new(ranks, schedule.elsewhere());
        let mut engine = Self {
            schedule,
            network,
            detours,
            queue: EventQueue::new(),
            ranks: Vec::with_capacity(ranks as usize),
            free_at: vec![Time::ZERO; resources.count()],
            cursors: resources.cursors().map(|rank| detours.begin(rank)).collect(),
            lines: ResourceQueues::new(resources.queues()),
            resources,
            free: Vec::new(),
            leaving: HashMap::new(),
            numbers: 0,
        };
        for rank in (0..ranks).map(Rank) {
            let progress = schedule.begin(rank, &mut engine.free);
            engine.ranks.push(RankState { progress, matching: Matching::default(), met: Time::ZERO });
            engine.release(rank, Time::ZERO);
        }
        engine
    }

    fn handle(&mut self, event: &SimulationEvent) {
        let brought = match (event.what, event.operation.kind) {
            (What::Start, OperationKind::Calc) => self.calc(event),
            (What::Start, OperationKind::Send) => self.send(event),
            (What::Start, OperationKind::Recv) => self.post(event),
            (What::Arrive, _) => self.arrive(event),
        };
        self.settle(event.time, event.rank, &brought);
    }

    fn calc(&mut self, event: &SimulationEvent) -> Brought {
        let &SimulationEvent { time, rank, operation, .. } = event;
        let (needs, work) = (self.needs(event), Time::from_picos(operation.size));
        if self.must_wait(event, needs, work) {
            return Brought::default();
        }
        let end = self.work(rank, needs, time, work);
        self.free_at[needs.cpu] = end;
        self.went(event, needs);
        Brought { started: Some(operation.id), met: None, done: Some((operation.id, end)) }
    }

    fn send(&mut self, event: &SimulationEvent) -> Brought {
        let &SimulationEvent { time, rank, operation, .. } = event;
        let needs = self.needs(event);
        if self.must_wait(event, needs, self.network.overhead) {
            return Brought::default();
        }
        let sent = self.work(rank, needs, time, self.network.overhead);
        let end = self.work(rank, needs, sent, self.network.copy(operation.size));
        self.free_at[needs.cpu] = end;
        self.free_at[needs.nic] = time.plus(self.network.gap).plus(self.network.wire(operation.size));
        self.went(event, needs);
        let arrival = Operation { peer: rank.0, ..operation };
        let arrives = sent.plus(self.network.latency);
        self.push(arrives, Rank(operation.peer), arrival, What::Arrive);
        let rendezvous = self.rendezvous(operation);
        if rendezvous && end > arrives {
            self.leaving.insert((rank, operation.id), end);
        }
        Brought { started: Some(operation.id), met: None, done: (!rendezvous).then_some((operation.id, end)) }
    }

    fn post(&mut self, event: &SimulationEvent) -> Brought {
        let &SimulationEvent { time, rank, operation, .. } = event;
        let (mut met, mut done) = (None, None);
        if let Some(Arrived { send, ready }) = self.ranks[rank.index()].matching.post(operation) {
            met = self.met(send, time);
            done = Some((operation.id, ready));
        }
        Brought { started: Some(operation.id), met, done }
    }

    fn arrive(&mut self, event: &SimulationEvent) -> Brought {
        let &SimulationEvent { time, rank, operation: send, .. } = event;
        let needs = self.needs(event);
        if self.must_wait(event, needs, self.network.overhead) {
            return Brought::default();
        }
        let wire = self.network.wire(send.size);
        let taken = self.work(rank, needs, time, self.network.overhead);
        let copied = self.work(rank, needs, taken, self.network.copy(send.size));
        let ready = copied.max(taken.plus(wire));
        self.free_at[needs.cpu] = ready;
        self.free_at[needs.nic] = time.plus(self.network.gap).plus(wire);
        self.went(event, needs);
        match self.ranks[rank.index()].matching.arrive(Arrived { send, ready }) {
            Some(receive) => Brought { started: None, met: self.met(send, time), done: Some((receive.id, ready)) },
            None => Brought::default(),
        }
    }

    fn rendezvous(&self, send: Operation) -> bool {
        send.size > self.network.eager.get()
    }

    /// A message, with its sender as the peer, and its receive have met: returns the sender that is done because of
    /// that, and when.
    fn met(&mut self, send: Operation, now: Time) -> Option<(Rank, OpId, Time)> {
        if !self.rendezvous(send) {
            return None;
        }
        let sender = Rank(send.peer);
        // Mostly empty: no hash is computed then.
        let left = if self.leaving.is_empty() { None } else { self.leaving.remove(&(sender, send.id)) };
        let end = left.map_or(now, |left| left.max(now));
        let met = &mut self.ranks[sender.index()].met;
        *met = end.max(*met);
        Some((sender, send.id, end))
    }

    /// Whether its CPU, its NIC or a detour keeps an event from starting now; the event then waits. An event without
    /// CPU time does not wait for the end of a detour.
    fn must_wait(&mut self, event: &SimulationEvent, needs: Needs, work: Time) -> bool {
        let mut free = self.free_at[needs.cpu].max(self.free_at[needs.nic]);
        if free <= event.time && work > Time::ZERO {
            free = self.detours.free_from(event.rank, &mut self.cursors[needs.cursor], event.time);
            if free > event.time {
                self.free_at[needs.cpu] = free;
            }
        }
        if free <= event.time {
            return false;
        }
        if self.lines.wait(needs.queue, event) {
            self.queue.push(SimulationEvent { time: free, ..*event });
        }
        true
    }

    /// Calls up the next event of this event's resource queue.
    fn went(&mut self, event: &SimulationEvent, needs: Needs) {
        if let Some(next) = self.lines.went(needs.queue, event) {
            let time = self.free_at[needs.cpu].max(self.free_at[needs.nic]).max(event.time);
            self.queue.push(SimulationEvent { time, ..next });
        }
    }

    /// The time at which the CPU has done work that starts at `start`.
    fn work(&mut self, rank: Rank, needs: Needs, start: Time, work: Time) -> Time {
        self.detours.finish(rank, &mut self.cursors[needs.cursor], start, work)
    }

    /// Handles the effects of an event, lowest rank first.
    fn settle(&mut self, now: Time, rank: Rank, &Brought { started, met, done }: &Brought) {
        let own = match met {
            Some((sender, send, end)) if sender == rank => Some((send, end)),
            Some((sender, send, end)) if sender < rank => {
                self.notify(now, sender, None, [Some((send, end)), None]);
                None
            }
            _ => None,
        };
        self.notify(now, rank, started, [own, done]);
        if let Some((sender, send, end)) = met.filter(|(sender, ..)| *sender > rank) {
            self.notify(now, sender, None, [Some((send, end)), None]);
        }
    }

    /// Reports to the schedule what started and what ends when on one rank, and starts the operations that become
    /// ready.
    fn notify(&mut self, now: Time, rank: Rank, started: Option<OpId>, done: [Option<(OpId, Time)>; 2]) {
        let progress = &mut self.ranks[rank.index()].progress;
        if let Some(operation) = started {
            self.schedule.started(rank, progress, operation, &mut self.free);
        }
        for (operation, end) in done.into_iter().flatten() {
            self.schedule.done(rank, progress, operation, end, &mut self.free);
        }
        self.release(rank, now);
    }

    /// Makes events of the ready operations: sends first, then receives, then computing.
    fn release(&mut self, rank: Rank, now: Time) {
        if self.free.is_empty() {
            return;
        }
        let mut free = std::mem::take(&mut self.free);
        for kind in [OperationKind::Send, OperationKind::Recv, OperationKind::Calc] {
            for &operation in free.iter().filter(|operation| operation.kind == kind) {
                self.start(rank, operation, now);
            }
        }
        free.clear();
        self.free = free;
    }

    fn start(&mut self, rank: Rank, operation: Operation, now: Time) {
        let ready = self.schedule.ready(&mut self.ranks[rank.index()].progress, operation.id);
        let event = SimulationEvent { time: now.max(ready), number: self.numbers, operation, rank, what: What::Start };
        let needs = self.needs(&event);
        let time = self.free_at[needs.cpu].max(self.free_at[needs.nic]).max(event.time);
        self.numbers += 1;
        self.queue.push(SimulationEvent { time, ..event });
    }

    fn push(&mut self, time: Time, rank: Rank, operation: Operation, what: What) {
        self.queue.push(SimulationEvent { time, number: self.numbers, operation, rank, what });
        self.numbers += 1;
    }

    fn needs(&self, event: &SimulationEvent) -> Needs {
        let used = match (event.what, event.operation.kind) {
            (What::Arrive, _) => Use::Arrive,
            (What::Start, OperationKind::Send) => Use::Send,
            (What::Start, _) => Use::Calc,
        };
        self.resources.needs(event.rank, used, event.operation)
    }

    fn outcome(self) -> Result<SimulationOutcome, Error> {
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
        let mut finished: Vec<Time> = self.ranks.iter().map(|state| state.met).collect();
        for (rank, cpu) in self.resources.cpus() {
            finished[rank] = finished[rank].max(self.free_at[cpu]);
        }
        if finished.contains(&Time::MAX) {
            return Err(Error::TooLong);
        }
        Ok(SimulationOutcome { finished, events: self.numbers })
    }
}
