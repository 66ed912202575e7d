//! The queue of unlocked memory: unlocked since when, and what is locked next.
//!
//! **Problem.** Unlocked memory is not verified; memory that is locked too soon is unlocked again at once; and a
//! program whose next step needs more blocks than may be unlocked would never make progress. FlipSphere locks
//! everything at an interval [Fiala15, 4.3.1], which locks hot memory and keeps cold memory unlocked. **Idea.** First
//! in, first out, under the unlocked limit, and by age if an interval is set. Recently locked memory is remembered as
//! *ghosts*, as much as the limit: an unlock that meets its ghost would have been unnecessary under twice the limit,
//! which [`UnlockedLimit`] learns. Memory that the program has left behind is locked first, unless it met its ghost: it
//! would displace memory in constant use. **Why this way.** A queue costs nothing per access, and accesses cannot be
//! seen anyway; the ghosts distinguish a program with a larger working set from one that sweeps through memory, for
//! which no limit is large enough.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use rampart_memory::Timestamp;

use crate::policy::backoff::wait_after;
use crate::policy::limit::{FaultWait, UnlockedLimit};
use crate::state::layout::BlockIndex;
use crate::state::units::Units;

/// The delay before a refused lock is retried: longer than most work of a device takes. Ten seconds at most.
const RETRY: Duration = Duration::from_millis(10);

/// Units of a block that were unlocked together, and are locked together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnlockedUnits {
    /// The block.
    pub block: BlockIndex,
    /// Its units; no other entry of the queue has any of them.
    pub units: Units,
}

impl UnlockedUnits {
    fn count(self) -> usize {
        self.units.count() as usize
    }
}

/// An entry of the queue.
#[derive(Clone, Copy, Debug)]
struct Entry {
    unlocked: UnlockedUnits,
    since: Timestamp,
    past: Past,
}

/// What was known of units when they were unlocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Past {
    /// They had been locked for long, or always.
    Locked,
    /// They met their ghost.
    Returned,
}

/// The queue of unlocked memory.
#[derive(Clone, Debug)]
pub struct UnlockedQueue {
    open: VecDeque<Entry>,
    /// Entries that the program has left behind, which are locked first.
    passed: VecDeque<Entry>,
    /// Units of both.
    units: usize,
    /// Units that were ever in it.
    opened: u64,
    /// Entries that could not be locked, by the time of their retry and their order; they do not count.
    held: BTreeMap<(Timestamp, u64), UnlockedUnits>,
    holds: u64,
    /// How often in a row each of their blocks was refused.
    refusals: HashMap<BlockIndex, u32>,
    ghosts: VecDeque<UnlockedUnits>,
    /// Units of the ghosts, met or not.
    ghost_units: usize,
    is_ghost: HashMap<BlockIndex, Units>,
    interval: Option<Duration>,
    cap: UnlockedLimit,
}

impl UnlockedQueue {
    /// An empty queue with this limit; units older than the interval are locked.
    #[must_use]
    pub fn new(cap: UnlockedLimit, interval: Option<Duration>) -> Self {
        Self {
            open: VecDeque::new(),
            passed: VecDeque::new(),
            units: 0,
            opened: 0,
            held: BTreeMap::new(),
            holds: 0,
            refusals: HashMap::new(),
            ghosts: VecDeque::new(),
            ghost_units: 0,
            is_ghost: HashMap::new(),
            interval,
            cap,
        }
    }

    /// The number of entries in the queue.
    #[must_use]
    pub fn count(&self) -> usize {
        self.open.len() + self.passed.len()
    }

    /// The unlocked limit, in units.
    #[must_use]
    pub const fn cap(&self) -> usize {
        self.cap.units()
    }

    /// Units that were ever unlocked.
    #[must_use]
    pub const fn ever(&self) -> u64 {
        self.opened
    }

    /// Whether more is unlocked than allowed.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.units > self.cap()
    }

    /// Whether so much more is unlocked that the maintenance thread cannot keep up.
    #[must_use]
    pub const fn is_far_over(&self) -> bool {
        self.units > self.cap() + self.cap() / 4
    }

    /// How often the limit grew.
    #[must_use]
    pub const fn grown(&self) -> u32 {
        self.cap.grown()
    }

    /// Sets the number of units that the program uses.
    pub fn uses(&mut self, units: usize) {
        self.cap.uses(units);
    }

    /// Units were unlocked because the program needed them, after a wait; without a wait if it never used them before.
    /// No units, if they were in the queue already.
    pub fn unlocked(&mut self, unlocked: UnlockedUnits, now: Timestamp, wait: Option<FaultWait>) {
        let past = self.push(unlocked, now);
        if let Some(wait) = wait {
            self.cap.unlocked(past == Past::Returned, wait);
        }
        self.cap.think(now);
    }

    /// The program was interrupted for so long, because something was locked or prefetched.
    pub fn interrupted(&mut self, time: Duration) {
        self.cap.interrupted(time);
    }

    /// Units were prefetched, which says nothing about the limit.
    pub fn prefetched(&mut self, unlocked: UnlockedUnits, now: Timestamp) {
        self.push(unlocked, now);
    }

    /// The program has left these units behind.
    pub fn pass(&mut self, left: UnlockedUnits) {
        let is_left = |Entry { unlocked, past, .. }: &Entry| {
            unlocked.block == left.block && left.units.has(unlocked.units) && *past == Past::Locked
        };
        // Recently unlocked entries are near the end.
        while let Some(place) = self.open.iter().rposition(is_left) {
            self.passed.extend(self.open.remove(place));
        }
    }

    fn push(&mut self, unlocked: UnlockedUnits, since: Timestamp) -> Past {
        if unlocked.units.is_empty() {
            return Past::Locked;
        }
        let ghosts = self.is_ghost.get(&unlocked.block).copied().unwrap_or_default();
        let past = if (ghosts & unlocked.units).is_empty() { Past::Locked } else { Past::Returned };
        self.remove_ghosts(unlocked);
        self.units += unlocked.count();
        self.opened += unlocked.count() as u64;
        self.open.push_back(Entry { unlocked, since, past });
        past
    }

    /// A due entry cannot be locked now: it is retried later.
    pub fn stays(&mut self, unlocked: UnlockedUnits, now: Timestamp) {
        self.hold(unlocked, now.after(RETRY));
    }

    /// As [`UnlockedQueue::stays`], for a refusal of the machine: a block that is refused again and again is retried
    /// less and less often.
    pub fn refused(&mut self, unlocked: UnlockedUnits, now: Timestamp) {
        let refusals = self.refusals.entry(unlocked.block).or_insert(0);
        let wait = wait_after(RETRY, *refusals);
        *refusals = refusals.saturating_add(1);
        self.hold(unlocked, now.after(wait));
    }

    /// A block was locked, or is no longer in use.
    pub fn went(&mut self, block: BlockIndex) {
        self.refusals.remove(&block);
    }

    fn hold(&mut self, unlocked: UnlockedUnits, until: Timestamp) {
        self.holds += 1;
        self.held.insert((until, self.holds), unlocked);
    }

    /// The entry to lock now, if any. It counts as locked from here on.
    pub fn due(&mut self, now: Timestamp) -> Option<UnlockedUnits> {
        self.cap.think(now);
        while let Some(entry) = self.held.first_entry().filter(|entry| entry.key().0 <= now) {
            let ((since, _), unlocked) = entry.remove_entry();
            self.units += unlocked.count();
            self.open.push_front(Entry { unlocked, since, past: Past::Locked });
        }
        let old = self.interval.is_some_and(|interval| self.age(now).is_some_and(|age| age >= interval));
        if self.is_over() || old { self.oldest() } else { None }
    }

    /// The entry to lock first, however little is unlocked. It counts as locked from here on.
    pub fn oldest(&mut self) -> Option<UnlockedUnits> {
        let Entry { unlocked, .. } = self.passed.pop_front().or_else(|| self.open.pop_front())?;
        self.units -= unlocked.count();
        *self.is_ghost.entry(unlocked.block).or_default() |= unlocked.units;
        self.ghosts.push_back(unlocked);
        self.ghost_units += unlocked.count();
        while self.ghost_units > self.cap() {
            // A met ghost is no longer one, or becomes one again, further back.
            let forgotten = self.ghosts.pop_front().expect("units are of ghosts");
            self.ghost_units -= forgotten.count();
            self.remove_ghosts(forgotten);
        }
        Some(unlocked)
    }

    /// Removes these ghosts.
    fn remove_ghosts(&mut self, unlocked: UnlockedUnits) {
        if let Some(ghosts) = self.is_ghost.get_mut(&unlocked.block) {
            *ghosts -= unlocked.units;
            if ghosts.is_empty() {
                self.is_ghost.remove(&unlocked.block);
            }
        }
    }

    /// The age of the oldest entry.
    fn age(&self, now: Timestamp) -> Option<Duration> {
        [self.passed.front(), self.open.front()].into_iter().flatten().map(|entry| now.since(entry.since)).max()
    }

    /// The time until an entry grows too old or is retried; `None` if none does.
    #[must_use]
    pub fn next(&self, now: Timestamp) -> Option<Duration> {
        let old = self.interval.zip(self.age(now)).map(|(interval, age)| interval.saturating_sub(age));
        let again = self.held.keys().next().map(|(until, _)| until.since(now));
        old.into_iter().chain(again).min()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::policy::limit::Target;
    use proptest::prelude::*;

    fn at(micros: u64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    /// A block of one unit.
    fn whole(block: u64) -> UnlockedUnits {
        UnlockedUnits { block: BlockIndex(block), units: Units::run(0, 1) }
    }

    /// A program that uses these blocks, one each 100 µs, and waits 90 µs for each locked one. Returns how often it
    /// waited, and goes on from `time`.
    fn run(queue: &mut UnlockedQueue, time: &mut u64, accesses: impl IntoIterator<Item = u64>) -> usize {
        run_at(queue, time, accesses, 100, false)
    }

    /// The same, one each so many microseconds.
    fn run_at(
        queue: &mut UnlockedQueue,
        time: &mut u64,
        accesses: impl IntoIterator<Item = u64>,
        micros: u64,
        jumped: bool,
    ) -> usize {
        let mut open: HashSet<BlockIndex> = queue.open.iter().map(|entry| entry.unlocked.block).collect();
        let mut faults = 0;
        for block in accesses {
            *time += micros;
            if open.insert(BlockIndex(block)) {
                faults += 1;
                *time += 90;
                queue.unlocked(whole(block), at(*time), Some(FaultWait { time: Duration::from_micros(90), jumped }));
            }
            while let Some(unlocked) = queue.due(at(*time)) {
                open.remove(&unlocked.block);
            }
        }
        faults
    }

    fn with_cap(cap: usize) -> UnlockedQueue {
        let mut queue = UnlockedQueue::new(UnlockedLimit::new(cap, 4, Target::Cap), None);
        queue.uses(100_000);
        queue
    }

    #[test]
    fn beyond_the_cap_the_first_opened_is_locked_first() {
        let mut queue = with_cap(2);
        (1..=3).for_each(|block| queue.unlocked(whole(block), at(block), None));
        assert_eq!(queue.due(at(9)), Some(whole(1)));
        assert_eq!((queue.due(at(9)), queue.count()), (None, 2));
    }

    #[test]
    fn what_was_left_behind_is_locked_first_unless_it_had_come_back_and_only_beyond_the_cap() {
        let mut queue = with_cap(4);
        (1..=6).for_each(|block| queue.unlocked(whole(block), at(block), None));
        assert_eq!([queue.due(at(9)), queue.due(at(9))], [Some(whole(1)), Some(whole(2))]);
        queue.unlocked(whole(2), at(10), None);
        // 3 to 6 and 2, of which 2 met its ghost.
        [2, 5, 4].into_iter().for_each(|block| queue.pass(whole(block)));
        assert_eq!((queue.due(at(11)), queue.due(at(11)), queue.count()), (Some(whole(5)), None, 4));
        (7..=9).for_each(|block| queue.prefetched(whole(block), at(12)));
        let due: Vec<_> = std::iter::from_fn(|| queue.due(at(13))).collect();
        assert_eq!((due, queue.ever()), (vec![whole(4), whole(3), whole(6)], 10));
    }

    #[test]
    fn of_a_block_only_the_units_are_left_behind_that_are_named() {
        let mut queue = with_cap(4);
        let part = |first, count| UnlockedUnits { block: BlockIndex(3), units: Units::run(first, count) };
        [part(4, 2), part(0, 2), part(2, 2)].into_iter().for_each(|part| queue.unlocked(part, at(1), None));
        queue.pass(part(0, 4));
        queue.unlocked(whole(7), at(2), None);
        assert_eq!(queue.due(at(3)), Some(part(2, 2)));
        assert_eq!(queue.due(at(3)), Some(part(0, 2)));
    }

    #[test]
    fn an_interval_locks_what_is_old_however_little_it_is() {
        let mut queue = UnlockedQueue::new(UnlockedLimit::new(100, 4, Target::Cap), Some(Duration::from_micros(50)));
        queue.unlocked(whole(7), at(0), None);
        assert_eq!((queue.due(at(49)), queue.next(at(20))), (None, Some(Duration::from_micros(30))));
        assert_eq!(queue.due(at(50)), Some(whole(7)));
        assert_eq!(queue.next(at(60)), None);
        (1..=2).for_each(|block| queue.unlocked(whole(block), at(100 * block), None));
        queue.pass(whole(2));
        assert_eq!(
            [149, 150].map(|now| queue.due(at(now)).is_some()),
            [false, true],
            "the oldest, whatever was left behind"
        );
    }

    #[test]
    fn a_program_that_needs_more_than_the_cap_gets_it_and_faults_no_more() {
        let (mut queue, mut time) = (with_cap(4), 0);
        run(&mut queue, &mut time, (0..20_000).map(|step| step % 7));
        assert!((7..=14).contains(&queue.cap()), "{} blocks for 7", queue.cap());
        assert_eq!(run(&mut queue, &mut time, (0..600).map(|step| step % 7)), 0);
    }

    #[test]
    fn a_program_that_sweeps_does_not_make_the_cap_grow_unless_a_target_was_named() {
        let (mut queue, mut time) = (with_cap(4), 0);
        run(&mut queue, &mut time, (0..6_000).map(|step| step % 20));
        assert_eq!((queue.cap(), queue.grown()), (4, 0));
        let mut queue = UnlockedQueue::new(UnlockedLimit::new(4, 4, Target::Overhead(0.5)), None);
        queue.uses(100);
        let faults = run(&mut queue, &mut time, (0..60_000).map(|step| step % 20));
        assert!(faults < 40_000, "{} blocks, {faults} faults of 96 µs in 6 s and half of that", queue.cap());
    }

    /// Jumps among so many blocks, each equally likely at any time.
    fn jumps(blocks: u64, count: usize, mut seed: u64) -> impl Iterator<Item = u64> {
        std::iter::repeat_with(move || {
            // splitmix64
            seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (seed ^ seed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            (mixed ^ mixed >> 31) % blocks
        })
        .take(count)
    }

    /// The model: of jumps, the share 1 - limit / blocks waits. The final limit must keep that below the allowed loss
    /// of a program that jumps, a tenth of its own time, from any start: here one of two ranks that wait for each
    /// other, and so waits for its guard less than half of the time.
    #[test]
    fn a_program_that_jumps_gets_as_much_room_as_keeps_its_waits_short() {
        for (seed, blocks) in [(1, 64), (2, 500), (3, 4000)] {
            let (mut queue, mut time) = (with_cap(4), 0);
            let count = 1_000_000;
            let before = run_at(&mut queue, &mut time, jumps(blocks, count, seed), 100, true);
            // Each is unlocked once, and some again when a smaller limit is tried.
            assert!(before < count / 8, "{blocks}: {before}");
            let faults = run_at(&mut queue, &mut time, jumps(blocks, count, seed + 10), 100, true);
            let (missed, modelled) = (faults as f64 / count as f64, 1.0 - queue.cap() as f64 / blocks as f64);
            assert!(missed < 0.1 && modelled < 0.2, "{blocks}: {missed} missed, {modelled}, {} cap", queue.cap());
        }
    }

    #[test]
    fn a_program_that_jumps_seldom_is_left_alone() {
        let (mut queue, mut time) = (with_cap(4), 0);
        // A twentieth of its time.
        let faults = run_at(&mut queue, &mut time, jumps(64, 20_000, 7), 2000, true);
        assert_eq!((queue.cap(), queue.grown()), (4, 0));
        assert!(faults > 18_000, "{faults}");
    }

    #[test]
    fn a_program_that_has_jumped_is_locked_again_when_it_jumps_no_more() {
        let (mut queue, mut time) = (with_cap(4), 0);
        run_at(&mut queue, &mut time, jumps(500, 200_000, 5), 100, true);
        assert!(queue.cap() > 400, "{}", queue.cap());
        run(&mut queue, &mut time, (0..3_000_000).map(|step| step % 3));
        assert_eq!(queue.cap(), 4);
    }

    #[test]
    fn what_was_needed_for_a_while_is_locked_when_the_while_is_over() {
        let (mut queue, mut time) = (with_cap(4), 0);
        run(&mut queue, &mut time, (0..20_000).map(|step| step % 7));
        let (grown, open) = (queue.cap(), queue.count());
        let faults = run(&mut queue, &mut time, (0..60_000).map(|step| step % 3));
        assert!(grown >= 7, "{grown}");
        assert!(open >= queue.count() && queue.cap() == 4 && faults < 60, "{} open, {faults}", queue.count());
    }

    #[test]
    fn what_cannot_be_locked_is_tried_again_after_a_while_and_does_not_count_until_then() {
        let mut queue = with_cap(1);
        queue.unlocked(whole(1), at(0), None);
        queue.unlocked(whole(2), at(1), None);
        let pinned = queue.due(at(1)).unwrap();
        queue.stays(pinned, at(1));
        assert_eq!((queue.due(at(2)), queue.next(at(2))), (None, Some(Duration::from_micros(9_999))));
        assert_eq!(queue.due(at(10_001)), Some(pinned));
    }

    #[test]
    fn what_is_open_is_counted_in_units_and_locked_as_it_was_opened() {
        let mut queue = with_cap(8);
        let part = |first, count| UnlockedUnits { block: BlockIndex(3), units: Units::run(first, count) };
        queue.unlocked(part(0, 6), at(0), None);
        queue.unlocked(part(8, 2), at(1), None);
        assert!(!queue.is_over() && queue.count() == 2);
        queue.prefetched(part(6, 1), at(2));
        assert!(queue.is_over());
        assert_eq!((queue.due(at(2)), queue.due(at(2))), (Some(part(0, 6)), None));
        assert_eq!(queue.is_ghost[&BlockIndex(3)], Units::run(0, 6));
        queue.prefetched(part(2, 1), at(3));
        assert_eq!(queue.is_ghost[&BlockIndex(3)], Units::run(0, 2) | Units::run(3, 3));
    }

    #[test]
    fn what_is_far_over_is_more_than_a_quarter_over() {
        let mut queue = with_cap(8);
        let far: Vec<_> = (0..12).map(|block| (queue.prefetched(whole(block), at(1)), queue.is_far_over()).1).collect();
        assert_eq!(far.iter().position(|&far| far), Some(10), "the eleventh unit: {far:?}");
    }

    #[test]
    fn as_many_ghosts_are_kept_as_units_may_be_open() {
        let mut queue = with_cap(2);
        (1..=5).for_each(|block| queue.unlocked(whole(block), at(block), None));
        let mut ghosts = Vec::new();
        while queue.due(at(9)).is_some() {
            let mut of: Vec<_> = queue.is_ghost.keys().map(|block| block.0).collect();
            of.sort_unstable();
            ghosts.push(of);
        }
        assert_eq!(ghosts, [vec![1], vec![1, 2], vec![2, 3]]);
    }

    #[test]
    fn all_that_was_refused_at_once_is_tried_again() {
        let mut queue = with_cap(1);
        (1..=4).for_each(|block| queue.unlocked(whole(block), at(block), None));
        let refused: Vec<_> = std::iter::from_fn(|| queue.due(at(9))).collect();
        refused.iter().for_each(|&unlocked| queue.refused(unlocked, at(9)));
        let mut again: Vec<_> = std::iter::from_fn(|| queue.due(at(10_009))).map(|unlocked| unlocked.block.0).collect();
        again.sort_unstable();
        assert_eq!(again, [1, 2, 3]);
    }

    #[test]
    fn interrupts_count_where_an_overhead_was_named() {
        let mut queue = UnlockedQueue::new(UnlockedLimit::new(4, 4, Target::Overhead(0.2)), None);
        queue.uses(1000);
        for period in 0..200 {
            queue.interrupted(Duration::from_millis(10));
            assert_eq!(queue.due(at(20_000 * period)), None);
        }
        assert!(queue.grown() > 10, "half of the time: {}", queue.grown());
    }

    proptest! {
        #[test]
        fn after_the_due_ones_are_locked_no_more_than_the_cap_is_open_and_no_ghost_is_kept_beyond_it(
            accesses in proptest::collection::vec(0_u64..64, 1..400), cap in 1_usize..16
        ) {
            let mut queue = with_cap(cap);
            run(&mut queue, &mut 0, accesses);
            prop_assert!(!queue.is_over() && queue.units == queue.count());
            prop_assert!(queue.ghosts.len() <= 2 * queue.cap() && queue.is_ghost.len() <= queue.ghosts.len());
        }
    }
}
