//! The guard of this process: a heap on memory that can be locked.
//!
//! **Problem.** The first allocation comes before a thread can be started, and a locked page needs a thread that
//! unlocks it. **Idea.** The range exists from the start and is ordinary memory until the constructor: then it is
//! armed, memory in use is adopted, and the three threads of the guard begin. **Why this way.** Nothing moves when the
//! guard begins, and a process that ends before its constructor has lost nothing.
//!
//! Before a *fork*, everything is unlocked: a child has no thread of the guard, and the C library uses the heap in the
//! child before any handler of ours runs. Then each of the two processes has a guard of its own; the child's begins
//! anew.

#![allow(unsafe_code, reason = "the memory and the guard live as long as the process, behind pointers")]

mod core_dump;
mod mark;

use std::env;
use std::fs;
use std::num::NonZero;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use rampart_guard::accesses::Touch;
use rampart_guard::server::UNGUARDED;
use rampart_guard::{EngineKind, GuardSettings, Layout, PageIndex};
use rampart_linux::Window;
use rampart_memory::{Bytes, FRAME_BYTES, PAGE_BYTES};
use rustix::io::Errno;

use crate::convert::as_vault;
use crate::engines;
use crate::engines::interface::GuardedMemory;
use crate::engines::mailbox::FaultAnswer;
use crate::error::Error;
use crate::heap::arenas::LEAST_RANGE;
use crate::heap::backing::{BackingSpan, HeapBacking, Plain, length};
use crate::heap::private::is_private;
use crate::messages::say;
use crate::reporting::folder;
use crate::threads::beginning::Used;
use crate::threads::live::LiveGuard;
use crate::threads::signal_mask::Signals;

use self::mark::ProcessMark;

/// Memory behind a guard if the environment requests one, ordinary memory otherwise.
#[derive(Debug, Default)]
pub struct ProcessGuard {
    /// The heap's memory; null: ordinary memory. Created once, for the life of the process. In two boxes, because an
    /// atomic pointer has no room for a trait's table.
    memory: AtomicPtr<Box<dyn GuardedMemory>>,
    /// The guard; null before the constructor. Created anew in each child.
    live: AtomicPtr<LiveGuard>,
    /// The process of the guard.
    process: AtomicU32,
    /// Whether nothing is locked any more, and all used memory is ordinary; in children too.
    is_let_go: AtomicBool,
    /// Recognises a child that has a copy of all this, and no guard.
    mark: ProcessMark,
    /// Bytes of guarded and of unguarded static data.
    data: AtomicUsize,
    left_data: AtomicUsize,
}

impl ProcessGuard {
    /// A guard that has not begun.
    pub const fn new() -> Self {
        Self {
            memory: AtomicPtr::new(ptr::null_mut()),
            live: AtomicPtr::new(ptr::null_mut()),
            process: AtomicU32::new(0),
            is_let_go: AtomicBool::new(false),
            mark: ProcessMark::new(),
            data: AtomicUsize::new(0),
            left_data: AtomicUsize::new(0),
        }
    }

    /// The memory that can be locked, if the heap is on such.
    fn memory(&self) -> Option<&'static dyn GuardedMemory> {
        // SAFETY: it is null, or came from a box that was leaked; it is changed only by `after_fork_in_child`, when
        // there is no other thread and no reference is in use.
        unsafe { self.memory.load(Ordering::Acquire).as_ref() }.map(Box::as_ref)
    }

    /// The guard of this process, or of the one whose memory it borrows; a copy of a guard does not count.
    fn live(&self) -> Option<&'static LiveGuard> {
        // SAFETY: it is null, or came from a reference that lives as long as the process.
        unsafe { self.live.load(Ordering::Acquire).as_ref() }.filter(|_| !self.mark.is_wiped())
    }

    /// Whether an address is in memory that was kept from this process: an unseen system call made it, so it has a copy
    /// of the guard's data without the guard.
    pub fn is_missing(&self, address: usize) -> bool {
        self.mark.is_wiped() && !self.live.load(Ordering::Acquire).is_null() && self.owns(address)
    }

    /// Memory that the program has elsewhere, as pages of the range from `inside` on.
    pub fn window(&self, inside: usize, memory: Range<usize>) -> Option<Window> {
        let first = self.memory()?.find(inside)?;
        let span = rampart_linux::vault::VaultSpan::new(first, memory.len() as u64 / FRAME_BYTES)?;
        let address = NonNull::new(ptr::with_exposed_provenance_mut(memory.start))?;
        Some(Window { span, address })
    }

    /// Puts such memory under the guard that is about to begin. Returns how many bytes of it could be.
    ///
    /// # Safety
    /// As for [`rampart_linux::vault::Vault::show`].
    pub unsafe fn show(&self, windows: &[Window]) -> usize {
        // SAFETY: guaranteed by the caller.
        let shown = self.memory().map_or(&[][..], |memory| unsafe { memory.show(windows) });
        shown.iter().map(|window| length(window.span.bytes())).sum()
    }

    /// Records how many bytes of static data are guarded, and how many are not.
    pub fn count_data(&self, guarded: usize, left: usize) {
        self.data.store(guarded, Ordering::Relaxed);
        self.left_data.store(left, Ordering::Relaxed);
    }

    /// Begins to guard the heap, its used part and all that follows, if the environment requests it. In the
    /// constructor. Memory that the program has changed already stays excluded (`left`).
    pub fn begin(&'static self, used: Option<BackingSpan>, left: &[Range<usize>]) {
        let Some(memory) = self.memory() else { return };
        let left = left.iter().filter_map(|left| self.pages(left.start, left.len())).collect();
        if let Err(why) = self.go_live(memory, used, left) {
            say_once(&format!("rampart: the heap is not guarded: {why}\n"));
        }
    }

    fn go_live(
        &'static self,
        memory: &'static dyn GuardedMemory,
        used: Option<BackingSpan>,
        left: Vec<rampart_guard::PageSpan>,
    ) -> Result<(), String> {
        let settings = settings()?;
        let layout = Layout::new(memory.bytes(), settings.block_pages, settings.unit_pages);
        let layout = layout.ok_or("the range is not a number of blocks")?;
        let used = Used { bytes: used.map_or(Bytes::ZERO, |used| used.bytes), left };
        let live = LiveGuard::begin(memory, layout, settings, used)?;
        live.count_data(self.data.load(Ordering::Relaxed), self.left_data.load(Ordering::Relaxed));
        self.process.store(std::process::id(), Ordering::Relaxed);
        self.mark.set();
        self.live.store(ptr::from_ref(live).cast_mut(), Ordering::Release);
        Ok(())
    }

    /// Unlocks everything, for children too, until one of the three functions below is called; except for excluded
    /// memory (`left`), whose inheritance the program has set.
    pub fn before_fork(&self, left: &[Range<usize>]) {
        if let Some(live) = self.live() {
            live.open_all(left);
        }
    }

    /// The guard goes on.
    pub fn after_fork_in_parent(&self, left: &[Range<usize>]) {
        if let (Some(live), Some(memory)) = (self.live(), self.memory()) {
            if !self.is_let_go() {
                memory.unsplit();
            }
            live.go_on(left);
        }
    }

    /// A child goes on without a guard, on ordinary memory: a guard could not begin there, because threads that the
    /// child lacks may hold locks.
    pub fn stay_alone_in_child(&self, left: &[Range<usize>]) {
        self.live.store(ptr::null_mut(), Ordering::Release);
        let Some(memory) = self.memory().filter(|_| !self.is_let_go()) else { return };
        let left: Vec<_> = left.iter().filter_map(|left| memory.pages_at(left.clone())).collect();
        if memory.stay_alone(&left).is_err() {
            say("rampart: the kernel refuses a child the memory that was under guard\n");
        }
    }

    /// Counts a child that is not guarded.
    pub fn count_left_child(&self) {
        if let Some(live) = self.live() {
            live.count_left_child();
        }
    }

    /// Pages that the program changed are the guard's again: unannounced children do not get them.
    pub fn keep_from_children(&self, address: usize, length: usize) {
        if let (Some(live), Some(span)) = (self.live(), self.pages(address, length)) {
            live.keep_from_children(span);
        }
    }

    /// The child's own guard begins. Excluded memory (`left`) stays excluded.
    pub fn after_fork_in_child(&'static self, used: Option<BackingSpan>, left: &[Range<usize>]) {
        if self.live.swap(ptr::null_mut(), Ordering::AcqRel).is_null() || self.is_let_go() {
            return;
        }
        // SAFETY: the memory is there, since there was a guard. A child has one thread, this one, and it uses no
        // reference to it just now; the threads that did exist in the parent only. The references in the copy of the
        // parent's guard are never used again: `live` no longer leads to it, and everything else, signal handlers too,
        // asks `memory` and `live` each time. Those that the new guard gets are made after this one is gone.
        let memory = unsafe { &mut *self.memory.load(Ordering::Acquire) };
        let kept: Vec<_> = left.iter().filter_map(|left| memory.pages_at(left.clone())).collect();
        let prepared = memory.prepare_again(&kept);
        let memory = self.memory().expect("it was just used");
        let left = left.iter().filter_map(|left| self.pages(left.start, left.len())).collect();
        let begun = prepared.map_err(|error| error.to_string()).and_then(|()| self.go_live(memory, used, left));
        if let Err(why) = begun {
            say_once(&format!("rampart: the heap is not guarded in a child: {why}\n"));
        }
    }

    /// The program is about to give pages of the heap back to the kernel (`madvise`). `true`: it is done, and they read
    /// as zeros.
    pub fn zero(&self, address: usize, length: usize) -> bool {
        match (self.live(), self.pages(address, length)) {
            (Some(live), Some(span)) => {
                live.zero(span);
                true
            }
            _ => false,
        }
    }

    /// The program is about to change the mapping of pages of the heap: they are excluded from now on.
    pub fn leave(&self, address: usize, length: usize) {
        if let (Some(live), Some(span)) = (self.live(), self.pages(address, length)) {
            live.leave(span);
        }
    }

    /// Whole blocks are the guard's again, whatever the program did to them: they read as zeros from now on.
    pub fn take_back(&self, address: usize, length: usize) {
        let (Some(memory), Some(span)) = (self.memory(), self.pages(address, length)) else { return };
        match self.live().filter(|_| !self.is_let_go()) {
            Some(live) => live.take_back(span),
            None => {
                // Without a guard it is an ordinary mapping, which a refusal leaves unchanged.
                let _ = memory.forget(as_vault(span));
            }
        }
    }

    /// The program is about to limit its data to so many bytes, as setrlimit(2) counts it. If locked pages do not count
    /// and all used memory would exceed the limit, everything becomes ordinary memory, except what is excluded already
    /// (`left`).
    pub fn limit_data(&self, most: u64, used: Option<BackingSpan>, left: &[Range<usize>]) {
        let (Some(live), Some(memory)) = (self.live(), self.memory()) else { return };
        if memory.locks_data() || self.is_borrowed() || self.is_let_go() {
            return;
        }
        let used = used.map_or(Bytes::ZERO, |used| used.bytes);
        if data_in_use().is_some_and(|now| now.saturating_add(used.get()) <= most) {
            return;
        }
        self.is_let_go.store(true, Ordering::Release);
        live.unlock_for_good();
        let left: Vec<_> = left.iter().filter_map(|left| memory.pages_at(left.clone())).collect();
        match memory.let_go(used, &left) {
            Ok(()) => say(
                "rampart: the program limits its data (RLIMIT_DATA) to less than it has: the kernel would refuse to give it \
                 its locked pages, so nothing is locked from now on\n",
            ),
            Err(why) => {
                say(&format!("rampart: not all memory can be unlocked before the program limits its data: {why}\n"));
            }
        }
    }

    fn is_let_go(&self) -> bool {
        self.is_let_go.load(Ordering::Acquire)
    }

    /// Whether an address is in guarded memory.
    pub fn owns(&self, address: usize) -> bool {
        self.memory().is_some_and(|memory| memory.find(address).is_some())
    }

    /// Whether this process' guard works.
    pub fn is_live(&self) -> bool {
        self.live().is_some()
    }

    /// Bytes of a block; of a page without a guard.
    pub fn block(&self) -> usize {
        self.live().map_or(PAGE_BYTES, LiveGuard::block)
    }

    /// Keeps all lockable memory in RAM, each page from its first touch on. `false`: this process may not mlock so
    /// much; pages move all the same if other memory is mlocked.
    pub fn mlock(&self) -> bool {
        // A handler of the program's that touches a locked page would wait for the thread that it interrupted.
        let _signals = Signals::block_all();
        self.memory().is_none_or(|memory| memory.mlock().is_ok())
    }

    /// Before the program unlocks all its memory (munlockall).
    pub fn munlock(&self) {
        let _signals = Signals::block_all();
        if let Some(memory) = self.memory() {
            memory.munlock();
        }
    }

    /// The addresses of lockable memory, hidden ranges included; none if it is ordinary memory.
    pub fn places(&self) -> Vec<Range<usize>> {
        self.memory().map(GuardedMemory::places).unwrap_or_default()
    }

    /// Records how many bytes of mappings are guarded now.
    pub fn count_mapped(&self, bytes: usize) {
        if let Some(live) = self.live() {
            live.count_mapped(bytes);
        }
    }

    /// Counts a mapping that could not be guarded.
    pub fn count_left_mapping(&self) {
        if let Some(live) = self.live() {
            live.count_left_mapping();
        }
    }

    /// The memory to guard by the environment, if it guards: static data in whole blocks of so many bytes, and mappings
    /// of at least so many.
    pub fn protect(&self) -> (Option<usize>, Option<usize>) {
        let settings = self.memory().and_then(|_| settings().ok());
        let block = |settings: &GuardSettings| settings.block_pages as usize * PAGE_BYTES;
        let data = settings.as_ref().filter(|settings| settings.protect.data).map(block);
        (data, settings.and_then(|settings| settings.protect.mappings).map(length))
    }

    /// The pages of the heap at these addresses.
    fn pages(&self, address: usize, length: usize) -> Option<rampart_guard::PageSpan> {
        let first = self.memory()?.find(address)?;
        let inside = address % PAGE_BYTES;
        let count = NonZero::new(length.checked_add(inside)?.div_ceil(PAGE_BYTES) as u64)?;
        Some(rampart_guard::PageSpan { first: PageIndex(first), count })
    }

    /// Whether faults on the heap are signals, for which system calls do not wait.
    pub fn faults_are_signals(&self) -> bool {
        self.memory().is_some_and(|memory| memory.mailbox().is_some())
    }

    /// Whether a device's write to a page goes unseen, so that the page must stay unlocked meanwhile.
    pub fn misses_devices(&self) -> bool {
        self.memory().is_some_and(GuardedMemory::misses_devices)
    }

    /// Whether the guard belongs to another process, whose memory this one borrows until it executes a program
    /// (vfork(2)).
    pub fn is_borrowed(&self) -> bool {
        self.process.load(Ordering::Relaxed) != std::process::id()
    }

    /// Whether this process has another user than the one who runs the program.
    pub fn is_of_another_user(&self) -> bool {
        folder::is_of_another()
    }

    /// The program has changed its user.
    pub fn user_changed(&self) {
        if let Some(live) = self.live().filter(|_| !self.is_borrowed()) {
            live.user_changed();
        }
    }

    /// Serves a fault at this address for a signal handler. `None`: the address is not guarded; otherwise the page was
    /// served. Async-signal-safe.
    pub fn fault(&self, address: usize, touch: Touch) -> Option<FaultAnswer> {
        let memory = self.memory()?;
        let (page, mailbox) = (memory.find(address)?, memory.mailbox()?);
        self.live().map(|_| mailbox.ask(PageIndex(page), touch))
    }

    /// Whether the guard's own threads read locked pages in their places, and so learn by a signal that the hardware
    /// lost one.
    pub fn reads_what_may_be_lost(&self) -> bool {
        self.memory().is_some_and(|memory| memory.mailbox().is_none())
    }

    /// Whether locked pages are elsewhere, so that a core dump has zeros in their place.
    pub fn hides_what_is_locked(&self) -> bool {
        self.memory().is_some_and(GuardedMemory::hides_what_is_locked)
    }

    /// The process is about to end with a core dump, if one is written: unlocks all locked pages for good. Called by
    /// signal handlers: a thread that asks the guard for something has all signals blocked meanwhile.
    pub fn unlock_for_dump(&self) {
        if self.hides_what_is_locked() && !is_private() && !self.is_borrowed() && core_dump::is_written() {
            self.live().into_iter().for_each(LiveGuard::unlock_for_dump);
        }
    }

    /// Unlocks everything, and locks nothing for some seconds.
    pub fn unlock_for_a_while(&self) {
        self.live().into_iter().for_each(LiveGuard::unlock_for_a_while);
    }

    /// A thread of the guard is reading memory at this address that the hardware lost. `true`: it may go on reading.
    pub fn lost(&self, address: usize) -> bool {
        self.live().is_some_and(|live| live.lost(address))
    }

    /// A system call is about to use memory and would not wait for a fault: the guarded part is unlocked and stays so
    /// until [`ProcessGuard::release`] gets this result.
    pub fn hold(&self, address: usize, length: usize) -> Option<rampart_guard::PageSpan> {
        let (live, span) = (self.live()?, self.pages(address, length)?);
        live.hold(span);
        Some(span)
    }

    /// Ends [`ProcessGuard::hold`].
    pub fn release(&self, span: rampart_guard::PageSpan) {
        if let Some(live) = self.live() {
            live.release(span);
        }
    }

    /// The process ends: locked pages are verified once more, and the last counts are written.
    pub fn end(&self) {
        if let Some(live) = self.live() {
            live.end();
        }
    }
}

/// The addresses of pages of the heap.
fn addresses(span: BackingSpan) -> Range<usize> {
    let start = span.start.addr().get();
    start..start + length(span.bytes)
}

/// Prints why the heap of a process is not guarded, as the first of a run.
fn say_once(text: &str) {
    folder::say_once(UNGUARDED, text);
}

/// Bytes that the kernel counts as data of this process, its stack included; `None` if it does not show them.
fn data_in_use() -> Option<u64> {
    // Pages: all, in memory, shared, code, 0, data (proc(5)).
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    Some(statm.split(' ').nth(5)?.parse::<u64>().ok()? * FRAME_BYTES)
}

/// The settings in the environment.
fn settings() -> Result<GuardSettings, String> {
    let text = env::var("RAMPART_GUARD").map_err(|error| error.to_string())?;
    text.parse().map_err(|error| format!("RAMPART_GUARD: {error}"))
}

impl HeapBacking for ProcessGuard {
    fn reserve(&self, bytes: Bytes) -> Result<NonNull<u8>, Error> {
        let Ok(settings) = settings() else { return Plain.reserve(bytes) };
        match engines::prepare(bytes, &settings) {
            Ok(memory) => {
                let base = memory.base();
                self.memory.store(Box::into_raw(Box::new(memory)), Ordering::Release);
                Ok(base)
            }
            // There may be room for less.
            Err(rampart_linux::Error::Claim { .. }) if bytes > LEAST_RANGE => {
                Err(Error::Reserve { bytes, cause: Errno::NOMEM })
            }
            Err(error) => {
                say_once(&format!("rampart: the heap is not guarded: {error}\n"));
                Plain.reserve(bytes)
            }
        }
    }

    /// So that a program that uses half of the addresses finds room for all that, even if none of it fits into the
    /// range.
    fn parts(&self) -> u64 {
        match settings().map(|settings| settings.method) {
            // A hidden range of the same length follows.
            Ok(EngineKind::Move | EngineKind::Minor) => 12,
            Ok(EngineKind::Mprotect) => 6,
            Err(_) => Plain.parts(),
        }
    }

    fn open(&self, span: BackingSpan) -> bool {
        let Some(memory) = self.memory() else { return Plain.open(span) };
        let Some(pages) = memory.pages_at(addresses(span)) else { return true };
        // Memory that the kernel refuses is missing in a core dump, which is no reason to fail.
        let _ = memory.dump(pages);
        !self.is_let_go() || memory.give(pages).is_ok()
    }

    fn forget(&self, span: BackingSpan) -> bool {
        let Some(memory) = self.memory() else { return Plain.forget(span) };
        let Some(pages) = memory.pages_at(addresses(span)) else { return false };
        match self.live().filter(|_| !self.is_let_go()) {
            Some(live) => live.forget(pages.first(), pages.pages()),
            // All used memory is the program's.
            None => memory.forget(pages).is_ok(),
        }
    }
}
