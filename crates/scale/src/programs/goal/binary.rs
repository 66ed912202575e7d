//! GOAL in a fifth of the bytes.
//!
//! **Problem.** A trace as text is gigabytes long, and reading it takes longer than running it. **Idea.** Write the
//! same graph as a sequence of numbers, each in as few bytes as it needs. **Format**, version 1: the eight bytes
//! `RAMPGOAL`, then numbers, each as LEB128 (seven bits a byte, lowest first, the top bit set on all but the last
//! byte):
//!
//! ```text
//! file       := version ranks rank*
//! rank       := operations operation* edges*          edges: one for each operation
//! operation  := kind [cpu nic] size [peer tag]        kind: 0 send, 1 recv, 2 calc; +4: cpu and nic follow
//! edges      := starts (2 × distance + sign)*  ends (2 × distance + sign)*
//! ```
//!
//! `size` is bytes, or picoseconds of a calc. `peer` and `tag` are plus one; 0 is any. An edge is the distance from an
//! operation to the one that waits for it; its lowest bit is set if the waiting one comes earlier.

use std::io::{BufRead, Read as _};

use rampart_memory::Bytes;

use super::graph::{After, Builder, RankGraph};
use super::{GoalBuilder, GoalGraph, unread};
use crate::encoding::leb128::{Leb128Reader, MOST_BYTES, NoLeb128, put};
use crate::error::Error;
use crate::model::operation::{ANY, OpId, Operation, OperationKind, Rank, Tag};
use crate::programs::schedule::Schedule as _;
use crate::time::Time;

/// The first bytes of such a file.
pub(super) const MAGIC: &[u8; 8] = b"RAMPGOAL";
const VERSION: u64 = 1;
const ELSEWHERE: u64 = 4;

/// Writes a schedule.
#[must_use]
pub fn write(goal: &GoalGraph) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    put(&mut out, VERSION);
    put(&mut out, goal.ranks().into());
    for graph in goal.graphs() {
        write_rank(&mut out, &graph);
    }
    out
}

fn write_rank(out: &mut Vec<u8>, graph: &RankGraph) {
    put(out, graph.operations().len() as u64);
    for operation in graph.operations() {
        let elsewhere = operation.cpu > 0 || operation.nic > 0;
        put(out, operation.kind as u64 + if elsewhere { ELSEWHERE } else { 0 });
        if elsewhere {
            put(out, operation.cpu.into());
            put(out, operation.nic.into());
        }
        put(out, operation.size);
        if operation.kind != OperationKind::Calc {
            put(out, operation.peer.wrapping_add(1).into());
            put(out, operation.tag.wrapping_add(1).into());
        }
    }
    for operation in graph.operations() {
        for waiting in [graph.after_start(operation.id), graph.after_end(operation.id)] {
            put(out, waiting.len() as u64);
            for &other in waiting {
                put(out, 2 * u64::from(other.abs_diff(operation.id.0)) + u64::from(other < operation.id.0));
            }
        }
    }
}

/// Reads the output of [`write()`].
///
/// # Errors
/// If the bytes are something else, were cut off, or hold a schedule that cannot run.
pub fn read(bytes: &[u8]) -> Result<GoalGraph, Error> {
    read_from(bytes)
}

/// Reads the output of [`write()`], rank by rank.
///
/// # Errors
/// Those of [`read`], and if the source cannot be read.
pub fn read_from(mut source: impl BufRead) -> Result<GoalGraph, Error> {
    let mut start = Vec::new();
    (&mut source).take(MAGIC.len() as u64).read_to_end(&mut start).map_err(|error| unread(&error))?;
    if start != MAGIC {
        return Err(Error::Damaged { at: 0 });
    }
    let mut reader = Reader { source, at: MAGIC.len() };
    let found = reader.number()?;
    if found != VERSION {
        return Err(Error::OtherFormat { found, known: VERSION });
    }
    let ranks: u32 = reader.small()?;
    let mut builder = GoalBuilder::new(ranks)?;
    for rank in (0..ranks).map(Rank) {
        builder.add(rank, &reader.rank(rank)?)?;
    }
    if reader.bytes()?.is_empty() { builder.finish() } else { Err(reader.damaged()) }
}

struct Reader<R> {
    source: R,
    /// The offset of the next number.
    at: usize,
}

impl<R: BufRead> Reader<R> {
    fn damaged(&self) -> Error {
        Error::Damaged { at: self.at }
    }

    /// Bytes that were not yet taken; none at the end.
    fn bytes(&mut self) -> Result<&[u8], Error> {
        self.source.fill_buf().map_err(|error| unread(&error))
    }

    #[inline]
    fn number(&mut self) -> Result<u64, Error> {
        let at = self.at;
        let mut reader = Leb128Reader::new(self.bytes()?, at);
        match reader.number() {
            Ok(number) => {
                let taken = reader.at() - at;
                self.source.consume(taken);
                self.at += taken;
                Ok(number)
            }
            Err(NoLeb128::Ended) => self.number_in_parts(),
            Err(NoLeb128::TooLarge) => Err(self.damaged()),
        }
    }

    /// A number of which the source has only a part at hand.
    #[cold]
    fn number_in_parts(&mut self) -> Result<u64, Error> {
        let mut bytes = Vec::new();
        while let Some(&byte) = self.bytes()?.first() {
            self.source.consume(1);
            bytes.push(byte);
            if byte < 128 || bytes.len() == MOST_BYTES {
                break;
            }
        }
        let number = Leb128Reader::new(&bytes, 0).number().map_err(|_| self.damaged())?;
        self.at += bytes.len();
        Ok(number)
    }

    fn small<T: TryFrom<u64>>(&mut self) -> Result<T, Error> {
        let before = self.at;
        let number = self.number()?;
        T::try_from(number).map_err(|_| Error::Damaged { at: before })
    }

    fn rank(&mut self, rank: Rank) -> Result<RankGraph, Error> {
        let mut builder = Builder::default();
        let operations: u32 = self.small()?;
        for _ in 0..operations {
            builder.add(self.operation()?);
        }
        for number in 0..operations {
            for after in [After::Start, After::End] {
                let edges: u32 = self.small()?;
                for _ in 0..edges {
                    let waiting = self.other(number, operations)?;
                    builder.wait(waiting, after, OpId(number));
                }
            }
        }
        builder.finish(rank)
    }

    fn operation(&mut self) -> Result<Operation, Error> {
        let kind = self.number()?;
        // The counts of CPUs and NICs are bytes, so their numbers end at 254.
        let (cpu, nic): (u8, u8) = if kind & ELSEWHERE == 0 { (0, 0) } else { (self.small()?, self.small()?) };
        if cpu == u8::MAX || nic == u8::MAX {
            return Err(self.damaged());
        }
        let size = self.number()?;
        let bytes = Bytes::new(size);
        let operation = match kind & !ELSEWHERE {
            0 => {
                let (to, tag) = self.peer_and_tag()?;
                let (Some(to), Some(tag)) = (to, tag) else { return Err(self.damaged()) };
                Operation::send(Rank(to), bytes, Tag(tag))
            }
            1 => {
                let (from, tag) = self.peer_and_tag()?;
                Operation::recv(from.map(Rank), bytes, tag.map(Tag))
            }
            2 => Operation::calc(Time::from_picos(size)),
            _ => return Err(self.damaged()),
        };
        Ok(operation.on(cpu, nic))
    }

    fn peer_and_tag(&mut self) -> Result<(Option<u32>, Option<u32>), Error> {
        let (peer, tag): (u32, u32) = (self.small()?, self.small()?);
        Ok((peer.checked_sub(1).filter(|peer| *peer != ANY), tag.checked_sub(1)))
    }

    fn other(&mut self, number: u32, operations: u32) -> Result<OpId, Error> {
        let coded = self.number()?;
        let distance = u32::try_from(coded / 2).map_err(|_| self.damaged())?;
        let other = if coded % 2 == 0 { number.checked_add(distance) } else { number.checked_sub(distance) };
        other.filter(|other| *other < operations).map(OpId).ok_or_else(|| self.damaged())
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::super::text::{self, tests::any_goal};
    use super::*;
    use crate::programs::goal;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_schedule_is_refused() {
        assert_eq!(read(b""), Err(Error::Damaged { at: 0 }));
        assert_eq!(read(b"num_ranks 1"), Err(Error::Damaged { at: 0 }));
        assert_eq!(read(b"RAMPGOAL\x02\x01"), Err(Error::OtherFormat { found: 2, known: 1 }));
        assert!(matches!(read(b"RAMPGOAL\x01\xff\xff\xff\xff\x0f"), Err(Error::TooManyRanks { .. })));
    }

    proptest! {
        #[test]
        fn a_schedule_comes_back_from_bytes(goal in any_goal()) {
            prop_assert_eq!(read(&write(&goal)), Ok(goal));
        }

        #[test]
        fn it_comes_back_from_a_reader_of_a_few_bytes(goal in any_goal(), capacity in 1..20_usize) {
            let (bytes, text) = (write(&goal), text::write(&goal));
            let buffered = |bytes| goal::read_from(BufReader::with_capacity(capacity, bytes));
            prop_assert_eq!(buffered(&bytes[..]), Ok(goal.clone()));
            prop_assert_eq!(buffered(text.as_bytes()), Ok(goal));
        }

        #[test]
        fn a_schedule_that_is_cut_off_is_refused(goal in any_goal(), cut in 0.0..1.0) {
            let bytes = write(&goal);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a test")]
            let kept = (bytes.len() as f64 * cut) as usize;
            let at = read(&bytes[..kept]);
            prop_assert!(matches!(at, Err(Error::Damaged { .. })), "{at:?}");
        }

        #[test]
        fn a_byte_more_or_another_byte_never_panics(goal in any_goal(), place: usize, value: u8) {
            let mut bytes = write(&goal);
            let place = place % bytes.len();
            bytes[place] = value;
            if let Ok(read) = read(&bytes) {
                prop_assert_eq!(text::read(&text::write(&read)), Ok(read));
            }
        }
    }
}
