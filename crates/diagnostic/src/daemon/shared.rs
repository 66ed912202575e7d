//! The state that the daemon's threads share.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rampart_memory::fault_map::MapOrigin;
use rampart_memory::{Bytes, Clock, FRAME_BYTES, Fidelity, Frame};

use super::prepare::WatchPreparation;
use super::{DaemonEvent, Observer, Share, WatchRequest};
use crate::control::dispatch::Tester;
use crate::control::policy::Bandwidth;
use crate::control::{Diagnostic, Work};
use crate::machine::MachineUnderTest;
use crate::sources::DaemonSource;
use crate::sources::step::{Step, StepHold, StepMemory};
use crate::testing::bad_frame::BadFrame;
use crate::testing::interruption::Interruption;
use crate::testing::publishing::{Publisher, lock};
use crate::testing::record::TestRecorder;

/// The weight of one more block in the average speed of a tester.
const WEIGHT: f64 = 0.2;

/// The totals of all testers.
#[derive(Debug, Default)]
pub struct DaemonSums {
    /// Frame tests; a frame counts each time that it is tested.
    pub frames: u64,
    /// Bytes read and written.
    pub traffic: u64,
    /// Total testing time of all testers.
    pub busy: Duration,
    /// Frames whose page moved during the test.
    pub moved: u64,
    /// Tested frames whose delayed read was skipped, because programs needed them back or the daemon stopped.
    pub not_read_late: u64,
    /// Injected faults within the detection guarantee that were not found.
    pub missed: Vec<String>,
    /// The weakest way in which memory was held in place.
    pub hold: Option<StepHold>,
}

/// The shared state.
pub struct DaemonContext<'a> {
    pub request: &'a WatchRequest,
    pub machine: &'a MachineUnderTest,
    pub prepared: &'a WatchPreparation,
    pub observer: &'a dyn Observer,
    pub clock: &'a (dyn Clock + Sync),
    pub diagnostic: Mutex<Diagnostic<Box<dyn DaemonSource + Send + 'a>>>,
    pub published: Publisher<'a>,
    pub sums: Mutex<DaemonSums>,
    /// Frames per second at fidelity 1, by one tester that never rests.
    speed: Mutex<f64>,
    share_per_mille: AtomicU64,
    pub interruption: Interruption,
    regions: AtomicU64,
}

impl<'a> DaemonContext<'a> {
    pub fn new(
        request: &'a WatchRequest,
        machine: &'a MachineUnderTest,
        prepared: &'a WatchPreparation,
        observer: &'a dyn Observer,
        clock: &'a (dyn Clock + Sync),
        recorder: TestRecorder<'a>,
        diagnostic: Diagnostic<Box<dyn DaemonSource + Send + 'a>>,
    ) -> Self {
        Self {
            speed: Mutex::new(prepared.bandwidth(request).at_fidelity_1),
            share_per_mille: AtomicU64::new(request.settings.shares.beside_programs.per_mille()),
            request,
            machine,
            prepared,
            observer,
            clock,
            diagnostic: Mutex::new(diagnostic),
            published: Publisher::new(recorder),
            sums: Mutex::default(),
            interruption: Interruption::default(),
            regions: AtomicU64::new(0),
        }
    }

    /// Returns a tester's next step.
    pub fn next(&self, tester: Tester) -> Option<Work<Step<StepMemory>>> {
        lock(&self.diagnostic).next(tester)
    }

    /// The pages of a step that are known to be bad and are to be retired with it; the pool keeps its own out of use.
    pub fn known_bad_pages(&self, memory: &StepMemory, frames: &[Option<Frame>]) -> BTreeSet<u64> {
        let is_bad = |frame: &Option<Frame>| frame.is_some_and(|frame| self.prepared.known_bad.contains(&frame));
        match memory {
            StepMemory::Program(_) => BTreeSet::new(),
            StepMemory::Chosen(_) => {
                (0..).zip(frames).filter(|(_, frame)| is_bad(frame)).map(|(page, _)| page).collect()
            }
        }
    }

    /// Returns the number of the next region of the usual size, from 0: for injected faults at random places.
    pub fn next_region(&self) -> u64 {
        self.regions.fetch_add(1, Ordering::Relaxed)
    }

    /// The fraction of its time in which a tester may test.
    #[expect(clippy::cast_precision_loss, reason = "at most 1000")]
    pub fn share(&self) -> f64 {
        self.share_per_mille.load(Ordering::Relaxed) as f64 / 1000.0
    }

    /// Sets that fraction, and reports the resulting bandwidth to the policy.
    pub fn set_share(&self, share: Share) {
        if self.share_per_mille.swap(share.per_mille(), Ordering::Relaxed) != share.per_mille() {
            self.report_bandwidth(*lock(&self.speed));
        }
    }

    /// How long a thread must rest after it worked for `worked`.
    pub fn rest_after(&self, worked: Duration) -> Duration {
        let share = self.share();
        worked.mul_f64((1.0 - share) / share)
    }

    /// The fraction of its time for which each of `testers` testers must test, to test `rate` frames per second at a
    /// fidelity.
    pub fn share_needed(&self, rate: f64, fidelity: Fidelity, testers: u32) -> f64 {
        rate * f64::from(fidelity.backgrounds()) / (*lock(&self.speed) * f64::from(testers)).max(1e-9)
    }

    /// Records how long a tester worked on a block.
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    pub fn took(&self, bytes: Bytes, fidelity: Fidelity, worked: Duration) {
        let frames = (bytes.get() / FRAME_BYTES) as f64 * f64::from(fidelity.backgrounds());
        let seen = frames / worked.as_secs_f64().max(1e-9);
        let mut speed = lock(&self.speed);
        *speed += WEIGHT * (seen - *speed);
        let speed = *speed;
        self.report_bandwidth(speed);
    }

    fn report_bandwidth(&self, speed: f64) {
        lock(&self.diagnostic).measured(Bandwidth { at_fidelity_1: speed * self.share() });
    }

    /// Writes new facts, then reports them.
    pub fn publish(&self) {
        self.published.publish(|bad| self.report(bad));
    }

    /// [`DaemonContext::publish`], if it is due.
    pub fn publish_if_due(&self) {
        self.published.publish_if_due(|bad| self.report(bad));
    }

    fn report(&self, bad: BadFrame) {
        self.observer.bad_frame(&bad);
        self.happened(&DaemonEvent::BadFrame { bad: Box::new(bad) });
    }

    pub fn happened(&self, event: &DaemonEvent) {
        self.observer.happened(self.clock.now(), event);
    }

    /// Bad frames and pages found, real and emulated.
    pub fn bad_frames(&self) -> (u64, u64) {
        let bad = lock(&self.published.findings).bad_frames();
        let emulated = bad.iter().filter(|bad| bad.origin == MapOrigin::Emulated).count() as u64;
        (bad.len() as u64 - emulated, emulated)
    }
}
