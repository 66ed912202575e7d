//! What the guard asks of the machine, by permissions (`mprotect`).

#![allow(unsafe_code, reason = "copies of pages are filled by the kernel")]

use std::sync::{Arc, Mutex};

use rampart_codes::{PageData, Pages};
use rampart_guard::{Engine, Frames, PageIndex, Refusal, Span};
use rampart_linux::protect::Protected;
use rampart_linux::{Backing, Error, Pagemap, Roots, vault};
use rampart_memory::Frame;

use super::lost;
use super::suspects::Suspects;

/// A range whose pages are locked where they are. What is looked at is a copy.
pub struct ProtectEngine {
    range: &'static Protected,
    pagemap: Option<Pagemap>,
    /// Room for copies, one for each thread that ever looked at once.
    room: Mutex<Vec<Vec<PageData>>>,
    suspects: Arc<Suspects>,
}

impl ProtectEngine {
    pub fn new(range: &'static Protected, suspects: Arc<Suspects>) -> Self {
        Self { range, pagemap: Pagemap::open(&Roots::default()).ok(), room: Mutex::default(), suspects }
    }

    fn frame_below(&self, page: PageIndex) -> Option<Frame> {
        let (pagemap, mut frames) = (self.pagemap.as_ref()?, Vec::new());
        self.range.frames(one(page.0), pagemap, &mut frames).ok()?;
        frames.first().copied().flatten()
    }

    /// Copies pages. One whose memory is broken so that the hardware says so reads as zeros, which is seen to be wrong.
    fn copy(&self, span: vault::Span, copies: &mut [PageData]) {
        if self.range.read(span, bytes(copies)).is_ok() {
            return;
        }
        for (page, copy) in span.numbers().zip(copies) {
            *copy = PageData::ZERO;
            // What was read until it failed is as wrong as zeros are.
            let _ = self.range.read(one(page), bytes(std::slice::from_mut(copy)));
        }
    }
}

/// Pages as the bytes that they consist of.
fn bytes(pages: &mut [PageData]) -> &mut [u8] {
    // SAFETY: the pages are `repr(C)`, without padding, of integers, which any bytes are; the slice covers them exactly and
    // borrows them for as long.
    unsafe { std::slice::from_raw_parts_mut(pages.as_mut_ptr().cast(), size_of_val(pages)) }
}

fn one(page: u64) -> vault::Span {
    vault::Span::page(page).expect("a page of the range")
}

fn as_vault(span: Span) -> vault::Span {
    vault::Span::new(span.first.0, span.count.get()).expect("pages of the range")
}

fn refused(error: &Error) -> Refusal {
    Refusal::Kernel(error.to_string())
}

impl Engine for ProtectEngine {
    fn open(&self, span: Span) -> Result<(), Refusal> {
        self.range.unlock(as_vault(span)).map_err(|error| refused(&error))
    }

    fn close(&self, span: Span) -> Result<Frames, Refusal> {
        self.range.lock(as_vault(span)).map(|()| Frames::Same).map_err(|error| {
            // Where some of them are locked, a fault is answered by "they are open already".
            let _ = self.range.unlock(as_vault(span));
            refused(&error)
        })
    }

    /// Pages that have no frame get one when they are touched.
    fn fill(&self, span: Span) -> Result<Frames, Refusal> {
        self.open(span).map(|()| Frames::Untested)
    }

    /// The block was opened meanwhile, so it is enough to try again; or the program took the permissions away by itself.
    fn settle(&self, _: PageIndex) -> Result<Frames, Refusal> {
        Ok(Frames::Same)
    }

    fn discard(&self, span: Span) {
        self.zero(span);
        // If the kernel cannot keep one run more apart, the pages are used again without our knowing, and stay unlocked.
        let _ = self.range.lock(as_vault(span));
    }

    fn zero(&self, span: Span) {
        self.range.discard(as_vault(span)).expect("pages of ours are given back");
    }

    /// Who waits is woken by the answer to its fault.
    fn wake(&self, _: Span) {}

    /// An open block between locked ones makes two runs more.
    fn most_open(&self) -> usize {
        self.range.most_runs() / 2
    }

    fn replace(&self, page: PageIndex, content: &PageData) -> Result<(), Refusal> {
        let fresh = self.suspects.fresh()?;
        // SAFETY: the block is ours alone, one page that can be written, and nobody has a reference to it.
        unsafe { self.suspects.write(fresh.base(), content) };
        self.suspects.judge(self.range.exchange(page.0, fresh).map_err(|error| refused(&error))?);
        Ok(())
    }

    /// A page that the program has given back is not there, or, since it was looked at, the kernel's page of zeros.
    fn was_given_back(&self, page: PageIndex) -> bool {
        let place = self.range.address(page.0);
        let backing = self.pagemap.as_ref().and_then(|pagemap| pagemap.backing(place).ok());
        match backing {
            Some(Backing::Nothing) => true,
            // A frame that is shared with another process is known as one, or it holds something.
            Some(Backing::Shared) => {
                let known = self.frame_below(page).is_some_and(|frame| lost::own(frame).is_some());
                !known && self.with_vault(Span::of_page(page), |pages| pages.page(0).read()) == PageData::ZERO
            }
            Some(Backing::Own | Backing::Elsewhere) | None => false,
        }
    }

    fn with_vault<R>(&self, span: Span, look: impl FnOnce(&mut Pages<'_>) -> R) -> R {
        let mut copies = self.room.lock().expect("no panic").pop().unwrap_or_default();
        copies.resize(usize::try_from(span.count.get()).expect("pages of a block"), PageData::ZERO);
        self.copy(as_vault(span), &mut copies);
        let seen = look(&mut Pages::from(&mut *copies));
        self.room.lock().expect("no panic").push(copies);
        seen
    }

    fn flip(&self, page: PageIndex, bit: u32) {
        let offset = usize::try_from(bit / 8 % 4096).expect("a byte of a page");
        let mut copy = [PageData::ZERO];
        self.copy(one(page.0), &mut copy);
        let flipped = bytes(&mut copy)[offset] ^ 1 << (bit % 8);
        self.range.write(page.0, offset, &[flipped]).expect("memory that is there can be written");
    }

    /// Of a page that the hardware gave up, the one that it was on.
    fn frame(&self, page: PageIndex) -> Option<Frame> {
        let lost = || lost::frame_of(self.pagemap.as_ref()?, self.range.address(page.0));
        self.frame_below(page).and_then(lost::own).or_else(lost)
    }
}
