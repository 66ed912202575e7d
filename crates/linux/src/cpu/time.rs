//! CPU time: of all processes, and of this one.

use std::time::Duration;

use rustix::param::clock_ticks_per_second;
use rustix::time::{ClockId, clock_gettime};

use crate::roots::require;
use crate::{Error, Roots};

/// Time since boot in which CPUs ran anything, this process included, added up over all CPUs; in steps of a tick,
/// usually 10 ms.
///
/// # Errors
/// [`Error::Read`] or [`Error::Malformed`] if `/proc/stat` does not show it.
pub fn busy(roots: &Roots) -> Result<Duration, Error> {
    let path = roots.proc("stat");
    parse_stat(&require(&path)?, clock_ticks_per_second())
        .ok_or(Error::Malformed { path, expected: "the time of all CPUs" })
}

/// CPU time of this process' threads, including ended ones.
#[must_use]
pub fn own() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).expect("time on CPUs is not negative")
}

/// User, nice, system, irq and softirq of the line `cpu` of `/proc/stat` (proc(5)); a guest's time is in user's.
fn parse_stat(text: &str, ticks_per_second: u64) -> Option<Duration> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let fields: Vec<u64> = line.split_ascii_whitespace().map(|field| field.parse().ok()).collect::<Option<_>>()?;
    let [user, nice, system, _idle, _iowait, irq, softirq, ..] = fields[..] else { return None };
    let ticks = [user, nice, system, irq, softirq].into_iter().try_fold(0_u64, u64::checked_add)?;
    Some(Duration::from_millis(ticks.checked_mul(1000)? / ticks_per_second.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_time_leaves_out_what_was_idle_or_stolen() {
        let text = "cpu  100 20 30 9999 7777 4 6 5555 50 1\ncpu0 1 2 3 4\n";
        assert_eq!(parse_stat(text, 100), Some(Duration::from_millis(1600)));
        for bad in [
            "",
            "cpu0 1 2 3 4 5 6 7\n",
            "cpu  1 2 3\n",
            "cpu  1 2 x 4 5 6 7\n",
            "cpu  18446744073709551615 1 1 1 1 1 1\n",
        ] {
            assert_eq!(parse_stat(bad, 100), None, "{bad}");
        }
    }

    #[test]
    fn work_is_counted_as_everybody_s_and_as_ours() {
        let roots = Roots::default();
        let (all, ours) = (busy(&roots).unwrap(), own());
        while own() - ours < Duration::from_millis(50) {
            std::hint::black_box(0);
        }
        assert!(busy(&roots).unwrap() - all >= Duration::from_millis(30), "50 ms, less two ticks");
    }
}
