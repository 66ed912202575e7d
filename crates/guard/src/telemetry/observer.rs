//! Who is told what a guard sees.

use rampart_codes::Outcome;
use rampart_memory::Frame;

use crate::engine::EngineRefusal;
use crate::state::layout::{BlockIndex, PageIndex};
use crate::telemetry::accesses::UnlockAccess;

/// What memory did to a page, and what was done about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The page.
    pub page: PageIndex,
    /// The frame that it was in, where the kernel says.
    pub frame: Option<Frame>,
    /// What the codes said. [`Outcome::Intact`]: the page was wrong when it was read first, and right when it was read
    /// again.
    pub outcome: Outcome,
}

/// Someone who is told.
pub trait GuardObserver: Sync {
    /// A page was wrong. Where it is beyond correction, and the program is to stop, this is told before the program
    /// sees it.
    fn trouble(&self, trouble: &Trouble);
    /// A block could not be opened or filled: the program cannot go on.
    fn lost(&self, block: BlockIndex, why: &EngineRefusal);
    /// A block was unlocked. Whoever waits for it waits for this too.
    fn unlocked(&self, access: UnlockAccess);
}
