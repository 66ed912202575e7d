//! A cycle of a program, worked out once: who waits for whom in each round, and how long a round takes if nothing
//! disturbs it.

use crate::error::Error;
use crate::model::detour::Undisturbed;
use crate::model::network::LogGops;
use crate::model::operation::{Action, Operation, Rank};
use crate::programs::rounds::{RankProgram, RoundSchedule};
use crate::programs::workload::{Phase, WorkloadRun};
use crate::simulator::engine::simulate;
use crate::time::Time;

/// What all ranks do in one round: they wait, and then each takes so long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LockstepRound {
    pub wait: RoundWait,
    pub takes: Time,
}

/// How far others must have come before a rank goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RoundWait {
    /// It waits for nobody.
    Nobody,
    /// For some.
    Some(Peers),
    /// For all.
    All,
}

/// For whom each rank waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Peers {
    /// Rank by rank.
    peers: Vec<u32>,
    /// Where in `peers` each rank's begin, and the end.
    bounds: Vec<u32>,
}

/// A cycle: rounds that are all different, and in which order they come.
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

    /// The rounds of a cycle, one after the other, each with its number among those that differ.
    pub fn in_order(&self) -> impl Iterator<Item = (usize, &LockstepRound)> {
        self.order.iter().map(|round| (*round as usize, &self.rounds[*round as usize]))
    }

    /// Of the rounds that differ, whether a rank waits for some others in it.
    pub fn with_peers(&self) -> Vec<bool> {
        self.rounds.iter().map(|round| matches!(round.wait, RoundWait::Some(_))).collect()
    }

    /// How long a cycle takes.
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

    /// For whom each rank waits, the first is rank 0's.
    pub fn of_ranks(&self) -> impl Iterator<Item = &[u32]> {
        self.bounds.windows(2).map(|bounds| &self.peers[bounds[0] as usize..bounds[1] as usize])
    }
}
