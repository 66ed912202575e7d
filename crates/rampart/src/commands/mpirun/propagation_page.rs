//! The page of a propagation study: tainted ranks and corrupt messages over the steps, as in [Fiala15, figures 3.10 to
//! 3.17].
//!
//! **Problem.** A program has few steps or a million, and a drawing has a thousand points. **Idea.** Steps are grouped
//! into as many parts as can be seen. Four moments show who sent corrupt messages to whom until then, as [Fiala15,
//! figure 3.10] does. **Why this way.** The last moment is a picture of all that the program says, if the error reached
//! all of it.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::UNFINISHED;
use super::report_page::{EndedJob, head, index, more};
use super::study::PropagationStudy;
use super::taint::{Taint, TaintKind};
use crate::output::chart::{Chart, HeatMap};
use crate::output::html::{self, document, figure};
use crate::output::text::count;

/// The number of points of a line, and of columns of a heat map.
const PARTS: u64 = 184;

/// The number of moments that are drawn side by side.
const MOMENTS: usize = 4;

/// The most ranks in the table; the JSON has all.
const TAINTS_SHOWN: usize = 500;

/// The page.
pub fn of_study(job: &EndedJob<'_>, study: &PropagationStudy) -> String {
    let ranks = job.arguments.n.get();
    let [injected, direct, indirect] = study.kinds();
    let tiles = [
        (format!("{} of {ranks}", study.propagation.taints.len()), "ranks tainted"),
        (count(injected as u64), "by a flip"),
        (count(direct as u64), "directly"),
        (count(indirect as u64), "indirectly"),
        (count(study.propagation.messages()), "corrupt messages"),
    ];
    let body = html! {
        (head("How a flip spreads", job))
        p { b { (study.summary(ranks)) } }
        (end(job))
        @for remark in study.remarks() {
            p.soft { (remark) }
        }
        (html::tiles(tiles))
        (drawings(study, ranks))
        (taints(&study.propagation.taints))
        h2 { "What is counted" }
        p { (MEANING) }
    };
    document(&format!("propagation in {}", job.arguments.program_line()), &body)
}

/// How far the replicas went together.
fn end(job: &EndedJob<'_>) -> Markup {
    match &job.report.stopped {
        Some(why) if job.report.has_diverged => html! { p.bad { "Replicas left their common path: " (why) } },
        Some(why) => html! { p.bad { "The job was stopped: " (why) } },
        None if job.report.ended < job.report.began => html! { p.bad { (UNFINISHED) ": " (job.ended) } },
        None => html! { p.good { "All replicas made the same calls until the end." } },
    }
}

const MEANING: &str = "A rank is tainted from its first flip on, or from its first message that differs between its replicas: directly, if \
     a rank with a flip sent that message, else indirectly. What a collective operation gives has no sender; it taints \
     directly in the first step in which any rank but those with a flip is tainted. A rank whose memory is wrong and \
     that sends nothing wrong is not noticed, and one whose error has vanished again stays tainted.";

/// Steps in parts of equal length: their number, and the last step of each.
struct Parts {
    count: u64,
    steps: u64,
}

impl Parts {
    fn of(study: &PropagationStudy) -> Self {
        let steps = study.last.max(study.propagation.last_step()) + 1;
        Self { count: PARTS.min(steps), steps }
    }

    fn part(&self, step: u64) -> usize {
        index(step * self.count / self.steps)
    }

    /// The last step that belongs to a part.
    fn last(&self, part: u64) -> u64 {
        ((part + 1) * self.steps).div_ceil(self.count) - 1
    }
}

fn drawings(study: &PropagationStudy, ranks: u32) -> Markup {
    let (parts, over, length) = (Parts::of(study), study.source.noun(), Parts::of(study).steps as f64);
    let mut sums: [Vec<f64>; 3] = Default::default();
    for part in 0..parts.count {
        let [injected, direct, indirect] = study.propagation.tainted_by(parts.last(part)).map(|one| one as f64);
        for (sum, value) in sums.iter_mut().zip([injected + direct + indirect, injected + direct, injected]) {
            sum.push(value);
        }
    }
    let mut messages = vec![0.0; index(parts.count)];
    let mut counts = BTreeMap::new();
    for ((step, rank), count) in study.propagation.by_step_and_rank() {
        messages[parts.part(step)] += count as f64;
        *counts.entry((parts.part(step), rank as usize)).or_insert(0) += count;
    }
    let names = ["tainted in all", "of these, injected or directly", "injected"];
    let lines = names.into_iter().zip(sums).collect();
    let tainted = Chart { measure: "ranks", over, length, max: Some(f64::from(ranks) * 1.05), lines };
    let lines = vec![("corrupt messages", messages)];
    let received = Chart { measure: "messages", over, length, max: None, lines };
    let across = (if parts.steps == parts.count { over } else { "part of the run" }, index(parts.count));
    let map = HeatMap { across, up: ("rank", ranks as usize), counts };
    html! {
        h2 { "Step by step" }
        (figure(&names, tainted.svg(), ""))
        (figure(&["corrupt messages that all ranks received"], received.svg(), ""))
        (figure(&[], map.svg(), "Corrupt messages by rank; the stronger, the more"))
        (moments(study, ranks as usize))
    }
}

/// The steps until which a part of the tainted ranks was tainted: the first with a corrupt message, and so on to all.
fn moments_of(study: &PropagationStudy) -> Vec<u64> {
    let taints: Vec<u64> =
        study.propagation.taints.iter().filter(|one| one.kind != TaintKind::Injected).map(|one| one.step).collect();
    let Some(last) = taints.len().checked_sub(1) else { return Vec::new() };
    let mut steps: Vec<u64> = (0..MOMENTS - 1).map(|moment| taints[last * moment / (MOMENTS - 2)]).collect();
    steps.push(study.propagation.last_step());
    steps.dedup();
    steps
}

fn moments(study: &PropagationStudy, ranks: usize) -> Markup {
    let steps = moments_of(study);
    if steps.is_empty() {
        return html! {};
    }
    let until = |step: u64| {
        let mut counts = BTreeMap::new();
        for (&(_, sender, rank), count) in study.propagation.corrupt.range(..(step + 1, None, 0)) {
            *counts.entry((sender.map_or(ranks, |sender| sender as usize), rank as usize)).or_insert(0) += count;
        }
        HeatMap { across: ("sender", ranks + 1), up: ("receiver", ranks), counts }
    };
    let maps: Vec<HeatMap<'_>> = steps.iter().map(|&step| until(step)).collect();
    let listed = steps.iter().map(|&step| count(step)).collect::<Vec<_>>().join(", ");
    let caption = format!(
        "Who sent corrupt messages to whom up to {} {listed}; the column behind the last rank is that of collective operations",
        study.source.noun()
    );
    figure(&[], HeatMap::side_by_side(&maps), caption)
}

fn taints(taints: &[Taint]) -> Markup {
    let heads = ["#rank", "how", "#step", "#message of the rank", "from rank"];
    let row = |one: &Taint| {
        let from = match (one.kind, one.sender) {
            (TaintKind::Injected, _) => "–".to_owned(),
            (_, Some(sender)) => sender.to_string(),
            (_, None) => "collective operation".to_owned(),
        };
        vec![one.rank.to_string(), one.kind.name().to_owned(), count(one.step), count(one.number), from]
    };
    html! {
        h2 { "Tainted ranks" }
        (html::table(&heads, taints.iter().take(TAINTS_SHOWN).map(row)))
        (more(taints.len(), TAINTS_SHOWN))
    }
}
