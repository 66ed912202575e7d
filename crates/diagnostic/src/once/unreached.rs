//! Counts the frames that a test did not reach, by reason.
//!
//! Nothing is skipped silently (rule 3 of the design): every frame of the machine is either tested or in one of these
//! counts. The use of a frame may change during counting, so the counts describe approximately the moment at which the
//! test ended.

use rampart_linux::FrameClass;
use rampart_memory::Bytes;

use crate::machine::MachineUnderTest;
use crate::once::report::NotTested;
use crate::once::schedule::Goal;
use crate::testing::seen::FrameSet;

/// Counts the frames that are not in `tested`, by reason.
pub fn count(
    machine: &MachineUnderTest,
    goal: Goal,
    tested: &FrameSet,
    unknown_tested: u64,
    reserve: Bytes,
) -> Vec<NotTested> {
    let total = machine.outlook().map_or(0, |seen| seen.total.frames());
    let rest = total.saturating_sub(tested.len() + unknown_tested);
    let all = |why: &str| vec![NotTested { why: why.to_owned(), frames: rest }];
    if let Goal::Exactly(_) = goal {
        return all("beyond the --memory that was asked for");
    }
    match machine.census(|frame| !tested.contains(frame)) {
        Some(classes) => classes.into_iter().map(|(class, frames)| of_class(class, frames, reserve)).collect(),
        None => all("in use, or kept in reserve; only root can tell which"),
    }
}

fn of_class(class: FrameClass, frames: u64, reserve: Bytes) -> NotTested {
    let why = match class {
        FrameClass::Free => format!("free: {reserve} kept in reserve for programs, and memory freed meanwhile"),
        other => format!("in use: {other}"),
    };
    NotTested { why, frames }
}
