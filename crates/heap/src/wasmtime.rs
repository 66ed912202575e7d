//! What a host hands to the heap that wasmtime makes for a store.
//!
//! wasmtime makes its heaps itself, and passes nothing on to them. So a host leaves the plan of the next one here.

use std::sync::Mutex;

use crate::error::Error;
use crate::geometry::{BLOCK_BYTES, PAGE};
use crate::heap::HeapSettings;
use crate::wear::FailedLines;

/// A heap to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct HeapPlan {
    /// How it is run.
    pub settings: HeapSettings,
    /// The failed lines of each of its pages.
    pub failed: Vec<FailedLines>,
}

static NEXT: Mutex<Option<HeapPlan>> = Mutex::new(None);

impl HeapPlan {
    /// The size without a plan: 64 MiB.
    const PAGES: usize = (64 << 20) / PAGE as usize;

    /// Leaves the plan for the next heap.
    ///
    /// # Errors
    /// If no heap can be made of so many pages.
    pub fn leave(self) -> Result<(), Error> {
        let (given, least) = (self.failed.len() as u64 * u64::from(PAGE), u64::from(4 * BLOCK_BYTES));
        if given < least {
            return Err(Error::TooSmall { given, least });
        }
        if given > 1 << 31 {
            return Err(Error::TooLarge(given));
        }
        *NEXT.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(self);
        Ok(())
    }

    /// Takes the plan; without one, a heap of 64 MiB in which nothing has failed.
    pub fn take() -> Self {
        let left = NEXT.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        left.unwrap_or_else(|| Self { settings: HeapSettings::default(), failed: vec![FailedLines::NONE; Self::PAGES] })
    }
}
