//! A trace as graphs, for readers of GOAL.

use std::collections::HashMap;

use super::{Call, Extrapolated, MpiRequest};
use crate::error::Error;
use crate::model::operation::{OpId, Operation, Rank, Tag};
use crate::programs::goal::GoalGraph;
use crate::programs::goal::graph::{After, Builder, RankGraph};
use crate::programs::schedule::Schedule as _;

impl Extrapolated<'_> {
    /// The whole trace as graphs.
    ///
    /// # Errors
    /// If it is too large for that.
    pub fn written_out(&self) -> Result<GoalGraph, Error> {
        // Messages of collectives have a tag that no other message has, small enough for every reader of GOAL.
        let all = (0..self.trace.ranks()).flat_map(|rank| self.trace.calls(Rank(rank)));
        let last = all.filter_map(|call| match call {
            Call::Blocking(operation) | Call::Begin(operation, _) => operation.peer().map(|_| operation.tag),
            Call::Wait(_) | Call::Collective(..) => None,
        });
        let free = Tag(last.max().map_or(0, |last| last + 1));
        let graphs: Result<Vec<RankGraph>, Error> =
            (0..self.ranks()).map(|rank| self.graph(Rank(rank), free)).collect();
        GoalGraph::new(graphs?)
    }

    fn graph(&self, rank: Rank, of_collectives: Tag) -> Result<RankGraph, Error> {
        let of_trace = self.trace.ranks();
        let block = rank.0 / of_trace * of_trace;
        let mut line = Line::default();
        for call in self.trace.calls(Rank(rank.0 % of_trace)) {
            match *call {
                Call::Blocking(operation) => line.all_at_once([operation.shifted(block)]),
                Call::Begin(operation, request) => line.begin(operation.shifted(block), request),
                Call::Wait(request) => line.wait(request),
                Call::Collective(kind, bytes, communicator) => {
                    let mut within = self.enter(kind, bytes, communicator);
                    let mut round = Vec::new();
                    while let Some(at) = within {
                        within = self.round(rank, at, &mut round);
                        line.all_at_once(
                            round.drain(..).map(|operation| Operation { tag: of_collectives.0, ..operation }),
                        );
                    }
                }
            }
        }
        line.builder.finish(rank)
    }
}

/// What the next operation of a rank waits for.
#[derive(Default)]
struct Line {
    builder: Builder,
    before: Vec<(OpId, After)>,
    begun: HashMap<MpiRequest, OpId>,
}

impl Line {
    fn add(&mut self, operation: Operation) -> OpId {
        let added = self.builder.add(operation);
        self.before.iter().for_each(|(other, after)| self.builder.wait(added, *after, *other));
        added
    }

    /// Adds operations that start together; the next operation waits until all are done.
    fn all_at_once(&mut self, operations: impl IntoIterator<Item = Operation>) {
        let added: Vec<(OpId, After)> =
            operations.into_iter().map(|operation| (self.add(operation), After::End)).collect();
        if !added.is_empty() {
            self.before = added;
        }
    }

    fn begin(&mut self, operation: Operation, request: MpiRequest) {
        let added = self.add(operation);
        self.begun.insert(request, added);
        self.before = vec![(added, After::Start)];
    }

    fn wait(&mut self, request: MpiRequest) {
        self.before.extend(self.begun.remove(&request).map(|begun| (begun, After::End)));
    }
}
