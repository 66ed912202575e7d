//! System calls on locked pages, where they do not wait for a fault.
//!
//! **Problem.** Where protections lock pages, the kernel raises no signal when it meets a locked one in a system call:
//! the call fails with EFAULT [Fiala15, 4.4.7]. **Idea.** As in FlipSphere, the functions of the C library that make
//! such calls are wrapped: memory that they pass to the kernel is unlocked first. Here it is also *held*: it stays
//! unlocked until the call is done, however long it waits. **Why this way.** One row per function says which of its
//! arguments the kernel reads or writes; nothing else need be known of it.
//!
//! Functions that are not in the tables, calls that the C library makes inside itself, and a program's own `syscall(2)`
//! fail on a locked page. Memory that the C library uses for streams and folders is kept out of the heap instead
//! (`streams`).
//!
//! Where calls wait and devices go unseen, memory for a file that bypasses the kernel's cache is held alike.

#![allow(unsafe_code, reason = "the C interface")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulong, c_void};
use std::ptr;

use libc::{dirent, epoll_event, iovec, mode_t, msghdr, nfds_t, off_t, pollfd, sockaddr, socklen_t, stack_t, timespec};

use crate::next::NextSymbol;
use crate::{BACKING, HEAP};

use super::buffers::{Piece, UnlockedForCall};
use super::environment::{self, Texts as Arguments, environment};
use super::exec::{Environment, Named, fitting};
use super::mmap;
use super::streams::opened;

/// One object.
const fn one<T>(of: *const T) -> Piece {
    Piece::Bytes(of.cast(), size_of::<T>())
}

/// Bytes, counted by a length of another type.
fn bytes<T, L: TryInto<usize>>(of: *const T, length: L) -> Piece {
    Piece::Bytes(of.cast(), length.try_into().unwrap_or(0))
}

/// An array.
fn array<T, L: TryInto<usize>>(of: *const T, count: L) -> Piece {
    bytes(of, count.try_into().unwrap_or(0).saturating_mul(size_of::<T>()))
}

/// The whole of an allocation, if it is in the heap; nothing is known of other allocators.
///
/// # Safety
/// Null, or an allocation.
unsafe fn allocation(of: *const c_void) -> Piece {
    // SAFETY: guaranteed by the caller.
    bytes(of, if HEAP.owns(of) { unsafe { HEAP.usable_size(of) } } else { 0 })
}

fn vector(of: *const iovec, count: c_int) -> Piece {
    Piece::Vector(of, usize::try_from(count).unwrap_or(0))
}

/// The bytes that a device gets: the size in the number of the request (asm-generic/ioctl.h); for old requests, which
/// have none there, at least as many as for any.
fn control_bytes(request: c_ulong) -> usize {
    const OLD: usize = 64;
    usize::try_from(request >> 16 & 0x3fff).map_or(OLD, |size| size.max(OLD))
}

/// The length at an address; 0 at null.
///
/// # Safety
/// Null, or a length.
unsafe fn length_at(place: *const socklen_t) -> usize {
    // SAFETY: guaranteed by the caller.
    unsafe { place.as_ref() }.map_or(0, |length| usize::try_from(*length).unwrap_or(0))
}

/// Whether memory for a file must be held: because the call would not wait for a fault; or because a device reads and
/// writes it unseen (`O_DIRECT`).
fn is_held(file: c_int) -> bool {
    // SAFETY: the call takes integers, and one that names no file is refused.
    let is_direct =
        || matches!(unsafe { libc::fcntl(file, libc::F_GETFL) }, flags @ 0.. if flags & libc::O_DIRECT != 0);
    BACKING.faults_are_signals() || BACKING.misses_devices() && without_errno(is_direct)
}

/// Without a buffer of the program's, the C library takes one from the heap and passes it to the kernel: so it is
/// allocated here.
#[unsafe(no_mangle)]
unsafe extern "C" fn getcwd(to: *mut c_char, length: usize) -> *mut c_char {
    // SAFETY: the signature is that of getcwd(3).
    static NEXT: NextSymbol<unsafe extern "C" fn(*mut c_char, usize) -> *mut c_char> =
        unsafe { NextSymbol::named(c"getcwd") };
    // SAFETY: guaranteed by the caller; what is taken here is as long, and is given back where it is not handed out.
    unsafe {
        if !to.is_null() || !BACKING.faults_are_signals() {
            let _held = UnlockedForCall::new(&[bytes(to, length)]);
            return NEXT.get()(to, length);
        }
        let room = if length > 0 { length } else { libc::PATH_MAX.unsigned_abs() as usize };
        let taken: *mut c_char = libc::malloc(room).cast();
        if taken.is_null() || !getcwd(taken, room).is_null() {
            return taken;
        }
        without_errno(|| libc::free(taken.cast()));
        ptr::null_mut()
    }
}

/// The effects of our own calls on `errno` are not the program's.
fn without_errno<R>(work: impl FnOnce() -> R) -> R {
    // SAFETY: it is this thread's own variable.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    let result = work();
    // SAFETY: as above.
    unsafe { *errno = before };
    result
}

/// A table of functions, and when they hold memory: the signature of each, and the memory that the kernel reads and
/// writes for it. Each holds that, calls the C library's, and returns its result. A thread may be cancelled in there,
/// which releases the memory.
macro_rules! wrapped {
    ($table:ident if $when:expr; $($name:ident($($argument:ident: $kind:ty),* $(,)?) -> $returned:ty [$($piece:expr),* $(,)?];)*) => {
        /// The C library's functions for a table.
        mod $table {
            #![allow(non_upper_case_globals, reason = "called as the functions are")]

            use super::*;

            $(
                // SAFETY: the signature is that of the C library.
                pub(super) static $name: NextSymbol<unsafe extern "C-unwind" fn($($kind),*) -> $returned> = unsafe {
                    NextSymbol::named(match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                        Ok(name) => name,
                        Err(_) => panic!("a name has no zero inside"),
                    })
                };
            )*

            pub(super) fn find_all() {
                $($name.find();)*
            }
        }

        $(
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $name($($argument: $kind),*) -> $returned {
                // SAFETY: guaranteed by the caller, of each argument.
                unsafe {
                    let _held = UnlockedForCall::when(|| $when, &[$($piece),*]);
                    $table::$name.get()($($argument),*)
                }
            }
        )*
    };
}

/// Looks all of them up, before anything is locked.
pub(crate) fn find_all() {
    transfers::find_all();
    buffered::find_all();
    files::find_all();
    sockets::find_all();
    locks::find_all();
    MUTEX_TRYLOCK.find();
}

/// Looks up what the allocator of the guard's own threads calls too. One of them may hold what the fault handler waits
/// for, while a thread that faults holds the loader's lock.
pub(crate) fn find_mutex_lock() {
    MUTEX_LOCK.find();
}

// Files, and streams where they bypass their buffers. Variable arguments of C are passed alike; programs that are
// compiled with _FORTIFY_SOURCE call the names in `_chk` and `_2`, old ones those in `__x`.
wrapped! {
    transfers if is_held(file);
    read(file: c_int, to: *mut c_void, length: usize) -> isize [bytes(to, length)];
    write(file: c_int, from: *const c_void, length: usize) -> isize [bytes(from, length)];
    pread(file: c_int, to: *mut c_void, length: usize, at: off_t) -> isize [bytes(to, length)];
    pread64(file: c_int, to: *mut c_void, length: usize, at: off_t) -> isize [bytes(to, length)];
    pwrite(file: c_int, from: *const c_void, length: usize, at: off_t) -> isize [bytes(from, length)];
    pwrite64(file: c_int, from: *const c_void, length: usize, at: off_t) -> isize [bytes(from, length)];
    readv(file: c_int, to: *const iovec, count: c_int) -> isize [vector(to, count)];
    writev(file: c_int, from: *const iovec, count: c_int) -> isize [vector(from, count)];
    preadv(file: c_int, to: *const iovec, count: c_int, at: off_t) -> isize [vector(to, count)];
    preadv64(file: c_int, to: *const iovec, count: c_int, at: off_t) -> isize [vector(to, count)];
    pwritev(file: c_int, from: *const iovec, count: c_int, at: off_t) -> isize [vector(from, count)];
    pwritev64(file: c_int, from: *const iovec, count: c_int, at: off_t) -> isize [vector(from, count)];
    __read_chk(file: c_int, to: *mut c_void, length: usize, room: usize) -> isize [bytes(to, length.min(room))];
    __pread_chk(file: c_int, to: *mut c_void, length: usize, at: off_t, room: usize) -> isize [bytes(to, length.min(room))];
    __pread64_chk(file: c_int, to: *mut c_void, length: usize, at: off_t, room: usize) -> isize [bytes(to, length.min(room))];
}

wrapped! {
    buffered if is_held(libc::fileno(stream));
    fread(to: *mut c_void, size: usize, count: usize, stream: *mut libc::FILE) -> usize [bytes(to, size.saturating_mul(count))];
    fread_unlocked(to: *mut c_void, size: usize, count: usize, stream: *mut libc::FILE) -> usize
        [bytes(to, size.saturating_mul(count))];
    fwrite(from: *const c_void, size: usize, count: usize, stream: *mut libc::FILE) -> usize
        [bytes(from, size.saturating_mul(count))];
    fwrite_unlocked(from: *const c_void, size: usize, count: usize, stream: *mut libc::FILE) -> usize
        [bytes(from, size.saturating_mul(count))];
    fputs(text: *const c_char, stream: *mut libc::FILE) -> c_int [Piece::Text(text)];
    fputs_unlocked(text: *const c_char, stream: *mut libc::FILE) -> c_int [Piece::Text(text)];
    __fread_chk(to: *mut c_void, room: usize, size: usize, count: usize, stream: *mut libc::FILE) -> usize
        [bytes(to, size.saturating_mul(count).min(room))];
    __fread_unlocked_chk(to: *mut c_void, room: usize, size: usize, count: usize, stream: *mut libc::FILE) -> usize
        [bytes(to, size.saturating_mul(count).min(room))];
}

wrapped! {
    files if BACKING.faults_are_signals();
    open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int [Piece::Text(path)];
    open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int [Piece::Text(path)];
    openat(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int [Piece::Text(path)];
    openat64(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int [Piece::Text(path)];
    stat(path: *const c_char, to: *mut libc::stat) -> c_int [Piece::Text(path), one(to)];
    stat64(path: *const c_char, to: *mut libc::stat64) -> c_int [Piece::Text(path), one(to)];
    lstat(path: *const c_char, to: *mut libc::stat) -> c_int [Piece::Text(path), one(to)];
    lstat64(path: *const c_char, to: *mut libc::stat64) -> c_int [Piece::Text(path), one(to)];
    fstat(file: c_int, to: *mut libc::stat) -> c_int [one(to)];
    fstat64(file: c_int, to: *mut libc::stat64) -> c_int [one(to)];
    fstatat(folder: c_int, path: *const c_char, to: *mut libc::stat, flags: c_int) -> c_int [Piece::Text(path), one(to)];
    fstatat64(folder: c_int, path: *const c_char, to: *mut libc::stat64, flags: c_int) -> c_int [Piece::Text(path), one(to)];
    statx(folder: c_int, path: *const c_char, flags: c_int, mask: c_uint, to: *mut libc::statx) -> c_int [Piece::Text(path), one(to)];
    access(path: *const c_char, mode: c_int) -> c_int [Piece::Text(path)];
    readlink(path: *const c_char, to: *mut c_char, length: usize) -> isize [Piece::Text(path), bytes(to, length)];
    chdir(path: *const c_char) -> c_int [Piece::Text(path)];
    mkdir(path: *const c_char, mode: mode_t) -> c_int [Piece::Text(path)];
    rmdir(path: *const c_char) -> c_int [Piece::Text(path)];
    unlink(path: *const c_char) -> c_int [Piece::Text(path)];
    rename(from: *const c_char, to: *const c_char) -> c_int [Piece::Text(from), Piece::Text(to)];
    pipe(to: *mut c_int) -> c_int [bytes(to, 8)];
    pipe2(to: *mut c_int, flags: c_int) -> c_int [bytes(to, 8)];
    ioctl(file: c_int, request: c_ulong, argument: *mut c_void) -> c_int [bytes(argument, control_bytes(request))];
    getrandom(to: *mut c_void, length: usize, flags: c_uint) -> isize [bytes(to, length)];
    __readlink_chk(path: *const c_char, to: *mut c_char, length: usize, room: usize) -> isize
        [Piece::Text(path), bytes(to, length.min(room))];
    __getcwd_chk(to: *mut c_char, length: usize, room: usize) -> *mut c_char [bytes(to, length.min(room))];
    __open_2(path: *const c_char, flags: c_int) -> c_int [Piece::Text(path)];
    __open64_2(path: *const c_char, flags: c_int) -> c_int [Piece::Text(path)];
    __openat_2(folder: c_int, path: *const c_char, flags: c_int) -> c_int [Piece::Text(path)];
    __openat64_2(folder: c_int, path: *const c_char, flags: c_int) -> c_int [Piece::Text(path)];
    __xstat(version: c_int, path: *const c_char, to: *mut libc::stat) -> c_int [Piece::Text(path), one(to)];
    __xstat64(version: c_int, path: *const c_char, to: *mut libc::stat64) -> c_int [Piece::Text(path), one(to)];
    __lxstat(version: c_int, path: *const c_char, to: *mut libc::stat) -> c_int [Piece::Text(path), one(to)];
    __lxstat64(version: c_int, path: *const c_char, to: *mut libc::stat64) -> c_int [Piece::Text(path), one(to)];
    __fxstat(version: c_int, file: c_int, to: *mut libc::stat) -> c_int [one(to)];
    __fxstat64(version: c_int, file: c_int, to: *mut libc::stat64) -> c_int [one(to)];
    readdir(folder: *mut c_void) -> *mut dirent [allocation(folder)];
    readdir64(folder: *mut c_void) -> *mut dirent [allocation(folder)];
}

// Sockets, and waiting for them.
wrapped! {
    sockets if BACKING.faults_are_signals();
    send(socket: c_int, from: *const c_void, length: usize, flags: c_int) -> isize [bytes(from, length)];
    recv(socket: c_int, to: *mut c_void, length: usize, flags: c_int) -> isize [bytes(to, length)];
    sendto(socket: c_int, from: *const c_void, length: usize, flags: c_int, to: *const sockaddr, named: socklen_t) -> isize
        [bytes(from, length), bytes(to, named)];
    recvfrom(socket: c_int, to: *mut c_void, length: usize, flags: c_int, from: *mut sockaddr, named: *mut socklen_t) -> isize
        [bytes(to, length), bytes(from, length_at(named)), one(named)];
    sendmsg(socket: c_int, message: *const msghdr, flags: c_int) -> isize [Piece::Message(message)];
    recvmsg(socket: c_int, message: *mut msghdr, flags: c_int) -> isize [Piece::Message(message)];
    connect(socket: c_int, to: *const sockaddr, named: socklen_t) -> c_int [bytes(to, named)];
    bind(socket: c_int, to: *const sockaddr, named: socklen_t) -> c_int [bytes(to, named)];
    accept(socket: c_int, from: *mut sockaddr, named: *mut socklen_t) -> c_int [bytes(from, length_at(named)), one(named)];
    accept4(socket: c_int, from: *mut sockaddr, named: *mut socklen_t, flags: c_int) -> c_int
        [bytes(from, length_at(named)), one(named)];
    getsockname(socket: c_int, to: *mut sockaddr, named: *mut socklen_t) -> c_int [bytes(to, length_at(named)), one(named)];
    getpeername(socket: c_int, to: *mut sockaddr, named: *mut socklen_t) -> c_int [bytes(to, length_at(named)), one(named)];
    getsockopt(socket: c_int, level: c_int, name: c_int, to: *mut c_void, length: *mut socklen_t) -> c_int
        [bytes(to, length_at(length)), one(length)];
    setsockopt(socket: c_int, level: c_int, name: c_int, from: *const c_void, length: socklen_t) -> c_int [bytes(from, length)];
    __recv_chk(socket: c_int, to: *mut c_void, length: usize, room: usize, flags: c_int) -> isize [bytes(to, length.min(room))];
    __poll_chk(files: *mut pollfd, count: nfds_t, milliseconds: c_int, room: usize) -> c_int [array(files, count)];
    poll(files: *mut pollfd, count: nfds_t, milliseconds: c_int) -> c_int [array(files, count)];
    epoll_wait(poll: c_int, to: *mut epoll_event, most: c_int, milliseconds: c_int) -> c_int [array(to, most)];
    epoll_ctl(poll: c_int, what: c_int, file: c_int, event: *mut epoll_event) -> c_int [one(event)];
    nanosleep(time: *const timespec, left: *mut timespec) -> c_int [one(time), one(left)];
    waitpid(child: c_int, status: *mut c_int, options: c_int) -> c_int [one(status)];
}

// Threads: a waiting thread sleeps on a word of the lock, which the kernel reads.
wrapped! {
    locks if BACKING.faults_are_signals();
    pthread_cond_wait(condition: *mut libc::pthread_cond_t, mutex: *mut libc::pthread_mutex_t) -> c_int
        [one(condition), one(mutex)];
    pthread_cond_timedwait(condition: *mut libc::pthread_cond_t, mutex: *mut libc::pthread_mutex_t, until: *const timespec) -> c_int
        [one(condition), one(mutex)];
    sched_getaffinity(thread: libc::pid_t, length: usize, to: *mut libc::cpu_set_t) -> c_int [bytes(to, length)];
    sched_setaffinity(thread: libc::pid_t, length: usize, from: *const libc::cpu_set_t) -> c_int [bytes(from, length)];
    pthread_getaffinity_np(thread: libc::pthread_t, length: usize, to: *mut libc::cpu_set_t) -> c_int [bytes(to, length)];
    pthread_setaffinity_np(thread: libc::pthread_t, length: usize, from: *const libc::cpu_set_t) -> c_int [bytes(from, length)];
    pthread_rwlock_rdlock(lock: *mut libc::pthread_rwlock_t) -> c_int [one(lock)];
    pthread_rwlock_wrlock(lock: *mut libc::pthread_rwlock_t) -> c_int [one(lock)];
    sem_wait(semaphore: *mut libc::sem_t) -> c_int [one(semaphore)];
    sem_timedwait(semaphore: *mut libc::sem_t, until: *const timespec) -> c_int [one(semaphore)];
    pthread_barrier_wait(barrier: *mut libc::pthread_barrier_t) -> c_int [one(barrier)];
}

type Lock = unsafe extern "C-unwind" fn(*mut libc::pthread_mutex_t) -> c_int;

// SAFETY: the signature is that of pthread_mutex_lock(3).
static MUTEX_LOCK: NextSymbol<Lock> = unsafe { NextSymbol::named(c"pthread_mutex_lock") };
// SAFETY: as above.
static MUTEX_TRYLOCK: NextSymbol<Lock> = unsafe { NextSymbol::named(c"pthread_mutex_trylock") };

/// A free mutex costs as much as without us.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_mutex_lock(mutex: *mut libc::pthread_mutex_t) -> c_int {
    // SAFETY: guaranteed by the caller.
    unsafe {
        if !BACKING.faults_are_signals() || !BACKING.owns(mutex.addr()) {
            return MUTEX_LOCK.get()(mutex);
        }
        match MUTEX_TRYLOCK.get()(mutex) {
            libc::EBUSY => {
                let _held = UnlockedForCall::new(&[one(mutex)]);
                MUTEX_LOCK.get()(mutex)
            }
            done => done,
        }
    }
}

/// The kernel puts a signal's frame there at any time: the pages are excluded.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sigaltstack(new: *const stack_t, old: *mut stack_t) -> c_int {
    // SAFETY: the signature is that of sigaltstack(2).
    static NEXT: NextSymbol<unsafe extern "C-unwind" fn(*const stack_t, *mut stack_t) -> c_int> =
        unsafe { NextSymbol::named(c"sigaltstack") };
    // SAFETY: guaranteed by the caller.
    unsafe {
        if let Some(stack) = new.as_ref().filter(|_| BACKING.faults_are_signals()) {
            mmap::leave(stack.ss_sp, stack.ss_size);
        }
        let _held = UnlockedForCall::new(&[one(new), one(old)]);
        NEXT.get()(new, old)
    }
}

/// As [`sigaltstack`]: a fault on a thread's stack has no room for its frame. Also where faults are messages: the
/// thread's control block is there, and the kernel's write to it at the thread's end does not wait for a fault.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_attr_setstack(
    attributes: *mut libc::pthread_attr_t,
    stack: *mut c_void,
    length: usize,
) -> c_int {
    type SetStack = unsafe extern "C-unwind" fn(*mut libc::pthread_attr_t, *mut c_void, usize) -> c_int;
    // SAFETY: the signature is that of pthread_attr_setstack(3).
    static NEXT: NextSymbol<SetStack> = unsafe { NextSymbol::named(c"pthread_attr_setstack") };
    mmap::leave(stack, length);
    // SAFETY: guaranteed by the caller.
    unsafe { NEXT.get()(attributes, stack, length) }
}

type Execute = unsafe extern "C-unwind" fn(*const c_char, Arguments, Arguments) -> c_int;

/// How often a child that borrows its memory tries to execute a program whose arguments the kernel could not read.
const TRIES: usize = 10_000;

/// A program that replaces this one: everything is unlocked meanwhile.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn execve(path: *const c_char, arguments: Arguments, environment: Arguments) -> c_int {
    // SAFETY: the signature is that of execve(2).
    static NEXT: NextSymbol<Execute> = unsafe { NextSymbol::named(c"execve") };
    // SAFETY: guaranteed by the caller.
    unsafe {
        let fitting = fitting(path, Named::File, environment);
        let environment = fitting.as_ref().map_or(environment, Environment::texts);
        executed(path, arguments, environment, || NEXT.get()(path, arguments, environment))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn execv(path: *const c_char, arguments: Arguments) -> c_int {
    // SAFETY: the signature is that of execv(3).
    static NEXT: NextSymbol<unsafe extern "C-unwind" fn(*const c_char, Arguments) -> c_int> =
        unsafe { NextSymbol::named(c"execv") };
    // SAFETY: guaranteed by the caller.
    unsafe {
        match fitting(path, Named::File, environment()) {
            Some(fitting) => execve(path, arguments, fitting.texts()),
            None => executed(path, arguments, ptr::null(), || NEXT.get()(path, arguments)),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn execvpe(path: *const c_char, arguments: Arguments, environment: Arguments) -> c_int {
    // SAFETY: the signature is that of execvpe(3).
    static NEXT: NextSymbol<Execute> = unsafe { NextSymbol::named(c"execvpe") };
    // SAFETY: guaranteed by the caller.
    unsafe {
        let fitting = fitting(path, Named::Program, environment);
        let environment = fitting.as_ref().map_or(environment, Environment::texts);
        executed(path, arguments, environment, || NEXT.get()(path, arguments, environment))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn execvp(path: *const c_char, arguments: Arguments) -> c_int {
    // SAFETY: the signature is that of execvp(3).
    static NEXT: NextSymbol<unsafe extern "C-unwind" fn(*const c_char, Arguments) -> c_int> =
        unsafe { NextSymbol::named(c"execvp") };
    // SAFETY: guaranteed by the caller.
    unsafe {
        match fitting(path, Named::Program, environment()) {
            Some(fitting) => execvpe(path, arguments, fitting.texts()),
            None => executed(path, arguments, ptr::null(), || NEXT.get()(path, arguments)),
        }
    }
}

/// A child that borrows its memory would never release held memory. So it touches its arguments, and again if one of
/// them was locked meanwhile.
///
/// # Safety
/// As for execve(2); a null environment means the process' own.
unsafe fn executed(
    path: *const c_char,
    arguments: Arguments,
    environment: Arguments,
    execute: impl Fn() -> c_int,
) -> c_int {
    if !BACKING.faults_are_signals() || !BACKING.is_borrowed() {
        return opened(execute);
    }
    let mut tries = TRIES;
    loop {
        tries -= 1;
        // SAFETY: guaranteed by the caller; `environ` is the process' own, and `errno` this thread's.
        unsafe {
            let environment = if environment.is_null() { environment::environment() } else { environment };
            touch(path);
            touch_all(arguments);
            touch_all(environment);
            let failed = execute();
            if *libc::__errno_location() != libc::EFAULT || tries == 0 {
                return failed;
            }
        }
    }
}

/// # Safety
/// Null, or texts up to a null.
unsafe fn touch_all(texts: Arguments) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let mut at = texts;
        while !at.is_null() && !(*at).is_null() {
            touch(*at);
            at = at.add(1);
        }
    }
}

/// # Safety
/// Null, or a text.
unsafe fn touch(text: *const c_char) {
    // SAFETY: guaranteed by the caller; the length is used, so that the text is read.
    std::hint::black_box(if text.is_null() { 0 } else { unsafe { libc::strlen(text) } });
}
