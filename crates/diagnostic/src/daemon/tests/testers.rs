//! Testers and their threads.

use std::time::Instant;

use super::*;
use crate::daemon::tester::{may_begin, test_steps};

/// A machine may be busy.
const PATIENCE: Duration = Duration::from_mins(10);

/// Runs a tester like any program, and hands it the steps of the fixture, until the steps are as the test waits for.
fn run_a_tester(fixture: &Fixture, shared: &DaemonContext<'_>, is_done: impl Fn(&Steps, u64) -> bool) {
    let began = Instant::now();
    thread::scope(|scope| {
        let tester = scope.spawn(|| test_steps(shared, Tester(0)));
        loop {
            lock(&shared.diagnostic).tick(shared.clock.now());
            let waiting = lock(&shared.diagnostic).waiting();
            if is_done(&fixture.steps(), waiting) || tester.is_finished() || began.elapsed() > PATIENCE {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        shared.interruption.halt();
    });
}

fn with_steps(retention: Duration, count: u64) -> Fixture {
    let fixture = Fixture::new(WatchRequest { retention, ..plain() });
    fixture.steps().waiting = (0..count).map(|step| fixture.step(SMALLEST_CLAIM, 1000 * step)).collect();
    fixture
}

/// Once the tester has begun with the last step, the others are at rest, for an hour.
#[test]
fn while_a_step_rests_others_are_tested_and_at_the_end_all_come_back_without_their_delayed_reads() {
    let fixture = with_steps(Duration::from_hours(1), 4);
    fixture.with(|shared| {
        run_a_tester(&fixture, shared, |steps, waiting| steps.waiting.is_empty() && waiting == 0);
        let steps = fixture.steps();
        let good = steps.verdicts.iter().filter(|verdict| **verdict == BlockVerdict::Good).count() as u64;
        assert_eq!(steps.verdicts.len(), 4);
        assert!(good >= 3, "{:?}", steps.verdicts);
        let sums = lock(&shared.sums);
        assert_eq!((sums.frames, sums.not_read_late), (512 * good, 512 * good));
    });
}

#[test]
fn a_step_that_has_rested_is_read_again() {
    let fixture = with_steps(Duration::from_nanos(1), 3);
    fixture.with(|shared| {
        run_a_tester(&fixture, shared, |steps, _| steps.verdicts.len() == 3);
        assert_eq!(fixture.steps().verdicts, [BlockVerdict::Good, BlockVerdict::Good, BlockVerdict::Good]);
        let sums = lock(&shared.sums);
        assert_eq!((sums.frames, sums.not_read_late), (512 * 3, 0));
    });
}

#[test]
fn a_tester_begins_with_no_further_step_once_so_much_rests() {
    let begins = |resting: &[u64]| may_begin(resting.iter().map(|&mib| Bytes::from_mib(mib)), Bytes::from_mib(8));
    assert_eq!([begins(&[]), begins(&[4, 3]), begins(&[4, 4]), begins(&[9])], [true, true, false, false]);
}
