//! Actions and masks of signals, and the C library's functions for them.

use std::ffi::c_int;
use std::mem;

use libc::{SIGSEGV, sigaction as Action, sigset_t};

use crate::next::NextSymbol;

type SetAction = unsafe extern "C" fn(c_int, *const Action, *mut Action) -> c_int;

/// As of sigprocmask(2).
pub(super) type SetMask = unsafe extern "C" fn(c_int, *const sigset_t, *mut sigset_t) -> c_int;

// SAFETY: the signatures are those of sigaction(2) and pthread_sigmask(3).
pub(super) static SIGACTION: NextSymbol<SetAction> = unsafe { NextSymbol::named(c"sigaction") };
// SAFETY: as above.
pub(super) static PTHREAD_SIGMASK: NextSymbol<SetMask> = unsafe { NextSymbol::named(c"pthread_sigmask") };

/// No handler, no mask, no flags.
pub(super) fn plain() -> Action {
    // SAFETY: an action is plain data, and all zeros is SIG_DFL.
    unsafe { mem::zeroed() }
}

/// The set without SIGSEGV.
pub(super) fn without_faults(set: &sigset_t) -> sigset_t {
    let mut set = *set;
    // SAFETY: it is a set of ours.
    unsafe { libc::sigdelset(&raw mut set, SIGSEGV) };
    set
}
