//! Which frame a page gets when it comes back from swap [Gao13, 3.2.3].
//!
//! **Problem.** The page's data leaves out the lines that had failed in its old frame; the new one has failed lines of
//! its own. Perfect frames always fit, and are scarce. **Idea.** The first of these: a frame whose failed lines had
//! all failed in the old one, the worst of those; another, if the process agrees not to use the frame's other failed
//! lines; a perfect one; none, and the page stays where it is. **Why this way.** With failure clustering, a frame fits
//! if its lines fail at the same end and are no more in number: in a test with 10 % of the lines failed, nearly every
//! page fits one of twenty such frames, and without clustering few do.
//!
//! With known frames, Rampart's own heaps pin or lock their pages, so Linux never swaps them: this is the reference
//! for kernels that know failed lines.

use super::FailedLines;

/// The frame for a page, by its place in the list of free ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwapIn {
    /// It fits, and the process need not know.
    Fitting(usize),
    /// It has these further failed lines. The process knows, and does not use them.
    Moved(usize, FailedLines),
    /// It is perfect.
    Perfect(usize),
}

/// Chooses a frame for a page from a frame with these failed lines. `can_move` tells the process which lines have
/// failed besides, and returns whether it can do without them; no frame that it refuses is used. `None` if no frame
/// will do.
pub fn swap_in(
    page: FailedLines,
    free: &[FailedLines],
    mut can_move: impl FnMut(FailedLines) -> bool,
) -> Option<SwapIn> {
    let imperfect = || free.iter().copied().enumerate().filter(|(_, frame)| !frame.is_perfect());
    // The worst that fits: better ones are for pages that need them.
    let fitting = imperfect().filter(|(_, frame)| frame.is_subset_of(page)).max_by_key(|(_, frame)| frame.count());
    if let Some((number, _)) = fitting {
        return Some(SwapIn::Fitting(number));
    }
    let besides = imperfect().map(|(number, frame)| (number, frame.without(page)));
    if let Some((number, failed)) = besides.into_iter().find(|(_, failed)| can_move(*failed)) {
        return Some(SwapIn::Moved(number, failed));
    }
    free.iter().position(|frame| frame.is_perfect()).map(SwapIn::Perfect)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wear::{ClusterBytes, FailureShare, RegionPages, cluster_failures, draw_failures};

    const PAGE: FailedLines = FailedLines::from_bits(0b1110);
    const PERFECT: FailedLines = FailedLines::NONE;

    fn lines(bits: u64) -> FailedLines {
        FailedLines::from_bits(bits)
    }

    #[test]
    fn a_page_gets_a_frame_that_fits_else_another_that_its_process_agrees_to_else_a_perfect_one() {
        let fitting = [PERFECT, lines(0b10), lines(0b110), lines(0b11_0000)];
        assert_eq!(swap_in(PAGE, &fitting, |_| panic!("it fits")), Some(SwapIn::Fitting(2)), "the worst of those");
        let others = [PERFECT, lines(0b1_0010), lines(0b11)];
        let agrees = |failed: FailedLines| failed == lines(1);
        assert_eq!(swap_in(PAGE, &others, agrees), Some(SwapIn::Moved(2, lines(1))), "told what has failed besides");
        let mut asked = Vec::new();
        let refuses = |failed| {
            asked.push(failed);
            false
        };
        assert_eq!(swap_in(PAGE, &others, refuses), Some(SwapIn::Perfect(0)));
        assert_eq!(asked, [lines(0b1_0000), lines(1)]);
        assert_eq!(swap_in(PAGE, &others[1..], |_| false), None);
    }

    #[test]
    fn clustered_pages_nearly_always_fit_one_of_twenty_frames_and_others_seldom() {
        let drawn = draw_failures(2040, FailureShare::new(0.1).unwrap(), ClusterBytes::LINE, 1);
        let clustered: Vec<FailedLines> = cluster_failures(&drawn, RegionPages::One).into_iter().step_by(2).collect();
        for (frames, expected) in [(&clustered, 950..=1000), (&drawn, 0..=100)] {
            let (pages, free) = (&frames[..1000], &frames[1000..1020]);
            let fits = |page: &&FailedLines| matches!(swap_in(**page, free, |_| true), Some(SwapIn::Fitting(_)));
            let count = pages.iter().filter(|page| !page.is_perfect()).filter(fits).count();
            assert!(expected.contains(&count), "{count} of 1000");
        }
    }
}
