//! Text for people and JSON for programs: printing, common formats, and the report of a test.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use rampart_diagnostic::once::report::{BadFrame, KernelErrors, Report, TestVerdict};
use rampart_memory::fault_map::{Cause, FrameUse, MapOrigin, Retirement};
use rampart_memory::{Bytes, FRAME_BYTES, Timestamp};
use rampart_scale::Time;
use serde::Serialize;

use crate::error::Error;

/// The most bad frames that the text lists; the JSON has all.
const FRAMES_SHOWN: usize = 20;

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

/// The report of a test for people. Its last line is the verdict.
pub fn report(report: &Report) -> String {
    let mut text = String::new();
    let memory = Bytes::new(report.frames_tested * FRAME_BYTES);
    let unit = if report.frames_known { "frames" } else { "pages (frame numbers unknown: needs root)" };
    let passes = if report.test.passes == 1 { "1 pass".to_owned() } else { format!("{} passes", report.test.passes) };
    let _ = writeln!(
        text,
        "tested      {} {unit}, {memory}, {passes} in {:.1} s",
        count(report.frames_tested),
        report.seconds
    );
    for (i, untested) in report.not_tested.iter().enumerate() {
        let label = if i == 0 { "not tested" } else { "" };
        let _ = writeln!(text, "{label:<11} {} {}", Bytes::new(untested.frames * FRAME_BYTES), untested.why);
    }
    if let Some(chosen) = report.chosen.as_ref().filter(|chosen| chosen.moved > 0) {
        let _ = writeln!(text, "moved       the content of {} frames, which programs used", count(chosen.moved));
    }
    for zone in &report.zones {
        let (label, what) = if zone.only_programs {
            ("user pool", "only programs get")
        } else {
            ("kernel core", "the kernel gets too")
        };
        let _ = writeln!(text, "{label:<11} {} of {} in memory blocks that {what}: tested", zone.tested, zone.online);
    }
    if let Some(skipped) = report.delayed_read.filter(|read| read.frames_skipped > 0) {
        let memory = Bytes::new(skipped.frames_skipped * FRAME_BYTES);
        let _ = writeln!(
            text,
            "delayed     read skipped for {memory}: given back or stopped before the rest was over; DRF not tested there"
        );
    }
    if let Some(line) = speed(report) {
        let _ = writeln!(text, "speed       {line}");
    }
    let _ = writeln!(text, "coverage    {}", coverage(report));
    for condition in conditions(report) {
        let _ = writeln!(text, "            {condition}");
    }
    let _ = writeln!(text, "kernel      {}", kernel_errors(&report.kernel_errors));
    emulation(&mut text, report);
    bad_frames(&mut text, &report.bad_frames);
    if report.facts_not_stored > 0 {
        let _ = writeln!(text, "store       {} facts could not be written", report.facts_not_stored);
    }
    let _ = writeln!(text, "{}", verdict(report));
    text
}

/// The verdict of a test in one line.
pub fn verdict(report: &Report) -> String {
    let emulated = report.bad_frames.iter().filter(|bad| bad.origin == MapOrigin::Emulated).count();
    let real = report.bad_frames.len() - emulated;
    let plural = |n: usize| if n == 1 { "" } else { "s" };
    let and = report.incomplete.as_ref().map_or_else(String::new, |why| format!("; INCOMPLETE: {why}"));
    let extent = report.extent.line();
    match report.verdict {
        TestVerdict::Pass => format!("PASS: {extent}"),
        TestVerdict::Incomplete => {
            format!("INCOMPLETE: {}; {extent}", report.incomplete.as_deref().unwrap_or("unknown"))
        }
        TestVerdict::Fail if emulated == 0 => format!("FAIL: {real} bad frame{}{and}; {extent}", plural(real)),
        TestVerdict::Fail if real == 0 => {
            format!("FAIL: {emulated} bad frame{}, all emulated{and}; {extent}", plural(emulated))
        }
        TestVerdict::Fail => {
            format!("FAIL: {} bad frames, {real} REAL and {emulated} emulated{and}; {extent}", report.bad_frames.len())
        }
    }
}

fn speed(report: &Report) -> Option<String> {
    let limit = report.limit?;
    let fraction = report.fraction_of_limit?;
    let gb = |rate: f64| rate / 1e9;
    Some(format!(
        "{:.2} GB/s of memory tested, {:.0} % of this machine's limit for this test ({:.2}; write {:.1}, read {:.1} GB/s)",
        gb(report.bytes_per_second),
        100.0 * fraction,
        gb(limit.of_this_test),
        gb(limit.write),
        gb(limit.read)
    ))
}

/// The kinds of faults that the text shows; the JSON has all.
const KINDS_SHOWN: [&str; 8] = ["SAF", "TF", "AF", "SOF", "DRF", "CFin", "CFid", "CFst"];

fn coverage(report: &Report) -> String {
    let scope = |scope: &str| {
        let kinds = report.coverage.iter().filter(|kind| kind.scope == scope && KINDS_SHOWN.contains(&&*kind.fault));
        kinds.map(|kind| format!("{} {:.0} %", kind.fault, kind.percent)).collect::<Vec<_>>().join(", ")
    };
    let within = scope("within-line");
    let within = if within.is_empty() { String::new() } else { format!("; inside a line: {within}") };
    format!("{}{within}", scope("between-lines"))
}

/// The conditions of the coverage, or how to find more: a line for each kind that is not found completely.
fn conditions(report: &Report) -> impl Iterator<Item = String> {
    let shown = report.coverage.iter().filter(|kind| kind.scope == "between-lines" && kind.percent < 100.0);
    let shown = shown.filter(|kind| KINDS_SHOWN.contains(&&*kind.fault));
    shown.filter_map(|kind| kind.note.map(|note| format!("{}: {note}", kind.fault)))
}

fn kernel_errors(errors: &KernelErrors) -> String {
    match errors {
        KernelErrors::Counted { corrected, uncorrected } => {
            format!("{corrected} corrected and {uncorrected} uncorrected errors logged during the test")
        }
        KernelErrors::Absent(why) => format!("error counts absent: {why}"),
    }
}

fn emulation(text: &mut String, report: &Report) {
    let Some(emulation) = &report.emulation else { return };
    let _ = writeln!(
        text,
        "emulated    {} faults injected, {} found; the test guarantees to find {} of them, {} missed",
        emulation.injected,
        emulation.found,
        emulation.guaranteed,
        emulation.missed.len()
    );
    for missed in emulation.missed.iter().take(FRAMES_SHOWN) {
        let _ = writeln!(text, "            MISSED: {missed}");
    }
}

fn bad_frames(text: &mut String, bad: &[BadFrame]) {
    for frame in bad.iter().take(FRAMES_SHOWN) {
        let _ = writeln!(text, "bad         {}", bad_frame(frame));
    }
    if bad.len() > FRAMES_SHOWN {
        let _ = writeln!(text, "            and {} more (--json lists all)", bad.len() - FRAMES_SHOWN);
    }
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
