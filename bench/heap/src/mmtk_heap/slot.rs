//! References of 32 bits.

use std::sync::atomic::{AtomicU32, Ordering};

use mmtk::util::{Address, ObjectReference};
use mmtk::vm::slot::Slot;

/// A place with the address of an object in 32 bits, or with 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NarrowSlot(Address);

impl NarrowSlot {
    /// The one at an address.
    pub const fn at(address: Address) -> Self {
        Self(address)
    }

    #[inline]
    fn word(&self) -> &AtomicU32 {
        // SAFETY: MMTk asks for slots that the objects and the root stack have, which lie at multiples of 4 and stay
        // there as long as it does.
        unsafe { AtomicU32::from_ptr(self.0.to_mut_ptr()) }
    }
}

impl Slot for NarrowSlot {
    #[inline]
    fn load(&self) -> Option<ObjectReference> {
        // SAFETY: a number as an address.
        ObjectReference::from_raw_address(unsafe { Address::from_usize(self.word().load(Ordering::Relaxed) as usize) })
    }

    #[inline]
    fn store(&self, object: ObjectReference) {
        // The heap lies in the lowest 4 GiB.
        self.word().store(object.to_raw_address().as_usize() as u32, Ordering::Relaxed);
    }
}
