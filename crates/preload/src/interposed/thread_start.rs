//! Memory that threads of the program touch while every signal is blocked: at their beginning, and at their end.
//!
//! **Problem.** Where a touch of a locked page is a signal, the kernel ends a thread that has it blocked, and the
//! process with it. The C library blocks all signals in a new thread until it has read its locale, and in a detached
//! one when it frees its table of thread-local variables (glibc, nptl/pthread_create.c). **Idea.** Both are kept out of
//! the heap, like the memory that the C library passes to the kernel (`streams`). **Why this way.** They are a few
//! kilobytes, and need no tracking.
//!
//! A table that grows after dlopen(3) is in the heap again.

#![allow(unsafe_code, reason = "the C interface")]

use std::ffi::{c_char, c_int, c_void};

use libc::{locale_t, pthread_attr_t, pthread_t};

use crate::BACKING;
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

/// Memory that `make` allocates is outside of the heap.
fn outside<R>(make: impl FnOnce() -> R) -> R {
    let _outside = BACKING.faults_are_signals().then(Outside::enter);
    make()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    begin: Option<Begin>,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: guaranteed by the caller.
    outside(|| unsafe { PTHREAD_CREATE.get()(thread, attributes, begin, argument) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn setlocale(category: c_int, name: *const c_char) -> *mut c_char {
    // SAFETY: guaranteed by the caller.
    outside(|| unsafe { SETLOCALE.get()(category, name) })
}

/// setlocale(3) may use loaded data later.
#[unsafe(no_mangle)]
unsafe extern "C" fn newlocale(categories: c_int, name: *const c_char, base: locale_t) -> locale_t {
    // SAFETY: guaranteed by the caller.
    outside(|| unsafe { NEWLOCALE.get()(categories, name, base) })
}
