//! Functions of the C library that this library defines before it: each is decoded, the guard learns of it, and the
//! call goes on.

mod allocation;
pub mod asynchronous;
mod buffers;
mod by_number;
pub mod environment;
pub mod exec;
pub mod fork;
mod kernel;
mod limits;
mod mlock;
pub mod mmap;
mod ptrace;
mod remap;
pub mod signals;
pub mod streams;
pub mod system_calls;
mod thread_start;
mod user;
