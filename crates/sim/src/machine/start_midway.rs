//! Starts programs in the middle of their run.
//!
//! **Problem.** Rahman's programs run for minutes or hours, and first fill their memory. A simulated minute that begins
//! with a launch shows little else, and with twelve programs, twelve launches at once. **Idea.** Start each program at
//! a uniformly random time of its run, with the memory that it has then and tests as old as they are then. **Why this
//! way.** A mean over a long run averages such windows, and launches occur in them as often as in a whole day.

use std::time::Duration;

use rampart_memory::{Tested, Timestamp};
use rand::RngExt;

use super::SimulatedMachine;
use super::program::{number_of, usize_of};
use crate::allocators::TestableAllocator;
use crate::frames::short;
use crate::workload::{Rates, WorkloadProgram};

/// The golden ratio's fraction: the fractional parts of its multiples are spread evenly, and so is any run of them.
const GOLDEN: f64 = 0.618_033_988_749_894_9;

impl<A: TestableAllocator> SimulatedMachine<A> {
    /// Starts a program as [`Self::start`] does, at a random time of its run.
    pub fn start_midway(&mut self, program: &WorkloadProgram, core: u32) {
        let rates = program.rates(self.description.speed, self.description.short_lived);
        self.start_midway_with(program.name, rates, core);
    }

    /// Starts a program with these rates, at a random time of its run. Its pages have tests as old as they are then.
    /// The statistics do not count these pages.
    pub fn start_midway_with(&mut self, name: &'static str, rates: Rates, core: u32) {
        self.start_with(name, rates, core);
        let at = self.programs.len() - 1;
        let progress = rates.seconds * self.random.random::<f64>();
        self.programs[at].progress = progress;
        let filled = usize_of((rates.filling * progress).min(rates.footprint as f64));
        for slot in 0..filled {
            let Some(frame) = self.allocate_any(core, self.programs[at].node) else {
                self.out_of_memory = true;
                return;
            };
            self.frames.get_mut(frame).tested = self.tested_before(held_for(&rates, progress, slot));
            self.programs[at].held.push(short(frame));
            self.hold(frame, number_of(at), u32::try_from(slot).expect("a footprint"));
        }
        // No program asked for the blocks taken off the lists here, so do not count them.
        self.drawn();
    }

    /// Returns the test of a page that was allocated `held` seconds ago.
    fn tested_before(&mut self, held: f64) -> Tested {
        let Some(testing) = self.testing else { return Tested::NEVER };
        let good_for = (testing.lifetime.lifetime() - testing.lifetime.delta()).as_secs_f64();
        let ago = if testing.recycling { held % good_for } else { self.age_of_reused(held, good_for) };
        let ago = Duration::from_secs_f64(ago);
        let ago = u64::try_from(ago.as_micros()).expect("less than a lifetime");
        Tested::at(Timestamp::from_micros(self.now.micros().saturating_sub(ago)))
    }

    /// Returns the age of a test without recycling. A freed page is given out again until its test expires, so a page's
    /// test is of any age with equal probability when the page is allocated, and so is that of the page that re-places
    /// it. For pages that are re-placed repeatedly, the time left of a test that may end at any time is the lesser of
    /// two such ages.
    fn age_of_reused(&mut self, held: f64, good_for: f64) -> f64 {
        let [one, other] = [(); 2].map(|()| good_for * self.random.random::<f64>());
        if one + held < good_for { one + held } else { one.max(other) }
    }
}

/// Returns how long ago the page in a slot was allocated, in seconds: since the slot was filled or, for a page that is
/// not held long, since its last replacement.
fn held_for(rates: &Rates, progress: f64, slot: usize) -> f64 {
    let since_filled = progress - slot as f64 / rates.filling;
    let replaced = rates.footprint.saturating_sub(rates.long_held) as f64;
    if (slot as u64) < rates.long_held || rates.replaced <= 0.0 {
        return since_filled;
    }
    let share = (slot as f64 * GOLDEN).fract();
    let since_replaced = -(1.0 - share).ln() * replaced / rates.replaced;
    since_filled.min(since_replaced)
}

#[cfg(test)]
mod tests {
    use rampart_memory::{Fidelity, TestLifetime};

    use super::*;
    use crate::{Access, Description, Testing};

    /// Returns the mean age in seconds of the tests of a program's pages. It holds each for a second; the lifetime is
    /// 20.
    fn mean_age(recycling: bool) -> f64 {
        let testing = Testing {
            lifetime: TestLifetime::new(Duration::from_secs(20), Duration::from_secs(2)).unwrap(),
            access: Access::CacheIndirect,
            on_demand: Fidelity::MIN,
            recycling,
            core_local: true,
            migration: true,
        };
        let rates = Rates {
            seconds: 1e6,
            footprint: 4000,
            long_held: 0,
            filling: 4000.0,
            replaced: 4000.0,
            short_lived: 0.0,
            swing: 0.0,
            memory: 0.1,
        };
        let start = Timestamp::from_micros(1_000_000_000);
        let description = Description::small(1, 8192, 1, Duration::from_millis(1));
        let mut machine = SimulatedMachine::new(description, Some(testing), 1, start);
        machine.start_midway_with("one", rates, 0);
        let held = &machine.programs[0].held;
        let age = |&number: &u32| machine.frames.get(crate::frames::long(number)).tested.moment();
        let ages = held.iter().map(|number| start.since(age(number).expect("tested")).as_secs_f64());
        ages.sum::<f64>() / held.len() as f64
    }

    #[test]
    fn a_page_is_freshly_tested_when_it_is_taken_only_with_recycling() {
        let (with, without) = (mean_age(true), mean_age(false));
        assert!((with - 1.0).abs() < 0.1, "{with}: as long as it is held");
        assert!((9.0..11.0).contains(&without), "{without}: half of the 18 s that a test is good for, and more");
    }
}
