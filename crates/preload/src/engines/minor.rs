//! The engine `minor`: a file in memory, mapped twice.

#![allow(unsafe_code, reason = "pages of the file are raw memory")]

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use rampart_codes::{PageData, Pages};
use rampart_guard::layout::MOST_PAGES;
use rampart_guard::{EngineRefusal, FrameHistory, GuardEngine, PageIndex, PageSpan, Writes};
use rampart_linux::shared::{SharedRange, has_huge_pages};
use rampart_linux::userfaultfd::{Messages, Stop, Waited, Wake};
use rampart_linux::{Error, PageKind, Pagemap, Roots, Window, vault};
use rampart_memory::{Bytes, Frame, PAGE_BYTES};

use crate::convert::{as_vault, refused};
use crate::frames::known_bad::KnownBadPages;
use crate::frames::numbers;
use crate::frames::pool::TestedFramePool;
use crate::frames::suspects::{SuspectHolder, SuspectTester};

use super::interface::{GuardedMemory, ProcessEngine, Serve, ServeWrite, serve_fault};
use super::poisoned::Lost;

/// A range whose pages are locked in their frames. The guard reads the second mapping.
pub struct MinorEngine {
    range: &'static SharedRange,
    pagemap: Option<Pagemap>,
    lost: Lost,
    suspects: Arc<SuspectTester>,
}

impl MinorEngine {
    pub fn new(range: &'static SharedRange, suspects: Arc<SuspectTester>) -> Self {
        Self { range, pagemap: Pagemap::open(&Roots::default()).ok(), lost: Lost::default(), suspects }
    }
}

impl GuardEngine for MinorEngine {
    fn unlock(&self, span: PageSpan) -> Result<(), EngineRefusal> {
        self.range.unlock(as_vault(span), Wake::Later).map_err(|error| refused(&error))
    }

    fn unlock_watched(&self, span: PageSpan) -> Result<Writes, EngineRefusal> {
        let stops = self.range.unlock_watched(as_vault(span)).map_err(|error| refused(&error))?;
        Ok(if stops { Writes::Stop } else { Writes::GoOn })
    }

    fn settle_watched(&self, page: PageIndex) -> bool {
        self.range.settle_watched(page.0).is_ok()
    }

    fn allow_writes(&self, span: PageSpan) {
        self.range.allow_writes(as_vault(span)).expect("writes to pages of ours are allowed");
    }

    fn lock(&self, span: PageSpan) -> Result<FrameHistory, EngineRefusal> {
        self.range.lock(as_vault(span)).map(|()| FrameHistory::Same).map_err(|error| {
            // If some of them are locked, a fault gets the answer "already unlocked", and finds its page.
            let _ = self.range.unlock(as_vault(span), Wake::Now);
            refused(&error)
        })
    }

    fn fill(&self, span: PageSpan) -> Result<FrameHistory, EngineRefusal> {
        self.range.fill(as_vault(span)).map(|()| FrameHistory::Untested).map_err(|error| refused(&error))
    }

    /// The block was unlocked meanwhile; or the page was given back, or is in swap.
    fn settle(&self, page: PageIndex) -> Result<FrameHistory, EngineRefusal> {
        self.range.settle(page.0).map(|()| FrameHistory::Same).map_err(|error| refused(&error))
    }

    fn leave(&self, span: PageSpan) -> Result<(), EngineRefusal> {
        self.range.leave(as_vault(span)).map_err(|error| refused(&error))
    }

    fn discard(&self, span: PageSpan) {
        self.range.discard(as_vault(span)).expect("pages of ours are given back");
    }

    fn wake(&self, span: PageSpan) {
        self.range.wake(as_vault(span)).expect("who waits in a range of ours is woken");
    }

    /// The frame is tested in its place, because only there it can be written; while it is suspect it holds the content
    /// that it got wrong. A page of the pool of huge pages stays, if its frame is good.
    fn replace(&self, page: PageIndex, content: &PageData) -> Result<(), EngineRefusal> {
        let place = self.range.behind(page.0);
        let frame = self.suspects.frame(place);
        // SAFETY: the page is in the second mapping, which is writable, and nobody else uses it while the guard holds
        // its block's lock.
        let is_bad = unsafe { self.suspects.is_bad(place) };
        // SAFETY: as above.
        unsafe { self.suspects.write(place, content) };
        if is_bad && !self.range.is_huge() && self.suspects.retire_below(frame, self.range, page.0) {
            // SAFETY: as above.
            unsafe { self.suspects.write(place, content) };
            return Ok(());
        }
        let replaced = match self.range.is_huge() {
            true if is_bad => Err(EngineRefusal::Kernel("a huge page of the pool holds a bad frame".to_owned())),
            true => Ok(None),
            false => self.range.replace(page.0, self.suspects.pagemap()).map(Some).map_err(|error| refused(&error)),
        };
        // SAFETY: as above.
        unsafe { self.suspects.write(place, content) };
        match replaced? {
            Some(held) if is_bad => self.suspects.hold(SuspectHolder::Pipe(held)),
            Some(held) => self.suspects.watch_pipe(held, content),
            None => {}
        }
        Ok(())
    }

    fn with_vault(&self, span: PageSpan, look: &mut dyn FnMut(&mut Pages<'_>)) {
        let count = usize::try_from(span.count.get()).expect("pages of a block");
        // SAFETY: 1. the second mapping is readable and writable; 2. and 3. the guard holds the block's lock and locked
        // the pages, so the program has none of them, and nobody else knows of the second mapping.
        look(&mut unsafe { Pages::from_raw(self.range.behind(span.first.0), count) });
    }

    fn flip(&self, page: PageIndex, bit: u32) {
        let offset = usize::try_from(bit / 8).expect("a byte of a page") % PAGE_BYTES;
        // SAFETY: the byte is of a locked page, which nobody else uses while the guard holds its block's lock.
        unsafe {
            let byte = self.range.behind(page.0).add(offset).as_ptr();
            byte.write_volatile(byte.read_volatile() ^ 1 << (bit % 8));
        }
    }

    /// For a page that the hardware lost, its old frame.
    fn frame(&self, page: PageIndex) -> Option<Frame> {
        if let Some(frame) = self.lost.take(page.0) {
            return frame;
        }
        self.range.frame(page.0, self.pagemap.as_ref()?).ok().flatten().and_then(numbers::own)
    }
}

impl ProcessEngine for MinorEngine {
    fn replace_lost(&self, address: usize) -> Option<(PageIndex, Option<Frame>)> {
        let page = self.range.find_behind(address)?;
        let behind = self.range.behind(page);
        let roots = Roots::default();
        let frame = self.pagemap.as_ref().and_then(|pagemap| numbers::frame_of_lost(pagemap, behind, &roots));
        self.range.replace_lost(page).ok()?;
        self.lost.note(page, frame);
        Some((PageIndex(page), frame))
    }
}

/// A range of a file that is mapped twice; faults are messages.
pub struct SharedMemory(SharedRange);

impl SharedMemory {
    /// Reserves a range. At first it is ordinary memory.
    pub fn prepare(bytes: Bytes, unit_pages: u32) -> Result<Self, Error> {
        // Pages of the pool are locked whole.
        let from_pool = unit_pages == MOST_PAGES && has_huge_pages(&Roots::default());
        SharedRange::prepare(bytes, if from_pool { PageKind::HugeTlb } else { PageKind::Base }).map(Self)
    }
}

/// Pages of the file are kept from unannounced children while they belong to the file.
impl GuardedMemory for SharedMemory {
    unsafe fn show(&self, windows: &[Window]) -> &[Window] {
        // SAFETY: guaranteed by the caller.
        unsafe { self.0.show(windows) }
    }

    fn prepare_again(&mut self, _: &[vault::VaultSpan]) -> Result<(), Error> {
        self.0.prepare_again()
    }

    /// The maintenance thread has split everything, which takes the guard's files: nothing is left to do in this
    /// thread.
    fn let_go(&self, _: Bytes, _: &[vault::VaultSpan]) -> Result<(), Error> {
        self.0.split()
    }

    fn open(&self) -> Result<(), Error> {
        self.0.open(&Roots::default())
    }

    fn forget(&self, span: vault::VaultSpan) -> Result<(), Error> {
        self.0.discard(span)
    }

    fn dump(&self, span: vault::VaultSpan) -> Result<(), Error> {
        self.0.dump(span)
    }

    fn arm(&self, _: Bytes, left: &[vault::VaultSpan]) -> Result<(), Error> {
        self.0.arm(left)
    }

    fn each_used(&self, used: vault::VaultSpan, each: &mut dyn FnMut(u64)) -> Result<(), Error> {
        self.0.present(used, |run| run.numbers().for_each(&mut *each))
    }

    fn base(&self) -> NonNull<u8> {
        self.0.base()
    }

    fn pages(&self) -> u64 {
        self.0.pages()
    }

    fn find(&self, address: usize) -> Option<u64> {
        self.0.find(address)
    }

    fn address(&self, page: PageIndex) -> usize {
        self.0.address(page.0).addr().get()
    }

    fn split(&self) -> Result<(), Error> {
        self.0.split()
    }

    fn unsplit(&self) {
        self.0.unsplit();
    }

    fn mlock(&self) -> Result<(), Error> {
        self.0.mlock()
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

    fn engine(
        &'static self,
        _: Option<&'static TestedFramePool>,
        _: &'static KnownBadPages,
        suspects: Arc<SuspectTester>,
    ) -> Box<dyn ProcessEngine> {
        Box::new(MinorEngine::new(&self.0, suspects))
    }
}
