//! Sources of frames.
//!
//! A new source for the daemon implements [`DaemonSource`] in a folder here, and `daemon::run` constructs it. What a
//! source hands to testers is a [`Step`], and it reports [`Ages`] and [`PoolNews`]; a source without sweeps leaves the
//! news empty. The test that runs once claims its memory itself and has no source.

pub mod free_memory;
pub mod kernel_frames;
pub mod step;

use rampart_memory::{Bytes, FrameSource, TestLifetime, Timestamp};
use serde::{Deserialize, Serialize};

use self::free_memory::{Ages, PoolNews};
use self::step::{Step, StepMemory};

/// How a source keeps frames in use tested [Rahman16, 4.1.2].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuaranteeState {
    /// Frames in use that were emptied for their test, since the start.
    pub moved: u64,
    /// Frames in use whose test has expired though they can be moved: deadlines that are missed now.
    pub missed: u64,
    /// Frames in use whose test has expired since the kernel does not move them now.
    pub refused: u64,
}

/// A source of frames for the daemon: the methods that the daemon needs beyond the controller's ([`FrameSource`]).
pub trait DaemonSource: FrameSource<Block = Step<StepMemory>> {
    /// The time of the last test of each frame that was ever reached.
    fn ages(&self) -> &Ages;

    /// Claimed memory: held, waiting, under test, and on its way.
    fn claimed(&self) -> Bytes;

    /// How much of this process's memory is there for testing: what is claimed and has come, and bad frames that stay
    /// out of use.
    fn in_use(&self) -> Bytes;

    /// How frames in use are kept tested; `None` if the source does not reach them.
    fn guarantee(&self) -> Option<GuaranteeState> {
        None
    }

    /// The frames per second that should be tested, before the controller's alpha; 0 between two sweeps.
    fn rate(&self) -> f64;

    /// Whether frames came due before they were tested.
    fn is_overdue(&self, now: Timestamp) -> bool;

    /// Memory that programs need back and that only testers can give.
    fn missing(&self) -> Bytes;

    /// Whether a sweep is under way.
    fn is_sweeping(&self) -> bool;

    /// Returns the changes since the last call.
    fn take_news(&mut self) -> Vec<PoolNews>;

    /// Changes the lifetime.
    fn rebound(&mut self, bound: TestLifetime, now: Timestamp);

    /// Ends a rest between two sweeps: there is memory that no sweep has reached.
    fn hurry(&mut self, now: Timestamp);

    /// Gives back memory that programs need. To be called every few milliseconds.
    fn relieve(&mut self);

    /// Gives back all memory that is not under test.
    fn let_go(&mut self);
}
