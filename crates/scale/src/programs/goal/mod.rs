//! Schedules as graphs: the GOAL format of LogGOPSim.
//!
//! **Problem.** A traced program is a graph for each rank: operations, and what each waits for. **Idea.** Keep
//! operations in the order of the file, and what repeats in them once. All of this is read-only, so many runs share it.
//! Only the operations in flight have counters. **Why this way.** A trace has millions of operations, but a rank is at
//! most some dozens ahead of its oldest one.
//!
//! | module | owns |
//! |---|---|
//! | [`graph`] | the graph of one rank, how it is built and checked |
//! | `compact` | the graphs of all ranks |
//! | `coded_time` | times in 32 bits |
//! | `interner` | what a table has already |
//! | [`window`] | what the operations in flight still wait for |
//! | [`text`] | GOAL as text: read and written |
//! | `segments` | cuts a text into its ranks |
//! | `words` | the words of such a text |
//! | [`binary`] | the same in a fifth of the bytes |

pub mod binary;
mod coded_time;
mod compact;
pub mod graph;
mod interner;
mod segments;
pub mod text;
pub mod window;
mod words;

use std::io::{self, BufRead, Cursor, Read as _};

use crate::error::Error;
use crate::model::operation::{OpId, Operation, Rank};
use crate::programs::schedule::Schedule;
use crate::time::Time;
use compact::{CompactGraphs, Compactor};
use graph::RankGraph;
use window::GraphWindow;

/// The most ranks of a schedule: a bad file may claim any number.
pub const MOST_RANKS: u32 = 1 << 24;

/// Reads a schedule from a GOAL file, binary or text. Only the rank that is read is in memory as it stands there.
///
/// # Errors
/// Those of [`binary::read_from`] if the file begins as a binary one, else those of [`text::read_from`].
pub fn read_from(mut source: impl BufRead) -> Result<GoalGraph, Error> {
    let mut start = Vec::new();
    (&mut source).take(binary::MAGIC.len() as u64).read_to_end(&mut start).map_err(|error| unread(&error))?;
    let is_binary = start == binary::MAGIC;
    let whole = Cursor::new(start).chain(source);
    if is_binary { binary::read_from(whole) } else { text::read_from(whole) }
}

fn unread(error: &io::Error) -> Error {
    Error::Unread { why: error.to_string() }
}

/// A graph for each rank.
#[derive(Clone, Debug, Default)]
pub struct GoalGraph {
    graphs: CompactGraphs,
    /// Whether all operations are on CPU 0 and NIC 0.
    usual: bool,
}

impl GoalGraph {
    /// A schedule of these graphs, that of rank 0 first.
    ///
    /// # Errors
    /// If there are too many ranks, or an operation names a rank that does not exist.
    pub fn new(ranks: Vec<RankGraph>) -> Result<Self, Error> {
        let mut builder = GoalBuilder::new(u32::try_from(ranks.len()).unwrap_or(u32::MAX))?;
        for (rank, graph) in (0..).map(Rank).zip(ranks) {
            builder.add(rank, &graph)?;
        }
        builder.finish()
    }

    /// The graph of a rank.
    #[must_use]
    pub fn graph(&self, rank: Rank) -> RankGraph {
        self.graphs.expanded(rank)
    }

    /// The graph of each rank.
    pub fn graphs(&self) -> impl Iterator<Item = RankGraph> {
        (0..self.ranks()).map(|rank| self.graph(Rank(rank)))
    }

    /// The operations of a rank.
    fn operations(&self, rank: Rank) -> impl Iterator<Item = Operation> {
        (0..self.graphs.operations(rank)).map(move |number| self.graphs.operation(rank, number))
    }
}

/// Two schedules are equal if the graphs of all ranks are, whatever the order in which they were read.
impl PartialEq for GoalGraph {
    fn eq(&self, other: &Self) -> bool {
        self.graphs().eq(other.graphs())
    }
}

impl Eq for GoalGraph {}

/// Collects the graphs of all ranks, one by one, so that no more than one is in memory as it is read.
#[derive(Debug)]
pub(crate) struct GoalBuilder {
    graphs: Compactor,
    usual: bool,
}

impl GoalBuilder {
    /// For this many ranks.
    pub fn new(ranks: u32) -> Result<Self, Error> {
        if ranks > MOST_RANKS {
            return Err(Error::TooManyRanks { ranks });
        }
        Ok(Self { graphs: Compactor::new(ranks), usual: true })
    }

    /// The number of ranks.
    pub fn ranks(&self) -> u32 {
        self.graphs.count()
    }

    /// Adds the graph of a rank.
    pub fn add(&mut self, rank: Rank, graph: &RankGraph) -> Result<(), Error> {
        let ranks = self.ranks();
        let mut peers = graph.operations().iter().filter_map(|operation| operation.peer());
        if let Some(stray) = peers.find(|peer| peer.0 >= ranks) {
            return Err(Error::NoSuchRank { rank: stray.0, ranks });
        }
        self.usual &= graph.operations().iter().all(|operation| operation.is_usual());
        self.graphs.add(rank, graph)
    }

    /// The schedule, if each rank was added once.
    pub fn finish(self) -> Result<GoalGraph, Error> {
        Ok(GoalGraph { graphs: self.graphs.finish()?, usual: self.usual })
    }
}

impl Schedule for GoalGraph {
    type Progress = GraphWindow;

    fn ranks(&self) -> u32 {
        self.graphs.count()
    }

    fn elsewhere(&self) -> impl Iterator<Item = (Rank, Operation)> {
        let ranks = if self.usual { 0 } else { self.ranks() };
        (0..ranks).map(Rank).flat_map(|rank| {
            let elsewhere = self.operations(rank).filter(|operation| !operation.is_usual());
            elsewhere.map(move |operation| (rank, operation))
        })
    }

    fn begin(&self, rank: Rank, free: &mut Vec<Operation>) -> GraphWindow {
        let numbers = 0..self.graphs.operations(rank);
        let roots = numbers.filter(|number| self.graphs.waits(rank, *number) == 0);
        free.extend(roots.map(|number| self.graphs.operation(rank, number)));
        GraphWindow::default()
    }

    fn started(&self, rank: Rank, window: &mut GraphWindow, operation: OpId, free: &mut Vec<Operation>) {
        let (waiting, _) = self.graphs.successors(rank, operation);
        window.count_down((&self.graphs, rank), operation, waiting, free);
    }

    fn done(&self, rank: Rank, window: &mut GraphWindow, operation: OpId, end: Time, free: &mut Vec<Operation>) {
        let (_, waiting) = self.graphs.successors(rank, operation);
        if !self.usual {
            waiting.iter().for_each(|distance| window.wait_until(operation.0.wrapping_add(*distance), end));
        }
        window.count_down((&self.graphs, rank), operation, waiting, free);
    }

    fn ready(&self, window: &mut GraphWindow, operation: OpId) -> Time {
        if self.usual { Time::ZERO } else { window.ready(operation) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rampart_memory::Bytes;

    use super::*;
    use crate::RoundSchedule;
    use crate::pattern::jittered::{Jittered, JitteredPattern};

    proptest! {
        #[test]
        fn graphs_are_kept_as_they_are(graphs in text::tests::any_graphs()) {
            let goal = GoalGraph::new(graphs.clone()).unwrap();
            prop_assert_eq!(goal.graphs().collect::<Vec<_>>(), graphs);
        }
    }

    #[test]
    fn what_repeats_is_kept_once() {
        let tables = |ranks, steps| {
            let (pattern, bytes, compute) = (JitteredPattern::Halo(4), Bytes::new(70_000), Time::from_nanos(20_000));
            let program = Jittered { pattern, ranks, steps, bytes, compute };
            RoundSchedule(program).written_out().unwrap().graphs.table_lengths()
        };
        assert_eq!(tables(16, 10), tables(16, 50));
        assert_eq!(tables(16, 10), tables(64, 10));
    }

    #[test]
    fn a_file_is_read_as_binary_or_as_text_by_its_first_bytes() {
        let source = "num_ranks 1\nrank 0 {\na: calc 5\n}\n";
        let goal = text::read(source).unwrap();
        assert_eq!(read_from(source.as_bytes()), Ok(goal.clone()));
        let mut bytes = binary::write(&goal);
        assert_eq!(read_from(&bytes[..]), Ok(goal));
        bytes.pop();
        assert!(
            matches!(read_from(&bytes[..]), Err(Error::Damaged { .. })),
            "a file that begins as a binary one is one"
        );
        assert!(matches!(read_from(&b"num_ranks x"[..]), Err(Error::Syntax { line: 1, .. })));
        assert_eq!(read_from(&[0xff, 0xfe][..]), Err(Error::NotGoal));
    }
}
