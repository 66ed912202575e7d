//! The atomics and the lock of the allocator: those of the machine, or those of a checker.
//!
//! **Problem.** A test on threads sees a few of the many orders in which they can run. **Idea.** Loom runs a small test
//! in every order, and Shuttle a larger one in very many; each brings atomics and threads of its own. **Why this way.**
//! All of the allocator takes its atomics from here, so the code that is checked is the code that runs. An ordinary
//! build compiles neither checker. Ordinary tests have atomics that count.

#[cfg(all(test, not(any(loom, shuttle))))]
pub use super::counted::{AtomicI32, AtomicI64, AtomicU32, AtomicU64, CountedMutex as SpinMutex};
#[cfg(not(any(loom, shuttle)))]
pub use core::hint::spin_loop;
#[cfg(not(any(test, loom, shuttle)))]
pub use core::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, AtomicU64};
#[cfg(loom)]
pub use loom::{
    hint::spin_loop,
    sync::atomic::{AtomicI32, AtomicI64, AtomicU32, AtomicU64},
};
#[cfg(shuttle)]
pub use shuttle::{
    hint::spin_loop,
    sync::atomic::{AtomicI32, AtomicI64, AtomicU32, AtomicU64},
};

pub use core::sync::atomic::Ordering;

#[cfg(any(loom, shuttle))]
pub use checked::SpinMutex;
#[cfg(not(any(test, loom, shuttle)))]
pub use spin::mutex::SpinMutex;

/// The mutex of a checker in the shape of the spin lock.
#[cfg(any(loom, shuttle))]
mod checked {
    #[cfg(loom)]
    use loom::sync::{Mutex, MutexGuard};
    #[cfg(shuttle)]
    use shuttle::sync::{Mutex, MutexGuard};

    /// A lock.
    #[derive(Debug, Default)]
    pub struct SpinMutex<T>(Mutex<T>);

    impl<T> SpinMutex<T> {
        /// Waits for the lock.
        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("no thread has panicked")
        }

        /// Takes the lock if nobody has it.
        pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
    }
}
