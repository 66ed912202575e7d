//! What replicas of MPI ranks had wrong, and which nodes are suspect for it [Fiala15, 3.1].
//!
//! **Problem.** A wrong message tells which node computed it, but not which frame of that node's memory was bad. One
//! wrong message means little: a particle hit a chip. **Idea.** A node that erred twice within [`WINDOW`] is suspect
//! until all its memory was tested after the last error. **Why 30 days.** Chance upsets of one node's memory are months
//! apart or more, so two within 30 days point to a defect; and a job's results are worth a suspicion for about as long
//! as they are kept.
//!
//! What does not count: errors of flips that somebody injected; and where a program goes on with a wrong message, what
//! is wrong because of that message (see [`ReplicaErrorOrigin`]).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;

use crate::Timestamp;

/// How long an error counts.
pub const WINDOW: Duration = Duration::from_hours(30 * 24);

/// So many errors make a node suspect.
pub const ERRORS_OF_A_SUSPECT: u64 = 2;

/// Where an error comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReplicaErrorOrigin {
    /// From the node, as far as is known.
    Real,
    /// From a bit that was flipped on purpose.
    Injected,
    /// Perhaps from another node, whose wrong message the program has used.
    Spread,
}

/// A message, the result of a collective operation, output or a file that a replica had wrong, or that replicas had
/// differently without a majority.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReplicaError {
    /// When the job that noticed it ended.
    pub at: Timestamp,
    /// When that job began; with its process, the name of the job.
    pub job: Timestamp,
    /// The node of the replica that had it wrong; `None` if that is not known.
    pub node: Option<String>,
    /// The rank that received a message, or of which the output is; `None` for a file.
    pub rank: Option<u32>,
    /// The replica that noticed it first; `None` for output and files.
    pub replica: Option<u32>,
    /// The replica that had it wrong; `None` if there is no majority.
    pub wrong_replica: Option<u32>,
    /// `message`, the name of a collective operation, `output` or `file`.
    pub what: String,
    /// The rank in the communicator that sent it.
    pub peer: Option<u64>,
    /// The tag of a message.
    pub tag: Option<u64>,
    /// Its size.
    pub bytes: Option<u64>,
    /// The first byte that differs, from 0.
    pub first_difference: Option<u64>,
    /// Where it comes from.
    pub origin: ReplicaErrorOrigin,
}

impl ReplicaError {
    /// A real one of which no more is known.
    #[must_use]
    pub fn unplaced(at: Timestamp, job: Timestamp, what: &str) -> Self {
        Self {
            at,
            job,
            node: None,
            rank: None,
            replica: None,
            wrong_replica: None,
            what: what.to_owned(),
            peer: None,
            tag: None,
            bytes: None,
            first_difference: None,
            origin: ReplicaErrorOrigin::Real,
        }
    }
}

/// A node that erred twice or more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SuspectNode {
    /// Its name.
    pub node: String,
    /// Its errors that count.
    pub errors: u64,
    /// The jobs in which they were.
    pub jobs: u64,
    /// The first of them.
    pub first: Timestamp,
    /// The last of them.
    pub last: Timestamp,
}

/// The nodes that are suspect now, by name. `tested` has the nodes whose memory was tested: when the last complete test
/// began.
#[must_use]
pub fn suspect_nodes(
    errors: &[ReplicaError],
    tested: &BTreeMap<String, Timestamp>,
    now: Timestamp,
) -> Vec<SuspectNode> {
    let mut nodes: BTreeMap<&str, (SuspectNode, BTreeSet<Timestamp>)> = BTreeMap::new();
    for error in errors {
        let Some(node) = error.node.as_deref() else { continue };
        let is_tested = tested.get(node).is_some_and(|&tested| tested >= error.at);
        if error.origin != ReplicaErrorOrigin::Real || is_tested || now.since(error.at) > WINDOW {
            continue;
        }
        let new = || SuspectNode { node: node.to_owned(), errors: 0, jobs: 0, first: error.at, last: error.at };
        let (suspect, jobs) = nodes.entry(node).or_insert_with(|| (new(), BTreeSet::new()));
        suspect.errors += 1;
        suspect.first = suspect.first.min(error.at);
        suspect.last = suspect.last.max(error.at);
        jobs.insert(error.job);
        suspect.jobs = jobs.len() as u64;
    }
    nodes.into_values().map(|(suspect, _)| suspect).filter(|one| one.errors >= ERRORS_OF_A_SUSPECT).collect()
}

#[cfg(test)]
mod tests {
    use rand::{RngExt as _, SeedableRng as _};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    fn day(number: u64) -> Timestamp {
        Timestamp::from_micros(0).after(DAY * u32::try_from(number).unwrap())
    }

    fn error(at: Timestamp, node: &str, origin: ReplicaErrorOrigin) -> ReplicaError {
        ReplicaError {
            node: Some(node.to_owned()),
            rank: Some(0),
            replica: Some(0),
            wrong_replica: Some(1),
            origin,
            ..ReplicaError::unplaced(at, at, "message")
        }
    }

    #[test]
    fn a_node_is_suspect_from_its_second_error_until_it_is_tested_or_30_days_have_passed() {
        use ReplicaErrorOrigin::{Injected, Real, Spread};
        let all = [
            error(day(1), "a", Real),
            error(day(30), "a", Real),
            error(day(3), "b", Real),
            error(day(3), "b", Injected),
            error(day(3), "b", Spread),
        ];
        let suspects = |errors: &[ReplicaError], tested: &[(&str, u64)], now| {
            let tested = tested.iter().map(|&(node, at)| (node.to_owned(), day(at))).collect();
            let suspects = suspect_nodes(errors, &tested, day(now));
            suspects.into_iter().map(|one| (one.node, one.errors, one.jobs)).collect::<Vec<_>>()
        };
        let of_a = vec![("a".to_owned(), 2, 2)];
        assert_eq!(suspects(&all, &[], 31), of_a);
        assert_eq!(suspects(&all[..1], &[], 31), [], "once is not twice");
        assert_eq!(suspects(&all, &[], 32), [], "the first was more than 30 days ago");
        assert_eq!(suspects(&all, &[("a", 1)], 31), [], "the test began with the first error or later");
        assert_eq!(suspects(&all, &[("a", 0), ("b", 9)], 31), of_a);
    }

    /// Whatever happens in whatever order: against a model that looks at each node alone, day by day.
    #[test]
    fn suspects_are_those_of_the_definition() {
        let mut found = 0;
        for seed in 0..2_000 {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let origins = [ReplicaErrorOrigin::Real, ReplicaErrorOrigin::Injected, ReplicaErrorOrigin::Spread];
            let errors: Vec<ReplicaError> = (0..random.random_range(0..12))
                .map(|_| {
                    let node = ["a", "b", "c"][random.random_range(0..3)];
                    let mut one = error(day(random.random_range(0..60)), node, origins[random.random_range(0..3)]);
                    one.job = day(random.random_range(0..3));
                    one.node = one.node.filter(|_| random.random_bool(0.9));
                    one
                })
                .collect();
            let tested: BTreeMap<String, Timestamp> =
                ["a", "b"].map(|node| (node.to_owned(), day(random.random_range(0..60)))).into();
            let now = random.random_range(30..70);
            let counts = |node: &str, at: u64| {
                let is_new = tested.get(node).is_none_or(|tested| *tested < day(at));
                let of_day = errors.iter().filter(|one| one.at == day(at) && one.node.as_deref() == Some(node));
                let real = of_day.filter(|one| one.origin == ReplicaErrorOrigin::Real).count() as u64;
                if is_new && at + 30 >= now { real } else { 0 }
            };
            let expected: Vec<(String, u64)> = ["a", "b", "c"]
                .map(|node| (node.to_owned(), (0..60).map(|at| counts(node, at)).sum()))
                .into_iter()
                .filter(|(_, count)| *count > 1)
                .collect();
            let suspects = suspect_nodes(&errors, &tested, day(now));
            found += suspects.len();
            assert!(suspects.iter().all(|one| one.first <= one.last && (1..=3).contains(&one.jobs)), "seed {seed}");
            let suspects: Vec<_> = suspects.into_iter().map(|one| (one.node, one.errors)).collect();
            assert_eq!(suspects, expected, "seed {seed}");
        }
        assert!(found > 200, "{found}");
    }
}
