//! Threads that the C library does not count.
//!
//! **Problem.** A process whose `main` has called `pthread_exit`, or that was forked by a thread other than the first,
//! ends with its last thread: glibc counts threads, and the last one calls `exit` (pthread_exit(3)). The guard's
//! threads never end, so such a process would not either. **Idea.** They are removed from that count,
//! `__nptl_nthreads`, which glibc exports for debuggers. **Why this way.** The last thread of the program then ends the
//! process as without a guard, itself: its files are open, and its handlers of `atexit` run where they should. A C
//! library that does not export the count is left alone.

#![allow(unsafe_code, reason = "a variable of the C library")]

use std::sync::atomic::{AtomicU32, Ordering};

/// While it lives, the thread that created it is not counted.
pub struct Uncounted(Option<&'static AtomicU32>);

impl Uncounted {
    /// Takes the calling thread out of the count.
    pub fn enter() -> Self {
        // SAFETY: the name ends in zero. What is found is an `unsigned int` as long as the C library is there (glibc,
        // nptl/nptl-stack.h), and all changes of it are atomic.
        let count =
            unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__nptl_nthreads".as_ptr()).cast::<AtomicU32>().as_ref() };
        if let Some(count) = count {
            count.fetch_sub(1, Ordering::Relaxed);
        }
        Self(count)
    }
}

impl Drop for Uncounted {
    fn drop(&mut self) {
        if let Some(count) = self.0 {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}
