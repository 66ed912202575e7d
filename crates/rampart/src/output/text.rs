//! Text for people and JSON for programs: printing, and common formats.

use std::io::{self, Write as _};

use rampart_diagnostic::once::report::BadFrame;
use rampart_memory::Timestamp;
use rampart_memory::fault_map::{Cause, Evidence, FrameUse, MapOrigin, Retirement};
use rampart_scale::Time;
use serde::Serialize;

use crate::error::Error;

/// Prints to standard output.
///
/// # Errors
/// [`Error::OutputClosed`] if the reader has closed it, which is not a failure; [`Error::Output`] for other errors.
pub fn print(text: &str) -> Result<(), Error> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Error::OutputClosed),
        Err(error) => Err(Error::Output(error)),
        Ok(()) => Ok(()),
    }
}

/// Prints a line to standard error with one write. Ignores errors, since nobody may read it.
pub fn print_error(line: std::fmt::Arguments<'_>) {
    let _closed = io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Prints one JSON document.
pub fn print_json(value: &impl Serialize) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(value).expect("reports are plain data");
    print(&format!("{text}\n"))
}

/// Prints one JSON document on one line.
pub fn print_json_line(value: &impl Serialize) -> Result<(), Error> {
    let text = serde_json::to_string(value).expect("reports are plain data");
    print(&format!("{text}\n"))
}

/// A time in UTC, to the second.
pub fn moment(at: Timestamp) -> String {
    let micros = i64::try_from(at.micros()).unwrap_or(i64::MAX);
    jiff::Timestamp::from_microsecond(micros).map_or_else(|_| "?".to_owned(), |t| format!("{t:.0}"))
}

/// A number with commas between groups of three digits.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A number to the nearest whole one, with commas; 0 if negative.
pub fn whole(number: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of a float saturates")]
    count(number.round() as u64)
}

/// A count and its noun, with the ending `more` for the plural.
fn plural(number: u64, one: &str, more: &str) -> String {
    format!("{} {one}{}", count(number), if number == 1 { "" } else { more })
}

/// A bad frame in one line, with the result of its retirement.
pub fn bad_frame(bad: &BadFrame) -> String {
    let retirement = match (&bad.retirement, bad.origin) {
        (_, MapOrigin::Emulated) => String::new(),
        (Retirement::Pending, _) => "; NOT retired".to_owned(),
        (Retirement::Offlined, _) => "; retired".to_owned(),
        (Retirement::Refused(why), _) => format!("; NOT retired: {why}"),
    };
    format!("{}{retirement}", evidence(bad))
}

/// A frame of the map in one line, with its present state.
pub fn known_frame(bad: &BadFrame, now: FrameUse) -> String {
    let now = match (now, &bad.retirement) {
        _ if bad.origin == MapOrigin::Emulated => return evidence(bad),
        (FrameUse::Retired, _) => "retired now".to_owned(),
        (FrameUse::Reserved, _) => "out of use: reserved at boot".to_owned(),
        (FrameUse::BeyondMemory, _) => "out of use: beyond this machine's memory".to_owned(),
        (FrameUse::Offline, _) => "out of use: its memory is offline".to_owned(),
        (FrameUse::InUse, Retirement::Refused(why)) => format!("NOT retired: in use; {why}"),
        (FrameUse::InUse, _) => "NOT retired: in use; `rampart map restore` retires it".to_owned(),
        (FrameUse::Unknown, _) => "whether it is retired now is unknown: needs root".to_owned(),
    };
    format!("{}; {now}", evidence(bad))
}

/// A mismatch in one line, with all that was kept of it.
pub fn mismatch(seen: &Evidence) -> String {
    let bits: Vec<_> = seen.bits().iter().map(|bit| bit.index().to_string()).collect();
    let again = if seen.reread == seen.expected { "right when read again" } else { "wrong again when read again" };
    format!(
        "{} line {} bit {}: {again}, element {} of {}, background {}",
        moment(seen.at),
        seen.line,
        bits.join(", "),
        seen.element,
        seen.test,
        seen.background
    )
}

/// The frame, and the evidence against it.
fn evidence(bad: &BadFrame) -> String {
    let place = match (bad.frame, bad.address) {
        (Some(frame), Some(address)) => format!("frame {frame} (address {address:#x})"),
        _ => format!("page {:#x} of this process (frame unknown)", bad.page.unwrap_or_default()),
    };
    let first = bad.evidence.first().map_or_else(String::new, |seen| {
        let bits: Vec<_> = seen.bits().iter().take(4).map(|bit| bit.index().to_string()).collect();
        let more = if seen.bits().count() > 4 { ", …" } else { "" };
        let again = if seen.reread == seen.expected { "right when read again" } else { "wrong again when read again" };
        format!(
            ", line {} bit {}{more}: {again} (element {} of the test, background {})",
            seen.line,
            bits.join(", "),
            seen.element,
            seen.background
        )
    });
    let origin = if bad.origin == MapOrigin::Emulated { "emulated, " } else { "" };
    let why = match (bad.mismatches, bad.cause) {
        (0, Cause::Operator) => "put on the map by hand".to_owned(),
        (0, Cause::Guard) => "a page of a guarded program was beyond correction".to_owned(),
        (0, Cause::Hardware) => "the hardware reported an error that it could not correct".to_owned(),
        _ => format!(
            "{} in {}{first}",
            plural(bad.mismatches, "mismatch", "es"),
            plural(bad.lines.len() as u64, "line", "s")
        ),
    };
    format!("{place}: {origin}{why}")
}

/// A duration, which may be too long for [`Time`].
pub fn duration(seconds: f64) -> String {
    Time::checked_secs_f64(seconds).map_or_else(|| format!("{:.1} days", seconds / 86_400.0), |time| time.to_string())
}

/// A share in percent, with enough digits.
pub fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    match percent.abs() {
        size if size.is_infinite() => "all its time".to_owned(),
        size if size < 0.0005 => "0 %".to_owned(),
        size if size < 0.1 => format!("{percent:.3} %"),
        size if size < 100.0 => format!("{percent:.1} %"),
        _ => format!("{percent:.0} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_time_is_not_cut_off() {
        assert_eq!(duration(1.5), "1.500 s");
        assert_eq!(duration(86_400.0 * 913.0), "913.0 days");
    }

    #[test]
    fn digits_are_grouped() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn moments_are_shown_in_utc() {
        assert_eq!(moment(Timestamp::from_micros(0)), "1970-01-01T00:00:00Z");
    }
}
