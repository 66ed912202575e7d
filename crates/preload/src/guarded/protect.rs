//! What the guard asks of the machine, by permissions (`mprotect`).

#![allow(unsafe_code, reason = "copies of pages are filled by the kernel")]

use std::sync::Mutex;

use rampart_codes::{PageData, Pages};
use rampart_guard::{Engine, Frames, PageIndex, Refusal, Span};
use rampart_linux::protect::Protected;
use rampart_linux::{Error, Pagemap, Roots, vault};
use rampart_memory::Frame;

use super::lost;

/// A range whose pages are locked where they are. What is looked at is a copy.
pub struct ProtectEngine {
    range: &'static Protected,
    pagemap: Option<Pagemap>,
    /// Room for copies, one for each thread that ever looked at once.
    room: Mutex<Vec<Vec<PageData>>>,
}

impl ProtectEngine {
    pub fn new(range: &'static Protected) -> Self {
        Self { range, pagemap: Pagemap::open(&Roots::default()).ok(), room: Mutex::default() }
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

    fn with_vault<R>(&self, span: Span, look: impl FnOnce(&mut Pages<'_>) -> R) -> R {
        let mut copies = self.room.lock().expect("no panic").pop().unwrap_or_default();
        copies.resize(usize::try_from(span.count.get()).expect("pages of a block"), PageData::ZERO);
        self.copy(as_vault(span), &mut copies);
        let before = (copies.len() == 1).then(|| copies[0].clone());
        let seen = look(&mut Pages::from(&mut *copies));
        if before.is_some_and(|before| before != copies[0]) {
            // What cannot be put right in memory is as it was, and is found again.
            let _ = self.range.write(span.first.0, 0, bytes(&mut copies));
        }
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
        let (pagemap, mut frames) = (self.pagemap.as_ref()?, Vec::new());
        self.range.frames(one(page.0), pagemap, &mut frames).ok()?;
        let there = frames.first().copied().flatten();
        there.or_else(|| lost::frame_of(pagemap, self.range.address(page.0)))
    }
}
