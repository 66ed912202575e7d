//! A program's operations on existing mappings: it gives them back, in parts, and changes their protection, kind and
//! place.
//!
//! For guarded memory, they are done here as far as a guard can follow ([`crate::interposed::mmap`]), and left to the
//! kernel otherwise.
//!
//! Each function of the C library has its work in one of ours, which syscall(2) calls too
//! (`crate::interposed::by_number`). It is inlined into the function itself: memory hooks of MPI libraries overwrite
//! its first instructions, and a shorter function would lose its successor's.

#![allow(unsafe_code, reason = "system calls of the C interface")]

use std::ffi::{c_int, c_long, c_uint, c_void};
use std::iter;
use std::ops::Range;

use libc::iovec;
use rampart_memory::PAGE_BYTES;

use crate::BACKING;

use super::kernel::{ask, errno, fail};
use super::mmap::{InRange, READ_WRITE, address as address_of, at, done, is_guarded, leave, whole_pages, with};

/// # Safety
/// As for munmap(2).
#[inline(always)]
pub(crate) unsafe fn unmap(address: *mut c_void, length: usize) -> c_int {
    let Some(pages) = whole_pages(address, length).filter(is_guarded) else {
        // SAFETY: guaranteed by the caller.
        return done(unsafe { ask(libc::SYS_munmap, [address.addr(), length, 0, 0, 0, 0]) });
    };
    let rest = with(|mappings| {
        let rest = mappings.unmap(pages, &InRange);
        BACKING.count_mapped(mappings.mapped());
        rest
    });
    for pages in rest {
        leave(at(pages.start), pages.len());
        // SAFETY: guaranteed by the caller.
        let returned = unsafe { ask(libc::SYS_munmap, [pages.start, pages.len(), 0, 0, 0, 0]) };
        if returned != 0 {
            return done(returned);
        }
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn munmap(address: *mut c_void, length: usize) -> c_int {
    // SAFETY: guaranteed by the caller.
    unsafe { unmap(address, length) }
}

/// Setting the protection that the pages already have changes nothing.
///
/// # Safety
/// As for mprotect(2).
#[inline(always)]
pub(crate) unsafe fn change_protection(address: *mut c_void, length: usize, protection: c_int) -> c_int {
    if let Some(pages) = whole_pages(address, length).filter(is_guarded) {
        let as_they_are = BACKING.owns(pages.start) && BACKING.owns(pages.end - 1);
        if protection == READ_WRITE && as_they_are && with(|mappings| mappings.left().parts(pages).is_empty()) {
            return 0;
        }
        leave(address, length);
    }
    // SAFETY: guaranteed by the caller.
    done(unsafe { ask(libc::SYS_mprotect, [address.addr(), length, protection.cast_unsigned() as usize, 0, 0, 0]) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mprotect(address: *mut c_void, length: usize, protection: c_int) -> c_int {
    // SAFETY: guaranteed by the caller.
    unsafe { change_protection(address, length, protection) }
}

/// # Safety
/// As for pkey_mprotect(2).
#[inline(always)]
pub(crate) unsafe fn change_protection_by_key(
    address: *mut c_void,
    length: usize,
    protection: c_int,
    key: c_int,
) -> c_int {
    leave(address, length);
    let [protection, key] = [protection, key].map(|word| word.cast_unsigned() as usize);
    // SAFETY: guaranteed by the caller.
    done(unsafe { ask(libc::SYS_pkey_mprotect, [address.addr(), length, protection, key, 0, 0]) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pkey_mprotect(address: *mut c_void, length: usize, protection: c_int, key: c_int) -> c_int {
    // SAFETY: guaranteed by the caller.
    unsafe { change_protection_by_key(address, length, protection, key) }
}

/// Advice that would split the range into pieces which the kernel treats differently, with no effect that a program can
/// see.
const HINTS: [c_int; 13] = [
    libc::MADV_NORMAL,
    libc::MADV_RANDOM,
    libc::MADV_SEQUENTIAL,
    libc::MADV_WILLNEED,
    libc::MADV_MERGEABLE,
    libc::MADV_UNMERGEABLE,
    libc::MADV_HUGEPAGE,
    libc::MADV_NOHUGEPAGE,
    libc::MADV_DONTDUMP,
    libc::MADV_DODUMP,
    libc::MADV_COLD,
    libc::MADV_PAGEOUT,
    libc::MADV_COLLAPSE,
];

/// Advice after which pages read as zeros. Memory that may be freed later (`MADV_FREE`) is freed at once.
const GIVES_BACK: [c_int; 3] = [libc::MADV_DONTNEED, libc::MADV_DONTNEED_LOCKED, libc::MADV_FREE];

/// # Safety
/// As for madvise(2).
#[inline(always)]
pub(crate) unsafe fn advise(address: *mut c_void, length: usize, advice: c_int) -> c_int {
    let Some(pages) = whole_pages(address, length).filter(is_guarded) else {
        // SAFETY: guaranteed by the caller.
        return unsafe { advise_kernel(address.addr(), length, advice) };
    };
    if HINTS.contains(&advice) {
        return 0;
    }
    if GIVES_BACK.contains(&advice) || advice == libc::MADV_REMOVE {
        // SAFETY: guaranteed by the caller.
        return unsafe {
            if BACKING.is_live() { give_back(pages, advice) } else { advise_kernel(address.addr(), length, advice) }
        };
    }
    let populates = matches!(advice, libc::MADV_POPULATE_READ | libc::MADV_POPULATE_WRITE);
    let held = if populates { BACKING.hold(pages.start, pages.len()) } else { None };
    if !populates {
        leave(address, length);
    }
    // SAFETY: guaranteed by the caller.
    let returned = unsafe { advise_kernel(address.addr(), length, advice) };
    held.into_iter().for_each(|span| BACKING.release(span));
    returned
}

#[unsafe(no_mangle)]
unsafe extern "C" fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int {
    // SAFETY: guaranteed by the caller.
    unsafe { advise(address, length, advice) }
}

/// # Safety
/// As for madvise(2).
unsafe fn advise_kernel(address: usize, length: usize, advice: c_int) -> c_int {
    // SAFETY: guaranteed by the caller.
    done(unsafe { ask(libc::SYS_madvise, [address, length, advice.cast_unsigned() as usize, 0, 0, 0]) })
}

/// As in the kernel, from the first page on: an unmapped page is reported in the end, and any other refusal stops it.
///
/// # Safety
/// As for madvise(2).
unsafe fn give_back(pages: Range<usize>, advice: c_int) -> c_int {
    let left = with(|mappings| mappings.left().parts(pages.clone()));
    let (mut next, mut outcome) = (pages.start, 0);
    for part in left.into_iter().chain(iter::once(pages.end..pages.end)) {
        if next < part.start && give_back_guarded(next..part.start, advice) != 0 {
            return -1;
        }
        // SAFETY: guaranteed by the caller.
        if !part.is_empty() && unsafe { advise_kernel(part.start, part.len(), advice) } != 0 {
            // SAFETY: this thread's own variable.
            if unsafe { *errno() } != libc::ENOMEM {
                return -1;
            }
            outcome = -1;
        }
        next = part.end;
    }
    outcome
}

/// Only shared memory or memory of a file can be removed.
fn give_back_guarded(pages: Range<usize>, advice: c_int) -> c_int {
    if advice == libc::MADV_REMOVE {
        return done(fail(libc::EINVAL));
    }
    BACKING.zero(pages.start, pages.len());
    0
}

/// Advice that the kernel accepts for other processes too, because it changes no content.
const ABOUT_OTHERS: [c_int; 4] = [libc::MADV_WILLNEED, libc::MADV_COLD, libc::MADV_PAGEOUT, libc::MADV_COLLAPSE];

/// The most pieces of one call: `UIO_MAXIOV` (linux/uio.h).
const MOST_PIECES: usize = 1024;

/// # Safety
/// As for process_madvise(2).
#[inline(always)]
pub(crate) unsafe fn advise_process(
    process: c_int,
    pieces: *const iovec,
    count: usize,
    advice: c_int,
    flags: usize,
) -> c_long {
    let [process, asked] = [process, advice].map(|word| word.cast_unsigned() as usize);
    // SAFETY: guaranteed by the caller.
    let kernel = |count| unsafe { ask(libc::SYS_process_madvise, [process, pieces.addr(), count, asked, flags, 0]) };
    // With no memory, the kernel tells whether it takes this advice for this process, which must be the caller then.
    if ABOUT_OTHERS.contains(&advice) || count > MOST_PIECES || !BACKING.is_live() || kernel(0) != 0 {
        return kernel(count);
    }
    let mut advised = 0;
    for index in 0..count {
        // SAFETY: guaranteed by the caller.
        let iovec { iov_base, iov_len } = unsafe { pieces.add(index).read() };
        // SAFETY: as above.
        if unsafe { advise(iov_base, iov_len, advice) } != 0 {
            return if advised > 0 { advised } else { -1 };
        }
        advised += c_long::try_from(iov_len).expect("memory is shorter");
    }
    advised
}

#[unsafe(no_mangle)]
unsafe extern "C" fn process_madvise(
    process: c_int,
    pieces: *const iovec,
    count: usize,
    advice: c_int,
    flags: c_uint,
) -> isize {
    // SAFETY: guaranteed by the caller.
    let advised = unsafe { advise_process(process, pieces, count, advice, flags as usize) };
    isize::try_from(advised).expect("64 bits")
}

/// # Safety
/// As for mremap(2).
#[inline(always)]
pub(crate) unsafe fn remap(address: *mut c_void, old: usize, new: usize, flags: c_int, to: *mut c_void) -> *mut c_void {
    let ours = whole_pages(address, old).filter(|_| flags & !libc::MREMAP_MAYMOVE == 0 && new > 0);
    let ours = ours.filter(|pages| with(|mappings| mappings.has(pages.clone())));
    if let Some(pages) = ours {
        // SAFETY: guaranteed by the caller.
        if let Some(moved) = unsafe { resized(pages, new.next_multiple_of(PAGE_BYTES), flags) } {
            return moved;
        }
    }
    // The kernel doubles shared memory if the old length is 0; it refuses for ordinary memory.
    if let Some(pages) = whole_pages(address, old.max(1)).filter(is_guarded) {
        leave(address, old.max(1));
        with(|mappings| mappings.lose(pages));
    }
    let target = whole_pages(to, new).filter(|pages| flags & libc::MREMAP_FIXED != 0 && is_guarded(pages));
    if let Some(pages) = target {
        leave(to, new);
        with(|mappings| mappings.lose(pages));
    }
    let arguments = [address.addr(), old, new, flags.cast_unsigned() as usize, to.addr(), 0];
    // SAFETY: guaranteed by the caller.
    address_of(unsafe { ask(libc::SYS_mremap, arguments) })
}

/// The last argument counts with MREMAP_FIXED only; the C library declares it as a variable one, which is passed alike.
#[unsafe(no_mangle)]
unsafe extern "C" fn mremap(
    address: *mut c_void,
    old: usize,
    new: usize,
    flags: c_int,
    to: *mut c_void,
) -> *mut c_void {
    // SAFETY: guaranteed by the caller.
    unsafe { remap(address, old, new, flags, to) }
}

/// A mapping in the range, with another length: in place, or as a copy elsewhere. `None`: the kernel must move it,
/// because the program changed its protection or there is no room.
///
/// # Safety
/// As for mremap(2).
unsafe fn resized(pages: Range<usize>, length: usize, flags: c_int) -> Option<*mut c_void> {
    let end = pages.start.checked_add(length)?;
    if length <= pages.len() {
        with(|mappings| mappings.unmap(end..pages.end, &InRange));
        return Some(at(pages.start));
    }
    let found = with(|mappings| {
        if !mappings.left().parts(pages.clone()).is_empty() {
            return None;
        }
        if mappings.extend(pages.end..end) {
            return Some(pages.start);
        }
        (flags & libc::MREMAP_MAYMOVE != 0).then(|| mappings.map(length, &InRange)).flatten().map(|new| new.start)
    })?;
    if found != pages.start {
        let (from, to) = (at(pages.start).cast::<u8>(), at(found).cast::<u8>());
        // SAFETY: the old mapping is the program's, which calls us about it; the new one is nobody's yet, and longer.
        unsafe { to.copy_from_nonoverlapping(from, pages.len()) };
        with(|mappings| mappings.unmap(pages, &InRange));
    }
    with(|mappings| BACKING.count_mapped(mappings.mapped()));
    Some(at(found))
}
