//! Steps: how much an operation of an allocator with lists does, in tests.
//!
//! **Problem.** "It takes a bounded number of steps" is worth nothing if no test counts them. **Idea.** Whatever reads
//! or changes a list, the state of a frame or what a bank holds says so here. **Why this way.** An ordinary build
//! counts nothing, so the code that is counted is the code that runs. `FullestBank` has no lists, and counts the words
//! that it looks at.

/// What one step reads or changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// A list: one look at an end, one element added, removed or passed.
    List,
    /// The state of a frame, or how many retired frames are near.
    Frame,
    /// What a part of a bank or a set holds, or which pool it is in.
    Bank,
}

/// Counts a step.
#[inline]
#[cfg_attr(not(test), expect(clippy::missing_const_for_fn, reason = "in tests it counts"))]
pub fn step(step: StepKind) {
    #[cfg(test)]
    counted::add(step);
    #[cfg(not(test))]
    let _ = step;
}

#[cfg(test)]
pub mod counted {
    //! The counts of this thread.

    use core::cell::Cell;
    use core::ops::{Add, Mul};

    use super::StepKind;

    /// Steps of each kind.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Steps {
        pub lists: u64,
        pub frames: u64,
        pub banks: u64,
    }

    impl Steps {
        pub const fn new(lists: u64, frames: u64, banks: u64) -> Self {
            Self { lists, frames, banks }
        }

        /// Whether there are no more of any kind than in another count.
        pub const fn within(self, most: Self) -> bool {
            self.lists <= most.lists && self.frames <= most.frames && self.banks <= most.banks
        }

        /// Returns the larger count of each kind.
        pub fn max(self, other: Self) -> Self {
            Self::new(self.lists.max(other.lists), self.frames.max(other.frames), self.banks.max(other.banks))
        }
    }

    impl Add for Steps {
        type Output = Self;

        fn add(self, other: Self) -> Self {
            Self::new(self.lists + other.lists, self.frames + other.frames, self.banks + other.banks)
        }
    }

    impl Mul<Steps> for u64 {
        type Output = Steps;

        fn mul(self, steps: Steps) -> Steps {
            Steps::new(self * steps.lists, self * steps.frames, self * steps.banks)
        }
    }

    std::thread_local! {
        static COUNTS: Cell<Option<Steps>> = const { Cell::new(None) };
    }

    pub fn add(step: StepKind) {
        let Some(counts) = COUNTS.get() else { return };
        let one = match step {
            StepKind::List => Steps::new(1, 0, 0),
            StepKind::Frame => Steps::new(0, 1, 0),
            StepKind::Bank => Steps::new(0, 0, 1),
        };
        COUNTS.set(Some(counts + one));
    }

    /// Returns the steps of an operation on this thread, and its result.
    pub fn steps<T>(operation: impl FnOnce() -> T) -> (Steps, T) {
        COUNTS.set(Some(Steps::default()));
        let result = operation();
        (COUNTS.take().expect("it counted"), result)
    }
}
