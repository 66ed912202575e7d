//! A library to preload: an unmodified program's whole heap in one range of addresses that Rampart owns.
//!
//! **Problem.** The page guard verifies each page of a heap before the program uses it
//! [Fiala15, ch. 4]. For that it must know where the heap is, own the mapping, and hear of pages that are no longer needed;
//! and nothing of the guard itself may be there. **Idea.** `LD_PRELOAD` puts the C library's allocation functions of
//! this library before those of glibc. They are jemalloc's, with arenas whose memory comes from a [`Ground`]: one
//! range, opened and forgotten page by page through us. **Why this way.** No change to the program, no kernel module,
//! and an allocator that people have tuned for twenty years.
//!
//! | module | owns |
//! |---|---|
//! | [`ground`] | what is done to the pages of the range; ordinary memory as the first such ground |
//! | `range` | where the range is, and how it is cut |
//! | `hooks` | how an arena gets its memory from the range |
//! | [`heap`] | each thread's way to an arena, and the promise that what a program gets is in the range |
//! | [`private`] | memory of the guard's own, which is not |
//! | `jemalloc` | the rest of what jemalloc is asked |
//! | `start` | the first allocation of a process |
//! | `process`, `children`, `report` | its constructor, fork and end; what its children inherit; the last line |
//! | `mapping`, `remapping`, `mappings`, `spans` | what a program maps itself, and does to what is mapped |
//! | `mlocked`, `places` | what it locks in RAM, and where that lies |
//! | `data` | which of its static data can be guarded |
//! | `signals`, `calls`, `held`, `streams`, `next` | what is interposed where faults are signals and system calls do not wait for them |
//! | `forks` | children that are made without fork(3) |
//! | `by_number`, `kernel` | system calls by syscall(2), and those that this library makes |
//! | `spawning` | what new threads touch before they take signals |
//! | `late` | what goes on after a system call, where devices go unseen |
//! | `foreign` | allocations that are not ours |
//! | `executing` | programs that do not bear this library, which are executed without it |
//! | `traced` | a debugger's child, before it executes its program |
//! | `users` | a program that changes its user |
//! | `exports` | the C interface |
//!
//! # Why jemalloc
//! A guard wants an allocator that leaves locked pages alone. jemalloc keeps all that it notes about memory outside of
//! that memory: neither `malloc` nor `free` reads or writes the block itself, so freeing in a locked page unlocks
//! nothing. mimalloc and snmalloc thread their free lists through the free blocks; dlmalloc and glibc keep a header
//! before each. And its hooks (manual, "arena.\<i\>.extent_hooks") were made for this: memory of any size comes from
//! one place and goes back to it. What this costs: its notes themselves are not guarded.
//!
//! # What a program sees
//! `malloc` and its family behave as glibc's. `fork`: jemalloc's own handlers hold its locks, and the child has a heap
//! of its own, at the same addresses; other ways to make one stand in `forks`. `vfork`: nothing of ours runs in the child before it executes another program.
//! `exec`: the new program is preloaded too, as long as `LD_PRELOAD` stays in its environment. The loader ignores that
//! for programs that run with another's privileges (setuid, file capabilities; ld.so(8), "secure-execution mode").
//!
//! | variable | what it says |
//! |---|---|
//! | `RAMPART_GUARD_RANGE` | size of the range, such as `64GiB`; usually 1 TiB, and a part of `ulimit -v` at most |
//! | `RAMPART_GUARD_CHILDREN=no` | programs that this one executes are not preloaded |
//! | `RAMPART_GUARD_REPORT` | a file to which each process adds a line of JSON at its end |
//!
//! # What never is
//! Stacks and thread control blocks are not in the range, nor mappings that a program makes itself unless they are to be
//! guarded too, and neither is the heap of a program that is linked statically or brings an allocator of its own under other names. There is no thread-local
//! variable of ours in the path of `malloc`, and no lookup of another `malloc`: nothing here can call itself.
//!
//! Libraries: `tikv-jemalloc-sys` (jemalloc 5.3, kept by the TiKV project; see above), `libc` (fork handlers, `errno`,
//! and the thread's name, which are the C library's), `rustix` (system calls that leave `errno` alone), `displaydoc`
//! and `thiserror` (an error's doc comment is its message).

#![deny(unsafe_code)]

#[cfg(not(test))]
mod by_number;
#[cfg(not(test))]
mod calls;
mod children;
mod data;
mod error;
#[cfg(not(test))]
mod executing;
#[cfg(not(test))]
mod exports;
mod foreign;
#[cfg(not(test))]
mod forks;
pub mod ground;
pub mod guarded;
pub mod heap;
#[cfg(not(test))]
mod held;
mod hooks;
mod jemalloc;
#[cfg(not(test))]
mod kernel;
#[cfg(not(test))]
mod late;
#[cfg(not(test))]
mod limits;
#[cfg(not(test))]
mod mapping;
mod mappings;
#[cfg(not(test))]
mod mlocked;
mod next;
mod places;
pub mod private;
#[cfg(not(test))]
mod process;
mod range;
#[cfg(not(test))]
mod remapping;
mod report;
#[cfg(not(test))]
mod signals;
pub mod sites;
mod spans;
#[cfg(not(test))]
mod spawning;
mod start;
#[cfg(not(test))]
mod streams;
#[cfg(not(test))]
mod traced;
#[cfg(not(test))]
mod users;

pub use error::Error;
pub use ground::{Ground, Plain, Span};
pub use guarded::Guarded;
pub use heap::{Heap, Usage};
pub use private::{Outside, Private};

/// What this library's own Rust code allocates is not the program's.
#[global_allocator]
static PRIVATE: Private = Private;

/// What it stands on.
#[cfg(not(test))]
static GROUND: Guarded = Guarded::new();

/// The heap of this process.
#[cfg(not(test))]
static HEAP: Heap = Heap::new(&GROUND);
