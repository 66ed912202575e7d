//! The program's heap: jemalloc's arenas on one range.
//!
//! **Problem.** Every allocation of an unmodified program must be in the range, from the first on, and `malloc` must be
//! as fast as without us. **Idea.** Each thread is bound to an arena whose memory comes from the range by its hooks.
//! `malloc` calls jemalloc and then checks the *result*: in the range, done. Only other results take the slow path,
//! `Heap::settle`: the heap is not started, the thread is new and not bound yet, the thread is one of the guard's, or
//! memory is out. **Why this way.** The fast path costs two comparisons, and the guarantee is checked for each address
//! that a program gets, whatever the state of its thread.
//!
//! One exception is left: jemalloc serves a thread at its very end, in destructors of thread-specific data that run
//! after jemalloc's own (pthread_key_create(3)), from its first arena in any case. Such memory is outside, and counted.
//!
//! The first allocation of a process comes before any constructor, from the loader or from another library's
//! constructor, when the C library cannot start a thread yet. It reserves the range by system calls only; work that
//! needs a complete C library waits for the constructor. So no memory of the program is outside the range, however
//! early it came.
//!
//! Memory outside is freed past the thread's cache, so that it never comes back to a thread that should be inside.

#![allow(unsafe_code, reason = "hands out raw memory")]

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use rampart_memory::{Bytes, PAGE_BYTES};
use rustix::thread::sched_getaffinity;
use tikv_jemalloc_sys as je;

use crate::error::Error;
use crate::messages::say;

use super::backing::{BackingSpan, GRANULE, HeapBacking, bytes};
use super::foreign::{self, JemallocPages};
use super::hooks::HookedRange;
use super::jemalloc::{self, free_uncached, in_arena};
use super::private::is_private;
use super::range_size::range_size;

/// The smallest range for a heap, if the process may not have more addresses.
pub const LEAST_RANGE: Bytes = Bytes::from_mib(8);

/// A message that the user gets once.
const FULL: &str = "rampart: the range of the heap is full, since the process may have no more addresses (ulimit -v): what is \
                    allocated from now on is not guarded\n";

/// The most arenas; more threads than that share them.
const MOST_ARENAS: usize = 64;

/// A heap, also before it is started. Its address identifies it: it lives forever and never moves.
pub struct Heap {
    hooked: HookedRange,
    state: AtomicU8,
    /// Arenas by index, created when a thread needs one; 0: not yet.
    arenas: [AtomicU32; MOST_ARENAS],
    /// The number of arenas in use.
    places: AtomicU32,
    threads: AtomicU32,
    outside: AtomicU64,
    /// The pages of allocations outside.
    pages: JemallocPages,
    /// Whether memory without room in the range is served outside.
    overflows: AtomicBool,
    /// The arena for that, which the guard does not use itself. 0: not created yet.
    beside: AtomicU32,
    /// Whether that was printed.
    is_full: AtomicBool,
}

/// The usage of a heap: bytes of live allocations and of the range; see each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The range. Zero: the heap was not started, or could not be.
    pub range: Bytes,
    /// The part of it, from its start, that was ever used: the most that the heap can have had at once.
    pub cut: Bytes,
    /// Live allocations now, rounded up as jemalloc does.
    pub allocated: Bytes,
    /// Allocations of the program that are not in the range: all if the heap could not be started, and those of a
    /// thread whose jemalloc state is gone already (see the module). Those of the guard's own threads do not count.
    pub outside: u64,
}

/// Bytes of an allocation for which an arena may need addresses of its own.
const LARGE: usize = 1 << 20;

const NEW: u8 = 0;
const STARTING: u8 = 1;
const READY: u8 = 2;
const FAILED: u8 = 3;

impl Heap {
    /// A heap on `backing`, not started: until then it serves memory outside.
    pub const fn new(backing: &'static dyn HeapBacking) -> Self {
        Self {
            hooked: HookedRange::new(backing),
            state: AtomicU8::new(NEW),
            arenas: [const { AtomicU32::new(0) }; MOST_ARENAS],
            places: AtomicU32::new(1),
            threads: AtomicU32::new(0),
            outside: AtomicU64::new(0),
            pages: JemallocPages::new(),
            overflows: AtomicBool::new(false),
            beside: AtomicU32::new(0),
            is_full: AtomicBool::new(false),
        }
    }

    /// From now on memory without room in the range is served outside: the range is smaller than a program may need.
    fn overflow(&self) {
        self.overflows.store(true, Ordering::Relaxed);
    }

    /// Memory outside for an allocation without room in the range, if that is allowed; null if there is none either.
    fn serve_outside(&self, size: usize, flags: c_int) -> *mut c_void {
        if !self.overflows.load(Ordering::Relaxed) {
            return ptr::null_mut();
        }
        let Some(arena) = self.arena_beside() else { return ptr::null_mut() };
        // SAFETY: the size asked for is not zero; the flags hold an alignment that is a power of two, if any.
        let served = unsafe { je::mallocx(size.max(1), flags | in_arena(arena) | je::MALLOCX_TCACHE_NONE) };
        if !served.is_null() && !self.is_full.swap(true, Ordering::Relaxed) {
            say(FULL);
        }
        served
    }

    /// Starts the heap as the environment requests. If that fails, prints why and goes on outside: the program matters
    /// more.
    pub(crate) fn begin(&'static self) {
        let started = range_size(self.hooked.backing.parts()).and_then(|size| {
            if size.is_limited {
                self.overflow();
            }
            self.start(size.bytes)
        });
        if let Err(why) = started {
            self.fail();
            say(&format!("rampart: the heap is not guarded: {why}\n"));
        }
    }

    /// Reserves the range: `bytes`, rounded down to [`GRANULE`], or half of it, or half of that, as the process' limits
    /// allow. A second call, even by an allocation from within, does nothing.
    ///
    /// # Errors
    /// [`Error::Reserve`] if there is no room even for [`LEAST_RANGE`]; the heap then serves memory outside for good.
    pub fn start(&'static self, bytes: Bytes) -> Result<(), Error> {
        if self.state.compare_exchange(NEW, STARTING, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return Ok(());
        }
        let mut wanted = bytes.round_down(GRANULE).max(LEAST_RANGE);
        let reserved = loop {
            match self.hooked.backing.reserve(wanted) {
                Ok(start) => break Ok(BackingSpan { start, bytes: wanted }),
                Err(refused) if wanted == LEAST_RANGE => break Err(refused),
                Err(_) => wanted = Bytes::new(wanted.get() / 2).round_down(GRANULE).max(LEAST_RANGE),
            }
        };
        self.places.store(places(), Ordering::Relaxed);
        let outcome = reserved.map(|span| self.hooked.range.set(span));
        self.state.store(if outcome.is_ok() { READY } else { FAILED }, Ordering::Release);
        outcome
    }

    /// Whether nobody has tried to start the heap.
    pub(crate) fn is_new(&self) -> bool {
        self.state.load(Ordering::Relaxed) == NEW
    }

    /// Gives up: the heap serves memory outside for good, unless it was started.
    fn fail(&self) {
        let _ = self.state.compare_exchange(NEW, FAILED, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The range, once the heap is started.
    #[must_use]
    pub fn range(&self) -> Option<BackingSpan> {
        self.hooked.range.span()
    }

    /// The part of the range that was ever used; `None` before the heap is started.
    #[must_use]
    pub fn used(&self) -> Option<BackingSpan> {
        self.range().map(|span| BackingSpan { start: span.start, bytes: bytes(self.hooked.range.cut_length()) })
    }

    /// Whether an address is in the range.
    #[inline]
    #[must_use]
    pub fn owns(&self, pointer: *const c_void) -> bool {
        self.hooked.range.contains(pointer.addr())
    }

    /// The page of the range that an address is in.
    #[cfg(not(test))]
    #[inline]
    pub(crate) fn page_of(&self, pointer: *const c_void) -> Option<usize> {
        self.hooked.range.offset_of(pointer.addr()).map(|offset| offset / PAGE_BYTES)
    }

    /// The usage so far.
    #[must_use]
    pub fn usage(&self) -> Usage {
        Usage {
            range: bytes(self.hooked.range.length()),
            cut: bytes(self.hooked.range.cut_length()),
            allocated: bytes(jemalloc::allocated_inside()),
            outside: self.outside.load(Ordering::Relaxed),
        }
    }

    /// `malloc`.
    #[inline]
    pub fn allocate(&'static self, size: usize) -> *mut c_void {
        self.prepare(size);
        // SAFETY: any size may be asked for.
        let pointer = unsafe { je::malloc(size) };
        if self.owns(pointer) { pointer } else { self.settle(pointer, size, 0) }
    }

    /// `calloc` of one object.
    #[inline]
    pub fn allocate_zeroed(&'static self, size: usize) -> *mut c_void {
        self.prepare(size);
        // SAFETY: any size may be asked for.
        let pointer = unsafe { je::calloc(1, size) };
        if self.owns(pointer) { pointer } else { self.settle(pointer, size, je::MALLOCX_ZERO) }
    }

    /// `aligned_alloc`; the alignment is a power of two.
    pub fn allocate_aligned(&'static self, alignment: usize, size: usize) -> *mut c_void {
        debug_assert!(alignment.is_power_of_two(), "the entry points see to it");
        self.prepare(size);
        let flags = je::MALLOCX_ALIGN(alignment);
        // SAFETY: the size is not zero and the alignment a power of two.
        let pointer = unsafe { je::mallocx(size.max(1), flags) };
        if self.owns(pointer) { pointer } else { self.settle(pointer, size, flags) }
    }

    /// `free`.
    ///
    /// # Safety
    /// As for `free`.
    #[inline]
    pub unsafe fn release(&self, pointer: *mut c_void) {
        // SAFETY: guaranteed by the caller, in each case.
        unsafe {
            if self.owns(pointer) {
                je::free(pointer);
            } else if self.is_foreign(pointer) {
                foreign::free(pointer);
            } else if !pointer.is_null() {
                free_uncached(pointer);
            }
        }
    }

    /// `realloc`. As the C library does, it frees an allocation that is resized to nothing.
    ///
    /// # Safety
    /// As for `realloc`.
    pub unsafe fn resize(&'static self, pointer: *mut c_void, size: usize) -> *mut c_void {
        if pointer.is_null() {
            return self.allocate(size);
        }
        if size == 0 {
            // SAFETY: guaranteed by the caller.
            unsafe { self.release(pointer) };
            return ptr::null_mut();
        }
        if self.is_foreign(pointer) {
            // SAFETY: guaranteed by the caller.
            return unsafe { foreign::resize(pointer, size) };
        }
        if self.owns(pointer) {
            self.prepare(size);
            // SAFETY: guaranteed by the caller.
            let resized = unsafe { je::realloc(pointer, size) };
            if resized.is_null() && self.overflows.load(Ordering::Relaxed) {
                // SAFETY: guaranteed by the caller; what could not be resized is as it was.
                return unsafe { self.bring_home(pointer, size) };
            }
            if resized.is_null() || self.owns(resized) {
                return resized;
            }
            // A thread that is not bound yet moved it outside. SAFETY: it is ours now, of at least `size` bytes.
            return unsafe { self.bring_home(resized, size) };
        }
        // SAFETY: guaranteed by the caller.
        unsafe { self.bring_home(pointer, size) }
    }

    /// Moves an allocation from outside to the calling thread's arena, with room for `size` bytes.
    ///
    /// # Safety
    /// As for `realloc`; neither is null nor zero.
    #[cold]
    unsafe fn bring_home(&'static self, pointer: *mut c_void, size: usize) -> *mut c_void {
        let moved = self.allocate(size);
        if !moved.is_null() {
            // SAFETY: the old one is alive, as the caller guarantees, and the new one is another; the shorter of the
            // two lengths is within both.
            unsafe {
                let kept = je::malloc_usable_size(pointer).min(size);
                ptr::copy_nonoverlapping(pointer.cast::<u8>(), moved.cast::<u8>(), kept);
                self.release(pointer);
            }
        }
        moved
    }

    /// `malloc_usable_size`.
    ///
    /// # Safety
    /// The pointer is null or alive.
    pub unsafe fn usable_size(&self, pointer: *const c_void) -> usize {
        // SAFETY: guaranteed by the caller; jemalloc says 0 for null.
        unsafe {
            if self.is_foreign(pointer) { foreign::usable_size(pointer) } else { je::malloc_usable_size(pointer) }
        }
    }

    /// Whether an allocation is another allocator's: programs get such from `__libc_malloc`, from a function that they
    /// looked up in the C library by themselves, or from an allocator of their own that replaces only some of our
    /// names.
    fn is_foreign(&self, pointer: *const c_void) -> bool {
        !pointer.is_null() && !self.owns(pointer) && !self.pages.may_hold(pointer.addr())
    }

    /// Another piece of the range, for other purposes than allocations.
    #[cfg(not(test))]
    pub(crate) fn cut(&self, size: usize, alignment: usize) -> Option<BackingSpan> {
        self.hooked.cut(size, alignment)
    }

    /// Before an allocation of this size: a thread that is not bound yet would get it from the guard's own arena, which
    /// keeps its addresses when [`Heap::settle`] gives it back. With few addresses, a large allocation has no room
    /// twice.
    #[inline]
    fn prepare(&'static self, size: usize) {
        if size >= LARGE {
            self.bind();
        }
    }

    #[cold]
    fn bind(&'static self) {
        if self.is_new() {
            self.begin();
        }
        if !is_private() && self.state.load(Ordering::Acquire) == READY {
            // Without an arena the allocation is settled, or fails, like any other.
            let _ = self.arena_of_this_thread();
        }
    }

    /// Settles an allocation that is not in the range, or failed: keeps it if it belongs outside, otherwise allocates
    /// anew from an arena of this heap. Sets `errno` without memory.
    #[cold]
    fn settle(&'static self, pointer: *mut c_void, size: usize, flags: c_int) -> *mut c_void {
        let settled = self.settled(pointer, size, flags);
        if !settled.is_null() && !self.owns(settled) {
            self.pages.note(settled.addr());
        }
        settled
    }

    fn settled(&'static self, pointer: *mut c_void, size: usize, flags: c_int) -> *mut c_void {
        if self.is_new() {
            self.begin();
        }
        if is_private() {
            return pointer;
        }
        let ready = self.state.load(Ordering::Acquire) == READY;
        let Some(arena) = ready.then(|| self.arena_of_this_thread()).flatten() else {
            self.outside.fetch_add(u64::from(!pointer.is_null()), Ordering::Relaxed);
            return pointer;
        };
        // SAFETY: what is freed was allocated just before and nobody has seen it. The size asked for is not zero; the
        // flags hold an alignment that is a power of two, if any.
        let mut settled = unsafe {
            if !pointer.is_null() {
                free_uncached(pointer);
            }
            je::mallocx(size.max(1), flags | in_arena(arena) | je::MALLOCX_TCACHE_NONE)
        };
        if settled.is_null() {
            settled = self.serve_outside(size, flags);
        }
        if settled.is_null() {
            // SAFETY: it is this thread's own variable.
            unsafe { *libc::__errno_location() = libc::ENOMEM };
        }
        self.outside.fetch_add(u64::from(!settled.is_null() && !self.owns(settled)), Ordering::Relaxed);
        settled
    }

    /// The arena of the calling thread, bound now if it was not before. `None` if jemalloc has no memory to create one.
    fn arena_of_this_thread(&'static self) -> Option<c_uint> {
        let bound = jemalloc::thread_arena()?;
        if bound != jemalloc::OUTSIDE {
            return Some(bound);
        }
        let next = self.threads.fetch_add(1, Ordering::Relaxed) % self.places.load(Ordering::Relaxed);
        let arena = self.arena(&self.arenas[usize::try_from(next).expect("32 bits fit")])?;
        jemalloc::set_thread_arena(arena).then_some(arena)
    }

    /// The arena of this slot. Two threads may create it at once: one of the two arenas is never used then, which costs
    /// a few KiB.
    fn arena(&'static self, place: &AtomicU32) -> Option<c_uint> {
        made_once(place, || jemalloc::create_arena(self.hooked.table()))
    }

    /// An arena of memory outside for the program alone.
    fn arena_beside(&self) -> Option<c_uint> {
        made_once(&self.beside, jemalloc::create_arena_outside)
    }
}

fn made_once(place: &AtomicU32, make: impl FnOnce() -> Option<c_uint>) -> Option<c_uint> {
    match place.load(Ordering::Acquire) {
        0 => {
            let made = make()?;
            Some(place.compare_exchange(0, made, Ordering::AcqRel, Ordering::Acquire).err().unwrap_or(made))
        }
        arena => Some(arena),
    }
}

/// Arenas for this process: four for each of its CPUs, jemalloc's default (manual, "opt.narenas").
fn places() -> u32 {
    let cpus = sched_getaffinity(None).map_or(1, |cpus| cpus.count());
    cpus.saturating_mul(4).clamp(1, 64)
}

#[cfg(test)]
mod tests;
