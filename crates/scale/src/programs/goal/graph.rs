//! The graph of one rank.

use crate::error::Error;
use crate::model::operation::{OpId, Operation, Rank};

/// The most operations, and the most edges, of a rank.
const MOST: usize = 1 << 30;

/// The event for which an operation waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// The start of the other operation (`irequires`).
    Start,
    /// The end of the other operation (`requires`).
    End,
}

/// The operations of one rank, and what each waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankGraph {
    operations: Vec<Operation>,
    /// The number of edges to each operation.
    waits: Vec<u32>,
    /// For each operation in turn: the operations that wait for its start, then those that wait for its end.
    successors: Vec<u32>,
    /// Where the two runs of an operation begin in `successors`; the next operation's first run ends them.
    bounds: Vec<u32>,
}

impl RankGraph {
    /// From each operation with the number of edges to it, and the distances to what waits for its start and its end.
    pub(super) fn of_distances<'a>(operations: impl Iterator<Item = (Operation, u32, [&'a [u32]; 2])>) -> Self {
        let mut graph = Self { bounds: vec![0], ..Self::default() };
        for (operation, waits, runs) in operations {
            graph.operations.push(operation);
            graph.waits.push(waits);
            for run in runs {
                graph.successors.extend(run.iter().map(|distance| operation.id.0.wrapping_add(*distance)));
                graph.bounds.push(u32::try_from(graph.successors.len()).expect("no more edges than it had"));
            }
        }
        graph
    }

    /// The operations, in their order.
    #[must_use]
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// The number of edges to an operation.
    pub(super) fn waits(&self, number: u32) -> u32 {
        self.waits[number as usize]
    }

    /// The operations that wait for nothing.
    pub(super) fn roots(&self) -> impl Iterator<Item = Operation> {
        self.operations.iter().zip(&self.waits).filter(|(_, waits)| **waits == 0).map(|(operation, _)| *operation)
    }

    /// The operations that wait for the start of this one, in the order of the file.
    #[must_use]
    pub fn after_start(&self, operation: OpId) -> &[u32] {
        self.run(2 * operation.0 as usize)
    }

    /// The operations that wait for the end of this one, in the order of the file.
    #[must_use]
    pub fn after_end(&self, operation: OpId) -> &[u32] {
        self.run(2 * operation.0 as usize + 1)
    }

    fn run(&self, number: usize) -> &[u32] {
        &self.successors[self.bounds[number] as usize..self.bounds[number + 1] as usize]
    }

    /// An operation on a circle of edges, if there is one: no order of execution gets past it.
    fn in_a_circle(&self) -> Option<u32> {
        let mut waits = self.waits.clone();
        let mut free: Vec<u32> = self.roots().map(|operation| operation.id.0).collect();
        while let Some(number) = free.pop() {
            for &next in self.after_start(OpId(number)).iter().chain(self.after_end(OpId(number))) {
                waits[next as usize] -= 1;
                if waits[next as usize] == 0 {
                    free.push(next);
                }
            }
        }
        waits.iter().zip(0..).find(|(waits, _)| **waits > 0).map(|(_, number)| number)
    }
}

/// Collects the graph of one rank.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    operations: Vec<Operation>,
    /// The operation waited for, the event, and the operation that waits.
    edges: Vec<(OpId, After, OpId)>,
}

impl Builder {
    /// Adds an operation and returns its number.
    pub fn add(&mut self, operation: Operation) -> OpId {
        let id = OpId(u32::try_from(self.operations.len()).unwrap_or(u32::MAX));
        self.operations.push(operation.named(id));
        id
    }

    /// `waiting` becomes ready only after `other` has started or ended. Both numbers come from [`Self::add`].
    pub fn wait(&mut self, waiting: OpId, after: After, other: OpId) {
        self.edges.push((other, after, waiting));
    }

    /// The graph.
    ///
    /// # Errors
    /// If it is too large, or if operations wait for each other in a circle; the error names `rank`.
    pub fn finish(self, rank: Rank) -> Result<RankGraph, Error> {
        if self.operations.len() > MOST || self.edges.len() > MOST {
            return Err(Error::TooLarge { rank: rank.0 });
        }
        let mut graph = RankGraph {
            waits: vec![0; self.operations.len()],
            successors: vec![0; self.edges.len()],
            bounds: vec![0; 2 * self.operations.len() + 1],
            operations: self.operations,
        };
        let run = |other: OpId, after: After| 2 * other.0 as usize + usize::from(after == After::End);
        // Counted one place ahead, the sums are the starts of the runs.
        for &(other, after, waiting) in &self.edges {
            graph.bounds[run(other, after) + 1] += 1;
            graph.waits[waiting.0 as usize] += 1;
        }
        let mut sum = 0;
        for bound in &mut graph.bounds {
            sum += *bound;
            *bound = sum;
        }
        let mut next: Vec<u32> = graph.bounds.clone();
        for &(other, after, waiting) in &self.edges {
            let place = &mut next[run(other, after)];
            graph.successors[*place as usize] = waiting.0;
            *place += 1;
        }
        match graph.in_a_circle() {
            Some(operation) => Err(Error::Circle { rank: rank.0, operation }),
            None => Ok(graph),
        }
    }
}
