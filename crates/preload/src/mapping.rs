//! What a program does to mappings by itself, where that is of the heap.
//!
//! `malloc` gives no right to it, and yet some programs do it: collectors give pages of their heap back to the kernel, or take
//! the right to write away. The kernel would do as it is told to the program's range and know nothing of the vault. So these
//! calls come here first: pages that are given back are forgotten wherever they are, and what cannot be followed is left with the
//! program, unlocked for good. Then the kernel is asked as usual.

#![allow(unsafe_code, reason = "system calls of the C interface")]

use std::ffi::{c_int, c_long, c_void};

use crate::{GROUND, HEAP};

/// # Safety
/// As for the system call.
unsafe fn ask(number: c_long, arguments: [usize; 5]) -> c_long {
    let [a, b, c, d, e] = arguments;
    // SAFETY: the caller's promise.
    unsafe { libc::syscall(number, a, b, c, d, e) }
}

fn result(returned: c_long) -> c_int {
    c_int::try_from(returned).expect("0 or -1")
}

#[unsafe(no_mangle)]
unsafe extern "C" fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int {
    let gives_back = matches!(advice, libc::MADV_DONTNEED | libc::MADV_FREE | libc::MADV_REMOVE);
    let aligned = address.addr().is_multiple_of(4096);
    if HEAP.owns(address) && gives_back && aligned && (length == 0 || GROUND.zero(address.addr(), length)) {
        return 0;
    }
    // SAFETY: the caller's promise.
    let returned = unsafe { ask(libc::SYS_madvise, [address.addr(), length, advice.cast_unsigned() as usize, 0, 0]) };
    result(returned)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mprotect(address: *mut c_void, length: usize, protection: c_int) -> c_int {
    leave(address, length);
    // SAFETY: the caller's promise.
    let returned =
        unsafe { ask(libc::SYS_mprotect, [address.addr(), length, protection.cast_unsigned() as usize, 0, 0]) };
    result(returned)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn munmap(address: *mut c_void, length: usize) -> c_int {
    leave(address, length);
    // SAFETY: the caller's promise.
    let returned = unsafe { ask(libc::SYS_munmap, [address.addr(), length, 0, 0, 0]) };
    result(returned)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mlock(address: *const c_void, length: usize) -> c_int {
    leave(address, length);
    // SAFETY: the caller's promise.
    let returned = unsafe { ask(libc::SYS_mlock, [address.addr(), length, 0, 0, 0]) };
    result(returned)
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
    leave(address, old);
    let arguments = [address.addr(), old, new, flags.cast_unsigned() as usize, to.addr()];
    // SAFETY: the caller's promise.
    let returned = unsafe { ask(libc::SYS_mremap, arguments) };
    let address = usize::try_from(returned.cast_unsigned()).expect("an address has 64 bits here");
    std::ptr::with_exposed_provenance_mut(address)
}

fn leave(address: *const c_void, length: usize) {
    if HEAP.owns(address) {
        GROUND.leave(address.addr(), length);
    }
}
