//! What can be wrong with a schedule or a run of it, each said once, with what to do.

use crate::time::Time;

/// Why a schedule is refused, or a run has no result.
#[derive(Clone, Debug, PartialEq, displaydoc::Display, thiserror::Error)]
pub enum Error {
    /// line {line}: {expected} was expected and {found} found: mend the line
    Syntax {
        /// 1 first.
        line: usize,
        /// What would have been right.
        expected: &'static str,
        /// What is there.
        found: String,
    },
    /// line {line}: label {label:?} is defined twice in its rank: rename one
    DefinedTwice {
        /// 1 first.
        line: usize,
        /// The label.
        label: String,
    },
    /// line {line}: no operation of its rank is labelled {label:?}: label one
    Undefined {
        /// 1 first.
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
        /// Whose is missing.
        rank: u32,
    },
    /// rank {rank} is named and there are {ranks}: name one below that, or raise num_ranks
    NoSuchRank {
        /// Which was named.
        rank: u32,
        /// How many there are.
        ranks: u32,
    },
    /// operation {operation} of rank {rank} waits for itself: break the circle of its dependencies
    Circle {
        /// Whose.
        rank: u32,
        /// One of the circle, 0 first.
        operation: u32,
    },
    /// a schedule of {ranks} ranks is too large: at most 16,777,216 can be simulated
    TooManyRanks {
        /// How many were asked for.
        ranks: u32,
    },
    /// rank {rank} has too many operations or dependencies: at most 2^30 of each can be simulated
    TooLarge {
        /// Whose.
        rank: u32,
    },
    /// this is no schedule of Rampart, or one that was cut off at byte {at}: write it again
    Damaged {
        /// Where reading ended.
        at: usize,
    },
    /// the file has format {found}, this Rampart reads {known}: use the Rampart that wrote it, or write it again
    OtherFormat {
        /// What the file says.
        found: u64,
        /// What is known here.
        known: u64,
    },
    /// it is neither text nor a schedule of Rampart
    NotGoal,
    /// this is no trace of a program, or one that is damaged at byte {at}: trace the program again
    NoTrace {
        /// Where reading ended.
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
        /// Whose differ.
        rank: u32,
    },
    /// rank {rank} waits for ever for a message from {from} with {tag}: nobody sends it
    NeverSent {
        /// Who waits.
        rank: u32,
        /// A rank, or anyone.
        from: String,
        /// A tag, or any.
        tag: String,
    },
    /// rank {rank} never receives the message of rank {from} with tag {tag}: add the receive
    NeverReceived {
        /// Who should.
        rank: u32,
        /// Who sent.
        from: u32,
        /// Its tag.
        tag: u32,
    },
    /// errors that take {each} each, one every {apart}, leave no time for a program: let them be dropped, or make them
    /// rarer
    NoTimeLeft {
        /// What one takes, on average.
        each: Time,
        /// How often they come, on average.
        apart: Time,
    },
    /// errors must be at least 1 µs apart, in bursts of at least one, and each must have a cost: name such
    NoSuchErrors,
    /// there is no system {name:?}: name one of {known}
    NoSuchSystem {
        /// What was named.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// there is no workload {name:?}: name one of {known}
    NoSuchWorkload {
        /// What was named.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// there is no network {name:?}: name one of {known}
    NoSuchNetwork {
        /// What was named.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// one error every {apart} on each node is more than can be simulated: make them rarer, or take fewer nodes
    TooManyErrors {
        /// How often they come.
        apart: Time,
    },
    /// figure {number} is none of the simulated ones: name one of 3 to 7
    NoSuchFigure {
        /// What was named.
        number: u8,
    },
    /// no detour was recorded: lower the threshold, or record for longer
    NoDetours,
    /// the recorded detours come every {seconds:.0} s on average: at most 18,446,744 s can be simulated
    RareDetours {
        /// How often they come.
        seconds: f64,
    },
    /// stopped before it was done
    Stopped,
    /// the program takes more than 213 days: simulate a shorter part of it
    TooLong,
}
