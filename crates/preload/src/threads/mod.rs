//! The threads of the guard: the fault handler, the maintenance thread, and the tester of frames.
//!
//! All keep out of the heap ([`Outside`](crate::heap::private::Outside)) and take no signals but that a page was lost:
//! a handler of the program's would run on them, touch the heap, and wait for itself. They have a table of open files
//! of their own ([`descriptors`]), so what the program's threads want of the guard, they ask of the maintenance thread
//! ([`requests`]). How they end the process stands in [`ending`].

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
