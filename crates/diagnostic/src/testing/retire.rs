//! Retires the bad frames that a tester holds.

use rampart_linux::Block;
use rampart_linux::kernel_module::{ClaimVerdict, ClaimedFrames, VerdictRefusal};
use rampart_linux::memory_loss::{MemoryLoss, SurvivingAccess};
use rampart_memory::Frame;
use rampart_memory::fault_map::Retirement;

use super::findings::MismatchLocation;
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

/// The frames of a claim in which the hardware reported an error that it could not correct, if their test ended so.
/// Records them.
pub fn see_hardware_errors(
    machine: &MachineUnderTest,
    published: &Publisher<'_>,
    claimed: &ClaimedFrames,
    warn: impl FnOnce(&str),
) -> Vec<Frame> {
    if claimed.loss() != Some(MemoryLoss::HardwareError) {
        return Vec::new();
    }
    let marked: Vec<Frame> = claimed.frames().frames().filter(|frame| machine.is_marked(*frame)).collect();
    if marked.is_empty() {
        warn(UNMARKED);
    }
    let now = machine.clock.now();
    marked.iter().for_each(|frame| lock(&published.findings).uncorrected(MismatchLocation::Frame(*frame), now));
    marked
}

/// The same for memory of this process: its address, and the frames of its pages before the access. Returns the pages.
pub fn see_page_errors(
    machine: &MachineUnderTest,
    published: &Publisher<'_>,
    (address, frames): (u64, &[Option<Frame>]),
    access: &SurvivingAccess,
    warn: impl FnOnce(&str),
) -> Vec<u64> {
    let is_marked = |frame: &Option<Frame>| frame.is_some_and(|frame| machine.is_marked(frame));
    let pages: Vec<u64> = match access.loss() {
        None => access.lost_pages().collect(),
        Some(_) => (0..).zip(frames).filter_map(|(page, frame)| is_marked(frame).then_some(page)).collect(),
    };
    if pages.is_empty() && access.loss().is_some() {
        warn(UNMARKED);
    }
    for &page in &pages {
        let frame = frames[usize::try_from(page).expect("a page of a block")];
        let location = frame.map_or_else(|| MismatchLocation::of_page(address, page), MismatchLocation::Frame);
        lock(&published.findings).uncorrected(location, machine.clock.now());
    }
    pages
}

const UNMARKED: &str =
    "the hardware reported an error under test that it could not correct, and the kernel does not say in which frame";
