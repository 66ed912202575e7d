//! Weak references to Java objects.

use std::sync::Arc;

use rampart_heap::wasmtime::{HeapShare, WeakNumber};
use wasmtime::{AnyRef, AsContextMut, Result, Rooted, format_err};

/// A weak reference, until it is dropped itself.
#[derive(Debug)]
pub struct WeakHandle {
    share: Arc<HeapShare>,
    number: WeakNumber,
}

impl WeakHandle {
    /// A reference to an object.
    pub fn new(share: Arc<HeapShare>, store: impl AsContextMut, object: Rooted<AnyRef>) -> Result<Self> {
        let offset = object.to_raw(store)?;
        let number = share.weaken(offset).ok_or_else(|| format_err!("a weak reference to nothing"))?;
        Ok(Self { share, number })
    }

    /// The object; `None` if it is gone.
    pub fn object(&self, store: impl AsContextMut) -> Option<Rooted<AnyRef>> {
        self.share.object(self.number).and_then(|offset| AnyRef::from_raw(store, offset))
    }

    /// Whether the object is gone.
    pub fn is_cleared(&self) -> bool {
        self.share.object(self.number).is_none()
    }
}

impl Drop for WeakHandle {
    fn drop(&mut self) {
        self.share.forget(self.number);
    }
}
