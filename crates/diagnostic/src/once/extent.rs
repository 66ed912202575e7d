//! How much of the request was tested, and why the rest was not.
//!
//! **Problem.** A test of a small part of the memory that finds nothing looks like a test that finds nothing. **Idea.**
//! Every test has a request: the amount that the user named, or all memory that could be claimed at the start. The
//! tested memory is measured against it. **Why this way.** If the user named no amount, a hundredth may be missing:
//! programs come and go, and the test's own memory use is not known beforehand. A named amount must be tested
//! completely.

use rampart_memory::Bytes;
use serde::Serialize;

use crate::once::Stopped;
use crate::once::schedule::Goal;

/// The part of an unnamed request that must be tested, in percent.
const ENOUGH_PERCENT: u64 = 99;

/// The tested part of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Extent {
    /// Different frames tested completely at least once.
    pub tested: Bytes,
    /// The memory to be tested.
    pub request: Bytes,
    /// Whether the user named the amount (`--memory`); otherwise it is the memory that could be claimed at the start.
    pub named: bool,
    /// All memory that the kernel manages here.
    pub machine: Bytes,
}

impl Extent {
    /// The tested part of a goal.
    #[must_use]
    pub const fn new(tested: Bytes, goal: Goal, machine: Bytes) -> Self {
        Self { tested, request: goal.bytes(), named: matches!(goal, Goal::Exactly(_)), machine }
    }

    /// Whether enough was tested for a verdict.
    #[must_use]
    pub fn is_enough(&self) -> bool {
        let percent = if self.named { 100 } else { ENOUGH_PERCENT };
        u128::from(self.tested.get()) * 100 >= u128::from(self.request.get()) * u128::from(percent)
    }

    /// One line: `1.00 GiB tested, 100 % of the request, 4.3 % of this machine's memory`.
    #[must_use]
    pub fn line(&self) -> String {
        format!(
            "{} tested, {} % of the request, {} % of this machine's memory",
            self.tested,
            percent(self.tested, self.request),
            percent(self.tested, self.machine)
        )
    }
}

/// In percent, rounded down to a tenth: a part is never shown as 100, and something never as 0.
#[must_use]
pub fn percent(part: Bytes, whole: Bytes) -> String {
    let tenths = u128::from(part.get()) * 1000 / u128::from(whole.get().max(1));
    let tenths = tenths.min(1000);
    if tenths == 0 && part > Bytes::ZERO {
        return "less than 0.1".to_owned();
    }
    if tenths.is_multiple_of(10) { format!("{}", tenths / 10) } else { format!("{}.{}", tenths / 10, tenths % 10) }
}

/// The parts of the request that were not tested, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Frames that the kernel moved during their test, counted at each attempt.
    pub moved: u64,
    /// Frames whose number could be read only before or only after their test.
    pub unreadable: u64,
    /// Given back to programs before it was tested.
    pub given_back: Bytes,
    /// Refused by the kernel.
    pub refused: Bytes,
    /// Never came free.
    pub never_free: Bytes,
    /// Went offline during the test, as whole memory blocks.
    pub went_offline: Bytes,
}

/// Why a test is incomplete, if it is.
#[must_use]
pub fn shortfall(extent: &Extent, losses: &Losses, stopped: Option<Stopped>) -> Option<String> {
    match stopped {
        Some(Stopped::Asked) => return Some("stopped before its end".to_owned()),
        _ if extent.tested == Bytes::ZERO => {
            return Some("no memory could be tested: programs needed all of it".to_owned());
        }
        _ if extent.is_enough() => return None,
        Some(Stopped::TimeUp) => {
            return Some("the time was up in the first pass: give more time or less memory".to_owned());
        }
        None => {}
    }
    let bytes = |bytes: Bytes, why: &str| (bytes > Bytes::ZERO).then(|| format!("{bytes} {why}"));
    let frames = |frames: u64, why: &str| {
        let plural = if frames == 1 { "frame was" } else { "frames were" };
        (frames > 0).then(|| format!("{frames} {plural} {why}"))
    };
    let reasons = [
        bytes(losses.given_back, "went back to programs before they were tested"),
        bytes(losses.never_free, "were taken by programs before they could be claimed"),
        bytes(losses.refused, "were refused by the kernel"),
        bytes(losses.went_offline, "went offline, as memory blocks, while the test ran"),
        frames(losses.moved, "moved by the kernel while under test"),
        frames(losses.unreadable, "tested, but the numbers could not be read"),
    ];
    let reasons: Vec<_> = reasons.into_iter().flatten().collect();
    let why = if reasons.is_empty() { "some frames were claimed twice".to_owned() } else { reasons.join(", ") };
    Some(format!("{why}; test again when programs need less memory"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: fn(u64) -> Bytes = Bytes::from_mib;

    fn free(tested_mib: u64) -> Extent {
        Extent::new(MIB(tested_mib), Goal::Free(MIB(1000)), MIB(4000))
    }

    #[test]
    fn a_hundredth_may_be_missing_of_what_was_free_and_nothing_of_what_was_named() {
        let none = Losses::default();
        assert_eq!(shortfall(&free(1000), &none, None), None);
        assert_eq!(shortfall(&free(990), &none, None), None);
        assert!(shortfall(&free(989), &none, None).is_some());
        let named = |mib| Extent::new(MIB(mib), Goal::Exactly(MIB(1000)), MIB(4000));
        assert_eq!(shortfall(&named(1000), &none, None), None);
        assert!(shortfall(&named(999), &none, None).is_some());
    }

    #[test]
    fn every_way_to_fall_short_makes_a_test_incomplete_and_is_named() {
        for (losses, why) in [
            (Losses { moved: 7, ..Losses::default() }, "7 frames were moved by the kernel while under test"),
            (Losses { unreadable: 1, ..Losses::default() }, "1 frame was tested, but the numbers could not be read"),
            (Losses { given_back: MIB(70), ..Losses::default() }, "70 MiB went back to programs before"),
            (Losses { refused: MIB(70), ..Losses::default() }, "70 MiB were refused by the kernel"),
            (Losses { never_free: MIB(70), ..Losses::default() }, "70 MiB were taken by programs before"),
            (Losses { went_offline: MIB(128), ..Losses::default() }, "128 MiB went offline, as memory blocks"),
            (Losses { moved: 7, refused: MIB(2), ..Losses::default() }, "2 MiB were refused by the kernel, 7 frames"),
            (Losses::default(), "some frames were claimed twice"),
        ] {
            let message = shortfall(&free(930), &losses, None).expect("70 MiB are missing");
            assert!(message.contains(why), "{message}");
            assert_eq!(shortfall(&free(990), &losses, None), None, "a loss that was made good is not a shortfall");
        }
        assert!(
            shortfall(&free(930), &Losses::default(), Some(Stopped::TimeUp)).is_some_and(|why| why.contains("time"))
        );
        assert!(shortfall(&free(0), &Losses::default(), None).is_some_and(|why| why.contains("no memory")));
    }

    #[test]
    fn time_that_is_up_after_the_first_pass_is_no_shortfall_and_a_stop_always_is() {
        assert_eq!(shortfall(&free(1000), &Losses::default(), Some(Stopped::TimeUp)), None);
        assert!(shortfall(&free(1000), &Losses::default(), Some(Stopped::Asked)).is_some());
    }

    #[test]
    fn what_is_not_all_is_never_shown_as_all() {
        let line = |mib| free(mib).line();
        assert_eq!(line(1000), "1000 MiB tested, 100 % of the request, 25 % of this machine's memory");
        assert_eq!(line(999), "999 MiB tested, 99.9 % of the request, 24.9 % of this machine's memory");
        let little = Extent::new(MIB(8), Goal::Exactly(MIB(8)), MIB(24_000));
        assert_eq!(little.line(), "8 MiB tested, 100 % of the request, less than 0.1 % of this machine's memory");
        assert_eq!(percent(Bytes::ZERO, MIB(8)), "0");
        let more = Extent::new(MIB(1004), Goal::Free(MIB(1000)), MIB(4000));
        assert!(more.line().contains(" 100 % of the request, 25.1 % "), "{}", more.line());
    }
}
