//! The memory below the heap: one range of addresses, and the operations on its pages.
//!
//! **Problem.** The guard must know of each page of the heap: where it is, when it is first used, when the program no
//! longer needs its content. **Idea.** The allocator above needs only three operations, [`HeapBacking`]; it never maps
//! or advises memory of the range itself. **Why this way.** [`Plain`] is ordinary memory: with it the heap can be
//! tested alone, and the guard's cost can be separated from the allocator's.

#![allow(unsafe_code, reason = "maps memory and changes what is mapped")]

use std::ptr::{self, NonNull};

use rampart_memory::Bytes;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap_anonymous, mprotect, munmap};

use crate::error::Error;

/// The start of a [`HeapBacking`] and every [`BackingSpan`] opened on it are multiples of this: a huge page.
pub const GRANULE: Bytes = Bytes::from_mib(2);

/// Adjacent pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackingSpan {
    /// The first byte; a multiple of the page size.
    pub start: NonNull<u8>,
    /// A multiple of the page size.
    pub bytes: Bytes,
}

/// A range of addresses for a heap.
///
/// The calls come from inside `malloc` and `free`, on any thread, with locks of the allocator held: an implementation
/// must not allocate on the heap, and must not touch its memory.
pub trait HeapBacking: Sync {
    /// Reserves `bytes` of addresses, from a multiple of [`GRANULE`] on. Called once, and so early that the C library
    /// may not be ready: system calls only.
    ///
    /// # Errors
    /// [`Error::Reserve`], and then the heap requests half of it.
    fn reserve(&self, bytes: Bytes) -> Result<NonNull<u8>, Error>;

    /// If a process has an address limit, a range is at most one part of this many of it.
    fn parts(&self) -> u64 {
        2
    }

    /// `span` is going to be used. Its content reads as zeros. Each byte is opened once. `false`: this is impossible,
    /// and the program's `malloc` fails.
    fn open(&self, span: BackingSpan) -> bool;

    /// The content of `span` is no longer needed; it reads as zeros from now on. `false`: it was not done, the content
    /// is unchanged.
    fn forget(&self, span: BackingSpan) -> bool;
}

/// Ordinary private memory, without a guard.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl HeapBacking for Plain {
    /// Without access, so that no byte of it counts against the limit of a machine that does not overcommit.
    fn reserve(&self, bytes: Bytes) -> Result<NonNull<u8>, Error> {
        let refused = |cause| Error::Reserve { bytes, cause };
        let wanted = length(bytes);
        let granule = length(GRANULE);
        let mapped = wanted.checked_add(granule).ok_or(refused(rustix::io::Errno::NOMEM))?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping where the kernel chooses; nothing that exists is changed.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), mapped, ProtFlags::empty(), flags) }.map_err(refused)?;
        let start = start.cast::<u8>();
        let before = start.align_offset(granule);
        let behind = granule - before;
        // The ends stay mapped if the kernel will not split the mapping: addresses lost, nothing else. SAFETY: [start,
        // start + before) and [start + before + wanted, start + mapped) lie in the mapping just made, since before <=
        // granule and before + wanted + behind = mapped; nobody has seen them.
        unsafe {
            let _ = if before > 0 { munmap(start.cast(), before) } else { Ok(()) };
            let _ = munmap(start.add(before + wanted).cast(), behind);
        }
        // SAFETY: start + before lies in the mapping.
        Ok(NonNull::new(unsafe { start.add(before) }).expect("the kernel maps nothing at zero by itself"))
    }

    fn open(&self, span: BackingSpan) -> bool {
        let access = MprotectFlags::READ | MprotectFlags::WRITE;
        // SAFETY: the span is of our own mapping; giving access takes nothing away from anyone.
        unsafe { mprotect(span.start.as_ptr().cast(), length(span.bytes), access) }.is_ok()
    }

    fn forget(&self, span: BackingSpan) -> bool {
        // SAFETY: the span is of our own private mapping, and the allocator says that nobody uses its content.
        unsafe { madvise(span.start.as_ptr().cast(), length(span.bytes), Advice::LinuxDontNeed) }.is_ok()
    }
}

/// A count of bytes as a length in memory.
pub(crate) fn length(bytes: Bytes) -> usize {
    usize::try_from(bytes.get()).expect("an address has 64 bits here")
}

/// A length in memory as a count of bytes.
pub(crate) fn bytes(length: usize) -> Bytes {
    Bytes::new(u64::try_from(length).expect("a length has at most 64 bits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opened_memory_reads_as_zeros_and_again_once_it_is_forgotten() {
        let start = Plain.reserve(Bytes::from_mib(64)).unwrap();
        assert!(start.addr().get().is_multiple_of(length(GRANULE)));
        let span = BackingSpan { start, bytes: GRANULE };
        assert!(Plain.open(span));
        // SAFETY: the byte is in the span, which is open, and nobody else's.
        let byte = |at: usize| unsafe { start.as_ptr().add(at) };
        let last = length(GRANULE) - 1;
        for _ in 0..2 {
            // SAFETY: as above.
            unsafe {
                assert_eq!((byte(0).read_volatile(), byte(last).read_volatile()), (0, 0));
                byte(0).write_volatile(1);
                byte(last).write_volatile(1);
            }
            assert!(Plain.forget(span));
        }
    }

    #[test]
    fn more_than_all_addresses_is_refused() {
        let bytes = Bytes::new(u64::MAX);
        assert_eq!(Plain.reserve(bytes), Err(Error::Reserve { bytes, cause: rustix::io::Errno::NOMEM }));
        assert!(matches!(Plain.reserve(Bytes::new(1 << 62)), Err(Error::Reserve { .. })));
    }
}
