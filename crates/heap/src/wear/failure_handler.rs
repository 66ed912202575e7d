//! What an operating system does about failed writes [Gao13, 3.2.2].
//!
//! **Problem.** The memory module keeps the data of failed writes in a buffer ([`FailureBuffer`]), and stops when it
//! has no room for more. Some processes know what to do about a failed line, and others must never notice. **Idea.**
//! For each frame with a failed write: take away all access to its page. If writes to it are still under way, come
//! again when they have ended. Else read its entries of the buffer, clear them, and act on what was read: copy the
//! page to a perfect frame, or tell the process by an up-call. **Why this way.** That order loses nothing, whatever
//! the program and the module do before and after; a search through all orders of events shows it.
//!
//! Stock Linux knows no failed lines, only frames that have failed as a whole: this is the reference for hardware and
//! kernels that know them.

use rampart_memory::Frame;

use super::{FailedWrite, FailureBuffer, RevokedLine};

/// What a process expects of the memory at a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PageExpectation {
    /// No failures: the process does not know of them, or has asked for perfect memory.
    Perfect,
    /// Some lines may fail: the process leaves them out, and learns of new ones.
    Imperfect,
}

/// What has been done about the failed writes of a frame, the oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailureAnswer {
    /// The page is to be copied to a perfect frame: these lines from here, the others from the old frame.
    Copy(Frame, Vec<FailedWrite>),
    /// The process must learn of these lines, and never access them again.
    UpCall(Frame, Vec<FailedWrite>),
}

/// The page tables of all processes.
pub trait PageTables {
    /// What the process that owns a frame expects.
    fn kind(&self, frame: Frame) -> PageExpectation;

    /// Takes away all access to the page on a frame.
    fn revoke(&mut self, frame: Frame);
}

/// Answers an interrupt of the memory module. While writes to a frame are under way, its entries stay, and nobody has
/// access to its page: the caller comes again when they have ended. The caller gives access back once it has acted on
/// the answer.
pub fn answer_failures(buffer: &mut FailureBuffer, tables: &mut impl PageTables) -> Vec<FailureAnswer> {
    let mut frames: Vec<Frame> = Vec::new();
    for failed in buffer.pending() {
        if !frames.contains(&failed.line.frame()) {
            frames.push(failed.line.frame());
        }
    }
    let mut answers = Vec::new();
    for frame in frames {
        tables.revoke(frame);
        if buffer.is_draining(frame) {
            continue;
        }
        let pending: Vec<FailedWrite> = buffer.pending().filter(|failed| failed.line.frame() == frame).collect();
        for failed in &pending {
            let cleared = buffer.clear(RevokedLine::after_revocation(failed.line));
            assert_eq!(cleared, Ok(*failed), "nothing writes to a frame without permissions");
        }
        answers.push(match tables.kind(frame) {
            PageExpectation::Perfect => FailureAnswer::Copy(frame, pending),
            PageExpectation::Imperfect => FailureAnswer::UpCall(frame, pending),
        });
    }
    answers
}

#[cfg(test)]
mod tests {
    use rampart_memory::{LINES_PER_FRAME, LineData};

    use super::*;
    use crate::wear::search::reachable;
    use crate::wear::{MemoryLine, WriteEnd};

    /// Two lines of a process that does not know of failures, and one of a process that does.
    const LINES: [MemoryLine; 3] = [MemoryLine(0), MemoryLine(1), MemoryLine(LINES_PER_FRAME)];

    const UNAWARE: Frame = LINES[0].frame();
    const AWARE: Frame = LINES[2].frame();

    /// A machine with the two processes.
    #[derive(Clone, PartialEq, Eq, Hash)]
    struct Machine {
        buffer: FailureBuffer,
        under_way: Vec<FailedWrite>,
        /// What the array holds; 0 after a failed write.
        array: [u64; 3],
        /// The last write to each line.
        written: [u64; 3],
        /// Whether the pages have no permissions.
        revoked: Revoked,
        /// The page of the process that does not know of failures, once it was copied.
        copy: Option<[u64; 2]>,
        /// The data that the other process got by an up-call: it no longer accesses the line.
        told: Option<u64>,
    }

    #[derive(Clone, Default, PartialEq, Eq, Hash)]
    struct Revoked {
        unaware: bool,
        aware: bool,
    }

    impl PageTables for Revoked {
        fn kind(&self, frame: Frame) -> PageExpectation {
            if frame == UNAWARE { PageExpectation::Perfect } else { PageExpectation::Imperfect }
        }

        fn revoke(&mut self, frame: Frame) {
            *(if frame == UNAWARE { &mut self.unaware } else { &mut self.aware }) = true;
        }
    }

    impl Machine {
        fn new(capacity: usize) -> Self {
            Self {
                buffer: FailureBuffer::new(capacity),
                under_way: Vec::new(),
                array: [0; 3],
                written: [0; 3],
                revoked: Revoked::default(),
                copy: None,
                told: None,
            }
        }

        /// What the program reads.
        fn read(&self, line: usize) -> u64 {
            let of_process = if line < 2 { self.copy.map(|copy| copy[line]) } else { self.told };
            let forwarded = || self.buffer.read(LINES[line]).map(|data| data.0[0]);
            let under_way =
                || self.under_way.iter().rfind(|write| write.line == LINES[line]).map(|write| write.data.0[0]);
            of_process.or_else(under_way).or_else(forwarded).unwrap_or(self.array[line])
        }

        /// All machines that are one step away.
        fn successors(&self) -> Vec<Self> {
            let writes = (0..3).flat_map(|line| [1, 2].map(|value| self.after_write(line, value)));
            let ends = (0..self.under_way.len()).flat_map(|at| {
                [WriteEnd::Written, WriteEnd::Failed].map(|end| self.may_end(at).then(|| self.after_end(at, end)))
            });
            let mut answered = self.clone();
            answered.answer();
            writes.chain(ends).flatten().chain([answered]).collect()
        }

        fn after_write(&self, line: usize, value: u64) -> Option<Self> {
            let mut next = self.clone();
            if let Some(copy) = next.copy.as_mut().filter(|_| line < 2) {
                copy[line] = value;
            } else {
                let has_permission = if line < 2 { !self.revoked.unaware } else { !self.revoked.aware };
                if !has_permission
                    || (line == 2 && self.told.is_some())
                    || next.buffer.begin_write(LINES[line]).is_err()
                {
                    return None;
                }
                next.under_way.push(FailedWrite { line: LINES[line], data: LineData([value; 8]) });
            }
            next.written[line] = value;
            Some(next)
        }

        /// Writes to a line end in their order.
        fn may_end(&self, at: usize) -> bool {
            self.under_way[..at].iter().all(|earlier| earlier.line != self.under_way[at].line)
        }

        fn after_end(&self, at: usize, end: WriteEnd) -> Self {
            let mut next = self.clone();
            let write = next.under_way.remove(at);
            let line = LINES.iter().position(|line| *line == write.line).unwrap();
            next.array[line] = if end == WriteEnd::Written { write.data.0[0] } else { 0 };
            next.buffer.end_write(write, end);
            next
        }

        /// The operating system answers, and so does the process.
        fn answer(&mut self) {
            for answer in answer_failures(&mut self.buffer, &mut self.revoked) {
                match answer {
                    FailureAnswer::Copy(frame, failed) => {
                        assert_eq!(frame, UNAWARE);
                        let of = |line| failed.iter().find(|failed| failed.line == LINES[line]);
                        self.copy =
                            Some([0, 1].map(|line| of(line).map_or(self.array[line], |failed| failed.data.0[0])));
                        self.revoked.unaware = false;
                    }
                    FailureAnswer::UpCall(frame, failed) => {
                        assert_eq!((frame, failed.len()), (AWARE, 1));
                        self.told = Some(failed[0].data.0[0]);
                        self.revoked.aware = false;
                    }
                }
            }
        }

        /// Nothing is lost now, and nothing is left to do once the writes under way have failed, too.
        fn check(&self) {
            for line in 0..3 {
                assert_eq!(self.read(line), self.written[line], "line {line}");
            }
            let mut last = self.clone();
            while !last.under_way.is_empty() {
                last = last.after_end(0, WriteEnd::Failed);
            }
            last.answer();
            assert!(last.buffer.pending().next().is_none() && last.revoked == Revoked::default(), "all is answered");
            assert!(last.buffer.begin_write(LINES[0]).is_ok(), "the module goes on");
        }
    }

    #[test]
    fn a_process_that_knows_nothing_of_failures_never_notices_one_and_another_is_told_all_in_any_order_of_events() {
        for capacity in 1..=3 {
            let seen = reachable(Machine::new(capacity), Machine::successors, Machine::check);
            let ended = seen.iter().filter(|machine| machine.copy.is_some() && machine.told.is_some()).count();
            assert!(ended > 0 && seen.len() > 100, "{ended} of {} machines", seen.len());
        }
    }

    #[test]
    fn frames_are_answered_in_the_order_of_their_first_failure_and_wait_for_writes_under_way() {
        let mut buffer = FailureBuffer::new(4);
        let write = |line, value| FailedWrite { line, data: LineData([value; 8]) };
        for failed in [write(LINES[2], 1), write(LINES[0], 2)] {
            buffer.begin_write(failed.line).unwrap();
            buffer.end_write(failed, WriteEnd::Failed);
        }
        buffer.begin_write(LINES[1]).unwrap();
        let mut revoked = Revoked::default();
        let first = answer_failures(&mut buffer, &mut revoked);
        assert_eq!(first, [FailureAnswer::UpCall(AWARE, vec![write(LINES[2], 1)])]);
        assert!(revoked.unaware && buffer.read(LINES[0]).is_some(), "a write to its frame is under way");
        buffer.end_write(write(LINES[1], 3), WriteEnd::Failed);
        let second = answer_failures(&mut buffer, &mut revoked);
        assert_eq!(second, [FailureAnswer::Copy(UNAWARE, vec![write(LINES[0], 2), write(LINES[1], 3)])]);
    }
}
