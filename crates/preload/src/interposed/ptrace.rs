//! A child that asks to be traced while it borrows the memory of a guarded parent.
//!
//! **Problem.** A debugger starts its program by vfork(2); the child asks for `PTRACE_TRACEME`, and from then on each
//! signal stops it for its parent, which waits for it to execute the program. Where a touch of a locked page is a
//! signal, both would wait for ever. **Idea.** Before it is traced everything is unlocked, and nothing is locked for a
//! while. **Why this way.** The child executes at once, and then the memory is no longer its own. That goes unreported,
//! so a time limit ends the pause.

#![allow(unsafe_code, reason = "the C interface")]

use std::ffi::{c_long, c_uint, c_void};

use crate::BACKING;
use crate::next::NextSymbol;

type Trace = unsafe extern "C" fn(c_uint, libc::pid_t, *mut c_void, *mut c_void) -> c_long;

/// The arguments behind the first are variable ones for the C library, which are passed alike.
#[unsafe(no_mangle)]
unsafe extern "C" fn ptrace(request: c_uint, process: libc::pid_t, address: *mut c_void, data: *mut c_void) -> c_long {
    // SAFETY: the signature is that of ptrace(2).
    static NEXT: NextSymbol<Trace> = unsafe { NextSymbol::named(c"ptrace") };
    if request == libc::PTRACE_TRACEME && BACKING.faults_are_signals() && BACKING.is_borrowed() {
        BACKING.unlock_for_a_while();
    }
    // SAFETY: guaranteed by the caller.
    unsafe { NEXT.get()(request, process, address, data) }
}
