//! The errors of reading and replaying traces.

use std::io;

use rampart_memory::Bytes;

/// Why a trace cannot be read or replayed.
#[derive(Debug, displaydoc::Display, thiserror::Error)]
pub enum Error {
    /// the trace cannot be read: {0}
    Read(#[source] io::Error),
    /// the trace ends within an event: its length is no multiple of 16 bytes
    CutOff,
    /// event {0} of the trace is malformed: {1}
    Event(u64, &'static str),
    /// the trace has no event
    NoEvent,
    /// {0}
    Machine(#[source] rampart_buddy::Error),
    /// a trace begins with {0} in use, and the simulated machine has {1}: give it more memory
    WarmStart(Bytes, Bytes),
    /// a machine is made up of whole banks, and of one at least: give a multiple of the bank's size as its memory
    Banks,
    /// a node of the machine has {0} banks, which is no multiple of {1} interleaved ones: give another number
    Interleaved(u64, u32),
    /// this allocator knows no interleaved banks: choose buddy, adaptive or fullest
    NoSets,
}
