//! Traced programs that repeat themselves, simulated from meeting to meeting.
//!
//! **Problem.** On 16,384 nodes a trace of eight ranks has 2,048 copies. Event by event, a run that meets enough errors
//! takes minutes to days. **Idea.** Between two collectives of all ranks (*meetings*), the copies do not know of each
//! other, so all copies that no detour disturbs behave alike. Only the disturbed copies are simulated; the last copy to
//! arrive decides when the meeting begins. **Why this way.** The time to simulate a run depends only on how many errors
//! it has, not on its number of copies.
//!
//! A simplification: all ranks begin a meeting when the last one has arrived, and all leave it when the last one has
//! its result. A meeting takes the time that the engine gives it when all ranks begin together, and its CPUs are busy
//! all that time. So errors cost somewhat too much, by some microseconds a meeting. Tests compare with the
//! [engine](mod@crate::simulator::engine).
//!
//! | module | owns |
//! |---|---|
//! | `steps` | the calls of one copy, in an order in which nothing waits for what comes later |

mod steps;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::Error;
use crate::model::detour::{Detours, Undisturbed};
use crate::model::network::LogGops;
use crate::model::operation::Rank;
use crate::programs::trace::meetings::TracePart;
use crate::programs::trace::{Call, Communicator, MpiTrace};
use crate::simulator::engine::simulate;
use crate::time::Time;
use steps::OrderedSteps;

/// A traced program on a multiple of its ranks; many runs share it.
#[derive(Clone, Debug)]
pub struct Blocks {
    stretches: Vec<Stretch>,
    /// The ranks of one copy.
    block: u32,
    copies: u32,
    network: LogGops,
    /// The length of an undisturbed cycle.
    cycle: Time,
}

/// What a copy does from one meeting to the end of the next.
#[derive(Clone, Debug)]
struct Stretch {
    steps: OrderedSteps,
    /// The time from its start to the last rank's arrival at the meeting, without detours.
    takes: Time,
    /// The time of the meeting.
    meeting: Time,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlocksOutcome {
    /// The time at which the last rank was done.
    pub makespan: Time,
    /// How often a copy was simulated because a detour disturbed it.
    pub disturbed: u64,
}

/// Beyond this, one more cycle might reach [`Time::MAX`].
const TOO_LATE: Time = Time::from_picos(u64::MAX / 2);

impl Blocks {
    /// Prepares so many copies of a traced cycle.
    ///
    /// # Errors
    /// [`Error::NotRepeated`] if a part cannot be simulated alone; those of a collective of so many ranks.
    pub fn new(cycle: Vec<TracePart>, copies: u32, network: &LogGops) -> Result<Self, Error> {
        let block = cycle.first().map_or(1, |part| part.calls.ranks());
        let mut meetings = Vec::new();
        let stretches: Result<Vec<Stretch>, Error> = cycle
            .into_iter()
            .enumerate()
            .map(|(number, part)| {
                let steps = OrderedSteps::of(&part.calls, network).ok_or(Error::NotRepeated { part: number })?;
                let takes = steps.makespan(network, &Undisturbed);
                let known = meetings.iter().find(|(of, _)| *of == part.meeting).map(|(_, takes)| *takes);
                let meeting = match known {
                    Some(takes) => takes,
                    None => {
                        let takes = meeting_time(&part, copies, network)?;
                        meetings.push((part.meeting, takes));
                        takes
                    }
                };
                Ok(Stretch { steps, takes, meeting })
            })
            .collect();
        let stretches = stretches?;
        let cycle = stretches.iter().map(Stretch::undisturbed).fold(Time::ZERO, Time::plus);
        Ok(Self { stretches, block, copies, network: *network, cycle })
    }

    /// The number of ranks.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.block * self.copies
    }

    /// The length of an undisturbed cycle.
    #[must_use]
    pub fn cycle(&self) -> Time {
        self.cycle
    }

    /// Memory per rank of a run, in bytes: a cursor and the time of its next detour for each thread. Expanding a
    /// collective takes about as much as its messages, once.
    pub(crate) fn bytes_a_rank(threads: usize) -> u64 {
        /// As in [`Lockstep`](crate::simulator::lockstep::Lockstep).
        const EXPANDED: u64 = 512;
        (size_of::<(ArrivalOf, [u64; 5])>() * threads) as u64 + EXPANDED
    }

    /// Runs this many cycles.
    ///
    /// # Errors
    /// [`Error::Stopped`] if `stop` was set meanwhile, [`Error::TooLong`] if the end lies beyond [`Time::MAX`].
    pub fn run<D>(&self, cycles: u64, detours: &D, stop: &AtomicBool) -> Result<BlocksOutcome, Error>
    where
        D: Detours,
        D::Cursor: Clone,
    {
        let mut run = BlocksRun::new(self, detours);
        let mut left = cycles;
        while left > 0 {
            if stop.load(Ordering::Relaxed) {
                return Err(Error::Stopped);
            }
            left -= run.skip(left);
            if left > 0 {
                self.stretches.iter().for_each(|stretch| run.stretch(stretch));
                left -= 1;
            }
            if run.now >= TOO_LATE {
                return Err(Error::TooLong);
            }
        }
        Ok(BlocksOutcome { makespan: run.now, disturbed: run.disturbed })
    }
}

impl Stretch {
    fn undisturbed(&self) -> Time {
        self.takes.plus(self.meeting)
    }
}

/// The time of a part's meeting, if the ranks of so many copies begin it together.
fn meeting_time(part: &TracePart, copies: u32, network: &LogGops) -> Result<Time, Error> {
    let (kind, bytes) = part.meeting;
    let alone = vec![vec![Call::Collective(kind, bytes, Communicator::WORLD)]; part.calls.ranks() as usize];
    Ok(simulate(&MpiTrace::new(alone)?.extrapolated(copies)?, network, &Undisturbed)?.makespan())
}

/// The start of a rank's next detour: the earliest comes first.
type ArrivalOf = Reverse<(Time, u32)>;

struct BlocksRun<'a, D: Detours> {
    blocks: &'a Blocks,
    detours: &'a D,
    /// The time at which all ranks left the last meeting.
    now: Time,
    /// The position of each rank in its detours.
    cursors: Vec<D::Cursor>,
    due: BinaryHeap<ArrivalOf>,
    disturbed: u64,
}

impl<'a, D: Detours> BlocksRun<'a, D>
where
    D::Cursor: Clone,
{
    fn new(blocks: &'a Blocks, detours: &'a D) -> Self {
        let cursors: Vec<D::Cursor> = (0..blocks.ranks()).map(|rank| detours.begin(Rank(rank))).collect();
        let starts = (0..).zip(&cursors).map(|(rank, cursor)| (detours.quiet_until(cursor), rank));
        let due = starts.filter(|(start, _)| *start < Time::MAX).map(Reverse).collect();
        Self { blocks, detours, now: Time::ZERO, cursors, due, disturbed: 0 }
    }

    /// The start of the next detour of any rank.
    fn quiet_until(&self) -> Time {
        self.due.peek().map_or(Time::MAX, |Reverse((start, _))| *start)
    }

    /// Skips up to `most` cycles in which nothing happens; returns their number.
    fn skip(&mut self, most: u64) -> u64 {
        let cycle = self.blocks.cycle.picos();
        let quiet = self.quiet_until().min(TOO_LATE).since(self.now);
        let skipped = quiet.picos().checked_div(cycle).unwrap_or(most).min(most);
        self.now = self.now.plus(Time::from_picos(cycle * skipped));
        skipped
    }

    fn stretch(&mut self, stretch: &Stretch) {
        if self.quiet_until() >= self.now.plus(stretch.undisturbed()) {
            self.now = self.now.plus(stretch.undisturbed());
            return;
        }
        let mut met = self.due_before(self.now.plus(stretch.takes));
        let last = self.arrival(stretch, &met);
        // Who had a detour while waiting for the last rank may still be in it.
        met.extend(self.due_before(last.plus(stretch.meeting)));
        self.now = last.plus(stretch.meeting);
        for rank in met {
            let cursor = &mut self.cursors[rank.index()];
            let free = self.detours.free_from(rank, cursor, last);
            self.now = self.now.max(self.detours.finish(rank, cursor, free, stretch.meeting));
            let next = self.detours.quiet_until(cursor);
            if next < Time::MAX {
                self.due.push(Reverse((next, rank.0)));
            }
        }
    }

    /// Takes the ranks whose next detour starts before this time.
    fn due_before(&mut self, time: Time) -> Vec<Rank> {
        let mut ranks = Vec::new();
        while let Some(&Reverse((start, rank))) = self.due.peek()
            && start < time
        {
            self.due.pop();
            ranks.push(Rank(rank));
        }
        ranks
    }

    /// The time at which the last rank arrives at the meeting, if these ranks meet detours before.
    fn arrival(&mut self, stretch: &Stretch, met: &[Rank]) -> Time {
        let mut copies: Vec<u32> = met.iter().map(|rank| rank.0 / self.blocks.block).collect();
        copies.sort_unstable();
        copies.dedup();
        let mut last = self.now.plus(stretch.takes);
        for copy in copies {
            let first = copy * self.blocks.block;
            let cursors = &self.cursors[first as usize..(first + self.blocks.block) as usize];
            let of_copy = OfCopy { detours: self.detours, cursors, first, began: self.now };
            last = last.max(self.now.plus(stretch.steps.makespan(&self.blocks.network, &of_copy)));
            self.disturbed += 1;
        }
        last
    }
}

/// The detours of one copy's ranks, from the time at which its stretch began.
struct OfCopy<'a, D: Detours> {
    detours: &'a D,
    cursors: &'a [D::Cursor],
    /// The copy's first rank.
    first: u32,
    began: Time,
}

impl<D: Detours> OfCopy<'_, D> {
    fn rank(&self, rank: Rank) -> Rank {
        Rank(self.first + rank.0)
    }
}

impl<D: Detours> Detours for OfCopy<'_, D>
where
    D::Cursor: Clone,
{
    type Cursor = D::Cursor;

    fn begin(&self, rank: Rank) -> D::Cursor {
        self.cursors[rank.index()].clone()
    }

    fn free_from(&self, rank: Rank, cursor: &mut D::Cursor, now: Time) -> Time {
        self.detours.free_from(self.rank(rank), cursor, self.began.plus(now)).since(self.began)
    }

    fn quiet_until(&self, cursor: &D::Cursor) -> Time {
        self.detours.quiet_until(cursor).since(self.began)
    }

    fn finish(&self, rank: Rank, cursor: &mut D::Cursor, start: Time, work: Time) -> Time {
        self.detours.finish(self.rank(rank), cursor, self.began.plus(start), work).since(self.began)
    }
}
