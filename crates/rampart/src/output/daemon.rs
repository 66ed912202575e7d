//! The state of the daemon as text: a line, a page, and a summary at its end.

use std::fmt::Write as _;
use std::time::Duration;

use rampart_diagnostic::daemon::{DaemonState, WatchSummary};
use rampart_memory::{Bytes, FRAME_BYTES};

use crate::output::text;

/// The state in one line.
pub fn line(state: &DaemonState) -> String {
    let phase = if state.sweeping { "sweeping" } else { "resting" };
    format!(
        "{phase}, {} fresh of {} reached, fidelity {} on {}, {:.2} GB/s, {} bad",
        memory(state.frames.fresh),
        memory(state.frames.reached),
        state.config.fidelity,
        state.config.threads,
        rate(state) / 1e9,
        state.bad_frames + state.emulated_frames
    )
}

/// The state for `rampart status`.
pub fn page(state: &DaemonState) -> String {
    let mut text = String::new();
    let phase = if state.sweeping { "a sweep is under way" } else { "between two sweeps" };
    let _ = writeln!(
        text,
        "watching    by process {} since {}: {phase}, {} ended; {} claimed",
        state.pid,
        text::moment(state.started),
        state.sweeps,
        state.claimed
    );
    let frames = state.frames;
    let rest = if state.guarantee.is_some() { "cannot be moved" } else { "is in use" };
    if frames.reached > 0 {
        let _ = writeln!(
            text,
            "coverage    {} of {} reached ({:.0} %), {} of that with a good test ({:.0} %); the rest {rest}",
            memory(frames.reached),
            memory(frames.total),
            percent(frames.reached, frames.total),
            memory(frames.fresh),
            percent(frames.fresh, frames.reached)
        );
    } else {
        let _ = writeln!(text, "coverage    {} tested; only root sees which frames", memory(state.tested));
    }
    if let Some(guarantee) = state.guarantee {
        let _ = writeln!(
            text,
            "in use      {} frames moved and tested; {} are past their deadline, and {} that the kernel does not move",
            guarantee.moved, guarantee.missed, guarantee.refused
        );
    }
    if state.offline > Bytes::ZERO {
        let _ = writeln!(text, "offline     {} in memory blocks that are offline: not tested", state.offline);
    }
    let oldest = state.oldest_seconds.map_or_else(|| "none yet".to_owned(), |age| format!("{} ago", seconds(age)));
    let _ = writeln!(text, "oldest      good test {oldest}; tests are good for {}", seconds(state.lifetime_seconds));
    let _ = writeln!(
        text,
        "testing     {}: fidelity {} on {} CPU{}, {:.0} frames/s asked for, {:.0} tested ({:.2} GB/s)",
        state.policy.as_str(),
        state.config.fidelity,
        state.config.threads,
        if state.config.threads == 1 { "" } else { "s" },
        state.demand,
        state.test_rate,
        rate(state) / 1e9
    );
    let _ = writeln!(
        text,
        "cost        {:.1} % of all CPU time, when no program needs it, and {:.2} GB/s of memory traffic, which slows no program \
         more than {:.3} times; pressure {} times",
        100.0 * state.cost.cpu,
        state.cost.memory_traffic / 1e9,
        state.cost.slowdown,
        state.pressure
    );
    let _ = writeln!(
        text,
        "found       {} bad frames, {} emulated; {} reports of memory errors",
        state.bad_frames, state.emulated_frames, state.errors
    );
    text
}

/// The summary when the daemon has ended. Its last line is the verdict.
pub fn summary(summary: &WatchSummary) -> String {
    let mut text = page(&summary.state);
    if summary.moved > 0 {
        let _ = writeln!(text, "moved       {} frames by the kernel while under test: not tested", summary.moved);
    }
    if summary.delayed_reads_skipped > 0 {
        let skipped = memory(summary.delayed_reads_skipped);
        let _ =
            writeln!(text, "delayed     read skipped for {skipped}: given back or stopped before the rest was over");
    }
    for missed in &summary.missed {
        let _ = writeln!(text, "MISSED      {missed}: guaranteed to be found but not found: a bug of Rampart");
    }
    if summary.facts_not_stored > 0 {
        let _ = writeln!(text, "store       {} facts could NOT be written", summary.facts_not_stored);
    }
    let _ = writeln!(text, "stopped     after {}; all memory is given back", seconds(summary.seconds));
    let state = &summary.state;
    let verdict = match (summary.verdict.exit_code(), &summary.incomplete) {
        (0, _) => "PASS".to_owned(),
        (1, _) => format!("FAIL: {} bad frames, {} emulated", state.bad_frames, state.emulated_frames),
        (_, why) => format!("INCOMPLETE: {}", why.as_deref().unwrap_or("unknown")),
    };
    let _ = writeln!(text, "{verdict}");
    text
}

fn memory(frames: u64) -> Bytes {
    Bytes::new(frames * FRAME_BYTES)
}

#[expect(clippy::cast_precision_loss, reason = "a rate that is shown")]
fn rate(state: &DaemonState) -> f64 {
    state.test_rate * FRAME_BYTES as f64
}

#[expect(clippy::cast_precision_loss, reason = "a percentage that is shown")]
fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

fn seconds(seconds: f64) -> String {
    let whole = Duration::from_secs_f64(seconds.max(0.0)).as_secs();
    humantime::format_duration(Duration::from_secs(whole)).to_string()
}
