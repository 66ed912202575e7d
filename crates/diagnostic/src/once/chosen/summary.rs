//! Makes the report of a test of chosen frames.

use rampart_linux::FrameClass;
use rampart_memory::{Bytes, FRAME_BYTES, FrameRange, Timestamp};

use super::schedule::LARGEST_BYTES;
use super::shared::{ChosenContext, ChosenSums};
use crate::machine::KernelErrors;
use crate::once::Stopped;
use crate::once::extent::Extent;
use crate::once::report::{ChosenFrames, DelayedRead, NotTested, Report, SCHEMA, TestRan, TestVerdict};
use crate::once::summary::{Found, coverage, limits, test_in_blocks};
use crate::sources::step::StepHold;
use crate::testing::publishing::lock;

/// Makes the report of a test that has ended, and writes its end to the store.
pub fn summarize(
    shared: &ChosenContext<'_>,
    ranges: &[FrameRange],
    started: Timestamp,
    kernel_errors: KernelErrors,
) -> Report {
    shared.publish();
    let sums = lock(&shared.sums);
    let test = &shared.test;
    let bad_frames = lock(&shared.published.findings).bad_frames();
    let plan = test.request.plan(1);
    let frames_tested = sums.frames.len();
    let tested = Bytes::new(frames_tested * FRAME_BYTES);
    let extent = Extent { tested, request: test.asked_for, named: test.choice.names_all(), machine: test.total };
    let incomplete = shortfall(&extent, shared.stopped());
    let verdict = TestVerdict::of(bad_frames.len(), incomplete.as_ref());
    let limit = limits(&sums.limits, &plan);
    let bytes_per_second = sums.rate(test.cpus.len());
    let found = Found { verdict: &verdict, incomplete: incomplete.clone(), bad: &bad_frames, frames_tested };
    let end = found.end(test.machine.clock.now(), bytes_per_second);
    Report {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION"),
        verdict,
        incomplete,
        bad_frames,
        extent,
        zones: Vec::new(),
        chosen: Some(ChosenFrames {
            ranges: ranges.to_vec(),
            dimm: test.choice.dimm.clone(),
            used: test.choice.used,
            moved: sums.moved,
            lost: sums.lost,
        }),
        frames_tested,
        frames_known: true,
        not_tested: not_tested(shared, ranges, &sums),
        // A piece is tested only when its delayed read is done.
        delayed_read: (plan.rests() > 0)
            .then_some(DelayedRead { delay_seconds: test.request.retention.as_secs_f64(), frames_skipped: 0 }),
        bytes_per_second,
        fraction_of_limit: limit.filter(|_| sums.bytes > 0).map(|limit| bytes_per_second / limit.of_this_test),
        limit,
        test: TestRan {
            passes: shared.schedule().pass(),
            threads: test.cpus.len(),
            pinning: StepHold::Claimed.to_string(),
            ..test_in_blocks(test.request, &plan, &test.march, LARGEST_BYTES)
        },
        coverage: coverage(&plan),
        kernel_errors,
        emulation: None,
        facts_not_stored: lock(&shared.published.recorder).finish(end),
        started,
        seconds: shared.elapsed().as_secs_f64(),
        own_bytes: test.machine.used_memory(),
    }
}

/// Why a test is incomplete, if it is.
fn shortfall(extent: &Extent, stopped: Option<Stopped>) -> Option<String> {
    match stopped {
        Some(Stopped::Asked) => Some("stopped before its end".to_owned()),
        _ if extent.is_enough() && extent.tested > Bytes::ZERO => None,
        Some(Stopped::TimeUp) => Some("the time was up in the first pass: give more time or fewer frames".to_owned()),
        None => {
            let missing = extent.request.saturating_sub(extent.tested);
            Some(format!("the kernel did not give {missing} of what was asked for: see what was not tested, and why"))
        }
    }
}

/// The chosen frames that were not tested, by their present use.
fn not_tested(shared: &ChosenContext<'_>, ranges: &[FrameRange], sums: &ChosenSums) -> Vec<NotTested> {
    let chosen = |frame| ranges.iter().any(|range| range.contains(frame));
    let Some(classes) = shared.test.machine.census(|frame| chosen(frame) && !sums.frames.contains(frame)) else {
        return Vec::new();
    };
    let mut list: Vec<_> = classes
        .into_iter()
        .map(|(class, frames)| NotTested { why: why(class, shared.test.choice.used), frames })
        .collect();
    if sums.lost > 0 {
        let why = "taken back by the kernel before their test ended, counted at each attempt".to_owned();
        list.push(NotTested { why, frames: sums.lost });
    }
    list
}

fn why(class: FrameClass, used: bool) -> String {
    match class {
        FrameClass::Free => "free now: in use or on its way when it was tried, or in reserve".to_owned(),
        FrameClass::Anonymous | FrameClass::File if used => {
            format!("in use, not moved: {class}, pinned or beside memory in the same 2 MiB that cannot be moved")
        }
        other => format!("in use: {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_complete_if_what_was_asked_for_was_tested() {
        let mib = Bytes::from_mib;
        let extent = |tested, named| Extent { tested: mib(tested), request: mib(1000), named, machine: mib(4000) };
        assert_eq!(shortfall(&extent(990, false), None), None);
        assert_eq!(shortfall(&extent(1000, true), Some(Stopped::TimeUp)), None);
        let missing = shortfall(&extent(999, true), None).unwrap();
        assert!(missing.contains("did not give 1 MiB of what was asked for"), "{missing}");
        assert!(shortfall(&extent(989, false), None).is_some());
        assert!(shortfall(&extent(1000, true), Some(Stopped::Asked)).is_some());
        let nothing = Extent { tested: mib(0), request: mib(0), named: false, machine: mib(4000) };
        assert!(shortfall(&nothing, None).is_some(), "a test of nothing is no test");
    }

    #[test]
    fn the_use_of_a_frame_says_why_it_was_not_tested() {
        assert!(why(FrameClass::Free, true).starts_with("free now"));
        assert!(why(FrameClass::File, true).starts_with("in use, not moved: files"));
        assert_eq!(why(FrameClass::Anonymous, false), "in use: memory of programs");
        assert!(why(FrameClass::Slab, true).starts_with("in use: objects of the kernel"));
    }
}
