//! The names that a program calls: the C library's allocation functions, with its rules, on [`HEAP`].
//!
//! They are those of ISO C and POSIX and the GNU additions (malloc(3), posix_memalign(3), mallinfo(3)). C++ `new` and
//! `delete` call them. What glibc has beside, such as `mallopt`, acts on glibc's heap, which is empty.

#![allow(unsafe_code, reason = "the C interface of an allocator")]

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;

use crate::HEAP;
use crate::jemalloc;
use crate::report;
use crate::start;

const PAGE: usize = 4096;

#[unsafe(no_mangle)]
extern "C" fn malloc(size: usize) -> *mut c_void {
    HEAP.allocate(size)
}

#[unsafe(no_mangle)]
extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    count.checked_mul(size).map_or_else(out_of_memory, |bytes| HEAP.allocate_zeroed(bytes))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn realloc(pointer: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { HEAP.resize(pointer, size) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn reallocarray(pointer: *mut c_void, count: usize, size: usize) -> *mut c_void {
    // SAFETY: the caller's promise.
    count.checked_mul(size).map_or_else(out_of_memory, |bytes| unsafe { HEAP.resize(pointer, bytes) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn free(pointer: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe { HEAP.release(pointer) };
}

/// C23; the size is not needed.
#[unsafe(no_mangle)]
unsafe extern "C" fn free_sized(pointer: *mut c_void, _size: usize) {
    // SAFETY: the caller's promise.
    unsafe { HEAP.release(pointer) };
}

/// C23; neither alignment nor size is needed.
#[unsafe(no_mangle)]
unsafe extern "C" fn free_aligned_sized(pointer: *mut c_void, _alignment: usize, _size: usize) {
    // SAFETY: the caller's promise.
    unsafe { HEAP.release(pointer) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_memalign(place: *mut *mut c_void, alignment: usize, size: usize) -> c_int {
    if !alignment.is_power_of_two() || alignment < size_of::<usize>() {
        return libc::EINVAL;
    }
    // POSIX: it says what went wrong by its value and leaves `errno` alone.
    // SAFETY: it is this thread's own variable, and `place` is the caller's.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        let pointer = HEAP.allocate_aligned(alignment, size);
        *errno = before;
        if pointer.is_null() {
            return libc::ENOMEM;
        }
        *place = pointer;
    }
    0
}

#[unsafe(no_mangle)]
extern "C" fn aligned_alloc(alignment: usize, size: usize) -> *mut c_void {
    memalign(alignment, size)
}

/// As glibc has it, an alignment that is no power of two is rounded up to one.
#[unsafe(no_mangle)]
extern "C" fn memalign(alignment: usize, size: usize) -> *mut c_void {
    let Some(alignment) = alignment.max(1).checked_next_power_of_two() else { return out_of_memory() };
    let pointer = HEAP.allocate_aligned(alignment, size);
    if pointer.is_null() { out_of_memory() } else { pointer }
}

#[unsafe(no_mangle)]
extern "C" fn valloc(size: usize) -> *mut c_void {
    memalign(PAGE, size)
}

#[unsafe(no_mangle)]
extern "C" fn pvalloc(size: usize) -> *mut c_void {
    size.max(1).checked_next_multiple_of(PAGE).map_or_else(out_of_memory, |bytes| memalign(PAGE, bytes))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn malloc_usable_size(pointer: *const c_void) -> usize {
    // SAFETY: the caller's promise.
    unsafe { HEAP.usable_size(pointer) }
}

#[unsafe(no_mangle)]
extern "C" fn malloc_trim(_pad: usize) -> c_int {
    jemalloc::purge();
    1
}

#[unsafe(no_mangle)]
extern "C" fn malloc_stats() {
    start::say(&report::line(&HEAP.usage()));
}

/// What is known here: bytes from the range (`arena`), in use (`uordblks`), and the rest (`fordblks`).
#[unsafe(no_mangle)]
extern "C" fn mallinfo2() -> libc::mallinfo2 {
    let usage = HEAP.usage();
    let [cut, allocated] = [usage.cut, usage.allocated].map(crate::ground::length);
    // SAFETY: all fields are integers.
    let mut info: libc::mallinfo2 = unsafe { MaybeUninit::zeroed().assume_init() };
    info.arena = cut;
    info.uordblks = allocated;
    info.fordblks = cut.saturating_sub(allocated);
    info
}

/// Whether an address is in the guarded range: 1 or 0. Not of the C library: for programs that want to know.
#[unsafe(no_mangle)]
extern "C" fn rampart_guard_owns(pointer: *const c_void) -> c_int {
    c_int::from(HEAP.owns(pointer))
}

fn out_of_memory() -> *mut c_void {
    // SAFETY: it is this thread's own variable.
    unsafe { *libc::__errno_location() = libc::ENOMEM };
    ptr::null_mut()
}
