//! Allocations of other allocators.
//!
//! **Problem.** `free`, `realloc` and `malloc_usable_size` are ours for every library of a program, also for memory
//! from `__libc_malloc`, from a `malloc` that was looked up in the C library, or from a program's own allocator:
//! jemalloc would read data that it never wrote, and the program would crash. **Idea.** Memory in the range is ours;
//! beyond it are the few allocations that jemalloc makes outside, whose pages are recorded. All others go to the
//! allocator that would get them without us: the next function of that name. **Why this way.** The common case costs
//! nothing, and jemalloc keeps each page that it once had, so records are never removed.

#![allow(unsafe_code, reason = "calls the C library's allocator")]

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rampart_memory::PAGE_BYTES;

use crate::next::NextSymbol;

/// The most recorded pages: 64 MiB of small allocations at once.
const ROOM: usize = 1 << 14;

/// Pages in which an allocation of jemalloc's outside of the range began. Without locks: allocations are everywhere.
#[derive(Debug)]
pub(crate) struct JemallocPages {
    /// Page numbers, each in the first free place from its hash on; 0: free.
    noted: [AtomicUsize; ROOM],
    /// There was no room: any page may be one.
    overflowed: AtomicBool,
}

impl JemallocPages {
    pub(crate) const fn new() -> Self {
        Self { noted: [const { AtomicUsize::new(0) }; ROOM], overflowed: AtomicBool::new(false) }
    }

    /// Records an allocation at this address.
    pub(crate) fn note(&self, address: usize) {
        let page = address / PAGE_BYTES;
        for place in self.places(page) {
            match place.compare_exchange(0, page, Ordering::Relaxed, Ordering::Relaxed) {
                Err(other) if other != page => {}
                _ => return,
            }
        }
        self.overflowed.store(true, Ordering::Relaxed);
    }

    /// Whether an allocation of jemalloc's may begin here.
    pub(crate) fn may_hold(&self, address: usize) -> bool {
        let page = address / PAGE_BYTES;
        let noted = self.places(page).map(|place| place.load(Ordering::Relaxed)).take_while(|&noted| noted != 0);
        noted.into_iter().any(|noted| noted == page) || self.overflowed.load(Ordering::Relaxed)
    }

    /// The places of a page: only a few, so that a full table is slow for nobody.
    fn places(&self, page: usize) -> impl Iterator<Item = &AtomicUsize> {
        const TRIES: usize = 64;
        // Fibonacci hashing: neighbours are far apart.
        let first = page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - ROOM.ilog2());
        (0..TRIES).map(move |step| &self.noted[(first + step) % ROOM])
    }
}

// SAFETY: the signatures are those of free(3), realloc(3) and malloc_usable_size(3).
static FREE: NextSymbol<unsafe extern "C" fn(*mut c_void)> = unsafe { NextSymbol::named(c"free") };
// SAFETY: as above.
static REALLOC: NextSymbol<unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void> =
    unsafe { NextSymbol::named(c"realloc") };
// SAFETY: as above.
static USABLE: NextSymbol<unsafe extern "C" fn(*const c_void) -> usize> =
    unsafe { NextSymbol::named(c"malloc_usable_size") };

/// # Safety
/// As for the next allocator's `free`.
pub(crate) unsafe fn free(pointer: *mut c_void) {
    // SAFETY: guaranteed by the caller.
    unsafe { FREE.get()(pointer) };
}

/// # Safety
/// As for the next allocator's `realloc`.
pub(crate) unsafe fn resize(pointer: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: guaranteed by the caller.
    unsafe { REALLOC.get()(pointer, size) }
}

/// # Safety
/// As for the next allocator's `malloc_usable_size`.
pub(crate) unsafe fn usable_size(pointer: *const c_void) -> usize {
    // SAFETY: guaranteed by the caller.
    unsafe { USABLE.get()(pointer) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noted_pages_are_known_and_others_are_not() {
        let pages = Box::new(JemallocPages::new());
        let address = |page: usize| 0x7f00_0000_0000 + page * 3 * PAGE_BYTES;
        (0..1000).for_each(|page| pages.note(address(page) + 16));
        (0..1000).for_each(|page| pages.note(address(page) + 4000));
        assert!((0..1000).all(|page| pages.may_hold(address(page)) && !pages.may_hold(address(page) + PAGE_BYTES)));
        let noted = pages.noted.iter().filter(|noted| noted.load(Ordering::Relaxed) != 0).count();
        assert_eq!(noted, 1000, "each once");
    }

    #[test]
    fn where_there_is_no_room_anything_may_be_jemallocs() {
        let pages = Box::new(JemallocPages::new());
        (1..=2 * ROOM).for_each(|page| pages.note(page * PAGE_BYTES));
        assert!((1..=2 * ROOM).all(|page| pages.may_hold(page * PAGE_BYTES)) && pages.may_hold(usize::MAX));
    }
}
