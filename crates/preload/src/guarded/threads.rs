//! The threads of the guard: the handler of faults, the keeper, and the tester of frames.
//!
//! All keep out of the heap ([`Outside`]) and take no signals but that a page was lost: a handler of the program's would run on them,
//! touch the heap, and wait for itself. They have a table of open files of their own ([`files`]), so what the program's threads want of the
//! guard, they ask of the keeper ([`Desk`]).

#![allow(unsafe_code, reason = "ends the process and blocks signals by calls of the C library")]

use std::cell::RefCell;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use rampart_guard::{Counter, Guard, Knobs, Layout, OnError, PageIndex, Served, Span};
use rampart_linux::SteadyClock;
use rampart_linux::userfaultfd::Stop;
use rampart_memory::{Bytes, Clock, FRAME_BYTES};
use rustix::thread::Pid;

use crate::private::Outside;

use super::beside::Beside;
use super::desk::{Desk, Request};
use super::files;
use super::frames::Known;
use super::made_up::MadeUp;
use super::memory::{AnyEngine, Memory};
use super::recorder::Recorder;
use super::server::Server;
use super::shared::Shared;
use super::uncounted::Uncounted;
use super::wanted::Wanted;

/// How the process ends if a page is beyond correction.
const STOPPED: i32 = 86;

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
    pub(super) guard: Guard<'static, AnyEngine>,
    pub(super) shared: &'static Shared,
    pub(super) known: &'static Known,
    recorder: Mutex<Recorder>,
    memory: &'static Memory,
    pub(super) clock: SteadyClock,
    stop: Stop,
    keeper: OnceLock<Thread>,
    keeper_id: OnceLock<Pid>,
    desk: Desk,
    /// While it is not 0, nothing is locked.
    pub(super) paused: AtomicU32,
    /// The program wanted a page beyond correction, and waits until it is saved.
    held: AtomicBool,
    /// The page, where that is known.
    wanted: Mutex<Option<Wanted>>,
}

impl Live {
    /// Adopts what was used of the range, and starts the threads.
    pub fn begin(memory: &'static Memory, layout: Layout, knobs: Knobs, used: Used) -> Result<&'static Self, String> {
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
                live.handle();
            }
        });
        drop(signals);
        handler?;
        let begun = answers.recv().map_err(|_| "its thread ended".to_owned())?;
        drop(outside);
        begun
    }

    /// In the thread that is to be the handler: the files are its own, and the keeper's.
    fn begin_here(memory: &'static Memory, layout: Layout, knobs: Knobs, used: &Used) -> Result<&'static Self, String> {
        files::take_own_table().map_err(|error| error.to_string())?;
        memory.open().map_err(|error| error.to_string())?;
        let shared: &'static Shared = Box::leak(Box::new(Shared::new()));
        let known: &'static Known = Box::leak(Box::new(Known::begin(shared.folder(), shared.counts)?));
        let pool = memory.pool(shared, known)?;
        shared.is_of(memory);
        let clock = SteadyClock::default();
        let guard = Guard::new(memory.engine(pool, known), layout, knobs, shared.counts, shared, clock.now());
        let live: &'static Self = Box::leak(Box::new(Self {
            guard,
            shared,
            known,
            recorder: Mutex::new(Recorder::from_environment(clock.now())),
            memory,
            clock,
            stop: Stop::new().map_err(|error| error.to_string())?,
            keeper: OnceLock::new(),
            keeper_id: OnceLock::new(),
            desk: Desk::default(),
            paused: AtomicU32::new(0),
            held: AtomicBool::new(false),
            wanted: Mutex::new(None),
        }));
        // Not in the keeper's thread: a program may bring a `getenv` of its own, which looks into the heap.
        let (errors, server) = (MadeUp::from_environment(), Server::from_environment(shared.folder()));
        // A new thread allocates before it can say that it is the guard's; only then may memory be taken away.
        let (ready, readiness) = channel();
        let keeper = spawn("rampart-keeper", move || {
            Beside::is_keeper(&live.keeper_id);
            ready.send(()).expect("somebody waits");
            live.keep(errors, server);
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
        memory.arm(used.bytes, &used.left).map_err(|error| error.to_string())?;
        live.adopt(used)?;
        Ok(live)
    }

    /// Blocks of which a page was used before there was a guard.
    fn adopt(&self, used: &Used) -> Result<(), String> {
        used.left.iter().for_each(|span| self.guard.adopt_left(*span));
        let mut last = None;
        let adopt = |page| {
            let block = self.guard.layout().block_of(PageIndex(page)).expect("what is used is in the range");
            if last != Some(block) {
                self.guard.adopt(block, self.clock.now());
                last = Some(block);
            }
        };
        self.memory.each_used(used.bytes, adopt).map_err(|error| error.to_string())
    }

    /// Serves faults until the process ends.
    fn handle(&'static self) {
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
        self.memory.serve(&self.stop, serve);
    }

    fn wake_keeper(&self) {
        if self.guard.is_busy(self.clock.now()) {
            self.unpark_keeper();
        }
    }

    fn unpark_keeper(&self) {
        self.keeper.get().expect("a guard that works has a keeper").unpark();
    }

    /// Does what it is asked, and locks what is due, until the process ends.
    fn keep(&self, mut errors: Option<MadeUp>, mut server: Server) {
        while !self.held.load(Ordering::Acquire) {
            self.look_at(&mut server);
            self.desk.serve(|request| self.grant(request));
            let idle = match self.paused.load(Ordering::Acquire) {
                0 => self.guard.keep(self.clock.now()).unwrap_or(NAP),
                _ => NAP,
            };
            if let Some(errors) = errors.as_mut().filter(|_| self.paused.load(Ordering::Acquire) == 0) {
                errors.err(&self.guard);
            }
            self.recorder().step(
                self.clock.now(),
                || self.guard.sample(self.clock.now()),
                self.shared.accesses.as_ref(),
            );
            if !idle.is_zero() {
                thread::park_timeout(idle.min(NAP));
            }
        }
        self.wait_for_checkpoint();
    }

    /// The end of a program that wanted a page beyond correction and is to be saved first: all that is good is opened, and nothing is locked,
    /// until that is done.
    fn wait_for_checkpoint(&self) -> ! {
        self.guard.open_all(self.clock.now());
        self.shared.stops(true, self.wanted.lock().expect("no panic").as_ref());
        while !self.shared.has_answer() {
            thread::sleep(NAP);
        }
        self.end_process()
    }

    /// In the keeper's thread, which has the files that this may want.
    fn grant(&self, request: Request) {
        let now = self.clock.now();
        let served = match request {
            Request::OpenAll => {
                self.paused.fetch_add(1, Ordering::AcqRel);
                let began = Instant::now();
                let served = self.guard.open_all(now);
                self.guard.waited(began.elapsed());
                served
            }
            Request::Zero(span) => self.guard.zero(span, now),
            Request::Leave(span) => self.guard.leave(span, now),
            Request::Hold(span) => self.guard.hold(span, now),
            // The process ends: from here on nothing is locked, and no memory is made to err that nobody would look at.
            Request::VerifyAll => {
                self.paused.fetch_add(1, Ordering::AcqRel);
                self.guard.verify_all();
                self.write_down();
                Served::GoesOn
            }
        };
        if served == Served::Stop {
            self.stop(None);
            self.wait_for_checkpoint();
        }
    }

    /// In a thread of the program's: returns once the keeper has done it.
    fn ask(&self, request: Request) {
        // A handler of the program's that asked as well would wait for the thread that it interrupted.
        let _signals = Signals::block_all();
        self.desk.ask(request, || self.unpark_keeper());
    }

    /// In a thread of the guard that reads the vault, and holds no lock but that of a block: the page there was given up by the hardware.
    pub fn lost(&self, address: usize) -> bool {
        let Some((page, frame)) = self.guard.engine().replace_lost(address) else { return false };
        self.shared.lost_page(page, frame);
        true
    }

    /// Opens everything, and locks nothing until [`Live::go_on`].
    pub fn open_all(&self) {
        self.ask(Request::OpenAll);
    }

    /// Ends what [`Live::open_all`] began.
    pub fn go_on(&self) {
        self.paused.fetch_sub(1, Ordering::AcqRel);
        self.wake_keeper();
    }

    /// The content of so many pages is not needed. `false`: it stays.
    pub fn forget(&self, first: u64, pages: u64) -> bool {
        let Some(count) = NonZero::new(pages) else { return true };
        self.guard.forget(Span { first: PageIndex(first), count })
    }

    /// Whole blocks are the guard's again, with nothing in them.
    pub fn take_back(&self, span: Span) {
        assert!(self.guard.take_back(span), "whole blocks");
    }

    /// Bytes of a block.
    pub fn block(&self) -> usize {
        usize::try_from(self.guard.layout().block_bytes().get()).expect("a block has addresses")
    }

    /// So many bytes of mappings are guarded.
    pub fn count_mapped(&self, bytes: usize) {
        let (counts, pages) = (self.shared.counts, bytes as u64 / FRAME_BYTES);
        counts.set(Counter::MostMapped, pages.max(counts.get(Counter::MostMapped)));
    }

    /// So many bytes of static data are guarded, and so many are not.
    pub fn count_data(&self, guarded: usize, left: usize) {
        let pages = |bytes: usize| bytes as u64 / FRAME_BYTES;
        self.shared.counts.set(Counter::Data, pages(guarded));
        self.shared.counts.set(Counter::LeftData, pages(left));
    }

    /// A mapping could not be guarded.
    pub fn count_left_mapping(&self) {
        self.shared.counts.add(Counter::LeftMappings, 1);
    }

    /// The program gives pages back by itself.
    pub fn zero(&self, span: Span) {
        self.ask(Request::Zero(span));
    }

    /// A system call is about to use pages, until [`Live::release`].
    pub fn hold(&self, span: Span) {
        let signals = Signals::block_all();
        let held = self.guard.hold_open(span);
        drop(signals);
        if !held {
            self.ask(Request::Hold(span));
        }
    }

    /// Ends [`Live::hold`].
    pub fn release(&self, span: Span) {
        let _signals = Signals::block_all();
        self.guard.release(span);
    }

    /// The program changes the mapping of pages by itself.
    pub fn leave(&self, span: Span) {
        self.ask(Request::Leave(span));
    }

    /// The end of the process: what is locked is verified once more, and nothing is locked any more.
    pub fn end(&self) {
        self.ask(Request::VerifyAll);
    }

    fn recorder(&self) -> MutexGuard<'_, Recorder> {
        self.recorder.lock().expect("no panic")
    }

    /// The last records.
    fn write_down(&self) {
        let sample = self.guard.sample(self.clock.now());
        self.recorder().write(|| sample, self.shared.accesses.as_ref());
    }

    /// The program must not see a page that a thread of it wants: ends the process, at once or by the keeper as soon as what can be saved was.
    /// In the latter case other pages are served meanwhile.
    fn stop(&self, wanted: Option<Wanted>) {
        let is_first = {
            let mut first = self.wanted.lock().expect("no panic");
            let is_first = !self.held.load(Ordering::Acquire);
            if is_first {
                *first = wanted;
            }
            is_first
        };
        if self.guard.on_error() != OnError::Checkpoint || !self.shared.is_read() {
            self.end_process();
        }
        if is_first {
            self.held.store(true, Ordering::Release);
            self.unpark_keeper();
        }
    }

    fn end_process(&self) -> ! {
        self.shared.stops(false, self.wanted.lock().expect("no panic").as_ref());
        self.exit()
    }

    /// Ends the process, of which what was done so far is written down.
    pub(super) fn exit(&self) -> ! {
        self.write_down();
        // SAFETY: it ends the process and runs nothing of the program's.
        unsafe { libc::_exit(STOPPED) }
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<Thread, String> {
    let thread = thread::Builder::new().name(name.to_owned()).stack_size(256 << 10).spawn(move || {
        // As long as the process.
        std::mem::forget(Outside::enter().expect("the guard has few threads"));
        let _uncounted = Uncounted::enter();
        Signals::take_losses();
        work();
    });
    thread.map(|thread| thread.thread().clone()).map_err(|error| format!("cannot start a thread: {error}"))
}

/// All signals are blocked on this thread, and on those that it starts, while this lives.
pub struct Signals(libc::sigset_t);

impl Signals {
    pub fn block_all() -> Self {
        // SAFETY: sets of signals are plain data, and both calls are given places for them.
        unsafe {
            let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            Self(before)
        }
    }

    /// This thread reads locked pages: it is told by SIGBUS of one that the hardware gave up.
    fn take_losses() {
        // SAFETY: a set of signals is plain data, and both calls are given a place for it.
        unsafe {
            let mut only = std::mem::zeroed();
            libc::sigemptyset(&raw mut only);
            libc::sigaddset(&raw mut only, libc::SIGBUS);
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const only, std::ptr::null_mut());
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // SAFETY: the set is what the thread had before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut()) };
    }
}
