//! The page guard: every page of a program is verified before the program, or the kernel for it, sees a byte of it.
//!
//! **Problem.** Memory changes what it holds, and a program that reads it computes on. **Idea.** A page that was not used
//! of late is *locked*: it is not mapped where the program looks for it, and its codes are stored elsewhere. The first access
//! faults; the page is verified, corrected if need be, and *unlocked*; some time later it is locked again, and its codes are
//! made anew if it was written [Fiala15, 4.3]. **Why this way.** What is verified is what is about to be
//! used, no more; and what changes while nobody looks is found, however long that was.
//!
//! | module | owns |
//! |---|---|
//! | [`layout`] | pages and blocks of the guarded range, by number |
//! | [`knobs`], [`protect`] | what a user may set, and which memory is guarded |
//! | [`openings`] | which blocks are unlocked, since when, and which of them are to be locked next |
//! | [`cap`] | how much may be unlocked, by what locking costs |
//! | [`ahead`], [`rounds`] | what the program will want next, by what it wanted before |
//! | [`wanted`] | what waits to be done ahead of it |
//! | [`units`] | some of the units of a block |
//! | [`table`] | what is known of each block |
//! | [`engine`] | what a guard asks of the machine |
//! | [`guard`] | the state machine over these |
//! | [`witness`] | who is told what it sees |
//! | [`frames`] | what a user may set about the frames below |
//! | `backoff` | how long to wait before what was refused is tried again |
//! | [`bad_frames`] | which frames the program is not to get |
//! | [`stock`] | how much tested memory is kept ready |
//! | [`probation`] | when a frame on which a page was wrong is tested again |
//! | [`counts`] | what was done |
//! | [`server`] | how a guard knows that somebody reads what it tells |
//! | [`samples`], [`accesses`] | when it was done, and to what |
//! | [`journal`] | the files in which these two are |
//!
//! What is decided here is decided by what was seen and by `now`; clock, faults and memory are handed in. So the same guard
//! runs over made-up memory in a test and under a real program.
//!
//! Libraries: `displaydoc` and `thiserror` (an error's doc comment is its message), `serde` (what is told).

#![forbid(unsafe_code)]

pub mod accesses;
pub mod ahead;
mod backoff;
pub mod bad_frames;
pub mod cap;
pub mod counts;
pub mod engine;
pub mod frames;
pub mod guard;
pub mod journal;
pub mod knobs;
pub mod layout;
#[cfg(test)]
mod made_up;
pub mod openings;
pub mod probation;
pub mod protect;
pub mod rounds;
pub mod samples;
pub mod server;
pub mod stock;
pub mod table;
pub mod units;
pub mod wanted;
pub mod witness;

pub use bad_frames::BadFrames;
pub use counts::{Counter, Counts, Snapshot};
pub use engine::{Engine, Frames, Refusal, Writes};
pub use frames::{FrameKnobs, Untested};
pub use guard::renewal::{Renewal, Round};
pub use guard::{Guard, Served};
pub use knobs::{Knobs, Method, OnError};
pub use layout::{BlockIndex, Layout, PageIndex, PageSet, Span};
pub use probation::Probation;
pub use protect::{Protect, ProtectError};
pub use stock::Stock;
pub use units::Units;
pub use witness::{Trouble, Witness};
