//! Two patterns that most programs of the field consist of.
//!
//! **Problem.** Two simulators should be compared on what real programs do. **Idea.** A stencil in three dimensions
//! with an allreduce per step, in which all ranks wait for each other; and a sweep over a plane, in which work moves
//! through the ranks as a wave. [`compared`] has these and others as graphs.

pub mod compared;
pub mod jittered;

use rampart_memory::Bytes;

use crate::model::operation::{Operation, Rank, Tag};
use crate::programs::collective::{Collective, CollectiveKind};
use crate::programs::rounds::{RankProgram, RankStep};
use crate::time::Time;

/// Each rank computes, exchanges its halo with up to six neighbours, and all ranks reduce a value.
#[derive(Clone, Copy, Debug)]
pub struct Stencil {
    /// Ranks along each axis; not periodic.
    pub grid: [u32; 3],
    /// The number of steps.
    pub steps: u64,
    /// Computing in each step.
    pub compute: Time,
    /// Bytes to each neighbour.
    pub halo: Bytes,
    /// Bytes of the allreduce.
    pub reduced: Bytes,
}

impl Stencil {
    fn neighbours(&self, rank: Rank) -> impl Iterator<Item = Rank> {
        let [x, y, _] = self.grid;
        let strides = [1, x, x * y];
        self.grid.into_iter().zip(strides).flat_map(move |(length, stride)| {
            let place = rank.0 / stride % length;
            let below = (place > 0).then(|| Rank(rank.0 - stride));
            let above = (place + 1 < length).then(|| Rank(rank.0 + stride));
            below.into_iter().chain(above)
        })
    }
}

impl RankProgram for Stencil {
    fn ranks(&self) -> u32 {
        self.grid.iter().product()
    }

    fn step(&self, rank: Rank, number: u64, round: &mut Vec<Operation>) -> RankStep {
        if number / 3 >= self.steps {
            return RankStep::End;
        }
        match number % 3 {
            0 => round.push(Operation::calc(self.compute)),
            1 => {
                for neighbour in self.neighbours(rank) {
                    round.push(Operation::send(neighbour, self.halo, Tag(0)));
                    round.push(Operation::recv(Some(neighbour), self.halo, Some(Tag(0))));
                }
            }
            _ => return RankStep::Collective(Collective::new(CollectiveKind::Allreduce, self.reduced, self.ranks())),
        }
        RankStep::Round
    }
}

/// Blocks of work start at each corner of a plane in turn and go from rank to rank, as in Sweep3D.
#[derive(Clone, Copy, Debug)]
pub struct SweepPattern {
    /// Ranks along each axis.
    pub grid: [u32; 2],
    /// The number of blocks that start at each corner.
    pub blocks: u64,
    /// The number of rounds over the four corners.
    pub steps: u64,
    /// Computing for each block.
    pub compute: Time,
    /// Bytes that a block passes to each of its two neighbours.
    pub face: Bytes,
}

impl SweepPattern {
    /// The source and the target of blocks along one axis, if they go upwards.
    fn along(rank: Rank, stride: u32, length: u32, upwards: bool) -> (Option<Rank>, Option<Rank>) {
        let place = rank.0 / stride % length;
        let below = (place > 0).then(|| Rank(rank.0 - stride));
        let above = (place + 1 < length).then(|| Rank(rank.0 + stride));
        if upwards { (below, above) } else { (above, below) }
    }
}

impl RankProgram for SweepPattern {
    fn ranks(&self) -> u32 {
        self.grid.iter().product()
    }

    fn step(&self, rank: Rank, number: u64, round: &mut Vec<Operation>) -> RankStep {
        let turn = number / 3 / self.blocks.max(1);
        let corner = turn % 4;
        if turn >= self.steps * 4 {
            return RankStep::End;
        }
        let along_x = Self::along(rank, 1, self.grid[0], corner & 1 == 0);
        let along_y = Self::along(rank, self.grid[0], self.grid[1], corner & 2 == 0);
        match number % 3 {
            0 => round.extend(
                [along_x.0, along_y.0]
                    .into_iter()
                    .flatten()
                    .map(|from| Operation::recv(Some(from), self.face, Some(Tag(0)))),
            ),
            1 => round.push(Operation::calc(self.compute)),
            _ => round
                .extend([along_x.1, along_y.1].into_iter().flatten().map(|to| Operation::send(to, self.face, Tag(0)))),
        }
        RankStep::Round
    }
}
