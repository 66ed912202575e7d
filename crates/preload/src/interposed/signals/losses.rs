//! SIGBUS: the hardware lost a locked page, and the guard reads it.
//!
//! Threads of the guard take no other signal. One that was sent to the process and reached such a thread is the
//! program's, and goes to its first thread: a handler of the program's on a thread of the guard would wait for itself.

use std::ffi::{c_int, c_void};

use libc::{SIGBUS, siginfo_t};

use crate::BACKING;
use crate::heap::private::is_private;

use super::caught::Caught;
use super::faults::wants_faults;

pub(super) static CAUGHT: Caught = Caught::new(SIGBUS);

/// From now on it is ours first. Before the first page is locked.
pub(crate) fn install() {
    CAUGHT.install(on_loss);
}

extern "C-unwind" fn on_loss(_: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel hands a handler with SA_SIGINFO what happened, with an address if an access failed.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr().addr()) };
    let is_guards = is_private();
    if is_guards && code > 0 && BACKING.lost(address) {
        return;
    }
    if is_guards && code <= 0 {
        // SAFETY: what happened is as the kernel reported it; a process may send itself any signal.
        unsafe {
            let process = libc::getpid();
            libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, process, SIGBUS, info);
        }
        return;
    }
    // SAFETY: they are what the kernel handed over.
    unsafe { CAUGHT.hand_on(info, context, wants_faults()) };
}
