//! Progress on a terminal while a command runs. In a pipe, only bad frames are shown. `--quiet` shows none.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rampart_diagnostic::once::report::BadFrame;
use rampart_diagnostic::{TestObserver, TestProgress};
use rampart_memory::Bytes;

use crate::output::verbosity::{LiveFindings, Verbosity};
use crate::output::{colour, text};

/// Set for the whole process by `--quiet`.
static HIDDEN: AtomicBool = AtomicBool::new(false);

/// Shows no progress from now on (`--quiet`).
pub fn hide() {
    HIDDEN.store(true, Ordering::Relaxed);
}

/// Whether progress lines are shown: somebody watches them, and wants to.
pub fn is_shown() -> bool {
    std::io::stderr().is_terminal() && !HIDDEN.load(Ordering::Relaxed)
}

/// The progress of a test, in the last line of the terminal, and a line for each bad frame.
pub struct TestProgressLine {
    bar: ProgressBar,
    messages: MessageTarget,
    findings: LiveFindings,
}

/// Where messages of a test go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageTarget {
    /// Standard output, as the report.
    Output,
    /// The terminal, since standard output gets a JSON document.
    Terminal,
    /// Nowhere: the document contains them, and nobody watches; or nobody wants them.
    Nowhere,
}

impl TestProgressLine {
    /// A line that is shown only if standard error is a terminal. `json`: standard output gets only the document.
    pub fn new(json: bool, verbosity: Verbosity) -> Self {
        let bar = ProgressBar::new(0);
        let is_shown = is_shown();
        if !is_shown {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}").expect("a fixed template");
        bar.set_style(style);
        let messages = match (json, is_shown) {
            _ if verbosity.is_quiet() => MessageTarget::Nowhere,
            (false, _) => MessageTarget::Output,
            (true, true) => MessageTarget::Terminal,
            (true, false) => MessageTarget::Nowhere,
        };
        Self { bar, messages, findings: LiveFindings::new(verbosity) }
    }

    /// Removes the line.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

impl TestObserver for TestProgressLine {
    fn said(&self, text: &str) {
        // The bar is hidden while a line is printed. A closed output is noticed when the report is printed.
        self.bar.suspend(|| match self.messages {
            MessageTarget::Output => drop(text::print(&format!("{text}\n"))),
            MessageTarget::Terminal => eprintln!("{text}"),
            MessageTarget::Nowhere => {}
        });
    }

    fn warned(&self, text: &str) {
        self.bar.suspend(|| eprintln!("{}", colour::warning(text)));
    }

    fn bad_frame(&self, bad: &BadFrame) {
        if let Some(line) = self.findings.line(bad) {
            self.said(&line);
        }
    }

    fn progress(&self, seen: &TestProgress) {
        let (done, total, remaining) = match seen.deadline {
            Some(deadline) => (seen.elapsed, deadline, deadline.saturating_sub(seen.elapsed)),
            None => {
                let remaining = seen.remaining().unwrap_or_default();
                (seen.elapsed, seen.elapsed + remaining, remaining)
            }
        };
        self.bar.set_length(u64::try_from(total.as_millis()).unwrap_or(u64::MAX));
        self.bar.set_position(u64::try_from(done.as_millis()).unwrap_or(u64::MAX));
        self.bar.set_message(format!(
            "pass {}, {} of {}, {:.2} GB/s, {} bad, {} left",
            seen.pass,
            seen.done_in_pass,
            seen.total_in_pass,
            seen.bytes_per_second / 1e9,
            seen.bad_frames,
            humantime::format_duration(Duration::from_secs(remaining.as_secs()))
        ));
        self.bar.tick();
    }
}

/// The progress of work that is counted in steps, in the last line of the terminal.
pub struct StepProgress {
    bar: ProgressBar,
    /// Appended to each message.
    note: String,
}

impl StepProgress {
    /// A line that is shown only if standard error is a terminal.
    pub fn new() -> Self {
        Self::of("run", String::new())
    }

    /// As [`Self::new`], for memory blocks.
    pub fn of_blocks() -> Self {
        Self::of("block", String::new())
    }

    /// As [`Self::new`], for work that takes at most this memory.
    pub fn with_memory(memory: Bytes) -> Self {
        Self::of("run", format!(", up to {memory} of memory"))
    }

    fn of(step: &str, note: String) -> Self {
        let bar = ProgressBar::new(0);
        if !is_shown() {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        let template = format!("{{bar:30}} {step} {{pos}} of {{len}}{{msg}}");
        bar.set_style(ProgressStyle::with_template(&template).expect("a valid template"));
        Self { bar, note }
    }

    /// Shows that `done` of `all` steps are done.
    pub fn set(&self, done: usize, all: usize) {
        self.bar.set_length(all as u64);
        self.bar.set_position(done as u64);
        let left = remaining_time(self.bar.elapsed(), done, all);
        let left = left.map(|left| format!(", {} left", humantime::format_duration(left))).unwrap_or_default();
        self.bar.set_message(format!("{left}{}", self.note));
    }

    /// Removes the line.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// Work that lasts as long as it lasts, in the last line of the terminal.
pub struct WaitProgress(ProgressBar);

impl WaitProgress {
    /// A line that is shown only if standard error is a terminal. `what` is being done.
    pub fn new(what: String) -> Self {
        let bar = ProgressBar::new_spinner();
        if !is_shown() {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        bar.set_style(ProgressStyle::with_template("{spinner} {msg}, {elapsed}").expect("a valid template"));
        Self(bar.with_message(what))
    }

    /// Shows that the work goes on.
    pub fn tick(&self) {
        self.0.tick();
    }

    /// Removes the line.
    pub fn end(&self) {
        self.0.finish_and_clear();
    }
}

/// The time that the remaining steps take at the average speed so far, in whole seconds; `None` before the first step
/// is done.
fn remaining_time(elapsed: Duration, done: usize, all: usize) -> Option<Duration> {
    let nanos = elapsed.as_nanos().checked_mul(all.checked_sub(done)? as u128)?.checked_div(done as u128)?;
    u64::try_from(nanos / 1_000_000_000).ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_told_once_a_step_is_done() {
        let after = |done, all| remaining_time(Duration::from_millis(1500), done, all);
        assert_eq!(after(0, 9), None);
        assert_eq!(after(1, 9), Some(Duration::from_secs(12)));
        assert_eq!(after(9, 9), Some(Duration::ZERO));
        assert_eq!(after(9, 8), None);
    }
}
