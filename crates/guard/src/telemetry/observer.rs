//! The observer of a guard.

use rampart_codes::CorrectionOutcome;
use rampart_memory::Frame;

use crate::engine::EngineRefusal;
use crate::state::layout::{BlockIndex, PageIndex};
use crate::telemetry::accesses::UnlockAccess;

/// An error in a page, and the guard's action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The page.
    pub page: PageIndex,
    /// Its frame, if the kernel shows it.
    pub frame: Option<Frame>,
    /// The verdict of the codes. [`CorrectionOutcome::Intact`]: the page was wrong at the first read, and right at the
    /// second.
    pub outcome: CorrectionOutcome,
}

/// An observer of the guard.
pub trait GuardObserver: Sync {
    /// A page had an error. If it is beyond correction, and the program must stop, this comes before the program sees
    /// the page.
    fn trouble(&self, trouble: &Trouble);
    /// A block could not be unlocked or filled: the program cannot go on.
    fn lost(&self, block: BlockIndex, why: &EngineRefusal);
    /// A block was unlocked. Threads that wait for the block wait for this call too.
    fn unlocked(&self, access: UnlockAccess);
}
