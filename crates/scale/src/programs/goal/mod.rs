//! Schedules as graphs: the GOAL format of LogGOPSim.
//!
//! **Problem.** A traced program is a graph for each rank: operations, and what each waits for. **Idea.** Keep
//! operations in the order of the file, the edges of each as one run of successors, and the number of edges to each.
//! All of this is read-only, so many ranks and runs share it. Only the operations in flight have counters, in a window.
//! **Why this way.** A trace has millions of operations, but a rank is at most some dozens ahead of its oldest one.
//!
//! | module | owns |
//! |---|---|
//! | [`graph`] | the graph of one rank, how it is built and checked |
//! | [`window`] | what the operations in flight still wait for |
//! | [`text`] | GOAL as text: read and written |
//! | `words` | the words of such a text |
//! | [`binary`] | the same in a fifth of the bytes |

pub mod binary;
pub mod graph;
pub mod text;
pub mod window;
mod words;

use crate::error::Error;
use crate::model::operation::{OpId, Operation, Rank};
use crate::programs::schedule::Schedule;
use crate::time::Time;
use graph::RankGraph;
use window::GraphWindow;

/// The most ranks of a schedule: a bad file may claim any number.
pub const MOST_RANKS: u32 = 1 << 24;

/// Reads a schedule from the bytes of a GOAL file, binary or text.
///
/// # Errors
/// Those of [`binary::read`] if the file begins as a binary one, else those of [`text::read`]; [`Error::NotGoal`] if it
/// is neither binary nor UTF-8 text.
pub fn read(bytes: &[u8]) -> Result<GoalGraph, Error> {
    if bytes.starts_with(binary::MAGIC) {
        return binary::read(bytes);
    }
    text::read(std::str::from_utf8(bytes).map_err(|_| Error::NotGoal)?)
}

/// A graph for each rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GoalGraph {
    ranks: Vec<RankGraph>,
    /// Whether all operations are on CPU 0 and NIC 0.
    usual: bool,
}

impl GoalGraph {
    /// A schedule of these graphs, that of rank 0 first.
    ///
    /// # Errors
    /// If there are too many ranks, or an operation names a rank that does not exist.
    pub fn new(ranks: Vec<RankGraph>) -> Result<Self, Error> {
        let count = u32::try_from(ranks.len()).unwrap_or(u32::MAX);
        if count > MOST_RANKS {
            return Err(Error::TooManyRanks { ranks: count });
        }
        let operations = || ranks.iter().flat_map(RankGraph::operations);
        if let Some(stray) = operations().filter_map(|operation| operation.peer()).find(|peer| peer.0 >= count) {
            return Err(Error::NoSuchRank { rank: stray.0, ranks: count });
        }
        let usual = operations().all(|operation| operation.is_usual());
        Ok(Self { ranks, usual })
    }

    /// The graph of each rank.
    #[must_use]
    pub fn graphs(&self) -> &[RankGraph] {
        &self.ranks
    }
}

impl Schedule for GoalGraph {
    type Progress = GraphWindow;

    fn ranks(&self) -> u32 {
        u32::try_from(self.ranks.len()).expect("checked when it was made")
    }

    fn elsewhere(&self) -> impl Iterator<Item = (Rank, Operation)> {
        let ranks: &[RankGraph] = if self.usual { &[] } else { &self.ranks };
        (0..).map(Rank).zip(ranks).flat_map(|(rank, graph)| {
            let elsewhere = graph.operations().iter().filter(|operation| !operation.is_usual());
            elsewhere.map(move |operation| (rank, *operation))
        })
    }

    fn begin(&self, rank: Rank, free: &mut Vec<Operation>) -> GraphWindow {
        free.extend(self.ranks[rank.index()].roots());
        GraphWindow::default()
    }

    fn started(&self, rank: Rank, window: &mut GraphWindow, operation: OpId, free: &mut Vec<Operation>) {
        let graph = &self.ranks[rank.index()];
        window.count_down(graph, graph.after_start(operation), free);
    }

    fn done(&self, rank: Rank, window: &mut GraphWindow, operation: OpId, end: Time, free: &mut Vec<Operation>) {
        let graph = &self.ranks[rank.index()];
        if !self.usual {
            window.wait_until(graph.after_end(operation), end);
        }
        window.count_down(graph, graph.after_end(operation), free);
    }

    fn ready(&self, window: &mut GraphWindow, operation: OpId) -> Time {
        if self.usual { Time::ZERO } else { window.ready(operation) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_binary_or_as_text_by_its_first_bytes() {
        let source = "num_ranks 1\nrank 0 {\na: calc 5\n}\n";
        let goal = text::read(source).unwrap();
        assert_eq!(read(source.as_bytes()), Ok(goal.clone()));
        let mut bytes = binary::write(&goal);
        assert_eq!(read(&bytes), Ok(goal));
        bytes.pop();
        assert!(matches!(read(&bytes), Err(Error::Damaged { .. })), "a file that begins as a binary one is one");
        assert!(matches!(read(b"num_ranks x"), Err(Error::Syntax { line: 1, .. })));
        assert_eq!(read(&[0xff, 0xfe]), Err(Error::NotGoal));
    }
}
