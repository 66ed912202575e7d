//! The time of each frame's last test: 4 bytes per frame, 1 MiB for each GiB of memory.
//!
//! **Problem.** A timestamp takes 8 bytes, a machine has hundreds of millions of frames, and the daemon must stay
//! small. **Idea.** Count tenths of a second from a base far in the past, rounded down: a test counts as up to 100 ms
//! older than it is, never younger. The frames of 128 MiB share a chunk, which is allocated when the first of them is
//! seen. A second table counts the frames of each tick, so that the oldest test is found without a scan: the frames of
//! a block are tested together, so there are at most as many ticks as blocks.

use std::collections::BTreeMap;
use std::time::Duration;

use rampart_memory::{Frame, FrameRange, TestLifetime, Tested, Timestamp};

/// Microseconds in a tick.
const TICK: u64 = 100_000;

/// Frames in a chunk: 128 MiB.
const FRAMES: usize = 1 << 15;

/// How far back tests are recorded: more than the longest permitted lifetime.
const RECORDED: Duration = Duration::from_secs(400 * 86_400);

const UNSEEN: u32 = 0;
const NEVER: u32 = 1;
const FIRST: u32 = 2;

/// The frames that were seen, and the times of their last tests.
#[derive(Debug)]
pub struct Ages {
    base: u64,
    chunks: Vec<Option<Box<[u32]>>>,
    counts: BTreeMap<u32, u64>,
}

impl Ages {
    /// Starts without frames. Tests more than 400 days before `now` count as none.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        let back = u64::try_from(RECORDED.as_micros()).expect("some days");
        Self { base: now.micros().saturating_sub(back), chunks: Vec::new(), counts: BTreeMap::new() }
    }

    /// The time of a frame's last test; `None` if the frame was never seen.
    #[must_use]
    pub fn get(&self, frame: Frame) -> Option<Tested> {
        let (chunk, index) = split(frame);
        let tick = self.chunks.get(chunk)?.as_ref()?[index];
        (tick != UNSEEN).then(|| self.moment(tick))
    }

    /// Sets the time of a frame's last test; the frame counts as seen from now on.
    pub fn set(&mut self, frame: Frame, tested: Tested) {
        let tick = self.tick(tested);
        let (chunk, index) = split(frame);
        if chunk >= self.chunks.len() {
            self.chunks.resize_with(chunk + 1, || None);
        }
        let ticks = self.chunks[chunk].get_or_insert_with(|| vec![UNSEEN; FRAMES].into_boxed_slice());
        let before = std::mem::replace(&mut ticks[index], tick);
        if before == tick {
            return;
        }
        *self.counts.entry(tick).or_default() += 1;
        self.uncount(before);
    }

    fn uncount(&mut self, tick: u32) {
        if tick == UNSEEN {
            return;
        }
        let count = self.counts.get_mut(&tick).expect("what is in the table is counted");
        *count -= 1;
        if *count == 0 {
            self.counts.remove(&tick);
        }
    }

    /// A frame is not there any longer: it counts as never seen.
    pub fn remove(&mut self, frame: Frame) {
        let (chunk, index) = split(frame);
        let Some(Some(ticks)) = self.chunks.get_mut(chunk) else { return };
        let before = std::mem::replace(&mut ticks[index], UNSEEN);
        self.uncount(before);
    }

    /// Counts every frame as never tested.
    pub fn forget(&mut self) {
        let seen = self.seen();
        let known = self.chunks.iter_mut().flatten().flat_map(|chunk| chunk.iter_mut());
        known.filter(|tick| **tick != UNSEEN).for_each(|tick| *tick = NEVER);
        self.counts = BTreeMap::from([(NEVER, seen)]);
        self.counts.retain(|_, count| *count > 0);
    }

    /// The number of frames that were seen.
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.counts.values().sum()
    }

    /// The number of frames whose test has not expired.
    #[must_use]
    pub fn fresh(&self, bound: TestLifetime, now: Timestamp) -> u64 {
        self.counts_of(|tested| bound.is_fresh(tested, now))
    }

    /// The number of frames that were tested at least once.
    #[must_use]
    pub fn tested(&self) -> u64 {
        self.counts_of(|tested| tested != Tested::NEVER)
    }

    /// The oldest test that has not expired.
    #[must_use]
    pub fn oldest_fresh(&self, bound: TestLifetime, now: Timestamp) -> Option<Tested> {
        self.counts.keys().map(|&tick| self.moment(tick)).find(|&tested| bound.is_fresh(tested, now))
    }

    /// Runs of frames tested at about the same time, in ascending order of frames; times are rounded down to `grain`.
    pub fn runs(&self, grain: Duration) -> Vec<(FrameRange, Timestamp)> {
        let grain = u64::try_from(grain.as_micros()).unwrap_or(u64::MAX).max(1);
        let mut runs: Vec<(FrameRange, Timestamp)> = Vec::new();
        for (frame, tick) in self.table().filter(|&(_, tick)| tick >= FIRST) {
            let micros = self.moment(tick).moment().expect("it was tested").micros();
            let moment = Timestamp::from_micros(micros - micros % grain);
            match runs.last_mut() {
                Some((range, at)) if *at == moment && range.last().number() + 1 == frame.number() => {
                    *range = FrameRange::new(range.start(), range.count() + 1).expect("its last frame is one");
                }
                _ => runs.push((FrameRange::new(frame, 1).expect("one frame"), moment)),
            }
        }
        runs
    }

    fn counts_of(&self, predicate: impl Fn(Tested) -> bool) -> u64 {
        self.counts.iter().filter(|&(&tick, _)| predicate(self.moment(tick))).map(|(_, count)| count).sum()
    }

    fn table(&self) -> impl Iterator<Item = (Frame, u32)> + '_ {
        let chunks = (0..).step_by(FRAMES).zip(&self.chunks);
        let known = chunks.filter_map(|(first, chunk)| Some((first, chunk.as_ref()?)));
        known.flat_map(|(first, chunk)| {
            let frames = (first..).map(|number| Frame::new(number).expect("a frame was put there"));
            frames.zip(chunk.iter().copied())
        })
    }

    fn moment(&self, tick: u32) -> Tested {
        match tick {
            UNSEEN | NEVER => Tested::NEVER,
            tick => Tested::at(Timestamp::from_micros(self.base + u64::from(tick - FIRST) * TICK)),
        }
    }

    /// The tick of a test, rounded down; a time after the last tick counts as the last tick.
    fn tick(&self, tested: Tested) -> u32 {
        match tested.moment().and_then(|moment| moment.micros().checked_sub(self.base)) {
            None => NEVER,
            Some(since) => u32::try_from(since / TICK).unwrap_or(u32::MAX).saturating_add(FIRST),
        }
    }
}

fn split(frame: Frame) -> (usize, usize) {
    let number = usize::try_from(frame.number()).expect("a frame's number fits a usize");
    (number / FRAMES, number % FRAMES)
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::collections::HashMap;

    use proptest::prelude::*;

    const START: u64 = 1 << 50;

    fn at(ticks: u64) -> Timestamp {
        Timestamp::from_micros(START + ticks * TICK)
    }

    fn frame(number: u64) -> Frame {
        Frame::new(number).unwrap()
    }

    fn bound() -> TestLifetime {
        TestLifetime::new(Duration::from_secs(10), Duration::from_secs(1)).unwrap()
    }

    #[test]
    fn a_test_is_never_younger_than_it_was() {
        let mut ages = Ages::new(at(0));
        ages.set(frame(7), Tested::at(Timestamp::from_micros(START + 3 * TICK + 99_999)));
        assert_eq!(ages.get(frame(7)), Some(Tested::at(at(3))));
        ages.set(frame(7), Tested::at(Timestamp::from_micros(1)));
        assert_eq!(ages.get(frame(7)), Some(Tested::NEVER), "before the base");
        assert_eq!(ages.get(frame(8)), None);
    }

    #[test]
    fn runs_are_split_where_frames_or_moments_differ() {
        let mut ages = Ages::new(at(0));
        for (number, ticks) in [(3, 0), (4, 5), (5, 19), (6, 25), (9, 25), (40_000, 25)] {
            ages.set(frame(number), Tested::at(at(ticks)));
        }
        let runs = ages.runs(Duration::from_secs(2));
        let seen: Vec<_> = runs.iter().map(|(range, _)| (range.start().number(), range.count())).collect();
        let split: u64 = runs.iter().map(|(range, _)| range.count()).sum();
        assert_eq!(split, 6);
        assert!(seen.contains(&(9, 1)) && seen.contains(&(40_000, 1)), "{seen:?}");
        assert!(runs.iter().all(|(_, at)| at.micros() % 2_000_000 == 0));
    }

    proptest! {
        #[test]
        fn it_counts_like_a_map(
            notes in proptest::collection::vec((0_u64..100_000, prop::option::of(0_u64..300)), 0..200), now in 0_u64..300,
        ) {
            let mut ages = Ages::new(at(0));
            let mut model = HashMap::new();
            for (number, ticks) in notes {
                let tested = ticks.map_or(Tested::NEVER, |ticks| Tested::at(at(ticks)));
                ages.set(frame(number), tested);
                model.insert(number, tested);
            }
            let fresh = |tested: &&Tested| bound().is_fresh(**tested, at(now));
            prop_assert!(model.iter().all(|(&number, &tested)| ages.get(frame(number)) == Some(tested)));
            prop_assert_eq!(ages.seen(), model.len() as u64);
            prop_assert_eq!(ages.fresh(bound(), at(now)), model.values().filter(fresh).count() as u64);
            prop_assert_eq!(ages.oldest_fresh(bound(), at(now)), model.values().filter(fresh).min().copied());
            let listed: u64 = ages.runs(Duration::from_micros(1)).iter().map(|(range, _)| range.count()).sum();
            prop_assert_eq!(listed, ages.tested());
            for number in model.keys().copied().filter(|number| number % 2 == 0).collect::<Vec<_>>() {
                ages.remove(frame(number));
                ages.remove(frame(number));
                model.remove(&number);
            }
            prop_assert_eq!(ages.get(frame(0)), model.get(&0).copied());
            prop_assert_eq!(ages.fresh(bound(), at(now)), model.values().filter(fresh).count() as u64);
            ages.forget();
            prop_assert_eq!((ages.seen(), ages.tested()), (model.len() as u64, 0));
        }
    }
}
