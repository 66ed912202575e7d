//! `rampart banks consolidate`: takes memory offline, block by block, until a target is met or programs wait too long.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rampart_banks::{BankLayout, Consolidation, ConsolidationEnd, ConsolidationGoal, MemorySurvey, MovedOut, NextStep};
use rampart_linux::{HotplugRefusal, HotplugState, Patience, Roots, hotplug};
use rampart_memory::{Bytes, HotplugBlock};
use serde::Serialize;

use super::arguments::ConsolidateArguments;
use super::culprits::Culprits;
use super::mover::BlockMover;
use super::pressure_limit::{PressureLimit, PressureReport};
use super::{Surveyed, look};
use crate::error::Error;
use crate::output::progress::StepProgress;
use crate::output::text;
use crate::process::signals;

/// The longest sleep before Ctrl-C is noticed.
const MOMENT: Duration = Duration::from_millis(50);

/// What was done, or would be.
#[derive(Serialize)]
struct ConsolidationReport {
    schema: &'static str,
    applied: bool,
    /// A bank that can go as a whole goes first.
    banks: BankLayout,
    /// All memory.
    memory: Bytes,
    target: Bytes,
    reserve_percent: u32,
    pressure: PressureReport,
    offline_before: Bytes,
    offline_after: Bytes,
    ended: ConsolidationEnd,
    /// What moved out of the blocks that went.
    moved: Bytes,
    /// Of this, what moved for the second time or more, at most.
    moved_twice_at_most: Bytes,
    attempts: Vec<Attempt>,
    /// Blocks that went offline and were brought back by somebody else.
    came_back: Vec<HotplugBlock>,
    /// What may have done so.
    #[serde(flatten)]
    culprits: Culprits,
}

impl ConsolidationReport {
    fn count_moved(&mut self, mut moved: MovedOut) {
        let went = self.attempts.iter().filter(|attempt| attempt.refusal.is_none());
        went.for_each(|attempt| moved.went(attempt.block, attempt.to_move));
        self.moved = moved.moved;
        self.moved_twice_at_most = moved.twice;
    }
}

/// An attempt to empty a block.
#[derive(Serialize)]
struct Attempt {
    block: HotplugBlock,
    /// What had to move.
    to_move: Bytes,
    /// Why the block stayed; `None` if it went.
    refusal: Option<String>,
    /// How long it took; `None` in a dry run.
    seconds: Option<f64>,
}

impl Attempt {
    /// An attempt that would succeed.
    fn planned(survey: &MemorySurvey, block: HotplugBlock) -> Self {
        let to_move = survey.find(block).map_or(Bytes::ZERO, |found| found.uses.movable);
        Self { block, to_move, refusal: None, seconds: None }
    }
}

/// Takes blocks offline, or shows which. Returns 0 if the target is met, or would be, else 2.
pub fn run(arguments: &ConsolidateArguments) -> Result<u8, Error> {
    let roots = Roots::default();
    let before = look(&roots, arguments.bank)?.known()?;
    let memory = Bytes::new(before.totals.online.get() + before.totals.offline.get());
    let goal = ConsolidationGoal {
        target: arguments.target.of(memory),
        reserve_percent: arguments.reserve,
        pressure_percent: arguments.pressure_limit,
    };
    let pressure = PressureLimit::begin(&roots);
    let mut report = ConsolidationReport {
        schema: "rampart.consolidation/1",
        applied: arguments.apply,
        banks: before.banks.clone(),
        memory,
        target: goal.target,
        reserve_percent: goal.reserve_percent,
        pressure: pressure.report(goal.pressure_percent),
        offline_before: before.totals.offline,
        offline_after: before.totals.offline,
        ended: ConsolidationEnd::NoCandidate,
        moved: Bytes::ZERO,
        moved_twice_at_most: Bytes::ZERO,
        attempts: Vec::new(),
        came_back: Vec::new(),
        culprits: Culprits::default(),
    };
    let at_first = MovedOut::begin(&before);
    if arguments.apply {
        Application::begin(&roots, arguments, goal, &pressure)?.run(&mut report)?;
    } else {
        plan(before, goal, &pressure, &mut report);
    }
    report.pressure = pressure.report(goal.pressure_percent);
    report.count_moved(at_first);
    if arguments.json {
        text::print_json(&report)?;
    } else {
        text::print(&shown(&report))?;
    }
    Ok(if report.ended == ConsolidationEnd::TargetReached { 0 } else { 2 })
}

/// What would be done if every attempt succeeded.
fn plan(
    mut survey: MemorySurvey,
    goal: ConsolidationGoal,
    pressure: &PressureLimit<'_>,
    report: &mut ConsolidationReport,
) {
    let consolidation = Consolidation::new(goal);
    report.ended = loop {
        match consolidation.next(&survey, pressure.most(), Duration::ZERO) {
            NextStep::Offline(block) => {
                report.attempts.push(Attempt::planned(&survey, block));
                survey = survey.without(block);
            }
            NextStep::Wait(_) => unreachable!("no attempt has failed"),
            NextStep::End(end) => break end,
        }
    };
    report.offline_after = survey.totals.offline;
}

/// A consolidation of this machine.
struct Application<'a> {
    roots: &'a Roots,
    arguments: &'a ConsolidateArguments,
    goal: ConsolidationGoal,
    pressure: &'a PressureLimit<'a>,
    consolidation: Consolidation,
    mover: BlockMover<'a>,
    stop: Arc<AtomicBool>,
    began: Instant,
}

impl<'a> Application<'a> {
    fn begin(
        roots: &'a Roots,
        arguments: &'a ConsolidateArguments,
        goal: ConsolidationGoal,
        pressure: &'a PressureLimit<'a>,
    ) -> Result<Self, Error> {
        let mover = BlockMover::open(roots)?;
        let stop = signals::stop_flag()?;
        hotplug::write_back();
        let consolidation = Consolidation::new(goal);
        Ok(Self { roots, arguments, goal, pressure, consolidation, mover, stop, began: Instant::now() })
    }

    /// Takes blocks offline until there is nothing more to do.
    fn run(mut self, report: &mut ConsolidationReport) -> Result<(), Error> {
        let progress = StepProgress::of_blocks();
        report.ended = loop {
            if self.stop.load(Ordering::Relaxed) {
                break ConsolidationEnd::Stopped;
            }
            let seen = look(self.roots, self.arguments.bank)?;
            let now = self.began.elapsed();
            let blocks = |bytes: Bytes| {
                let more = bytes.saturating_sub(report.offline_before).get().div_ceil(seen.survey.block.get());
                usize::try_from(more).unwrap_or(usize::MAX)
            };
            progress.set(blocks(seen.survey.totals.offline), blocks(report.target));
            match self.consolidation.next(&seen.survey, self.pressure.most(), now) {
                NextStep::Offline(block) => report.attempts.push(self.attempt(&seen, block)?),
                NextStep::Wait(until) => thread::sleep((until - now).min(MOMENT)),
                NextStep::End(end) => break end,
            }
        };
        progress.end();
        self.end(report)
    }

    fn attempt(&mut self, seen: &Surveyed, block: HotplugBlock) -> Result<Attempt, Error> {
        let found = seen.blocks.find(block).expect("a block of the survey");
        let (stop, goal, pressure) = (&self.stop, self.goal, self.pressure);
        let stops = || stop.load(Ordering::Relaxed) || goal.is_pressed(pressure.most());
        let began = Instant::now();
        let patience = Patience { deadline: self.arguments.deadline, stops: &stops };
        let refusal = self.mover.take_offline(found, patience)?.err();
        let seconds = Some(began.elapsed().as_secs_f64());
        if refusal.is_some() {
            self.consolidation.failed(block, self.began.elapsed());
        }
        let refusal = refusal.as_ref().map(HotplugRefusal::to_string);
        Ok(Attempt { refusal, seconds, ..Attempt::planned(&seen.survey, block) })
    }

    fn end(mut self, report: &mut ConsolidationReport) -> Result<(), Error> {
        let after = look(self.roots, self.arguments.bank)?;
        report.offline_after = after.survey.totals.offline;
        let is_back =
            |block: &HotplugBlock| after.blocks.find(*block).is_some_and(|now| now.state == HotplugState::Online);
        let went = report.attempts.iter().filter(|attempt| attempt.refusal.is_none()).map(|attempt| attempt.block);
        report.came_back = went.filter(is_back).collect();
        if !report.came_back.is_empty() {
            report.culprits = Culprits::find(self.roots);
        }
        self.mover.end(&after.blocks)
    }
}

fn shown(report: &ConsolidationReport) -> String {
    let mut text = String::new();
    if !report.attempts.is_empty() {
        let _ = writeln!(text, "{:>6}  {:>9}  result", "block", "to move");
    }
    for attempt in &report.attempts {
        let result = match (&attempt.refusal, report.applied) {
            (None, true) => "offline".to_owned(),
            (None, false) => "would go offline".to_owned(),
            (Some(refusal), _) => format!("stays online: {refusal}"),
        };
        let _ = writeln!(text, "{:>6}  {:>9}  {result}", attempt.block.0, attempt.to_move.to_string());
    }
    for block in &report.came_back {
        let _ = writeln!(text, "block {} came online again: {}", block.0, report.culprits);
    }
    let would = if report.applied { "" } else { "would be " };
    let _ = writeln!(
        text,
        "offline     {would}{} of {}; the target is {}",
        report.offline_after, report.memory, report.target
    );
    let _ = writeln!(
        text,
        "moved       {would}{}, of which {} for the second time at most",
        report.moved, report.moved_twice_at_most
    );
    let _ = writeln!(text, "banks       {}", report.banks);
    let _ = writeln!(text, "pressure    {}", report.pressure);
    let _ = writeln!(text, "ended       {}", report.ended);
    if report.applied {
        text.push_str("back        `rampart banks restore` brings these blocks online again\n");
    } else {
        text.push_str("dry run     nothing was changed: --apply does it\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_each_attempt_and_says_whether_it_happened() {
        let attempt = |block, refusal: Option<&str>| Attempt {
            block: HotplugBlock(block),
            to_move: Bytes::from_mib(3),
            refusal: refusal.map(str::to_owned),
            seconds: Some(0.5),
        };
        let mut report = ConsolidationReport {
            schema: "",
            applied: true,
            banks: BankLayout::assumed(Bytes::from_mib(1024)),
            memory: Bytes::from_mib(1024),
            target: Bytes::from_mib(300),
            reserve_percent: 5,
            pressure: PressureReport { limit_percent: 10, most_percent: Some(2.0), unknown_because: None },
            offline_before: Bytes::ZERO,
            offline_after: Bytes::from_mib(128),
            ended: ConsolidationEnd::Reserve,
            moved: Bytes::from_mib(5),
            moved_twice_at_most: Bytes::from_mib(2),
            attempts: vec![attempt(5, None), attempt(6, Some("something in it cannot move now"))],
            came_back: vec![HotplugBlock(5)],
            culprits: Culprits { rules: vec!["/rules".into()], settings: Vec::new() },
        };
        let lines = |report: &ConsolidationReport| shown(report).lines().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(
            lines(&report)[1..],
            [
                "     5      3 MiB  offline",
                "     6      3 MiB  stays online: something in it cannot move now",
                "block 5 came online again: another program, or udev by /rules",
                "offline     128 MiB of 1 GiB; the target is 300 MiB",
                "moved       5 MiB, of which 2 MiB for the second time at most",
                "banks       banks of 128 MiB (assumed)",
                "pressure    programs waited for memory for at most 2.0 % of the time; the limit is 10 %",
                "ended       without another block, too little memory would stay free",
                "back        `rampart banks restore` brings these blocks online again",
            ]
        );
        report.applied = false;
        report.attempts.truncate(1);
        report.came_back.clear();
        assert_eq!(lines(&report)[1], "     5      3 MiB  would go offline");
        assert_eq!(lines(&report)[7], "dry run     nothing was changed: --apply does it");
    }
}
