//! Finds the detours that corrected errors caused, among those that occur anyway.
//!
//! **Problem.** Timers and the kernel take a CPU's time too, so an error did not cause every detour that follows it
//! [Ferreira21, IV-B]. **Idea.** Compare the longest detour soon after each error with the longest one in an equally
//! long time before it. **Why this way.** The time before an error shows the machine's usual noise, measured in the
//! same minutes and in the same way.

use crate::model::noise::{Noise, OfCpu};
use crate::time::Time;

/// A detour that begins later than this after an error is not attributed to it.
const WITHIN: Time = Time::from_nanos(1_000_000_000);

/// The detours around given moments, such as the moments of errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribution {
    /// The longest time from a moment to a detour that counts: one second, or half the time to the next moment if that
    /// is shorter.
    pub within: Time,
    /// The longest detour soon after each moment, shortest first.
    pub after: Vec<Time>,
    /// The longest detour in an equally long time before each moment, shortest first.
    pub before: Vec<Time>,
}

impl Attribution {
    /// Finds the detours around these moments; `every` is the usual time between two of them.
    #[must_use]
    pub fn of(noise: &Noise, moments: &[Time], every: Time) -> Self {
        let within = Time::from_nanos(every.nanos() / 2).min(WITHIN);
        let since = |shift: Time| {
            let shifted: Vec<Time> = moments.iter().map(|moment| moment.since(shift)).collect();
            let mut lengths = longest_after(&noise.cpus, &shifted, within);
            lengths.sort_unstable();
            lengths
        };
        Self { within, after: since(Time::ZERO), before: since(within) }
    }

    /// The median of the longest detours after the moments; `None` without moments.
    #[must_use]
    pub fn median_after(&self) -> Option<Time> {
        median(&self.after)
    }

    /// The median of the longest detours before the moments; `None` without moments.
    #[must_use]
    pub fn median_before(&self) -> Option<Time> {
        median(&self.before)
    }
}

fn median(sorted: &[Time]) -> Option<Time> {
    sorted.get(sorted.len() / 2).copied()
}

/// The longest detour that began on any CPU within `within` after each moment. An error may take the time of one CPU or
/// of all CPUs at once.
fn longest_after(cpus: &[OfCpu], moments: &[Time], within: Time) -> Vec<Time> {
    let longest = |&moment: &Time| {
        let end = moment.plus(within);
        let after = |of: &OfCpu| {
            let first = of.detours.partition_point(|detour| detour.start < moment);
            of.detours[first..].iter().take_while(|detour| detour.start < end).map(|detour| detour.length).max()
        };
        cpus.iter().filter_map(after).max().unwrap_or_default()
    };
    moments.iter().map(longest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::noise::Detour;

    fn detour(start: u64, length: u64) -> Detour {
        Detour { start: Time::from_nanos(start), length: Time::from_nanos(length) }
    }

    fn of_cpu(cpu: u32, watched: u64, detours: Vec<Detour>) -> OfCpu {
        OfCpu { cpu, watched: Time::from_nanos(watched), detours, ..OfCpu::default() }
    }

    #[test]
    fn what_a_moment_brought_is_the_longest_detour_soon_after_it_on_any_cpu() {
        let cpus = [
            of_cpu(0, 100, vec![detour(5, 50), detour(10, 3), detour(19, 4), detour(20, 60)]),
            of_cpu(1, 100, vec![detour(12, 9)]),
            of_cpu(2, 100, Vec::new()),
        ];
        let nanos = |list: &[u64]| list.iter().copied().map(Time::from_nanos).collect::<Vec<_>>();
        assert_eq!(longest_after(&cpus, &nanos(&[10, 13, 70]), Time::from_nanos(10)), nanos(&[9, 60, 0]));
        assert_eq!(longest_after(&cpus[..1], &nanos(&[10]), Time::from_nanos(10)), nanos(&[4]));
    }

    #[test]
    fn what_came_before_an_error_is_told_from_what_it_brought() {
        let detours = vec![detour(95, 2), detour(105, 30), detour(195, 4), detour(206, 20), detour(215, 50)];
        let noise = Noise { cpus: vec![of_cpu(0, 300, detours)], ..Noise::default() };
        let nanos = |list: &[u64]| list.iter().copied().map(Time::from_nanos).collect::<Vec<_>>();
        let found = Attribution::of(&noise, &nanos(&[100, 200]), Time::from_nanos(20));
        let expected = Attribution { within: Time::from_nanos(10), after: nanos(&[20, 30]), before: nanos(&[2, 4]) };
        assert_eq!(found, expected);
        assert_eq!(found.median_after(), Some(Time::from_nanos(30)));
        assert_eq!(Attribution::of(&noise, &[], Time::MAX).within, WITHIN);
        assert_eq!(Attribution::of(&noise, &[], Time::MAX).median_before(), None);
    }
}
