//! The report of a test for people. It fits on a screen, and its last line is the verdict.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use rampart_diagnostic::once::report::{BadFrame, KernelErrors, Report, TestVerdict};
use rampart_memory::fault_map::{MapOrigin, Retirement};
use rampart_memory::{Bytes, FRAME_BYTES};

use crate::output::text::{self, count};
use crate::output::verbosity::Verbosity;

/// The most frames of one kind that are named in a line.
const NAMED_IN_A_LINE: usize = 4;

/// The state of a frame that is bad only since a fault was injected.
const EMULATED: &str = "emulated";

/// The report of a test for people. Its last line is the verdict; with `--quiet`, it is the only one.
pub fn report(report: &Report, verbosity: Verbosity) -> String {
    let mut text = String::new();
    if !verbosity.is_quiet() {
        extent(&mut text, report);
        quality(&mut text, report, verbosity);
        emulation(&mut text, report, verbosity);
        bad_frames(&mut text, &report.bad_frames, verbosity);
    }
    if report.facts_not_stored > 0 {
        let _ = writeln!(text, "store       {} facts could NOT be written", report.facts_not_stored);
    }
    let _ = writeln!(text, "{}", verdict(report));
    text
}

/// How much was tested, and how much was not.
fn extent(text: &mut String, report: &Report) {
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
}

/// How fast and how thorough the test was.
fn quality(text: &mut String, report: &Report, verbosity: Verbosity) {
    if let Some(line) = speed(report) {
        let _ = writeln!(text, "speed       {line}");
    }
    let _ = writeln!(text, "coverage    {}", coverage(report, verbosity));
    for condition in conditions(report) {
        let _ = writeln!(text, "            {condition}");
    }
    let _ = writeln!(text, "kernel      {}", kernel_errors(&report.kernel_errors));
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
    let slower = if report.emulation.is_some() { "; emulating the faults slows it" } else { "" };
    Some(format!(
        "{} of memory tested, {:.0} % of this machine's limit for this test ({}; write {}, read {}){slower}",
        rate(report.bytes_per_second),
        100.0 * fraction,
        rate(limit.of_this_test),
        rate(limit.write),
        rate(limit.read)
    ))
}

/// Bytes per second, with at least two digits: a slow test is not one of 0.00 GB/s.
fn rate(bytes_per_second: f64) -> String {
    if bytes_per_second < 1e8 {
        format!("{:.1} MB/s", bytes_per_second / 1e6)
    } else {
        format!("{:.2} GB/s", bytes_per_second / 1e9)
    }
}

/// The kinds of faults that the text shows without `--verbose`; the JSON has all.
const KINDS_SHOWN: [&str; 8] = ["SAF", "TF", "AF", "SOF", "DRF", "CFin", "CFid", "CFst"];

fn coverage(report: &Report, verbosity: Verbosity) -> String {
    let is_shown = |fault: &str| verbosity.is_verbose() || KINDS_SHOWN.contains(&fault);
    let scope = |scope: &str| {
        let kinds = report.coverage.iter().filter(|kind| kind.scope == scope && is_shown(&kind.fault));
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

fn emulation(text: &mut String, report: &Report, verbosity: Verbosity) {
    let Some(emulation) = &report.emulation else { return };
    let _ = writeln!(
        text,
        "emulated    {} faults injected, {} found; the test guarantees to find {} of them, {} missed",
        emulation.injected,
        emulation.found,
        emulation.guaranteed,
        emulation.missed.len()
    );
    missed(text, &emulation.missed, verbosity);
}

/// Injected faults that the test had to find and did not.
pub fn missed(text: &mut String, missed: &[String], verbosity: Verbosity) {
    let shown = verbosity.shown(missed.len());
    for one in missed.iter().take(shown) {
        let _ = writeln!(text, "MISSED      {one}: guaranteed to be found but not found: a bug of Rampart");
    }
    if let Some(more) = more(missed.len() - shown) {
        let _ = writeln!(text, "            {more}");
    }
}

/// The bad frames: all with their evidence, or a line for each kind.
pub fn bad_frames(text: &mut String, bad: &[BadFrame], verbosity: Verbosity) {
    if verbosity.is_verbose() {
        bad.iter().for_each(|frame| text.push_str(&format!("bad         {}\n", text::bad_frame(frame))));
        return;
    }
    let mut kinds: BTreeMap<(bool, String), Vec<&BadFrame>> = BTreeMap::new();
    for frame in bad {
        kinds.entry((frame.origin == MapOrigin::Emulated, state(frame))).or_default().push(frame);
    }
    for ((_, state), frames) in &kinds {
        let _ = writeln!(text, "bad         {}", kind_line(state, frames));
    }
}

/// What became of a bad frame.
fn state(bad: &BadFrame) -> String {
    match (&bad.retirement, bad.origin) {
        (_, MapOrigin::Emulated) => EMULATED.to_owned(),
        (Retirement::Offlined, _) => "retired".to_owned(),
        (Retirement::Pending, _) => "NOT retired".to_owned(),
        (Retirement::Refused(why), _) => format!("NOT retired ({why})"),
    }
}

/// Frames with the same state in one line, which names the first ones.
fn kind_line(state: &str, frames: &[&BadFrame]) -> String {
    let named: Vec<String> = frames.iter().take(NAMED_IN_A_LINE).map(|bad| name(bad)).collect();
    let noun = if frames.iter().all(|bad| bad.frame.is_some()) { "frame" } else { "page" };
    let plural = if frames.len() == 1 { "" } else { "s" };
    let left_out = frames.len() - named.len();
    let command = match noun {
        "frame" if state == EMULATED => Some("rampart map show --emulated"),
        "frame" => Some("rampart map show"),
        _ => None,
    };
    let more = match command {
        Some(command) if left_out > 0 => format!(", … and {} more (`{command}` has all)", count(left_out as u64)),
        _ => more(left_out).map_or_else(String::new, |more| format!(", {more}")),
    };
    format!("{} {noun}{plural}, {state}: {}{more}", count(frames.len() as u64), named.join(", "))
}

fn name(bad: &BadFrame) -> String {
    bad.frame.map_or_else(|| format!("{:#x}", bad.page.unwrap_or_default()), |frame| frame.to_string())
}

/// How many findings are not printed, and where they are.
fn more(left_out: usize) -> Option<String> {
    (left_out > 0).then(|| format!("… and {} more (--verbose or --json: all)", count(left_out as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampart_memory::fault_map::FailedFrame;
    use rampart_memory::{Frame, Timestamp};

    fn bad(number: u64, origin: MapOrigin, retirement: Retirement) -> BadFrame {
        let frame = Frame::new(number).expect("it is small");
        BadFrame { retirement, ..BadFrame::of_frame(origin, &FailedFrame::condemned(frame, Timestamp::from_micros(7))) }
    }

    fn lines(bad: &[BadFrame], verbosity: Verbosity) -> Vec<String> {
        let mut text = String::new();
        bad_frames(&mut text, bad, verbosity);
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_hundred_bad_frames_take_a_line_for_each_kind_and_real_ones_come_first() {
        let refused = || Retirement::Refused("it is in use".to_owned());
        let mut all: Vec<_> = (0..100).map(|n| bad(n, MapOrigin::Emulated, Retirement::Pending)).collect();
        all.extend([bad(0x200, MapOrigin::Real, refused()), bad(0x300, MapOrigin::Real, Retirement::Offlined)]);
        all.push(bad(0x400, MapOrigin::Real, Retirement::Offlined));
        let expected = [
            "bad         1 frame, NOT retired (it is in use): 0x200",
            "bad         2 frames, retired: 0x300, 0x400",
            "bad         100 frames, emulated: 0x0, 0x1, 0x2, 0x3, … and 96 more (`rampart map show --emulated` has all)",
        ];
        assert_eq!(lines(&all, Verbosity::Normal), expected);
        assert_eq!(lines(&all, Verbosity::Verbose).len(), all.len());
    }

    #[test]
    fn pages_whose_frames_are_unknown_are_named_by_their_addresses() {
        let known = bad(7, MapOrigin::Real, Retirement::Pending);
        let page = BadFrame { frame: None, page: Some(0x7f00_0000), address: None, ..known };
        assert_eq!(
            lines(std::slice::from_ref(&page), Verbosity::Normal),
            ["bad         1 page, NOT retired: 0x7f000000"]
        );
        assert!(lines(&vec![page; 5], Verbosity::Normal)[0].ends_with(", … and 1 more (--verbose or --json: all)"));
    }

    #[test]
    fn a_slow_test_has_a_speed() {
        assert_eq!([2.8e6, 1.2e9].map(rate), ["2.8 MB/s", "1.20 GB/s"]);
    }
}
