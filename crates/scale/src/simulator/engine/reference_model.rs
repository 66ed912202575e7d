//! The reference model of the engine: one list of everything that should happen, searched for the next entry; what
//! cannot happen yet goes back into it; and a counter for each operation. The properties below compare the two.

use std::collections::HashMap;

use proptest::prelude::*;
use rampart_memory::Bytes;

use super::simulate;
use crate::model::detour::{Detours, Undisturbed};
use crate::model::network::LogGops;
use crate::model::operation::{Action, OpId, Operation, Rank, Tag};
use crate::programs::goal::graph::{After, Builder, RankGraph};
use crate::{GoalGraph, PerByte, Schedule as _, Time};

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Resource {
    Cpu(u8),
    Sending(u8),
    Receiving(u8),
}

#[derive(Clone, Copy)]
enum Happening {
    Start(OpId),
    Arrive { from: u32, send: Operation },
}

struct ReferenceModel<'a, D: Detours> {
    graphs: Vec<RankGraph>,
    network: LogGops,
    detours: &'a D,
    cursors: HashMap<(u32, u8), D::Cursor>,
    /// Time, number, rank, and event.
    list: Vec<(Time, u64, u32, Happening)>,
    made: u64,
    events: u64,
    free_at: HashMap<(u32, Resource), Time>,
    waits: Vec<Vec<usize>>,
    /// The time at which everything that an operation waits for is done, as far as known.
    ready: HashMap<(u32, u32), Time>,
    /// The end of each operation, and the time at which each send leaves its CPU.
    ends: HashMap<(u32, OpId), Time>,
    left: HashMap<(u32, OpId), Time>,
    posted: Vec<Vec<Operation>>,
    /// The sender, the send, and the time at which the CPU has the message.
    arrived: Vec<Vec<(u32, Operation, Time)>>,
}

/// Makespan of each rank and number of events; `None` if the program does not end.
fn model<D: Detours>(goal: &GoalGraph, network: &LogGops, detours: &D) -> Option<(Vec<Time>, u64)> {
    let model = run(goal, network, detours)?;
    let finished = |rank: u32| {
        let of_rank = model.ends.iter().filter(|((of, _), _)| *of == rank);
        of_rank.map(|(_, time)| *time).max().unwrap_or_default()
    };
    Some(((0..goal.ranks()).map(finished).collect(), model.events))
}

/// The reference model at the end of its run.
fn run<'a, D: Detours>(goal: &GoalGraph, network: &LogGops, detours: &'a D) -> Option<ReferenceModel<'a, D>> {
    let graphs: Vec<RankGraph> = goal.graphs().collect();
    let ranks = graphs.len();
    let waits = graphs.iter().map(|graph| vec![0; graph.operations().len()]).collect();
    let mut model = ReferenceModel {
        graphs,
        network: *network,
        detours,
        cursors: HashMap::new(),
        list: Vec::new(),
        made: 0,
        events: 0,
        free_at: HashMap::new(),
        waits,
        ready: HashMap::new(),
        ends: HashMap::new(),
        left: HashMap::new(),
        posted: vec![Vec::new(); ranks],
        arrived: vec![Vec::new(); ranks],
    };
    for (graph, waits) in model.graphs.iter().zip(&mut model.waits) {
        for operation in graph.operations() {
            let successors = graph.after_start(operation.id()).iter().chain(graph.after_end(operation.id()));
            successors.for_each(|next| waits[*next as usize] += 1);
        }
    }
    for rank in 0..u32::try_from(ranks).unwrap() {
        let free = (0..).zip(&model.waits[rank as usize]).filter(|(_, waits)| **waits == 0).map(|(id, _)| id).collect();
        model.start(rank, free, Time::ZERO);
    }
    while let Some(next) = (0..model.list.len()).min_by_key(|i| (model.list[*i].0, model.list[*i].1)) {
        let (now, number, rank, what) = model.list.remove(next);
        model.step(now, number, rank, what);
    }
    let ended = model.posted.iter().all(Vec::is_empty) && model.arrived.iter().all(Vec::is_empty);
    ended.then_some(model)
}

impl<D: Detours> ReferenceModel<'_, D> {
    fn operation(&self, rank: u32, id: OpId) -> Operation {
        self.graphs[rank as usize].operations()[id.0 as usize]
    }

    fn until(&self, rank: u32, resources: &[Resource]) -> Time {
        resources.iter().filter_map(|resource| self.free_at.get(&(rank, *resource))).max().copied().unwrap_or_default()
    }

    fn step(&mut self, now: Time, number: u64, rank: u32, what: Happening) {
        match what {
            Happening::Arrive { from, send } => {
                let taken = [Resource::Cpu(send.cpu()), Resource::Receiving(send.nic())];
                if self.put_off(now, number, rank, what, &taken, self.network.overhead) {
                    return;
                }
                let begun = self.work(rank, send.cpu(), now, self.network.overhead);
                let copied = self.work(rank, send.cpu(), begun, self.network.copy(send.size));
                let ready = copied.max(begun.plus(self.network.wire(send.size)));
                self.free_at.insert((rank, taken[0]), ready);
                let gap = self.network.gap.plus(self.network.wire(send.size));
                self.free_at.insert((rank, taken[1]), now.plus(gap));
                let fits = |receive: &Operation| fits(*receive, from, send);
                match self.posted[rank as usize].iter().position(fits) {
                    None => self.arrived[rank as usize].push((from, send, ready)),
                    Some(place) => {
                        let receive = self.posted[rank as usize].remove(place);
                        self.met(now, rank, receive, (from, send), ready, false);
                    }
                }
            }
            Happening::Start(id) => self.begin(now, number, rank, what, self.operation(rank, id)),
        }
    }

    fn begin(&mut self, now: Time, number: u64, rank: u32, what: Happening, operation: Operation) {
        let (id, cpu) = (operation.id(), Resource::Cpu(operation.cpu()));
        match operation.action() {
            Action::Calc(work) => {
                if self.put_off(now, number, rank, what, &[cpu], work) {
                    return;
                }
                let end = self.work(rank, operation.cpu(), now, work);
                self.free_at.insert((rank, cpu), end);
                let notices = [(rank, id, After::Start), self.done(rank, id, end)];
                self.notify(now, &notices);
            }
            Action::Send { to, bytes, .. } => {
                let taken = [cpu, Resource::Sending(operation.nic())];
                if self.put_off(now, number, rank, what, &taken, self.network.overhead) {
                    return;
                }
                let sent = self.work(rank, operation.cpu(), now, self.network.overhead);
                let end = self.work(rank, operation.cpu(), sent, self.network.copy(bytes.get()));
                self.free_at.insert((rank, cpu), end);
                let gap = self.network.gap.plus(self.network.wire(bytes.get()));
                self.free_at.insert((rank, taken[1]), now.plus(gap));
                self.make(sent.plus(self.network.latency), to.0, Happening::Arrive { from: rank, send: operation });
                self.left.insert((rank, id), end);
                let mut notices = vec![(rank, id, After::Start)];
                if bytes <= self.network.eager {
                    notices.push(self.done(rank, id, end));
                }
                self.notify(now, &notices);
            }
            Action::Recv { .. } => {
                let fits = |(from, send, _): &(u32, Operation, Time)| fits(operation, *from, *send);
                match self.arrived[rank as usize].iter().position(fits) {
                    Some(place) => {
                        let (from, send, ready) = self.arrived[rank as usize].remove(place);
                        self.met(now, rank, operation, (from, send), ready, true);
                    }
                    None => {
                        self.posted[rank as usize].push(operation);
                        self.notify(now, &[(rank, id, After::Start)]);
                    }
                }
            }
        }
    }

    fn met(
        &mut self,
        now: Time,
        rank: u32,
        receive: Operation,
        (from, send): (u32, Operation),
        ready: Time,
        posted: bool,
    ) {
        let mut notices = Vec::new();
        if posted {
            notices.push((rank, receive.id(), After::Start));
        }
        if Bytes::new(send.size) > self.network.eager {
            let left = self.left[&(from, send.id())];
            notices.push(self.done(from, send.id(), now.max(left)));
        }
        notices.push(self.done(rank, receive.id(), now.max(ready)));
        self.notify(now, &notices);
    }

    fn put_off(&mut self, now: Time, number: u64, rank: u32, what: Happening, by: &[Resource], work: Time) -> bool {
        let mut until = self.until(rank, by);
        let Resource::Cpu(cpu) = by[0] else { unreachable!("the CPU comes first") };
        if until <= now && work > Time::ZERO {
            let cursor = self.cursors.entry((rank, cpu)).or_insert_with(|| self.detours.begin(Rank(rank)));
            until = self.detours.free_from(Rank(rank), cursor, now);
            if until > now {
                self.free_at.insert((rank, by[0]), until);
            }
        }
        if until > now {
            self.list.push((until, number, rank, what));
        }
        until > now
    }

    fn work(&mut self, rank: u32, cpu: u8, start: Time, work: Time) -> Time {
        let cursor = self.cursors.entry((rank, cpu)).or_insert_with(|| self.detours.begin(Rank(rank)));
        self.detours.finish(Rank(rank), cursor, start, work)
    }

    /// The end of an operation is now known.
    fn done(&mut self, rank: u32, id: OpId, end: Time) -> (u32, OpId, After) {
        self.ends.insert((rank, id), end);
        for &next in self.graphs[rank as usize].after_end(id) {
            let ready = self.ready.entry((rank, next)).or_default();
            *ready = end.max(*ready);
        }
        (rank, id, After::End)
    }

    fn notify(&mut self, now: Time, notices: &[(u32, OpId, After)]) {
        let mut ranks: Vec<u32> = notices.iter().map(|(rank, ..)| *rank).collect();
        ranks.sort_unstable();
        ranks.dedup();
        for rank in ranks {
            let mut free = Vec::new();
            for (_, id, after) in notices.iter().filter(|(of, ..)| *of == rank) {
                let graph = &self.graphs[rank as usize];
                for &next in if *after == After::Start { graph.after_start(*id) } else { graph.after_end(*id) } {
                    let waits = &mut self.waits[rank as usize][next as usize];
                    *waits -= 1;
                    if *waits == 0 {
                        free.push(next);
                    }
                }
            }
            self.start(rank, free, now);
        }
    }

    fn start(&mut self, rank: u32, mut free: Vec<u32>, now: Time) {
        let operation = |id: &u32| self.graphs[rank as usize].operations()[*id as usize];
        free.sort_by_key(|id| match operation(id).action() {
            Action::Send { .. } => 0,
            Action::Recv { .. } => 1,
            Action::Calc(_) => 2,
        });
        for id in free {
            let operation = self.operation(rank, OpId(id));
            let mut by = vec![Resource::Cpu(operation.cpu())];
            if matches!(operation.action(), Action::Send { .. }) {
                by.push(Resource::Sending(operation.nic()));
            }
            let ready = self.ready.get(&(rank, id)).copied().unwrap_or_default();
            self.make(self.until(rank, &by).max(now).max(ready), rank, Happening::Start(OpId(id)));
        }
    }

    fn make(&mut self, time: Time, rank: u32, what: Happening) {
        self.list.push((time, self.made, rank, what));
        self.made += 1;
        self.events += 1;
    }
}

fn fits(receive: Operation, from: u32, send: Operation) -> bool {
    let Action::Recv { from: wanted, tag, .. } = receive.action() else { unreachable!("only receives are posted") };
    wanted.is_none_or(|rank| rank.0 == from) && tag.is_none_or(|tag| tag.0 == send.tag)
}

/// One message or some computing: kind, size, rank, peer, tag, CPU, NIC, and the receive's wildcards.
type Piece = (u8, u64, u32, u32, u32, u8, u8, (bool, bool));

/// Programs in which each send has its receive. The order of their operations decides whether they end.
fn program(cpus: u8) -> impl Strategy<Value = GoalGraph> {
    let wild = (prop::bool::weighted(0.2), prop::bool::weighted(0.2));
    let piece = (0..4_u8, 0..40_u64, 0..4_u32, 0..4_u32, 0..3_u32, 0..cpus, 0..cpus, wild);
    let edges = prop::collection::vec((0..4_usize, 0..20_u32, any::<bool>(), 1..4_u32), 0..25);
    (prop::collection::vec(piece, 0..25), edges).prop_map(|(pieces, edges)| goal(&pieces, &edges))
}

fn goal(pieces: &[Piece], edges: &[(usize, u32, bool, u32)]) -> GoalGraph {
    let mut builders = vec![Builder::default(); 4];
    let mut counts = [0_u32; 4];
    let mut add = |rank: u32, operation| {
        builders[rank as usize].add(operation);
        counts[rank as usize] += 1;
    };
    for &(kind, size, one, other, tag, cpu, nic, (any_source, any_tag)) in pieces {
        if kind == 0 {
            add(one, Operation::calc(Time::from_picos(size)).on(cpu, nic));
            continue;
        }
        let bytes = Bytes::new(size);
        add(one, Operation::send(Rank(other), bytes, Tag(tag)).on(cpu, nic));
        let from = (!any_source).then_some(Rank(one));
        add(other, Operation::recv(from, bytes, (!any_tag).then_some(Tag(tag))).on(nic, cpu));
    }
    for &(rank, number, start, ahead) in edges {
        if number + ahead < counts[rank] {
            let after = if start { After::Start } else { After::End };
            builders[rank].wait(OpId(number + ahead), after, OpId(number));
        }
    }
    finished(builders)
}

fn finished(builders: Vec<Builder>) -> GoalGraph {
    GoalGraph::new(builders.into_iter().map(|builder| builder.finish(Rank(0)).unwrap()).collect()).unwrap()
}

/// The same program, with one more operation on some ranks that takes no time and that nothing waits for.
fn with_unrelated(goal: &GoalGraph, ranks: u32, cpu: u8) -> GoalGraph {
    let with = |(rank, graph): (u32, RankGraph)| {
        let mut builder = Builder::default();
        for operation in graph.operations() {
            builder.add(*operation);
        }
        for other in graph.operations().iter().map(|operation| operation.id()) {
            graph.after_start(other).iter().for_each(|waiting| builder.wait(OpId(*waiting), After::Start, other));
            graph.after_end(other).iter().for_each(|waiting| builder.wait(OpId(*waiting), After::End, other));
        }
        if ranks & 1 << rank != 0 {
            builder.add(Operation::calc(Time::ZERO).on(cpu, 0));
        }
        builder
    };
    finished((0..).zip(goal.graphs()).map(with).collect())
}

/// The end of each operation of `goal` in a run of `other`, which begins with the same operations.
fn ends(goal: &GoalGraph, other: &GoalGraph, network: &LogGops) -> Option<Vec<Option<Time>>> {
    let model = run(other, network, &Undisturbed)?;
    let operations = (0..)
        .zip(goal.graphs())
        .flat_map(|(rank, graph)| (0..graph.operations().len()).zip(0..).map(move |(_, id)| (rank, OpId(id))));
    Some(operations.map(|operation| model.ends.get(&operation).copied()).collect())
}

prop_compose! {
    fn network()(latency in 0..30_u64, overhead in 0..10_u64, gap in 0..10_u64, wire in 0..3_u64, copy in 0..3_u64, eager in 0..40_u64)
        -> LogGops
    {
        LogGops {
            latency: Time::from_picos(latency),
            overhead: Time::from_picos(overhead),
            gap: Time::from_picos(gap),
            gap_per_byte: PerByte::from_attos(wire * 400_000),
            overhead_per_byte: PerByte::from_attos(copy * 700_000),
            eager: Bytes::new(eager),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn it_does_what_the_naive_simulator_does(goal in program(1), network in network()) {
        let ours = simulate(&goal, &network, &Undisturbed).ok().map(|outcome| (outcome.finished, outcome.events));
        prop_assert_eq!(ours, model(&goal, &network, &Undisturbed));
    }

    #[test]
    fn it_does_so_with_several_cpus_and_nics(goal in program(3), network in network()) {
        let ours = simulate(&goal, &network, &Undisturbed).ok().map(|outcome| (outcome.finished, outcome.events));
        prop_assert_eq!(ours, model(&goal, &network, &Undisturbed));
    }

    #[test]
    fn an_unrelated_operation_on_any_cpu_changes_no_time(
        goal in prop_oneof![program(1), program(3)], network in network(), ranks in 1..16_u32, cpu in 1..4_u8
    ) {
        let with = with_unrelated(&goal, ranks, cpu);
        prop_assert_eq!(ends(&goal, &with, &network), ends(&goal, &goal, &network));
        let finished = |goal| simulate(goal, &network, &Undisturbed).ok().map(|outcome| outcome.finished);
        prop_assert_eq!(finished(&with), finished(&goal));
    }
}
