//! The range of addresses, and its division.
//!
//! **Problem.** Every allocation and every release asks "is this address ours?", and sometimes an arena needs more
//! addresses. **Idea.** Two words that are written once, compared without a lock; and a cursor that only rises, because
//! an arena keeps its memory and uses it again (see [`crate::heap::hooks`]). **Why this way.** Addresses are plentiful:
//! waste costs addresses, not memory. Everything behind the cursor was never used.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::backing::{BackingSpan, GRANULE, HeapBacking, bytes, length};

/// A range, empty until [`HeapRange::set`].
#[derive(Debug)]
pub(crate) struct HeapRange {
    base: AtomicUsize,
    length: AtomicUsize,
    cut: AtomicUsize,
}

impl HeapRange {
    pub(crate) const fn empty() -> Self {
        Self { base: AtomicUsize::new(0), length: AtomicUsize::new(0), cut: AtomicUsize::new(0) }
    }

    /// Sets the range. Called once.
    pub(crate) fn set(&self, span: BackingSpan) {
        self.base.store(span.start.as_ptr().expose_provenance(), Ordering::Relaxed);
        let before = self.length.swap(length(span.bytes), Ordering::Release);
        assert_eq!(before, 0, "a range is set once");
    }

    /// Whether the address is in the range; never while it is empty.
    #[inline]
    pub(crate) fn contains(&self, address: usize) -> bool {
        let length = self.length.load(Ordering::Acquire);
        address.wrapping_sub(self.base.load(Ordering::Relaxed)) < length
    }

    /// The distance of an address from the start of the range.
    #[inline]
    pub(crate) fn offset_of(&self, address: usize) -> Option<usize> {
        self.contains(address).then(|| address - self.base.load(Ordering::Relaxed))
    }

    /// Bytes in the range.
    pub(crate) fn length(&self) -> usize {
        self.length.load(Ordering::Acquire)
    }

    /// Bytes in use, all in one piece from the start.
    pub(crate) fn cut_length(&self) -> usize {
        self.cut.load(Ordering::Relaxed)
    }

    /// The range, if it is set.
    pub(crate) fn span(&self) -> Option<BackingSpan> {
        let length = self.length();
        let start = NonNull::new(std::ptr::with_exposed_provenance_mut(self.base.load(Ordering::Relaxed)))?;
        (length > 0).then_some(BackingSpan { start, bytes: bytes(length) })
    }

    /// The next `wanted` bytes with this alignment, opened on `backing`; `None` at the end of the range.
    pub(crate) fn cut(&self, wanted: usize, alignment: usize, backing: &dyn HeapBacking) -> Option<BackingSpan> {
        let base = self.base.load(Ordering::Relaxed);
        let place = |cut: usize| {
            let start = base.checked_add(cut)?.checked_next_multiple_of(alignment)? - base;
            let end = start.checked_add(wanted)?.checked_next_multiple_of(length(GRANULE))?;
            (end <= self.length()).then_some((start, end))
        };
        let before = self.cut.try_update(Ordering::Relaxed, Ordering::Relaxed, |cut| place(cut).map(|(_, end)| end));
        let before = before.ok()?;
        let (start, end) = place(before).expect("it was placed");
        let opened = BackingSpan { start: at(base + before), bytes: bytes(end - before) };
        backing.open(opened).then_some(BackingSpan { start: at(base + start), bytes: bytes(wanted) })
    }
}

fn at(address: usize) -> NonNull<u8> {
    NonNull::new(std::ptr::with_exposed_provenance_mut(address)).expect("the range does not start at zero")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use proptest::prelude::*;
    use rampart_memory::Bytes;
    use std::sync::Mutex;

    /// Addresses without memory, and the opened ones.
    #[derive(Default)]
    struct Paper(Mutex<Vec<(usize, usize)>>);

    impl HeapBacking for Paper {
        fn reserve(&self, _: Bytes) -> Result<NonNull<u8>, Error> {
            Ok(at(1 << 40))
        }

        fn open(&self, span: BackingSpan) -> bool {
            self.0.lock().unwrap().push((span.start.addr().get(), length(span.bytes)));
            true
        }

        fn forget(&self, _: BackingSpan) -> bool {
            false
        }
    }

    fn range(mib: u64) -> HeapRange {
        let range = HeapRange::empty();
        range.set(BackingSpan { start: at(1 << 40), bytes: Bytes::from_mib(mib) });
        range
    }

    #[test]
    fn an_empty_range_contains_no_address() {
        let range = HeapRange::empty();
        assert!(![0, 1, 1 << 40, usize::MAX].into_iter().any(|address| range.contains(address)));
        assert_eq!(range.span(), None);
    }

    #[test]
    fn the_range_contains_its_first_and_last_byte_and_no_other() {
        let range = range(64);
        let (start, end) = (1 << 40, (1 << 40) + (64 << 20));
        assert!(range.contains(start) && range.contains(end - 1));
        assert!(!range.contains(start - 1) && !range.contains(end));
        assert_eq!([start, start + 7, end].map(|address| range.offset_of(address)), [Some(0), Some(7), None]);
    }

    proptest! {
        /// Pieces are aligned, do not overlap, and are in the range; each byte is opened once and before it is used.
        #[test]
        fn pieces_do_not_overlap(asked in proptest::collection::vec((1_usize..9 << 20, 12_u32..26), 1..40)) {
            let (range, backing) = (range(128), Paper::default());
            let mut end = 1 << 40;
            for (wanted, alignment) in asked {
                let Some(piece) = range.cut(wanted, 1 << alignment, &backing) else {
                    let left = (128 << 20) - range.cut_length();
                    prop_assert!(wanted + (1 << alignment) + length(GRANULE) > left, "there was room");
                    continue;
                };
                let start = piece.start.addr().get();
                prop_assert!(start >= end && start.is_multiple_of(1 << alignment));
                end = start + wanted;
                prop_assert!(range.contains(start) && range.contains(end - 1));
            }
            let mut next = 1 << 40;
            for &(start, opened) in backing.0.lock().unwrap().iter() {
                prop_assert_eq!(start, next);
                next += opened;
            }
            prop_assert!(next >= end && next - (1 << 40) == range.cut_length());
        }
    }
}
