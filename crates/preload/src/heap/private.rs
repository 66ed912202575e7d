//! Memory that is not the program's: the guard's own, outside of the range.
//!
//! **Problem.** A thread of the guard that touches a locked page waits for itself, forever. So none of its allocations
//! may be in the range, including those that the C library makes for it: the table of its thread-local variables when
//! it starts, a larger one after `dlopen`. **Idea.** Such a thread is bound to the arena outside and has no cache,
//! through which memory that it frees could come back to it. Then its `malloc` is right without a check of the caller;
//! only the slow path, for allocations outside, asks this module whether that was intended. **Why this way.** It costs
//! the program's threads nothing, and needs no thread-local variable of our own, which would need a call into the
//! dynamic loader.

#![allow(unsafe_code, reason = "a global allocator; calls C")]

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::{c_int, c_uint};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};

use tikv_jemalloc_sys as je;

use crate::error::Error;

use super::jemalloc;

/// The private threads, by the address of their control block; 0: none.
static THREADS: [AtomicUsize; 64] = [const { AtomicUsize::new(0) }; 64];

/// While it lives, the thread that created it allocates outside of the range.
///
/// A thread of the guard creates one first and drops it last, or forgets it if it lives as long as the process. A
/// thread that *starts* such a thread holds one too, because the C library allocates a new thread's tables in the
/// thread that starts it. Earlier allocations in the range can be freed meanwhile, without being touched.
#[derive(Debug)]
pub struct Outside {
    before: Option<Before>,
    /// It belongs to a thread, and must be dropped there.
    not_send: PhantomData<*const ()>,
}

/// A thread's settings before it was private, and its place in the table.
#[derive(Debug)]
struct Before {
    slot: usize,
    arena: c_uint,
    cached: bool,
}

impl Outside {
    /// Makes the calling thread private. If it already is, this does nothing, and so does dropping it.
    ///
    /// # Errors
    /// [`Error::TooManyPrivate`] if 64 threads are.
    pub fn enter() -> Result<Self, Error> {
        let not_send = PhantomData;
        if is_private() {
            return Ok(Self { before: None, not_send });
        }
        let take =
            |slot: &AtomicUsize| slot.compare_exchange(0, this_thread(), Ordering::Relaxed, Ordering::Relaxed).is_ok();
        let slot = THREADS.iter().position(take).ok_or(Error::TooManyPrivate(THREADS.len()))?;
        let arena = jemalloc::thread_arena().unwrap_or(jemalloc::OUTSIDE);
        let cached = jemalloc::set_thread_cache(false).unwrap_or(false);
        assert!(jemalloc::set_thread_arena(jemalloc::OUTSIDE), "the first arena is always there");
        Ok(Self { before: Some(Before { slot, arena, cached }), not_send })
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let Some(before) = &self.before else { return };
        assert!(jemalloc::set_thread_arena(before.arena), "the arena was this thread's");
        if before.cached {
            jemalloc::set_thread_cache(true);
        }
        THREADS[before.slot].store(0, Ordering::Relaxed);
    }
}

/// Whether the calling thread is private.
pub(crate) fn is_private() -> bool {
    let this = this_thread();
    // A thread finds its own entry or none: entries of others never equal its own, whenever they come and go.
    THREADS.iter().any(|thread| thread.load(Ordering::Relaxed) == this)
}

/// After a fork only the calling thread is left: forgets the others, whose control blocks new threads will get.
pub(crate) fn forget_other_threads() {
    let this = this_thread();
    for thread in &THREADS {
        let _ = thread.try_update(Ordering::Relaxed, Ordering::Relaxed, |noted| (noted != this).then_some(0));
    }
}

fn this_thread() -> usize {
    // SAFETY: it reads a register, and cannot fail.
    let thread = unsafe { libc::pthread_self() };
    usize::try_from(thread).expect("it is an address")
}

/// The allocator of this library's own Rust code: never in the range, on any thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Private;

// SAFETY: jemalloc gives each allocation `size` bytes of its own with the alignment in the flags, and keeps them until
// they are freed; it never unwinds. A `Layout` has a size of at least 1 here and a power of two as alignment.
unsafe impl GlobalAlloc for Private {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the size is not zero, as the caller guarantees.
        unsafe { je::mallocx(layout.size(), flags(layout)).cast() }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as in `alloc`.
        unsafe { je::mallocx(layout.size(), flags(layout) | je::MALLOCX_ZERO).cast() }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, _: Layout) {
        // SAFETY: it came from `alloc`, as the caller guarantees.
        unsafe { jemalloc::free_uncached(pointer.cast()) };
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: it came from `alloc`, and the size is not zero, as the caller guarantees.
        unsafe { je::rallocx(pointer.cast(), size, flags(layout)).cast() }
    }
}

fn flags(layout: Layout) -> c_int {
    jemalloc::FROM_OUTSIDE | je::MALLOCX_ALIGN(layout.align())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_forgets_the_threads_that_it_did_not_get() {
        // The table is the process' own, so this happens in a child, as it would.
        // SAFETY: the child calls nothing but what the parent could interrupt anywhere: loads, stores, and `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let slots = (&THREADS[62], &THREADS[63]);
            slots.0.store(this_thread(), Ordering::Relaxed);
            slots.1.store(1, Ordering::Relaxed);
            forget_other_threads();
            let right = is_private() && slots.1.load(Ordering::Relaxed) == 0;
            // SAFETY: it ends the child, which shares nothing that wants tidying.
            unsafe { libc::_exit(i32::from(!right)) };
        }
        let mut status = 0;
        // SAFETY: the child is ours and the place too.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "the child kept itself and no other");
    }
}
