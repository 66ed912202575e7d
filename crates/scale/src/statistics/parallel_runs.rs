//! Several runs at once, each by its number.
//!
//! A run depends on its number alone, so the results are the same for any number of threads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::error::Error;

/// The threads, the flag to stop, and the callback for progress.
#[derive(Clone, Copy)]
pub struct ParallelRuns<'a> {
    /// The number of runs at once.
    pub threads: usize,
    /// Set to stop.
    pub stop: &'a AtomicBool,
    /// Called from any thread with the number of finished runs.
    pub done: &'a (dyn Fn(u64) + Sync),
}

impl ParallelRuns<'_> {
    /// Makes the runs from 0 to `runs` - 1, and returns their results in order.
    ///
    /// # Errors
    /// That of the first run that failed.
    pub(crate) fn make<T: Send>(
        &self,
        runs: u64,
        run: &(impl Fn(u64) -> Result<T, Error> + Sync),
    ) -> Result<Vec<T>, Error> {
        let next = AtomicU64::new(0);
        let take = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|number| *number < runs);
        let worker = || -> Vec<(u64, Result<T, Error>)> {
            let made = std::iter::from_fn(take).map(|number| (number, run(number)));
            made.inspect(|_| (self.done)(1)).collect()
        };
        let mut results = thread::scope(|scope| {
            let workers: Vec<_> = (0..self.threads.max(1)).map(|_| scope.spawn(worker)).collect();
            workers.into_iter().flat_map(|worker| worker.join().expect("a run does not panic")).collect::<Vec<_>>()
        });
        results.sort_by_key(|(number, _)| *number);
        results.into_iter().map(|(_, result)| result).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_come_back_in_order_each_counted_once_and_the_first_failure_is_told() {
        for threads in [0, 1, 3] {
            let counted = AtomicU64::new(0);
            let done = |runs| {
                counted.fetch_add(runs, Ordering::Relaxed);
            };
            let parallel = ParallelRuns { threads, stop: &AtomicBool::new(false), done: &done };
            assert_eq!(
                parallel.make(20, &|number| Ok(number * 2)).unwrap(),
                (0..20).map(|n| n * 2).collect::<Vec<_>>()
            );
            assert_eq!(counted.load(Ordering::Relaxed), 20);
            let fails = |number| {
                if number < 5 { Ok(number) } else { Err(Error::Apart { rank: u32::try_from(number).unwrap() }) }
            };
            assert_eq!(parallel.make(20, &fails).unwrap_err(), Error::Apart { rank: 5 });
        }
    }
}
