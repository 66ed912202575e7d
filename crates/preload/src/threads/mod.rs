//! The threads of the guard: the fault handler, the maintenance thread, and the tester of frames.
//!
//! All keep out of the heap ([`Outside`](crate::heap::private::Outside)) and take no signals except that a page was
//! lost: a handler of the program's would run on them, touch the heap, and wait for itself. They have a table of open
//! files of their own ([`descriptors`]), so the program's threads ask the maintenance thread for requests to the guard
//! ([`requests`]). [`ending`] has the ways to end the process.

pub mod beginning;
mod descriptors;
pub mod ending;
mod fault_handler;
mod injector;
mod last_thread;
pub mod live;
mod maintenance;
mod placement;
mod request_slot;
mod requests;
pub mod signal_mask;
mod tester;
mod unregistered;
