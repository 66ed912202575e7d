//! System calls by the processor's instruction.
//!
//! **Problem.** This library defines a `syscall` before that of the C library (`by_number`), which tells the guard
//! about memory. Its implementation needs the kernel itself. **Idea.** One instruction, and the result as syscall(2)
//! returns it. **Why this way.** No function is in between that somebody could override, or overwrite as the memory
//! hooks of MPI libraries do.

#![allow(unsafe_code, reason = "system calls")]

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use std::arch::asm;
use std::ffi::{c_int, c_long};

/// This thread's own variable.
pub(crate) fn errno() -> *mut c_int {
    // SAFETY: the call cannot fail.
    unsafe { libc::__errno_location() }
}

/// Fails a call with this error.
pub(crate) fn fail(why: c_int) -> c_long {
    // SAFETY: this thread's own variable.
    unsafe { *errno() = why };
    -1
}

/// A system call; it returns what syscall(2) does.
///
/// # Safety
/// As for the call.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) unsafe fn ask(number: c_long, arguments: [usize; 6]) -> c_long {
    // SAFETY: guaranteed by the caller.
    match unsafe { instruct(number, arguments) } {
        returned @ -4095..0 => failed(returned),
        returned => returned,
    }
}

/// A system call; it returns what syscall(2) does.
///
/// # Safety
/// As for the call.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) unsafe fn ask(number: c_long, [a, b, c, d, e, f]: [usize; 6]) -> c_long {
    // SAFETY: guaranteed by the caller.
    unsafe { libc::syscall(number, a, b, c, d, e, f) }
}

/// The result of syscall(2) for this result of the kernel.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) extern "C" fn failed(returned: c_long) -> c_long {
    fail(c_int::try_from(-returned).expect("an error has a small number"))
}

/// A word as an address, or as a length.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) fn word(word: c_long) -> usize {
    usize::try_from(word.cast_unsigned()).expect("a word has 64 bits here")
}

/// # Safety
/// As for the call.
#[cfg(target_arch = "x86_64")]
unsafe fn instruct(number: c_long, [a, b, c, d, e, f]: [usize; 6]) -> c_long {
    let returned;
    // SAFETY: guaranteed by the caller; the instruction changes these registers and no others.
    unsafe {
        asm!(
            "syscall", inlateout("rax") number => returned, in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
            in("r8") e, in("r9") f, lateout("rcx") _, lateout("r11") _, options(nostack)
        );
    }
    returned
}

/// # Safety
/// As for the call.
#[cfg(target_arch = "aarch64")]
unsafe fn instruct(number: c_long, [a, b, c, d, e, f]: [usize; 6]) -> c_long {
    let returned;
    // SAFETY: guaranteed by the caller.
    unsafe {
        asm!(
            "svc 0", in("x8") number, inlateout("x0") a => returned, in("x1") b, in("x2") c, in("x3") d, in("x4") e,
            in("x5") f, options(nostack)
        );
    }
    returned
}
