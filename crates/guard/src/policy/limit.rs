//! The unlocked limit: how much may be unlocked, by the cost of locking.
//!
//! **Problem.** The amount of unlocked memory trades protection for speed: [Fiala15, 4.3.1, tab. 4.3 to 4.6] tunes it
//! by hand for each program, and a program changes: it jumps while it builds its data, sweeps while it computes, and
//! sometimes needs more than any fixed limit. **Idea.** Measure how much of its recent time the program waited for
//! locked blocks. If that exceeds the target, and more room would have avoided it, the limit grows; while it is far
//! below, the limit shrinks step by step to the requested minimum. A program that jumps through its memory finds a page
//! unlocked with the probability limit / memory, under first in, first out as under any policy that does not know the
//! future (W. F. King, Analysis of Demand Paging Algorithms, IFIP 1971): more room saves a proportional part of its
//! waits, so it gets room early. A sweep that is larger than the limit gains nothing from room, and gets none. With a
//! requested overhead, the limit is as small as that overhead allows, interrupts included. Without one, the limit
//! settles for a program whose need does not change: a growth that undoes a shrink doubles the wait before the next
//! shrink. **Why this way.** Users feel the waiting, and it can be measured where it happens; finding the hot blocks
//! would have a cost of its own.

use std::time::Duration;

use rampart_memory::Timestamp;

use crate::settings::pages::GuardSettings;

/// The period of decisions.
const PERIOD: Duration = Duration::from_millis(20);

/// The overhead above which a program counts as stuck, unless the user requested another.
const USUAL: f64 = 0.2;

/// A program that jumps gets more room at this low overhead. Of ranks that poll for each other, each waits for its own
/// guard only part of the time: of two, half at most, while both stand still. And on shared CPUs, a fault takes longer
/// beside its service than [`AROUND`]. Below it, no program needs more room, and the limit shrinks.
const JUMPING: f64 = USUAL / 2.0;

/// A program that waits more than it works gets more room, even if that does not visibly help.
const STALLED: f64 = 1.0;

/// The time for which past waits count: a burst is no reason for a change.
const MEMORY: Duration = Duration::from_secs(1);

/// The limit grows by this part per period, and shrinks by a quarter of that.
const STEP: usize = 4;

/// The cost of a fault beside its service: the message, and two wakeups. 7 µs in total for a single page.
const AROUND: Duration = Duration::from_micros(6);

/// The pause after a growth until the next shrink, at first and at most.
const REST: Duration = Duration::from_millis(200);
const MOST_REST: Duration = Duration::from_secs(64);

/// This part of the used memory may always be unlocked: with less, a program could not work.
const PART: usize = 20;

/// So many blocks may always be unlocked, however few are used.
const FEWEST_BLOCKS: usize = 4;

/// The user's target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// The limit is as requested, and grows only for a program that is stuck: one whose working set is somewhat larger,
    /// or that does little but wait.
    Cap,
    /// The overhead stays below this part of the program's own time.
    Overhead(f64),
}

/// A wait of the program for locked memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultWait {
    /// Its duration.
    pub time: Duration,
    /// Whether the program jumped there, and did not come by a sweep or a stride.
    pub jumped: bool,
}

/// The number of units that may be unlocked.
#[derive(Clone, Debug)]
pub struct UnlockedLimit {
    target: Target,
    /// The requested limit, and the limit for a program of this size.
    asked: usize,
    fewest: usize,
    least: usize,
    now: usize,
    /// Units that the program uses: the upper bound.
    used: usize,
    /// In this period: units unlocked; those that twice the room would have kept unlocked; those reached by jumps; and
    /// the time that the program waited for them.
    seen: usize,
    met: usize,
    jumps: usize,
    waited: Duration,
    since: Option<Timestamp>,
    /// The recent share of its time that the program waited.
    share: f64,
    rest: Duration,
    changed: Timestamp,
    shrunk: bool,
    grown: u32,
}

impl UnlockedLimit {
    /// At most `asked` units, or what the target makes of it; fewer for a small heap, but at least `fewest`.
    #[must_use]
    pub fn new(asked: usize, fewest: usize, target: Target) -> Self {
        assert!(asked >= 1, "a program needs something to work on");
        let least = asked.min(fewest);
        Self {
            target,
            asked,
            fewest,
            least,
            now: least,
            used: least,
            seen: 0,
            met: 0,
            jumps: 0,
            waited: Duration::ZERO,
            since: None,
            share: 0.0,
            rest: REST,
            changed: Timestamp::from_micros(0),
            shrunk: false,
            grown: 0,
        }
    }

    /// The limit of the settings, in units. The kernel keeps at most `most_open` mappings apart, and each unit may be
    /// one.
    #[must_use]
    pub fn asked_for(settings: &GuardSettings, most_open: usize) -> Self {
        let target = settings.overhead.map_or(Target::Cap, |percent| Target::Overhead(f64::from(percent) / 100.0));
        let units_of_block = (settings.block_pages / settings.unit_pages) as usize;
        let units = usize::try_from(settings.cap.frames() / u64::from(settings.unit_pages));
        let units = units.expect("a cap is less than all addresses");
        Self::new(units.min(most_open), FEWEST_BLOCKS * units_of_block, target)
    }

    /// The limit.
    #[must_use]
    pub const fn units(&self) -> usize {
        self.now
    }

    /// How often it grew because the program waited.
    #[must_use]
    pub const fn grown(&self) -> u32 {
        self.grown
    }

    /// Sets the number of units that the program uses: for few, fewer may be unlocked.
    pub fn uses(&mut self, units: usize) {
        self.least = (units / PART).max(self.fewest).min(self.asked);
        self.now = self.now.max(self.least);
        self.used = units;
    }

    /// The program waited for locked memory; `met`: with twice the limit it would not have.
    pub fn unlocked(&mut self, met: bool, wait: FaultWait) {
        self.seen += 1;
        self.met += usize::from(met);
        self.jumps += usize::from(wait.jumped);
        self.waited += wait.time + AROUND;
    }

    /// The program was interrupted for so long: with a requested overhead, this is a cost like waiting. Only waiting
    /// shows that the limit is too low.
    pub fn interrupted(&mut self, time: Duration) {
        match self.target {
            Target::Overhead(_) => self.waited += time,
            Target::Cap => {}
        }
    }

    /// Decides, if a period has passed.
    pub fn think(&mut self, now: Timestamp) {
        let since = *self.since.get_or_insert(now);
        let past = now.since(since);
        if past < PERIOD {
            return;
        }
        let share = self.waited.div_duration_f64(past).min(1.0);
        self.share += (share - self.share) * (1.0 - (-past.div_duration_f64(MEMORY)).exp());
        let overhead = overhead_of(self.share);
        let is_cheap = overhead.max(overhead_of(share)) < JUMPING;
        // An expensive past does not make the present expensive.
        let still = share >= self.share;
        match self.target {
            Target::Cap if still && overhead > USUAL && 2 * self.met > self.seen => self.grow(now),
            Target::Cap if still && overhead > JUMPING && 2 * self.jumps > self.seen => self.grow(now),
            Target::Cap if still && overhead > STALLED => self.grow(now),
            Target::Cap if is_cheap && now.since(self.changed) >= self.rest => self.shrink(now),
            Target::Overhead(target) if still && overhead > target => self.grow(now),
            Target::Overhead(target) if overhead < 0.8 * target => self.shrink(now),
            Target::Cap | Target::Overhead(_) => {}
        }
        (self.seen, self.met, self.jumps, self.waited, self.since) = (0, 0, 0, Duration::ZERO, Some(now));
    }

    fn grow(&mut self, now: Timestamp) {
        let more = (self.now + self.now.div_ceil(STEP)).min(self.used.max(self.now));
        if more == self.now {
            return;
        }
        if std::mem::take(&mut self.shrunk) {
            self.rest = (2 * self.rest).min(MOST_REST);
        }
        self.now = more;
        self.grown = self.grown.saturating_add(1);
        self.changed = now;
    }

    /// The next step may follow at once: only the first after a growth waits.
    fn shrink(&mut self, now: Timestamp) {
        if self.now == self.least {
            return;
        }
        self.now = (self.now - self.now.div_ceil(4 * STEP)).max(self.least);
        self.shrunk = true;
        if self.now == self.least {
            self.changed = now;
        }
    }
}

/// The overhead of a program that waits this share of its time, as a part of the rest.
fn overhead_of(share: f64) -> f64 {
    share / (1.0 - share).max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_micros(millis * 1000)
    }

    fn on_course(time: Duration) -> FaultWait {
        FaultWait { time, jumped: false }
    }

    /// Periods in each of which the program waits this share of the time, for so many unlocks.
    fn periods(cap: &mut UnlockedLimit, from: u64, count: u64, share: f64, met: bool) -> u64 {
        for period in 0..count {
            cap.think(at(from + 20 * period));
            cap.unlocked(met, on_course((PERIOD.mul_f64(share)).saturating_sub(AROUND)));
        }
        cap.think(at(from + 20 * count));
        from + 20 * count
    }

    #[test]
    fn of_a_small_heap_a_twentieth_may_be_unlocked_but_never_less_than_the_fewest() {
        let mut cap = UnlockedLimit::new(16, 4, Target::Cap);
        assert_eq!(cap.units(), 4);
        for (uses, least) in [(10, 4), (200, 10), (1000, 16), (100_000, 16)] {
            cap.uses(uses);
            assert_eq!(cap.units(), least, "of {uses}");
        }
        assert_eq!(UnlockedLimit::new(2, 4, Target::Cap).units(), 2);
    }

    #[test]
    fn a_program_that_waits_gets_more_and_gives_it_back_when_it_does_not() {
        let mut cap = UnlockedLimit::new(4, 4, Target::Cap);
        cap.uses(1000);
        let now = periods(&mut cap, 0, 40, 0.9, true);
        let grown = cap.units();
        assert!(grown > 64, "{grown} after 0.8 s");
        periods(&mut cap, now, 400, 0.0, false);
        assert_eq!(cap.units(), 4);
    }

    #[test]
    fn nothing_grows_beyond_what_the_program_uses() {
        let mut cap = UnlockedLimit::new(4, 4, Target::Cap);
        cap.uses(10);
        periods(&mut cap, 0, 400, 0.9, true);
        // 4, 5, 7, 9, 10.
        assert_eq!((cap.units(), cap.grown()), (10, 4));
    }

    #[test]
    fn what_was_asked_for_is_counted_in_units() {
        let asked = |settings: &GuardSettings, most| UnlockedLimit::asked_for(settings, most);
        let usual = GuardSettings::default();
        let mut cap = asked(&usual, usize::MAX);
        // 32 MiB in units of 16 pages, and four blocks of 32 units.
        assert_eq!((cap.asked, cap.units(), cap.target), (512, 128, Target::Cap));
        cap.uses(1_000_000);
        assert_eq!(cap.units(), 512);
        assert_eq!(asked(&usual, 50).units(), 50, "the kernel keeps no more apart");
        assert_eq!(asked(&GuardSettings { overhead: Some(25), ..usual }, usize::MAX).target, Target::Overhead(0.25));
    }

    /// The decision on a limit of 160 units, after a program waited so many seconds of so many, one half for each of
    /// two unlocks. A minute ago counts for nothing, so the shares are exact.
    fn decided(target: Target, (waited, of): (u64, u64), met: [bool; 2], jumped: [bool; 2]) -> usize {
        let mut cap = UnlockedLimit::new(16, 16, target);
        cap.uses(1_000_000);
        cap.now = 160;
        cap.think(at(0));
        for (met, jumped) in met.into_iter().zip(jumped) {
            cap.unlocked(met, FaultWait { time: Duration::from_secs(waited) / 2 - AROUND, jumped });
        }
        cap.think(at(1000 * of));
        cap.units()
    }

    #[test]
    fn a_limit_changes_by_the_overhead_and_by_what_more_room_would_have_done() {
        const GROWS: usize = 200;
        const STAYS: usize = 160;
        const SHRINKS: usize = 150;
        let (none, half, all) = ([false; 2], [true, false], [true; 2]);
        let by_cap = |waited, met, jumped| decided(Target::Cap, waited, met, jumped);
        // Overheads of less than a tenth, and of exactly that.
        assert_eq!(by_cap((40, 480), all, all), SHRINKS);
        assert_eq!(by_cap((40, 440), all, all), STAYS);
        // 15 %.
        assert_eq!([none, half, all].map(|jumped| by_cap((60, 460), all, jumped)), [STAYS, STAYS, GROWS]);
        // A third.
        assert_eq!([none, half, all].map(|met| by_cap((100, 400), met, none)), [STAYS, STAYS, GROWS]);
        // Exactly one, and more.
        assert_eq!([(200, 400), (220, 400)].map(|waited| by_cap(waited, none, none)), [STAYS, GROWS]);
        let of_four = [(64, 400), (72, 400), (80, 400), (84, 400)];
        let by_overhead = of_four.map(|waited| decided(Target::Overhead(0.25), waited, none, none));
        assert_eq!(by_overhead, [SHRINKS, STAYS, STAYS, GROWS], "19, 22, 25 and 27 %");
        let of_five = [(196, 400), (200, 400)].map(|waited| decided(Target::Overhead(1.25), waited, none, none));
        assert_eq!(of_five, [SHRINKS, STAYS], "96 % and exactly 100 %, four fifths of the target");
    }

    #[test]
    fn the_limit_shrinks_only_where_the_past_and_the_present_are_cheap() {
        let wait = |cap: &mut UnlockedLimit, time: Duration| cap.unlocked(false, on_course(time - AROUND));
        for (past, present, units) in [(0, 10, 160), (60, 0, 160), (0, 0, 150)] {
            let mut cap = UnlockedLimit::new(16, 16, Target::Cap);
            cap.uses(1_000_000);
            cap.think(at(0));
            wait(&mut cap, Duration::from_secs(past).max(AROUND));
            cap.think(at(120_000));
            cap.now = 160;
            wait(&mut cap, Duration::from_millis(present).max(AROUND));
            cap.think(at(120_020));
            assert_eq!(cap.units(), units, "{past} s of 120, {present} ms of 20");
        }
    }

    #[test]
    fn it_is_thought_about_once_in_a_period() {
        let mut cap = UnlockedLimit::new(4, 4, Target::Cap);
        cap.uses(usize::MAX / 2);
        for millis in 0..1000 {
            cap.think(at(millis));
            cap.unlocked(true, on_course(Duration::from_millis(1)));
        }
        assert!((30..=50).contains(&cap.grown()), "{} times in 50 periods", cap.grown());
    }

    #[test]
    fn a_burst_is_no_reason_to_grow() {
        let mut cap = UnlockedLimit::new(4, 4, Target::Cap);
        cap.uses(1000);
        for burst in 0..20 {
            let now = periods(&mut cap, burst * 2000, 5, 1.0, true);
            periods(&mut cap, now, 95, 0.0, false);
        }
        assert_eq!(cap.grown(), 0, "100 ms of each 2 s");
    }

    #[test]
    fn more_room_is_not_given_where_it_does_not_help_unless_a_target_was_named() {
        let grown = |target| {
            let mut cap = UnlockedLimit::new(4, 4, target);
            cap.uses(1_000_000);
            periods(&mut cap, 0, 100, 0.5, false);
            cap.grown()
        };
        assert_eq!(grown(Target::Cap), 0);
        assert!(grown(Target::Overhead(0.2)) > 40);
        assert_eq!(grown(Target::Overhead(1.2)), 0, "half of the time is an overhead of 1");
    }

    #[test]
    fn interrupts_are_of_the_overhead_that_was_named_and_no_reason_for_more_room_otherwise() {
        let grown = |target| {
            let mut cap = UnlockedLimit::new(4, 4, target);
            cap.uses(1_000_000);
            for period in 0..400 {
                cap.think(at(20 * period));
                cap.unlocked(true, on_course((PERIOD / 10).saturating_sub(AROUND)));
                cap.interrupted(PERIOD / 10);
            }
            cap.grown()
        };
        assert!(grown(Target::Overhead(0.2)) > 40, "a tenth and a tenth of the time are an overhead of a quarter");
        assert_eq!((grown(Target::Overhead(0.3)), grown(Target::Cap)), (0, 0));
    }

    #[test]
    fn a_program_that_does_little_but_wait_gets_more_room_wherever_it_goes() {
        let mut cap = UnlockedLimit::new(100, 4, Target::Cap);
        cap.uses(1_000_000);
        periods(&mut cap, 0, 100, 0.9, false);
        assert!(cap.units() > 10_000, "{}", cap.units());
    }

    /// A program that waits less with more room: its working set has `needs` blocks. Returns the share of the time that
    /// it waited, and the mean limit.
    fn simulate(cap: &mut UnlockedLimit, needs: f64, periods: u32) -> (f64, f64) {
        let (mut waits, mut blocks) = (0.0, 0.0);
        for period in 0..periods {
            let size = f64::from(u32::try_from(cap.units()).unwrap());
            let share = (1.0 - size / needs).clamp(0.0, 0.9);
            (waits, blocks) = (waits + share, blocks + size);
            cap.think(at(20 * u64::from(period)));
            cap.unlocked(share > 0.0, on_course(PERIOD.mul_f64(share).saturating_sub(AROUND)));
        }
        (waits / f64::from(periods), blocks / f64::from(periods))
    }

    #[test]
    fn a_target_is_spent_and_kept() {
        for target in [0.05, 0.2, 0.5] {
            let mut cap = UnlockedLimit::new(16, 4, Target::Overhead(target));
            cap.uses(10_000);
            let (share, blocks) = simulate(&mut cap, 400.0, 10_000);
            let overhead = share / (1.0 - share);
            assert!((0.6 * target..1.2 * target).contains(&overhead), "{overhead} for {target}");
            assert!((16.0..500.0).contains(&blocks), "{blocks} where 400 spare all of it");
        }
    }

    #[test]
    fn a_program_whose_need_does_not_change_is_left_alone() {
        let mut cap = UnlockedLimit::new(16, 4, Target::Cap);
        cap.uses(1000);
        simulate(&mut cap, 40.0, 10_000);
        let grown = cap.grown();
        let (share, blocks) = simulate(&mut cap, 40.0, 30_000);
        assert!(share < 0.2 / 1.2 && blocks < 80.0, "{share} {blocks}");
        assert!(cap.grown() - grown < 100, "{}", cap.grown() - grown);
    }
}
