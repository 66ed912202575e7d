//! Turns a mismatch in a block into a finding: its frame, real or emulated, and the evidence.

use std::sync::Mutex;

use rampart_march::Pass;
use rampart_march::execute::Mismatch;
use rampart_memory::fault_map::{Evidence, MapOrigin};
use rampart_memory::{FRAME_BYTES, Frame, Timestamp};

use crate::testing::findings::{Findings, MismatchLocation};
use crate::testing::injected::InjectedFaults;

/// The facts about a block under test that a finding needs.
pub struct Scene<'a> {
    /// The frame of each page.
    pub frames: &'a [Option<Frame>],
    /// The address of the first page in this process.
    pub address: u64,
    /// Its emulated faults.
    pub planted: &'a mut InjectedFaults,
    /// The present pass.
    pub step: &'a Pass,
}

impl Scene<'_> {
    /// Records a mismatch; returns its page of the block.
    pub fn note(&mut self, seen: &Mismatch, at: Timestamp, findings: &Mutex<Findings>) -> u64 {
        let evidence = Evidence {
            at,
            line: seen.line.in_page(),
            expected: seen.expected,
            found: seen.found,
            reread: seen.reread,
            test: self.step.test.to_string(),
            element: u32::try_from(seen.element).unwrap_or(u32::MAX),
            background: self.step.background.name.clone(),
        };
        let origin =
            if self.planted.is_empty() { MapOrigin::Real } else { self.planted.saw(seen.line, &evidence.bits()) };
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
