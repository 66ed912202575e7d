//! Predicts the program's next accesses from its faults.
//!
//! **Problem.** A program that goes through its memory faults on every block, and waits each time until the block is
//! verified. FlipSphere unlocks a fixed number of pages ahead, set by hand [Fiala15, 4.3.1, fig. 4.3]: too few are
//! slow, too many are unlocked for nothing. **Idea.** Follow the streams in the faults ([Fiala15, fig. 4.6] shows two
//! interleaved ones): each continues where its last unlocked part ended, or by a stride, and is prefetched as far as it
//! has continued before. A stream that leaves a block sooner than memory can be read has used only a little of it: it
//! gets units, one per step. A slower one is a sequential stream, and gets whole blocks. The first prefetched part is
//! only verified each time: the program's fault there is short, and comes while some unlocked memory still lies ahead,
//! like the page that Linux marks when it reads a file ahead. **Why this way.** A spare core verifies memory that is
//! about to be used, and the program finds it in the shared cache; a program that jumps has no stream and pays for
//! none. The guard does not see accesses between faults, but it sees the time between them.

use rampart_memory::Timestamp;

use crate::state::layout::{BlockIndex, Layout, PageIndex};

use super::{AccessPattern, BlockPart, PrefetchRequest};

/// Streams that are followed at once.
const STREAMS: usize = 8;

/// A fault at most so many blocks from the last of a stream may be its next.
const REACH: i64 = 16;

/// Pages that no program passes in a microsecond: 16 GiB/s, more than a core reads from DRAM. A program that faults
/// again that soon has skipped pages; its work between two steps, and the two faults themselves, make it look slower
/// than it is.
const FASTEST: i64 = 4;

/// A stream that was faster than that counts as a stride for so many steps: a program may be delayed for a moment, but
/// is never faster than it can be.
const STRIDES: u8 = 4;

/// One stream has at most this part of the blocks that may be unlocked in prefetched blocks, or one block.
const PART: i64 = 6;

/// Units prefetched for a stride, per block that would be prefetched for a sequential stream.
const UNITS_FOR_A_BLOCK: i64 = 4;

/// The streams in the faults.
#[derive(Clone, Debug)]
pub struct Prefetcher {
    layout: Layout,
    /// The most prefetched blocks.
    most: i64,
    streams: [Stream; STREAMS],
    /// The stream of the last fault.
    last: usize,
    /// Whether the program waits for it.
    waits: bool,
    faults: u64,
}

/// Positions are in pages from the start of the range.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    /// Its last fault.
    at: i64,
    /// The end of the part that was unlocked for it.
    end: i64,
    /// The distance between faults; 0 for a stream of one fault.
    step: i64,
    /// The number of prefetched steps after `at`.
    ahead: i64,
    /// How often it continued as before.
    confirmed: u32,
    sequential: bool,
    /// It was too fast for a sequential stream, at most so many steps ago.
    strides: u8,
    /// The number of blocks that a sequential stream left behind by its last fault.
    passed: i64,
    /// The number of its last fault; 0 for none.
    used: u64,
    /// The time when the program got the page.
    left: Timestamp,
}

impl Prefetcher {
    /// Prefetches at most so many blocks, or some units for each, per fault; 0 for none.
    #[must_use]
    pub fn new(layout: Layout, most: u32) -> Self {
        Self { layout, most: i64::from(most), streams: [Stream::default(); STREAMS], last: 0, waits: false, faults: 0 }
    }

    /// A fault on a page at `now`; returns the access pattern.
    pub fn fault(&mut self, page: PageIndex, now: Timestamp) -> AccessPattern {
        self.faults += 1;
        let at = i64::try_from(page.0).expect("a range has fewer pages");
        self.last = self.follow(at, now);
        self.waits = true;
        let stream = &mut self.streams[self.last];
        stream.used = self.faults;
        match (stream.confirmed, stream.sequential) {
            (0, _) => AccessPattern::Unknown,
            (_, true) => AccessPattern::Sequential { up: stream.step.is_positive() },
            (_, false) => AccessPattern::Strided,
        }
    }

    /// The program has been running since `now`, after that fault or after another one that was not reported here.
    pub fn goes_on(&mut self, now: Timestamp) {
        if std::mem::take(&mut self.waits) {
            self.streams[self.last].left = now;
        }
    }

    /// The memory of that fault is unlocked up to `end`, and at most `cap` blocks may be unlocked. Returns the next
    /// requests, in order.
    pub fn served(&mut self, end: PageIndex, cap: u64) -> impl Iterator<Item = PrefetchRequest> + use<> {
        let layout = self.layout;
        let most = self.most.min((i64::try_from(cap).unwrap_or(i64::MAX) / PART).max(1));
        let stream = &mut self.streams[self.last];
        stream.end = i64::try_from(end.0).expect("a range has fewer pages");
        let Stream { at, step, sequential, ahead, confirmed, .. } = *stream;
        let most = if sequential { most } else { most * UNITS_FOR_A_BLOCK };
        let pages = i64::try_from(layout.blocks()).expect("a range has fewer blocks") * i64::from(layout.block_pages());
        let room = match step {
            0 => 0,
            1.. => (pages - 1 - at) / step,
            _ => at / -step,
        };
        let count = room.min(most).min(2 * i64::from(confirmed));
        stream.ahead = count.max(ahead);
        (ahead + 1..=count).map(move |steps| {
            let page = PageIndex((at + steps * step).unsigned_abs());
            let part = if sequential {
                BlockPart::Block(layout.block_of(page).expect("there is room"))
            } else {
                BlockPart::UnitOf(page)
            };
            if steps == ahead + 1 && (sequential || count > steps) {
                PrefetchRequest::Verify(part)
            } else {
                PrefetchRequest::Unlock(part)
            }
        })
    }

    /// Whether the program is still before this, judging by its faults.
    #[must_use]
    pub fn is_ahead(&self, page: PageIndex) -> bool {
        let page = i64::try_from(page.0).expect("a range has fewer pages");
        self.streams.iter().any(|stream| {
            let (distance, step) = ((page - stream.at) * stream.step.signum(), stream.step.abs());
            (1..=stream.ahead * step + step / 2).contains(&distance)
        })
    }

    /// Blocks that a sequential stream has left behind, judging by that fault, without the one that it came from.
    pub fn passed(&self) -> impl Iterator<Item = BlockIndex> + use<> {
        let layout = self.layout;
        let Stream { at, step, passed, .. } = self.streams[self.last];
        (2..2 + passed).rev().filter_map(move |steps| {
            let page = u64::try_from(at - steps * step).ok()?;
            layout.block_of(PageIndex(page))
        })
    }

    /// The stream of a fault, updated by it.
    fn follow(&mut self, at: i64, now: Timestamp) -> usize {
        let block = i64::from(self.layout.block_pages());
        let unit = i64::from(self.layout.unit_pages());
        let steps = self.streams.iter().map(|stream| stream.steps_to(at, block, unit));
        if let Some((index, steps)) = steps.enumerate().find_map(|(index, steps)| Some((index, steps?))) {
            let stream = &mut self.streams[index];
            let (before, was_sequential) = (stream.at, stream.sequential);
            stream.goes_on(at, steps, now);
            if stream.sequential {
                // From edge to edge, wherever in its first block it began.
                let up = stream.step.is_positive();
                stream.at = if up { at - at % block } else { at - at % block + block - 1 };
                stream.step = if up { block } else { -block };
            }
            stream.passed = if was_sequential && stream.sequential { (stream.at - before) / stream.step } else { 0 };
            return index;
        }
        let near = |s: &Stream| s.used > 0 && s.at != at && (at - s.at).abs() <= REACH * block;
        let nearest = (0..STREAMS).filter(|&i| near(&self.streams[i])).min_by_key(|&i| (at - self.streams[i].at).abs());
        if let Some(index) = nearest {
            let stream = &mut self.streams[index];
            *stream = Stream { at, step: at - stream.at, ..Stream::default() };
            return index;
        }
        let oldest = (0..STREAMS).min_by_key(|&i| self.streams[i].used).expect("there are streams");
        self.streams[oldest] = Stream { at, ..Stream::default() };
        oldest
    }
}

impl Stream {
    /// The number of its steps to a position, if it is on the stream. Prefetched memory may not be there yet, or not
    /// any more.
    fn steps_to(&self, at: i64, block: i64, unit: i64) -> Option<Steps> {
        if self.used == 0 {
            return None;
        }
        let distance = (at - self.at) * self.step.signum();
        let step = self.step.abs().max(1);
        let count = if self.sequential { distance / step } else { (distance + step / 2) / step };
        let off = if self.sequential { block } else { unit };
        let fits = self.step != 0 && (1..=self.ahead + 1).contains(&count) && (distance - count * step).abs() < off;
        let onward = at > self.at && (self.end..self.end + unit).contains(&at);
        match (fits, onward) {
            (true, _) => Some(Steps::Of(count)),
            (false, true) => Some(Steps::Onward),
            (false, false) => None,
        }
    }

    fn goes_on(&mut self, at: i64, steps: Steps, now: Timestamp) {
        let pages = (at - self.at).abs();
        let micros = i64::try_from(now.since(self.left).as_micros()).unwrap_or(i64::MAX);
        self.strides = if micros.saturating_mul(FASTEST) < pages { STRIDES } else { self.strides.saturating_sub(1) };
        let sequential = self.strides == 0;
        let (step, ahead) = match steps {
            Steps::Onward => (at - self.at, 0),
            Steps::Of(count) => (self.step, self.ahead - count),
        };
        // Memory prefetched for another pattern does not count.
        self.ahead = if sequential == self.sequential { ahead.max(0) } else { 0 };
        (self.at, self.step, self.sequential) = (at, step, sequential);
        self.confirmed = self.confirmed.saturating_add(1);
    }
}

/// How a stream continued.
#[derive(Clone, Copy, Debug)]
enum Steps {
    /// At the end of its last unlocked part.
    Onward,
    /// By so many of its steps.
    Of(i64),
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use rampart_memory::Bytes;

    const BLOCK: u64 = 512;
    const UNIT: u64 = 16;

    fn layout() -> Layout {
        Layout::new(Bytes::from_mib(2 * 4096), 512, 16).unwrap()
    }

    /// The results of a program: how often it waited for unverified memory, and how often for pre-verified memory; how
    /// many units were unlocked, and how many of these prefetched and never used.
    #[derive(Debug)]
    struct Run {
        faults: u64,
        stops: u64,
        unlocked: usize,
        unused: usize,
    }

    /// Runs a program that visits these pages, each so many microseconds after the previous one. Units are unlocked as
    /// by a guard, at once.
    fn run(accesses: impl IntoIterator<Item = (u64, u64)>, most: u32) -> Run {
        let mut prefetcher = Prefetcher::new(layout(), most);
        let (mut open, mut ready, mut unused) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let (mut faults, mut stops, mut micros) = (0, 0, 0);
        for (page, pause) in accesses {
            micros += pause;
            let unit = page / UNIT;
            unused.remove(&unit);
            if !open.insert(unit) {
                continue;
            }
            *(if ready.contains(&unit) { &mut stops } else { &mut faults }) += 1;
            let block = page / BLOCK;
            let pattern = prefetcher.fault(PageIndex(page), Timestamp::from_micros(micros));
            let end = if pattern == AccessPattern::Strided {
                (unit + 1) * UNIT
            } else {
                open.extend(block * 32..(block + 1) * 32);
                (block + 1) * BLOCK
            };
            micros += 50;
            let next = prefetcher.served(PageIndex(end), 96);
            prefetcher.goes_on(Timestamp::from_micros(micros));
            for request in next {
                let units = match request.part() {
                    BlockPart::Block(block) => block.0 * 32..(block.0 + 1) * 32,
                    BlockPart::UnitOf(page) => page.0 / UNIT..page.0 / UNIT + 1,
                    BlockPart::NextOf(_) => unreachable!("of a stream"),
                };
                match request {
                    PrefetchRequest::Verify(_) => ready.extend(units),
                    PrefetchRequest::Unlock(_) => unused.extend(units.filter(|&unit| open.insert(unit))),
                }
            }
        }
        Run { faults, stops, unlocked: open.len(), unused: unused.len() }
    }

    /// Pages of a sequential stream through blocks, at 10 GB/s.
    fn was_sequential(blocks: impl IntoIterator<Item = u64>) -> impl Iterator<Item = (u64, u64)> {
        blocks.into_iter().flat_map(|block| (0..32).map(move |unit| (block * BLOCK + unit * UNIT, 6)))
    }

    #[test]
    fn a_sweep_waits_for_its_first_blocks_only_and_stops_once_in_some() {
        let seen = run(was_sequential(0..1000), 8);
        assert!(seen.faults <= 3 && seen.stops < 1000 / 4 && seen.unused <= 9 * 32, "{seen:?}");
    }

    #[test]
    fn a_sweep_that_may_have_few_blocks_open_has_each_verified_ahead() {
        let seen = run(was_sequential(0..1000), 1);
        assert!(seen.faults <= 3 && seen.stops > 990, "{seen:?}");
        let mut prefetcher = Prefetcher::new(layout(), 8);
        for block in 0..10 {
            prefetcher.fault(PageIndex(block * BLOCK), Timestamp::from_micros(block * 300));
            assert!(prefetcher.served(PageIndex((block + 1) * BLOCK), 12).count() <= 2, "of twelve");
            prefetcher.goes_on(Timestamp::from_micros(block * 300));
        }
    }

    #[test]
    fn what_a_sweep_has_left_behind_is_told_once_and_not_the_block_that_it_came_from() {
        for (first, sign) in [(0, 1), (4000, -1)] {
            let mut prefetcher = Prefetcher::new(layout(), 4);
            let mut passed = Vec::new();
            for step in 0..40_i64 {
                let block = u64::try_from(first + sign * step).unwrap();
                let now = Timestamp::from_micros(u64::try_from(step).unwrap() * 300);
                prefetcher.fault(PageIndex(block * BLOCK + 100), now);
                prefetcher.goes_on(now);
                prefetcher.served(PageIndex((block + 1) * BLOCK), 96).for_each(drop);
                passed.extend(prefetcher.passed().map(|block| i64::try_from(block.0).unwrap()));
            }
            let all: Vec<_> = (0..38).map(|step| first + sign * step).collect();
            assert!(all.ends_with(&passed) && passed.len() > 34, "{passed:?}");
        }
    }

    #[test]
    fn what_the_program_has_passed_is_not_ahead_of_it() {
        let mut prefetcher = Prefetcher::new(layout(), 4);
        for block in 10..20 {
            let now = Timestamp::from_micros(block * 300);
            prefetcher.fault(PageIndex(block * BLOCK), now);
            prefetcher.served(PageIndex((block + 1) * BLOCK), 96).for_each(drop);
            prefetcher.goes_on(now);
        }
        let is_ahead: Vec<_> = (15..28).filter(|block| prefetcher.is_ahead(PageIndex(block * BLOCK))).collect();
        assert_eq!(is_ahead, [20, 21, 22, 23]);
    }

    #[test]
    fn a_program_that_is_kept_from_its_work_now_and_then_is_no_sweep_for_that() {
        let steps = (0..2_000_u64).map(|step| (step * 512, if step % 3 == 0 { 300 } else { 5 }));
        let seen = run(steps, 4);
        assert!(seen.unlocked < 2_000 + 8 * 32, "units and not blocks: {seen:?}");
    }

    #[test]
    fn so_it_does_backwards_and_from_the_middle_of_a_block() {
        let backwards = was_sequential(0..1000).collect::<Vec<_>>().into_iter().rev();
        assert!(run(backwards, 8).faults <= 3);
        assert!(run(was_sequential(0..1000).skip(13), 8).faults <= 3);
    }

    #[test]
    fn two_streams_that_interleave_are_told_apart() {
        // [Fiala15, fig. 4.6]: FT's pattern has several fronts.
        for first in [0, 500] {
            let fronts = was_sequential(first..first + 500).zip(was_sequential(2000..2500));
            let seen = run(fronts.flat_map(|(one, other)| [one, other]), 8);
            assert!(seen.faults <= 6 && seen.unused <= 2 * 9 * 32, "{seen:?}");
        }
    }

    #[test]
    fn a_stride_gets_units_and_not_the_blocks_that_it_steps_over() {
        for (stride, pause) in [(256, 2), (256, 40), (512, 2), (512, 100), (513, 2), (700, 2), (1024, 40)] {
            let steps = 4_000 * BLOCK / stride;
            let seen = run((0..steps).map(|step| (step * stride, pause)), 4);
            let units = usize::try_from(steps).unwrap() + 8 * 32;
            assert!(seen.faults < 8 && seen.unlocked < units, "by {stride}: {steps}, {seen:?}");
            assert!(seen.stops < steps / 6 + 4, "by {stride}: {steps}, {seen:?}");
        }
    }

    #[test]
    fn a_stream_whose_blocks_are_not_open_yet_is_still_the_same() {
        let mut prefetcher = Prefetcher::new(layout(), 4);
        let mut requested = BTreeSet::new();
        for block in 0..100 {
            let now = Timestamp::from_micros(block * 300);
            let pattern = prefetcher.fault(PageIndex(block * BLOCK), now);
            assert_eq!(pattern == AccessPattern::Unknown, block == 0, "{block}");
            let next = prefetcher.served(PageIndex((block + 1) * BLOCK), 96);
            prefetcher.goes_on(now);
            for request in next {
                assert!(
                    matches!(request.part(), BlockPart::Block(block) if requested.insert(block.0)),
                    "{request:?} was requested before"
                );
            }
        }
        assert_eq!(requested.len(), 99 + 4 - 1);
    }

    /// The access patterns of faults on these pages, each so long after the previous one; nothing is unlocked ahead.
    fn patterns<const N: usize>(pages: [u64; N], pause: u64) -> [AccessPattern; N] {
        let (mut prefetcher, mut micros) = (Prefetcher::new(layout(), 0), 0);
        pages.map(|page| {
            micros += pause;
            let pattern = prefetcher.fault(PageIndex(page), Timestamp::from_micros(micros));
            prefetcher.goes_on(Timestamp::from_micros(micros));
            pattern
        })
    }

    #[test]
    fn a_stream_goes_on_by_its_step_or_nearly_so_and_everything_else_is_a_jump() {
        use AccessPattern::{Sequential, Strided, Unknown};
        let from = 1000 * BLOCK;
        let after = |last| patterns([from, from + 2000, from + last], 2)[2];
        assert_eq!([3985, 4000, 4015].map(after), [Strided; 3], "less than a unit beside it");
        assert_eq!([3984, 4016].map(after), [Unknown; 2], "a unit beside it");
        assert_eq!(patterns([from, 3000 * BLOCK, 3500 * BLOCK], 2), [Unknown; 3], "a jump is no stream");
        assert_eq!(patterns([3, 6, 7].map(|block| block * BLOCK), 2), [Unknown; 3], "the first fault is of no stream");
        assert_eq!(patterns([5, 5, 5], 2), [Unknown; 3], "the same page again is none");
        // The nearest stream is taken for the one that turned: that at 120.
        let turned = [100, 120, 113, 106].map(|block| block * BLOCK);
        assert_eq!(patterns(turned, 2), [Unknown, Unknown, Unknown, Strided]);
        // Four pages in a microsecond are as fast as can be.
        let up = [1000, 1001, 1002].map(|block| block * BLOCK);
        assert_eq!([127, 128].map(|pause| patterns(up, pause)[2]), [Strided, Sequential { up: true }]);
        let down = [1002, 1001, 1000].map(|block| block * BLOCK);
        assert_eq!(patterns(down, 128)[2], Sequential { up: false });
    }

    /// The requests after each of these faults.
    fn requests(
        prefetcher: &mut Prefetcher,
        pages: impl IntoIterator<Item = u64>,
        pause: u64,
    ) -> Vec<Vec<PrefetchRequest>> {
        let mut micros = 0;
        let mut requests = |page: u64| {
            micros += pause;
            prefetcher.fault(PageIndex(page), Timestamp::from_micros(micros));
            let next = prefetcher.served(PageIndex(page + 1), 96).collect();
            prefetcher.goes_on(Timestamp::from_micros(micros));
            next
        };
        pages.into_iter().map(&mut requests).collect()
    }

    #[test]
    fn a_stream_is_followed_twice_as_far_as_it_has_gone_on() {
        let blocks = |from: u64| (from..from + 5).map(|block| block * BLOCK);
        let counts: Vec<_> =
            requests(&mut Prefetcher::new(layout(), 16), blocks(100), 300).iter().map(Vec::len).collect();
        // Up to 2, 4 and 6 blocks ahead of the fault, of which one was passed each time.
        assert_eq!(counts, [0, 0, 2, 3, 3]);
    }

    #[test]
    fn nothing_is_requested_beyond_the_range() {
        let pages = 4096 * BLOCK;
        let up: Vec<_> = (4080..4096).map(|block| block * BLOCK).collect();
        let down: Vec<_> = (0..16).rev().map(|block| block * BLOCK + 7).collect();
        for (sweep, expected) in [(up, 4083..4096), (down, 0..13)] {
            let next = requests(&mut Prefetcher::new(layout(), 4), sweep, 300).concat();
            let blocks: Vec<_> = next
                .iter()
                .map(|request| match request.part() {
                    BlockPart::Block(block) => block.0,
                    part => panic!("{part:?} of a sweep"),
                })
                .collect();
            let once: BTreeSet<_> = blocks.iter().copied().collect();
            assert_eq!((once.len(), once), (blocks.len(), expected.collect()));
        }
        for (stride, first) in [(1024_i64, pages - 5 * 1024), (-1024, 4 * 1024)] {
            let steps = (0..4).map(|step| first.checked_add_signed(step * stride).unwrap());
            let next = requests(&mut Prefetcher::new(layout(), 4), steps, 2);
            let last = PageIndex(first.checked_add_signed(4 * stride).unwrap());
            let [verify, unlock] = [PrefetchRequest::Verify, PrefetchRequest::Unlock];
            let before_it = PageIndex(last.0.checked_add_signed(-stride).unwrap());
            let expected = [verify(BlockPart::UnitOf(before_it)), unlock(BlockPart::UnitOf(last))];
            assert_eq!(next, [vec![], vec![], expected.to_vec(), vec![]], "by {stride}");
            let rest = requests(&mut Prefetcher::new(layout(), 1), [first, first, first], 2);
            assert_eq!(rest, [[]; 3], "of no stream");
        }
        // The last step of a stride is not verified for a fault that shows how far it has come: nothing follows it.
        let steps = [pages - 4 * 1024, pages - 3 * 1024, pages - 2 * 1024];
        let next = requests(&mut Prefetcher::new(layout(), 4), steps, 2);
        assert_eq!(next[2], [PrefetchRequest::Unlock(BlockPart::UnitOf(PageIndex(pages - 1024)))]);
    }

    #[test]
    fn a_step_to_the_end_of_what_was_unlocked_is_one_of_a_stream() {
        let mut prefetcher = Prefetcher::new(layout(), 4);
        let from = 1000 * BLOCK;
        prefetcher.fault(PageIndex(from), Timestamp::from_micros(1));
        assert_eq!(prefetcher.served(PageIndex(from + 16), 96).count(), 0);
        prefetcher.goes_on(Timestamp::from_micros(1));
        assert_eq!(prefetcher.fault(PageIndex(from + 16), Timestamp::from_micros(2)), AccessPattern::Strided);
        let next: Vec<_> = prefetcher.served(PageIndex(from + 32), 96).map(PrefetchRequest::part).collect();
        assert_eq!(next, [32, 48].map(|page| BlockPart::UnitOf(PageIndex(from + page))));
        let bounds = [16, 17, 56, 57].map(|page| prefetcher.is_ahead(PageIndex(from + page)));
        assert_eq!(bounds, [false, true, true, false], "two steps and a half");
    }

    #[test]
    fn a_stride_that_becomes_slow_has_not_passed_the_blocks_between() {
        let mut prefetcher = Prefetcher::new(layout(), 4);
        let mut micros = 0;
        for (step, pause) in [2, 2, 2, 2, 2000, 2000, 2000, 2000, 2000, 2000].into_iter().enumerate() {
            micros += pause;
            let page = PageIndex((1000 + 3 * step as u64) * BLOCK);
            let pattern = prefetcher.fault(page, Timestamp::from_micros(micros));
            prefetcher.goes_on(Timestamp::from_micros(micros));
            let is_sequential = matches!(pattern, AccessPattern::Sequential { .. });
            assert_eq!(prefetcher.passed().count(), 0, "{step}");
            if is_sequential {
                return;
            }
        }
        panic!("it is slow enough to be sequential");
    }

    #[test]
    fn a_program_that_jumps_pays_for_nothing() {
        let jumps = (0..2_000_u64).map(|step| (step.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 43, 20));
        let seen = run(jumps, 8);
        assert!(seen.unused < 40 * 32, "of 2000 blocks: {seen:?}");
    }

    #[test]
    fn nothing_is_opened_ahead_if_so_wished() {
        assert_eq!(run(was_sequential(0..100), 0).faults, 100);
    }

    proptest! {
        #[test]
        fn what_is_ahead_is_in_the_range_and_never_more_than_allowed(
            faults in proptest::collection::vec((0_u64..4096 * BLOCK, 0_u64..200, any::<bool>()), 1..300), most in 0_u32..16
        ) {
            let mut prefetcher = Prefetcher::new(layout(), most);
            let (mut now, mut last) = (0, 0);
            for (page, pause, near) in faults {
                let page = if near { (last + page % 700).min(4096 * BLOCK - 1) } else { page };
                (now, last) = (now + pause, page);
                prefetcher.fault(PageIndex(page), Timestamp::from_micros(now));
                let next: Vec<_> = prefetcher.served(PageIndex(page + 1), 96).collect();
                prefetcher.goes_on(Timestamp::from_micros(now));
                prop_assert!(next.len() <= 4 * most as usize);
                for request in next {
                    match request.part() {
                        BlockPart::Block(block) => prop_assert!(block.0 < 4096),
                        BlockPart::UnitOf(page) => prop_assert!(page.0 < 4096 * BLOCK),
                        BlockPart::NextOf(block) => prop_assert!(false, "{block:?} is of no stream"),
                    }
                }
                prop_assert!(prefetcher.passed().all(|block| block.0 < 4096));
            }
        }
    }
}
