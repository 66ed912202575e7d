//! Where objects lie: blocks of lines, and large objects on pages of their own.

pub(crate) mod allocator;
pub(crate) mod blocks;
mod failures;
mod free_addresses;
pub(crate) mod free_lines;
mod immix_space;
pub(crate) mod large;
pub(crate) mod lines;
pub(crate) mod lost;
pub(crate) mod ranges;
pub(crate) mod recyclable;
pub(crate) mod starts;

pub use failures::LineFailure;
pub(crate) use immix_space::{CompactionRoom, ImmixSpace, Source};
