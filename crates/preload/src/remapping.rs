//! What a program does to mappings that are there already: it gives them back, in parts, and changes their rights, their kind and
//! their place.
//!
//! Where that is of guarded memory, it is done here as far as a guard can follow ([`crate::mapping`]), and left to the kernel
//! otherwise.

#![allow(unsafe_code, reason = "system calls of the C interface")]

use std::ffi::{c_int, c_void};
use std::ops::Range;

use crate::GROUND;
use crate::mapping::{
    InRange, PAGE, READ_WRITE, address as address_of, ask, at, done, is_guarded, leave, whole_pages, with,
};

#[unsafe(no_mangle)]
unsafe extern "C" fn munmap(address: *mut c_void, length: usize) -> c_int {
    let Some(pages) = whole_pages(address, length).filter(is_guarded) else {
        // SAFETY: the caller's promise.
        return done(unsafe { ask(libc::SYS_munmap, [address.addr(), length, 0, 0, 0, 0]) });
    };
    let rest = with(|mappings| {
        let rest = mappings.unmap(pages, &InRange);
        GROUND.count_mapped(mappings.mapped());
        rest
    });
    for pages in rest {
        leave(at(pages.start), pages.len());
        // SAFETY: the caller's promise.
        let returned = unsafe { ask(libc::SYS_munmap, [pages.start, pages.len(), 0, 0, 0, 0]) };
        if returned != 0 {
            return done(returned);
        }
    }
    0
}

/// Rights that the pages have already change nothing.
#[unsafe(no_mangle)]
unsafe extern "C" fn mprotect(address: *mut c_void, length: usize, rights: c_int) -> c_int {
    if let Some(pages) = whole_pages(address, length).filter(is_guarded) {
        let as_they_are = GROUND.owns(pages.start) && GROUND.owns(pages.end - 1);
        if rights == READ_WRITE && as_they_are && with(|mappings| mappings.left().parts(pages).is_empty()) {
            return 0;
        }
        leave(address, length);
    }
    // SAFETY: the caller's promise.
    done(unsafe { ask(libc::SYS_mprotect, [address.addr(), length, rights.cast_unsigned() as usize, 0, 0, 0]) })
}

/// Advice that would cut the range in pieces which the kernel treats differently, and changes nothing that a program can tell.
const HINTS: [c_int; 11] = [
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
];

#[unsafe(no_mangle)]
unsafe extern "C" fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int {
    let guarded = whole_pages(address, length).filter(is_guarded);
    if let Some(pages) = &guarded {
        let gives_back = matches!(advice, libc::MADV_DONTNEED | libc::MADV_FREE | libc::MADV_REMOVE);
        if HINTS.contains(&advice) || gives_back && GROUND.zero(pages.start, pages.len()) {
            return 0;
        }
    }
    let populates = matches!(advice, libc::MADV_POPULATE_READ | libc::MADV_POPULATE_WRITE);
    let held = guarded.filter(|_| populates).and_then(|pages| GROUND.hold(pages.start, pages.len()));
    if !populates {
        leave(address, length);
    }
    // SAFETY: the caller's promise.
    let returned =
        unsafe { ask(libc::SYS_madvise, [address.addr(), length, advice.cast_unsigned() as usize, 0, 0, 0]) };
    held.into_iter().for_each(|span| GROUND.release(span));
    done(returned)
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
    let ours = whole_pages(address, old).filter(|_| flags & !libc::MREMAP_MAYMOVE == 0 && new > 0);
    let ours = ours.filter(|pages| with(|mappings| mappings.has(pages.clone())));
    if let Some(pages) = ours {
        // SAFETY: the caller's promise.
        if let Some(moved) = unsafe { resized(pages, new.next_multiple_of(PAGE), flags) } {
            return moved;
        }
    }
    if let Some(pages) = whole_pages(address, old).filter(is_guarded) {
        leave(address, old);
        with(|mappings| mappings.lose(pages));
    }
    let target = whole_pages(to, new).filter(|pages| flags & libc::MREMAP_FIXED != 0 && is_guarded(pages));
    if let Some(pages) = target {
        leave(to, new);
        with(|mappings| mappings.lose(pages));
    }
    let arguments = [address.addr(), old, new, flags.cast_unsigned() as usize, to.addr(), 0];
    // SAFETY: the caller's promise.
    address_of(unsafe { ask(libc::SYS_mremap, arguments) })
}

/// A mapping in the range, with another length: in place, or as a copy elsewhere. `None`: the kernel is to move it, since the
/// program changed its rights or there is no room.
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
    with(|mappings| GROUND.count_mapped(mappings.mapped()));
    Some(at(found))
}
