//! Memory that wears out: which lines have failed, how hardware gathers them, and how it reports new failures.

mod clustering;
mod draw;
mod failed_lines;
mod failure_buffer;
mod failure_handler;
mod redirection_cache;
mod schedule;
#[cfg(test)]
mod search;
mod swap_in;
mod usable;
mod wear_out;

pub use clustering::{AccessCost, ClusterLine, ClusteredRegion, Clustering, RegionPages, cluster_failures};
pub use draw::{ClusterBytes, FailurePercent, FailureShare, draw_failures};
pub use failed_lines::FailedLines;
pub use failure_buffer::{BufferRefusal, FailedWrite, FailureBuffer, Interrupt, MemoryLine, RevokedLine, WriteEnd};
pub use failure_handler::{FailureAnswer, PageExpectation, PageTables, answer_failures};
pub use redirection_cache::{AccessCounts, RedirectionCache};
pub use schedule::{FailureRate, FailureTimes};
pub use swap_in::{SwapIn, swap_in};
pub use usable::{GivenUp, usable_share};
pub use wear_out::{WearOrder, WornMemory, WriteSpread};
