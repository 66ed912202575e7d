//! What replicas had wrong, for the store; and the nodes that are suspect for it (`rampart_memory::erring_nodes`).
//!
//! **Problem.** A wrong version does not always come from the node of the replica that has it: an error may have spread
//! within its team. **Idea.** A wrong message, wrong output, and a wrong file count for the node of the replica that
//! sent or wrote it, since what that replica received was right, or was corrected. The result of a collective operation
//! is made by all ranks of a team: it counts for a node if the whole team is there. What a program has kept though it
//! was wrong counts if all that the team had wrong came from one node.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use rampart_memory::{ReplicaError, ReplicaErrorOrigin, SuspectNode, Timestamp, suspect_nodes};

use super::injection::Injection;
use super::reports::{JobReport, ReplicaMismatch};
use crate::inputs::store;
use crate::output::text::count;

/// The most errors of a job that go to the store. A program whose replicas differ by themselves can have millions.
const MOST_OF_A_JOB: usize = 1_000;

/// What there is to say about the nodes of a job when it has ended.
#[derive(Debug, Default)]
pub struct Accusations {
    /// The nodes that erred in this job, and twice or more until now.
    pub suspects: Vec<SuspectNode>,
    /// Errors that are not in the store, since there were so many.
    pub left_out: usize,
    /// Why none is in the store.
    pub not_stored: Option<String>,
}

impl Accusations {
    /// Puts what replicas had wrong into the store, which is opened for that only. A store that cannot be written is no
    /// error: then the nodes of this job are judged by what is known.
    pub fn of(
        report: &JobReport,
        flip: Option<&Injection>,
        path: Option<PathBuf>,
        began: Timestamp,
        now: Timestamp,
    ) -> Self {
        let mut errors = errors_of(report, flip, began, now);
        let left_out = errors.len().saturating_sub(MOST_OF_A_JOB);
        errors.truncate(MOST_OF_A_JOB);
        if errors.is_empty() {
            return Self::default();
        }
        let mut judged = None;
        let keep = || {
            let mut store = store::open(path, now)?;
            store.keep_replica_errors(&errors)?;
            judged = Some(store.suspect_nodes(now)?);
            Ok::<(), crate::error::Error>(())
        };
        let not_stored = keep().err().map(|why| why.to_string());
        let mut suspects = judged.unwrap_or_else(|| suspect_nodes(&errors, &BTreeMap::new(), now));
        let real = |one: &&ReplicaError| one.origin == ReplicaErrorOrigin::Real;
        let here: BTreeSet<&str> = errors.iter().filter(real).filter_map(|one| one.node.as_deref()).collect();
        suspects.retain(|one| here.contains(one.node.as_str()));
        Self { suspects, left_out, not_stored }
    }

    /// A line for each thing.
    pub fn lines(&self) -> Vec<String> {
        let suspect = |one| format!("suspect {}", store::suspicion(one));
        let mut lines: Vec<String> = self.suspects.iter().map(suspect).collect();
        if self.left_out > 0 {
            lines.push(format!("{} more mismatches are not in the store", count(self.left_out as u64)));
        }
        lines.extend(self.not_stored.as_ref().map(|why| format!("the mismatches are not in the store: {why}")));
        lines
    }
}

/// Everything that differed, each once.
fn errors_of(report: &JobReport, flip: Option<&Injection>, job: Timestamp, at: Timestamp) -> Vec<ReplicaError> {
    let teams = Teams { report, flip };
    let new = |what: &str, wrong_replica: Option<u32>| ReplicaError {
        wrong_replica,
        origin: teams.origin(wrong_replica),
        ..ReplicaError::unplaced(at, job, what)
    };
    let mut seen = BTreeSet::new();
    let mut errors = Vec::new();
    for one in &report.mismatches {
        let undecided = one.wrong.is_empty().then_some(None);
        for wrong in one.wrong.iter().copied().map(Some).chain(undecided) {
            if !seen.insert((one.rank, one.known("number"), wrong)) {
                continue;
            }
            let blamed = wrong.map_or((None, ReplicaErrorOrigin::Real), |replica| teams.blame(one, replica));
            let plain = new(&one.what, wrong);
            errors.push(ReplicaError {
                node: blamed.0,
                rank: Some(one.rank),
                replica: Some(one.replica),
                peer: one.known("peer"),
                tag: one.known("tag"),
                bytes: one.known("bytes"),
                first_difference: one.known("offset"),
                origin: plain.origin.max(blamed.1),
                ..plain
            });
        }
    }
    errors.extend(report.outputs.iter().map(|one| ReplicaError {
        node: one.wrong.and_then(|replica| teams.node(one.rank, replica)),
        rank: Some(one.rank),
        first_difference: Some(one.offset),
        ..teams.unless_spread(new("output", one.wrong))
    }));
    for one in &report.files {
        let undecided = one.wrong.is_none().then_some(None);
        for wrong in one.wrong.iter().flatten().copied().map(Some).chain(undecided) {
            let node = wrong.and_then(|replica| teams.only_node(replica));
            errors.push(ReplicaError { node, first_difference: one.offset, ..teams.unless_spread(new("file", wrong)) });
        }
    }
    errors
}

/// The teams of a job, and where they were.
struct Teams<'a> {
    report: &'a JobReport,
    flip: Option<&'a Injection>,
}

impl Teams<'_> {
    /// Whether bits were flipped in this team: an error stays within the team that it is in. Without a majority, any
    /// team may be the wrong one.
    fn origin(&self, replica: Option<u32>) -> ReplicaErrorOrigin {
        let is_hit = |flip: &Injection| flip.replica().is_none() || replica.is_none() || flip.replica() == replica;
        if self.flip.is_some_and(is_hit) { ReplicaErrorOrigin::Injected } else { ReplicaErrorOrigin::Real }
    }

    fn node(&self, rank: u32, replica: u32) -> Option<String> {
        self.report.nodes.get(&(rank, replica)).cloned()
    }

    /// The node of a whole team.
    fn only_node(&self, replica: u32) -> Option<String> {
        let mut nodes = self.report.nodes.iter().filter(|((_, team), _)| *team == replica).map(|(_, node)| node);
        let first = nodes.next()?;
        nodes.all(|node| node == first).then(|| first.clone())
    }

    /// The node that had a message or a result wrong, and whether it can be blamed.
    fn blame(&self, one: &ReplicaMismatch, replica: u32) -> (Option<String>, ReplicaErrorOrigin) {
        let node = self.node(one.sender().unwrap_or(one.rank), replica);
        let is_of_all = one.sender().is_none() && self.only_node(replica).is_none();
        let has_spread = one.verdict == "kept" && self.kept_nodes(replica).len() > 1;
        let is_sound = !is_of_all && !has_spread;
        (node, if is_sound { ReplicaErrorOrigin::Real } else { ReplicaErrorOrigin::Spread })
    }

    /// The nodes from which the program of a team has got something wrong.
    fn kept_nodes(&self, replica: u32) -> BTreeSet<Option<String>> {
        let kept = self.report.mismatches.iter().filter(|one| one.verdict == "kept" && one.wrong.contains(&replica));
        kept.map(|one| self.node(one.sender().unwrap_or(one.rank), replica)).collect()
    }

    /// What a team wrote after its program had got something wrong says nothing about its node.
    fn unless_spread(&self, error: ReplicaError) -> ReplicaError {
        let has_spread = error.wrong_replica.is_some_and(|replica| !self.kept_nodes(replica).is_empty());
        let origin = if has_spread { error.origin.max(ReplicaErrorOrigin::Spread) } else { error.origin };
        ReplicaError { origin, ..error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::mpirun::files::FileMismatch;
    use crate::commands::mpirun::output::OutputMismatch;

    const NOW: Timestamp = Timestamp::from_micros(9);

    /// Two ranks of three replicas; replica 2 has its ranks on two nodes.
    fn report(lines: &[(u32, u32, &str)]) -> JobReport {
        let mut report = JobReport::default();
        let nodes = [(0, 0, "a"), (1, 0, "a"), (0, 1, "b"), (1, 1, "b"), (0, 2, "c"), (1, 2, "d")];
        nodes.iter().for_each(|&(rank, replica, node)| report.see(rank, replica, &format!("begin {node}")));
        lines.iter().for_each(|&(rank, replica, line)| report.see(rank, replica, line));
        report
    }

    fn line(sender: i32, number: u32, wrong: &str, verdict: &str) -> String {
        format!(
            "mismatch message comm 1 peer 5 sender {sender} tag 7 bytes 80 offset 3 number {number} step 0 wrong {wrong} {verdict}"
        )
    }

    fn short(errors: &[ReplicaError]) -> Vec<(&str, Option<&str>, ReplicaErrorOrigin)> {
        errors.iter().map(|one| (one.what.as_str(), one.node.as_deref(), one.origin)).collect()
    }

    #[test]
    fn each_error_counts_once_for_the_node_that_had_it_wrong() {
        use ReplicaErrorOrigin::{Injected, Real, Spread};
        let lines = [
            line(1, 4, "0x4", "replaced"),
            line(1, 4, "0x4", "right"),
            line(1, 5, "0", "undecided"),
            line(-1, 6, "0x4", "replaced"),
            line(-1, 7, "0x2", "replaced"),
        ];
        let replicas = [2, 0, 0, 2, 1];
        let lines: Vec<(u32, u32, &str)> =
            lines.iter().zip(replicas).map(|(line, of)| (0, of, line.as_str())).collect();
        let mut report = report(&lines);
        report.outputs.push(OutputMismatch { rank: 1, wrong: Some(2), offset: 8 });
        let file = |wrong| FileMismatch { path: "f".into(), wrong, offset: Some(1), kept: Vec::new() };
        report.files.extend([file(Some(vec![1, 2])), file(None)]);
        let errors = errors_of(&report, None, NOW, NOW);
        let expected = [
            ("message", Some("d"), Real),
            ("message", None, Real),
            ("message", Some("c"), Spread),
            ("message", Some("b"), Real),
            ("output", Some("d"), Real),
            ("file", Some("b"), Real),
            ("file", None, Real),
            ("file", None, Real),
        ];
        assert_eq!(short(&errors), expected);
        let first = &errors[0];
        assert_eq!((first.rank, first.replica, first.wrong_replica), (Some(0), Some(2), Some(2)));
        assert_eq!((first.peer, first.tag, first.bytes, first.first_difference), (Some(5), Some(7), Some(80), Some(3)));
        let flips = |text: &str| {
            let errors = errors_of(&report, Some(&text.parse().unwrap()), NOW, NOW);
            errors.iter().filter(|one| one.origin == Injected).map(|one| one.wrong_replica).collect::<Vec<_>>()
        };
        assert_eq!(flips("flip:send:at=3").len() + 1, expected.len(), "all but what has spread");
        assert_eq!(
            flips("flip:send:at=3,replica=1"),
            [None, Some(1), Some(1), None],
            "only its team can be wrong for it"
        );
    }

    #[test]
    fn what_a_program_has_kept_counts_if_all_of_the_team_came_from_one_node() {
        use ReplicaErrorOrigin::{Real, Spread};
        let both = [line(0, 4, "0x4", "kept"), line(1, 5, "0x4", "kept")];
        let of = |lines: &[String]| {
            let lines: Vec<(u32, u32, &str)> = lines.iter().map(|line| (0, 0, line.as_str())).collect();
            let mut report = report(&lines);
            report.outputs.push(OutputMismatch { rank: 1, wrong: Some(2), offset: 8 });
            errors_of(&report, None, NOW, NOW).iter().map(|one| one.origin).collect::<Vec<_>>()
        };
        assert_eq!(of(&both), [Spread, Spread, Spread]);
        assert_eq!(of(&both[..1]), [Real, Spread]);
    }
}
