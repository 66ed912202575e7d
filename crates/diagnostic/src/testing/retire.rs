//! Retires the bad frames that a tester holds.

use rampart_linux::Block;
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
