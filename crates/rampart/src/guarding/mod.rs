//! A program under guard: the library that is preloaded, and what the guards of its processes leave behind.

pub mod arguments;
pub mod choice;
pub mod folder;
pub mod following;
pub mod left;
pub mod library;
pub mod page;
pub mod recorded;
pub mod retiring;
pub mod server;
