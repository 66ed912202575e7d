//! Weak references to Java objects.

use std::sync::Arc;

use rampart_heap::wasmtime::{HeapShare, WeakNumber};

/// A weak reference, until it is dropped itself.
#[derive(Debug)]
pub struct WeakHandle {
    share: Arc<HeapShare>,
    number: WeakNumber,
}

impl WeakHandle {
    /// A reference to the object at an offset.
    pub fn new(share: Arc<HeapShare>, offset: u32) -> Option<Self> {
        let number = share.weaken(offset)?;
        Some(Self { share, number })
    }

    /// The offset of the object; `None` if it is gone.
    pub fn object(&self) -> Option<u32> {
        self.share.object(self.number)
    }
}

impl Drop for WeakHandle {
    fn drop(&mut self) {
        self.share.forget(self.number);
    }
}
