//! Checks the invariants frame by frame, for tests: slow and complete.

use rampart_buddy::FramePlace;
use rampart_memory::{Frame, FrameState};

use super::SimulatedMachine;
use super::program::SHORT;
use crate::allocators::TestableAllocator;
use crate::frames::{Holder, short};

impl<A: TestableAllocator> SimulatedMachine<A> {
    /// Returns the state of every frame of the machine's memory.
    ///
    /// # Panics
    /// Without testing, because frames then have no states.
    #[must_use]
    pub fn states(&self) -> Vec<(Frame, FrameState)> {
        let testing = self.testing.as_ref().expect("a machine with testing");
        let memory = self.frames.iter().filter(|&(frame, _)| self.allocator.place(frame) != FramePlace::Absent);
        memory.map(|(frame, entry)| (frame, entry.state(testing.lifetime, self.now))).collect()
    }

    /// Checks that the allocator, the programs and the table of frames agree about every frame, that every accessible
    /// page has a good test, and that no bad frame is in use.
    ///
    /// # Panics
    /// If an invariant is violated.
    pub fn check(&self) {
        let mut used = 0;
        for (frame, entry) in self.frames.iter() {
            let place = self.allocator.place(frame);
            match entry.holder {
                Holder::Nobody => {
                    assert!(
                        matches!(place, FramePlace::Free(_) | FramePlace::Local | FramePlace::Absent),
                        "{frame} is free: {place:?}"
                    );
                }
                Holder::Tester => assert_eq!(place, FramePlace::Held, "{frame} is under test"),
                Holder::Failed => {
                    assert!(matches!(place, FramePlace::Retired | FramePlace::Held), "{frame} failed: {place:?}");
                }
                Holder::Program { program, slot, locked } => {
                    used += 1;
                    assert_eq!(place, FramePlace::Held, "{frame} is in use");
                    self.check_used(frame, program, slot);
                    if let Some(testing) = self.testing.filter(|testing| testing.migration) {
                        let fresh = testing.lifetime.is_fresh(entry.tested, self.now);
                        assert!(fresh || locked, "{frame} is in use and its test of {:?} has expired", entry.tested);
                    }
                }
            }
        }
        let held: usize = self.programs.iter().map(|program| program.held.len() + program.short.len()).sum();
        assert_eq!(used, held, "each frame in use is in the list of a program, once");
        if self.testing.is_some() {
            self.allocator.check(&self.tests());
        }
    }

    fn check_used(&self, frame: Frame, program: u16, slot: u32) {
        let program = &self.programs[usize::from(program)];
        let known = if slot == SHORT {
            program.short.contains(&short(frame))
        } else {
            program.held.get(slot as usize) == Some(&short(frame))
        };
        assert!(known, "{frame} is in the slot of {} that it says", program.name);
    }
}
