//! Corrected errors as detours.
//!
//! **Problem.** Errors on a node arrive at random [Ferreira21, III-D], and a run must give the same result whatever is
//! asked first. **Idea.** Error n of a node follows from a hash of the seed, the node and n (SplitMix64: Steele, Lea
//! and Flood, OOPSLA 2014); a node's detours are the sums of these draws, up to the time that its CPU has reached.
//! **Why this way.** The detours of a node need no memory but a cursor, and the draws of one node do not affect
//! another's.

use crate::error::Error;
use crate::model::detour::Detours;
use crate::model::operation::Rank;
use crate::time::Time;

/// What happens to an error that arrives while another error takes the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// It waits and takes its time next. With a mean time *m* between errors of cost *c*, a program takes 1 / (1 - c/m)
    /// as long.
    Queued,
    /// It is lost: nothing sees it. A program takes 1 + c/m as long, as if errors came only while it works.
    Dropped,
}

/// How long an error takes the CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorCost {
    /// All the same: 150 ns if only hardware corrects it, 775 µs if the kernel logs it [Ferreira21, IV-C, fig. 4].
    Fixed(Time),
    /// Every `nth` error differs: firmware takes 7 ms, and 500 ms for every tenth error, which it logs [Ferreira21,
    /// IV-A, fig. 2d].
    EveryNth {
        /// The time of the others.
        each: Time,
        /// The period of the different error; at least 1.
        nth: u64,
        /// The time of the different error.
        logged: Time,
    },
    /// Drawn from recorded times, each with the same probability; at least one.
    Recorded(Vec<Time>),
}

impl ErrorCost {
    /// The mean over many errors, in seconds.
    pub(crate) fn mean_secs(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a mean need not be exact")]
        match self {
            Self::Fixed(time) => time.as_secs_f64(),
            Self::EveryNth { each, nth, logged } => {
                each.as_secs_f64() + (logged.as_secs_f64() - each.as_secs_f64()) / *nth as f64
            }
            Self::Recorded(times) => times.iter().map(|time| time.as_secs_f64()).sum::<f64>() / times.len() as f64,
        }
    }

    /// The time of the error that is handled as number `handled`, counted from 0.
    fn of(&self, handled: u64, draw: u64) -> Time {
        match self {
            Self::Fixed(time) => *time,
            Self::EveryNth { each, nth, logged } => {
                if (handled + 1).is_multiple_of(*nth) {
                    *logged
                } else {
                    *each
                }
            }
            Self::Recorded(times) => {
                let place = (u128::from(draw) * times.len() as u128) >> 64;
                times[usize::try_from(place).expect("below the length")]
            }
        }
    }
}

/// Errors that come together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// The number of errors; at least 1.
    pub errors: u64,
    /// The time between two errors of the same burst.
    pub apart: Time,
}

impl Burst {
    /// One error per burst.
    pub const SINGLE: Self = Self { errors: 1, apart: Time::ZERO };
}

/// The nodes that have errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nodes {
    /// Every node [Ferreira21, IV-C].
    All,
    /// Only this node [Ferreira21, IV-B].
    One(Rank),
}

/// Corrected errors on nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorrectedErrors {
    /// The nodes that have them.
    pub nodes: Nodes,
    /// Mean time from a burst's last error to the next burst (exponential): MTBCE_node of [Ferreira21, tab. II] where
    /// errors are single. At least 1 µs.
    pub mean: Time,
    /// The errors of one burst.
    pub burst: Burst,
    /// The time that each takes.
    pub cost: ErrorCost,
    /// What happens to an error that comes during another.
    pub overlap: Overlap,
    /// Another seed gives other errors.
    pub seed: u64,
}

impl CorrectedErrors {
    /// The number of errors expected in this time.
    #[expect(clippy::cast_precision_loss, reason = "a limit need not be exact")]
    pub(crate) fn burst_size(&self) -> f64 {
        self.burst.errors as f64
    }

    /// Errors drawn per error in the program's undisturbed time: more errors come while others take the CPU.
    pub(crate) fn drawn_for_each(&self) -> f64 {
        let of_a_burst = self.mean.as_secs_f64() + (self.burst_size() - 1.0) * self.burst.apart.as_secs_f64();
        let taken = self.cost.mean_secs() * self.burst_size() / of_a_burst;
        match self.overlap {
            Overlap::Dropped => 1.0 + taken,
            Overlap::Queued => 1.0 / (1.0 - taken).max(f64::MIN_POSITIVE),
        }
    }
}

/// The shortest mean time between errors: below it, a run would only draw errors that it drops.
const SHORTEST: Time = Time::from_nanos(1000);

/// The detours of all nodes.
#[derive(Clone, Debug)]
pub struct NodeArrivals {
    errors: CorrectedErrors,
}

impl NodeArrivals {
    /// Detours from such errors.
    ///
    /// # Errors
    /// If the errors come too often to be simulated, or leave no time for anything else.
    pub fn new(errors: CorrectedErrors) -> Result<Self, Error> {
        let CorrectedErrors { mean, burst, .. } = errors;
        let nothing = match &errors.cost {
            ErrorCost::Fixed(_) => false,
            ErrorCost::EveryNth { nth, .. } => *nth == 0,
            ErrorCost::Recorded(times) => times.is_empty(),
        };
        if mean < SHORTEST || burst.errors == 0 || nothing {
            return Err(Error::NoSuchErrors);
        }
        #[expect(clippy::cast_precision_loss, reason = "the limit need not be exact")]
        let count = burst.errors as f64;
        let of_a_burst = mean.as_secs_f64() + (count - 1.0) * burst.apart.as_secs_f64();
        let cost = errors.cost.mean_secs();
        if errors.overlap == Overlap::Queued && cost * count >= of_a_burst {
            let (each, apart) = (Time::from_secs_f64(cost), Time::from_secs_f64(of_a_burst / count));
            return Err(Error::NoTimeLeft { each, apart });
        }
        Ok(Self { errors })
    }

    fn draw(&self, rank: Rank, number: u64) -> u64 {
        const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
        let of_node = mix(mix(self.errors.seed).wrapping_add(u64::from(rank.0).wrapping_mul(GOLDEN)));
        mix(of_node.wrapping_add((number + 1).wrapping_mul(GOLDEN)))
    }

    /// The time from the error before to error `number`.
    fn gap(&self, rank: Rank, number: u64) -> Time {
        if !number.is_multiple_of(self.errors.burst.errors) {
            return self.errors.burst.apart;
        }
        // Even numbers for arrivals, odd ones for costs. 53 bits of the hash: above zero, at most one.
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
        let uniform = ((self.draw(rank, 2 * number) >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        // An error beyond the end of simulated time never comes: no run gets there.
        Time::from_secs_f64(-libm::log(uniform) * self.errors.mean.as_secs_f64())
    }

    /// Moves on to the next detour.
    fn advance(&self, rank: Rank, place: &mut ArrivalCursor) {
        let taken_until = place.end;
        loop {
            place.arrival = place.arrival.plus(self.gap(rank, place.number));
            place.number += 1;
            // An error at the very end of a detour comes after it.
            if self.errors.overlap == Overlap::Queued || place.arrival >= taken_until {
                break;
            }
        }
        place.start = place.arrival.max(taken_until);
        let cost = self.errors.cost.of(place.handled, self.draw(rank, 2 * place.number + 1));
        place.handled += 1;
        place.end = place.start.plus(cost);
    }
}

/// The position of a CPU in its node's detours: the detour that it is in, or the next one.
#[derive(Clone, Copy, Debug)]
pub struct ArrivalCursor {
    start: Time,
    end: Time,
    /// When the last error that was drawn arrived.
    arrival: Time,
    /// How many errors were drawn.
    number: u64,
    /// How many of them took CPU time.
    handled: u64,
}

impl Detours for NodeArrivals {
    type Cursor = ArrivalCursor;

    fn begin(&self, rank: Rank) -> ArrivalCursor {
        let mut place = ArrivalCursor { start: Time::MAX, end: Time::ZERO, arrival: Time::ZERO, number: 0, handled: 0 };
        if matches!(self.errors.nodes, Nodes::All) || self.errors.nodes == Nodes::One(rank) {
            self.advance(rank, &mut place);
        }
        place
    }

    fn free_from(&self, rank: Rank, place: &mut ArrivalCursor, mut now: Time) -> Time {
        while now >= place.start && now < Time::MAX {
            now = now.max(place.end);
            self.advance(rank, place);
        }
        now
    }

    fn quiet_until(&self, place: &ArrivalCursor) -> Time {
        place.start
    }

    fn finish(&self, rank: Rank, place: &mut ArrivalCursor, start: Time, work: Time) -> Time {
        if work == Time::ZERO {
            return start;
        }
        let (mut now, mut left) = (self.free_from(rank, place, start), work);
        while left > place.start.since(now) && now < Time::MAX {
            left = left.since(place.start.since(now));
            now = self.free_from(rank, place, place.start);
        }
        now.plus(left)
    }
}

/// The finalizer of SplitMix64.
fn mix(mut state: u64) -> u64 {
    state = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    state ^ (state >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::goal::graph::{After, Builder};
    use crate::simulator::engine::simulate;
    use crate::{GoalGraph, LogGops, Operation};
    use proptest::prelude::*;

    fn errors(mean_ns: u64, cost_ns: u64, overlap: Overlap) -> CorrectedErrors {
        let (mean, cost) = (Time::from_nanos(mean_ns), ErrorCost::Fixed(Time::from_nanos(cost_ns)));
        CorrectedErrors { nodes: Nodes::All, mean, burst: Burst::SINGLE, cost, overlap, seed: 1 }
    }

    fn any_errors() -> impl Strategy<Value = CorrectedErrors> {
        let cost = prop_oneof![
            (0..3000_u64).prop_map(|nanos| ErrorCost::Fixed(Time::from_nanos(nanos))),
            (0..500_u64, 1..5_u64, 0..5000_u64).prop_map(|(each, nth, logged)| ErrorCost::EveryNth {
                each: Time::from_nanos(each),
                nth,
                logged: Time::from_nanos(logged)
            }),
            prop::collection::vec(0..2000_u64, 1..4)
                .prop_map(|times| ErrorCost::Recorded(times.into_iter().map(Time::from_nanos).collect())),
        ];
        (cost, 1000..9000_u64, 1..4_u64, 0..500_u64, any::<bool>(), any::<u64>()).prop_map(
            |(cost, mean, errors, apart, queued, seed)| CorrectedErrors {
                nodes: Nodes::All,
                mean: Time::from_nanos(mean),
                burst: Burst { errors, apart: Time::from_nanos(apart) },
                cost,
                overlap: if queued { Overlap::Queued } else { Overlap::Dropped },
                seed,
            },
        )
    }

    /// The reference model: list all errors first, then the time that each takes.
    fn listed(rows: &NodeArrivals, rank: Rank, count: u64) -> Vec<(Time, Time)> {
        let arrivals = (0..count).scan(Time::ZERO, |at, number| {
            *at = at.plus(rows.gap(rank, number));
            Some((number, *at))
        });
        let mut list: Vec<(Time, Time)> = Vec::new();
        for (number, arrival) in arrivals {
            let until = list.last().map_or(Time::ZERO, |(_, end)| *end);
            if rows.errors.overlap == Overlap::Dropped && arrival < until {
                continue;
            }
            let start = arrival.max(until);
            let cost = rows.errors.cost.of(list.len() as u64, rows.draw(rank, 2 * (number + 1) + 1));
            list.push((start, start.plus(cost)));
        }
        list
    }

    fn finish_in(list: &[(Time, Time)], start: Time, work: Time) -> Time {
        let mut at = start;
        let mut left = work;
        for &(from, until) in list.iter().filter(|(_, until)| *until > start) {
            let room = from.since(at);
            if left == Time::ZERO || left <= room && at < from {
                break;
            }
            left = left.since(room);
            at = until;
        }
        at.plus(left)
    }

    fn calcs(pieces: &[u64]) -> GoalGraph {
        let mut builder = Builder::default();
        let ids: Vec<_> = pieces.iter().map(|nanos| builder.add(Operation::calc(Time::from_nanos(*nanos)))).collect();
        ids.windows(2).for_each(|pair| builder.wait(pair[1], After::End, pair[0]));
        GoalGraph::new(vec![builder.finish(Rank(0)).unwrap()]).unwrap()
    }

    fn slowdown(errors: CorrectedErrors, seconds: u64) -> f64 {
        let work = calcs(&[seconds * 1_000_000_000]);
        let run = simulate(&work, &LogGops::loggopsim(), &NodeArrivals::new(errors).unwrap()).unwrap();
        #[expect(clippy::cast_precision_loss, reason = "a ratio")]
        let ratio = run.makespan().as_secs_f64() / seconds as f64;
        ratio
    }

    /// 133 ms every 0.2 s: 1 / (1 - 0.665) = 2.985 if errors wait, 1.665 if they are lost. Over 20,000 s, the standard
    /// error of the first is below 1 %.
    #[test]
    fn a_detour_of_133_ms_every_200_ms_costs_what_theory_says() {
        let queued = slowdown(errors(200_000_000, 133_000_000, Overlap::Queued), 20_000);
        assert!((queued / 2.985 - 1.0).abs() < 0.03, "{queued}");
        let dropped = slowdown(errors(200_000_000, 133_000_000, Overlap::Dropped), 20_000);
        assert!((dropped / 1.665 - 1.0).abs() < 0.01, "{dropped}");
    }

    #[test]
    fn firmware_that_logs_each_tenth_costs_its_mean() {
        let cost =
            ErrorCost::EveryNth { each: Time::from_nanos(7_000_000), nth: 10, logged: Time::from_nanos(500_000_000) };
        let slow = slowdown(CorrectedErrors { cost, ..errors(1_000_000_000, 0, Overlap::Dropped) }, 50_000);
        assert!((slow / 1.0563 - 1.0).abs() < 0.01, "{slow}");
    }

    #[test]
    fn errors_on_one_node_leave_the_others_alone() {
        let two = GoalGraph::new([calcs(&[10_000]), calcs(&[10_000])].iter().map(|one| one.graph(Rank(0))).collect())
            .unwrap();
        let rows =
            NodeArrivals::new(CorrectedErrors { nodes: Nodes::One(Rank(1)), ..errors(1000, 500, Overlap::Dropped) })
                .unwrap();
        let finished = simulate(&two, &LogGops::loggopsim(), &rows).unwrap().finished;
        assert_eq!(finished[0], Time::from_nanos(10_000));
        assert!(finished[1] > finished[0]);
    }

    #[test]
    fn errors_that_leave_no_time_are_refused() {
        let refused = NodeArrivals::new(errors(100_000_000, 133_000_000, Overlap::Queued)).unwrap_err();
        assert!(
            refused.to_string().starts_with("errors that take 133 ms each, one every 100 ms, leave no time"),
            "{refused}"
        );
        assert!(NodeArrivals::new(errors(100_000_000, 133_000_000, Overlap::Dropped)).is_ok());
        assert_eq!(NodeArrivals::new(errors(0, 1, Overlap::Dropped)).unwrap_err(), Error::NoSuchErrors);
    }

    proptest! {
        #[test]
        fn a_row_is_that_of_the_naive_list(errors in any_errors(), work in prop::collection::vec((0..4000_u64, 0..4000_u64), 1..12)) {
            let Ok(rows) = NodeArrivals::new(errors) else { return Ok(()) };
            let list = listed(&rows, Rank(3), 4000);
            let (mut place, mut now) = (rows.begin(Rank(3)), Time::ZERO);
            for (idle, work) in work {
                let (start, work) = (now.plus(Time::from_nanos(idle)), Time::from_nanos(work));
                now = rows.finish(Rank(3), &mut place, start, work);
                let expected = if work == Time::ZERO { start } else { finish_in(&list, start, work) };
                // Where errors take nearly all the time, the list may end before the work does.
                prop_assume!(expected < list.last().unwrap().0);
                prop_assert_eq!(now, expected);
            }
        }

        #[test]
        fn what_a_program_loses_does_not_depend_on_how_its_work_is_cut(
            errors in any_errors(), pieces in prop::collection::vec(0..5000_u64, 1..20),
        ) {
            let Ok(rows) = NodeArrivals::new(errors) else { return Ok(()) };
            let run = |goal| simulate(&goal, &LogGops::loggopsim(), &rows).unwrap().makespan();
            prop_assert_eq!(run(calcs(&pieces)), run(calcs(&[pieces.iter().sum()])));
        }
    }
}
