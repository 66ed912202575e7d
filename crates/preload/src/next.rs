//! The C library's own functions for names that this library overrides.

#![allow(unsafe_code, reason = "looks up functions by their names")]

use std::ffi::{CStr, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function that is looked up at its first call.
#[derive(Debug)]
pub(crate) struct NextSymbol<F> {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
    function: PhantomData<F>,
}

impl<F: Copy> NextSymbol<F> {
    /// # Safety
    /// `F` is a pointer to a function with the signature that the C library gives the name.
    pub(crate) const unsafe fn named(name: &'static CStr) -> Self {
        assert!(size_of::<F>() == size_of::<*mut c_void>(), "a pointer to a function");
        Self { name, found: AtomicPtr::new(ptr::null_mut()), function: PhantomData }
    }

    /// Looks the function up, which takes the loader's lock: a faulting thread may hold that, so the fault handler must
    /// not be the first to ask. Null if there is none.
    pub(crate) fn find(&self) -> *mut c_void {
        let mut found = self.found.load(Ordering::Relaxed);
        if found.is_null() {
            // SAFETY: the name ends in zero.
            found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
            self.found.store(found, Ordering::Relaxed);
        }
        found
    }

    /// The next function of this name, in the loader's order of search. Panics without one: the caller would not have
    /// found the name without this library either.
    pub(crate) fn get(&self) -> F {
        let found = self.find();
        assert!(!found.is_null(), "the C library has {:?}", self.name);
        // SAFETY: it is a function of the type that `named` was promised, and not null.
        unsafe { std::mem::transmute_copy(&found) }
    }
}
