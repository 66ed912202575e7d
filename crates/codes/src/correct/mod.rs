//! Corrects a wrong page, or reports that it cannot be corrected.
//!
//! ```text
//! copy the page
//! if the copy has a stored CRC:            the page is good; correct the other codes if needed
//! for each guess of the change:
//!     if the copy, changed back, has one:  write the lines that differ, check the page again, correct the codes
//! else:                                    uncorrectable
//! ```
//!
//! **Problem.** The codes lie in memory too. A page whose codes were hit must not be lost, still less be "corrected"
//! into something else; and a code that corrects one flip mistakes some changes of many bits for one flip. **Idea.**
//! The correcting codes are linear: the sum of the stored codes and the codes of the present page (the syndrome)
//! depends only on the changes, so a guess is a pure function of it (`lines`, `words`, `lanes`). The CRC decides on
//! every guess. **Why two CRCs.** Where the correcting code finds nothing wrong, either the CRC was hit, or the page
//! changed in a way that the code cannot see; to P and Q, one in 512 failures of a bit position in many lines looks
//! like that. Only a second CRC tells the two cases apart.

mod lanes;
mod lines;
mod syndrome;
mod words;

use crate::scheme::Codes;
use crate::{Codec, Page, PageBits, PageData, Scheme};

/// The result of a correction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "a correction is rare, and nothing may be allocated where it is made")]
pub enum CorrectionOutcome {
    /// The page and all its codes are as they were stored.
    Intact,
    /// The page is good, but its codes were changed. They are right again.
    CodesWrong,
    /// The page had changed; the page and its codes are right again.
    Corrected(Correction),
    /// The page changed beyond correction, or its memory does not keep what is written, or the page is good and both
    /// its CRCs changed. The codes stay as they are; so does the page, unless its memory does not keep it.
    Uncorrectable,
}

/// The changes that were undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Correction {
    /// The bits of the page that had been flipped; at least one.
    pub flipped: PageBits,
    /// Whether the codes had changed too.
    pub codes_wrong: bool,
}

impl Codec {
    /// Corrects a page and its codes. It needs some 20 KiB of stack and allocates nothing.
    ///
    /// Panics if `codes` does not have the scheme's length.
    pub fn correct(&self, page: &mut Page<'_>, codes: &mut [u8]) -> CorrectionOutcome {
        let mut data = page.read();
        let stored = Codes::read(codes);
        let found = self.engine.crc(&Page::from(&mut data));
        if stored.crcs.contains(&found) {
            return if self.re_place_expiring(&mut data, codes) {
                CorrectionOutcome::CodesWrong
            } else {
                CorrectionOutcome::Intact
            };
        }
        let Some((flipped, crc)) = self.right_guess(&mut data, &stored) else {
            return CorrectionOutcome::Uncorrectable;
        };
        for (line, _) in flipped.changed_lines() {
            page.write_line(line, &data.lines[line]);
        }
        if self.engine.crc(page) != crc {
            return CorrectionOutcome::Uncorrectable;
        }
        let codes_wrong = self.re_place_expiring(&mut data, codes);
        CorrectionOutcome::Corrected(Correction { flipped, codes_wrong })
    }

    /// The first guess that leads to a page with a stored CRC, and that CRC. `data` then holds that page.
    fn right_guess(&self, data: &mut PageData, stored: &Codes<'_>) -> Option<(PageBits, u32)> {
        let mut syndrome = [0; Scheme::MOST_CODE_BYTES];
        let syndrome = &mut syndrome[..self.scheme.check_bytes()];
        self.engine.encode(self.scheme, &Page::from(&mut *data), syndrome);
        assert_eq!(stored.check.len(), syndrome.len(), "codes of {}", self.scheme);
        syndrome.iter_mut().zip(stored.check).for_each(|(found, stored)| *found ^= stored);
        for guess in guesses(self.scheme) {
            let flipped = guess(syndrome);
            if flipped.is_empty() {
                continue;
            }
            data.flip(&flipped);
            let crc = self.engine.crc(&Page::from(&mut *data));
            if stored.crcs.contains(&crc) {
                return Some((flipped, crc));
            }
            data.flip(&flipped);
        }
        None
    }

    /// Writes the codes of a page again; returns whether they changed.
    fn re_place_expiring(&self, data: &mut PageData, codes: &mut [u8]) -> bool {
        let mut fresh = [0; Scheme::MOST_CODE_BYTES];
        let fresh = &mut fresh[..self.scheme.code_bytes()];
        self.encode(&Page::from(data), fresh);
        assert_eq!(codes.len(), fresh.len(), "codes of {}", self.scheme);
        let differ = *codes != *fresh;
        codes.copy_from_slice(fresh);
        differ
    }
}

/// The flips that a syndrome suggests; none where it suggests nothing.
type Guess = fn(&[u8]) -> PageBits;

/// The guesses of a scheme. Each wrong guess passes the two CRCs with probability 2 in 2^32.
const fn guesses(scheme: Scheme) -> &'static [Guess] {
    match scheme {
        Scheme::Crc => &[],
        Scheme::CrcPq => &[lines::flipped],
        Scheme::CrcSecded => &[words::flipped],
        Scheme::CrcHamming => &[|syndrome| lanes::flipped(syndrome, true), |syndrome| lanes::flipped(syndrome, false)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CodeEngine;

    /// P and Q do not see the change (`lines`), so it could be mistaken for a change of the CRC.
    #[test]
    fn a_change_that_p_and_q_do_not_see_is_not_taken_for_a_wrong_crc() {
        let codec = Codec { scheme: Scheme::CrcPq, engine: CodeEngine::detect() };
        let mut data = PageData::from_seed(3);
        let mut codes = [0; Scheme::CrcPq.code_bytes()];
        codec.encode(&Page::from(&mut data), &mut codes);
        data.flip(&[9, 8, 5, 2, 1, 0].into_iter().map(|exponent| 512 * (63 - exponent)).collect());
        let mut fresh = codes;
        codec.encode(&Page::from(&mut data), &mut fresh);
        assert!(fresh[4..132] == codes[4..132], "P and Q are the same");
        assert_eq!(codec.correct(&mut Page::from(&mut data), &mut codes), CorrectionOutcome::Uncorrectable);
    }
}
