//! Makes codes, and verifies and corrects pages by them.

use rampart_codes::{CorrectionOutcome, Page, PageData};
use std::ops::Range;

use crate::engine::GuardEngine;
use crate::settings::pages::OnError;
use crate::state::layout::{BlockIndex, PageIndex, PageSet, PageSpan};
use crate::state::table::{Grain, GuardBlock};
use crate::state::units::Units;
use crate::telemetry::counts::Counter;
use crate::telemetry::observer::Trouble;

use super::Guard;

/// How often a page beyond correction is read.
const READS: usize = 3;

/// The most frames that are tried until one holds a page.
const FRAMES: usize = 8;

/// The result of a verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verified {
    /// All pages agree with their codes, some after a correction.
    Right,
    /// Some are beyond correction, and the program goes on with them.
    Wrong,
    /// Some are beyond correction, and the program must stop.
    Stop,
}

impl<E: GuardEngine + ?Sized> Guard<'_, E> {
    /// Makes the codes of those units that lack them.
    pub(crate) fn encode(&self, block: BlockIndex, units: Units) {
        let mut known = self.table.lock(block);
        let units = units & known.pending;
        if units.is_empty() {
            return;
        }
        let began = self.clock.stopwatch();
        if known.codes.is_empty() {
            known.codes = vec![0; self.layout().block_pages() as usize * self.codec.scheme.code_bytes()].into();
        }
        for span in self.layout().spans(block, units) {
            let codes = self.codes_of(block, span);
            let codes = &mut known.codes[codes];
            self.engine.with_vault(span, &mut |pages| self.codec.encode_all(pages, codes));
        }
        known.pending -= units;
        let layout = self.layout();
        known.reported.retain(|page| !units.has(Units::run(layout.unit_of(*page), 1)));
        self.counts.add(Counter::Encoded, self.layout().pages_of(units));
        self.counts.add_time(Counter::EncodeNanos, self.took(began));
    }

    /// Verifies locked units in the vault and corrects them.
    pub(crate) fn verify(&self, block: BlockIndex, known: &mut GuardBlock, units: Units) -> Verified {
        let mut verified = Verified::Right;
        for span in self.layout().spans(block, units) {
            let began = self.clock.stopwatch();
            let codes = self.codes_of(block, span);
            let mut wrong = PageSet::NONE;
            self.engine.with_vault(span, &mut |pages| {
                let note = |page| wrong.insert(u32::try_from(page).expect("a page of a block"));
                self.codec.verify_all(pages, &known.codes[codes.clone()], note);
            });
            self.counts.add(Counter::Verified, span.count.get());
            self.counts.add_time(Counter::VerifyNanos, self.took(began));
            for page in wrong.iter() {
                if !self.put_right(block, known, PageIndex(span.first.0 + u64::from(page))) {
                    let goes_on = self.settings.on_error == OnError::Continue;
                    verified = if goes_on { Verified::Wrong } else { Verified::Stop };
                }
            }
        }
        verified
    }

    /// The place of the codes of some pages among the block's.
    fn codes_of(&self, block: BlockIndex, span: PageSpan) -> Range<usize> {
        let size = self.codec.scheme.code_bytes();
        let pages = |count: u64| usize::try_from(count).expect("pages of a block") * size;
        let first = pages(span.first.0 - self.layout().span(block).first.0);
        first..first + pages(span.count.get())
    }

    /// Corrects a page that was read wrong; `false`: it is beyond correction.
    ///
    /// The page's frame may have a stuck cell, which shows again as soon as the page leaves the caches. So nothing is
    /// corrected in place: the right content moves to another frame, even if a second read finds no error.
    fn put_right(&self, block: BlockIndex, known: &mut GuardBlock, page: PageIndex) -> bool {
        let codes = self.codes_of(block, PageSpan::of_page(page));
        if self.engine.was_given_back(page) {
            known.codes[codes].copy_from_slice(&self.zero_codes);
            return true;
        }
        let (mut outcome, content) = self.correct(page, &mut known.codes[codes]);
        let frame = self.engine.frame(page);
        if matches!(outcome, CorrectionOutcome::Intact | CorrectionOutcome::Corrected(_)) {
            if matches!(known.grain, Grain::Whole { .. }) {
                // A huge page loses a part. The rest gets tested frames too, without hurry.
                known.tested = None;
            }
            if !self.put_elsewhere(page, &content) {
                outcome = CorrectionOutcome::Uncorrectable;
            }
        }
        let counter = match outcome {
            CorrectionOutcome::Intact => Counter::Transient,
            CorrectionOutcome::CodesWrong => Counter::CodesWrong,
            CorrectionOutcome::Corrected(_) => Counter::Corrected,
            CorrectionOutcome::Uncorrectable if known.reported.contains(&page) => return false,
            CorrectionOutcome::Uncorrectable => {
                known.reported.push(page);
                Counter::Uncorrectable
            }
        };
        // In this order: the process may end at any moment, and counted errors have been reported.
        self.observer.trouble(&Trouble { page, frame, outcome });
        self.counts.add(counter, 1);
        counter != Counter::Uncorrectable
    }

    /// The verdict of a page's codes, and the right content if they determine it. A page that reads differently each
    /// time may be correctable at the next read.
    fn correct(&self, page: PageIndex, codes: &mut [u8]) -> (CorrectionOutcome, PageData) {
        let mut reads = 0;
        loop {
            let mut content = self.engine.read(page);
            let outcome = self.codec.correct(&mut Page::from(&mut content), codes);
            reads += 1;
            if outcome != CorrectionOutcome::Uncorrectable || reads == READS {
                return (outcome, content);
            }
        }
    }

    /// Puts a page on another frame, and reads it back. `false`: none of the frames held it.
    fn put_elsewhere(&self, page: PageIndex, content: &PageData) -> bool {
        for _ in 0..FRAMES {
            match self.engine.replace(page, content) {
                Ok(()) if self.engine.read(page) == *content => return true,
                Ok(()) => {}
                Err(_) => return false,
            }
        }
        false
    }
}
