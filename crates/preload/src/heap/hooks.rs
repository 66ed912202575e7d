//! jemalloc's hooks for the range: the source of an arena's memory, and the treatment of unused memory.
//!
//! An arena asks these hooks, and not the kernel, for every page that a program will see (jemalloc manual,
//! "arena.\<i\>.extent_hooks"). It gets pieces of the range and never gives one back: without `dalloc` it *retains*
//! them and uses them again, merged and split, all parts of one mapping. Pages that were unused for a while are
//! forgotten through the backing, which alone may do that. Committing and lazy purging are left out: a page is there or
//! it is forgotten.

#![allow(unsafe_code, reason = "called from C")]

use std::ffi::{c_uint, c_void};
use std::ptr::{self, NonNull};

use rampart_memory::PAGE_BYTES;
use tikv_jemalloc_sys::extent_hooks_t;

use super::backing::{BackingSpan, HeapBacking, bytes};
use super::range::HeapRange;

/// A range on its backing, with the hooks by which arenas get its memory. Arenas identify it by its address: it lives
/// forever and never moves.
#[repr(C)]
pub(crate) struct HookedRange {
    /// First, because the hooks find the range by the table's address.
    table: extent_hooks_t,
    pub(crate) backing: &'static dyn HeapBacking,
    pub(crate) range: HeapRange,
}

impl HookedRange {
    /// An empty range.
    pub(crate) const fn new(backing: &'static dyn HeapBacking) -> Self {
        Self { table: TABLE, backing, range: HeapRange::empty() }
    }

    /// The table for a new arena.
    pub(crate) const fn table(&'static self) -> &'static extent_hooks_t {
        &self.table
    }

    /// Another piece of the range.
    pub(crate) fn cut(&self, size: usize, alignment: usize) -> Option<BackingSpan> {
        self.range.cut(size, alignment.max(PAGE_BYTES), self.backing)
    }
}

const TABLE: extent_hooks_t = extent_hooks_t {
    alloc: Some(alloc),
    dalloc: None,
    destroy: None,
    commit: None,
    decommit: None,
    purge_lazy: None,
    purge_forced: Some(purge_forced),
    split: Some(split),
    merge: Some(merge),
};

/// jemalloc's booleans, where true means failure.
const DONE: bool = false;
const REFUSED: bool = true;

unsafe extern "C" fn alloc(
    table: *mut extent_hooks_t,
    wanted_address: *mut c_void,
    size: usize,
    alignment: usize,
    zeroed: *mut bool,
    committed: *mut bool,
    _arena: c_uint,
) -> *mut c_void {
    if !wanted_address.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: jemalloc passes the table that the arena was created with, which is the first field of a range that lives
    // forever (`HookedRange` is `repr(C)`).
    let hooked = unsafe { &*table.cast::<HookedRange>() };
    let Some(piece) = hooked.cut(size, alignment) else { return ptr::null_mut() };
    // SAFETY: both point to booleans of the caller.
    unsafe {
        *zeroed = true;
        *committed = true;
    }
    piece.start.as_ptr().cast()
}

unsafe extern "C" fn purge_forced(
    table: *mut extent_hooks_t,
    extent: *mut c_void,
    _size: usize,
    offset: usize,
    length: usize,
    _arena: c_uint,
) -> bool {
    // SAFETY: as in `alloc`.
    let hooked = unsafe { &*table.cast::<HookedRange>() };
    let start = extent.cast::<u8>().wrapping_add(offset);
    let Some(start) = NonNull::new(start) else { return REFUSED };
    if hooked.backing.forget(BackingSpan { start, bytes: bytes(length) }) { DONE } else { REFUSED }
}

unsafe extern "C" fn split(
    _table: *mut extent_hooks_t,
    _extent: *mut c_void,
    _size: usize,
    _left: usize,
    _right: usize,
    _committed: bool,
    _arena: c_uint,
) -> bool {
    DONE
}

unsafe extern "C" fn merge(
    _table: *mut extent_hooks_t,
    _left: *mut c_void,
    _left_size: usize,
    _right: *mut c_void,
    _right_size: usize,
    _committed: bool,
    _arena: c_uint,
) -> bool {
    DONE
}
