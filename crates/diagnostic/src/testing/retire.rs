//! Retires the bad frames that a tester holds.

use rampart_linux::Block;
use rampart_linux::kernel_module::{ClaimVerdict, ClaimedFrames, VerdictRefusal, WindowLoss};
use rampart_memory::Frame;
use rampart_memory::fault_map::Retirement;

use super::publishing::{Publisher, lock};
use crate::machine::MachineUnderTest;

/// Asks the kernel to retire the frame of a page of an unpinned block if the frame has a real error, and records the
/// answer. Warns of a refusal. Returns `None` for a frame without an error, and for one whose answer is known.
pub fn retire_if_bad(
    machine: &MachineUnderTest,
    published: &Publisher<'_>,
    (block, page): (&mut Block, u64),
    frame: Frame,
    warn: impl FnOnce(&str),
) -> Option<Retirement> {
    if !lock(&published.findings).awaits_retirement(frame) {
        return None;
    }
    let retirement = machine.retire_own(frame, block, page);
    if let Retirement::Refused(why) = &retirement {
        warn(&format!("NOT retired frame {frame}: {why}"));
    }
    lock(&published.findings).retired(frame, retirement.clone());
    Some(retirement)
}

/// Gives claimed frames back; the kernel retires the bad ones, whose findings are in the store before. Records what
/// became of each of these, and returns it, with the module's answer to the verdict. Warns of those that are not
/// retired.
pub fn give_back_claimed(
    machine: &MachineUnderTest,
    published: &Publisher<'_>,
    claimed: &mut ClaimedFrames,
    verdict: ClaimVerdict<'_>,
    warn: impl Fn(&str),
) -> (Vec<(Frame, Retirement)>, Result<(), VerdictRefusal>) {
    let given = claimed.give_back(verdict);
    let (ClaimVerdict::Tested(bad) | ClaimVerdict::NotTested(bad)) = verdict;
    let retire = |&frame: &Frame| {
        let retirement = match &given {
            Ok(()) => Retirement::Offlined,
            // The kernel has the frame already.
            Err(VerdictRefusal::Late) => machine.retire(frame),
            Err(refusal) => Retirement::Refused(refusal.to_string()),
        };
        if let Retirement::Refused(why) = &retirement {
            warn(&format!("NOT retired frame {frame}: {why}"));
        }
        lock(&published.findings).retired(frame, retirement.clone());
        (frame, retirement)
    };
    (bad.iter().map(retire).collect(), given)
}

/// Warns if claimed frames are gone because the hardware found one of them bad.
pub fn warn_of_hardware_error(claimed: &ClaimedFrames, warn: impl FnOnce(&str)) {
    if let Some(WindowLoss::HardwareError(frame)) = claimed.loss() {
        warn(&format!(
            "frame {frame}: the hardware found an error in it that it could not correct, and the kernel took it away"
        ));
    }
}
