//! The state of the daemon as text: a line, a page, and a summary at its end.

use std::fmt::Write as _;
use std::time::Duration;

use rampart_diagnostic::daemon::{DaemonState, WatchSummary};
use rampart_diagnostic::once::extent::percent;
use rampart_memory::{Bytes, FRAME_BYTES};

use crate::output::verbosity::Verbosity;
use crate::output::{report, text};

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

/// The state for `rampart status`. `free`: free memory that a sweep could claim now, beside what it holds.
pub fn page(state: &DaemonState, free: Option<Bytes>) -> String {
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
    text.push_str(&coverage(state, free));
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

/// How much of the memory is tested. Each share says what it is of: the machine, what was reached, or free memory.
fn coverage(state: &DaemonState, free: Option<Bytes>) -> String {
    let frames = state.frames;
    let [total, reached, fresh] = [frames.total, frames.reached, frames.fresh].map(memory);
    let mut text = String::new();
    if frames.reached > 0 {
        let _ = writeln!(
            text,
            "coverage    {reached} of {total} reached so far, {} % of this machine's memory; {fresh} of that ({} %) have a good \
             test",
            percent(reached, total),
            percent(fresh, reached)
        );
    } else {
        let tested = memory(state.tested);
        let _ = writeln!(text, "coverage    {tested} tested, repeated tests included; only root sees which frames");
    }
    if let (true, None, Some(free)) = (state.sweeping, state.guarantee, free) {
        let all = Bytes::new(state.claimed.get() + free.get());
        let share = percent(state.claimed, all);
        let _ = writeln!(text, "sweep       {} of {all} free memory claimed so far ({share} %)", state.claimed);
    }
    if frames.reached > 0 {
        let rest = total.saturating_sub(reached);
        let _ = writeln!(text, "not reached {rest}: {}", rest_of(state, free));
    }
    text
}

/// What the memory is that was not reached.
fn rest_of(state: &DaemonState, free: Option<Bytes>) -> String {
    let is_young = state.at.since(state.started).as_secs_f64() < state.lifetime_seconds;
    match (state.guarantee, free) {
        (Some(_), _) if is_young => "its turn comes within the first lifetime, or it cannot be moved".to_owned(),
        (Some(_), _) => "it cannot be moved".to_owned(),
        (None, Some(free)) if state.sweeping && free > Bytes::ZERO => {
            format!("up to {free} of it is free and comes next in this sweep; programs and the kernel use the rest")
        }
        (None, None) if state.sweeps == 0 => "the first sweep had not ended".to_owned(),
        (None, _) => "programs and the kernel use it, or it is a reserve for them".to_owned(),
    }
}

/// The summary when the daemon has ended. Its last line is the verdict; with `--quiet`, it is the only one.
pub fn summary(summary: &WatchSummary, verbosity: Verbosity) -> String {
    let mut text = if verbosity.is_quiet() { String::new() } else { details(summary, verbosity) };
    if summary.facts_not_stored > 0 {
        let _ = writeln!(text, "store       {} facts could NOT be written", summary.facts_not_stored);
    }
    let state = &summary.state;
    let verdict = match (summary.verdict.exit_code(), &summary.incomplete) {
        (0, _) => "PASS".to_owned(),
        (1, _) => format!("FAIL: {} bad frames, {} emulated", state.bad_frames, state.emulated_frames),
        (_, why) => format!("INCOMPLETE: {}", why.as_deref().unwrap_or("unknown")),
    };
    let _ = writeln!(text, "{verdict}");
    text
}

fn details(summary: &WatchSummary, verbosity: Verbosity) -> String {
    let mut text = page(&summary.state, None);
    if summary.moved > 0 {
        let _ = writeln!(text, "moved       {} frames by the kernel while under test: not tested", summary.moved);
    }
    if summary.delayed_reads_skipped > 0 {
        let skipped = memory(summary.delayed_reads_skipped);
        let _ =
            writeln!(text, "delayed     read skipped for {skipped}: given back or stopped before the rest was over");
    }
    report::missed(&mut text, &summary.missed, verbosity);
    report::bad_frames(&mut text, &summary.bad_frames, verbosity);
    let _ = writeln!(text, "stopped     after {}; all memory is given back", seconds(summary.seconds));
    text
}

fn memory(frames: u64) -> Bytes {
    Bytes::new(frames * FRAME_BYTES)
}

#[expect(clippy::cast_precision_loss, reason = "a rate that is shown")]
fn rate(state: &DaemonState) -> f64 {
    state.test_rate * FRAME_BYTES as f64
}

fn seconds(seconds: f64) -> String {
    let whole = Duration::from_secs_f64(seconds.max(0.0)).as_secs();
    humantime::format_duration(Duration::from_secs(whole)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampart_diagnostic::daemon::FrameCounts;
    use rampart_diagnostic::sources::GuaranteeState;
    use rampart_memory::Timestamp;

    const GIB: fn(u64) -> Bytes = |n| Bytes::from_mib(n << 10);

    /// A daemon in its first sweep: 1 GiB of 24 is reached.
    fn young() -> DaemonState {
        let state = crate::inputs::daemon::tests::state(7, Timestamp::from_micros(1 << 50));
        let frames = FrameCounts { total: GIB(24).frames(), reached: GIB(1).frames(), fresh: GIB(1).frames() / 2 };
        DaemonState { sweeps: 0, claimed: GIB(1), frames, ..state }
    }

    #[test]
    fn a_young_daemon_says_of_what_its_share_is_and_how_much_free_memory_comes_next() {
        let text = coverage(&young(), Some(GIB(11)));
        let expected = [
            "coverage    1 GiB of 24 GiB reached so far, 4.1 % of this machine's memory; 512 MiB of that (50 %) have a \
             good test",
            "sweep       1 GiB of 12 GiB free memory claimed so far (8.3 %)",
            "not reached 23 GiB: up to 11 GiB of it is free and comes next in this sweep; programs and the kernel use \
             the rest",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_was_not_reached_is_said_to_be_in_use_only_after_a_whole_sweep() {
        let swept = DaemonState { sweeping: false, sweeps: 1, ..young() };
        assert!(rest_of(&swept, Some(GIB(11))).starts_with("programs and the kernel use it"));
        assert!(rest_of(&swept, None).starts_with("programs and the kernel use it"));
        assert_eq!(rest_of(&young(), None), "the first sweep had not ended");
        let by_module = DaemonState { guarantee: Some(GuaranteeState::default()), ..young() };
        assert!(rest_of(&by_module, Some(GIB(11))).starts_with("its turn comes"));
        let old = DaemonState { at: by_module.started.after(Duration::from_secs(1800)), ..by_module };
        assert_eq!(rest_of(&old, Some(GIB(11))), "it cannot be moved");
    }

    #[test]
    fn without_frame_numbers_tests_are_counted_and_no_share_is_made_up() {
        let state = DaemonState { frames: FrameCounts { reached: 0, fresh: 0, ..young().frames }, ..young() };
        let text = coverage(&DaemonState { sweeping: false, ..state }, Some(GIB(11)));
        assert_eq!(text, "coverage    36 KiB tested, repeated tests included; only root sees which frames\n");
    }
}
