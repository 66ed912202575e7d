//! What a program needs of a heap.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// A reference to an object, in 32 bits; 0 refers to nothing. A collection may move the object, so only references on
/// the [`RootStack`] and in objects outlive an allocation.
pub type Reference = u32;

/// A heap that programs run on. An object has a header of 8 bytes, references, then bytes.
pub trait HeapUnderTest {
    /// A new object, whose references refer to nothing. Ends the process with [`OUT_OF_MEMORY`] if there is no room.
    fn allocate(&mut self, references: u32, bytes: u32) -> Reference;

    /// The reference in a slot of an object.
    fn load(&self, object: Reference, slot: u32) -> Reference;

    /// Puts a reference into a slot of an object, with the write barrier that the collector needs.
    fn store(&mut self, object: Reference, slot: u32, value: Reference);

    /// Writes the double word at an index behind the references of an object, of which there are so many.
    fn write_double(&mut self, object: Reference, references: u32, index: u32, value: u64);

    /// The references that the program holds.
    fn roots(&self) -> &RootStack;

    /// How long each collection has kept the program waiting, in seconds.
    fn pauses(&self) -> Vec<f64>;
}

/// The exit status of a program that has run out of memory.
pub const OUT_OF_MEMORY: i32 = 3;

/// How many references a program holds at most.
const ROOTS: usize = 1 << 12;

/// The references that a program holds, as a stack. A collector may change them from another thread while the program
/// waits.
pub struct RootStack {
    references: Box<[AtomicU32]>,
    used: AtomicUsize,
}

impl Default for RootStack {
    fn default() -> Self {
        Self { references: (0..ROOTS).map(|_| AtomicU32::new(0)).collect(), used: AtomicUsize::new(0) }
    }
}

impl RootStack {
    /// Holds a reference; returns its place.
    #[inline]
    pub fn push(&self, reference: Reference) -> usize {
        let place = self.used.load(Ordering::Relaxed);
        self.references[place].store(reference, Ordering::Relaxed);
        self.used.store(place + 1, Ordering::Relaxed);
        place
    }

    /// Drops the references that were pushed last.
    #[inline]
    pub fn pop(&self, count: usize) {
        self.used.store(self.used.load(Ordering::Relaxed) - count, Ordering::Relaxed);
    }

    /// The reference at a place.
    #[inline]
    pub fn get(&self, place: usize) -> Reference {
        self.references[place].load(Ordering::Relaxed)
    }

    /// All references that are held.
    pub fn held(&self) -> &[AtomicU32] {
        &self.references[..self.used.load(Ordering::Relaxed)]
    }
}
