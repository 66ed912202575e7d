//! A heap that has all its memory from the start, and never gets more.
//!
//! **Problem.** wasmtime's heap begins empty and doubles as it likes, and its first size is a part of the compiled
//! code: another size would compile the program anew. **Idea.** An array of half of the memory, which no object needs:
//! the heap grows to hold it, and to copy it. From then on, it is refused all growth. **Why this way.** The heap has
//! exactly the bytes that it is to have, both of its halves counted.

use wasmtime::{
    ArrayRef, ArrayRefPre, ArrayType, AsContextMut, FieldType, Mutability, ResourceLimiter, Result, StorageType, Store,
    Val, ensure,
};

/// The memory of the heap comes in pages of so many bytes.
const PAGE_BYTES: u64 = 1 << 16;

/// More than an array has beside its elements, and than each half of the heap leaves free.
const SPARE_BYTES: u64 = 64;

/// What `kib` of memory are in whole pages, at least one.
pub const fn whole_pages(kib: u32) -> u64 {
    let pages = kib as u64 * 1024 / PAGE_BYTES;
    if pages == 0 { PAGE_BYTES } else { pages * PAGE_BYTES }
}

/// Whether a memory of so many bytes may grow: it gets its first size, and nothing more.
pub const fn may_grow(bytes: usize) -> bool {
    bytes == 0
}

/// Gives the heap of a store `bytes` of memory, both halves together.
///
/// # Errors
/// If there is not so much memory.
pub fn fill<T: ResourceLimiter + Send + 'static>(store: &mut Store<T>, bytes: u64) -> Result<()> {
    store.limiter(|state| state);
    let length = u32::try_from(bytes / 2 - SPARE_BYTES)?;
    {
        let mut scope = wasmtime::RootScope::new(&mut *store);
        let of_bytes =
            ArrayType::new(scope.as_context_mut().engine(), FieldType::new(Mutability::Var, StorageType::I8));
        let allocator = ArrayRefPre::new(&mut scope, of_bytes);
        ArrayRef::new(&mut scope, &allocator, &Val::I32(0), length)?;
    }
    store.gc(None)?;
    let has = store.gc_heap_capacity() as u64;
    ensure!(has == bytes, "the heap has {has} bytes in the place of {bytes}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_in_whole_pages() {
        assert_eq!([1, 64, 127, 128, 1 << 20].map(whole_pages), [1 << 16, 1 << 16, 1 << 16, 1 << 17, 1 << 30]);
    }
}
