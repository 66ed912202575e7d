//! The engine `move`: pages move to a vault.

#![allow(unsafe_code, reason = "pages of a vault are raw memory")]

use std::env;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rampart_codes::{PageData, Pages};
use rampart_guard::{EngineRefusal, FrameHistory, GuardEngine, PageIndex, PageSpan};
use rampart_linux::userfaultfd::{Messages, MoveError, MoveRefusal, Reach, Stop, Waited, Wake};
use rampart_linux::vault::{self, MoveCounts, Side, Tracking, Vault, VaultOptions};
use rampart_linux::{Block, Error, PageKind, Pagemap, Roots, Window};
use rampart_memory::{Bytes, Frame, PAGE_BYTES};

use crate::convert::{as_vault, not_moved, one, refused};
use crate::frames::injected::InjectedFrames;
use crate::frames::known_bad::KnownBadPages;
use crate::frames::numbers;
use crate::frames::pool::TestedFramePool;
use crate::frames::suspects::SuspectTester;
use crate::reporting::published::Published;

use super::interface::{GuardedMemory, ProcessEngine, Serve, ServeWrite, serve_fault};
use super::poisoned::Lost;

/// How often a busy page is tried, and the time between two tries.
const PATIENCE: usize = 1000;
const MOMENT: Duration = Duration::from_millis(1);

/// A vault, the tested-frame pool if requested, and access to frame numbers if the kernel shows them.
pub struct VaultEngine {
    vault: &'static Vault,
    pool: Option<&'static TestedFramePool>,
    known: &'static KnownBadPages,
    pagemap: Option<Pagemap>,
    lost: Lost,
    suspects: Arc<SuspectTester>,
}

impl VaultEngine {
    pub fn new(
        vault: &'static Vault,
        pool: Option<&'static TestedFramePool>,
        known: &'static KnownBadPages,
        suspects: Arc<SuspectTester>,
    ) -> Self {
        let (pagemap, lost) = (Pagemap::open(&Roots::default()).ok(), Lost::default());
        Self { vault, pool, known, pagemap, lost, suspects }
    }

    /// Takes a page out of the vault, with its frame. It may be busy, as for [`VaultEngine::back`].
    fn take(&self, page: vault::VaultSpan) -> Result<Block, EngineRefusal> {
        for _ in 0..PATIENCE {
            match self.vault.take(page) {
                Ok(block) => return Ok(block),
                Err(MoveError { refusal: MoveRefusal::Busy, .. }) => {}
                Err(error) => return Err(not_moved(error)),
            }
            self.vault.unshare(Side::Vault, page).map_err(|error| refused(&error))?;
            thread::sleep(MOMENT);
        }
        Err(EngineRefusal::Pinned)
    }

    /// Moves pages in the vault back to the program, after an incomplete move. A page may be busy for a moment, because
    /// the kernel compacts memory or another process looks up its frame: it must not stay, or the program would find
    /// zeros.
    fn back(&self, span: vault::VaultSpan) -> Result<(), EngineRefusal> {
        for _ in 0..PATIENCE {
            if self.vault.unlock_present(span, Wake::Now, |_, _| {}).map_err(not_moved)?.busy == 0 {
                return Ok(());
            }
            self.vault.unshare(Side::Vault, span).map_err(|error| refused(&error))?;
            thread::sleep(MOMENT);
        }
        Err(EngineRefusal::Pinned)
    }

    /// As [`Vault::populate`], on frames that are not known to be bad.
    fn populate(&self, span: vault::VaultSpan) -> Result<(), MoveError> {
        if self.known.is_empty() {
            return self.vault.populate(span);
        }
        let kind = if span.is_huge() { self.vault.options().kind } else { PageKind::Base };
        match self.known.claim(span.bytes(), kind) {
            Ok(mut block) => self.vault.give(Side::Program, span, &mut block, 0),
            // Where the process may map no more, its frames are checked when they are locked.
            Err(_) => self.vault.populate(span),
        }
    }

    /// Zeros where the program has no page.
    fn fill_holes(&self, span: vault::VaultSpan) -> Result<FrameHistory, EngineRefusal> {
        span.numbers().try_fold(FrameHistory::Same, |frames, page| {
            let filled = self.fill_one(PageIndex(page))?;
            Ok(if filled == FrameHistory::Same { frames } else { filled })
        })
    }

    /// A page of an unlocked block that the program lacks: that of the vault, if it could not be moved before, or else
    /// zeros.
    fn fill_one(&self, page: PageIndex) -> Result<FrameHistory, EngineRefusal> {
        self.back(one(page))?;
        let filled = match self.populate(one(page)) {
            Ok(()) => FrameHistory::Untested,
            Err(MoveError { refusal: MoveRefusal::Occupied, .. }) => FrameHistory::Same,
            Err(error) => return Err(not_moved(error)),
        };
        self.vault.wake(one(page)).map_err(|error| refused(&error))?;
        Ok(filled)
    }
}

impl GuardEngine for VaultEngine {
    fn unlock(&self, span: PageSpan) -> Result<(), EngineRefusal> {
        let span = as_vault(span);
        match self.vault.unlock(span, Wake::Later) {
            Ok(()) => Ok(()),
            // Shared since a fork.
            Err(MoveError { refusal: MoveRefusal::Busy, .. }) => self.back(span),
            Err(MoveError { refusal: MoveRefusal::Missing | MoveRefusal::Occupied, .. }) => {
                self.back(span)?;
                self.fill_holes(span).map(drop)
            }
            Err(error) => Err(not_moved(error)),
        }
    }

    /// A block is locked as a whole or not at all. Where pages are missing, because the program gave them back to the
    /// kernel by itself, it gets zeros; where they are shared since a fork, copies of its own. Frames that are known to
    /// be bad by now count as untested.
    fn lock(&self, span: PageSpan) -> Result<FrameHistory, EngineRefusal> {
        let span = as_vault(span);
        for attempt in 0..2 {
            let MoveCounts { holes, busy, occupied, .. } = self.vault.lock(span, |_, _| {}).map_err(not_moved)?;
            if holes + busy + occupied == 0 {
                let bad = self.known.below(|pagemap, frames| self.vault.frames(Side::Vault, span, pagemap, frames));
                return Ok(if attempt == 0 && bad.is_empty() { FrameHistory::Same } else { FrameHistory::Untested });
            }
            self.back(span)?;
            if attempt == 0 {
                self.vault.unshare(Side::Program, span).map_err(|error| refused(&error))?;
                self.fill_holes(span)?;
            }
        }
        Err(EngineRefusal::Pinned)
    }

    fn supply(&self, span: PageSpan) -> FrameHistory {
        self.pool.map_or(FrameHistory::Same, |pool| pool.supply(as_vault(span)))
    }

    fn fill(&self, span: PageSpan) -> Result<FrameHistory, EngineRefusal> {
        let span = as_vault(span);
        if span.pages() == 1 {
            return self.fill_one(PageIndex(span.first()));
        }
        match self.populate(span) {
            Ok(()) => Ok(FrameHistory::Untested),
            Err(MoveError { refusal: MoveRefusal::Occupied, .. }) => self.fill_holes(span),
            Err(error) => Err(not_moved(error)),
        }
    }

    fn re_place(&self, span: PageSpan) -> Result<FrameHistory, EngineRefusal> {
        self.pool.map_or(Ok(FrameHistory::Same), |pool| pool.re_place(as_vault(span)))
    }

    fn leave(&self, span: PageSpan) -> Result<(), EngineRefusal> {
        self.vault.leave_to_children(as_vault(span)).map_err(|error| refused(&error))
    }

    fn discard(&self, span: PageSpan) {
        for side in [Side::Program, Side::Vault] {
            // Pages that the kernel does not take back stay, as zeros or not at all: it never refuses a span of our
            // own.
            self.vault.discard(side, as_vault(span)).expect("pages of ours are given back");
        }
    }

    fn wake(&self, span: PageSpan) {
        self.vault.wake(as_vault(span)).expect("who waits in a range of ours is woken");
    }

    fn replace(&self, page: PageIndex, content: &PageData) -> Result<(), EngineRefusal> {
        let page = one(page);
        let mut fresh = self.suspects.fresh()?;
        // SAFETY: the block is ours alone, one page that can be written, and nobody has a reference to it.
        unsafe { self.suspects.write(fresh.base(), content) };
        let mut old = self.take(page)?;
        if let Err(error) = self.vault.give(Side::Vault, page, &mut fresh, 0) {
            self.vault.give(Side::Vault, page, &mut old, 0).expect("a page goes back to where it was");
            return Err(not_moved(error));
        }
        self.suspects.judge(old);
        Ok(())
    }

    fn with_vault(&self, span: PageSpan, look: &mut dyn FnMut(&mut Pages<'_>)) {
        let span = as_vault(span);
        let count = usize::try_from(span.pages()).expect("pages of a block");
        let base: NonNull<u8> = self.vault.address(Side::Vault, span.first());
        // SAFETY: 1. the pages are in the vault, readable and writable, since the guard calls for blocks that it locked
        // as a whole;
        // 2. and 3. it holds the block's lock, nobody else knows of the vault, and no device may use a page that moved.
        look(&mut unsafe { Pages::from_raw(base, count) });
    }

    fn flip(&self, page: PageIndex, bit: u32) {
        let base = self.vault.address(Side::Vault, page.0);
        let offset = usize::try_from(bit / 8).expect("a byte of a page") % PAGE_BYTES;
        // SAFETY: the byte is of a page in the vault, which nobody else uses while the guard holds its block's lock.
        unsafe {
            let byte = base.add(offset).as_ptr();
            byte.write_volatile(byte.read_volatile() ^ 1 << (bit % 8));
        }
    }

    fn give_up(&self, page: PageIndex) -> bool {
        let gone = self.vault.discard(Side::Vault, one(page));
        gone.and_then(|()| self.vault.poison(Side::Vault, one(page))).is_ok()
    }

    /// For a page that the hardware lost, its old frame.
    fn frame(&self, page: PageIndex) -> Option<Frame> {
        if let Some(frame) = self.lost.take(page.0) {
            return frame;
        }
        let pagemap = self.pagemap.as_ref()?;
        let mut frames = Vec::new();
        let mut found = [Side::Vault, Side::Program].into_iter().filter_map(|side| {
            self.vault.frames(side, one(page), pagemap, &mut frames).ok()?;
            frames.first().copied().flatten()
        });
        found.next().and_then(numbers::own)
    }
}

impl ProcessEngine for VaultEngine {
    fn replace_lost(&self, address: usize) -> Option<(PageIndex, Option<Frame>)> {
        let (_, page) = self.vault.find(address).filter(|(side, _)| *side == Side::Vault)?;
        let (page, place) = (PageIndex(page), self.vault.address(Side::Vault, page));
        let frame = self.pagemap.as_ref().and_then(|pagemap| numbers::frame_of_lost(pagemap, place, &Roots::default()));
        let mut zeros = self.known.claim(one(page).bytes(), PageKind::Base).ok()?;
        self.vault.discard(Side::Vault, one(page)).ok()?;
        self.vault.give(Side::Vault, one(page), &mut zeros, 0).ok()?;
        self.lost.note(page.0, frame);
        Some((page, frame))
    }
}

/// A range with a vault; faults are messages.
pub struct MovedMemory(Vault);

impl MovedMemory {
    /// Reserves a range. At first it is ordinary memory.
    pub fn prepare(bytes: Bytes, kind: PageKind) -> Result<Self, Error> {
        Vault::prepare(bytes, VaultOptions { kind, tracking: Tracking::Off, least: Reach::Everything }).map(Self)
    }
}

impl GuardedMemory for MovedMemory {
    unsafe fn show(&self, windows: &[Window]) -> &[Window] {
        // SAFETY: guaranteed by the caller.
        unsafe { self.0.show(windows) }
    }

    fn prepare_again(&mut self, _: &[vault::VaultSpan]) -> Result<(), Error> {
        self.0.prepare_again()
    }

    fn locks_data(&self) -> bool {
        true
    }

    fn let_go(&self, _: Bytes, _: &[vault::VaultSpan]) -> Result<(), Error> {
        Ok(())
    }

    fn open(&self) -> Result<(), Error> {
        self.0.open(&Roots::default())
    }

    fn forget(&self, span: vault::VaultSpan) -> Result<(), Error> {
        self.0.discard(Side::Program, span)
    }

    fn dump(&self, span: vault::VaultSpan) -> Result<(), Error> {
        self.0.dump(span)
    }

    fn arm(&self, _: Bytes, left: &[vault::VaultSpan]) -> Result<(), Error> {
        self.0.arm_around(left)
    }

    fn each_used(&self, used: vault::VaultSpan, each: &mut dyn FnMut(u64)) -> Result<(), Error> {
        self.0.present(Side::Program, used, |run, _| run.numbers().for_each(&mut *each))
    }

    fn base(&self) -> NonNull<u8> {
        self.0.program_base()
    }

    fn pages(&self) -> u64 {
        self.0.pages()
    }

    fn find(&self, address: usize) -> Option<u64> {
        self.0.find(address).filter(|(side, _)| *side == Side::Program).map(|(_, page)| page)
    }

    fn address(&self, page: PageIndex) -> usize {
        self.0.address(Side::Program, page.0).addr().get()
    }

    fn misses_devices(&self) -> bool {
        false
    }

    fn keep_from_children(&self, odd: &[vault::VaultSpan]) -> Result<(), Error> {
        self.0.keep_from_children(odd)
    }

    fn give_to_children(&self, odd: &[vault::VaultSpan]) -> Result<(), Error> {
        self.0.give_to_children(odd)
    }

    fn take_from_children(&self, span: vault::VaultSpan) -> Result<(), Error> {
        self.0.take_from_children(span)
    }

    fn mlock(&self) -> Result<(), Error> {
        self.0.mlock()
    }

    fn munlock(&self) {
        self.0.munlock();
    }

    fn places(&self) -> Vec<Range<usize>> {
        self.0.places()
    }

    fn serve(&self, stop: &Stop, serve: Serve<'_>, written: ServeWrite<'_>) -> Result<(), Error> {
        let mut messages = Messages::default();
        while self.0.next(&mut messages, stop)? == Waited::Messages {
            self.0.faults(&messages).for_each(|fault| serve_fault(fault, serve, written));
        }
        Ok(())
    }

    fn pool(
        &'static self,
        shared: &'static Published,
        known: &'static KnownBadPages,
    ) -> Result<Option<&'static TestedFramePool>, String> {
        let asked = (env::var(TestedFramePool::SETTINGS).ok(), env::var(InjectedFrames::FAULTS).ok());
        let pool = TestedFramePool::asked_for(asked, &self.0, shared, known)?;
        Ok(pool.map(|pool| &*Box::leak(Box::new(pool))))
    }

    fn engine(
        &'static self,
        pool: Option<&'static TestedFramePool>,
        known: &'static KnownBadPages,
        suspects: Arc<SuspectTester>,
    ) -> Box<dyn ProcessEngine> {
        Box::new(VaultEngine::new(&self.0, pool, known, suspects))
    }
}
