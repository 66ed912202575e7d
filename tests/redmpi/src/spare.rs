//! The heap of a process that has crashed (`mpi/redmpi/spare_heap.h`), of which there is one.

use std::ptr;
use std::sync::Once;

unsafe extern "C" {
    fn begin_spare_heap() -> bool;
    fn spare_alloc(alignment: usize, size: usize) -> *mut u8;
    fn spare_free(piece: *mut u8);
}

static BEGIN: Once = Once::new();

/// A piece of that heap.
#[derive(Debug)]
pub struct SparePiece {
    piece: *mut u8,
    size: usize,
}

impl SparePiece {
    /// `None` if there is no room. The alignment is a power of two.
    ///
    /// # Panics
    /// If the kernel refuses the heap its addresses.
    #[must_use]
    pub fn new(alignment: usize, size: usize) -> Option<Self> {
        assert!(alignment.is_power_of_two());
        // SAFETY: it is called once, before anything else of the heap.
        BEGIN.call_once(|| assert!(unsafe { begin_spare_heap() }));
        // SAFETY: the heap has begun, and the alignment is a power of two.
        let piece = unsafe { spare_alloc(alignment, size) };
        (!piece.is_null()).then_some(Self { piece, size })
    }

    /// Where it is, and where it ends.
    #[must_use]
    pub fn place(&self) -> (usize, usize) {
        (self.piece.addr(), self.piece.addr() + self.size)
    }

    /// Whether all of its bytes have this value.
    #[must_use]
    pub fn is_all(&self, value: u8) -> bool {
        // SAFETY: the piece has so many bytes, which were written when it was made.
        (0..self.size).all(|at| unsafe { self.piece.add(at).read() } == value)
    }

    /// Gives all of its bytes this value.
    pub fn fill(&mut self, value: u8) {
        // SAFETY: the piece has so many bytes, and nobody else has it.
        unsafe { ptr::write_bytes(self.piece, value, self.size) };
    }
}

impl Drop for SparePiece {
    fn drop(&mut self) {
        // SAFETY: the piece is of this heap, and nobody has it from now on.
        unsafe { spare_free(self.piece) };
    }
}
