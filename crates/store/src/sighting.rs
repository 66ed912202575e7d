//! One test's findings on one frame, as a row; and the combined findings of all tests.
//!
//! **Problem.** The content of a file cannot be trusted: any column may hold any value. **Idea.** A row of plain
//! columns, [`FailureRow`], becomes a [`FailedFrame`] in one pure function only, which checks every column and is a
//! fuzz target. **Why columns.** This crate alone defines their names and types: names in other crates may change
//! without a change of the file format. Only the evidence, a short list without queries, is JSON.

use rampart_memory::fault_map::{Cause, Evidence, FailedFrame, MapOrigin, Retirement};
use rampart_memory::{Frame, LINES_PER_FRAME, Timestamp};
use rusqlite::{Connection, Row, params};

use crate::Malformed;
use crate::column::{column, integer, json, moment, natural, word};
use crate::fact::Fact;

/// A bad frame as columns, unchecked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureRow {
    /// Frame number.
    pub frame: i64,
    /// `march-test` or `operator`.
    pub cause: String,
    /// The mask of bad lines, one bit per line.
    pub lines: i64,
    /// Microseconds since the epoch.
    pub first_seen: i64,
    /// Microseconds since the epoch.
    pub last_seen: i64,
    /// The number of mismatches.
    pub mismatches: i64,
    /// A JSON list.
    pub evidence: String,
    /// A JSON object.
    pub retirement: String,
}

impl FailureRow {
    /// Makes the columns of a bad frame.
    ///
    /// Panics if the frame has more than [`FailedFrame::EVIDENCE_KEPT`] mismatches as evidence, or one in a line that
    /// no frame has: no `FaultMap` makes such a frame, and it could not be read again.
    #[must_use]
    pub fn encode(failed: &FailedFrame) -> Self {
        assert!(failed.evidence.len() <= FailedFrame::EVIDENCE_KEPT, "evidence is bounded");
        assert!(failed.evidence.iter().all(in_a_frame), "evidence lies in lines of a frame");
        assert!(failed.first_seen <= failed.last_seen, "first seen before last seen");
        Self {
            frame: integer(failed.frame.number()),
            cause: cause_word(failed.cause).to_owned(),
            lines: failed.lines.cast_signed(),
            first_seen: integer(failed.first_seen.micros()),
            last_seen: integer(failed.last_seen.micros()),
            mismatches: integer(failed.mismatches),
            evidence: serde_json::to_string(&failed.evidence).expect("evidence is plain data"),
            retirement: retirement_text(&failed.retirement),
        }
    }

    /// Makes the bad frame that the columns describe.
    ///
    /// # Errors
    /// Names the first column with a value that [`FailureRow::encode`] never writes there.
    pub fn decode(&self) -> Result<FailedFrame, Malformed> {
        let frame = natural("frame", self.frame)?;
        let failed = FailedFrame {
            frame: Frame::new(frame).ok_or_else(|| Malformed("frame", frame.to_string()))?,
            cause: word("cause", &self.cause, CAUSES, cause_word)?,
            lines: self.lines.cast_unsigned(),
            first_seen: moment("first_seen", self.first_seen)?,
            last_seen: moment("last_seen", self.last_seen)?,
            mismatches: natural("mismatches", self.mismatches)?,
            evidence: json("evidence", &self.evidence)?,
            retirement: json("retirement", &self.retirement)?,
        };
        if failed.evidence.len() > FailedFrame::EVIDENCE_KEPT || !failed.evidence.iter().all(in_a_frame) {
            return Err(Malformed("evidence", "too many mismatches, or one in a line that no frame has".to_owned()));
        }
        if failed.first_seen > failed.last_seen {
            return Err(Malformed("last_seen", "a moment before first_seen".to_owned()));
        }
        Ok(failed)
    }
}

fn in_a_frame(evidence: &Evidence) -> bool {
    u64::from(evidence.line) < LINES_PER_FRAME
}

pub(crate) fn retirement_text(retirement: &Retirement) -> String {
    serde_json::to_string(retirement).expect("a retirement is plain data")
}

const CAUSES: [Cause; 4] = [Cause::MarchTest, Cause::Operator, Cause::Guard, Cause::Hardware];

const fn cause_word(cause: Cause) -> &'static str {
    match cause {
        Cause::MarchTest => "march-test",
        Cause::Operator => "operator",
        Cause::Guard => "guard",
        Cause::Hardware => "hardware",
    }
}

pub(crate) const fn origin_word(origin: MapOrigin) -> &'static str {
    match origin {
        MapOrigin::Real => "real",
        MapOrigin::Emulated => "emulated",
    }
}

/// The findings of one test, or of a person, on one frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sighting {
    pub origin: MapOrigin,
    /// The test's number; 0 if a person condemned the frame.
    pub test: i64,
    /// When a person declared the frame good again; the epoch: nobody did.
    pub forgotten: Timestamp,
    pub failed: FailedFrame,
}

impl Fact for Sighting {
    const TABLE: &'static str = "failure";
    const KEY: &'static [&'static str] = &["origin", "frame", "forgotten", "test"];

    fn decode(row: &Row<'_>) -> Result<Self, Malformed> {
        let text: String = column(row, "origin")?;
        let columns = FailureRow {
            frame: column(row, "frame")?,
            cause: column(row, "cause")?,
            lines: column(row, "lines")?,
            first_seen: column(row, "first_seen")?,
            last_seen: column(row, "last_seen")?,
            mismatches: column(row, "mismatches")?,
            evidence: column(row, "evidence")?,
            retirement: column(row, "retirement")?,
        };
        Ok(Self {
            origin: word("origin", &text, [MapOrigin::Real, MapOrigin::Emulated], origin_word)?,
            test: column(row, "test")?,
            forgotten: moment("forgotten", column(row, "forgotten")?)?,
            failed: columns.decode()?,
        })
    }

    fn write(&self, connection: &Connection) -> rusqlite::Result<()> {
        let row = FailureRow::encode(&self.failed);
        connection
            .prepare_cached("INSERT OR REPLACE INTO failure VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")?
            .execute(params![
                origin_word(self.origin),
                row.frame,
                integer(self.forgotten.micros()),
                self.test,
                row.cause,
                row.lines,
                row.first_seen,
                row.last_seen,
                row.mismatches,
                row.evidence,
                row.retirement
            ])
            .map(|_| ())
    }
}

/// Combines two sightings of a frame, the earlier test's first.
pub(crate) fn together(earlier: FailedFrame, later: FailedFrame) -> FailedFrame {
    assert_eq!(earlier.frame, later.frame, "sightings of one frame");
    let cause = if later.first_seen < earlier.first_seen { later.cause } else { earlier.cause };
    let evidence = earlier.evidence.into_iter().chain(later.evidence).take(FailedFrame::EVIDENCE_KEPT);
    FailedFrame {
        frame: earlier.frame,
        cause,
        lines: earlier.lines | later.lines,
        first_seen: earlier.first_seen.min(later.first_seen),
        last_seen: earlier.last_seen.max(later.last_seen),
        // Genuine counts never reach the end of the range; a forged store must not stop the test.
        mismatches: earlier.mismatches.saturating_add(later.mismatches).min(integer(u64::MAX).cast_unsigned()),
        evidence: evidence.collect(),
        retirement: later.retirement,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_causes_the_first_seen_counts_and_at_one_moment_the_earlier_test_s() {
        let seen = |cause, micros| FailedFrame {
            cause,
            ..FailedFrame::condemned(Frame::new(7).unwrap(), Timestamp::from_micros(micros))
        };
        let cause = |first, second| together(seen(Cause::Guard, first), seen(Cause::Hardware, second)).cause;
        assert_eq!([cause(3, 4), cause(3, 3), cause(4, 3)], [Cause::Guard, Cause::Guard, Cause::Hardware]);
    }

    #[test]
    fn a_line_that_two_tests_saw_is_bad() {
        let seen =
            |lines| FailedFrame { lines, ..FailedFrame::condemned(Frame::new(7).unwrap(), Timestamp::default()) };
        assert_eq!(together(seen(0b0110), seen(0b0011)).lines, 0b0111);
    }
}
