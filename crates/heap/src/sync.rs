//! The locks, flags and threads of what runs in parallel: those of the machine, or those of a checker.
//!
//! **Problem.** A test on threads sees a few of the many orders in which they can run. **Idea.** Shuttle runs a small
//! test in very many orders; it brings locks and threads of its own. ThreadSanitizer finds accesses that nothing
//! orders, but does not see what the compiled standard library orders inside: so for it (`--cfg tsan`), a lock tells
//! its order once more. **Why this way.** The code that is checked is the code that runs.

#[cfg(not(shuttle))]
use std::sync as threads;

#[cfg(shuttle)]
use shuttle::sync as threads;

use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;

#[cfg(not(shuttle))]
pub(crate) use std::{hint::spin_loop, thread};

#[cfg(shuttle)]
pub(crate) use shuttle::{hint::spin_loop, thread};

pub(crate) use threads::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Starts a thread of a scope.
///
/// # Errors
/// If the system gives no more threads.
#[cfg(not(shuttle))]
pub(crate) fn spawn_scoped<'scope, T: Send + 'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    run: impl FnOnce() -> T + Send + 'scope,
) -> std::io::Result<thread::ScopedJoinHandle<'scope, T>> {
    thread::Builder::new().spawn_scoped(scope, run)
}

/// The same in Shuttle, where a thread can always be started.
#[cfg(shuttle)]
#[expect(clippy::unnecessary_wraps, reason = "as the other")]
pub(crate) fn spawn_scoped<'scope, T: Send + 'static>(
    scope: &'scope thread::Scope<'scope, '_>,
    run: impl FnOnce() -> T + Send + 'scope,
) -> std::io::Result<thread::ScopedJoinHandle<'scope, T>> {
    Ok(scope.spawn(run))
}

/// A lock. What it protects is whole between any two statements, so a thread that panics spoils nothing.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T> {
    lock: threads::Mutex<T>,
    #[cfg(tsan)]
    order: AtomicUsize,
}

/// What a lock protects, while it is held.
pub(crate) struct MutexGuard<'a, T> {
    /// `None` only while it waits.
    held: Option<threads::MutexGuard<'a, T>>,
    #[cfg(tsan)]
    order: &'a AtomicUsize,
}

/// Waits for a change of what a lock protects.
#[derive(Debug, Default)]
pub(crate) struct Condvar(threads::Condvar);

impl<T> Mutex<T> {
    pub fn new(value: T) -> Self {
        Self {
            lock: threads::Mutex::new(value),
            #[cfg(tsan)]
            order: AtomicUsize::new(0),
        }
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let guard = MutexGuard {
            held: Some(self.lock.lock().unwrap_or_else(PoisonError::into_inner)),
            #[cfg(tsan)]
            order: &self.order,
        };
        guard.acquire();
        guard
    }

    /// What it protected.
    pub fn into_inner(self) -> T {
        self.lock.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> MutexGuard<'_, T> {
    #[inline]
    fn acquire(&self) {
        #[cfg(tsan)]
        self.order.fetch_add(1, Ordering::Acquire);
    }

    #[inline]
    fn release(&self) {
        #[cfg(tsan)]
        self.order.fetch_add(1, Ordering::Release);
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.held.as_ref().expect("it is held")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_mut().expect("it is held")
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.release();
    }
}

impl Condvar {
    /// Waits as long as a condition holds.
    pub fn wait_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        while condition(&mut guard) {
            guard.release();
            let held = guard.held.take().expect("it is held");
            guard.held = Some(self.0.wait(held).unwrap_or_else(PoisonError::into_inner));
            guard.acquire();
        }
        guard
    }

    /// Wakes all that wait.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// A place at which another thread may go on: the words of objects belong to no checker.
#[inline]
pub(crate) fn interleave() {
    #[cfg(shuttle)]
    AtomicBool::new(false).load(Ordering::SeqCst);
}
