//! The ages and bad frames that one run leaves to the next, and the summary of a run.

use std::time::Duration;

use rampart_memory::fault_map::MapOrigin;
use rampart_memory::{Bytes, FRAME_BYTES, Frame, TestLifetime, Tested, Timestamp};
use rampart_store::{Age, Store, TestEnd, TestEnding};

use super::shared::DaemonContext;
use super::{DaemonState, Observer, STATE_SCHEMA, WatchSummary};
use crate::sources::free_memory::Ages;
use crate::testing::publishing::lock;
use crate::testing::verdict::TestVerdict;

/// Reads the test ages that an earlier run stored.
///
/// Ages are measured by the machine's clock and stay valid after a reboot, because the result of a test does not depend
/// on the running software. Times in the future are ignored: the clock was wrong then, or is wrong now.
pub fn known_ages(store: &Store, now: Timestamp, observer: &dyn Observer) -> Ages {
    let kept = store.ages().unwrap_or_else(|error| {
        observer.warned(&format!("{error}; no frame counts as tested"));
        Vec::new()
    });
    let mut ages = Ages::new(now);
    for age in kept.into_iter().filter(|age| age.tested <= now) {
        age.frames.frames().for_each(|frame| ages.set(frame, Tested::at(age.tested)));
    }
    ages
}

/// Reads the frames with real errors from the store.
pub fn known_bad(store: &Store, observer: &dyn Observer) -> Vec<Frame> {
    match store.failures(MapOrigin::Real) {
        Ok(map) => map.iter().map(|failed| failed.frame).collect(),
        Err(error) => {
            observer.warned(&format!("{error}; bad frames known from before may be used"));
            Vec::new()
        }
    }
}

/// The ages as the store holds them: rounded down to a hundredth of the lifetime, so that runs are long.
pub fn ages_to_store(ages: &Ages, bound: TestLifetime) -> Vec<Age> {
    let grain = (bound.lifetime() / 100).max(Duration::from_millis(100));
    ages.runs(grain).into_iter().map(|(frames, tested)| Age { frames, tested }).collect()
}

/// Makes the summary of a run, and writes its end to the store.
pub fn summarize(shared: &DaemonContext<'_>, state: DaemonState) -> WatchSummary {
    let bad_frames = lock(&shared.published.findings).bad_frames();
    let incomplete = shortfall(&state);
    let verdict = TestVerdict::of(bad_frames.len(), incomplete.as_ref());
    let ended = end(&state, &verdict, incomplete.clone());
    let facts_not_stored = lock(&shared.published.recorder).finish(ended);
    let sums = lock(&shared.sums);
    WatchSummary {
        schema: STATE_SCHEMA,
        version: env!("CARGO_PKG_VERSION"),
        verdict,
        incomplete,
        bad_frames,
        moved: sums.moved,
        delayed_reads_skipped: sums.not_read_late,
        missed: sums.missed.clone(),
        pinning: sums.hold.map(|hold| hold.to_string()),
        facts_not_stored,
        seconds: state.at.since(state.started).as_secs_f64(),
        state,
    }
}

fn shortfall(state: &DaemonState) -> Option<String> {
    let tested = Bytes::new(state.tested * FRAME_BYTES);
    match (state.sweeps, state.tested) {
        (_, 0) => Some("no memory was tested".to_owned()),
        (0, _) => Some(format!("stopped in the first sweep, with {tested} tested")),
        _ => None,
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a rate")]
fn end(state: &DaemonState, verdict: &TestVerdict, shortfall: Option<String>) -> TestEnd {
    let seconds = state.at.since(state.started).as_secs_f64().max(1e-3);
    TestEnd {
        at: state.at,
        outcome: match verdict {
            TestVerdict::Pass => TestEnding::Pass,
            TestVerdict::Fail => TestEnding::Fail,
            TestVerdict::Incomplete => TestEnding::Incomplete,
        },
        shortfall,
        frames_tested: state.tested,
        bad_frames: state.bad_frames,
        emulated_frames: state.emulated_frames,
        bytes_per_second: ((state.tested * FRAME_BYTES) as f64 / seconds) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use rampart_memory::FrameRange;

    struct Silent;

    impl crate::testing::observer::TestObserver for Silent {
        fn said(&self, _: &str) {}
        fn warned(&self, _: &str) {}
        fn bad_frame(&self, _: &crate::testing::bad_frame::BadFrame) {}
        fn progress(&self, _: &crate::TestProgress) {}
    }

    impl Observer for Silent {
        fn happened(&self, _: Timestamp, _: &super::super::DaemonEvent) {}
        fn state(&self, _: &DaemonState) {}
        fn reload(&self) -> Option<super::super::DaemonSettings> {
            None
        }
    }

    #[test]
    fn ages_come_back_older_by_a_hundredth_of_the_lifetime_at_most_and_none_from_the_future() {
        let folder = tempfile::tempdir().unwrap();
        let now = Timestamp::from_micros(1 << 50);
        let ago = |seconds: u64| Timestamp::from_micros(now.micros() - seconds * 1_000_000);
        let bound = TestLifetime::new(Duration::from_secs(1000), Duration::from_secs(10)).unwrap();
        let mut ages = Ages::new(now);
        let frame = |number| Frame::new(number).unwrap();
        (0..600).for_each(|number| ages.set(frame(number), Tested::at(ago(number / 100))));
        let mut kept = ages_to_store(&ages, bound);
        let future = FrameRange::new(frame(9000), 5).unwrap();
        kept.push(Age { frames: future, tested: now.after(Duration::from_secs(1)) });
        assert!(kept.len() <= 3, "{kept:?}");

        let store = Store::open(&folder.path().join("r.db"), now).unwrap().store;
        let start = rampart_store::TestStart {
            at: now,
            notation: String::new(),
            fidelity: 1,
            sequences: Vec::new(),
            requested: None,
            injected: None,
        };
        let (mut writer, _) = rampart_store::FactWriter::begin(store, start);
        assert!(matches!(writer.keep_ages(&kept, now), rampart_store::Durability::Durable));
        drop(writer);
        let store = Store::open(&folder.path().join("r.db"), now).unwrap().store;
        let again = known_ages(&store, now, &Silent);
        for number in 0..600 {
            let (before, after) = (ages.get(frame(number)).unwrap(), again.get(frame(number)).unwrap());
            let (before, after) = (before.moment().unwrap(), after.moment().unwrap());
            assert!(after <= before && before.since(after) <= Duration::from_millis(10_200), "{before:?} {after:?}");
        }
        assert_eq!(again.get(frame(9000)), None);
    }
}
