//! The memory of a heap: raw bytes at offsets.
//!
//! **Problem.** A collector reads and writes any word of any object, through references that it has just read from
//! another; a check of each would cost more than the work. **Idea.** An offset has 32 bits, and a region reserves all
//! of the 4 GiB that it can name, with a margin behind. So a wrong offset can damage this heap, but no other memory; in
//! a region that `reserve` made, it faults outside of the used part. **Why this way.** All other code of the heap is
//! safe Rust.

#![expect(unsafe_code, reason = "the raw front end of the heap")]

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use rampart_linux::AddressReservation;
use rampart_memory::Bytes;

use crate::error::Error;
use crate::geometry::PAGE;
use crate::sync::interleave;

/// What 32 bits can name.
const NAMEABLE: usize = 1 << 32;

/// Where the cards lie: a byte for each 256 B of the region, at its end. Compiled write barriers know the place.
pub const CARDS: u32 = 0xff00_0000;

/// Where references to lost objects lead, up to the cards: no memory is used there.
pub const LOST: u32 = CARDS - (1 << 20);

/// The size of a card: what a byte of the cards stands for.
pub const CARD_BYTES: u32 = 256;

const _: () = assert!(NAMEABLE as u64 - CARDS as u64 == (1 << 32) / CARD_BYTES as u64);

/// What lies behind, so that no access that begins at an offset ends outside: the largest copy is one of a block.
const MARGIN: usize = 64 << 10;

/// The memory of a heap.
#[derive(Debug)]
pub struct HeapRegion {
    base: NonNull<u8>,
    /// The memory, unless another owner keeps it.
    owned: Option<Arc<AddressReservation>>,
}

// SAFETY: a region is a range of addresses, which belongs to no thread; all accesses to its words are atomic, and
// copies and fills are called with the heap at rest or on memory that one thread owns. The reservation is only kept,
// and any thread may release it, as it may be sent to one.
unsafe impl Send for HeapRegion {}
// SAFETY: as for `Send`.
unsafe impl Sync for HeapRegion {}

impl HeapRegion {
    /// Reserves a region of which the first `bytes`, whole pages, can be used.
    ///
    /// # Errors
    /// If the process may not have that much address space, or memory.
    pub fn reserve(bytes: u64) -> Result<Self, Error> {
        let used = usize::try_from(bytes).ok().filter(|bytes| *bytes <= LOST as usize);
        let used = used.ok_or(Error::TooLarge { given: bytes, most: LOST.into() })?;
        let reservation =
            AddressReservation::new(Bytes::new((NAMEABLE + MARGIN) as u64)).map_err(Error::NoAddressSpace)?;
        let cards = (used / CARD_BYTES as usize).next_multiple_of(PAGE as usize);
        for part in [0..used, CARDS as usize..CARDS as usize + cards] {
            reservation.open(part).map_err(Error::NoMemory)?;
        }
        let base = reservation.base();
        #[expect(clippy::arc_with_non_send_sync, reason = "nothing but its release is ever called")]
        let owned = Some(Arc::new(reservation));
        Ok(Self { base, owned })
    }

    /// A region over memory that another owner keeps.
    ///
    /// # Safety
    /// From `base` on, 4 GiB and 64 KiB must be mapped, with or without permissions, for as long as the region exists;
    /// `base` must be aligned to pages; and no Rust reference to the memory may exist while the region is used.
    #[must_use]
    pub const unsafe fn over(base: NonNull<u8>) -> Self {
        Self { base, owned: None }
    }

    /// The same memory once more, so that threads read and write it without a lock; `None` if another owner keeps it.
    pub(crate) fn share(&self) -> Option<Self> {
        let owned = Arc::clone(self.owned.as_ref()?);
        Some(Self { base: self.base, owned: Some(owned) })
    }

    /// The address of offset 0.
    #[must_use]
    pub const fn base(&self) -> NonNull<u8> {
        self.base
    }

    const fn at(&self, offset: u32) -> *mut u8 {
        // SAFETY: the region spans all offsets.
        unsafe { self.base.as_ptr().add(offset as usize) }
    }

    fn word(&self, offset: u32) -> &AtomicU32 {
        debug_assert!(offset.is_multiple_of(4), "{offset:#x}");
        // SAFETY: rounded down to a multiple of 4, the address is aligned, and lies in the region with the 4 bytes from
        // it; all accesses to words of objects are atomic.
        unsafe { AtomicU32::from_ptr(self.at(offset & !3).cast()) }
    }

    fn double_word(&self, offset: u32) -> &AtomicU64 {
        debug_assert!(offset.is_multiple_of(8), "{offset:#x}");
        // SAFETY: as for `word`, with 8 bytes.
        unsafe { AtomicU64::from_ptr(self.at(offset & !7).cast()) }
    }

    fn card(&self, offset: u32) -> &AtomicU8 {
        // SAFETY: the cards lie in the region, one for each card that an offset can be in; all accesses are atomic.
        unsafe { AtomicU8::from_ptr(self.at(CARDS + offset / CARD_BYTES)) }
    }

    /// The write barrier: marks the card of a slot as dirty. Call it with each store of a reference into an object that
    /// may be old.
    #[inline]
    pub fn mark_card(&self, offset: u32) {
        self.card(offset).store(1, Ordering::Relaxed);
    }

    /// Whether the card of an offset is dirty.
    #[must_use]
    pub fn is_dirty(&self, offset: u32) -> bool {
        self.card(offset).load(Ordering::Relaxed) != 0
    }

    /// The dirty cards of a range of whole pages, by their first offsets; makes them clean.
    pub(crate) fn take_dirty(&self, from: u32, bytes: u32, dirty: &mut Vec<u32>) {
        // Few are dirty: eight at a time.
        for cards in (from..from + bytes).step_by(8 * CARD_BYTES as usize) {
            let eight = self.double_word(CARDS + cards / CARD_BYTES);
            if eight.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let offsets = (cards..).step_by(CARD_BYTES as usize);
            let of_these = eight.swap(0, Ordering::Relaxed).to_le_bytes().into_iter().zip(offsets);
            dirty.extend(of_these.filter(|(is_dirty, _)| *is_dirty != 0).map(|(_, card)| card));
        }
    }

    /// Prefetches what is at an offset: it will be read soon.
    #[inline]
    pub(crate) fn prefetch(&self, offset: u32) {
        let at = self.at(offset);
        // SAFETY: a hint, which reads nothing as far as the program sees, and faults nowhere.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(at.cast());
        }
        // SAFETY: as above; the instruction changes neither registers nor memory.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            core::arch::asm!("prfm pldl1keep, [{}]", in(reg) at, options(nostack, readonly, preserves_flags));
        }
    }

    /// Reads a word of 32 bits, at a multiple of 4.
    #[inline]
    #[must_use]
    pub fn read(&self, offset: u32) -> u32 {
        self.word(offset).load(Ordering::Relaxed)
    }

    /// Writes a word of 32 bits, at a multiple of 4.
    #[inline]
    pub fn write(&self, offset: u32, value: u32) {
        self.word(offset).store(value, Ordering::Relaxed);
    }

    /// Reads a word that other threads write, and sees what they wrote before it.
    #[inline]
    pub(crate) fn acquire(&self, offset: u32) -> u32 {
        interleave();
        self.word(offset).load(Ordering::Acquire)
    }

    /// Writes a word that other threads read, and lets them see what was written before.
    #[inline]
    pub(crate) fn release(&self, offset: u32, value: u32) {
        interleave();
        self.word(offset).store(value, Ordering::Release);
    }

    /// Replaces a word if it has a value; returns whether it had.
    #[inline]
    pub(crate) fn replace_if(&self, offset: u32, value: u32, new: u32) -> bool {
        interleave();
        self.word(offset).compare_exchange(value, new, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Sets bits of a word that other threads may change, too.
    pub(crate) fn set_bits(&self, offset: u32, bits: u32) {
        self.word(offset).fetch_or(bits, Ordering::Relaxed);
    }

    /// Clears bits of a word that other threads may change, too.
    pub(crate) fn clear_bits(&self, offset: u32, bits: u32) {
        self.word(offset).fetch_and(!bits, Ordering::Relaxed);
    }

    /// Reads a word of 64 bits, at a multiple of 8.
    #[inline]
    #[must_use]
    pub fn read_double(&self, offset: u32) -> u64 {
        self.double_word(offset).load(Ordering::Relaxed)
    }

    /// Writes a word of 64 bits, at a multiple of 8.
    #[inline]
    pub fn write_double(&self, offset: u32, value: u64) {
        self.double_word(offset).store(value, Ordering::Relaxed);
    }

    /// Copies `bytes`, at most a block, from one object's memory to another's. Only this thread may use either now.
    #[inline]
    pub(crate) fn copy(&self, from: u32, to: u32, bytes: u32) {
        debug_assert!((bytes as usize) < MARGIN && from.abs_diff(to) >= bytes);
        // SAFETY: both ranges lie in the region and its margin; the callers copy between an object and fresh memory,
        // which do not overlap, and have them to themselves.
        unsafe { std::ptr::copy_nonoverlapping(self.at(from), self.at(to), (bytes as usize).min(MARGIN)) };
    }

    /// Fills `bytes` from an offset, which end in the region, with one value. Only this thread may use them now.
    #[inline]
    pub fn fill(&self, offset: u32, bytes: u32, value: u8) {
        let bytes = (bytes as usize).min(NAMEABLE + MARGIN - offset as usize);
        // SAFETY: the range lies in the region and its margin, and the caller has it to itself.
        unsafe { std::ptr::write_bytes(self.at(offset), value, bytes) };
    }
}
