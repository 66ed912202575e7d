//! The graphs of all ranks, in eight bytes per operation.
//!
//! **Problem.** A graph of ten million operations, with the edges of each, takes half a gigabyte, and the engine waits
//! for nearly every word of it. **Idea.** Only how long a computation takes differs from operation to operation. What
//! an operation waits for and what waits for it (its shape), and whom it sends to or receives from (its message), are
//! the same again and again, in the steps of a rank and from rank to rank, if operations and ranks are named by their
//! distance. So each shape and each message is kept once, and an operation is the place of its shape, and its time or
//! the number of its message. **Why this way.** Both tables of a real program fit into a cache. In a program in which
//! nothing repeats, an operation takes about as much as it would without tables.

use super::coded_time;
use super::graph::RankGraph;
use super::interner::Interner;
use crate::error::Error;
use crate::model::operation::{ANY, OpId, Operation, OperationKind, Rank};

/// An operation.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Where its shape begins in the list of shapes.
    shape: u32,
    /// The code of a computation's time; for others the number of the message.
    detail: u32,
}

/// Whom a send or receive is for, and the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Message {
    size: u64,
    /// From the rank up to its peer, where rank 0 follows the highest one; or [`ANY`].
    distance: u32,
    tag: u32,
}

/// Words of a shape before its successors: kind, CPU and NIC; the number of edges to the operation; and how many wait
/// for its start, and for its end. Successors follow in this order, as distances from the operation, modulo 2^32.
const HEADER: usize = 4;

/// The graphs of all ranks.
#[derive(Clone, Debug, Default)]
pub(super) struct CompactGraphs {
    ranks: Vec<Box<[Entry]>>,
    shapes: Vec<u32>,
    messages: Vec<Message>,
    /// Picoseconds of computations whose code is a place in this list.
    times: Vec<u64>,
}

impl CompactGraphs {
    /// Words of shapes, messages, and listed times.
    #[cfg(test)]
    pub fn table_lengths(&self) -> [usize; 3] {
        [self.shapes.len(), self.messages.len(), self.times.len()]
    }

    /// The number of ranks.
    pub fn count(&self) -> u32 {
        u32::try_from(self.ranks.len()).expect("made from a number of this type")
    }

    /// The number of operations of a rank.
    pub fn operations(&self, rank: Rank) -> u32 {
        u32::try_from(self.ranks[rank.index()].len()).expect("a graph has fewer")
    }

    /// The graph of a rank, written out.
    pub fn expanded(&self, rank: Rank) -> RankGraph {
        let operation = |number| {
            let (starts, ends) = self.successors(rank, OpId(number));
            (self.operation(rank, number), self.waits(rank, number), [starts, ends])
        };
        RankGraph::of_distances((0..self.operations(rank)).map(operation))
    }

    /// An operation of a rank.
    #[inline]
    pub fn operation(&self, rank: Rank, number: u32) -> Operation {
        let Entry { shape, detail } = self.ranks[rank.index()][number as usize];
        let [kind, cpu, nic, _] = self.shapes[shape as usize].to_le_bytes();
        let (kind, id) = (kind_of(kind), OpId(number));
        if kind == OperationKind::Calc {
            let size = coded_time::picos(detail, &self.times);
            return Operation { size, peer: 0, tag: 0, id, kind, cpu, nic };
        }
        let Message { size, distance, tag } = self.messages[detail as usize];
        Operation { size, peer: peer(rank, distance, self.count()), tag, id, kind, cpu, nic }
    }

    /// The number of edges to an operation.
    #[inline]
    pub fn waits(&self, rank: Rank, number: u32) -> u32 {
        self.shapes[self.ranks[rank.index()][number as usize].shape as usize + 1]
    }

    /// The operations that wait for the start of this one, and for its end, as distances from it.
    #[inline]
    pub fn successors(&self, rank: Rank, OpId(number): OpId) -> (&[u32], &[u32]) {
        let shape = self.ranks[rank.index()][number as usize].shape as usize;
        let [starts, ends] = [self.shapes[shape + 2] as usize, self.shapes[shape + 3] as usize];
        self.shapes[shape + HEADER..shape + HEADER + starts + ends].split_at(starts)
    }
}

fn kind_of(code: u8) -> OperationKind {
    const KINDS: [OperationKind; 3] = [OperationKind::Send, OperationKind::Recv, OperationKind::Calc];
    KINDS[usize::from(code)]
}

fn peer(rank: Rank, distance: u32, ranks: u32) -> u32 {
    let sum = rank.0.wrapping_add(distance);
    if distance == ANY {
        ANY
    } else if sum < ranks {
        sum
    } else {
        sum - ranks
    }
}

/// Collects the graphs of the ranks, which may come in any order.
#[derive(Debug, Default)]
pub(super) struct Compactor {
    count: u32,
    /// The ranks that were added, and their operations. An operation is often as the one with its number in the rank
    /// before.
    ranks: Vec<(Rank, Box<[Entry]>)>,
    graphs: CompactGraphs,
    shapes: Interner,
    messages: Interner,
    /// The shape that is looked up.
    shape: Vec<u32>,
}

impl Compactor {
    /// For this many ranks. Nothing is allocated for them: a bad file may claim any number.
    pub fn new(count: u32) -> Self {
        Self { count, ..Self::default() }
    }

    /// The number of ranks.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Adds the graph of a rank. The peers of its operations must exist.
    ///
    /// # Errors
    /// If a table has more than 2^32 words.
    pub fn add(&mut self, rank: Rank, graph: &RankGraph) -> Result<(), Error> {
        let entries = graph.operations().iter().map(|operation| self.entry(rank, *operation, graph));
        let entries: Option<Box<[Entry]>> = entries.collect();
        self.ranks.push((rank, entries.ok_or(Error::TooLarge { rank: rank.0 })?));
        Ok(())
    }

    /// All graphs.
    ///
    /// # Errors
    /// If a rank was added twice or not at all.
    pub fn finish(mut self) -> Result<CompactGraphs, Error> {
        self.ranks.sort_by_key(|(rank, _)| *rank);
        if let Some(twice) = self.ranks.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(Error::RankTwice { rank: twice[0].0.0 });
        }
        let missing = (0..self.count)
            .zip(self.ranks.iter().map(Some).chain([None]))
            .find(|(rank, found)| found.is_none_or(|found| found.0.0 != *rank));
        if let Some((rank, _)) = missing {
            return Err(Error::RankMissing { rank });
        }
        self.graphs.ranks = self.ranks.into_iter().map(|(_, entries)| entries).collect();
        self.graphs.shapes.shrink_to_fit();
        self.graphs.messages.shrink_to_fit();
        self.graphs.times.shrink_to_fit();
        Ok(self.graphs)
    }

    fn entry(&mut self, rank: Rank, operation: Operation, graph: &RankGraph) -> Option<Entry> {
        let alike = self.ranks.last().and_then(|(_, last)| last.get(operation.id.0 as usize)).copied();
        let shape = self.shape(operation, graph, alike)?;
        let detail = match operation.kind {
            OperationKind::Calc => coded_time::of(operation.size, &mut self.graphs.times)?,
            OperationKind::Send | OperationKind::Recv => self.message(rank, operation, alike)?,
        };
        Some(Entry { shape, detail })
    }

    fn shape(&mut self, operation: Operation, graph: &RankGraph, alike: Option<Entry>) -> Option<u32> {
        let Operation { id, kind, cpu, nic, .. } = operation;
        let (starts, ends) = (graph.after_start(id), graph.after_end(id));
        let count = |run: &[u32]| u32::try_from(run.len()).expect("a graph has fewer edges");
        let shape = &mut self.shape;
        shape.clear();
        shape.extend([u32::from_le_bytes([kind as u8, cpu, nic, 0]), graph.waits(id.0), count(starts), count(ends)]);
        shape.extend(starts.iter().chain(ends).map(|other| other.wrapping_sub(id.0)));
        let known = &mut self.graphs.shapes;
        let is = |place: u32| known[place as usize..].starts_with(shape);
        if let Some(Entry { shape, .. }) = alike.filter(|alike| is(alike.shape)) {
            return Some(shape);
        }
        let end = u32::try_from(known.len()).ok().filter(|end| *end < u32::MAX)?;
        let place = self.shapes.find(shape.as_slice(), end, is);
        if place == end {
            known.extend_from_slice(shape);
        }
        Some(place)
    }

    fn message(&mut self, rank: Rank, operation: Operation, alike: Option<Entry>) -> Option<u32> {
        let Operation { size, peer, tag, .. } = operation;
        let distance = match peer {
            ANY => ANY,
            _ if peer >= rank.0 => peer - rank.0,
            _ => peer + (self.count - rank.0),
        };
        let (message, known) = (Message { size, distance, tag }, &mut self.graphs.messages);
        let is = |place: u32| known.get(place as usize) == Some(&message);
        if let Some(Entry { detail, .. }) = alike.filter(|alike| is(alike.detail)) {
            return Some(detail);
        }
        let end = u32::try_from(known.len()).ok().filter(|end| *end < u32::MAX)?;
        let place = self.messages.find(&message, end, is);
        if place == end {
            known.push(message);
        }
        Some(place)
    }
}
