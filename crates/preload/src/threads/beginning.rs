//! The start of the guard's threads.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, Thread};

use rampart_guard::{Guard, GuardSettings, Layout, PageIndex, PageSpan};
use rampart_linux::userfaultfd::Stop;
use rampart_linux::{SteadyClock, vault};
use rampart_memory::{Bytes, Clock as _};
use rustix::process::{Resource, getrlimit};

use crate::convert::as_vault;
use crate::engines::interface::GuardedMemory;
use crate::frames::known_bad::KnownBadPages;
use crate::frames::suspects::SuspectTester;
use crate::heap::private::Outside;
use crate::reporting::liveness::ServerLiveness;
use crate::reporting::published::Published;
use crate::reporting::recorder::JournalRecorder;

use super::descriptors;
use super::ending;
use super::injector::ErrorInjector;
use super::last_thread::ProgramThreads;
use super::live::LiveGuard;
use super::placement::Beside;
use super::request_slot::RequestSlot;
use super::signal_mask::Signals;
use super::unregistered::Uncounted;

/// Memory of a range that was used before the guard began.
#[derive(Clone, Debug, Default)]
pub struct Used {
    /// So many bytes from its start.
    pub bytes: Bytes,
    /// Excluded pages.
    pub left: Vec<PageSpan>,
}

impl LiveGuard {
    /// Adopts used memory of the range, and starts the threads.
    pub fn begin(
        memory: &'static dyn GuardedMemory,
        layout: Layout,
        settings: GuardSettings,
        used: Used,
    ) -> Result<&'static Self, String> {
        // The C library allocates a new thread's data in the thread that starts it.
        let outside = Outside::enter().map_err(|error| error.to_string())?;
        let signals = Signals::block_all();
        let (answer, answers) = channel();
        let handler = spawn("rampart-handler", move || {
            let begun = Self::begin_here(memory, layout, settings, &used);
            let live = begun.as_ref().ok().copied();
            // The starting thread waits for it.
            answer.send(begun).expect("somebody waits");
            if let Some(live) = live {
                live.handle()
            }
        });
        drop(signals);
        handler?;
        let begun = answers.recv().map_err(|_| "its thread ended".to_owned())?;
        drop(outside);
        begun
    }

    /// In the thread that becomes the fault handler: the files are its own, and the maintenance thread's.
    fn begin_here(
        memory: &'static dyn GuardedMemory,
        layout: Layout,
        settings: GuardSettings,
        used: &Used,
    ) -> Result<&'static Self, String> {
        descriptors::take_own_table().map_err(|error| error.to_string())?;
        memory.open().map_err(|error| error.to_string())?;
        keep_room(memory.bytes());
        let shared: &'static Published = Box::leak(Box::new(Published::new()));
        let known: &'static KnownBadPages = Box::leak(Box::new(KnownBadPages::begin(shared.folder(), shared.counts)?));
        let pool = memory.pool(shared, known)?;
        shared.set_addresses(Box::new(|page| memory.address(page)));
        let clock: &'static SteadyClock = Box::leak(Box::new(SteadyClock::default()));
        let suspects = SuspectTester::from_environment(shared, known)?;
        let engine = memory.engine(pool, known, Arc::clone(&suspects));
        let guard = Guard::new(engine, layout, settings, shared.counts, shared, clock);
        let live: &'static Self = Box::leak(Box::new(Self {
            guard,
            shared,
            known,
            suspects,
            recorder: Mutex::new(JournalRecorder::from_environment(clock.now())),
            memory,
            clock: *clock,
            stop: Stop::new().map_err(|error| error.to_string())?,
            maintenance: OnceLock::new(),
            keeper_id: OnceLock::new(),
            slot: RequestSlot::default(),
            paused: AtomicU32::new(0),
            rests_until: Mutex::default(),
            held: AtomicBool::new(false),
            fault_context: Mutex::new(None),
        }));
        // Not in the maintenance thread: a program may bring a `getenv` of its own, which reads the heap.
        let (errors, server) = (ErrorInjector::from_environment(), ServerLiveness::from_environment(shared.folder()));
        let program = ProgramThreads::of_this_process(if pool.is_some() { 3 } else { 2 });
        // A new thread allocates before it can mark itself as the guard's; only then may memory be locked.
        let (ready, readiness) = channel();
        let maintenance = spawn("rampart-maintenance", move || {
            Beside::is_maintenance(&live.keeper_id);
            ready.send(()).expect("somebody waits");
            live.keep(errors, server, program);
        })?;
        readiness.recv().map_err(|_| "its thread ended".to_owned())?;
        live.maintenance.set(maintenance).expect("there is one maintenance");
        if let Some(pool) = pool {
            let (ready, readiness) = channel();
            pool.set_tester(spawn("rampart-tester", move || {
                ready.send(()).expect("somebody waits");
                live.test_frames(pool);
            })?);
            readiness.recv().map_err(|_| "its thread ended".to_owned())?;
        }
        let left: Vec<_> = used.left.iter().map(|span| as_vault(*span)).collect();
        memory.arm(used.bytes, &left).map_err(|error| error.to_string())?;
        memory.keep_from_children(&left).map_err(|error| error.to_string())?;
        live.adopt(used)?;
        Ok(live)
    }

    /// Blocks with a page that was used before the guard began.
    fn adopt(&self, used: &Used) -> Result<(), String> {
        used.left.iter().for_each(|span| self.guard.adopt_left(*span));
        let Some(pages) = vault::VaultSpan::new(0, used.bytes.frames()) else { return Ok(()) };
        let mut last = None;
        let mut adopt = |page| {
            let block = self.guard.layout().block_of(PageIndex(page)).expect("what is used is in the range");
            if last != Some(block) {
                self.guard.adopt(block, self.clock.now());
                last = Some(block);
            }
        };
        self.memory.each_used(pages, &mut adopt).map_err(|error| error.to_string())
    }
}

/// If the process has an address limit, the guard takes its own addresses before the program has the last: for the
/// codes of a range, a thirty-second of it, and for its work.
fn keep_room(range: Bytes) {
    if let Some(limit) = getrlimit(Resource::As).current {
        let room = usize::try_from((range.get() + limit) / 32).unwrap_or(0).min(64 << 20);
        let mut kept = Vec::<u8>::new();
        // Memory that was allocated once stays in the guard's arena. Otherwise the guard may be out of memory before
        // the program is.
        let _ = kept.try_reserve_exact(room);
        std::hint::black_box(kept.as_ptr());
    }
}

/// Starts a thread of the guard, which ends the process if it fails: somebody waits for it.
fn spawn(name: &'static str, work: impl FnOnce() + Send + 'static) -> Result<Thread, String> {
    let thread = thread::Builder::new().name(name.to_owned()).stack_size(256 << 10).spawn(move || {
        // As long as the process.
        std::mem::forget(Outside::enter().expect("the guard has few threads"));
        let _uncounted = Uncounted::enter();
        // It reads locked pages, and a signal tells it when the hardware lost one.
        Signals::take(libc::SIGBUS);
        if let Err(why) = panic::catch_unwind(AssertUnwindSafe(work)) {
            ending::failed(name, why.as_ref());
        }
    });
    thread.map(|thread| thread.thread().clone()).map_err(|error| format!("cannot start a thread: {error}"))
}
