//! Children that a program makes without fork(3).
//!
//! **Problem.** A child has a copy of the program's memory at that moment. Locked pages are elsewhere, and a child
//! would read zeros there; or wait for threads of the guard that it does not have. The handlers of a fork
//! ([`before_fork`], [`in_parent`], [`in_child`]) run for fork(3) only. **Idea.** Other ways to make children with a
//! copy of the memory are announced here like a fork: `_Fork`, `clone`, and `syscall` with the numbers of fork, clone
//! and clone3 (`by_number`). Everything is unlocked when the child is made. **Why this way.** Only system calls by an
//! instruction of the program's own are left: their children do not have the lockable memory (`MADV_DONTFORK`), and
//! end, with a message, where they touch it (`signals::faults`).
//!
//! These children go on without a guard, on ordinary memory, and are counted: fork(3) holds jemalloc's locks while it
//! makes a child, but here another thread may hold one, so a guard that begins would wait for ever. A program that they
//! execute is guarded again.
//!
//! A child that borrows its parent's memory (`CLONE_VM`, as of vfork(2) and posix_spawn(3)) is served like a thread. It
//! may go on on its parent's stack, so nothing of ours may be on that: such a call passes without a frame.

#![allow(unsafe_code, reason = "the C interface, and system calls")]

use std::ffi::{c_int, c_long, c_void};

use crate::heap::private;
use crate::next::NextSymbol;
use crate::{BACKING, HEAP};

use super::kernel::errno;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::kernel::{ask, word};
use super::mmap;

type Fork = unsafe extern "C" fn() -> libc::pid_t;
type Function = extern "C-unwind" fn(*mut c_void) -> c_int;
type Clone = unsafe extern "C-unwind" fn(
    Option<Function>,
    *mut c_void,
    c_int,
    *mut c_void,
    *mut libc::pid_t,
    *mut c_void,
    *mut libc::pid_t,
) -> c_int;

// SAFETY: the signature is that of _Fork(3).
static FORK: NextSymbol<Fork> = unsafe { NextSymbol::named(c"_Fork") };
// SAFETY: the signature is that of clone(2), with its variable arguments, which are passed alike.
static CLONE: NextSymbol<Clone> = unsafe { NextSymbol::named(c"clone") };

/// Looks the functions up: a signal handler may call them.
pub(crate) fn find_all() {
    FORK.find();
    CLONE.find();
}

/// jemalloc has handlers of its own for its locks, registered before this one; our locks are words.
pub(crate) extern "C" fn in_child() {
    private::forget_other_threads();
    BACKING.after_fork_in_child(HEAP.used(), &mmap::left_while_forking());
    mmap::after_fork();
}

/// In a child that was made without the handlers of a fork: it goes on without a guard, on ordinary memory.
fn in_child_alone() {
    private::forget_other_threads();
    BACKING.stay_alone_in_child(&mmap::left_while_forking());
    mmap::after_fork();
}

pub(crate) extern "C" fn before_fork() {
    mmap::before_fork();
    BACKING.before_fork(&mmap::left_while_forking());
}

pub(crate) extern "C" fn in_parent() {
    BACKING.after_fork_in_parent(&mmap::left_while_forking());
    mmap::after_fork();
}

/// Makes a child with a copy of the memory, if `make` can; the child goes on here too, with 0, or elsewhere.
fn announced(make: impl FnOnce() -> c_long) -> c_long {
    if !BACKING.is_live() {
        return make();
    }
    // SAFETY: this thread's own variable.
    let before = unsafe { *errno() };
    before_fork();
    // SAFETY: as above.
    unsafe { *errno() = before };
    let made = make();
    // SAFETY: as above.
    let after = unsafe { *errno() };
    if made == 0 {
        in_child_alone();
    } else {
        if made > 0 {
            BACKING.count_left_child();
        }
        in_parent();
    }
    // SAFETY: as above.
    unsafe { *errno() = after };
    made
}

#[unsafe(no_mangle)]
unsafe extern "C" fn _Fork() -> libc::pid_t {
    // SAFETY: guaranteed by the caller.
    let made = announced(|| c_long::from(unsafe { FORK.get()() }));
    libc::pid_t::try_from(made).expect("a process has a small number")
}

/// The start of a child of clone(3).
struct Beginning {
    function: Function,
    argument: *mut c_void,
}

extern "C-unwind" fn begin(beginning: *mut c_void) -> c_int {
    // SAFETY: it lies on the stack of the thread that made this child, which has a copy of that.
    let Beginning { function, argument } = *unsafe { &*beginning.cast::<Beginning>() };
    in_child_alone();
    function(argument)
}

/// The last three arguments count with some flags only; the C library declares them as variable ones, which are passed
/// alike.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn clone(
    function: Option<Function>,
    stack: *mut c_void,
    flags: c_int,
    argument: *mut c_void,
    parents: *mut libc::pid_t,
    storage: *mut c_void,
    childs: *mut libc::pid_t,
) -> c_int {
    let make = |function, argument| {
        // SAFETY: guaranteed by the caller; a beginning of ours is as good as the caller's.
        unsafe { CLONE.get()(function, stack, flags, argument, parents, storage, childs) }
    };
    let Some(function) = function.filter(|_| flags & libc::CLONE_VM == 0 && BACKING.is_live()) else {
        return make(function, argument);
    };
    let mut beginning = Beginning { function, argument };
    let made = announced(|| c_long::from(make(Some(begin), (&raw mut beginning).cast())));
    c_int::try_from(made).expect("a process has a small number")
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __clone(
    function: Option<Function>,
    stack: *mut c_void,
    flags: c_int,
    argument: *mut c_void,
    parents: *mut libc::pid_t,
    storage: *mut c_void,
    childs: *mut libc::pid_t,
) -> c_int {
    // SAFETY: guaranteed by the caller.
    unsafe { clone(function, stack, flags, argument, parents, storage, childs) }
}

/// A system call that makes a child with a copy of the memory, on the same stack (`by_number`).
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) unsafe extern "C" fn copied(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    // SAFETY: guaranteed by the caller.
    announced(|| unsafe { ask(number, [a, b, c, d, e, f].map(word)) })
}
