//! The few requests to jemalloc besides memory, under the names of its manual ("MALLCTL NAMESPACE").

#![allow(unsafe_code, reason = "calls C")]

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr;

use tikv_jemalloc_sys::{self as je, extent_hooks_t};

/// The arena that jemalloc creates for itself. It gets its memory from the kernel: none of it is in the range.
pub(crate) const OUTSIDE: c_uint = 0;

/// Allocation flags for memory outside of the range, without the calling thread's cache.
pub(crate) const FROM_OUTSIDE: c_int = in_arena(OUTSIDE) | je::MALLOCX_TCACHE_NONE;

/// jemalloc's settings at its start. It creates one arena itself: the others are ours, with the hooks of a heap. Large
/// allocations begin at a page boundary: shifted within a page, one of a few MiB would take a block more.
// SAFETY: jemalloc declares this name, with its prefix, as a weak `const char *` that a program may define; a reference
// to a C string, or null, is such a pointer.
#[unsafe(export_name = "_rjem_malloc_conf")]
static CONFIGURATION: Option<&'static c_char> = Some(first_char(c"narenas:1,muzzy_decay_ms:0,cache_oblivious:false"));

const fn first_char(text: &'static CStr) -> &'static c_char {
    // SAFETY: a C string has at least its final zero, and it lives forever.
    unsafe { &*text.as_ptr() }
}

/// Allocation flags for memory of this arena.
pub(crate) const fn in_arena(arena: c_uint) -> c_int {
    je::MALLOCX_ARENA(arena as usize)
}

/// The configuration of a new arena; `arena_config_t` of jemalloc 5.3.
#[repr(C)]
struct ArenaConfig {
    hooks: *const extent_hooks_t,
    metadata_by_hooks: bool,
}

/// A new arena that gets its memory by `hooks`. Its metadata is elsewhere: neither `malloc` nor `free` touches the
/// memory itself.
pub(crate) fn create_arena(hooks: &'static extent_hooks_t) -> Option<c_uint> {
    control(c"experimental.arenas_create_ext", Some(ArenaConfig { hooks, metadata_by_hooks: false }))
}

/// A new arena that gets its memory from the kernel, for few addresses: it takes little more than requested.
pub(crate) fn create_arena_outside() -> Option<c_uint> {
    const LITTLE: usize = 2 << 20;
    let made = control::<(), c_uint>(c"arenas.create", None)?;
    let name = CString::new(format!("arena.{made}.retain_grow_limit")).ok()?;
    // Without this the arena takes more addresses at once, and works as well.
    let _: Option<usize> = control(&name, Some(LITTLE));
    Some(made)
}

/// The arena of the calling thread.
pub(crate) fn thread_arena() -> Option<c_uint> {
    control::<(), c_uint>(c"thread.arena", None)
}

/// From now on the calling thread allocates from this arena; it first gives back its cached memory of another.
pub(crate) fn set_thread_arena(arena: c_uint) -> bool {
    // A thread without a cache, as at its very end, refuses to flush it.
    let _: Option<()> = control::<(), ()>(c"thread.tcache.flush", None);
    control::<c_uint, c_uint>(c"thread.arena", Some(arena)).is_some()
}

/// Sets whether the calling thread caches freed memory, to allocate that first. Returns the previous setting.
pub(crate) fn set_thread_cache(on: bool) -> Option<bool> {
    control(c"thread.tcache.enabled", Some(on))
}

/// Bytes in live allocations: those of all arenas except [`OUTSIDE`].
pub(crate) fn allocated_inside() -> usize {
    let now: Option<u64> = control(c"epoch", Some(1_u64));
    let read = |name| control::<(), usize>(name, None).unwrap_or(0);
    debug_assert!(now.is_some(), "statistics are built in");
    let outside = read(c"stats.arenas.0.small.allocated") + read(c"stats.arenas.0.large.allocated");
    read(c"stats.allocated").saturating_sub(outside)
}

/// Forgets all unused memory of every arena at once.
pub(crate) fn purge() {
    // 4096 stands for all arenas (MALLCTL_ARENAS_ALL).
    let _: Option<()> = control::<(), ()>(c"arena.4096.purge", None);
}

/// Frees memory of any arena, past the calling thread's cache.
///
/// # Safety
/// As for `free`; not null.
pub(crate) unsafe fn free_uncached(pointer: *mut c_void) {
    // SAFETY: guaranteed by the caller.
    unsafe { je::dallocx(pointer, je::MALLOCX_TCACHE_NONE) };
}

/// Writes `new`, if any, under `name`, and returns the old value, or the call's result. `None`: refused.
fn control<In, Out: Default>(name: &CStr, new: Option<In>) -> Option<Out> {
    let mut new = new;
    let mut old = Out::default();
    let mut old_length = size_of::<Out>();
    let (old_at, length_at): (*mut c_void, *mut usize) =
        if old_length == 0 { (ptr::null_mut(), ptr::null_mut()) } else { ((&raw mut old).cast(), &raw mut old_length) };
    let (new_at, new_length): (*mut c_void, usize) =
        new.as_mut().map_or((ptr::null_mut(), 0), |new| (ptr::from_mut(new).cast(), size_of::<In>()));
    // SAFETY: the name ends in zero; both places are ours and as long as said; jemalloc refuses a length that is not
    // the value's. The types are those of the manual at each caller.
    let refused = unsafe { je::mallctl(name.as_ptr(), old_at, length_at, new_at, new_length) };
    (refused == 0).then_some(old)
}
