//! How the memory module reports failed writes, and keeps their data meanwhile [Gao13, 3.1.1].
//!
//! **Problem.** A write fails long after the instruction that caused it, when a cache evicts the line. Its data must
//! not be lost, and must be readable until software has adapted, however many writes fail meanwhile. **Idea.** The
//! module keeps address and data of failed writes in a small queue, which answers reads, and interrupts the processor.
//! It accepts a write only while the queue has room for all writes under way: each of them can fail. **Why this way.**
//! Software clears an entry once nobody can access the line any more; [`RevokedLine`] makes it say that it has revoked
//! access.

use std::collections::VecDeque;

use rampart_memory::{Frame, LINES_PER_FRAME, LineData};

/// A line of memory, by its physical address divided by 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemoryLine(pub u64);

impl MemoryLine {
    /// The frame that it lies in.
    ///
    /// # Panics
    /// If it lies above 2^52, where no memory is.
    #[must_use]
    pub const fn frame(self) -> Frame {
        Frame::new(self.0 / LINES_PER_FRAME).expect("a physical address has at most 52 bits")
    }
}

/// A line that software cannot access any more, as its page has no permissions.
#[derive(Debug, PartialEq, Eq)]
pub struct RevokedLine(MemoryLine);

/// A write that failed, and has its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FailedWrite {
    /// Where.
    pub line: MemoryLine,
    /// What was to be written.
    pub data: LineData,
}

/// How the array ended a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WriteEnd {
    /// What was read afterwards is what was written.
    Written,
    /// It is not, and the error correction of the line is exhausted.
    Failed,
}

/// What the module asks of the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Interrupt {
    /// A write has failed.
    Failure,
    /// A write has failed, and no further write is accepted until an entry was cleared.
    FailureAndStall,
}

/// Why the module does not do what it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, displaydoc::Display, thiserror::Error)]
pub enum BufferRefusal {
    /// no write is accepted until one ends or an entry is cleared
    Stalled,
    /// the buffer has no entry of this line
    NoEntry,
    /// a write to this line is under way: its data may come yet
    WriteUnderWay,
}

/// The queue of failed writes, the oldest first, and the lines of the writes under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FailureBuffer {
    entries: VecDeque<FailedWrite>,
    capacity: usize,
    under_way: Vec<MemoryLine>,
}

impl RevokedLine {
    /// A line of a page from which the operating system has just taken the permissions.
    #[must_use]
    pub const fn after_revocation(line: MemoryLine) -> Self {
        Self(line)
    }
}

impl FailureBuffer {
    /// An empty buffer of `capacity` entries, at least one.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        assert!(capacity > 0, "a module without a buffer could not accept any write");
        Self { entries: VecDeque::with_capacity(capacity), capacity, under_way: Vec::with_capacity(capacity) }
    }

    /// The failed writes, the oldest first.
    pub fn pending(&self) -> impl Iterator<Item = FailedWrite> {
        self.entries.iter().copied()
    }

    /// Whether a write to a line of a frame is under way: what the frame holds is not known yet.
    #[must_use]
    pub fn is_draining(&self, frame: Frame) -> bool {
        self.under_way.iter().any(|line| line.frame() == frame)
    }

    /// Accepts a write to a line.
    ///
    /// # Errors
    /// If all writes under way and one more could not fail without loss.
    pub fn begin_write(&mut self, line: MemoryLine) -> Result<(), BufferRefusal> {
        if self.is_stalled() {
            return Err(BufferRefusal::Stalled);
        }
        self.under_way.push(line);
        Ok(())
    }

    /// Ends one of the writes that were accepted. A line with an entry keeps its data there, whatever the array says:
    /// the entry's data is what reads get. The later write replaces the earlier.
    ///
    /// # Panics
    /// If no write to its line is under way.
    pub fn end_write(&mut self, write: FailedWrite, end: WriteEnd) -> Option<Interrupt> {
        let accepted = self.under_way.iter().position(|line| *line == write.line);
        self.under_way.swap_remove(accepted.expect("a write was accepted before it ends"));
        let before = self.entries.len();
        self.entries.retain(|entry| entry.line != write.line);
        if end == WriteEnd::Written && self.entries.len() == before {
            return None;
        }
        self.entries.push_back(write);
        Some(if self.is_stalled() { Interrupt::FailureAndStall } else { Interrupt::Failure })
    }

    /// The data of a line that has an entry: reads get it instead of what the array has.
    #[must_use]
    pub fn read(&self, line: MemoryLine) -> Option<LineData> {
        self.entries.iter().find(|entry| entry.line == line).map(|entry| entry.data)
    }

    /// Clears the entry of a line that nobody can access any more, and returns it.
    ///
    /// # Errors
    /// If there is none, or a write to the line is still under way, which could bring other data.
    #[expect(clippy::needless_pass_by_value, reason = "the proof is used up")]
    pub fn clear(&mut self, revoked: RevokedLine) -> Result<FailedWrite, BufferRefusal> {
        let RevokedLine(line) = revoked;
        if self.under_way.contains(&line) {
            return Err(BufferRefusal::WriteUnderWay);
        }
        let at = self.entries.iter().position(|entry| entry.line == line).ok_or(BufferRefusal::NoEntry)?;
        self.entries.remove(at).ok_or(BufferRefusal::NoEntry)
    }

    fn is_stalled(&self) -> bool {
        self.entries.len() + self.under_way.len() >= self.capacity
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wear::search::reachable;

    fn write(line: u64, value: u64) -> FailedWrite {
        FailedWrite { line: MemoryLine(line), data: LineData([value; 8]) }
    }

    #[test]
    fn failed_writes_queue_up_and_the_last_one_to_a_line_wins() {
        let mut buffer = FailureBuffer::new(4);
        for failed in [write(1, 10), write(2, 20), write(1, 11)] {
            buffer.begin_write(failed.line).unwrap();
            assert_eq!(buffer.end_write(failed, WriteEnd::Failed), Some(Interrupt::Failure));
        }
        assert_eq!(buffer.pending().collect::<Vec<_>>(), [write(2, 20), write(1, 11)]);
        assert_eq!(buffer.read(MemoryLine(1)), Some(write(1, 11).data));
        assert_eq!(buffer.read(MemoryLine(3)), None);
        assert_eq!(buffer.clear(RevokedLine::after_revocation(MemoryLine(1))), Ok(write(1, 11)));
        assert_eq!(buffer.clear(RevokedLine::after_revocation(MemoryLine(1))), Err(BufferRefusal::NoEntry));
    }

    #[test]
    fn a_write_that_could_not_fail_without_loss_is_not_accepted() {
        let (mut buffer, line) = (FailureBuffer::new(2), MemoryLine);
        buffer.begin_write(line(1)).unwrap();
        buffer.begin_write(line(2)).unwrap();
        assert_eq!(buffer.begin_write(line(3)), Err(BufferRefusal::Stalled));
        assert_eq!(buffer.end_write(write(1, 1), WriteEnd::Written), None);
        assert_eq!(buffer.end_write(write(2, 1), WriteEnd::Failed), Some(Interrupt::Failure));
        buffer.begin_write(line(3)).unwrap();
        assert_eq!(buffer.end_write(write(3, 1), WriteEnd::Failed), Some(Interrupt::FailureAndStall));
        assert_eq!(buffer.begin_write(line(2)), Err(BufferRefusal::Stalled));
        buffer.clear(RevokedLine::after_revocation(line(2))).unwrap();
        buffer.begin_write(line(3)).unwrap();
        let early = buffer.clear(RevokedLine::after_revocation(line(3)));
        assert_eq!(early, Err(BufferRefusal::WriteUnderWay));
    }

    /// A module with its array, and the software above it.
    #[derive(Clone, PartialEq, Eq, Hash)]
    struct World {
        buffer: FailureBuffer,
        under_way: Vec<FailedWrite>,
        /// What the array holds; 0 after a failed write.
        array: [u64; LINES],
        /// The last write to each line that has ended.
        written: [u64; LINES],
        /// Lines without permissions.
        revoked: [bool; LINES],
        /// What software was last given of each line.
        handed_over: [Option<u64>; LINES],
    }

    const LINES: usize = 2;

    fn number(line: MemoryLine) -> usize {
        usize::try_from(line.0).unwrap()
    }

    impl World {
        fn new(capacity: usize) -> Self {
            let buffer = FailureBuffer::new(capacity);
            let (array, written, revoked) = ([0; LINES], [0; LINES], [false; LINES]);
            Self { buffer, under_way: Vec::new(), array, written, revoked, handed_over: [None; LINES] }
        }

        /// All worlds that are one step away.
        fn successors(&self) -> Vec<Self> {
            let mut next = Vec::new();
            for line in 0..LINES {
                for value in 1..=2 {
                    let mut world = self.clone();
                    if !world.revoked[line] && world.buffer.begin_write(MemoryLine(line as u64)).is_ok() {
                        world.under_way.push(write(line as u64, value));
                        next.push(world);
                    }
                }
            }
            // Writes end in their order for each line, and in any order for different lines.
            for (at, ending) in self.under_way.iter().enumerate() {
                if self.under_way[..at].iter().any(|earlier| earlier.line == ending.line) {
                    continue;
                }
                for end in [WriteEnd::Written, WriteEnd::Failed] {
                    next.push(self.after_end(at, *ending, end));
                }
            }
            for line in 0..LINES {
                let mut world = self.clone();
                let has_entry = world.buffer.read(MemoryLine(line as u64)).is_some();
                if has_entry && !world.revoked[line] {
                    world.revoked[line] = true;
                    next.push(world);
                } else if has_entry {
                    let proof = RevokedLine::after_revocation(MemoryLine(line as u64));
                    if let Ok(entry) = world.buffer.clear(proof) {
                        world.handed_over[line] = Some(entry.data.0[0]);
                        next.push(world);
                    }
                }
            }
            next
        }

        fn after_end(&self, at: usize, ending: FailedWrite, end: WriteEnd) -> Self {
            let mut world = self.clone();
            world.under_way.remove(at);
            let (line, value) = (number(ending.line), ending.data.0[0]);
            world.array[line] = if end == WriteEnd::Written { value } else { 0 };
            world.written[line] = value;
            world.buffer.end_write(ending, end);
            world
        }

        fn check(&self) {
            assert!(self.buffer.entries.len() + self.under_way.len() <= self.buffer.capacity, "an entry would be lost");
            for line in 0..LINES {
                let forwarded = self.buffer.read(MemoryLine(line as u64)).map(|data| data.0[0]);
                // The last write that ended is what reads get, or, once the entry was cleared, what software was given.
                let seen = forwarded.or(self.handed_over[line]).unwrap_or(self.array[line]);
                assert_eq!(seen, self.written[line], "line {line}");
            }
            let is_stuck = self.buffer.clone().begin_write(MemoryLine(0)).is_err() && self.successors().is_empty();
            assert!(!is_stuck, "nothing can go on");
        }
    }

    #[test]
    fn no_order_of_writes_failures_and_clearing_loses_data_or_stops_for_good() {
        for capacity in 1..=3 {
            let seen = reachable(World::new(capacity), World::successors, World::check);
            assert!(seen.len() > 100, "{} worlds", seen.len());
        }
    }
}
