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

use super::Guard;

/// What became of pages that were verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verified {
    /// All are as their codes say, some since they were put right.
    Right,
    /// Some are beyond correction, and the program goes on with them.
    Wrong,
    /// Some are, and it must not.
    Stop,
}

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
        self.counts.add_time(Counter::EncodeNanos, began.elapsed());
    }

    /// Verifies locked units in the vault and puts right what can be.
    pub(super) fn verify(&self, block: BlockIndex, known: &mut Block, units: Units) -> Verified {
        let mut verified = Verified::Right;
        for span in self.layout().spans(block, units) {
            let began = Instant::now();
            let codes = self.codes_of(block, span);
            let mut wrong = PageSet::NONE;
            self.engine.with_vault(span, |pages| {
                let note = |page| wrong.insert(u32::try_from(page).expect("a page of a block"));
                self.codec.verify_all(pages, &known.codes[codes.clone()], note);
            });
            self.counts.add(Counter::Verified, span.count.get());
            self.counts.add_time(Counter::VerifyNanos, began.elapsed());
            for page in wrong.iter() {
                let page = PageIndex(span.first.0 + u64::from(page));
                let codes = self.codes_of(block, Span::of_page(page));
                if !self.correct(page, &mut known.codes[codes]) {
                    let goes_on = self.knobs.on_error == OnError::Continue;
                    verified = if goes_on { Verified::Wrong } else { Verified::Stop };
                }
            }
        }
        verified
    }

    /// Where the codes of pages of a block are among the block's.
    fn codes_of(&self, block: BlockIndex, span: Span) -> Range<usize> {
        let size = self.codec.scheme.code_bytes();
        let pages = |count: u64| usize::try_from(count).expect("pages of a block") * size;
        let first = pages(span.first.0 - self.layout().span(block).first.0);
        first..first + pages(span.count.get())
    }

    /// Puts a page right; `false`: it is beyond correction.
    fn correct(&self, page: PageIndex, codes: &mut [u8]) -> bool {
        let outcome =
            self.engine.with_vault(Span::of_page(page), |pages| self.codec.correct(&mut pages.page(0), codes));
        let counter = match outcome {
            Outcome::Intact => return true,
            Outcome::CodesWrong => Counter::CodesWrong,
            Outcome::Corrected(_) => Counter::Corrected,
            Outcome::Uncorrectable => Counter::Uncorrectable,
        };
        // In this order: the process may end at any moment, and what is counted was told.
        self.witness.trouble(&Trouble { page, frame: self.engine.frame(page), outcome });
        self.counts.add(counter, 1);
        counter != Counter::Uncorrectable
    }
}
