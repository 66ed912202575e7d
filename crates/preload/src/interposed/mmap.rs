//! A program's own operations on mappings.
//!
//! **Problem.** A program maps memory beside its heap, and does things to pages of its heap that `malloc` does not
//! allow: collectors give pages back to the kernel, or write-protect them. The kernel would change the program's range
//! and know nothing of the vault. **Idea.** These calls come here first. A mapping that can be guarded is served from
//! the guarded range, if the user requested that ([`Mappings`]); returned pages are forgotten wherever they are; and
//! pages whose changes cannot be followed are excluded from guarding. Then the kernel is asked as usual. **Why this
//! way.** Everything that a guard cannot follow works as without a guard, and is counted.
//!
//! New mappings are guarded if they are anonymous, private, readable and writable, and the program leaves the address
//! to the kernel. All others are left alone: shared ones and those of files; reserved addresses without protection
//! bits, and code; stacks (`MAP_STACK`, `MAP_GROWSDOWN`), which the C library maps without coming here anyway; huge
//! pages of the pool; mlocked ones; those at an address that the program names, unless it is in a guarded mapping; and
//! mappings by a system call instruction of the program's own (`by_number`). Memory that was excluded before the guard
//! began, also by a parent, stays excluded.

#![allow(unsafe_code, reason = "system calls of the C interface")]

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_long, c_void};
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use rampart_memory::PAGE_BYTES;

use crate::regions::mappings::{Below, Mappings};
use crate::threads::signal_mask::Signals;
use crate::{BACKING, HEAP};

use super::kernel::ask;

pub(crate) const READ_WRITE: c_int = libc::PROT_READ | libc::PROT_WRITE;

/// Flags that a guarded mapping may have besides anonymous and private.
const HARMLESS: c_int = libc::MAP_NORESERVE | libc::MAP_POPULATE | libc::MAP_NONBLOCK;

static MAPPINGS: Mutex<Mappings> = Mutex::new(Mappings::new());

/// Mappings of at least so many bytes are guarded; none before the guard begins.
static LEAST: AtomicUsize = AtomicUsize::new(usize::MAX);

/// The lock, while a process forks: a child would wait for ever if another thread held it. A signal handler that needs
/// it waits until it is released.
struct Parked(UnsafeCell<Option<(MutexGuard<'static, Mappings>, Signals)>>);

// SAFETY: it is used by who holds the lock that it is about.
unsafe impl Sync for Parked {}

static PARKED: Parked = Parked(UnsafeCell::new(None));

/// A handler of the program's that also mapped memory would wait for the thread that it interrupted.
pub(crate) fn with<R>(work: impl FnOnce(&mut Mappings) -> R) -> R {
    let _signals = Signals::block_all();
    work(&mut MAPPINGS.lock().expect("no panic"))
}

/// The guard has begun: mappings of at least so many bytes are guarded, if any are.
pub(crate) fn begin(least: Option<usize>) {
    LEAST.store(least.unwrap_or(usize::MAX), Ordering::Relaxed);
}

pub(crate) fn before_fork() {
    let signals = Signals::block_all();
    let held = MAPPINGS.lock().expect("no panic");
    // SAFETY: this thread holds the lock, so nobody else is here.
    unsafe { *PARKED.0.get() = Some((held, signals)) };
}

/// In the parent and in the child.
pub(crate) fn after_fork() {
    // SAFETY: this thread took the lock before the fork, or the one that it is a copy of.
    drop(unsafe { (*PARKED.0.get()).take() });
}

/// The excluded memory.
pub(crate) fn left() -> Vec<Range<usize>> {
    with(|mappings| mappings.left().iter().collect())
}

/// The excluded memory, in the parent and in the child, between [`before_fork`] and [`after_fork`].
pub(crate) fn left_while_forking() -> Vec<Range<usize>> {
    // SAFETY: as of `after_fork`.
    let parked = unsafe { &*PARKED.0.get() };
    parked.iter().flat_map(|(mappings, _)| mappings.left().iter()).collect()
}

/// The program is about to change pages in a way that a guard cannot follow: they are excluded.
pub(crate) fn leave(address: *const c_void, length: usize) {
    if let Some(pages) = pages(address, length).filter(is_guarded) {
        with(|mappings| {
            mappings.leave(pages.clone());
            BACKING.leave(pages.start, pages.len());
        });
    }
}

/// The pages of some bytes; `None` if there are none.
fn pages(address: *const c_void, length: usize) -> Option<Range<usize>> {
    let end = address.addr().checked_add(length)?.checked_next_multiple_of(PAGE_BYTES)?;
    let pages = address.addr() / PAGE_BYTES * PAGE_BYTES..end;
    (length > 0).then_some(pages)
}

/// As [`pages`], for a call that the kernel refuses if the address is not page-aligned.
pub(crate) fn whole_pages(address: *const c_void, length: usize) -> Option<Range<usize>> {
    pages(address, length).filter(|pages| pages.start == address.addr())
}

/// Whether any of these pages is guarded, or could be.
pub(crate) fn is_guarded(pages: &Range<usize>) -> bool {
    BACKING.owns(pages.start) || BACKING.owns(pages.end - 1)
}

/// The range below the mappings.
pub(crate) struct InRange;

impl Below for InRange {
    fn block(&self) -> usize {
        BACKING.block()
    }

    fn cut(&self, length: usize) -> Option<Range<usize>> {
        let piece = HEAP.cut(length, 2 << 20)?;
        let start = piece.start.addr().get();
        Some(start..start + length)
    }

    fn take_back(&self, blocks: Range<usize>) {
        BACKING.take_back(blocks.start, blocks.len());
    }

    fn zero(&self, pages: Range<usize>) {
        // Without a guard, as in a child that could not begin one, the kernel does it.
        if !BACKING.zero(pages.start, pages.len()) {
            let advice = libc::MADV_DONTNEED.cast_unsigned() as usize;
            // SAFETY: the pages are of the range, and the program has said that it does not need them.
            unsafe { ask(libc::SYS_madvise, [pages.start, pages.len(), advice, 0, 0, 0]) };
        }
    }

    fn restore(&self, pages: Range<usize>) {
        let protection = READ_WRITE.cast_unsigned() as usize;
        // SAFETY: nobody uses the pages, which are of our own mapping.
        unsafe {
            ask(libc::SYS_mprotect, [pages.start, pages.len(), protection, 0, 0, 0]);
            ask(libc::SYS_munlock, [pages.start, pages.len(), 0, 0, 0, 0]);
        }
        BACKING.keep_from_children(pages.start, pages.len());
    }
}

pub(crate) fn done(returned: c_long) -> c_int {
    c_int::try_from(returned).expect("0 or -1")
}

pub(crate) fn address(returned: c_long) -> *mut c_void {
    at(usize::try_from(returned.cast_unsigned()).expect("an address has 64 bits here"))
}

pub(crate) fn at(address: usize) -> *mut c_void {
    ptr::with_exposed_provenance_mut(address)
}

/// A program's request for a mapping.
#[derive(Clone, Copy)]
pub(crate) struct MappingRequest {
    pub(crate) address: *mut c_void,
    pub(crate) length: usize,
    pub(crate) protection: c_int,
    pub(crate) flags: c_int,
    pub(crate) file: c_int,
    pub(crate) offset: libc::off_t,
}

impl MappingRequest {
    /// Served by the kernel.
    ///
    /// # Safety
    /// As for mmap(2).
    unsafe fn ask(self) -> *mut c_void {
        let Self { address: wanted, length, protection, flags, file, offset } = self;
        let [protection, flags, file] = [protection, flags, file].map(|word| word.cast_unsigned() as usize);
        let offset = usize::try_from(offset.cast_unsigned()).expect("an offset has 64 bits here");
        // SAFETY: guaranteed by the caller.
        address(unsafe { ask(libc::SYS_mmap, [wanted.addr(), length, protection, flags, file, offset]) })
    }

    /// Served as the program must have it.
    ///
    /// # Safety
    /// As for mmap(2).
    pub(crate) unsafe fn serve(self) -> *mut c_void {
        let over = whole_pages(self.address, self.length).filter(|_| self.flags & libc::MAP_FIXED != 0);
        // SAFETY: guaranteed by the caller.
        unsafe {
            match over.filter(is_guarded) {
                Some(pages) => self.over(pages),
                None => self.guarded().unwrap_or_else(|| self.ask()),
            }
        }
    }

    fn is_anonymous(self) -> bool {
        self.flags & libc::MAP_ANONYMOUS != 0
    }

    /// Whether it is memory like the range's, except for its protection.
    fn is_plain(self) -> bool {
        let wanted = self.flags & !(HARMLESS | libc::MAP_FIXED);
        wanted == libc::MAP_PRIVATE | libc::MAP_ANONYMOUS
    }

    /// A mapping in the range, if this can be one.
    fn guarded(self) -> Option<*mut c_void> {
        let large = self.length >= LEAST.load(Ordering::Relaxed);
        if !large || !BACKING.is_live() {
            return None;
        }
        let can_be = self.is_plain() && self.protection == READ_WRITE && self.address.is_null();
        let found = can_be
            .then(|| {
                with(|mappings| {
                    let found = mappings.map(self.length, &InRange);
                    BACKING.count_mapped(mappings.mapped());
                    found
                })
            })
            .flatten();
        if found.is_none() && self.is_anonymous() {
            BACKING.count_left_mapping();
        }
        found.map(|found| at(found.start))
    }

    /// A mapping over pages of the range. Memory of the same kind stays guarded, unless its protection differs.
    ///
    /// # Safety
    /// As for mmap(2).
    unsafe fn over(self, pages: Range<usize>) -> *mut c_void {
        with(|mappings| {
            if !self.is_plain() || !mappings.has(pages.clone()) {
                mappings.lose(pages.clone());
                BACKING.leave(pages.start, pages.len());
                // SAFETY: guaranteed by the caller.
                return unsafe { self.ask() };
            }
            mappings.unmap(pages.clone(), &InRange);
            assert!(mappings.extend(pages.clone()), "what was unmapped is free");
            if self.protection != READ_WRITE {
                mappings.leave(pages.clone());
                BACKING.leave(pages.start, pages.len());
                let protection = self.protection.cast_unsigned() as usize;
                // SAFETY: guaranteed by the caller.
                unsafe { ask(libc::SYS_mprotect, [pages.start, pages.len(), protection, 0, 0, 0]) };
            }
            self.address
        })
    }
}

// The names for 64 bits forward to the same work, not to the other names: the linker would take `mmap` for the kernel's
// (see `build.rs`).
const _: () = assert!(size_of::<libc::off_t>() == size_of::<libc::off64_t>());

#[unsafe(no_mangle)]
unsafe extern "C" fn mmap(
    address: *mut c_void,
    length: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: libc::off_t,
) -> *mut c_void {
    // SAFETY: guaranteed by the caller.
    unsafe { MappingRequest { address, length, protection, flags, file, offset }.serve() }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mmap64(
    address: *mut c_void,
    length: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: libc::off_t,
) -> *mut c_void {
    // SAFETY: guaranteed by the caller.
    unsafe { MappingRequest { address, length, protection, flags, file, offset }.serve() }
}

/// The `mmap` for the code in this library (see `build.rs`): the kernel's.
#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_mmap(
    address: *mut c_void,
    length: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: libc::off_t,
) -> *mut c_void {
    // SAFETY: guaranteed by the caller.
    unsafe { MappingRequest { address, length, protection, flags, file, offset }.ask() }
}

/// As [`__wrap_mmap`].
#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_mmap64(
    address: *mut c_void,
    length: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: libc::off_t,
) -> *mut c_void {
    // SAFETY: guaranteed by the caller.
    unsafe { MappingRequest { address, length, protection, flags, file, offset }.ask() }
}
