//! Schedules for the comparison with LogGOPSim.
//!
//! **Problem.** Two simulators of one model should agree to the nanosecond, but we may not copy LogGOPSim's samples.
//! **Idea.** Build the patterns of such samples here (trees, dissemination, rings, stencils, wavefronts), plus random
//! ones. A test records LogGOPSim's times for them, and `cargo xtask bench scale` runs LogGOPSim again. **Why this
//! way.** The test needs only this crate, and a reader who doubts its numbers can reproduce them.

use rampart_memory::Bytes;

use super::{Stencil, SweepPattern};
use crate::error::Error;
use crate::model::operation::{OpId, Operation, Rank, Tag};
use crate::programs::collective::{Algorithm, Collective, CollectiveKind};
use crate::programs::goal::GoalGraph;
use crate::programs::goal::graph::{After, Builder};
use crate::programs::rounds::{RankProgram, RankStep, RoundSchedule};
use crate::time::Time;

/// All of them, by name.
///
/// # Errors
/// None: all are well formed.
pub fn all() -> Result<Vec<(&'static str, GoalGraph)>, Error> {
    Ok(vec![
        ("tree", tree(32)?),
        ("dissemination", dissemination(100, 1)?),
        ("binomial", repeated(Algorithm::Binomial, CollectiveKind::Broadcast(Rank(3)), 4096, 100)?),
        ("doubling", repeated(Algorithm::RecursiveDoubling, CollectiveKind::Allreduce, 8, 256)?),
        ("ring", repeated(Algorithm::Ring, CollectiveKind::Allgather, 3000, 50)?),
        ("ring-large", repeated(Algorithm::Ring, CollectiveKind::Allreduce, 4_000_000, 24)?),
        ("pairwise", repeated(Algorithm::Pairwise, CollectiveKind::Alltoall, 70_000, 32)?),
        ("scattered", repeated(Algorithm::Scattered, CollectiveKind::Alltoall, 1000, 70)?),
        ("stencil", stencil()?),
        ("wavefront", wavefront()?),
        ("random-small", random(64, 20, 1000, 1)?),
        ("random-large", random(64, 20, 200_000, 1)?),
        ("random-cpus", random(64, 20, 1000, 3)?),
    ])
}

/// A binomial tree, the nearest child first, as in LogGOPSim's sample `binary_tree_32`.
fn tree(ranks: u32) -> Result<GoalGraph, Error> {
    let of_rank = |rank: u32| {
        let mut builder = Builder::default();
        let from = rank.checked_ilog2().map(|bit| Rank(rank - (1 << bit)));
        let received = from.map(|from| builder.add(Operation::recv(Some(from), Bytes::new(1), Some(Tag(0)))));
        let first = rank.checked_ilog2().map_or(0, |bit| bit + 1);
        for child in (first..ranks.ilog2()).map(|bit| rank + (1 << bit)) {
            let sent = builder.add(Operation::send(Rank(child), Bytes::new(1), Tag(0)));
            received.iter().for_each(|received| builder.wait(sent, After::End, *received));
        }
        builder.finish(Rank(rank))
    };
    GoalGraph::new((0..ranks).map(of_rank).collect::<Result<_, _>>()?)
}

/// A collective, three times, after computing that differs from rank to rank.
struct Repeated {
    collective: Collective,
    ranks: u32,
}

impl RankProgram for Repeated {
    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn step(&self, rank: Rank, number: u64, round: &mut Vec<Operation>) -> RankStep {
        match number {
            6.. => RankStep::End,
            _ if number % 2 == 1 => RankStep::Collective(self.collective),
            _ => {
                round.push(Operation::calc(Time::from_nanos(1000 + 37 * u64::from(rank.0))));
                RankStep::Round
            }
        }
    }
}

fn repeated(algorithm: Algorithm, kind: CollectiveKind, bytes: u64, ranks: u32) -> Result<GoalGraph, Error> {
    let collective = Collective::by(algorithm, kind, Bytes::new(bytes), ranks).expect("chosen so that it can");
    RoundSchedule(Repeated { collective, ranks }).written_out()
}

/// A barrier by dissemination, three times, with messages that may have bytes; computing before each as in
/// [`Repeated`].
struct Dissemination {
    ranks: u32,
    bytes: Bytes,
}

impl RankProgram for Dissemination {
    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn step(&self, rank: Rank, number: u64, round: &mut Vec<Operation>) -> RankStep {
        let rounds = u64::from(self.ranks.next_power_of_two().ilog2());
        if number >= 3 * (rounds + 1) {
            return RankStep::End;
        }
        match number % (rounds + 1) {
            0 => round.push(Operation::calc(Time::from_nanos(1000 + 37 * u64::from(rank.0)))),
            place => {
                let away = 1 << (place - 1);
                let (to, from) = ((rank.0 + away) % self.ranks, (rank.0 + self.ranks - away) % self.ranks);
                round.push(Operation::send(Rank(to), self.bytes, Tag(0)));
                round.push(Operation::recv(Some(Rank(from)), self.bytes, Some(Tag(0))));
            }
        }
        RankStep::Round
    }
}

fn dissemination(ranks: u32, bytes: u64) -> Result<GoalGraph, Error> {
    RoundSchedule(Dissemination { ranks, bytes: Bytes::new(bytes) }).written_out()
}

fn stencil() -> Result<GoalGraph, Error> {
    let (compute, halo, reduced) = (Time::from_nanos(20_000), Bytes::new(2000), Bytes::new(64));
    RoundSchedule(Stencil { grid: [5, 4, 3], steps: 4, compute, halo, reduced }).written_out()
}

fn wavefront() -> Result<GoalGraph, Error> {
    let (compute, face) = (Time::from_nanos(10_000), Bytes::new(1200));
    RoundSchedule(SweepPattern { grid: [8, 6], blocks: 6, steps: 2, compute, face }).written_out()
}

/// Rounds in which each rank sends to one rank and receives from another; sizes up to `most`, large ones by rendezvous.
/// Each CPU of a rank has rounds of its own, and all share one NIC.
fn random(ranks: u32, rounds: u32, most: u64, cpus: u8) -> Result<GoalGraph, Error> {
    let draw = |round: u32, rank: u32| mix(u64::from(round) << 32 | u64::from(rank));
    let first = |cpu: u8| 3 * rounds * u32::from(cpu);
    // For each CPU and round, the ranks in random order: each sends to the next one.
    let row_of = |round: u32| {
        let mut row: Vec<u32> = (0..ranks).collect();
        row.sort_by_key(|rank| draw(round, *rank));
        row
    };
    let rows_of = |cpu: u8| (first(cpu)..).map(row_of).take(rounds as usize).collect();
    let rows: Vec<Vec<Vec<u32>>> = (0..cpus).map(rows_of).collect();
    let of_rank = |rank: u32| {
        let mut builder = Builder::default();
        for (cpu, rows) in (0..).zip(&rows) {
            let mut before: Vec<OpId> = Vec::new();
            for (round, row) in (first(cpu)..).zip(rows) {
                let place = row.iter().position(|other| *other == rank).expect("a row has all ranks");
                let to = row[(place + 1) % row.len()];
                let from = row[(place + row.len() - 1) % row.len()];
                let bytes = |sender: u32| Bytes::new(1 + draw(rounds + round, sender) % most);
                let these = [
                    Operation::send(Rank(to), bytes(rank), Tag(round)),
                    Operation::recv(Some(Rank(from)), bytes(from), Some(Tag(round))),
                    Operation::calc(Time::from_nanos(draw(2 * rounds + round, rank) % 50_000)),
                ]
                .map(|operation| builder.add(operation.on(cpu, 0)));
                for waiting in these {
                    before.iter().for_each(|other| builder.wait(waiting, After::End, *other));
                }
                before = these.to_vec();
            }
        }
        builder.finish(Rank(rank))
    };
    GoalGraph::new((0..ranks).map(of_rank).collect::<Result<_, _>>()?)
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), one step further.
pub(super) fn mix(number: u64) -> u64 {
    let state = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let state = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    state ^ (state >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LogGops, Undisturbed, simulate};

    /// Makespans in nanoseconds. Origin: LogGOPSim of <https://github.com/spcl/LogGOPSim>, commit 76451de1, with a
    /// stable sort of operations that become ready at the same time, its default network, and no noise; `cargo xtask
    /// bench scale LOGGOPSIM TXT2BIN` prints them.
    const LOGGOPSIM: [(&str, u64); 13] = [
        ("tree", 27_500),
        ("dissemination", 127_289),
        ("binomial", 565_081),
        ("doubling", 157_962),
        ("ring", 3_461_946),
        ("ring-large", 138_763_779),
        ("pairwise", 39_576_791),
        ("scattered", 2_271_062),
        ("stencil", 645_720),
        ("wavefront", 4_311_992),
        ("random-small", 800_959),
        ("random-large", 28_633_099),
        ("random-cpus", 878_107),
    ];

    fn makespan(goal: &GoalGraph) -> u64 {
        simulate(goal, &LogGops::loggopsim(), &Undisturbed).unwrap().makespan().nanos()
    }

    /// LogGOPSim, as above, gives 127,157 ns: its (size - 1) G of a message without bytes wraps around to -6 ns, 22
    /// times on the critical path.
    #[test]
    fn where_messages_have_no_bytes_loggopsim_is_early_by_its_price_of_a_byte() {
        assert_eq!(makespan(&dissemination(100, 0).unwrap()), 127_157 + 22 * 6);
    }

    #[test]
    fn each_schedule_takes_what_loggopsim_says_to_the_nanosecond() {
        let ours: Vec<(&str, u64)> = all().unwrap().iter().map(|(name, goal)| (*name, makespan(goal))).collect();
        assert_eq!(ours, LOGGOPSIM);
    }
}
