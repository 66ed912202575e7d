//! The names that a program calls: the C library's allocation functions, with its rules, on [`HEAP`].
//!
//! They are those of ISO C and POSIX and the GNU additions (malloc(3), posix_memalign(3), mallinfo(3)). C++ `new` and
//! `delete` call them. Each allocating function knows its caller (see [`crate::heap::call_sites`]). Other functions of
//! glibc, such as `mallopt`, act on glibc's heap, which is empty.

#![allow(unsafe_code, reason = "the C interface of an allocator")]

use std::arch::naked_asm;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;

use rampart_memory::PAGE_BYTES;

use crate::HEAP;
use crate::heap::call_sites::{LARGE, SITES};
use crate::heap::jemalloc;
use crate::messages::say;
use crate::reporting::exit_line;

/// A name that a program calls, which enters the function with one more argument, in these registers: the address where
/// its caller goes on. Only the first instruction of a function knows it for certain, so it is in assembly.
macro_rules! entry {
    ($name:ident($($argument:ident: $kind:ty),*) -> $result:ty, $function:ident, $x86_64:literal, $aarch64:literal) => {
        #[cfg(target_arch = "x86_64")]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $kind),*) -> $result {
            naked_asm!(concat!("mov ", $x86_64, ", [rsp]"), "jmp {}", sym $function)
        }

        #[cfg(target_arch = "aarch64")]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $kind),*) -> $result {
            naked_asm!(concat!("mov ", $aarch64, ", x30"), "b {}", sym $function)
        }

        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $kind),*) -> $result {
            // SAFETY: guaranteed by the caller.
            unsafe { $function($($argument,)* UNKNOWN) }
        }
    };
}

entry!(malloc(size: usize) -> *mut c_void, malloc_by, "rsi", "x1");
entry!(calloc(count: usize, size: usize) -> *mut c_void, calloc_by, "rdx", "x2");
entry!(realloc(pointer: *mut c_void, size: usize) -> *mut c_void, realloc_by, "rdx", "x2");
entry!(reallocarray(pointer: *mut c_void, count: usize, size: usize) -> *mut c_void, reallocarray_by, "rcx", "x3");
entry!(posix_memalign(place: *mut *mut c_void, alignment: usize, size: usize) -> c_int, posix_memalign_by, "rcx", "x3");
entry!(aligned_alloc(alignment: usize, size: usize) -> *mut c_void, memalign_by, "rdx", "x2");
entry!(memalign(alignment: usize, size: usize) -> *mut c_void, memalign_by, "rdx", "x2");

/// The address of an unknown caller.
const UNKNOWN: usize = 0;

unsafe extern "C" fn malloc_by(size: usize, caller: usize) -> *mut c_void {
    if size < LARGE { HEAP.allocate(size) } else { noted(HEAP.allocate(size), size, caller) }
}

unsafe extern "C" fn calloc_by(count: usize, size: usize, caller: usize) -> *mut c_void {
    let allocate = |bytes| noted(HEAP.allocate_zeroed(bytes), bytes, caller);
    count.checked_mul(size).map_or_else(out_of_memory, allocate)
}

unsafe extern "C" fn realloc_by(pointer: *mut c_void, size: usize, caller: usize) -> *mut c_void {
    // SAFETY: guaranteed by the caller.
    noted(unsafe { HEAP.resize(pointer, size) }, size, caller)
}

unsafe extern "C" fn reallocarray_by(pointer: *mut c_void, count: usize, size: usize, caller: usize) -> *mut c_void {
    // SAFETY: guaranteed by the caller.
    count.checked_mul(size).map_or_else(out_of_memory, |bytes| unsafe { realloc_by(pointer, bytes, caller) })
}

/// An allocation of so many bytes; records the caller of a large one.
fn noted(pointer: *mut c_void, size: usize, caller: usize) -> *mut c_void {
    if size >= LARGE
        && let Some(first) = HEAP.page_of(pointer)
    {
        let last = first + (pointer.addr() % PAGE_BYTES + size - 1) / PAGE_BYTES;
        SITES.note(first, last, caller);
    }
    pointer
}

#[unsafe(no_mangle)]
unsafe extern "C" fn free(pointer: *mut c_void) {
    // SAFETY: guaranteed by the caller.
    unsafe { HEAP.release(pointer) };
}

/// C23; the size is not needed.
#[unsafe(no_mangle)]
unsafe extern "C" fn free_sized(pointer: *mut c_void, _size: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe { HEAP.release(pointer) };
}

/// C23; neither alignment nor size is needed.
#[unsafe(no_mangle)]
unsafe extern "C" fn free_aligned_sized(pointer: *mut c_void, _alignment: usize, _size: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe { HEAP.release(pointer) };
}

unsafe extern "C" fn posix_memalign_by(place: *mut *mut c_void, alignment: usize, size: usize, caller: usize) -> c_int {
    if !alignment.is_power_of_two() || alignment < size_of::<usize>() {
        return libc::EINVAL;
    }
    // POSIX: the result has the error, and `errno` stays unchanged. SAFETY: it is this thread's own variable, and
    // `place` is the caller's.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        let pointer = noted(HEAP.allocate_aligned(alignment, size), size, caller);
        *errno = before;
        if pointer.is_null() {
            return libc::ENOMEM;
        }
        *place = pointer;
    }
    0
}

/// As in glibc, an alignment that is no power of two is rounded up to one.
unsafe extern "C" fn memalign_by(alignment: usize, size: usize, caller: usize) -> *mut c_void {
    let Some(alignment) = alignment.max(1).checked_next_power_of_two() else { return out_of_memory() };
    let pointer = noted(HEAP.allocate_aligned(alignment, size), size, caller);
    if pointer.is_null() { out_of_memory() } else { pointer }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn valloc(size: usize) -> *mut c_void {
    // SAFETY: any size may be asked for.
    unsafe { memalign_by(PAGE_BYTES, size, UNKNOWN) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pvalloc(size: usize) -> *mut c_void {
    let whole = size.max(1).checked_next_multiple_of(PAGE_BYTES);
    // SAFETY: any size may be asked for.
    whole.map_or_else(out_of_memory, |bytes| unsafe { memalign_by(PAGE_BYTES, bytes, UNKNOWN) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn malloc_usable_size(pointer: *const c_void) -> usize {
    // SAFETY: guaranteed by the caller.
    unsafe { HEAP.usable_size(pointer) }
}

#[unsafe(no_mangle)]
extern "C" fn malloc_trim(_pad: usize) -> c_int {
    jemalloc::purge();
    1
}

#[unsafe(no_mangle)]
extern "C" fn malloc_stats() {
    say(&exit_line::line(&HEAP.usage()));
}

/// The known values: bytes of the range (`arena`), in use (`uordblks`), and the rest (`fordblks`).
#[unsafe(no_mangle)]
extern "C" fn mallinfo2() -> libc::mallinfo2 {
    let usage = HEAP.usage();
    let [cut, allocated] = [usage.cut, usage.allocated].map(crate::heap::backing::length);
    // SAFETY: all fields are integers.
    let mut info: libc::mallinfo2 = unsafe { MaybeUninit::zeroed().assume_init() };
    info.arena = cut;
    info.uordblks = allocated;
    info.fordblks = cut.saturating_sub(allocated);
    info
}

/// Whether an address is in the guarded range: 1 or 0. Not in the C library: for programs that want to know.
#[unsafe(no_mangle)]
extern "C" fn rampart_guard_owns(pointer: *const c_void) -> c_int {
    c_int::from(HEAP.owns(pointer))
}

fn out_of_memory() -> *mut c_void {
    // SAFETY: it is this thread's own variable.
    unsafe { *libc::__errno_location() = libc::ENOMEM };
    ptr::null_mut()
}
