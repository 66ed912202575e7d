//! Everything that can be wrong with a schedule or a run of it, and what to do about it.

use crate::time::Time;

/// Why a schedule is refused, or a run has no result.
#[derive(Clone, Debug, PartialEq, displaydoc::Display, thiserror::Error)]
pub enum Error {
    /// line {line}: {expected} was expected and {found} found: mend the line
    Syntax {
        /// Counted from 1.
        line: usize,
        /// The expected text.
        expected: &'static str,
        /// The text found.
        found: String,
    },
    /// line {line}: label {label:?} is defined twice in its rank: rename one
    DefinedTwice {
        /// Counted from 1.
        line: usize,
        /// The label.
        label: String,
    },
    /// line {line}: no operation of its rank is labelled {label:?}: label one
    Undefined {
        /// Counted from 1.
        line: usize,
        /// The label.
        label: String,
    },
    /// rank {rank} has two schedules: keep one
    RankTwice {
        /// Whose.
        rank: u32,
    },
    /// rank {rank} has no schedule: write one, if only an empty one
    RankMissing {
        /// The rank.
        rank: u32,
    },
    /// rank {rank} is named and there are {ranks}: name one below that, or raise num_ranks
    NoSuchRank {
        /// The rank that was named.
        rank: u32,
        /// The number of ranks.
        ranks: u32,
    },
    /// operation {operation} of rank {rank} waits for itself: break the circle of its dependencies
    Circle {
        /// Whose.
        rank: u32,
        /// An operation of the circle, counted from 0.
        operation: u32,
    },
    /// a schedule of {ranks} ranks is too large: at most 16,777,216 can be simulated
    TooManyRanks {
        /// The number asked for.
        ranks: u32,
    },
    /// rank {rank} has too many operations or dependencies: at most 2^30 of each can be simulated
    TooLarge {
        /// Whose.
        rank: u32,
    },
    /// this is no schedule of Rampart, or one that was cut off at byte {at}: write it again
    Damaged {
        /// The offset where reading ended.
        at: usize,
    },
    /// the file has format {found}, this Rampart reads {known}: use the Rampart that wrote it, or write it again
    OtherFormat {
        /// The file's format.
        found: u64,
        /// The known format.
        known: u64,
    },
    /// it is neither text nor a schedule of Rampart
    NotGoal,
    /// it cannot be read: {why}
    Unread {
        /// What the system said.
        why: String,
    },
    /// this is no trace of a program, or one that is damaged at byte {at}: trace the program again
    NoTrace {
        /// The offset where reading ended.
        at: usize,
    },
    /// rank {rank} begins request {request} before it waited for it, or its number is 2^32 - 1: give it another
    RequestTwice {
        /// Whose.
        rank: u32,
        /// Which.
        request: u32,
    },
    /// rank {rank} is not in the same collectives as rank 0: trace a whole run of the program
    Apart {
        /// The rank that differs.
        rank: u32,
    },
    /// a message from rank {from} to rank {to} crosses the end of part {part}, a collective of all ranks: cut elsewhere
    Crossing {
        /// The sender.
        from: u32,
        /// The receiver.
        to: u32,
        /// The part of the trace, counted from 0.
        part: usize,
    },
    /// part {part} of the trace cannot be repeated alone: it has a collective of some ranks only, or a receive without
    /// a wait
    NotRepeated {
        /// The part, counted from 0.
        part: usize,
    },
    /// rank {rank} waits for ever for a message from {from} with {tag}: nobody sends it
    NeverSent {
        /// The rank that waits.
        rank: u32,
        /// A rank, or anyone.
        from: String,
        /// A tag, or any.
        tag: String,
    },
    /// rank {rank} never receives the message of rank {from} with tag {tag}: add the receive
    NeverReceived {
        /// The receiver.
        rank: u32,
        /// The sender.
        from: u32,
        /// The message's tag.
        tag: u32,
    },
    /// errors that take {each} each, one every {apart}, leave no time for a program: let them be dropped, or make them
    /// rarer
    NoTimeLeft {
        /// The mean time of one error.
        each: Time,
        /// The mean time between errors.
        apart: Time,
    },
    /// errors must be at least 1 µs apart, in bursts of at least one, and each must have a cost: name such
    NoSuchErrors,
    /// there is no system {name:?}: name one of {known}
    NoSuchSystem {
        /// The name given.
        name: String,
        /// The known names.
        known: String,
    },
    /// there is no workload {name:?}: name one of {known}
    NoSuchWorkload {
        /// The name given.
        name: String,
        /// The known names.
        known: String,
    },
    /// there is no network {name:?}: name one of {known}
    NoSuchNetwork {
        /// The name given.
        name: String,
        /// The known names.
        known: String,
    },
    /// one error every {apart} on each node is more than can be simulated: make them rarer, or take fewer nodes
    TooManyErrors {
        /// The mean time between errors.
        apart: Time,
    },
    /// figure {number} is none that can be repeated: name one of 3 to 7, or 3.1
    NoSuchFigure {
        /// The number given.
        number: u8,
    },
    /// a job needs at least one node; work, checkpoints and a mean time between failures above 0; and a share of
    /// communication from 0 to 1: name such
    NoSuchJob,
    /// no detour was recorded: lower the threshold, or record for longer
    NoDetours,
    /// the recorded detours come every {seconds:.0} s on average: at most 18,446,744 s can be simulated
    RareDetours {
        /// The mean time between detours.
        seconds: f64,
    },
    /// the recorded detours took {share:.1} times as long as they were watched for: record with `rampart noise --csv`
    DetoursWithoutPause {
        /// Their sum, as a share of the time that was watched; above 1.
        share: f64,
    },
    /// stopped before it was done
    Stopped,
    /// the program takes more than 213 days: simulate a shorter part of it
    TooLong,
}
