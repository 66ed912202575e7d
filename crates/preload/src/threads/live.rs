//! A working guard: the state that its threads share.

use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

use rampart_guard::Guard;
use rampart_linux::SteadyClock;
use rampart_linux::userfaultfd::Stop;
use rampart_memory::Clock as _;
use rustix::thread::Pid;

use crate::engines::interface::{GuardedMemory, ProcessEngine};
use crate::frames::known_bad::KnownBadPages;
use crate::frames::suspects::SuspectTester;
use crate::reporting::fault_context::FaultContext;
use crate::reporting::published::Published;
use crate::reporting::recorder::JournalRecorder;

use super::request_slot::RequestSlot;

/// The sleep of the maintenance thread if nothing is due; then it adds up averages.
pub(super) const NAP: Duration = Duration::from_millis(50);

/// A working guard.
pub struct LiveGuard {
    pub(super) guard: Guard<'static, dyn ProcessEngine>,
    pub(super) shared: &'static Published,
    pub(super) known: &'static KnownBadPages,
    pub(super) suspects: Arc<SuspectTester>,
    pub(super) recorder: Mutex<JournalRecorder>,
    pub(super) memory: &'static dyn GuardedMemory,
    pub(super) clock: SteadyClock,
    pub(super) stop: Stop,
    pub(super) maintenance: OnceLock<Thread>,
    pub(super) keeper_id: OnceLock<Pid>,
    pub(super) slot: RequestSlot,
    /// While it is not 0, nothing is locked.
    pub(super) paused: AtomicU32,
    /// Nor before this time.
    pub(super) rests_until: Mutex<Option<Instant>>,
    /// The program touched a page beyond correction, and waits for the checkpoint.
    pub(super) held: AtomicBool,
    /// The page, if it is known.
    pub(super) fault_context: Mutex<Option<FaultContext>>,
}

impl LiveGuard {
    pub(super) fn wake_keeper(&self) {
        if self.guard.is_busy(self.clock.now()) {
            self.unpark_keeper();
        }
    }

    pub(super) fn unpark_keeper(&self) {
        self.maintenance.get().expect("a guard that works has a maintenance").unpark();
    }

    pub(super) fn recorder(&self) -> MutexGuard<'_, JournalRecorder> {
        self.recorder.lock().expect("no panic")
    }
}
