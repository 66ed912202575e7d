//! The engine `mprotect`: protections.

#![allow(unsafe_code, reason = "copies of pages are filled by the kernel")]

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use rampart_codes::{PageData, Pages};
use rampart_guard::{EngineRefusal, FrameHistory, GuardEngine, PageIndex, PageSpan};
use rampart_linux::protect::Protected;
use rampart_linux::userfaultfd::Stop;
use rampart_linux::{Backing, Error, PageKind, Pagemap, Roots, Window, vault};
use rampart_memory::{Bytes, Frame, PAGE_BYTES};

use crate::convert::{as_vault, one, refused};
use crate::frames::known_bad::KnownBadPages;
use crate::frames::numbers;
use crate::frames::pool::TestedFramePool;
use crate::frames::suspects::SuspectTester;

use super::interface::{GuardedMemory, ProcessEngine, Serve, ServeWrite};
use super::mailbox::Mailbox;

/// A range whose pages are locked in their places. The guard reads copies.
pub struct ProtectEngine {
    range: &'static Protected,
    pagemap: Option<Pagemap>,
    /// Room for copies, one for each thread that ever read at the same time.
    room: Mutex<Vec<Vec<PageData>>>,
    suspects: Arc<SuspectTester>,
}

impl ProtectEngine {
    pub fn new(range: &'static Protected, suspects: Arc<SuspectTester>) -> Self {
        Self { range, pagemap: Pagemap::open(&Roots::default()).ok(), room: Mutex::default(), suspects }
    }

    fn frame_below(&self, page: PageIndex) -> Option<Frame> {
        let (pagemap, mut frames) = (self.pagemap.as_ref()?, Vec::new());
        self.range.frames(one(page), pagemap, &mut frames).ok()?;
        frames.first().copied().flatten()
    }

    /// Copies pages. A page that the hardware lost reads as zeros, which the codes show to be wrong.
    fn copy(&self, span: vault::VaultSpan, copies: &mut [PageData]) {
        if self.range.read(span, bytes(copies)).is_ok() {
            return;
        }
        for (page, copy) in span.numbers().zip(copies) {
            *copy = PageData::ZERO;
            // Content that was read before the failure is as wrong as zeros are.
            let _ = self.range.read(one(PageIndex(page)), bytes(std::slice::from_mut(copy)));
        }
    }
}

/// Pages as bytes.
fn bytes(pages: &mut [PageData]) -> &mut [u8] {
    // SAFETY: the pages are `repr(C)`, without padding, of integers, which any bytes are; the slice covers them exactly
    // and borrows them for as long.
    unsafe { std::slice::from_raw_parts_mut(pages.as_mut_ptr().cast(), size_of_val(pages)) }
}

impl GuardEngine for ProtectEngine {
    fn unlock(&self, span: PageSpan) -> Result<(), EngineRefusal> {
        self.range.unlock(as_vault(span)).map_err(|error| refused(&error))
    }

    fn lock(&self, span: PageSpan) -> Result<FrameHistory, EngineRefusal> {
        self.range.lock(as_vault(span)).map(|()| FrameHistory::Same).map_err(|error| {
            // If some of them are locked, a fault gets the answer "already unlocked".
            let _ = self.range.unlock(as_vault(span));
            refused(&error)
        })
    }

    /// Pages without a frame get one at their first touch.
    fn fill(&self, span: PageSpan) -> Result<FrameHistory, EngineRefusal> {
        self.unlock(span).map(|()| FrameHistory::Untested)
    }

    /// The block was unlocked meanwhile, so it is enough to try again; or the program removed the protection bits by
    /// itself.
    fn settle(&self, _: PageIndex) -> Result<FrameHistory, EngineRefusal> {
        Ok(FrameHistory::Same)
    }

    fn discard(&self, span: PageSpan) {
        self.zero(span);
        // If the kernel cannot keep one more run apart, the pages are used again without our knowledge, and stay
        // unlocked.
        let _ = self.range.lock(as_vault(span));
    }

    fn zero(&self, span: PageSpan) {
        self.range.discard(as_vault(span)).expect("pages of ours are given back");
    }

    /// The answer to its fault wakes a waiting thread.
    fn wake(&self, _: PageSpan) {}

    /// An unlocked block between locked ones adds two runs.
    fn most_unlocked(&self) -> usize {
        self.range.most_runs() / 2
    }

    fn replace(&self, page: PageIndex, content: &PageData) -> Result<(), EngineRefusal> {
        let fresh = self.suspects.fresh()?;
        // SAFETY: the block is ours alone, one page that can be written, and nobody has a reference to it.
        unsafe { self.suspects.write(fresh.base(), content) };
        self.suspects.judge(self.range.exchange(page.0, fresh).map_err(|error| refused(&error))?);
        Ok(())
    }

    /// A page that the program has given back is missing, or, since it was read, the kernel's zero page.
    fn was_given_back(&self, page: PageIndex) -> bool {
        let place = self.range.address(page.0);
        let backing = self.pagemap.as_ref().and_then(|pagemap| pagemap.backing(place).ok());
        match backing {
            Some(Backing::Nothing) => true,
            // A frame that is shared with another process is known, or the page has content.
            Some(Backing::Shared) => {
                let known = self.frame_below(page).is_some_and(|frame| numbers::own(frame).is_some());
                !known && self.read(page) == PageData::ZERO
            }
            Some(Backing::Own | Backing::Elsewhere) | None => false,
        }
    }

    fn with_vault(&self, span: PageSpan, look: &mut dyn FnMut(&mut Pages<'_>)) {
        let mut copies = self.room.lock().expect("no panic").pop().unwrap_or_default();
        copies.resize(usize::try_from(span.count.get()).expect("pages of a block"), PageData::ZERO);
        self.copy(as_vault(span), &mut copies);
        look(&mut Pages::from(&mut *copies));
        self.room.lock().expect("no panic").push(copies);
    }

    fn flip(&self, page: PageIndex, bit: u32) {
        let offset = usize::try_from(bit / 8).expect("a byte of a page") % PAGE_BYTES;
        let mut copy = [PageData::ZERO];
        self.copy(one(page), &mut copy);
        let flipped = bytes(&mut copy)[offset] ^ 1 << (bit % 8);
        self.range.write(page.0, offset, &[flipped]).expect("memory that is there can be written");
    }

    /// For a page that the hardware lost, its old frame.
    fn frame(&self, page: PageIndex) -> Option<Frame> {
        let lost = || numbers::frame_of_lost(self.pagemap.as_ref()?, self.range.address(page.0), &Roots::default());
        self.frame_below(page).and_then(numbers::own).or_else(lost)
    }
}

/// The kernel reads locked pages, so no thread of the guard gets a signal when the hardware loses one.
impl ProcessEngine for ProtectEngine {}

/// A range that is locked by protections; faults are signals.
pub struct ProtectedMemory {
    range: Protected,
    mailbox: Mailbox,
}

impl ProtectedMemory {
    /// Reserves a range. At first it is ordinary memory.
    pub fn prepare(bytes: Bytes, kind: PageKind) -> Result<Self, Error> {
        let range = Protected::prepare(bytes, kind, &Roots::default())?;
        Ok(Self { range, mailbox: Mailbox::new() })
    }
}

/// A locked page without protection bits ends an unannounced child that touches it.
impl GuardedMemory for ProtectedMemory {
    unsafe fn show(&self, windows: &[Window]) -> &[Window] {
        // SAFETY: guaranteed by the caller.
        unsafe { self.range.show(windows) }
    }

    fn prepare_again(&mut self, left: &[vault::VaultSpan]) -> Result<(), Error> {
        self.mailbox.forget_all();
        self.range.prepare_again(left)
    }

    fn stay_alone(&self, left: &[vault::VaultSpan]) -> Result<(), Error> {
        self.range.unlock_first(self.range.pages(), left)
    }

    fn let_go(&self, used: Bytes, left: &[vault::VaultSpan]) -> Result<(), Error> {
        self.range.unlock_first(used.frames(), left)
    }

    fn give(&self, span: vault::VaultSpan) -> Result<(), Error> {
        self.range.unlock(span)
    }

    fn open(&self) -> Result<(), Error> {
        self.range.open(&Roots::default())
    }

    fn forget(&self, span: vault::VaultSpan) -> Result<(), Error> {
        self.range.discard(span)
    }

    fn dump(&self, span: vault::VaultSpan) -> Result<(), Error> {
        self.range.dump(span)
    }

    fn arm(&self, used: Bytes, _: &[vault::VaultSpan]) -> Result<(), Error> {
        let rest = vault::VaultSpan::new(used.frames(), self.range.pages() - used.frames());
        rest.map_or(Ok(()), |rest| self.range.lock(rest))
    }

    fn each_used(&self, used: vault::VaultSpan, each: &mut dyn FnMut(u64)) -> Result<(), Error> {
        used.numbers().for_each(each);
        Ok(())
    }

    fn base(&self) -> NonNull<u8> {
        self.range.base()
    }

    fn pages(&self) -> u64 {
        self.range.pages()
    }

    fn find(&self, address: usize) -> Option<u64> {
        self.range.find(address)
    }

    fn address(&self, page: PageIndex) -> usize {
        self.range.address(page.0).addr().get()
    }

    fn mailbox(&self) -> Option<&Mailbox> {
        Some(&self.mailbox)
    }

    fn hides_what_is_locked(&self) -> bool {
        false
    }

    fn mlock(&self) -> Result<(), Error> {
        self.range.mlock()
    }

    fn places(&self) -> Vec<Range<usize>> {
        self.range.places()
    }

    fn serve(&self, _: &Stop, serve: Serve<'_>, _: ServeWrite<'_>) -> Result<(), Error> {
        loop {
            self.mailbox.serve(|page, touch| serve(page, touch, None));
        }
    }

    fn engine(
        &'static self,
        _: Option<&'static TestedFramePool>,
        _: &'static KnownBadPages,
        suspects: Arc<SuspectTester>,
    ) -> Box<dyn ProcessEngine> {
        Box::new(ProtectEngine::new(&self.range, suspects))
    }
}
