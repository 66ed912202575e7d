//! Signals that end a process with a core dump: locked pages are unlocked before.
//!
//! **Problem.** Under the engines that keep locked pages elsewhere a core dump has zeros in their place, and its reader
//! cannot tell: the kernel ends the guard's threads before it writes the dump. **Idea.** If a program leaves such a
//! signal to its default action, the handler is ours. It unlocks everything and sends the signal once more, with the
//! default action. **Why this way.** There is no state: the default action and our handler stand for each other, and
//! the program's settings and queries are translated.
//!
//! SIGSEGV and SIGBUS are caught anyway (`caught`). A stack without room for a signal frame, and a program that sets
//! its actions without the C library, get a dump with zeros.
//!
//! Source: signal(7) for the signals whose default is a core dump, core(5) for the conditions of one.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{
    SIG_DFL, SIGABRT, SIGFPE, SIGILL, SIGQUIT, SIGSYS, SIGTRAP, SIGXCPU, SIGXFSZ, sigaction as Action, siginfo_t,
};

use crate::BACKING;

use super::actions::{SIGACTION, plain};

/// Those that no other module here catches.
const DUMPING: [c_int; 8] = [SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGFPE, SIGSYS, SIGXCPU, SIGXFSZ];

static ARE_CAUGHT: AtomicBool = AtomicBool::new(false);

/// From now on they are ours where the program leaves them to their default. A signal that the program's starter
/// ignores stays ignored.
pub(crate) fn install() {
    ARE_CAUGHT.store(true, Ordering::Release);
    for signal in DUMPING {
        let (ours, mut before) = (ours(), plain());
        // SAFETY: both are places of ours; the handler is a function that lives as long as the process.
        unsafe {
            SIGACTION.get()(signal, ptr::null(), &raw mut before);
            if before.sa_sigaction == SIG_DFL {
                SIGACTION.get()(signal, &raw const ours, ptr::null_mut());
            }
        }
    }
}

/// Whether this signal is ours where the program leaves it to its default.
pub(super) fn is_caught(signal: c_int) -> bool {
    ARE_CAUGHT.load(Ordering::Acquire) && DUMPING.contains(&signal)
}

/// The kernel's action, if the program sets this one.
pub(super) fn for_kernel(signal: c_int, action: Action) -> Action {
    if action.sa_sigaction == SIG_DFL && is_caught(signal) { ours() } else { action }
}

/// The program's view of the kernel's action.
pub(super) fn for_program(action: Action) -> Action {
    if action.sa_sigaction == handler() { plain() } else { action }
}

fn handler() -> usize {
    let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = unlock_and_end;
    handler as *const () as usize
}

/// The signal is blocked while its handler runs, so the one that is sent again comes when it returns: with the
/// program's registers.
fn ours() -> Action {
    let mut action = plain();
    action.sa_sigaction = handler();
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    action
}

extern "C" fn unlock_and_end(signal: c_int, info: *mut siginfo_t, _: *mut c_void) {
    BACKING.unlock_for_dump();
    let default = plain();
    // SAFETY: the action is a place of ours; what happened is as the kernel reported it, and a process may send itself
    // any signal.
    unsafe {
        SIGACTION.get()(signal, &raw const default, ptr::null_mut());
        if libc::syscall(libc::SYS_rt_tgsigqueueinfo, libc::getpid(), libc::gettid(), signal, info) != 0 {
            libc::raise(signal);
        }
    }
}
