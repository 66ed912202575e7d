//! Failed lines at random places, from a seed.
//!
//! **Problem.** No machine at hand has memory that wears out, and results must be reproducible. **Idea.** Aligned
//! clusters of 2^N bytes fail, each with the same probability, independently of the others: 64 B is the failure of
//! single lines, larger clusters are those of the limit study [Gao13, 5] and 6.4. **Why this way.** The probability
//! that a line has failed is the same for every size of cluster, so the sizes can be compared.

use std::fmt;
use std::str::FromStr;

use rampart_memory::{LINE_BYTES, LINES_PER_FRAME};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::FailedLines;
use crate::error::Error;

/// The share of lines that fail: from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct FailureShare(f64);

/// A share of lines that fail, as users write it: in per cent, `25%` or `25`, from 0 to 90. It keeps that number, so
/// that one program can hand it to another without rounding.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct FailurePercent(f64);

/// The size of what fails together: a power of two, at least a line of 64 B.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClusterBytes(u64);

impl FailureShare {
    /// Nothing fails.
    pub const NONE: Self = Self(0.0);

    /// A share from 0 to 1; `None` for other numbers.
    #[must_use]
    pub fn new(share: f64) -> Option<Self> {
        (0.0..=1.0).contains(&share).then_some(Self(share))
    }

    /// The share.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }

    /// How many pages have as many working lines as `pages` without failures: h/(1−f), rounded up [Gao13, 6.2]. `None`
    /// if everything has failed.
    #[must_use]
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "pages")]
    pub fn compensated(self, pages: usize) -> Option<usize> {
        (self.0 < 1.0).then(|| (pages as f64 / (1.0 - self.0)).ceil() as usize)
    }
}

impl FailurePercent {
    /// Beyond it, a compensated heap has more than ten times its pages. With 100, nothing can compensate.
    const MOST: f64 = 90.0;

    /// The number.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }

    /// The share.
    #[must_use]
    pub const fn share(self) -> FailureShare {
        FailureShare(self.0 / 100.0)
    }
}

impl FromStr for FailurePercent {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let percent: Option<f64> = text.strip_suffix('%').unwrap_or(text).parse().ok();
        #[expect(clippy::float_cmp, reason = "what was said")]
        let is_allowed = |percent: &f64| (0.0..=Self::MOST).contains(percent) || *percent == 100.0;
        percent.filter(is_allowed).map(Self).ok_or(Error::NoShare { most: Self::MOST })
    }
}

impl fmt::Display for FailurePercent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

impl ClusterBytes {
    /// Single lines.
    pub const LINE: Self = Self(LINE_BYTES);

    /// A size in bytes; `None` if it is no power of two, or smaller than a line.
    #[must_use]
    pub fn new(bytes: u64) -> Option<Self> {
        (bytes.is_power_of_two() && bytes >= LINE_BYTES).then_some(Self(bytes))
    }

    /// The size in lines.
    const fn lines(self) -> u64 {
        self.0 / LINE_BYTES
    }
}

/// Draws the failed lines of `pages` pages.
#[must_use]
pub fn draw_failures(pages: usize, share: FailureShare, cluster: ClusterBytes, seed: u64) -> Vec<FailedLines> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (per_cluster, lines) = (cluster.lines(), pages as u64 * LINES_PER_FRAME);
    let mut failed = vec![FailedLines::NONE; pages];
    for first in (0..lines).step_by(usize::try_from(per_cluster).expect("a cluster fits memory")) {
        if random.random::<f64>() >= share.0 {
            continue;
        }
        for line in first..(first + per_cluster).min(lines) {
            let page = &mut failed[usize::try_from(line / LINES_PER_FRAME).expect("a page of these")];
            *page = page.with((line % LINES_PER_FRAME) as u32);
        }
    }
    failed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(pages: &[FailedLines]) -> u64 {
        pages.iter().map(|page| u64::from(page.count())).sum()
    }

    #[test]
    fn the_share_of_failed_lines_does_not_depend_on_the_size_of_clusters() {
        let share = FailureShare::new(0.25).unwrap();
        for bytes in [64, 128, 1024, 4096, 16384] {
            let pages = draw_failures(8192, share, ClusterBytes::new(bytes).unwrap(), 7);
            let part = failed(&pages) as f64 / (8192.0 * 64.0);
            // Five standard deviations of as many independent clusters.
            let clusters = (8192.0 * 4096.0) / bytes as f64;
            assert!((part - 0.25).abs() < 5.0 * (0.25 * 0.75 / clusters).sqrt(), "{bytes}: {part}");
        }
    }

    #[test]
    fn a_cluster_fails_as_a_whole() {
        let share = FailureShare::new(0.5).unwrap();
        let pages = draw_failures(512, share, ClusterBytes::new(1024).unwrap(), 1);
        let clusters = |page: &FailedLines| (0..4).map(|i| page.bits() >> (16 * i) & 0xffff).collect::<Vec<_>>();
        assert!(pages.iter().flat_map(clusters).all(|cluster| cluster == 0 || cluster == 0xffff));
        let pairs = draw_failures(512, share, ClusterBytes::new(8192).unwrap(), 1);
        assert!(pairs.chunks(2).all(|pair| pair[0] == pair[1]), "two pages fail together");
        assert!(pairs.contains(&FailedLines::ALL) && pairs.contains(&FailedLines::NONE));
    }

    #[test]
    fn nothing_and_everything_can_fail_and_a_seed_says_what() {
        let at = |share, seed| draw_failures(64, FailureShare::new(share).unwrap(), ClusterBytes::LINE, seed);
        assert!(at(0.0, 1).iter().all(|page| page.is_perfect()));
        assert!(at(1.0, 1).iter().all(|page| *page == FailedLines::ALL));
        assert_eq!(at(0.1, 5), at(0.1, 5));
        assert_ne!(at(0.1, 5), at(0.1, 6));
    }

    #[test]
    fn a_share_is_read_as_it_is_written_and_refused_with_the_largest() {
        let read = |text: &str| text.parse::<FailurePercent>().map(|percent| percent.share().get()).ok();
        assert_eq!(["0", "0%", "25%", "25", "12.5%", "90%"].map(read), [0.0, 0.0, 0.25, 0.25, 0.125, 0.9].map(Some));
        assert_eq!(read("100%"), Some(1.0));
        assert_eq!(["90.1%", "-1%", "nan", "inf%", "", "%", "25%%", "25 %", "much"].map(read), [None; 9]);
        let refusal = "91%".parse::<FailurePercent>().unwrap_err();
        assert_eq!(refusal.to_string(), "give a share from 0% to 90%, or 100%");
        for text in ["0%", "7%", "12.5%", "33.3%", "90%"] {
            assert_eq!(text.parse::<FailurePercent>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_heap_is_compensated_by_what_still_works() {
        let pages = |share| FailureShare::new(share).unwrap().compensated(1000);
        assert_eq!([pages(0.0), pages(0.1), pages(0.25), pages(0.5)], [1000, 1112, 1334, 2000].map(Some));
        assert_eq!(pages(1.0), None);
        assert_eq!([FailureShare::new(-0.1), FailureShare::new(1.1), FailureShare::new(f64::NAN)], [None; 3]);
        assert_eq!([0, 32, 96].map(ClusterBytes::new), [None; 3]);
    }
}
