//! Limits that a program sets: setrlimit(2), prlimit(2).
//!
//! **Problem.** The kernel does not count a page without protection bits (engine `mprotect`) or of a file (`minor`) as
//! data. Unlocking the former, or copying the latter for a child, requests data, which `RLIMIT_DATA` may refuse: the
//! program would be stopped at a page that it has. **Idea.** Before a program sets this limit below its size with all
//! pages unlocked, all become ordinary memory for good, and a line says so. **Why this way.** The program goes on as
//! without a guard; it loses only the guard.
//!
//! A limit that another process sets, or that a system call instruction of the program's own sets, goes unseen.

#![allow(unsafe_code, reason = "the C interface, and system calls")]

use std::ffi::{c_int, c_uint};
use std::ptr;

use libc::{pid_t, rlimit};

use crate::{BACKING, HEAP};

use super::buffers::{Piece, UnlockedForCall};
use super::kernel::{ask, errno};
use super::mmap::{done, left};

/// No resource has this number.
const NO_RESOURCE: usize = u32::MAX as usize;

/// The limit that a program passes; `None` if it cannot be read. The kernel checks: it refuses a limit of no resource
/// only after it has read it, and changes nothing.
///
/// # Safety
/// As for prlimit(2).
unsafe fn read(new: *const rlimit) -> Option<rlimit> {
    // SAFETY: the variable is this thread's own. What the kernel can read can be read here.
    unsafe {
        let before = *errno();
        ask(libc::SYS_prlimit64, [0, NO_RESOURCE, new.addr(), 0, 0, 0]);
        let is_bad = *errno() == libc::EFAULT;
        *errno() = before;
        (!is_bad).then(|| new.read_unaligned())
    }
}

/// # Safety
/// As for prlimit(2).
pub(crate) unsafe fn limit(process: pid_t, resource: c_uint, new: *const rlimit, old: *mut rlimit) -> c_int {
    let pieces = [new, old.cast_const()].map(|limit| Piece::Bytes(limit.cast(), size_of::<rlimit>()));
    // SAFETY: guaranteed by the caller.
    let _held = unsafe { UnlockedForCall::new(&pieces) };
    let is_of_this = process == 0 || process.cast_unsigned() == std::process::id();
    if is_of_this && resource == libc::RLIMIT_DATA && !new.is_null() {
        // SAFETY: guaranteed by the caller.
        if let Some(most) = unsafe { read(new) } {
            // A process with a soft limit of 0 may have as much as its hard limit allows (Linux, may_expand_vm).
            let most = if most.rlim_cur == 0 { most.rlim_max } else { most.rlim_cur };
            BACKING.limit_data(most, HEAP.used(), &left());
        }
    }
    let arguments = [process.cast_unsigned() as usize, resource as usize, new.addr(), old.addr(), 0, 0];
    // SAFETY: guaranteed by the caller.
    done(unsafe { ask(libc::SYS_prlimit64, arguments) })
}

// The names for 64 bits forward to the same work, not to the other names: another library may have overridden those.

#[unsafe(no_mangle)]
unsafe extern "C" fn setrlimit(resource: c_uint, new: *const rlimit) -> c_int {
    // SAFETY: guaranteed by the caller.
    unsafe { limit(0, resource, new, ptr::null_mut()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn setrlimit64(resource: c_uint, new: *const rlimit) -> c_int {
    // SAFETY: guaranteed by the caller; the two structures are the same here.
    unsafe { limit(0, resource, new, ptr::null_mut()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn prlimit(process: pid_t, resource: c_uint, new: *const rlimit, old: *mut rlimit) -> c_int {
    // SAFETY: guaranteed by the caller.
    unsafe { limit(process, resource, new, old) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn prlimit64(process: pid_t, resource: c_uint, new: *const rlimit, old: *mut rlimit) -> c_int {
    // SAFETY: guaranteed by the caller; the two structures are the same here.
    unsafe { limit(process, resource, new, old) }
}

const _: () = assert!(size_of::<rlimit>() == size_of::<libc::rlimit64>());
