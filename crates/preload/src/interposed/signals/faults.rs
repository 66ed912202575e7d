//! SIGSEGV: where protections lock pages, a touch of a locked one.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use libc::{SIGSEGV, siginfo_t};
use rampart_guard::accesses::Touch;

use crate::BACKING;
use crate::engines::mailbox::FaultAnswer;
use crate::messages::say;
use crate::threads::signal_mask::Signals;

use super::actions::plain;
use super::caught::Caught;

pub(super) static CAUGHT: Caught = Caught::new(SIGSEGV);

/// Faults on excluded pages, by thread: the second at one address is the program's.
static LEFT: [(AtomicUsize, AtomicUsize); 64] = [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; 64];

/// The last message of a child that must not read zeros.
const MISSING: &str = "rampart: a child that was made by a system call of the program's own has no heap: it ends; the C library's fork, \
                       _Fork, clone and syscall make children that have one\n";

/// From now on faults are ours first. Before the first page is locked. A thread that was started with the signal
/// blocked, as by a shell, would end at its first.
pub(crate) fn install() {
    CAUGHT.install(on_fault);
    if BACKING.faults_are_signals() {
        Signals::take(SIGSEGV);
    }
}

/// Whether masks must leave SIGSEGV out.
pub(super) fn wants_faults() -> bool {
    BACKING.faults_are_signals() && CAUGHT.is_ours(SIGSEGV)
}

extern "C-unwind" fn on_fault(_: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: it is this thread's own variable.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    // SAFETY: the kernel hands a handler with SA_SIGINFO what happened, with an address if the fault is of memory.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr().addr()) };
    if code > 0 && BACKING.is_missing(address) {
        say(MISSING);
        CAUGHT.set_programs(&plain());
    }
    // SAFETY: as above.
    let ours = if code > 0 { BACKING.fault(address, unsafe { touch(context) }) } else { None };
    let served = match ours {
        Some(FaultAnswer::TryAgain) => true,
        Some(FaultAnswer::Left) => !is_second(address),
        None => false,
    };
    if !served {
        // SAFETY: they are what the kernel handed over.
        unsafe { CAUGHT.hand_on(info, context, wants_faults()) };
    }
    // SAFETY: as above.
    unsafe { *errno = before };
}

/// Whether the handler's fault is a write, as far as the processor tells.
///
/// # Safety
/// The context is one that the kernel passes to a handler.
unsafe fn touch(context: *const c_void) -> Touch {
    #[cfg(target_arch = "x86_64")]
    let writes = {
        // Bit 1 of the error code of a page fault (Intel SDM, volume 3, 4.7).
        const WRITE: i64 = 1 << 1;
        let error = usize::try_from(libc::REG_ERR).expect("a register has a number");
        // SAFETY: guaranteed by the caller.
        unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[error] & WRITE != 0 }
    };
    // Elsewhere the kernel has no single word for it: it counts as a read.
    #[cfg(not(target_arch = "x86_64"))]
    let writes = {
        let _ = context;
        false
    };
    if writes { Touch::Write } else { Touch::Read }
}

/// Whether this thread's last fault on an excluded page was here too. Then it was tried again, and failed again.
fn is_second(address: usize) -> bool {
    let thread =
        usize::try_from(rustix::thread::gettid().as_raw_nonzero().get()).expect("a thread's number is positive");
    let (whose, last) = &LEFT[thread % LEFT.len()];
    let same_thread = whose.swap(thread, Ordering::Relaxed) == thread;
    last.swap(address, Ordering::Relaxed) == address && same_thread
}
