//! Signals that the guard needs, besides the program's own use of them.
//!
//! **Problem.** Where protections lock pages, a touch of one is a SIGSEGV; where the hardware loses a locked page, the
//! guard that reads it gets SIGBUS. A process has but one handler for each. **Idea.** The handlers are ours. The
//! guard's signals are served; any other goes on to the program's action from `sigaction` or `signal`, which come here
//! first and record it. **Why this way.** The program finds its handler set and called as if it were alone: with its
//! mask, its flags, its context, and the right to jump out.
//!
//! Where a touch is no signal, SIGSEGV is caught for one message only: it ends a child that was made unseen and has no
//! heap (`fork`).
//!
//! The kernel ends a thread that has SIGSEGV blocked at its first such fault. So the calls that set masks leave SIGSEGV
//! out, and their results lack it.
//!
//! | module | owns |
//! |---|---|
//! | [`actions`] | the C library's functions for actions and masks |
//! | [`mod@caught`] | a caught signal, and the program's action for it |
//! | [`faults`] | SIGSEGV: a touch of a locked page |
//! | [`losses`] | SIGBUS: a page that the hardware lost |
//! | [`dumps`] | other signals that end a process with a core dump |

#![allow(unsafe_code, reason = "signal handlers and the C interface")]

mod actions;
mod caught;
pub(crate) mod dumps;
pub(crate) mod faults;
pub(crate) mod losses;

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr;

use libc::{SIG_ERR, sigaction as Action, sigset_t};

use crate::next::NextSymbol;

use self::actions::{PTHREAD_SIGMASK, SIGACTION, SetMask, plain, without_faults};
use self::caught::Caught;
use self::faults::wants_faults;

type SetHandler = unsafe extern "C" fn(c_int, usize) -> usize;
type Suspend = unsafe extern "C-unwind" fn(*const sigset_t) -> c_int;

// SAFETY: the signatures are those of signal(2), sigprocmask(2) and sigsuspend(2).
static SIGNAL: NextSymbol<SetHandler> = unsafe { NextSymbol::named(c"signal") };
// SAFETY: as above.
static SIGPROCMASK: NextSymbol<SetMask> = unsafe { NextSymbol::named(c"sigprocmask") };
// SAFETY: as above.
static SIGSUSPEND: NextSymbol<Suspend> = unsafe { NextSymbol::named(c"sigsuspend") };

/// The caught signal of this number, if it is caught.
fn caught(signal: c_int) -> Option<&'static Caught> {
    [&faults::CAUGHT, &losses::CAUGHT].into_iter().find(|caught| caught.is_ours(signal))
}

/// A program's set, adapted for us; `None` without one.
///
/// # Safety
/// Null, or a set.
unsafe fn masked(set: *const sigset_t) -> Option<sigset_t> {
    // SAFETY: guaranteed by the caller.
    unsafe { set.as_ref() }.map(without_faults)
}

fn pointer<T>(value: Option<&T>) -> *const T {
    value.map_or(ptr::null(), ptr::from_ref)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int {
    // SAFETY: guaranteed by the caller.
    let new = unsafe { new.as_ref() }.copied();
    let mut before = plain();
    let done = if let Some(caught) = caught(signal) {
        before = caught.programs();
        new.iter().for_each(|new| caught.set_programs(new));
        0
    } else {
        let less = |new: Action| Action { sa_mask: without_faults(&new.sa_mask), ..new };
        let new = new.map(|new| if wants_faults() { less(new) } else { new });
        let new = new.map(|new| dumps::for_kernel(signal, new));
        // SAFETY: the action is as the caller promises, and the place for the old one is ours.
        let done = unsafe { SIGACTION.get()(signal, pointer(new.as_ref()), &raw mut before) };
        before = dumps::for_program(before);
        done
    };
    if done == 0 && !old.is_null() {
        // SAFETY: guaranteed by the caller.
        unsafe { *old = before };
    }
    done
}

/// As in glibc: an interrupted call is restarted.
#[unsafe(no_mangle)]
unsafe extern "C" fn signal(signal: c_int, handler: usize) -> usize {
    if handler == SIG_ERR || caught(signal).is_none() && !dumps::is_caught(signal) {
        // SAFETY: guaranteed by the caller.
        return unsafe { SIGNAL.get()(signal, handler) };
    }
    let (mut action, mut before) = (plain(), plain());
    action.sa_sigaction = handler;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: both are places of ours, and the handler is as the caller promises.
    let done = unsafe { sigaction(signal, &raw const action, &raw mut before) };
    if done == 0 { before.sa_sigaction } else { SIG_ERR }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sigprocmask(how: c_int, set: *const sigset_t, old: *mut sigset_t) -> c_int {
    // SAFETY: guaranteed by the caller.
    unsafe { change_mask(&SIGPROCMASK, how, set, old) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_sigmask(how: c_int, set: *const sigset_t, old: *mut sigset_t) -> c_int {
    // SAFETY: guaranteed by the caller.
    unsafe { change_mask(&PTHREAD_SIGMASK, how, set, old) }
}

/// # Safety
/// As for sigprocmask(2).
unsafe fn change_mask(next: &NextSymbol<SetMask>, how: c_int, set: *const sigset_t, old: *mut sigset_t) -> c_int {
    if !wants_faults() || how == libc::SIG_UNBLOCK {
        // SAFETY: guaranteed by the caller.
        return unsafe { next.get()(how, set, old) };
    }
    let mut before = MaybeUninit::<sigset_t>::zeroed();
    // SAFETY: guaranteed by the caller; the kernel writes to a place of ours, since the caller's may be locked.
    unsafe {
        let set = masked(set);
        let done = next.get()(how, pointer(set.as_ref()), before.as_mut_ptr());
        if done == 0 && !old.is_null() {
            *old = before.assume_init();
        }
        done
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sigsuspend(set: *const sigset_t) -> c_int {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let ours = if wants_faults() { masked(set) } else { None };
        SIGSUSPEND.get()(ours.as_ref().map_or(set, ptr::from_ref))
    }
}
