//! The threads of the guard: the handler of faults, the keeper, and the tester of frames.
//!
//! All keep out of the heap ([`Outside`]) and take no signals but that a page was lost: a handler of the program's would run on them,
//! touch the heap, and wait for itself. They have a table of open files of their own ([`files`]), so what the program's threads want of the
//! guard, they ask of the keeper ([`super::asking`]). How they end the process stands in [`super::ending`].

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use rampart_guard::{Guard, Knobs, Layout, PageIndex, Served, Span};
use rampart_linux::userfaultfd::Stop;
use rampart_linux::{SteadyClock, vault};
use rampart_memory::{Bytes, Clock};
use rustix::process::{Resource, getrlimit};
use rustix::thread::Pid;

use crate::convert::as_vault;
use crate::private::Outside;

use super::beside::Beside;
use super::blocked::Signals;
use super::desk::Desk;
use super::ended::Program;
use super::ending;
use super::files;
use super::frames::Known;
use super::made_up::MadeUp;
use super::memory::{GuardedMemory, ProcessEngine};
use super::recorder::Recorder;
use super::server::Server;
use super::shared::Shared;
use super::suspects::Suspects;
use super::uncounted::Uncounted;
use super::wanted::Wanted;

/// How long the keeper sleeps if nothing is due; then it adds up averages.
pub(super) const NAP: Duration = Duration::from_millis(50);

/// What was used of a range before there was a guard.
#[derive(Clone, Debug, Default)]
pub struct Used {
    /// So much from its start on.
    pub bytes: Bytes,
    /// Pages that were left to the program for good.
    pub left: Vec<Span>,
}

/// A guard that works.
pub struct Live {
    pub(super) guard: Guard<'static, dyn ProcessEngine>,
    pub(super) shared: &'static Shared,
    pub(super) known: &'static Known,
    pub(super) suspects: Arc<Suspects>,
    pub(super) recorder: Mutex<Recorder>,
    pub(super) memory: &'static dyn GuardedMemory,
    pub(super) clock: SteadyClock,
    stop: Stop,
    keeper: OnceLock<Thread>,
    keeper_id: OnceLock<Pid>,
    pub(super) desk: Desk,
    /// While it is not 0, nothing is locked.
    pub(super) paused: AtomicU32,
    /// And until then.
    pub(super) rests_until: Mutex<Option<Instant>>,
    /// The program wanted a page beyond correction, and waits until it is saved.
    pub(super) held: AtomicBool,
    /// The page, where that is known.
    pub(super) wanted: Mutex<Option<Wanted>>,
}

impl Live {
    /// Adopts what was used of the range, and starts the threads.
    pub fn begin(
        memory: &'static dyn GuardedMemory,
        layout: Layout,
        knobs: Knobs,
        used: Used,
    ) -> Result<&'static Self, String> {
        // The C library allocates what belongs to a new thread in the thread that starts it.
        let outside = Outside::enter().map_err(|error| error.to_string())?;
        let signals = Signals::block_all();
        let (answer, answers) = channel();
        let handler = spawn("rampart-handler", move || {
            let begun = Self::begin_here(memory, layout, knobs, &used);
            let live = begun.as_ref().ok().copied();
            // Who started it waits for it.
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

    /// In the thread that is to be the handler: the files are its own, and the keeper's.
    fn begin_here(
        memory: &'static dyn GuardedMemory,
        layout: Layout,
        knobs: Knobs,
        used: &Used,
    ) -> Result<&'static Self, String> {
        files::take_own_table().map_err(|error| error.to_string())?;
        memory.open().map_err(|error| error.to_string())?;
        keep_room(memory.bytes());
        let shared: &'static Shared = Box::leak(Box::new(Shared::new()));
        let known: &'static Known = Box::leak(Box::new(Known::begin(shared.folder(), shared.counts)?));
        let pool = memory.pool(shared, known)?;
        shared.set_addresses(Box::new(|page| memory.address(page)));
        let clock = SteadyClock::default();
        let suspects = Suspects::from_environment(shared, known)?;
        let engine = memory.engine(pool, known, Arc::clone(&suspects));
        let guard = Guard::new(engine, layout, knobs, shared.counts, shared, clock.now());
        let live: &'static Self = Box::leak(Box::new(Self {
            guard,
            shared,
            known,
            suspects,
            recorder: Mutex::new(Recorder::from_environment(clock.now())),
            memory,
            clock,
            stop: Stop::new().map_err(|error| error.to_string())?,
            keeper: OnceLock::new(),
            keeper_id: OnceLock::new(),
            desk: Desk::default(),
            paused: AtomicU32::new(0),
            rests_until: Mutex::default(),
            held: AtomicBool::new(false),
            wanted: Mutex::new(None),
        }));
        // Not in the keeper's thread: a program may bring a `getenv` of its own, which looks into the heap.
        let (errors, server) = (MadeUp::from_environment(), Server::from_environment(shared.folder()));
        let program = Program::of_this_process(if pool.is_some() { 3 } else { 2 });
        // A new thread allocates before it can say that it is the guard's; only then may memory be taken away.
        let (ready, readiness) = channel();
        let keeper = spawn("rampart-keeper", move || {
            Beside::is_keeper(&live.keeper_id);
            ready.send(()).expect("somebody waits");
            live.keep(errors, server, program);
        })?;
        readiness.recv().map_err(|_| "its thread ended".to_owned())?;
        live.keeper.set(keeper).expect("there is one keeper");
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

    /// Blocks of which a page was used before there was a guard.
    fn adopt(&self, used: &Used) -> Result<(), String> {
        used.left.iter().for_each(|span| self.guard.adopt_left(*span));
        let Some(pages) = vault::Span::new(0, used.bytes.frames()) else { return Ok(()) };
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

    /// Serves faults until the process ends.
    fn handle(&'static self) -> ! {
        let beside = RefCell::new(Beside::new(&self.keeper_id));
        let serve = |page, touch, thread: Option<u32>| {
            let served = self.guard.fault(page, touch, self.clock.now(), || {
                self.guard.goes_on(self.clock.now());
                self.wake_keeper();
            });
            if let Some(thread) = thread {
                beside.borrow_mut().served(thread);
            }
            if served == Served::Stop {
                self.stop(Some(Wanted::by(page, thread)));
            }
            served
        };
        match self.memory.serve(&self.stop, &serve, &|page| self.guard.written(page)) {
            Ok(()) => self.cannot_go_on("nobody serves its faults any more"),
            Err(why) => self.cannot_go_on(&why.to_string()),
        }
    }

    pub(super) fn wake_keeper(&self) {
        if self.guard.is_busy(self.clock.now()) {
            self.unpark_keeper();
        }
    }

    pub(super) fn unpark_keeper(&self) {
        self.keeper.get().expect("a guard that works has a keeper").unpark();
    }

    pub(super) fn recorder(&self) -> MutexGuard<'_, Recorder> {
        self.recorder.lock().expect("no panic")
    }
}

/// Where the process may have so many addresses and no more, the guard takes its own before the program has the last: for the codes of a
/// range, a thirty-second of it, and for what it works with.
fn keep_room(range: Bytes) {
    if let Some(limit) = getrlimit(Resource::As).current {
        let room = usize::try_from((range.get() + limit) / 32).unwrap_or(0).min(64 << 20);
        let mut kept = Vec::<u8>::new();
        // What was allocated once stays in the guard's arena. Without it the guard may be out of memory before the program is.
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
        // It reads locked pages, and is told so of one that the hardware gave up.
        Signals::take(libc::SIGBUS);
        if let Err(why) = panic::catch_unwind(AssertUnwindSafe(work)) {
            ending::failed(name, why.as_ref());
        }
    });
    thread.map(|thread| thread.thread().clone()).map_err(|error| format!("cannot start a thread: {error}"))
}
