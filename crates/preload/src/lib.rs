//! A library to preload: an unmodified program's whole heap in one range of addresses that Rampart owns.
//!
//! **Problem.** The page guard verifies each page of a heap before the program uses it [Fiala15, ch. 4]. For that it
//! must know where the heap is, own the mapping, and learn of pages that are no longer needed; and no memory of the
//! guard itself may be there. **Idea.** `LD_PRELOAD` puts this library's allocation functions before those of glibc.
//! They are jemalloc's, with arenas whose memory comes from a [`HeapBacking`]: one range, opened and forgotten page by
//! page through us. **Why this way.** It needs no change to the program and no kernel module, and uses an allocator
//! that people have tuned for twenty years.
//!
//! The rooms of this crate, from top to bottom; imports run down only:
//!
//! | room | owns |
//! |---|---|
//! | `lifecycle` | the constructor and the end of a process; which of its static data is guarded |
//! | `interposed` | the functions that a program calls and that are ours first: allocation, mappings, children, signals, system calls |
//! | [`guarded`] | the guard of a process: off, adopting used memory, live, and the same again in a child |
//! | `threads` | the fault handler, the maintenance thread and the tester thread |
//! | `engines` | the three ways to lock pages; `engines::prepare` alone names them |
//! | `frames` | tested frames, bad ones, and suspect ones |
//! | `reporting` | the reports: counts, events, records, the line at the end |
//! | `regions` | mappings and static data, as sets of addresses |
//! | [`heap`] | arenas on one range, the guard's own memory, call sites of large allocations |
//! | `next`, `convert`, `preload_list`, `messages`, `error` | the C library's own functions; conversions to the types of lower layers; the loader's list; messages on standard error; errors |
//!
//! The two statics of this file, the heap and its backing, are used by `lifecycle` and `interposed` only.
//!
//! # Why jemalloc
//! A guard needs an allocator that does not touch locked pages. jemalloc keeps its metadata outside of the memory that
//! it hands out: neither `malloc` nor `free` reads or writes the block itself, so freeing in a locked page unlocks
//! nothing. mimalloc and snmalloc thread their free lists through the free blocks; dlmalloc and glibc keep a header
//! before each. And its hooks (manual, "arena.\<i\>.extent_hooks") were made for this: memory of any size comes from
//! one place and goes back to it. The cost: the metadata itself is not guarded.
//!
//! # The program's view
//! `malloc` and its family behave as glibc's. `fork`: jemalloc's own handlers hold its locks, and the child has a heap
//! of its own, at the same addresses; `interposed::fork` has other ways to make a child. `vfork`: no code of ours runs
//! in the child before it executes another program. `exec`: the new program is preloaded too, as long as `LD_PRELOAD`
//! stays in its environment. The loader ignores that for programs that run with another's privileges (setuid, file
//! capabilities; ld.so(8), "secure-execution mode").
//!
//! | variable | meaning |
//! |---|---|
//! | `RAMPART_GUARD` | the guard's settings (`rampart_guard::GuardSettings`); without it there is no guard |
//! | `RAMPART_GUARD_FRAMES` | the march test of frames (`rampart_guard::FrameSettings`) |
//! | `RAMPART_GUARD_STATE` | the folder in which `rampart run` and guards leave files for each other |
//! | `RAMPART_GUARD_RECORD` | which journals are written there: samples, accesses |
//! | `RAMPART_GUARD_SERVER=required` | the process stops if `rampart run` is killed |
//! | `RAMPART_GUARD_INJECT`, `RAMPART_GUARD_FAULTS` | errors in locked pages, and faults in frames, to inject |
//! | `RAMPART_GUARD_RANGE` | size of the range, such as `64GiB`; by default 1 TiB, and at most a part of `ulimit -v` |
//! | `RAMPART_GUARD_CHILDREN=no` | programs that this one executes are not preloaded |
//! | `RAMPART_GUARD_REPORT` | a file to which each process adds a line of JSON at its end |
//!
//! # What never is
//! Stacks and thread control blocks are not in the range, nor a program's own mappings unless they are guarded too, nor
//! the heap of a program that is linked statically or brings an allocator of its own under other names. There is no
//! thread-local variable of ours in the path of `malloc`, and no lookup of another `malloc`: nothing here can call
//! itself.
//!
//! Libraries: `tikv-jemalloc-sys` (jemalloc 5.3, kept by the TiKV project; see above), `libc` (fork handlers, `errno`,
//! and the thread's name, which are the C library's), `rustix` (system calls that leave `errno` alone), `displaydoc`
//! and `thiserror` (an error's doc comment is its message).

#![deny(unsafe_code)]

mod convert;
mod engines;
mod error;
mod frames;
pub mod guarded;
pub mod heap;
#[cfg(not(test))]
mod interposed;
#[cfg(not(test))]
mod lifecycle;
mod messages;
mod next;
mod preload_list;
mod regions;
mod reporting;
mod threads;

pub use error::Error;
pub use guarded::ProcessGuard;
pub use heap::arenas::{Heap, Usage};
pub use heap::backing::{BackingSpan, HeapBacking, Plain};
pub use heap::private::{Outside, Private};

/// Allocations of this library's own Rust code are not the program's.
#[global_allocator]
static PRIVATE: Private = Private;

/// Its backing.
#[cfg(not(test))]
static BACKING: ProcessGuard = ProcessGuard::new();

/// The heap of this process.
#[cfg(not(test))]
static HEAP: Heap = Heap::new(&BACKING);
