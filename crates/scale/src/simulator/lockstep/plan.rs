//! A cycle of a program, computed once: which ranks wait for which in each round, and the undisturbed length of each
//! round.

use crate::error::Error;
use crate::model::detour::Undisturbed;
use crate::model::network::LogGops;
use crate::model::operation::{Action, Operation, Rank};
use crate::programs::rounds::{RankProgram, RoundSchedule};
use crate::programs::workload::{Phase, WorkloadRun};
use crate::simulator::engine::simulate;
use crate::time::Time;

/// One round of all ranks: they wait, and then each takes this time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LockstepRound {
    pub wait: RoundWait,
    pub takes: Time,
}

/// Which ranks a rank waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RoundWait {
    /// None.
    Nobody,
    /// Some.
    Some(Peers),
    /// All.
    All,
}

/// The ranks that each rank waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Peers {
    /// Rank by rank.
    peers: Vec<u32>,
    /// The start of each rank in `peers`, and the end.
    bounds: Vec<u32>,
}

/// A cycle: its distinct rounds, and their order.
#[derive(Clone, Debug)]
pub(super) struct LockstepPlan {
    rounds: Vec<LockstepRound>,
    /// Indices of `rounds`.
    order: Vec<u32>,
}

impl LockstepPlan {
    pub fn new(program: &WorkloadRun, network: &LogGops) -> Result<Self, Error> {
        let mut plan = Self { rounds: Vec::new(), order: Vec::new() };
        let mut known: Vec<Phase> = Vec::new();
        for phase in program.phases() {
            let place = known.iter().position(|other| other == phase);
            if place.is_none() {
                plan.rounds.push(LockstepRound::new(program, *phase, network)?);
                known.push(*phase);
            }
            plan.order.push(u32::try_from(place.unwrap_or(known.len() - 1)).expect("a cycle is short"));
        }
        Ok(plan)
    }

    /// The rounds of a cycle in order, each with its index among the distinct rounds.
    pub fn in_order(&self) -> impl Iterator<Item = (usize, &LockstepRound)> {
        self.order.iter().map(|round| (*round as usize, &self.rounds[*round as usize]))
    }

    /// For each distinct round, whether a rank waits for some others in it.
    pub fn with_peers(&self) -> Vec<bool> {
        self.rounds.iter().map(|round| matches!(round.wait, RoundWait::Some(_))).collect()
    }

    /// The length of a cycle.
    pub fn length(&self) -> Time {
        self.in_order().map(|(_, round)| round.takes).fold(Time::ZERO, Time::plus)
    }
}

impl LockstepRound {
    fn new(program: &WorkloadRun, phase: Phase, network: &LogGops) -> Result<Self, Error> {
        let wait = match phase {
            Phase::Compute(takes) => return Ok(Self { wait: RoundWait::Nobody, takes }),
            Phase::Exchange(_) | Phase::Shift { .. } => RoundWait::Some(Peers::new(program, phase, network)),
            Phase::Allreduce(_) => RoundWait::All,
        };
        let takes = simulate(&RoundSchedule(program.only(phase)), network, &Undisturbed)?.makespan();
        Ok(Self { wait, takes })
    }
}

impl Peers {
    fn new(program: &WorkloadRun, phase: Phase, network: &LogGops) -> Self {
        let (mut these, mut round, mut waited) = (Self::default(), Vec::new(), Vec::new());
        let place = |length: usize| u32::try_from(length).expect("fewer than 2^32 messages in a round");
        for rank in (0..program.ranks()).map(Rank) {
            these.bounds.push(place(these.peers.len()));
            program.messages(rank, phase, &mut round);
            let waited_for = |operation: Operation| match operation.action() {
                // A sender in rendezvous waits for its receiver.
                Action::Send { to, bytes, .. } if bytes > network.eager => Some(to.0),
                Action::Recv { from, .. } => from.map(|from| from.0),
                _ => None,
            };
            waited.extend(round.drain(..).filter_map(waited_for));
            waited.sort_unstable();
            waited.dedup();
            these.peers.append(&mut waited);
        }
        these.bounds.push(place(these.peers.len()));
        these
    }

    /// The ranks that each rank waits for, rank 0 first.
    pub fn of_ranks(&self) -> impl Iterator<Item = &[u32]> {
        self.bounds.windows(2).map(|bounds| &self.peers[bounds[0] as usize..bounds[1] as usize])
    }
}
