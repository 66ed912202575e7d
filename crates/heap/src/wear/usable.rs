//! How much of a memory can be used once lines have failed.

use rampart_memory::LINES_PER_FRAME;

use super::FailedLines;

/// What is given up for a failed line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenUp {
    /// The whole page, as operating systems do.
    Page,
    /// An aligned run of so many lines of 64 B: a power of two, at most those of a page.
    Lines(u32),
}

impl GivenUp {
    const fn lines(self) -> u32 {
        match self {
            Self::Page => u64::BITS,
            Self::Lines(lines) => lines,
        }
    }
}

/// The share of the memory that is left.
///
/// # Panics
/// If a run of lines does not divide a page.
#[must_use]
pub fn usable_share(pages: &[FailedLines], given_up: GivenUp) -> f64 {
    let lines = given_up.lines();
    assert!(lines.is_power_of_two() && lines <= u64::BITS, "runs of {lines} lines do not divide a page");
    let run = u64::MAX >> (u64::BITS - lines);
    let works = |page: &FailedLines| {
        let runs = (0..u64::BITS).step_by(lines as usize);
        runs.filter(|first| page.bits() & run << first == 0).count() as u64 * u64::from(lines)
    };
    let left: u64 = pages.iter().map(works).sum();
    #[expect(clippy::cast_precision_loss, reason = "lines")]
    let share = left as f64 / (pages.len() as f64 * LINES_PER_FRAME as f64);
    share
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wear::{ClusterBytes, FailureShare, RegionPages, cluster_failures, draw_failures};

    #[test]
    fn a_run_is_given_up_with_its_first_failed_line() {
        let pages = [FailedLines::NONE, FailedLines::from_bits(0b1001), FailedLines::ALL, FailedLines::NONE.with(63)];
        let share = |given_up| usable_share(&pages, given_up) * 256.0;
        let expected =
            [(GivenUp::Page, 64.0), (GivenUp::Lines(1), 189.0), (GivenUp::Lines(2), 186.0), (GivenUp::Lines(4), 184.0)];
        for (given_up, lines) in expected {
            assert!((share(given_up) - lines).abs() < 1e-9, "{given_up:?}: {}", share(given_up));
        }
    }

    #[test]
    fn clusters_leave_whole_pages_where_single_failures_leave_none() {
        let drawn = draw_failures(4096, FailureShare::new(0.25).unwrap(), ClusterBytes::LINE, 3);
        let clustered = cluster_failures(&drawn, RegionPages::Two);
        assert!(usable_share(&drawn, GivenUp::Page) < 0.001);
        assert!((0.49..=0.5).contains(&usable_share(&clustered, GivenUp::Page)), "one page of two");
        // The redirection map takes two lines of 128.
        let lost = usable_share(&drawn, GivenUp::Lines(1)) - usable_share(&clustered, GivenUp::Lines(1));
        assert!((0.010..0.017).contains(&lost), "{lost}");
        assert!(usable_share(&clustered, GivenUp::Lines(4)) > 2.0 * usable_share(&drawn, GivenUp::Lines(4)));
    }
}
