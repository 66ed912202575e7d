//! System calls that a program makes by number: syscall(2).
//!
//! **Problem.** The functions of the C library announce new children and changes of memory to the guard; a program that
//! uses call numbers would bypass them. **Idea.** `syscall` is ours. Calls about memory do here the same as those
//! functions, calls that make a child with a copy of the memory go to `fork`, and all others to the kernel. **Why this
//! way.** It costs a call some comparisons. The work is shared with the functions, but they themselves are not called:
//! the memory hooks of Open MPI and UCX overwrite the first instructions of `munmap` and others by a jump to code that
//! calls `syscall`, which would never end.
//!
//! Requests by a system call instruction of the program's own go unseen; `docs/run.md` says what happens then. The
//! events that a userfaultfd can report of it (`UFFD_FEATURE_EVENT_REMOVE` and others; userfaultfd.rst of Linux) do not
//! help: the message comes before the removal and none after it, so a page that is locked in between escapes; until it
//! is read no page of the whole range moves (EAGAIN); and a thread that gives back memory waits for the reader,
//! including the guard's threads and every `free`. A seccomp(2) filter stays with executed programs, for which its
//! addresses mean nothing.

#![allow(unsafe_code, reason = "the C interface, and system calls")]
#![cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]

use std::arch::naked_asm;
use std::ffi::{c_int, c_long};
use std::ptr;

use super::fork::copied;
use super::kernel::{ask, failed, word};
use super::limits::limit;
use super::mlock::{lock, lock_all, lock_by_flags, unlock, unlock_all};
use super::mmap::{MappingRequest, at};
use super::remap::{advise, advise_process, change_protection, change_protection_by_key, remap, unmap};

/// The lower half of a word, which is all that the kernel takes of an `int`.
fn int(word: c_long) -> c_int {
    let [a, b, c, d, ..] = word.to_le_bytes();
    c_int::from_le_bytes([a, b, c, d])
}

/// A system call about memory, or about its limits.
unsafe extern "C" fn memory(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    let (address, length) = (at(word(a)), word(b));
    let pointer = |served: *mut std::ffi::c_void| c_long::try_from(served.addr().cast_signed()).expect("64 bits");
    // SAFETY: guaranteed by the caller, for each of them.
    unsafe {
        match number {
            libc::SYS_mmap => {
                let [protection, flags, file] = [c, d, e].map(int);
                pointer(MappingRequest { address, length, protection, flags, file, offset: f }.serve())
            }
            libc::SYS_mremap => pointer(remap(address, length, word(c), int(d), at(word(e)))),
            libc::SYS_munmap => unmap(address, length).into(),
            libc::SYS_mprotect => change_protection(address, length, int(c)).into(),
            libc::SYS_pkey_mprotect => change_protection_by_key(address, length, int(c), int(d)).into(),
            libc::SYS_madvise => advise(address, length, int(c)).into(),
            libc::SYS_process_madvise => advise_process(int(a), at(word(b)).cast(), word(c), int(d), word(e)),
            libc::SYS_mlock => lock(address, length).into(),
            libc::SYS_mlock2 => lock_by_flags(address, length, int(c).cast_unsigned()).into(),
            libc::SYS_munlock => unlock(address, length).into(),
            libc::SYS_mlockall => lock_all(int(a)).into(),
            libc::SYS_munlockall => unlock_all().into(),
            libc::SYS_setrlimit => limit(0, int(a).cast_unsigned(), at(word(b)).cast(), ptr::null_mut()).into(),
            libc::SYS_prlimit64 => limit(int(a), int(b).cast_unsigned(), at(word(c)).cast(), at(word(d)).cast()).into(),
            other => ask(other, [a, b, c, d, e, f].map(word)),
        }
    }
}

// A new stack means a child that does not come back here, and shared memory means one that does, on this very stack:
// neither may find a frame of ours. In clone3(2), both are in its structure (linux/sched.h): flags first, the stack in
// the sixth word of at least eight.

#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    naked_asm!(
        "cmp rdi, {clone}",
        "je 2f",
        "cmp rdi, {clone3}",
        "je 3f",
        "cmp rdi, {fork}",
        "je 4f",
        "cmp rdi, {mmap}",
        "je 7f",
        "cmp rdi, {mremap}",
        "je 7f",
        "cmp rdi, {munmap}",
        "je 7f",
        "cmp rdi, {mprotect}",
        "je 7f",
        "cmp rdi, {pkey_mprotect}",
        "je 7f",
        "cmp rdi, {madvise}",
        "je 7f",
        "cmp rdi, {process_madvise}",
        "je 7f",
        "cmp rdi, {mlock}",
        "je 7f",
        "cmp rdi, {mlock2}",
        "je 7f",
        "cmp rdi, {munlock}",
        "je 7f",
        "cmp rdi, {mlockall}",
        "je 7f",
        "cmp rdi, {munlockall}",
        "je 7f",
        "cmp rdi, {setrlimit}",
        "je 7f",
        "cmp rdi, {prlimit}",
        "je 7f",
        "5: mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov r10, r8",
        "mov r8, r9",
        "mov r9, [rsp + 8]",
        "syscall",
        "cmp rax, -4095",
        "jae 6f",
        "ret",
        "6: mov rdi, rax",
        "jmp {failed}",
        "7: jmp {memory}",
        "2: test esi, {shares}",
        "jnz 5b",
        "test rdx, rdx",
        "jnz 5b",
        "jmp {copied}",
        "3: cmp rdx, 64",
        "jb 5b",
        "test rsi, rsi",
        "jz 5b",
        "test dword ptr [rsi], {shares}",
        "jnz 5b",
        "cmp qword ptr [rsi + 40], 0",
        "jne 5b",
        "4: jmp {copied}",
        clone = const libc::SYS_clone,
        clone3 = const libc::SYS_clone3,
        fork = const libc::SYS_fork,
        mmap = const libc::SYS_mmap,
        mremap = const libc::SYS_mremap,
        munmap = const libc::SYS_munmap,
        mprotect = const libc::SYS_mprotect,
        pkey_mprotect = const libc::SYS_pkey_mprotect,
        madvise = const libc::SYS_madvise,
        process_madvise = const libc::SYS_process_madvise,
        mlock = const libc::SYS_mlock,
        mlock2 = const libc::SYS_mlock2,
        munlock = const libc::SYS_munlock,
        mlockall = const libc::SYS_mlockall,
        munlockall = const libc::SYS_munlockall,
        setrlimit = const libc::SYS_setrlimit,
        prlimit = const libc::SYS_prlimit64,
        shares = const libc::CLONE_VM,
        failed = sym failed,
        memory = sym memory,
        copied = sym copied,
    )
}

#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    naked_asm!(
        "cmp x0, {clone}",
        "b.eq 2f",
        "cmp x0, {clone3}",
        "b.eq 3f",
        "cmp x0, {mmap}",
        "b.eq 7f",
        "cmp x0, {mremap}",
        "b.eq 7f",
        "cmp x0, {munmap}",
        "b.eq 7f",
        "cmp x0, {mprotect}",
        "b.eq 7f",
        "cmp x0, {pkey_mprotect}",
        "b.eq 7f",
        "cmp x0, {madvise}",
        "b.eq 7f",
        "cmp x0, {process_madvise}",
        "b.eq 7f",
        "cmp x0, {mlock}",
        "b.eq 7f",
        "cmp x0, {mlock2}",
        "b.eq 7f",
        "cmp x0, {munlock}",
        "b.eq 7f",
        "cmp x0, {mlockall}",
        "b.eq 7f",
        "cmp x0, {munlockall}",
        "b.eq 7f",
        "cmp x0, {setrlimit}",
        "b.eq 7f",
        "cmp x0, {prlimit}",
        "b.eq 7f",
        "5: mov x8, x0",
        "mov x0, x1",
        "mov x1, x2",
        "mov x2, x3",
        "mov x3, x4",
        "mov x4, x5",
        "mov x5, x6",
        "svc 0",
        "cmn x0, 4095",
        "b.cs 6f",
        "ret",
        "6: b {failed}",
        "7: b {memory}",
        "2: tst x1, {shares}",
        "b.ne 5b",
        "cbnz x2, 5b",
        "b {copied}",
        "3: cmp x2, 64",
        "b.lo 5b",
        "cbz x1, 5b",
        "ldr x9, [x1]",
        "tst x9, {shares}",
        "b.ne 5b",
        "ldr x9, [x1, 40]",
        "cbnz x9, 5b",
        "b {copied}",
        clone = const libc::SYS_clone,
        clone3 = const libc::SYS_clone3,
        mmap = const libc::SYS_mmap,
        mremap = const libc::SYS_mremap,
        munmap = const libc::SYS_munmap,
        mprotect = const libc::SYS_mprotect,
        pkey_mprotect = const libc::SYS_pkey_mprotect,
        madvise = const libc::SYS_madvise,
        process_madvise = const libc::SYS_process_madvise,
        mlock = const libc::SYS_mlock,
        mlock2 = const libc::SYS_mlock2,
        munlock = const libc::SYS_munlock,
        mlockall = const libc::SYS_mlockall,
        munlockall = const libc::SYS_munlockall,
        setrlimit = const libc::SYS_setrlimit,
        prlimit = const libc::SYS_prlimit64,
        shares = const libc::CLONE_VM,
        failed = sym failed,
        memory = sym memory,
        copied = sym copied,
    )
}
