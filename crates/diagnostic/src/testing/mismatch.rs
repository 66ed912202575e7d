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
        let place = match self.frames[index] {
            Some(frame) => MismatchLocation::Frame(frame),
            None => {
                let number = self.address / FRAME_BYTES + page;
                MismatchLocation::Page(Frame::new(number).expect("addresses of a process are below 2^52"))
            }
        };
        findings.lock().expect("no tester panicked").record(origin, place, evidence);
        page
    }
}
