//! The propagation study: what became of a job in which nothing was corrected [Fiala15, 3.7.1].
//!
//! **Problem.** The processes of a job report flips and mismatches, and a reader wants to know how many ranks were
//! reached, how soon, and whether the program still did the same. **Idea.** Mismatches become corrupt messages, each
//! counted once, and [`Propagation`] finds the taints. Where the program reports no steps, a rank's step is the number
//! of messages that it has compared. **Why this way.** A program whose steps nobody knows still shows who was reached
//! after how many messages; the report says that these are no steps.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::arguments::PCONTROL;
use super::reports::JobReport;
use super::taint::{CorruptMessage, Flip, Propagation, Taint, TaintKind};
use crate::output::text::count;

/// What was counted as the steps of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepSource {
    /// Calls of this function.
    Calls(String),
    /// Messages that a rank has compared, since the program never called this function.
    Messages(String),
}

impl StepSource {
    /// A moment of a rank.
    fn at(&self, step: u64) -> String {
        let noun = if matches!(self, Self::Calls(_)) { "step" } else { "its message" };
        format!("{noun} {}", count(step))
    }

    /// One step, as the name of an axis.
    pub const fn noun(&self) -> &'static str {
        match self {
            Self::Calls(_) => "step",
            Self::Messages(_) => "message of the rank",
        }
    }

    /// What a step is, in a sentence.
    pub fn sentence(&self) -> String {
        match self {
            Self::Calls(function) => format!("each call of {function} begins a step"),
            Self::Messages(function) => format!(
                "no steps are known, since the program does not call {function}: the messages that each rank compares \
                 are counted instead (--step names another function)"
            ),
        }
    }
}

/// How the flips of a job spread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PropagationStudy {
    pub source: StepSource,
    /// The last step of the program.
    pub last: u64,
    pub flips: usize,
    pub propagation: Propagation,
    /// Corrupt messages that no flip explains: the program differs between replicas by itself.
    pub unexplained: usize,
}

impl PropagationStudy {
    /// Of a job; `counted` is the function that the user named.
    pub fn of(report: &JobReport, counted: Option<&str>) -> Self {
        let function = counted.unwrap_or(PCONTROL).to_owned();
        let source = if report.steps > 0 { StepSource::Calls(function) } else { StepSource::Messages(function) };
        let are_known = report.steps > 0;
        let flips: Vec<Flip> = report
            .injections
            .iter()
            .map(|one| {
                let compared = one.known("compared").unwrap_or(0);
                let step = if are_known { one.known("step").unwrap_or(0) } else { compared };
                Flip { rank: one.rank, step, compared }
            })
            .collect();
        let messages = corrupt_messages(report, are_known);
        let propagation = Propagation::of(&flips, &messages);
        let last = if are_known { report.steps } else { propagation.last_step() };
        let first = flips.iter().map(|flip| flip.step).min().filter(|_| are_known).unwrap_or(0);
        let tainted: BTreeSet<u32> = propagation.taints.iter().map(|one| one.rank).collect();
        let is_unexplained = |one: &&CorruptMessage| {
            one.step < first || flips.is_empty() || one.sender.is_some_and(|sender| !tainted.contains(&sender))
        };
        let unexplained = messages.iter().filter(is_unexplained).count();
        Self { source, last, flips: flips.len(), propagation, unexplained }
    }

    /// Ranks of each kind, in the order of [`TaintKind::ALL`].
    pub fn kinds(&self) -> [usize; 3] {
        self.propagation.tainted_by(u64::MAX)
    }

    /// The result in one line.
    pub fn summary(&self, ranks: u32) -> String {
        let Some(last) = self.propagation.taints.last() else { return "no bit was flipped".to_owned() };
        let [injected, direct, indirect] = self.kinds();
        let tainted = self.propagation.taints.len();
        let flips = plural(self.flips as u64, "flip");
        format!(
            "{flips}: {tainted} of {ranks} ranks are tainted ({injected} injected, {direct} directly, {indirect} \
             indirectly), the last one at {}, by {}",
            self.source.at(last.step),
            plural(self.propagation.messages(), "corrupt message")
        )
    }

    /// What else is to be known, a line each.
    pub fn remarks(&self) -> impl Iterator<Item = String> {
        let differ = || {
            let messages = plural(self.unexplained as u64, "message");
            format!("{messages} differed that no flip explains: the program differs between replicas by itself")
        };
        let without = "the flip was to come later than the program sent anything, or in a rank that sends nothing";
        [
            Some(self.source.sentence()),
            (self.flips == 0).then(|| without.to_owned()),
            (self.unexplained > 0).then(differ),
        ]
        .into_iter()
        .flatten()
    }

    /// Whether there is no result: no flip, or an end that no flip explains.
    pub const fn has_failed(&self, report: &JobReport) -> bool {
        self.flips == 0 || (report.stopped.is_some() && !report.has_diverged)
    }

    /// The study as JSON.
    pub fn document(&self, report: &JobReport) -> Value {
        let (step, are_messages) = match &self.source {
            StepSource::Calls(function) => (function.as_str(), false),
            StepSource::Messages(_) => ("message", true),
        };
        let [injected, direct, indirect] = self.kinds();
        let corrupt = self.propagation.by_step_and_rank();
        json!({
            "step": step,
            "steps": if are_messages { None } else { Some(self.last) },
            "flips": self.flips,
            "tainted": self.propagation.taints.len(),
            "injected": injected,
            "directly": direct,
            "indirectly": indirect,
            "corrupt_messages": self.propagation.messages(),
            "unexplained_messages": self.unexplained,
            "left_common_path": report.has_diverged,
            "came_to_its_end": report.began == report.ended,
            "taints": self.propagation.taints.iter().map(taint_document).collect::<Vec<_>>(),
            "corrupt": corrupt.iter().map(|(&(step, rank), messages)| {
                json!({ "step": step, "rank": rank, "messages": messages })
            }).collect::<Vec<_>>(),
        })
    }
}

/// A count and its noun.
fn plural(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}

fn taint_document(one: &Taint) -> Value {
    let message = (one.kind != TaintKind::Injected).then_some(one.number);
    json!({ "rank": one.rank, "how": one.kind.name(), "step": one.step, "message": message, "from": one.sender })
}

/// Several replicas of a rank report the same message.
fn corrupt_messages(report: &JobReport, are_steps_known: bool) -> Vec<CorruptMessage> {
    let mut messages = BTreeMap::new();
    for one in &report.mismatches {
        let Some(number) = one.known("number") else { continue };
        let step = if are_steps_known { one.known("step").unwrap_or(0) } else { number };
        messages.entry((one.rank, number)).or_insert(CorruptMessage {
            rank: one.rank,
            step,
            number,
            sender: one.sender(),
        });
    }
    messages.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(lines: &[(u32, u32, &str)]) -> JobReport {
        let mut report = JobReport::default();
        lines.iter().for_each(|(rank, replica, line)| report.see(*rank, *replica, line));
        report
    }

    const FLIP: &str = "injected message 3 to 2 tag 7 bytes 80 bit 24 compared 4 step 2";
    const FIRST: &str =
        "mismatch message comm 1 peer 0 sender 1 tag 7 bytes 80 offset 3 number 5 step 2 wrong 0 undecided";
    const NEXT: &str =
        "mismatch message comm 1 peer 0 sender 2 tag 7 bytes 80 offset 3 number 8 step 3 wrong 0 undecided";

    #[test]
    fn what_two_replicas_report_is_one_corrupt_message() {
        let report = report(&[(1, 1, FLIP), (2, 0, FIRST), (2, 1, FIRST), (3, 1, NEXT), (3, 0, NEXT)]);
        let study = PropagationStudy::of(&report, None);
        assert_eq!((study.kinds(), study.propagation.messages(), study.unexplained), ([1, 1, 1], 2, 0));
        assert_eq!(study.source, StepSource::Calls("MPI_Pcontrol".to_owned()));
        let words = "1 flip: 3 of 4 ranks are tainted (1 injected, 1 directly, 1 indirectly), the last one at step 3, by \
            2 corrupt messages";
        assert_eq!(study.summary(4), words);
        let document = study.document(&report);
        assert_eq!(document["taints"][2], json!({"rank": 3, "how": "indirectly", "step": 3, "message": 8, "from": 2}));
        assert_eq!(
            document["taints"][0],
            json!({"rank": 1, "how": "injected", "step": 2, "message": null, "from": null})
        );
        assert_eq!(document["corrupt"][1], json!({"step": 3, "rank": 3, "messages": 1}));
        assert_eq!((&document["steps"], &document["step"]), (&json!(3), &json!("MPI_Pcontrol")));
    }

    #[test]
    fn without_steps_messages_are_counted_and_that_is_said() {
        let [flip, first] = [FLIP, FIRST].map(|line| line.replace("step 2", "step 0"));
        let report = report(&[(1, 1, &flip), (2, 0, &first), (2, 1, &first)]);
        let study = PropagationStudy::of(&report, Some("MPI_Barrier"));
        assert_eq!(study.source, StepSource::Messages("MPI_Barrier".to_owned()));
        let steps: Vec<(u32, u64)> = study.propagation.taints.iter().map(|one| (one.rank, one.step)).collect();
        assert_eq!(steps, [(1, 4), (2, 5)]);
        assert!(study.remarks().next().unwrap().contains("does not call MPI_Barrier"));
        assert!(study.summary(4).contains("at its message 5"));
        assert_eq!(
            (&study.document(&report)["step"], &study.document(&report)["steps"]),
            (&json!("message"), &json!(null))
        );
    }

    #[test]
    fn messages_that_no_flip_explains_are_named() {
        let early = FIRST.replace("step 2", "step 1");
        let before = PropagationStudy::of(&report(&[(1, 1, FLIP), (2, 0, &early)]), None);
        assert_eq!(before.unexplained, 1);
        let from_nowhere = PropagationStudy::of(&report(&[(1, 1, FLIP), (3, 0, NEXT)]), None);
        assert_eq!(from_nowhere.unexplained, 1);
        assert!(from_nowhere.remarks().any(|line| line.contains("by itself")));
        let none = PropagationStudy::of(&report(&[]), None);
        assert_eq!(none.summary(4), "no bit was flipped");
        assert!(none.remarks().any(|line| line.contains("later")));
    }
}
