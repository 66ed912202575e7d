//! The nine workloads of \[Ferreira21\], as skeletons: a rank's computing, its messages, and the points at which all
//! ranks wait for each other.
//!
//! **Problem.** [Ferreira21, tab. I] simulates traces of real programs, which are not public. **Idea.** The cost of
//! errors depends on the time between two messages and on how often all ranks wait for each other, and the sources of
//! most of these programs show both. **Why this way.** [`table`] gives the source of each number, so that a reader can
//! check it; where nothing is public, it says *assumed*.
//!
//! A skeleton is perfectly balanced: ranks wait only for messages. Real programs wait more, and this waiting hides part
//! of an error's time; so the simulated costs are rather too high than too low.
//!
//! | module | owns |
//! |---|---|
//! | [`grid`] | which ranks are neighbours |
//! | [`table`] | the nine workloads, with sources |

pub mod grid;
pub mod table;

use rampart_memory::Bytes;

use crate::error::Error;
use crate::model::operation::{Operation, Rank, Tag};
use crate::programs::collective::{Collective, CollectiveKind};
use crate::programs::rounds::{RankProgram, RankStep};
use crate::time::Time;
use grid::{AXES, Grid};

pub use table::WORKLOADS;

/// An action of all ranks at about the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Each rank computes.
    Compute(Time),
    /// Each rank sends to all its neighbours and receives as much: bytes over faces, over edges, over corners; 0 means
    /// no message.
    Exchange([u64; 3]),
    /// Each rank sends one step along an axis, and receives from the other side.
    Shift {
        /// Counted from 0.
        axis: usize,
        /// Towards higher ranks.
        up: bool,
        /// Bytes of each message.
        bytes: u64,
    },
    /// All ranks reduce this many bytes.
    Allreduce(u64),
}

/// Phases that are repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepeatedPhases {
    /// The number of repetitions.
    pub times: u32,
    /// What.
    pub phases: &'static [Phase],
}

/// A program, without its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// The name on the command line.
    pub name: &'static str,
    /// The problem that it computes.
    pub what: &'static str,
    /// The source of its numbers.
    pub source: &'static str,
    /// The number of ranks on which it was traced [Ferreira21, III-D].
    pub traced: u32,
    /// Axes of its grid of ranks.
    pub axes: usize,
    /// Whether the grid is closed.
    pub periodic: bool,
    /// What it repeats until it ends.
    pub cycle: &'static [RepeatedPhases],
}

impl Workload {
    /// The workload of this name.
    ///
    /// # Errors
    /// If there is none; the error lists the known names.
    pub fn named(name: &str) -> Result<Self, Error> {
        let known = || WORKLOADS.map(|workload| workload.name).join(", ");
        let found = WORKLOADS.into_iter().find(|workload| workload.name == name);
        found.ok_or_else(|| Error::NoSuchWorkload { name: name.to_owned(), known: known() })
    }

    /// The phases of a cycle, one after the other.
    pub fn phases(&self) -> impl Iterator<Item = Phase> {
        self.cycle.iter().flat_map(|part| part.phases.repeat(part.times as usize))
    }

    /// The computing of one cycle.
    #[must_use]
    pub fn computing(&self) -> Time {
        let of = |phase| if let Phase::Compute(time) = phase { time } else { Time::ZERO };
        self.phases().map(of).fold(Time::ZERO, Time::plus)
    }

    /// Collectives of one cycle.
    #[must_use]
    pub fn collectives(&self) -> usize {
        self.phases().filter(|phase| matches!(phase, Phase::Allreduce(_))).count()
    }

    /// On this many ranks, for this many cycles.
    #[must_use]
    pub fn on(&self, ranks: u32, cycles: u64) -> WorkloadRun {
        WorkloadRun {
            grid: Grid::new(ranks, self.axes, self.periodic),
            copies: 1,
            phases: self.phases().collect(),
            cycles,
        }
    }

    /// Extrapolated as in [Ferreira21, III-C]: copies of the traced ranks, each with messages inside the copy only, and
    /// collectives among all ranks. The number of copies is the nearest power of two [Ferreira21, tab. II].
    #[must_use]
    pub fn extrapolated(&self, ranks: u32, cycles: u64) -> WorkloadRun {
        let times = (ranks / self.traced).max(1);
        let (below, above) = (1 << times.ilog2(), 2 << times.ilog2());
        let copies = if times - below <= above - times { below } else { above };
        WorkloadRun { copies, ..self.on(self.traced, cycles) }
    }
}

/// A rank, its neighbours on either side, and their neighbours.
const WITH_NEIGHBOURS: u32 = 5;

/// A workload on ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadRun {
    grid: Grid,
    /// The number of such grids.
    copies: u32,
    phases: Vec<Phase>,
    cycles: u64,
}

impl WorkloadRun {
    /// The phases of a cycle.
    #[must_use]
    pub fn phases(&self) -> &[Phase] {
        &self.phases
    }

    /// The number of cycles.
    #[must_use]
    pub fn cycles(&self) -> u64 {
        self.cycles
    }

    /// This phase alone. Messages to neighbours are the same on a grid cut to a rank, its neighbours and their
    /// neighbours.
    pub(crate) fn only(&self, phase: Phase) -> Self {
        let only = Self { phases: vec![phase], cycles: 1, ..self.clone() };
        match phase {
            Phase::Allreduce(_) | Phase::Compute(_) => only,
            Phase::Exchange(_) | Phase::Shift { .. } => {
                Self { grid: self.grid.cut(WITH_NEIGHBOURS), copies: 1, ..only }
            }
        }
    }

    /// The messages that a rank sends in all phases, each phase once.
    pub(crate) fn distinct_messages(&self, rank: Rank) -> usize {
        let first = |(at, phase): &(usize, &Phase)| self.phases[..*at].iter().all(|other| other != *phase);
        self.phases.iter().enumerate().filter(first).map(|(_, phase)| self.count(rank, *phase)).sum()
    }

    fn count(&self, rank: Rank, phase: Phase) -> usize {
        let mut round = Vec::new();
        self.messages(rank, phase, &mut round);
        round.len() / 2
    }

    /// The messages that a rank sends and receives in a phase.
    pub(crate) fn messages(&self, rank: Rank, phase: Phase, round: &mut Vec<Operation>) {
        let in_copy = Rank(rank.0 % self.grid.ranks());
        let first = rank.0 - in_copy.0;
        let mut both = |to: Option<Rank>, from: Option<Rank>, bytes: u64| {
            round.extend(to.map(|to| Operation::send(Rank(first + to.0), Bytes::new(bytes), Tag(0))));
            round.extend(from.map(|from| Operation::recv(Some(Rank(first + from.0)), Bytes::new(bytes), Some(Tag(0)))));
        };
        match phase {
            Phase::Exchange(sizes) => {
                for (other, away) in self.grid.around(in_copy) {
                    let bytes = sizes.get(away - 1).copied().unwrap_or(0);
                    if bytes > 0 {
                        both(Some(other), Some(other), bytes);
                    }
                }
            }
            Phase::Shift { axis, up, bytes } => {
                let along = |step| {
                    let mut steps = [0; AXES];
                    steps[axis] = step;
                    self.grid.beside(in_copy, steps)
                };
                let (to, from) = if up { (1, -1) } else { (-1, 1) };
                both(along(to), along(from), bytes);
            }
            Phase::Compute(_) | Phase::Allreduce(_) => {}
        }
    }
}

impl RankProgram for WorkloadRun {
    fn ranks(&self) -> u32 {
        self.grid.ranks() * self.copies
    }

    fn step(&self, rank: Rank, number: u64, round: &mut Vec<Operation>) -> RankStep {
        let length = self.phases.len() as u64;
        if number >= length.saturating_mul(self.cycles) {
            return RankStep::End;
        }
        let phase = self.phases[usize::try_from(number % length).expect("below the length")];
        match phase {
            Phase::Compute(time) => round.push(Operation::calc(time)),
            Phase::Allreduce(bytes) => {
                return RankStep::Collective(Collective::new(
                    CollectiveKind::Allreduce,
                    Bytes::new(bytes),
                    self.ranks(),
                ));
            }
            Phase::Exchange(_) | Phase::Shift { .. } => self.messages(rank, phase, round),
        }
        RankStep::Round
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LogGops, RoundSchedule, Undisturbed, simulate};

    #[test]
    fn a_workload_is_found_by_its_name_or_the_names_are_told() {
        assert_eq!(Workload::named("hpcg").unwrap().name, "hpcg");
        let error = Workload::named("linpack").unwrap_err().to_string();
        assert!(error.contains("lammps-lj") && error.contains("sparc"), "{error}");
    }

    #[test]
    fn every_workload_runs_to_its_end_on_any_number_of_ranks() {
        for workload in WORKLOADS {
            for ranks in [1, 2, 7, 12, 27] {
                let rounds = RoundSchedule(workload.on(ranks, 1));
                let run = simulate(&rounds, &LogGops::cray_xc40(), &Undisturbed);
                let run = run.unwrap_or_else(|error| panic!("{} on {ranks}: {error}", workload.name));
                assert!(run.makespan() >= workload.computing(), "{}", workload.name);
            }
        }
    }

    #[test]
    fn an_extrapolated_trace_has_the_paper_s_number_of_ranks_and_copies_that_do_not_talk() {
        for (name, nodes, ranks) in [
            ("hpcg", 16_384, 16_384),
            ("lulesh", 16_384, 16_000),
            ("lulesh", 8192, 8000),
            ("lulesh", 4096, 4000),
            ("cth", 1, 128),
        ] {
            assert_eq!(Workload::named(name).unwrap().extrapolated(nodes, 1).ranks(), ranks, "{name} on {nodes}");
        }
        for workload in WORKLOADS {
            let running = workload.extrapolated(3 * workload.traced, 1);
            for (rank, phase) in
                (0..running.ranks()).flat_map(|rank| running.phases().iter().map(move |phase| (rank, phase)))
            {
                let mut round = Vec::new();
                running.messages(Rank(rank), *phase, &mut round);
                let copy = |rank: u32| rank / workload.traced;
                assert!(round.iter().all(|operation| operation.peer().is_some_and(|peer| copy(peer.0) == copy(rank))));
            }
        }
    }

    /// These programs run where they scale: little time goes to anything but computing.
    #[test]
    fn a_workload_computes_most_of_its_time() {
        for workload in WORKLOADS {
            let rounds = RoundSchedule(workload.on(64, 2));
            let run = simulate(&rounds, &LogGops::cray_xc40(), &Undisturbed).unwrap();
            let share = 2.0 * workload.computing().as_secs_f64() / run.makespan().as_secs_f64();
            let least = if workload.name == "lammps-crack" { 0.2 } else { 0.8 };
            assert!((least..=1.0).contains(&share), "{}: {share}", workload.name);
        }
    }
}
