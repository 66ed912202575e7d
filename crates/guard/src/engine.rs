//! What a guard asks of the machine.

use rampart_codes::Pages;
use rampart_memory::Frame;

use crate::layout::{PageIndex, Span};

/// Why pages stay where they are.
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum Refusal {
    /// a device or another process uses the memory
    Pinned,
    /// the kernel says: {0}
    Kernel(String),
}

/// Two ranges of addresses of the same layout: the *program's*, and the *vault*, which the program does not know. Each page
/// is in one of them at a time, or nowhere as long as it was never used.
///
/// The guard calls with the lock of the span's block, so that calls for one block never overlap. Both ranges are memory
/// that hardware may change: nobody holds references to it.
pub trait Engine: Sync {
    /// Moves pages from the vault to the program's range, and wakes those who wait for them.
    ///
    /// # Errors
    /// Why they cannot be; they are in the vault then.
    fn open(&self, span: Span) -> Result<(), Refusal>;

    /// Moves pages from the program's range to the vault.
    ///
    /// # Errors
    /// Why they cannot be; all are in the program's range then.
    fn close(&self, span: Span) -> Result<(), Refusal>;

    /// Gives the program pages of zeros where it has none, and wakes those who wait for them.
    ///
    /// # Errors
    /// Why they cannot be had.
    fn fill(&self, span: Span) -> Result<(), Refusal>;

    /// Gives the frames of pages back to the kernel, wherever the pages are.
    fn discard(&self, span: Span);

    /// Wakes those who wait for pages that are there already.
    fn wake(&self, span: Span);

    /// Looks at pages in the vault, and may correct them.
    fn with_vault<R>(&self, span: Span, look: impl FnOnce(&mut Pages<'_>) -> R) -> R;

    /// Flips a bit, 0 to 32767, of a page in the vault: a memory error that is made up.
    fn flip(&self, page: PageIndex, bit: u32);

    /// The frame of a page, where the kernel says.
    fn frame(&self, page: PageIndex) -> Option<Frame>;
}
