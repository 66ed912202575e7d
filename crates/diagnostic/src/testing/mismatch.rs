//! Converts a mismatch in a block to a finding: the frame, real or emulated, and the evidence.

use std::sync::Mutex;

use rampart_march::Pass;
use rampart_march::execute::Mismatch;
use rampart_memory::fault_map::{Evidence, MapOrigin};
use rampart_memory::{FRAME_BYTES, Frame, Timestamp};

use crate::testing::findings::{Findings, MismatchLocation};
use crate::testing::injected::InjectedFaults;

/// The parts of a block under test that determine its findings.
pub struct BlockUnderTest<'a> {
    /// The frame of each page.
    pub frames: &'a [Option<Frame>],
    /// The address of the first page in this process.
    pub address: u64,
    /// Its injected faults.
    pub injected: &'a mut InjectedFaults,
    /// The pass of the test plan.
    pub pass: &'a Pass,
    /// The frame of a page of this process now; `None` if the kernel does not move pages of the block.
    pub frame_now: Option<&'a dyn Fn(u64) -> Option<Frame>>,
}

impl BlockUnderTest<'_> {
    /// Records a mismatch; returns its page in the block.
    pub fn note(&mut self, seen: &Mismatch, at: Timestamp, findings: &Mutex<Findings>) -> u64 {
        let evidence = Evidence {
            at,
            line: seen.line.in_page(),
            expected: seen.expected,
            found: seen.found,
            reread: seen.reread,
            test: self.pass.test.to_string(),
            element: u32::try_from(seen.element).unwrap_or(u32::MAX),
            background: self.pass.background.name.clone(),
        };
        let origin =
            if self.injected.is_empty() { MapOrigin::Real } else { self.injected.saw(seen.line, &evidence.bits()) };
        let page = seen.line.page();
        let index = usize::try_from(page).expect("a page of a block");
        // The page may have moved since the test began. Its content moved with it, errors included: they may come from
        // the frame before.
        let stays =
            |frame: &Frame| self.frame_now.is_none_or(|now| now(self.address + page * FRAME_BYTES) == Some(*frame));
        let place = match self.frames[index].filter(stays) {
            Some(frame) => MismatchLocation::Frame(frame),
            None => MismatchLocation::of_page(self.address, page),
        };
        findings.lock().expect("no tester panicked").record(origin, place, evidence);
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampart_march::{AddressSequence, Fidelity, MarchTest, Plan};
    use rampart_memory::{LineData, RegionLine};

    const BASE: u64 = 1 << 20;

    /// Notes a mismatch in the second page of a block, which was in frame 9 when the test began.
    fn noted(frame_now: Option<&dyn Fn(u64) -> Option<Frame>>) -> (Option<Frame>, Option<u64>) {
        let findings = Mutex::new(Findings::default());
        let march: MarchTest = "{⇕(w0)}".parse().unwrap();
        let plan = Plan::new(march, Fidelity::MIN, &[AddressSequence::Sequential], 1);
        let seen = Mismatch {
            line: RegionLine(64),
            expected: LineData::ZERO,
            found: LineData::ZERO.inverted(),
            reread: LineData::ZERO,
            element: 0,
            op: 0,
            order: AddressSequence::Sequential,
            emulated: false,
        };
        let frames = [Frame::new(7), Frame::new(9)];
        let (mut injected, pass) = (InjectedFaults::default(), &plan.passes()[0]);
        let mut block = BlockUnderTest { frames: &frames, address: BASE, injected: &mut injected, pass, frame_now };
        assert_eq!(block.note(&seen, Timestamp::from_micros(1), &findings), 1);
        let bad = &findings.lock().unwrap().bad_frames()[0];
        (bad.frame, bad.page)
    }

    #[test]
    fn a_mismatch_in_a_page_that_moved_names_no_frame() {
        let frame = Frame::new(9);
        assert_eq!(noted(None), (frame, None), "pages of a pinned block do not move");
        let asked = |address| if address == BASE + FRAME_BYTES { frame } else { None };
        assert_eq!(noted(Some(&asked)), (frame, None), "it is where it was");
        let page = Some(BASE + FRAME_BYTES);
        assert_eq!(noted(Some(&|_| Frame::new(8))), (None, page), "it has moved");
        assert_eq!(noted(Some(&|_| None)), (None, page), "nobody knows where it is");
    }
}
