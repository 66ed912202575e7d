//! Requests of the program's threads to the guard.
//!
//! Those that need an open file go to the maintenance thread, and the thread waits ([`super::request_slot`]); the
//! threads do the rest themselves.

use std::num::NonZero;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rampart_guard::{Counter, FaultOutcome, PageIndex, PageSpan};
use rampart_linux::vault;
use rampart_memory::{Clock as _, FRAME_BYTES};

use crate::convert::as_vault;
use crate::messages::say_from_guard;

use super::live::LiveGuard;
use super::request_slot::UnlockRequest;
use super::signal_mask::Signals;

/// Why a process ends: otherwise its child might read zeros.
const KEPT: &str = "the memory under guard cannot be kept from children";

/// How long nothing is locked for a child that is about to execute a program.
const WHILE: Duration = Duration::from_secs(5);

impl LiveGuard {
    /// In the maintenance thread, which has the necessary files.
    pub(super) fn grant(&self, request: UnlockRequest) {
        let now = self.clock.now();
        let served = match request {
            UnlockRequest::TellNoMore => {
                self.stop_reporting();
                FaultOutcome::GoesOn
            }
            UnlockRequest::OpenAll => {
                self.paused.fetch_add(1, Ordering::AcqRel);
                let began = Instant::now();
                let served = self.guard.unlock_all(now);
                if let Err(why) = self.memory.split() {
                    // A child with the same memory as its parent would change it.
                    say_from_guard(&format!(
                        "rampart: no copy of the memory under guard can be made for a child: {why}\n"
                    ));
                    self.exit();
                }
                self.guard.waited(began.elapsed());
                served
            }
            // A page beyond correction stays locked, and does not change how the process ends.
            UnlockRequest::OpenForDump => {
                self.paused.fetch_add(1, Ordering::AcqRel);
                self.guard.unlock_all(now);
                FaultOutcome::GoesOn
            }
            UnlockRequest::OpenForGood => {
                self.paused.fetch_add(1, Ordering::AcqRel);
                let served = self.guard.unlock_all(now);
                // Here, because it takes the guard's files. If it fails, `GuardedMemory::let_go` fails too, and prints
                // the reason.
                let _ = self.memory.split();
                served
            }
            UnlockRequest::OpenForAWhile => {
                *self.rests_until.lock().expect("no panic") = Some(Instant::now() + WHILE);
                self.guard.unlock_all(now)
            }
            UnlockRequest::Zero(span) => self.guard.zero(span, now),
            UnlockRequest::Leave(span) => self.guard.leave(span, now),
            UnlockRequest::Hold(span) => self.guard.hold(span, now),
            UnlockRequest::End(why) => {
                say_from_guard(&format!("rampart: {why}, since the kernel refuses: the program is stopped\n"));
                self.exit()
            }
            // The process ends: from here on nothing is locked, and no error is injected that nobody would see.
            UnlockRequest::VerifyAll => {
                self.paused.fetch_add(1, Ordering::AcqRel);
                self.guard.verify_all();
                self.write_down();
                FaultOutcome::GoesOn
            }
        };
        if served == FaultOutcome::Stop {
            self.stop(None);
            self.wait_for_checkpoint();
        }
    }

    /// In a thread of the program: returns once the maintenance thread has done it.
    fn ask(&self, request: UnlockRequest) {
        // A handler of the program's that also asked would wait for the thread that it interrupted.
        let _signals = Signals::block_all();
        self.slot.ask(request, || self.unpark_keeper());
    }

    /// In a thread of the guard that reads locked pages, and holds no lock but that of a block: the hardware lost the
    /// page there.
    pub fn lost(&self, address: usize) -> bool {
        let Some((page, frame)) = self.guard.engine().replace_lost(address) else { return false };
        self.shared.lost_page(page, frame);
        true
    }

    /// Unlocks everything, so that a child can be forked, and locks nothing until [`LiveGuard::go_on`].
    pub fn open_all(&self, left: &[Range<usize>]) {
        self.ask(UnlockRequest::OpenAll);
        if self.memory.give_to_children(&self.pages_at(left)).is_err() {
            self.ask(UnlockRequest::End("a child cannot be given the memory under guard"));
        }
    }

    /// Unlocks all good pages before a core dump is written, and locks nothing more.
    pub fn unlock_for_dump(&self) {
        self.ask(UnlockRequest::OpenForDump);
    }

    /// Unlocks everything, and locks nothing more.
    pub fn unlock_for_good(&self) {
        self.ask(UnlockRequest::OpenForGood);
    }

    /// Unlocks everything for a child that is about to execute a program, and locks nothing until then.
    pub fn unlock_for_a_while(&self) {
        self.ask(UnlockRequest::OpenForAWhile);
    }

    /// In the maintenance thread: whether nothing may be locked now.
    pub(super) fn rests(&self) -> bool {
        let mut until = self.rests_until.lock().expect("no panic");
        *until = until.filter(|until| *until > Instant::now());
        until.is_some() || self.paused.load(Ordering::Acquire) > 0
    }

    /// Ends [`LiveGuard::open_all`].
    pub fn go_on(&self, left: &[Range<usize>]) {
        // Before anything is locked: an unannounced child must not read zeros.
        if self.memory.keep_from_children(&self.pages_at(left)).is_err() {
            self.ask(UnlockRequest::End(KEPT));
        }
        self.paused.fetch_sub(1, Ordering::AcqRel);
        self.wake_keeper();
    }

    fn pages_at(&self, left: &[Range<usize>]) -> Vec<vault::VaultSpan> {
        left.iter().filter_map(|left| self.memory.pages_at(left.clone())).collect()
    }

    /// Pages that the program changed are the guard's again.
    pub fn keep_from_children(&self, span: PageSpan) {
        if self.memory.take_from_children(as_vault(span)).is_err() {
            self.ask(UnlockRequest::End(KEPT));
        }
    }

    /// Counts a child that is not guarded.
    pub fn count_left_child(&self) {
        self.shared.counts.add(Counter::UnguardedChildren, 1);
    }

    /// The content of so many pages is not needed. `false`: it stays.
    pub fn forget(&self, first: u64, pages: u64) -> bool {
        let Some(count) = NonZero::new(pages) else { return true };
        // A handler of the program's that touches the block would wait for the thread that it interrupted.
        let _signals = Signals::block_all();
        self.guard.forget(PageSpan { first: PageIndex(first), count })
    }

    /// Whole blocks are the guard's again, with no content.
    pub fn take_back(&self, span: PageSpan) {
        let _signals = Signals::block_all();
        assert!(self.guard.take_back(span), "whole blocks");
    }

    /// Bytes of a block.
    pub fn block(&self) -> usize {
        usize::try_from(self.guard.layout().block_bytes().get()).expect("a block has addresses")
    }

    /// Records the guarded bytes of mappings.
    pub fn count_mapped(&self, bytes: usize) {
        let (counts, pages) = (self.shared.counts, bytes as u64 / FRAME_BYTES);
        counts.set(Counter::MostMapped, pages.max(counts.get(Counter::MostMapped)));
    }

    /// Records the guarded and the unguarded bytes of static data.
    pub fn count_data(&self, guarded: usize, left: usize) {
        let pages = |bytes: usize| bytes as u64 / FRAME_BYTES;
        self.shared.counts.set(Counter::Data, pages(guarded));
        self.shared.counts.set(Counter::UnguardedData, pages(left));
    }

    /// A mapping could not be guarded.
    pub fn count_left_mapping(&self) {
        self.shared.counts.add(Counter::UnguardedMappings, 1);
    }

    /// The program gives pages back by itself.
    pub fn zero(&self, span: PageSpan) {
        self.ask(UnlockRequest::Zero(span));
    }

    /// A system call is about to use pages, until [`LiveGuard::release`].
    pub fn hold(&self, span: PageSpan) {
        let signals = Signals::block_all();
        let held = self.guard.hold_unlocked(span);
        drop(signals);
        if !held {
            self.ask(UnlockRequest::Hold(span));
        }
    }

    /// Ends [`LiveGuard::hold`].
    pub fn release(&self, span: PageSpan) {
        let _signals = Signals::block_all();
        self.guard.release(span);
    }

    /// The program changes the mapping of pages by itself.
    pub fn leave(&self, span: PageSpan) {
        self.ask(UnlockRequest::Leave(span));
    }

    /// The program has changed its user. Reports of a process without its initial rights are not believed: an attacker
    /// has no others.
    pub fn user_changed(&self) {
        if self.shared.is_read() && self.shared.gave_up_rights() {
            self.ask(UnlockRequest::TellNoMore);
        }
    }

    fn stop_reporting(&self) {
        let process = std::process::id();
        match self.shared.stop_reporting() {
            Ok(()) => say_from_guard(&format!(
                "rampart: process {process} gives up the rights of its user: it stays under guard, but what is found there from now on is \
                 said here only, and no frame of it goes on the map\n"
            )),
            Err(why) => {
                say_from_guard(&format!("rampart: process {process} cannot close its report: {why}\n"));
                self.exit();
            }
        }
    }

    /// The end of the process: locked pages are verified once more, and nothing is locked any more.
    pub fn end(&self) {
        self.ask(UnlockRequest::VerifyAll);
    }
}
