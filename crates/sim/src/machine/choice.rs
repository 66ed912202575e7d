//! Which allocator a machine has.

use rampart_buddy::{AdaptiveBuddy, BankSets, Buddy, FullestBank, FullestSlices, StealRule};
use rampart_memory::{Tested, Timestamp};

use super::{Description, SimulatedMachine, Testing};
use crate::allocators::{ByBank, ByLists, TestableAllocator};

/// The allocator of a simulated machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MachineAllocator {
    /// The buddy system of Linux: lists and marks, no banks.
    #[default]
    Buddy,
    /// Adaptive-Buddy: a buddy system for each of three pools of banks [Panwar15, 4.2].
    Adaptive,
    /// Rampart's own, which fills the fullest bank first.
    Fullest,
}

/// What is done with a machine, whichever allocator it has.
pub trait MachineUser {
    /// What comes of it.
    type Outcome;

    /// Uses the machine.
    fn with<A: TestableAllocator>(self, machine: SimulatedMachine<A>) -> Self::Outcome;
}

impl MachineAllocator {
    /// All.
    pub const ALL: [Self; 3] = [Self::Buddy, Self::Adaptive, Self::Fullest];

    /// Returns its name, as on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Buddy => "buddy",
            Self::Adaptive => "adaptive",
            Self::Fullest => "fullest",
        }
    }

    /// Hands a machine with this allocator to `user`. The machine lives no longer, as its allocator may borrow its
    /// memory. The rest is as for [`SimulatedMachine::with_allocator`].
    ///
    /// # Panics
    /// If the description is not of a machine that can be.
    pub fn machine<U: MachineUser>(
        self,
        description: Description,
        testing: Option<Testing>,
        seed: u64,
        now: Timestamp,
        user: U,
    ) -> U::Outcome {
        const POSSIBLE: &str = "a description is of a machine that can be";
        let Description { zones, cpus, bank, .. } = &description;
        match self {
            Self::Buddy => {
                let buddy = Buddy::new(zones, *cpus, Tested::NEVER).expect(POSSIBLE);
                let lists = ByLists::new(buddy);
                user.with(SimulatedMachine::with_allocator(lists, description, testing, seed, now))
            }
            Self::Adaptive => {
                let adaptive = AdaptiveBuddy::new(zones, *bank, &BankSets::plain(), StealRule::MostFree);
                let banks = ByBank::new(adaptive.expect(POSSIBLE), zones, *bank);
                user.with(SimulatedMachine::with_allocator(banks, description, testing, seed, now))
            }
            Self::Fullest => {
                let mut slices = FullestSlices::of(zones, *cpus, *bank);
                let mut vacant = slices.vacant_zones();
                let memory = slices.lend(&mut vacant);
                let fullest = FullestBank::new(zones, *cpus, *bank, &BankSets::plain(), memory).expect(POSSIBLE);
                let banks = ByBank::new(fullest, zones, *bank);
                user.with(SimulatedMachine::with_allocator(banks, description, testing, seed, now))
            }
        }
    }
}
