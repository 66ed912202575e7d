//! Memory that a program locks in RAM: mlock(2), mlockall(2).
//!
//! **Problem.** The kernel moves no page between memory that is mlocked and memory that is not, and mlockall(2) touches
//! every page of every mapping: the range has far more addresses than there is memory. **Idea.** Pages that a program
//! mlocks by their addresses are excluded from guarding. When it mlocks everything, the hidden ranges of the heap are
//! mlocked like the heap, each page from its first touch on (`MLOCK_ONFAULT`), and every other mapping as requested.
//! **Why this way.** The program's pages stay in RAM as requested, and under guard.
//!
//! If a process may mlock only some memory, its heap is not mlocked, and a line says so; whether it may mlock
//! everything is decided as the kernel does, without the hidden ranges.

#![allow(unsafe_code, reason = "system calls of the C interface")]

use std::ffi::{c_int, c_uint, c_void};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

use crate::messages::say;
use crate::regions::process_map::{beside, mapped};
use crate::{BACKING, HEAP};

use super::kernel::ask;
use super::mmap::{done, leave};

/// Whether the program has mlocked everything.
static ALL: AtomicBool = AtomicBool::new(false);

const UNLOCKED: &str = "rampart: mlockall: the heap under guard is not locked in RAM, since this process may not lock so much: \
                        raise the limit (ulimit -l unlimited)\n";

/// # Safety
/// As for mlock(2).
#[inline(always)]
pub(crate) unsafe fn lock(address: *const c_void, length: usize) -> c_int {
    leave(address, length);
    // SAFETY: guaranteed by the caller.
    done(unsafe { ask(libc::SYS_mlock, [address.addr(), length, 0, 0, 0, 0]) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mlock(address: *const c_void, length: usize) -> c_int {
    // SAFETY: guaranteed by the caller.
    unsafe { lock(address, length) }
}

/// # Safety
/// As for mlock2(2).
#[inline(always)]
pub(crate) unsafe fn lock_by_flags(address: *const c_void, length: usize, flags: c_uint) -> c_int {
    leave(address, length);
    // SAFETY: guaranteed by the caller.
    done(unsafe { ask(libc::SYS_mlock2, [address.addr(), length, flags as usize, 0, 0, 0]) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mlock2(address: *const c_void, length: usize, flags: c_uint) -> c_int {
    // SAFETY: guaranteed by the caller.
    unsafe { lock_by_flags(address, length, flags) }
}

/// Pages that were mlocked by their addresses are excluded already; for all others it changes something once everything
/// is mlocked.
///
/// # Safety
/// As for munlock(2).
#[inline(always)]
pub(crate) unsafe fn unlock(address: *const c_void, length: usize) -> c_int {
    if ALL.load(Ordering::Acquire) {
        leave(address, length);
    }
    // SAFETY: guaranteed by the caller.
    done(unsafe { ask(libc::SYS_munlock, [address.addr(), length, 0, 0, 0, 0]) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn munlock(address: *const c_void, length: usize) -> c_int {
    // SAFETY: guaranteed by the caller.
    unsafe { unlock(address, length) }
}

/// # Safety
/// As for munlockall(2).
#[inline(always)]
pub(crate) unsafe fn unlock_all() -> c_int {
    ALL.store(false, Ordering::Release);
    BACKING.munlock();
    // SAFETY: it changes neither content nor addresses.
    done(unsafe { ask(libc::SYS_munlockall, [0; 6]) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn munlockall() -> c_int {
    // SAFETY: guaranteed by the caller.
    unsafe { unlock_all() }
}

/// # Safety
/// As for mlockall(2).
#[inline(always)]
pub(crate) unsafe fn lock_all(flags: c_int) -> c_int {
    let places = BACKING.places();
    let known = libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT;
    if places.is_empty() || flags & !known != 0 || flags & known & !libc::MCL_ONFAULT == 0 {
        return by_kernel(flags);
    }
    if flags & libc::MCL_CURRENT != 0
        && let Err(errno) = may_lock_all(&places)
    {
        // SAFETY: it is this thread's own variable.
        unsafe { *libc::__errno_location() = errno };
        return -1;
    }
    ALL.store(true, Ordering::Release);
    if !BACKING.mlock() {
        say(UNLOCKED);
    }
    let on_fault = flags & libc::MCL_ONFAULT;
    if flags & libc::MCL_FUTURE != 0 && by_kernel(libc::MCL_FUTURE | on_fault) != 0 {
        return -1;
    }
    if flags & libc::MCL_CURRENT != 0 {
        let on_fault = if on_fault == 0 { 0 } else { libc::MLOCK_ONFAULT as usize };
        for part in mapped().iter().flat_map(|mapping| beside(mapping, &places)) {
            // As for mlockall(2), memory that cannot be populated, such as pages without protection bits, is no
            // failure. SAFETY: it changes neither content nor addresses.
            unsafe { ask(libc::SYS_mlock2, [part.start, part.len(), on_fault, 0, 0, 0]) };
        }
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mlockall(flags: c_int) -> c_int {
    // SAFETY: guaranteed by the caller.
    unsafe { lock_all(flags) }
}

fn by_kernel(flags: c_int) -> c_int {
    // SAFETY: it changes neither content nor addresses.
    done(unsafe { ask(libc::SYS_mlockall, [flags.cast_unsigned() as usize, 0, 0, 0, 0, 0]) })
}

/// Whether a process may mlock all of its memory, by the kernel's rules, without the hidden ranges.
fn may_lock_all(places: &[Range<usize>]) -> Result<(), c_int> {
    let privileged = capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK));
    let Some(limit) = getrlimit(Resource::Memlock).current.filter(|_| !privileged) else { return Ok(()) };
    if limit == 0 {
        return Err(libc::EPERM);
    }
    let reserved: usize = places.iter().map(ExactSizeIterator::len).sum();
    let used = HEAP.used().map_or(0, |used| used.bytes.get());
    let own = mapped().iter().map(ExactSizeIterator::len).sum::<usize>().saturating_sub(reserved) as u64 + used;
    if own > limit { Err(libc::ENOMEM) } else { Ok(()) }
}
