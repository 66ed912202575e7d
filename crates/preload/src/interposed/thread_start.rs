//! What threads of the program touch while every signal is blocked: when they begin, and when they end.
//!
//! **Problem.** Where a touch of a locked page is a signal, a thread that has it blocked is ended by the kernel, and
//! the process with it. The C library blocks all in a new thread until it has looked at its locale, and in one that
//! nobody waits for when it gives its table of thread-local variables back (glibc, nptl/pthread_create.c). **Idea.**
//! Both are kept out of the heap, as what the C library hands to the kernel is (`streams`). **Why this way.** They
//! are a few kilobytes, and nothing is to be watched.
//!
//! A table that grows after dlopen(3) is in the heap again.

#![allow(unsafe_code, reason = "the C interface")]

use std::ffi::{c_char, c_int, c_void};

use libc::{locale_t, pthread_attr_t, pthread_t};

use crate::GROUND;
use crate::heap::private::Outside;
use crate::next::NextSymbol;

type Begin = extern "C" fn(*mut c_void) -> *mut c_void;
type Create = unsafe extern "C" fn(*mut pthread_t, *const pthread_attr_t, Option<Begin>, *mut c_void) -> c_int;
type SetLocale = unsafe extern "C" fn(c_int, *const c_char) -> *mut c_char;
type NewLocale = unsafe extern "C" fn(c_int, *const c_char, locale_t) -> locale_t;

// SAFETY: the signature is that of pthread_create(3).
static PTHREAD_CREATE: NextSymbol<Create> = unsafe { NextSymbol::named(c"pthread_create") };
// SAFETY: the signature is that of setlocale(3).
static SETLOCALE: NextSymbol<SetLocale> = unsafe { NextSymbol::named(c"setlocale") };
// SAFETY: the signature is that of newlocale(3).
static NEWLOCALE: NextSymbol<NewLocale> = unsafe { NextSymbol::named(c"newlocale") };

/// What `make` allocates lies outside of the heap.
fn outside<R>(make: impl FnOnce() -> R) -> R {
    let _outside = GROUND.faults_are_signals().then(Outside::enter);
    make()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    begin: Option<Begin>,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    outside(|| unsafe { PTHREAD_CREATE.get()(thread, attributes, begin, argument) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn setlocale(category: c_int, name: *const c_char) -> *mut c_char {
    // SAFETY: the caller's promise.
    outside(|| unsafe { SETLOCALE.get()(category, name) })
}

/// What it loads, setlocale(3) may use later.
#[unsafe(no_mangle)]
unsafe extern "C" fn newlocale(categories: c_int, name: *const c_char, base: locale_t) -> locale_t {
    // SAFETY: the caller's promise.
    outside(|| unsafe { NEWLOCALE.get()(categories, name, base) })
}
