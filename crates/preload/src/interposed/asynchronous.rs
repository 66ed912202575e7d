//! Asynchronous requests, by which the kernel writes to memory after a call has returned, unseen.
//!
//! **Problem.** A device that has a page of the program's writes to it at any time [Fiala15, 4.4.8]. The engine `move`
//! notices that, because such a page refuses to move; the others lock it, and the device's write then looks like an
//! error and is undone. While a call runs its memory is held (`system_calls`); io_uring and Linux' own request queues
//! have no call that lasts as long. **Idea.** Under these engines the two are refused, as by a kernel that was built
//! without them: seccomp(2) answers their first call with ENOSYS. **Why this way.** Programs know that answer and use
//! another interface. Their functions cannot be wrapped: the library for io_uring makes its system calls by itself.
//!
//! The filter stays with the programs that this one executes. A user who may not set it for others gives up that these
//! gain rights, as `sudo` does (`PR_SET_NO_NEW_PRIVS`).
//!
//! A process with a filter cannot enter seccomp's strict mode (prctl(2)), and where faults are signals it could not be
//! served there. A program that asks for it relies on that, so it is stopped with a message.
//!
//! POSIX' asynchronous requests are threads of the C library; their buffers are left to the program.

#![allow(unsafe_code, reason = "system calls, and the C interface")]

use std::ffi::{c_int, c_long, c_uint, c_ulong};
use std::io;

use libc::{aiocb, sigevent, sock_filter, sock_fprog};

use crate::BACKING;
use crate::messages::say;
use crate::next::NextSymbol;
use crate::threads::ending::STOPPED;

use super::mmap;

/// The first calls of the two interfaces.
const REFUSED: [c_long; 2] = [libc::SYS_io_uring_setup, libc::SYS_io_setup];

/// A filter's view of a system call (struct seccomp_data, linux/seccomp.h): its number, and the processor's calling
/// mode.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;

/// `AUDIT_ARCH_X86_64` or `AUDIT_ARCH_AARCH64` (linux/audit.h): calls of another kind have other numbers.
const OURS: u32 = if cfg!(target_arch = "x86_64") { 0xc000_003e } else { 0xc000_00b7 };

/// From now on both are refused to all threads of this process and to all programs that they execute. In the
/// constructor.
pub(crate) fn refuse() {
    let all_refused = REFUSED.iter().all(|&call| !is_there(call));
    if !all_refused && !set_filter() {
        let why = io::Error::last_os_error();
        say(&format!(
            "rampart: io_uring cannot be refused: {why}; what it writes to locked memory would be taken for an error\n"
        ));
    }
}

/// Whether the kernel knows a call, tried with empty arguments: a ring of no entries, a queue at no address.
fn is_there(call: c_long) -> bool {
    // SAFETY: both calls refuse such arguments, and write nothing.
    let returned = unsafe { libc::syscall(call, 0_usize, 0_usize) };
    returned >= 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ENOSYS)
}

fn set_filter() -> bool {
    let load = |what| filter(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, what);
    let equal = |value, if_so, else_| filter(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, if_so, else_, value);
    let answer = |what| filter(libc::BPF_RET | libc::BPF_K, 0, 0, what);
    let [ring, queue] = REFUSED.map(|call| u32::try_from(call).expect("a call has a small number"));
    let no_such_call = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned();
    let mut program = [
        load(ARCHITECTURE),
        equal(OURS, 0, 4),
        load(NUMBER),
        equal(ring, 1, 0),
        equal(queue, 0, 1),
        answer(no_such_call),
        answer(libc::SECCOMP_RET_ALLOW),
    ];
    let len = u16::try_from(program.len()).expect("a short program");
    let program = sock_fprog { len, filter: program.as_mut_ptr() };
    let ask = || {
        // SAFETY: the program is there while the kernel copies it.
        unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                libc::SECCOMP_FILTER_FLAG_TSYNC,
                &raw const program,
            )
        }
    };
    let [yes, zero]: [c_ulong; 2] = [1, 0];
    // SAFETY: the call takes integers.
    ask() == 0 || unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, yes, zero, zero, zero) } == 0 && ask() == 0
}

fn filter(code: c_uint, if_so: u8, else_: u8, value: u32) -> sock_filter {
    sock_filter { code: u16::try_from(code).expect("an instruction has 16 bits"), jt: if_so, jf: else_, k: value }
}

/// To the C library, the arguments after the first are variable ones, which are passed alike.
#[unsafe(no_mangle)]
unsafe extern "C" fn prctl(option: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int {
    type Control = unsafe extern "C" fn(c_int, c_ulong, c_ulong, c_ulong, c_ulong) -> c_int;
    // SAFETY: the signature is that of prctl(2).
    static NEXT: NextSymbol<Control> = unsafe { NextSymbol::named(c"prctl") };
    let is_strict = option == libc::PR_SET_SECCOMP && a == c_ulong::from(libc::SECCOMP_MODE_STRICT);
    if is_strict && BACKING.misses_devices() && BACKING.is_live() {
        let process = std::process::id();
        say(&format!(
            "rampart: process {process} is stopped: it asks for seccomp's strict mode, in which this engine cannot work; \
             --engine move can\n"
        ));
        // SAFETY: it ends the process and runs nothing of the program's.
        unsafe { libc::_exit(STOPPED) }
    }
    // SAFETY: guaranteed by the caller.
    unsafe { NEXT.get()(option, a, b, c, d) }
}

/// Excludes a request's buffer.
///
/// # Safety
/// Null, or a request.
unsafe fn leave(request: *const aiocb) {
    if !request.is_null() && BACKING.misses_devices() {
        // SAFETY: guaranteed by the caller. No reference: the C library writes other fields meanwhile.
        let (buffer, bytes) = unsafe { ((*request).aio_buf, (*request).aio_nbytes) };
        mmap::leave(buffer.cast_const(), bytes);
    }
}

type Ask = unsafe extern "C-unwind" fn(*mut aiocb) -> c_int;

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn aio_read(request: *mut aiocb) -> c_int {
    // SAFETY: the signature is that of aio_read(3).
    static NEXT: NextSymbol<Ask> = unsafe { NextSymbol::named(c"aio_read") };
    // SAFETY: guaranteed by the caller.
    unsafe {
        leave(request);
        NEXT.get()(request)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn aio_read64(request: *mut aiocb) -> c_int {
    // SAFETY: the signature is that of aio_read(3), whose requests are the same here.
    static NEXT: NextSymbol<Ask> = unsafe { NextSymbol::named(c"aio_read64") };
    // SAFETY: guaranteed by the caller.
    unsafe {
        leave(request);
        NEXT.get()(request)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn aio_write(request: *mut aiocb) -> c_int {
    // SAFETY: the signature is that of aio_write(3).
    static NEXT: NextSymbol<Ask> = unsafe { NextSymbol::named(c"aio_write") };
    // SAFETY: guaranteed by the caller.
    unsafe {
        leave(request);
        NEXT.get()(request)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn aio_write64(request: *mut aiocb) -> c_int {
    // SAFETY: the signature is that of aio_write(3), whose requests are the same here.
    static NEXT: NextSymbol<Ask> = unsafe { NextSymbol::named(c"aio_write64") };
    // SAFETY: guaranteed by the caller.
    unsafe {
        leave(request);
        NEXT.get()(request)
    }
}

type AskAll = unsafe extern "C-unwind" fn(c_int, *const *mut aiocb, c_int, *mut sigevent) -> c_int;

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn lio_listio(
    mode: c_int,
    requests: *const *mut aiocb,
    count: c_int,
    event: *mut sigevent,
) -> c_int {
    // SAFETY: the signature is that of lio_listio(3).
    static NEXT: NextSymbol<AskAll> = unsafe { NextSymbol::named(c"lio_listio") };
    // SAFETY: guaranteed by the caller.
    unsafe {
        leave_all(requests, count);
        NEXT.get()(mode, requests, count, event)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn lio_listio64(
    mode: c_int,
    requests: *const *mut aiocb,
    count: c_int,
    event: *mut sigevent,
) -> c_int {
    // SAFETY: the signature is that of lio_listio(3), whose requests are the same here.
    static NEXT: NextSymbol<AskAll> = unsafe { NextSymbol::named(c"lio_listio64") };
    // SAFETY: guaranteed by the caller.
    unsafe {
        leave_all(requests, count);
        NEXT.get()(mode, requests, count, event)
    }
}

/// # Safety
/// A list of so many requests, some of them null.
unsafe fn leave_all(requests: *const *mut aiocb, count: c_int) {
    for index in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: guaranteed by the caller.
        unsafe { leave(*requests.add(index)) };
    }
}
