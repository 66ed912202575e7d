//! Memory that the C library keeps in the heap for itself and passes to the kernel: buffers of streams, folders and
//! queries.
//!
//! Where system calls do not wait for a fault (`system_calls`), those that the C library makes inside itself cannot be
//! wrapped. So its allocations for a stream, a folder or a query are kept out of the guarded heap. A stream's buffer
//! would be allocated at its first use, by any thread: it is requested at once.
//!
//! `posix_spawn`, `system` and `popen` run a child on this process' memory with every signal blocked, where a fault
//! would be fatal: everything is unlocked meanwhile, as for a fork.

#![allow(unsafe_code, reason = "the C interface")]

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use libc::FILE;

use crate::BACKING;
use crate::heap::private::Outside;
use crate::next::NextSymbol;

use super::buffers::{Piece, UnlockedForCall};
use super::exec::{Named, fitting};
use super::mmap;

unsafe extern "C" {
    static stdin: *mut FILE;
    static stdout: *mut FILE;
}

/// Bytes of a buffer; as many as the C library takes for a file.
const BUFFER: usize = 4096;

type SetBuffer = unsafe extern "C-unwind" fn(*mut FILE, *mut c_char, c_int, usize) -> c_int;

// SAFETY: the signature is that of setvbuf(3).
static SETVBUF: NextSymbol<SetBuffer> = unsafe { NextSymbol::named(c"setvbuf") };

/// The standard streams get buffers outside of the heap. Before the program uses them.
pub(crate) fn bring_outside() {
    for (number, writes) in [(0, false), (1, true)] {
        let buffer = Box::leak(Box::new([0_u8; BUFFER])).as_mut_ptr().cast();
        // SAFETY: the C library's own streams; the buffer lives as long as the process.
        unsafe {
            let stream = if writes { stdout } else { stdin };
            let line_by_line = writes && libc::isatty(number) == 1;
            let mode = if line_by_line { libc::_IOLBF } else { libc::_IOFBF };
            SETVBUF.get()(stream, buffer, mode, BUFFER);
        }
    }
}

/// Memory that `make` allocates is outside of the heap, and the stream has its buffer.
unsafe fn streamed(make: impl FnOnce() -> *mut FILE) -> *mut FILE {
    let outside = BACKING.faults_are_signals().then(Outside::enter);
    let stream = make();
    if outside.is_some() && !stream.is_null() {
        // SAFETY: a stream that was just opened; without a buffer to take, it allocates one now.
        unsafe { SETVBUF.get()(stream, ptr::null_mut(), libc::_IOFBF, BUFFER) };
    }
    stream
}

/// Everything is unlocked while `work` runs.
pub(crate) fn opened<R>(work: impl FnOnce() -> R) -> R {
    let all = BACKING.faults_are_signals();
    if all {
        BACKING.before_fork(&[]);
    }
    let result = work();
    if all {
        BACKING.after_fork_in_parent(&[]);
    }
    result
}

type Open = unsafe extern "C-unwind" fn(*const c_char, *const c_char) -> *mut FILE;

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE {
    // SAFETY: the signature is that of fopen(3).
    static NEXT: NextSymbol<Open> = unsafe { NextSymbol::named(c"fopen") };
    // SAFETY: guaranteed by the caller.
    unsafe {
        let _held = UnlockedForCall::new(&[Piece::Text(path)]);
        streamed(|| NEXT.get()(path, mode))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE {
    // SAFETY: the signature is that of fopen(3).
    static NEXT: NextSymbol<Open> = unsafe { NextSymbol::named(c"fopen64") };
    // SAFETY: guaranteed by the caller.
    unsafe {
        let _held = UnlockedForCall::new(&[Piece::Text(path)]);
        streamed(|| NEXT.get()(path, mode))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn fdopen(file: c_int, mode: *const c_char) -> *mut FILE {
    // SAFETY: the signature is that of fdopen(3).
    static NEXT: NextSymbol<unsafe extern "C-unwind" fn(c_int, *const c_char) -> *mut FILE> =
        unsafe { NextSymbol::named(c"fdopen") };
    // SAFETY: guaranteed by the caller.
    unsafe { streamed(|| NEXT.get()(file, mode)) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn tmpfile() -> *mut FILE {
    // SAFETY: the signature is that of tmpfile(3).
    static NEXT: NextSymbol<unsafe extern "C-unwind" fn() -> *mut FILE> = unsafe { NextSymbol::named(c"tmpfile") };
    // SAFETY: guaranteed by the caller.
    unsafe { streamed(|| NEXT.get()()) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn popen(command: *const c_char, mode: *const c_char) -> *mut FILE {
    // SAFETY: the signature is that of popen(3).
    static NEXT: NextSymbol<Open> = unsafe { NextSymbol::named(c"popen") };
    // SAFETY: guaranteed by the caller.
    opened(|| unsafe { streamed(|| NEXT.get()(command, mode)) })
}

/// A buffer of the program's own is excluded.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn setvbuf(stream: *mut FILE, buffer: *mut c_char, mode: c_int, length: usize) -> c_int {
    if BACKING.faults_are_signals() && !buffer.is_null() {
        mmap::leave(buffer.cast(), length);
    }
    // SAFETY: guaranteed by the caller.
    unsafe { SETVBUF.get()(stream, buffer, mode, length) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn opendir(path: *const c_char) -> *mut c_void {
    // SAFETY: the signature is that of opendir(3).
    static NEXT: NextSymbol<unsafe extern "C-unwind" fn(*const c_char) -> *mut c_void> =
        unsafe { NextSymbol::named(c"opendir") };
    let _outside = BACKING.faults_are_signals().then(Outside::enter);
    // SAFETY: guaranteed by the caller.
    unsafe {
        let _held = UnlockedForCall::new(&[Piece::Text(path)]);
        NEXT.get()(path)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn fdopendir(file: c_int) -> *mut c_void {
    // SAFETY: the signature is that of fdopendir(3).
    static NEXT: NextSymbol<unsafe extern "C-unwind" fn(c_int) -> *mut c_void> =
        unsafe { NextSymbol::named(c"fdopendir") };
    let _outside = BACKING.faults_are_signals().then(Outside::enter);
    // SAFETY: guaranteed by the caller.
    unsafe { NEXT.get()(file) }
}

/// It asks the kernel for the CPUs of the thread, in memory that it allocates.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_getattr_np(thread: libc::pthread_t, to: *mut libc::pthread_attr_t) -> c_int {
    // SAFETY: the signature is that of pthread_getattr_np(3).
    static NEXT: NextSymbol<unsafe extern "C-unwind" fn(libc::pthread_t, *mut libc::pthread_attr_t) -> c_int> =
        unsafe { NextSymbol::named(c"pthread_getattr_np") };
    let _outside = BACKING.faults_are_signals().then(Outside::enter);
    // SAFETY: guaranteed by the caller.
    unsafe { NEXT.get()(thread, to) }
}

type Resolve =
    unsafe extern "C-unwind" fn(*const c_char, *const c_char, *const libc::addrinfo, *mut *mut libc::addrinfo) -> c_int;

/// It queries name servers from memory that it allocates.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const libc::addrinfo,
    to: *mut *mut libc::addrinfo,
) -> c_int {
    // SAFETY: the signature is that of getaddrinfo(3).
    static NEXT: NextSymbol<Resolve> = unsafe { NextSymbol::named(c"getaddrinfo") };
    let _outside = BACKING.faults_are_signals().then(Outside::enter);
    // SAFETY: guaranteed by the caller.
    unsafe { NEXT.get()(node, service, hints, to) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn system(command: *const c_char) -> c_int {
    // SAFETY: the signature is that of system(3).
    static NEXT: NextSymbol<unsafe extern "C-unwind" fn(*const c_char) -> c_int> =
        unsafe { NextSymbol::named(c"system") };
    // SAFETY: guaranteed by the caller.
    opened(|| unsafe { NEXT.get()(command) })
}

type Spawn = unsafe extern "C-unwind" fn(
    *mut libc::pid_t,
    *const c_char,
    *const libc::posix_spawn_file_actions_t,
    *const libc::posix_spawnattr_t,
    *const *mut c_char,
    *const *mut c_char,
) -> c_int;

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn posix_spawn(
    child: *mut libc::pid_t,
    path: *const c_char,
    actions: *const libc::posix_spawn_file_actions_t,
    attributes: *const libc::posix_spawnattr_t,
    arguments: *const *mut c_char,
    environment: *const *mut c_char,
) -> c_int {
    // SAFETY: the signature is that of posix_spawn(3).
    static NEXT: NextSymbol<Spawn> = unsafe { NextSymbol::named(c"posix_spawn") };
    // SAFETY: guaranteed by the caller.
    let fitting = unsafe { fitting(path, Named::File, environment.cast()) };
    let environment = fitting.as_ref().map_or(environment, |fitting| fitting.texts().cast());
    // SAFETY: guaranteed by the caller.
    opened(|| unsafe { NEXT.get()(child, path, actions, attributes, arguments, environment) })
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn posix_spawnp(
    child: *mut libc::pid_t,
    path: *const c_char,
    actions: *const libc::posix_spawn_file_actions_t,
    attributes: *const libc::posix_spawnattr_t,
    arguments: *const *mut c_char,
    environment: *const *mut c_char,
) -> c_int {
    // SAFETY: the signature is that of posix_spawnp(3).
    static NEXT: NextSymbol<Spawn> = unsafe { NextSymbol::named(c"posix_spawnp") };
    // SAFETY: guaranteed by the caller.
    let fitting = unsafe { fitting(path, Named::Program, environment.cast()) };
    let environment = fitting.as_ref().map_or(environment, |fitting| fitting.texts().cast());
    // SAFETY: guaranteed by the caller.
    opened(|| unsafe { NEXT.get()(child, path, actions, attributes, arguments, environment) })
}
