//! How much of some memory is on a DIMM, if others have parts of it too.
//!
//! **Problem.** Controllers spread addresses over DIMMs, line by line, by a rule of their own that nobody shows;
//! firmware says at most that several DIMMs share a range. **Idea.** The whole range is tested, and an estimate says
//! how much of it is on the DIMM: of a range that n DIMMs have, the n-th part. **Why also ranges that nobody else
//! has.** Many firmwares list DIMMs that are interleaved one behind the other, as if they were not; only the place in
//! the interleave shows it. Then all ranges of the interleave belong to all of its DIMMs.

use std::collections::{BTreeMap, BTreeSet};

use rampart_memory::FrameRange;

/// A range of frames that is at least partly on a DIMM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DimmFrames {
    /// The index of the DIMM.
    pub dimm: usize,
    /// The frames.
    pub frames: FrameRange,
    /// The interleave in which the range is, if it is in one.
    pub interleave: Option<u16>,
}

/// What is on a DIMM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DimmShare {
    /// The frames that are at least partly on it.
    pub ranges: Vec<FrameRange>,
    /// How much of them is on it.
    pub percent: u8,
    /// The other DIMMs on which the rest is, ascending.
    pub others: Vec<usize>,
}

/// What of `all` is on this DIMM; `None` if nothing is.
pub fn share(dimm: usize, all: &[DimmFrames]) -> Option<DimmShare> {
    let lone: Vec<&DimmFrames> = all.iter().filter(|range| others_at(range, all).is_empty()).collect();
    let (mut parts, mut others) = (BTreeMap::new(), BTreeSet::new());
    for own in all.iter().filter(|range| range.dimm == dimm) {
        let sharing = others_at(own, all);
        if !sharing.is_empty() {
            parts.insert(own.frames, own.frames.count() / (sharing.len() as u64 + 1));
            others.extend(sharing);
        } else if own.interleave.is_some() {
            let turns = lone.iter().filter(|range| range.interleave == own.interleave);
            let on_it = frames(turns.clone().filter(|range| range.dimm == dimm));
            let of_all = frames(turns.clone());
            for range in turns {
                parts.insert(range.frames, range.frames.count() * on_it / of_all);
                others.insert(range.dimm);
            }
        } else {
            parts.insert(own.frames, own.frames.count());
        }
    }
    others.remove(&dimm);
    let frames: u64 = parts.keys().map(|range| range.count()).sum();
    let percent = (parts.values().sum::<u64>() * 100 + frames / 2).checked_div(frames)?;
    let percent = u8::try_from(percent.clamp(1, 100)).expect("at most 100");
    Some(DimmShare { ranges: parts.into_keys().collect(), percent, others: others.into_iter().collect() })
}

fn frames<'a>(ranges: impl Iterator<Item = &'a &'a DimmFrames>) -> u64 {
    ranges.map(|range| range.frames.count()).sum()
}

/// The other DIMMs that have a part of a range.
fn others_at(range: &DimmFrames, all: &[DimmFrames]) -> BTreeSet<usize> {
    let overlaps = |other: FrameRange| other.start() <= range.frames.last() && range.frames.start() <= other.last();
    all.iter().filter(|other| other.dimm != range.dimm && overlaps(other.frames)).map(|other| other.dimm).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rampart_memory::Frame;

    fn range(first: u64, count: u64) -> FrameRange {
        FrameRange::new(Frame::new(first).unwrap(), count).unwrap()
    }

    fn on(dimm: usize, first: u64, count: u64, interleave: Option<u16>) -> DimmFrames {
        DimmFrames { dimm, frames: range(first, count), interleave }
    }

    fn shared(ranges: &[FrameRange], percent: u8, others: &[usize]) -> Option<DimmShare> {
        Some(DimmShare { ranges: ranges.to_vec(), percent, others: others.to_vec() })
    }

    #[test]
    fn ranges_of_one_dimm_alone_are_wholly_on_it() {
        let all = [on(0, 0, 8, None), on(1, 8, 8, None), on(0, 32, 8, None)];
        assert_eq!(share(0, &all), shared(&[range(0, 8), range(32, 8)], 100, &[]));
        assert_eq!(share(1, &all), shared(&[range(8, 8)], 100, &[]));
        assert_eq!(share(2, &all), None);
        assert_eq!(share(0, &[on(0, 0, 8, Some(7))]), shared(&[range(0, 8)], 100, &[]), "in turns with itself");
    }

    #[test]
    fn of_a_range_of_several_dimms_each_has_its_part() {
        let pair = [on(0, 0, 16, Some(1)), on(1, 0, 16, Some(1))];
        assert_eq!(share(1, &pair), shared(&[range(0, 16)], 50, &[0]));
        let unequal = [on(0, 0, 16, None), on(1, 0, 16, None), on(2, 0, 16, None), on(0, 16, 16, None)];
        assert_eq!(share(1, &unequal), shared(&[range(0, 16)], 31, &[0, 2]), "a third, rounded down to frames");
        // 16 / 3 + 16 of 32.
        assert_eq!(share(0, &unequal), shared(&[range(0, 16), range(16, 16)], 66, &[1, 2]));
    }

    #[test]
    fn ranges_that_take_turns_are_on_all_of_their_dimms_also_if_they_lie_side_by_side() {
        let (a, b) = (Some(1), Some(2));
        let all = [on(0, 0, 16, a), on(1, 16, 16, a), on(2, 32, 16, b), on(0, 48, 16, b), on(3, 64, 16, None)];
        assert_eq!(share(1, &all), shared(&[range(0, 16), range(16, 16)], 50, &[0]));
        let ranges = [range(0, 16), range(16, 16), range(32, 16), range(48, 16)];
        assert_eq!(share(0, &all), shared(&ranges, 50, &[1, 2]));
        assert_eq!(share(3, &all), shared(&[range(64, 16)], 100, &[]));
        // One whose partner is known is no partner of others.
        let known = [on(0, 0, 16, a), on(1, 0, 16, a), on(2, 32, 16, a)];
        assert_eq!(share(2, &known), shared(&[range(32, 16)], 100, &[]));
    }

    proptest! {
        /// All of a DIMM's ranges are tested, whatever the firmware says, and a part of them is on it.
        #[test]
        fn no_frame_of_a_dimm_is_left_out(
            all in proptest::collection::vec((0_usize..4, 0_u64..40, 1_u64..9, proptest::option::of(0_u16..2)), 0..12)
        ) {
            let all: Vec<_> = all.into_iter().map(|(dimm, at, count, turns)| on(dimm, at, count, turns)).collect();
            for dimm in 0..4 {
                let own: Vec<_> = all.iter().filter(|range| range.dimm == dimm).collect();
                let Some(found) = share(dimm, &all) else {
                    prop_assert!(own.is_empty());
                    continue;
                };
                prop_assert!(own.iter().all(|range| found.ranges.contains(&range.frames)));
                prop_assert!((1..=100).contains(&found.percent) && !found.others.contains(&dimm));
                prop_assert!(found.percent == 100 || !found.others.is_empty());
            }
        }
    }
}
