//! Weak references to Java objects, which are strong here: wasmtime as published has no others.

use std::sync::Arc;

use rampart_heap::wasmtime::HeapShare;
use wasmtime::{AnyRef, AsContextMut, OwnedRooted, Result, Rooted};

/// A reference that keeps its object.
#[derive(Debug)]
pub struct WeakHandle(OwnedRooted<AnyRef>);

impl WeakHandle {
    /// A reference to an object. The heap of this store has no share.
    pub fn new(_share: Arc<HeapShare>, store: impl AsContextMut, object: Rooted<AnyRef>) -> Result<Self> {
        Ok(Self(object.to_owned_rooted(store)?))
    }

    /// The object.
    pub fn object(&self, store: impl AsContextMut) -> Option<Rooted<AnyRef>> {
        Some(self.0.to_rooted(store))
    }

    /// Never.
    pub const fn is_cleared(&self) -> bool {
        false
    }
}
