//! The kernel's trace events, read in binary form.
//!
//! **Problem.** A page is allocated or freed up to a million times a second. As text, each of these events would take
//! the kernel a line to print and a reader a line to parse, and both would disturb what is recorded. **Idea.** The
//! kernel shows its ring buffers as they are, and says in files of text where in them each field lies. **Why this
//! way.** A page of a buffer holds about a hundred events and is read by one call.
//!
//! | module | owns |
//! |---|---|
//! | `instance` | a trace of our own, so that no other user of tracing is disturbed |
//! | `format` | the places of fields, from the kernel's text |
//! | `ring_page` | the records of one page of a ring buffer |
//! | `page_events` | allocated and freed pages, of all CPUs |
//! | `reclaim_notice` | the moment at which the kernel begins to reclaim |
//!
//! Source: Linux, Documentation/trace/ftrace.rst, include/linux/ring_buffer.h, kernel/trace/ring_buffer.c.

mod format;
mod instance;
mod page_events;
mod reclaim_notice;
mod ring_page;

pub use format::{FieldPlace, fields};
pub(crate) use instance::{TraceInstance, folder};
pub use page_events::{FeedCounts, KernelPageChange, KernelPageEvent, PageEventFeed};
pub use reclaim_notice::ReclaimNotice;
pub use ring_page::{MissedEvents, RingLayout, RingRead};
