//! A program that changes its user.
//!
//! A guard's reports go on the map of bad frames with the rights of the program's user. A process that gives them up,
//! as servers do before they listen to strangers, stays under guard, but is no longer believed
//! (`ProcessGuard::user_changed`).

#![allow(unsafe_code, reason = "the C interface")]

use std::ffi::c_int;

use libc::uid_t;

use crate::BACKING;
use crate::next::NextSymbol;

/// The result of the C library's function, once the guard knows.
fn changed(done: c_int) -> c_int {
    if done == 0 {
        BACKING.user_changed();
    }
    done
}

#[unsafe(no_mangle)]
unsafe extern "C" fn setuid(user: uid_t) -> c_int {
    // SAFETY: the signature is that of setuid(2).
    static NEXT: NextSymbol<unsafe extern "C" fn(uid_t) -> c_int> = unsafe { NextSymbol::named(c"setuid") };
    // SAFETY: it takes an integer.
    changed(unsafe { NEXT.get()(user) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn seteuid(user: uid_t) -> c_int {
    // SAFETY: the signature is that of seteuid(2).
    static NEXT: NextSymbol<unsafe extern "C" fn(uid_t) -> c_int> = unsafe { NextSymbol::named(c"seteuid") };
    // SAFETY: it takes an integer.
    changed(unsafe { NEXT.get()(user) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn setreuid(real: uid_t, effective: uid_t) -> c_int {
    // SAFETY: the signature is that of setreuid(2).
    static NEXT: NextSymbol<unsafe extern "C" fn(uid_t, uid_t) -> c_int> = unsafe { NextSymbol::named(c"setreuid") };
    // SAFETY: it takes integers.
    changed(unsafe { NEXT.get()(real, effective) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn setresuid(real: uid_t, effective: uid_t, saved: uid_t) -> c_int {
    // SAFETY: the signature is that of setresuid(2).
    static NEXT: NextSymbol<unsafe extern "C" fn(uid_t, uid_t, uid_t) -> c_int> =
        unsafe { NextSymbol::named(c"setresuid") };
    // SAFETY: it takes integers.
    changed(unsafe { NEXT.get()(real, effective, saved) })
}
