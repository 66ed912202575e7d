//! What a person at a terminal sees while a test runs. In a pipe: nothing but what was found.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rampart_diagnostic::once::report::BadFrame;
use rampart_diagnostic::{TestObserver, TestProgress};
use rampart_memory::Bytes;

use crate::output::text;

/// A line at the bottom of the terminal, and a line for each bad frame.
pub struct Line {
    bar: ProgressBar,
    /// Where what is said goes.
    lines: Lines,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lines {
    /// With the report.
    Out,
    /// Beside the one document, for the person who waits for it.
    Terminal,
    /// Nowhere: all of it is in the document.
    Nowhere,
}

impl Line {
    /// Shown only if standard error is a terminal. `json`: standard output is kept for the one document.
    pub fn new(json: bool) -> Self {
        let bar = ProgressBar::new(0);
        let watched = std::io::stderr().is_terminal();
        if !watched {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}").expect("a fixed template");
        bar.set_style(style);
        let lines = match (json, watched) {
            (false, _) => Lines::Out,
            (true, true) => Lines::Terminal,
            (true, false) => Lines::Nowhere,
        };
        Self { bar, lines }
    }

    /// Takes the line away.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

impl TestObserver for Line {
    fn said(&self, text: &str) {
        // The bar stands aside for a line. A reader that went away is noticed when the report is printed.
        self.bar.suspend(|| match self.lines {
            Lines::Out => drop(text::print(&format!("{text}\n"))),
            Lines::Terminal => eprintln!("{text}"),
            Lines::Nowhere => {}
        });
    }

    fn warned(&self, text: &str) {
        self.bar.suspend(|| eprintln!("rampart: {text}"));
    }

    fn bad_frame(&self, bad: &BadFrame) {
        self.said(&format!("found       {}", text::bad_frame(bad)));
    }

    fn progress(&self, seen: &TestProgress) {
        let (done, total, left) = match seen.deadline {
            Some(deadline) => (seen.elapsed, deadline, deadline.saturating_sub(seen.elapsed)),
            None => {
                let left = seen.remaining().unwrap_or_default();
                (seen.elapsed, seen.elapsed + left, left)
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
            humantime::format_duration(Duration::from_secs(left.as_secs()))
        ));
        self.bar.tick();
    }
}

/// A line at the bottom of the terminal for work that is counted in steps.
pub struct Steps {
    bar: ProgressBar,
    /// What it takes besides time.
    beside: String,
}

impl Steps {
    /// Shown only if standard error is a terminal.
    pub fn new() -> Self {
        Self::showing(String::new())
    }

    /// As [`Self::new`], of work that takes so much memory at most: known before it begins.
    pub fn taking(memory: Bytes) -> Self {
        Self::showing(format!(", up to {memory} of memory"))
    }

    fn showing(beside: String) -> Self {
        let bar = ProgressBar::new(0);
        if !std::io::stderr().is_terminal() {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        bar.set_style(ProgressStyle::with_template("{bar:30} run {pos} of {len}{msg}").expect("a fixed template"));
        Self { bar, beside }
    }

    /// So many of so many are done.
    pub fn at(&self, done: usize, all: usize) {
        self.bar.set_length(all as u64);
        self.bar.set_position(done as u64);
        let left = left(self.bar.elapsed(), done, all);
        let left = left.map(|left| format!(", {} left", humantime::format_duration(left))).unwrap_or_default();
        self.bar.set_message(format!("{left}{}", self.beside));
    }

    /// Takes the line away.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// How long what is left takes if it goes on as it did, in whole seconds; nothing is known before the first step is
/// done.
fn left(elapsed: Duration, done: usize, all: usize) -> Option<Duration> {
    let nanos = elapsed.as_nanos().checked_mul(all.checked_sub(done)? as u128)?.checked_div(done as u128)?;
    u64::try_from(nanos / 1_000_000_000).ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_told_once_a_step_is_done() {
        let after = |done, all| left(Duration::from_millis(1500), done, all);
        assert_eq!(after(0, 9), None);
        assert_eq!(after(1, 9), Some(Duration::from_secs(12)));
        assert_eq!(after(9, 9), Some(Duration::ZERO));
        assert_eq!(after(9, 8), None);
    }
}
