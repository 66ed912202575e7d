//! The report of `rampart banks record`.

use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::ExitStatus;

use rampart_banks::RecordedCounts;
use rampart_linux::FeedCounts;
use rampart_memory::{Bytes, FRAME_BYTES};
use serde::Serialize;
use serde_json::{Value, json};

use crate::output::text::{count, print_error};
use crate::process::program::describe_end;

/// What ended a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, displaydoc::Display)]
#[serde(rename_all = "snake_case")]
pub enum RecordingEnd {
    /// until the program ended
    Program,
    /// until a signal came; the program went on to its own end
    Signal,
    /// until the time was over; the program went on to its own end
    Time,
}

/// What was recorded.
pub struct RecordReport {
    /// The trace.
    pub file: PathBuf,
    /// Its length.
    pub bytes: u64,
    /// How long it took.
    pub seconds: f64,
    /// What ended it.
    pub ended: RecordingEnd,
    /// What is in it.
    pub trace: RecordedCounts,
    /// What is not.
    pub missing: FeedCounts,
    /// The program's end.
    pub status: ExitStatus,
}

impl RecordReport {
    /// Whether the trace holds every event.
    pub const fn is_whole(&self) -> bool {
        self.missing.lost == 0 && self.missing.unreadable == 0 && self.trace.beyond == 0
    }

    /// Prints the report on standard error, as standard output is the program's.
    pub fn print(&self, json: bool) {
        if json {
            print_error(format_args!("{:#}", self.document()));
        } else {
            self.lines().into_iter().for_each(|line| print_error(format_args!("rampart: {line}")));
        }
    }

    fn lines(&self) -> Vec<String> {
        let (trace, size) = (&self.trace, Bytes::new(self.bytes));
        let by_migratetype = trace.allocated;
        let mut lines = vec![
            format!("{} events in {}, {size}", count(trace.events()), self.file.display()),
            format!("{:.1} s, {}; the program: {}", self.seconds, self.ended, describe_end(self.status)),
            format!("in use      {} in {} blocks when it began", self.memory_in_use(), count(trace.in_use.total())),
            format!(
                "allocated   {} blocks: {} unmovable, {} movable, {} reclaimable",
                count(by_migratetype.total()),
                count(by_migratetype.unmovable),
                count(by_migratetype.movable),
                count(by_migratetype.reclaimable)
            ),
            format!("freed       {} blocks", count(trace.freed)),
        ];
        lines.push(if self.is_whole() {
            "lost        nothing".to_owned()
        } else {
            format!(
                "the trace is not whole: the kernel lost {} events, {} could not be read, {} are of frames above 2^36; \
                 against losses, give a larger --buffer",
                count(self.missing.lost),
                count(self.missing.unreadable),
                count(trace.beyond)
            )
        });
        lines
    }

    const fn memory_in_use(&self) -> Bytes {
        Bytes::new(self.trace.frames_in_use * FRAME_BYTES)
    }

    fn document(&self) -> Value {
        json!({
            "schema": "rampart.record/1",
            "file": self.file,
            "bytes": self.bytes,
            "seconds": self.seconds,
            "ended": self.ended,
            "program": { "exit_code": self.status.code(), "signal": self.status.signal() },
            "events": self.trace.events(),
            "memory_in_use": self.memory_in_use(),
            "in_use": self.trace.in_use,
            "allocated": self.trace.allocated,
            "freed": self.trace.freed,
            "failed": self.missing.failed,
            "late": self.trace.late,
            "whole": self.is_whole(),
            "lost": self.missing.lost,
            "unreadable": self.missing.unreadable,
            "beyond": self.trace.beyond,
        })
    }
}
