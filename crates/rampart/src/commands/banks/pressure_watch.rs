//! Whether programs wait for memory, asked again and again.
//!
//! The kernel has only the sum of all waits since the boot. So each answer is about the time since the last reading,
//! and a reading serves for a while, as a share of a shorter time shows single waits.

use std::time::{Duration, Instant};

use rampart_linux::Roots;
use rampart_linux::memory_state::Pressure;

/// Programs that wait for memory for this share of the time are pressed.
const PRESSED: f64 = 0.1;

/// A share of less time than this shows single waits.
const INTERVAL: Duration = Duration::from_millis(40);

/// How long programs have waited for memory.
#[derive(Debug)]
pub struct PressureWatch {
    interval: Duration,
    last: Option<Reading>,
}

#[derive(Clone, Copy, Debug)]
struct Reading {
    at: Instant,
    /// How long programs have waited since the boot.
    waited: Duration,
    /// The share of the time before it for which they waited, if that is known.
    share: Option<f64>,
}

impl Default for PressureWatch {
    /// The shortest interval that shows more than single waits. It begins with the first question.
    fn default() -> Self {
        Self { interval: INTERVAL, last: None }
    }
}

impl PressureWatch {
    /// Begins with what the kernel says of the last ten seconds.
    pub fn begin(now: &Pressure, interval: Duration) -> Self {
        let share = Some(now.some.avg10 / 100.0);
        Self { interval, last: Some(Reading { at: Instant::now(), waited: now.some.total, share }) }
    }

    /// Whether programs waited for a tenth of the last interval.
    pub fn is_pressed(&mut self, roots: &Roots) -> bool {
        self.share(roots).is_some_and(|share| share > PRESSED)
    }

    /// The share of the last interval for which programs waited; `None` if it is not over or the kernel does not say.
    pub fn share(&mut self, roots: &Roots) -> Option<f64> {
        self.share_at(Instant::now(), || Some(Pressure::read(roots)?.some.total))
    }

    /// The larger of that share and of what the present interval will have at least: what programs waited in it
    /// already. `None` if the kernel does not say.
    pub fn share_at_least(&mut self, roots: &Roots) -> Option<f64> {
        let waited = Pressure::read(roots)?.some.total;
        Some(self.share_at_least_at(Instant::now(), waited))
    }

    fn share_at_least_at(&mut self, at: Instant, waited: Duration) -> f64 {
        let share = self.share_at(at, || Some(waited)).unwrap_or(0.0);
        let last = self.last.expect("it was just read");
        (waited.saturating_sub(last.waited).as_secs_f64() / self.interval.as_secs_f64()).min(1.0).max(share)
    }

    fn share_at(&mut self, at: Instant, waited: impl FnOnce() -> Option<Duration>) -> Option<f64> {
        if let Some(last) = self.last
            && at.duration_since(last.at) < self.interval
        {
            return last.share;
        }
        let waited = waited()?;
        // The kernel's clock is another one: what it counts may be a little longer.
        let since = |last: Reading| {
            (waited.saturating_sub(last.waited).as_secs_f64() / at.duration_since(last.at).as_secs_f64()).min(1.0)
        };
        let share = self.last.map(since);
        self.last = Some(Reading { at, waited, share });
        share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    /// Each question: when it is asked, how long programs have waited by then, if the kernel says, and the answer; in
    /// milliseconds and per cent.
    fn ask(watch: &mut PressureWatch, began: Instant, questions: &[(u32, Option<u32>, Option<u32>)]) {
        for (at, waited, percent) in questions {
            let share = watch.share_at(began + MILLISECOND * *at, || waited.map(|waited| MILLISECOND * waited));
            let shown = share.map(|share| format!("{:.0}", share * 100.0));
            assert_eq!(shown, percent.map(|percent| percent.to_string()), "at {at} ms");
        }
    }

    #[test]
    fn a_share_is_that_of_the_last_whole_interval() {
        ask(
            &mut PressureWatch::default(),
            Instant::now(),
            &[
                (0, Some(7000), None),
                (39, Some(7039), None),
                (40, Some(7010), Some(25)),
                (79, Some(7049), Some(25)),
                (140, Some(7010), Some(0)),
                (180, None, None),
                (240, Some(7110), Some(100)),
                (280, Some(7200), Some(100)),
            ],
        );
    }

    #[test]
    fn a_watch_that_begins_later_knows_the_last_ten_seconds() {
        let some = rampart_linux::memory_state::Stall { avg10: 12.0, total: MILLISECOND * 500 };
        let mut watch = PressureWatch::begin(&Pressure { some, full: some }, MILLISECOND * 1000);
        let began = watch.last.expect("it has begun").at;
        ask(&mut watch, began, &[(999, Some(600), Some(12)), (1000, Some(600), Some(10)), (2500, Some(600), Some(0))]);
    }

    /// A second of 10 %, in which programs then wait for 300 ms, and one of which they wait for 20 ms.
    #[test]
    fn what_programs_waited_in_the_present_interval_counts_before_its_end() {
        let (mut watch, began) = (PressureWatch::default(), Instant::now());
        watch.interval = MILLISECOND * 1000;
        for (at, waited, percent) in [
            (0, 500, 0),
            (1000, 600, 10),
            (1050, 640, 10),
            (1300, 900, 30),
            (1999, 900, 30),
            (2000, 900, 30),
            (2500, 920, 30),
            (3000, 920, 2),
            (3500, 4000, 100),
        ] {
            let share = watch.share_at_least_at(began + MILLISECOND * at, MILLISECOND * waited);
            assert_eq!(format!("{:.0}", share * 100.0), percent.to_string(), "at {at} ms");
        }
    }

    #[test]
    fn programs_that_wait_for_more_than_a_tenth_are_pressed() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::new(folder.path(), folder.path());
        let pressed_after = |percent: f64| {
            let some = rampart_linux::memory_state::Stall { avg10: percent, total: Duration::ZERO };
            PressureWatch::begin(&Pressure { some, full: some }, MILLISECOND * 60_000).is_pressed(&roots)
        };
        assert_eq!([pressed_after(10.0), pressed_after(10.1)], [false, true]);
        assert!(!PressureWatch::default().is_pressed(&roots), "the kernel does not say");
    }
}
