//! State that the testers and the watching thread share.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rampart_linux::{Block, Pinning};
use rampart_memory::fault_map::MapOrigin;
use rampart_memory::{Bytes, Clock, FRAME_BYTES, Fidelity};

use super::prepare::WatchPreparation;
use super::{DaemonEvent, Observer, Share, WatchRequest};
use crate::control::dispatch::Tester;
use crate::control::policy::Bandwidth;
use crate::control::{Diagnostic, Work};
use crate::machine::MachineUnderTest;
use crate::sources::DaemonSource;
use crate::sources::free_memory::Step;
use crate::testing::bad_frame::BadFrame;
use crate::testing::publishing::{Publisher, lock};
use crate::testing::record::TestRecorder;

/// The weight of one more block in a tester's speed.
const WEIGHT: f64 = 0.2;

/// The testers' sums.
#[derive(Debug, Default)]
pub struct DaemonSums {
    /// Frames tested, each time counted.
    pub frames: u64,
    /// Reads and writes, in bytes.
    pub traffic: u64,
    /// The testers' time in march tests.
    pub busy: Duration,
    /// Frames whose page moved while it was tested.
    pub moved: u64,
    /// Tested frames without a delayed read, because programs needed them or watching ended.
    pub not_read_late: u64,
    /// Emulated faults that were guaranteed and not found.
    pub missed: Vec<String>,
    /// How blocks were pinned; of several ways, the weakest.
    pub pinning: Option<Pinning>,
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
    halt: AtomicBool,
    wanted_back: AtomicBool,
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
            share_per_mille: AtomicU64::new(request.knobs.shares.beside_programs.per_mille()),
            request,
            machine,
            prepared,
            observer,
            clock,
            diagnostic: Mutex::new(diagnostic),
            published: Publisher::new(recorder),
            sums: Mutex::default(),
            halt: AtomicBool::new(false),
            wanted_back: AtomicBool::new(false),
            regions: AtomicU64::new(0),
        }
    }

    /// A tester's next step.
    pub fn next(&self, tester: Tester) -> Option<Work<Step<Block>>> {
        lock(&self.diagnostic).next(tester)
    }

    /// The number of the next region of the usual size, from 0: for emulated faults at random places.
    pub fn next_region(&self) -> u64 {
        self.regions.fetch_add(1, Ordering::Relaxed)
    }

    /// The part of its time in which a tester may test.
    #[expect(clippy::cast_precision_loss, reason = "at most 1000")]
    pub fn share(&self) -> f64 {
        self.share_per_mille.load(Ordering::Relaxed) as f64 / 1000.0
    }

    /// Sets that part; policies count on the testers' bandwidth with it.
    pub fn set_share(&self, share: Share) {
        if self.share_per_mille.swap(share.per_mille(), Ordering::Relaxed) != share.per_mille() {
            self.tell_bandwidth(*lock(&self.speed));
        }
    }

    /// The length of a thread's rest after so much work.
    pub fn rest_after(&self, worked: Duration) -> Duration {
        let share = self.share();
        worked.mul_f64((1.0 - share) / share)
    }

    /// The part of its time that each of `testers` must test, to test so many frames per second at a fidelity.
    pub fn share_needed(&self, rate: f64, fidelity: Fidelity, testers: u32) -> f64 {
        rate * f64::from(fidelity.backgrounds()) / (*lock(&self.speed) * f64::from(testers)).max(1e-9)
    }

    pub fn stop(&self) {
        self.halt.store(true, Ordering::Relaxed);
    }

    pub fn halted(&self) -> bool {
        self.halt.load(Ordering::Relaxed)
    }

    pub fn want_back(&self, wanted: bool) {
        self.wanted_back.store(wanted, Ordering::Relaxed);
    }

    /// Whether a tester must give its block back now. Tells so one tester.
    pub fn takes_back(&self) -> bool {
        self.wanted_back.load(Ordering::Relaxed) && self.wanted_back.swap(false, Ordering::Relaxed)
    }

    /// Records the time of a tester's work on a block.
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    pub fn took(&self, bytes: Bytes, fidelity: Fidelity, worked: Duration) {
        let frames = (bytes.get() / FRAME_BYTES) as f64 * f64::from(fidelity.backgrounds());
        let seen = frames / worked.as_secs_f64().max(1e-9);
        let mut speed = lock(&self.speed);
        *speed += WEIGHT * (seen - *speed);
        let speed = *speed;
        self.tell_bandwidth(speed);
    }

    fn tell_bandwidth(&self, speed: f64) {
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
