//! Codes are made, and pages are verified by them and put right.

use std::ops::Range;
use std::time::Instant;

use rampart_codes::Outcome;

use crate::counts::Counter;
use crate::engine::Engine;
use crate::knobs::OnError;
use crate::layout::{BlockIndex, PageIndex, PageSet, Span};
use crate::table::Block;
use crate::units::Units;
use crate::witness::Trouble;

use super::{Guard, Served};

impl<E: Engine> Guard<'_, E> {
    /// Makes the codes of those units that still lack them.
    pub(super) fn encode(&self, block: BlockIndex, units: Units) {
        let mut known = self.table.lock(block);
        let units = units & known.stale;
        if units.is_empty() {
            return;
        }
        let began = Instant::now();
        if known.codes.is_empty() {
            known.codes = vec![0; self.layout().block_pages() as usize * self.codec.scheme.code_bytes()].into();
        }
        for span in self.layout().spans(block, units) {
            let codes = self.codes_of(block, span);
            self.engine.with_vault(span, |pages| self.codec.encode_all(pages, &mut known.codes[codes]));
        }
        known.stale -= units;
        self.counts.add(Counter::Encoded, self.layout().pages_of(units));
        self.counts.add(Counter::EncodeNanos, nanos(began));
    }

    /// Verifies locked units in the vault and puts right what can be.
    pub(super) fn verify(&self, block: BlockIndex, known: &mut Block, units: Units) -> Served {
        let mut served = Served::GoesOn;
        for span in self.layout().spans(block, units) {
            let began = Instant::now();
            let codes = self.codes_of(block, span);
            let mut wrong = PageSet::NONE;
            self.engine.with_vault(span, |pages| {
                let note = |page| wrong.insert(u32::try_from(page).expect("a page of a block"));
                self.codec.verify_all(pages, &known.codes[codes.clone()], note);
            });
            self.counts.add(Counter::Verified, span.count.get());
            self.counts.add(Counter::VerifyNanos, nanos(began));
            for page in wrong.iter() {
                let page = PageIndex(span.first.0 + u64::from(page));
                let codes = self.codes_of(block, Span::of_page(page));
                if self.correct(page, &mut known.codes[codes]) == Served::Stop {
                    served = Served::Stop;
                }
            }
        }
        served
    }

    /// Where the codes of pages of a block are among the block's.
    fn codes_of(&self, block: BlockIndex, span: Span) -> Range<usize> {
        let size = self.codec.scheme.code_bytes();
        let pages = |count: u64| usize::try_from(count).expect("pages of a block") * size;
        let first = pages(span.first.0 - self.layout().span(block).first.0);
        first..first + pages(span.count.get())
    }

    fn correct(&self, page: PageIndex, codes: &mut [u8]) -> Served {
        let outcome =
            self.engine.with_vault(Span::of_page(page), |pages| self.codec.correct(&mut pages.page(0), codes));
        let (counter, stop) = match outcome {
            Outcome::Intact => return Served::GoesOn,
            Outcome::CodesWrong => (Counter::CodesWrong, false),
            Outcome::Corrected(_) => (Counter::Corrected, false),
            Outcome::Uncorrectable => (Counter::Uncorrectable, self.knobs.on_error != OnError::Continue),
        };
        self.counts.add(counter, 1);
        self.witness.trouble(&Trouble { page, frame: self.engine.frame(page), outcome });
        if stop { Served::Stop } else { Served::GoesOn }
    }
}

fn nanos(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
