//! Keeps age + δ < lifetime for frames in use, by migration, tests in place and locks [Rahman16, 4.1.2, 4.1.6].

use std::time::Duration;

use rampart_memory::{Frame, RePlacementCounts, Tested, Timestamp};

use super::SimulatedMachine;
use super::program::SHORT;
use crate::allocators::TestableAllocator;
use crate::frames::{FrameEntry, Holder, long, short};

/// A frame in use is re-placed this long before it expires, unless re-placements pile up.
const LEAD_TIME: Duration = Duration::from_secs(1);

impl<A: TestableAllocator> SimulatedMachine<A> {
    /// Queues the frames that expire by `until`, the soonest first. Returns the counts of re-placements since the last
    /// call.
    pub(super) fn re_place_before(&mut self, until: Timestamp) -> RePlacementCounts {
        let Some(testing) = self.testing.filter(|testing| testing.migration) else {
            return RePlacementCounts::default();
        };
        let mut due = std::mem::take(&mut self.due);
        self.wheel.take(until, &mut due);
        let mut soon: Vec<(Timestamp, u32)> = Vec::new();
        for number in due.drain(..) {
            let entry = self.frames.get(long(number));
            let Holder::Program { locked: false, .. } = entry.holder else { continue };
            let expiry = testing.lifetime.expiry(entry.tested);
            if expiry > until {
                self.wheel.add(expiry, number);
            } else {
                soon.push((expiry, number));
            }
        }
        soon.sort_unstable();
        // A frame that was tested long before it was given out may expire before others that were queued earlier. It
        // stays where expired frames are looked for, as it is not found at the front of the queue.
        let latest = self.expiring.iter().map(|&(expiry, _)| expiry).max();
        for &(expiry, number) in soon.iter().take_while(|&&(expiry, _)| Some(expiry) < latest) {
            self.wheel.add(expiry, number);
        }
        self.expiring.extend(soon);
        self.due = due;
        std::mem::take(&mut self.re_placed)
    }

    /// Re-places queued frames that are about to expire, for one quantum: one kernel thread does this beside the
    /// programs. Frames that expire later wait: to re-place them all at once would take more tested frames than there
    /// are, and the rest would need tests on demand.
    pub(super) fn run_re_placement(&mut self, seconds: f64) {
        self.re_placement_time = (self.re_placement_time + seconds).min(seconds);
        let soon = self.now.after(LEAD_TIME);
        while self.re_placement_time > 0.0
            && let Some((expiry, number)) = self.expiring.pop_front_if(|(expiry, _)| *expiry <= soon)
        {
            let entry = self.frames.get(long(number));
            let Holder::Program { program, slot, locked: false } = entry.holder else { continue };
            let is_this_test = self.testing.is_some_and(|testing| testing.lifetime.expiry(entry.tested) == expiry);
            if is_this_test {
                self.re_placement_time -= self.re_place(long(number), program, slot);
            }
        }
    }

    /// Gives a program a frame with a new test in place of one that expires. Returns the cost in seconds.
    fn re_place(&mut self, old: Frame, program: u16, slot: u32) -> f64 {
        let (core, node) = (self.programs[usize::from(program)].core, self.programs[usize::from(program)].node);
        let given = if slot == SHORT { None } else { self.allocate(core, node) };
        let cost = match given {
            Some(given) => {
                self.exchange(program, slot, given.frame);
                self.frames.get_mut(old).tested = Tested::NEVER;
                self.release(old, core);
                self.statistics.migrated += 1;
                self.re_placed.migrated += u64::from(!given.on_demand);
                self.re_placed.migrated_on_demand += u64::from(given.on_demand);
                given.cost + self.description.costs.migration.as_secs_f64()
            }
            None => {
                let good = self.test_in_place(old);
                self.re_placed.in_place += u64::from(good);
                self.in_place_cost()
            }
        };
        self.programs[usize::from(program)].debt += self.description.costs.touched * cost;
        cost
    }

    fn in_place_cost(&self) -> f64 {
        // The content is saved, the frame is tested, and the content is copied back.
        self.on_demand_wait() + 2.0 * self.description.costs.migration.as_secs_f64()
    }

    /// Tests a frame that its program cannot access meanwhile, and returns whether it is good. A bad frame stays
    /// locked, and its program cannot continue: memory has run out, or the page would have been moved.
    fn test_in_place(&mut self, frame: Frame) -> bool {
        let patterns = self.testing.as_ref().map_or(0, |testing| testing.on_demand.patterns());
        if !self.passes(frame, patterns) {
            self.lock(frame);
            self.out_of_memory = true;
            return false;
        }
        self.statistics.in_place += 1;
        self.statistics.on_demand += 1;
        let now = self.now;
        let entry = self.frames.get_mut(frame);
        entry.tested = Tested::at(now);
        if let Holder::Program { locked, .. } = &mut entry.holder {
            *locked = false;
        }
        self.record_expiry(frame);
        true
    }

    fn record_expiry(&mut self, frame: Frame) {
        if let Some(testing) = &self.testing {
            self.wheel.add(testing.lifetime.expiry(self.frames.get(frame).tested), short(frame));
        }
    }

    /// Locks the frames in use that have expired.
    pub(super) fn lock_expired(&mut self) {
        let Some(testing) = self.testing.filter(|testing| testing.migration) else { return };
        let mut due = std::mem::take(&mut self.due);
        while let Some(&(expiry, number)) = self.expiring.front()
            && expiry <= self.now
        {
            self.expiring.pop_front();
            due.push(number);
        }
        self.wheel.take(self.now, &mut due);
        for number in due.drain(..) {
            let FrameEntry { tested, holder } = self.frames.get(long(number));
            let Holder::Program { locked: false, .. } = holder else { continue };
            if testing.lifetime.is_fresh(tested, self.now) {
                self.wheel.add(testing.lifetime.expiry(tested), number);
            } else {
                self.lock(long(number));
            }
        }
        self.due = due;
    }

    fn lock(&mut self, frame: Frame) {
        if let Holder::Program { program, locked, .. } = &mut self.frames.get_mut(frame).holder {
            *locked = true;
            let program = usize::from(*program);
            self.programs[program].locked.push(short(frame));
            self.statistics.locked += 1;
            self.re_placed.locked += 1;
        }
    }

    /// Tests in place the locked frames that a program touches as it continues, while it has time.
    pub(super) fn unlock_touched(&mut self, at: usize, seconds: f64) {
        while self.programs[at].debt < seconds
            && let Some(number) = self.programs[at].locked.pop()
        {
            let holder = self.frames.get(long(number)).holder;
            let is_own = matches!(holder, Holder::Program { program, locked: true, .. } if usize::from(program) == at);
            if is_own {
                self.programs[at].debt += self.in_place_cost();
                if !self.test_in_place(long(number)) {
                    return;
                }
            }
        }
    }

    /// Forgets the tests of all frames.
    pub(super) fn forget_tests(&mut self) {
        if self.testing.is_none() {
            return;
        }
        self.frames.forget();
        self.allocator.forget();
        self.wheel.clear();
        self.expiring.clear();
        let used: Vec<Frame> =
            self.frames.iter().filter(|(_, entry)| is_reachable(*entry)).map(|(frame, _)| frame).collect();
        let migration = self.testing.as_ref().is_some_and(|testing| testing.migration);
        if migration {
            used.into_iter().for_each(|frame| self.lock(frame));
        }
    }
}

const fn is_reachable(entry: FrameEntry) -> bool {
    matches!(entry.holder, Holder::Program { locked: false, .. })
}
