//! Weak references to Java objects, which are strong here: wasmtime as published has no others.

use wasmtime::{AnyRef, OwnedRooted, Result, Rooted};

use crate::state::HostCaller;

/// A reference that keeps its object.
#[derive(Debug)]
pub struct WeakHandle(OwnedRooted<AnyRef>);

impl WeakHandle {
    /// A reference to an object.
    pub fn new(caller: &mut HostCaller<'_>, object: Rooted<AnyRef>) -> Result<Self> {
        Ok(Self(object.to_owned_rooted(caller)?))
    }

    /// The object.
    pub fn object(&self, caller: &mut HostCaller<'_>) -> Option<Rooted<AnyRef>> {
        Some(self.0.to_rooted(caller))
    }

    /// Never.
    pub const fn is_cleared(&self) -> bool {
        false
    }
}
