//! From a page that is wrong to the page that was stored, or to the word that it cannot be had.
//!
//! ```text
//! copy the page
//! if the copy has a stored CRC:            the page is good; put the other codes right if need be
//! for each guess of what was changed:
//!     if the copy, changed back, has one:  write the lines that differ, look at the page again, put the codes right
//! else:                                    uncorrectable
//! ```
//!
//! **Problem.** The codes lie in memory too. A page whose codes were hit must not be lost, still less be "corrected"
//! into something else; and a code that corrects one flip takes some changes of many bits for one flip. **Idea.** What
//! corrects is linear: the sum of the stored codes and those of the page as it is (the syndrome) depends on the changes
//! alone, so a guess is a pure function of it (`lines`, `words`, `lanes`). The CRC judges every guess. **Why two
//! CRCs.** Where what corrects finds nothing wrong, the CRC was hit or the page was changed beyond what the code sees;
//! a bit position that fails in many lines looks like that to P and Q once in 512 times. Only a second CRC tells the
//! two apart.

mod lanes;
mod lines;
mod syndrome;
mod words;

use crate::scheme::Codes;
use crate::{Codec, Page, PageBits, PageData, Scheme};

/// What became of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "a correction is rare, and nothing may be allocated where it is made")]
pub enum Outcome {
    /// The page and all its codes are as they were stored.
    Intact,
    /// The page is good, but its codes were changed. They are right again.
    CodesWrong,
    /// The page was changed; it and its codes are right again.
    Corrected(Correction),
    /// The page was changed beyond correction, or its memory does not keep what is written, or the page is good and
    /// both its CRCs were changed. Codes are left as they are; so is the page, unless its memory does not keep it.
    Uncorrectable,
}

/// What was put right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Correction {
    /// The bits of the page that had been flipped; at least one.
    pub flipped: PageBits,
    /// Whether the codes had been changed too.
    pub codes_wrong: bool,
}

impl Codec {
    /// Puts a page right, and its codes. It needs some 20 KiB of stack and allocates nothing.
    ///
    /// Panics if `codes` are not as long as those of the scheme.
    pub fn correct(&self, page: &mut Page<'_>, codes: &mut [u8]) -> Outcome {
        let mut data = page.read();
        let stored = Codes::read(codes);
        let found = self.engine.crc(&Page::from(&mut data));
        if stored.crcs.contains(&found) {
            return if self.renew(&mut data, codes) { Outcome::CodesWrong } else { Outcome::Intact };
        }
        let Some((flipped, crc)) = self.right_guess(&mut data, &stored) else { return Outcome::Uncorrectable };
        for (line, _) in flipped.changed_lines() {
            page.write_line(line, &data.lines[line]);
        }
        if self.engine.crc(page) != crc {
            return Outcome::Uncorrectable;
        }
        let codes_wrong = self.renew(&mut data, codes);
        Outcome::Corrected(Correction { flipped, codes_wrong })
    }

    /// The first guess that leads to a page with a stored CRC, and that CRC. `data` then holds that page.
    fn right_guess(&self, data: &mut PageData, stored: &Codes<'_>) -> Option<(PageBits, u32)> {
        let mut syndrome = [0; Scheme::MOST_CODE_BYTES];
        let syndrome = &mut syndrome[..self.scheme.check_bytes()];
        self.engine.encode(self.scheme, &Page::from(&mut *data), syndrome);
        assert_eq!(stored.check.len(), syndrome.len(), "codes of {}", self.scheme);
        syndrome.iter_mut().zip(stored.check).for_each(|(found, stored)| *found ^= stored);
        for number in 0..guesses(self.scheme) {
            let flipped = guess(self.scheme, syndrome, number);
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

    /// Writes the codes of a page anew; returns whether they were others.
    fn renew(&self, data: &mut PageData, codes: &mut [u8]) -> bool {
        let mut fresh = [0; Scheme::MOST_CODE_BYTES];
        let fresh = &mut fresh[..self.scheme.code_bytes()];
        self.encode(&Page::from(data), fresh);
        assert_eq!(codes.len(), fresh.len(), "codes of {}", self.scheme);
        let differ = *codes != *fresh;
        codes.copy_from_slice(fresh);
        differ
    }
}

/// How many guesses a scheme has. Each that is wrong is taken for right twice in 2^32 times.
const fn guesses(scheme: Scheme) -> usize {
    match scheme {
        Scheme::Crc => 0,
        Scheme::CrcPq | Scheme::CrcSecded => 1,
        Scheme::CrcHamming => 2,
    }
}

/// What was flipped, as far as a syndrome tells: nothing where it does not.
fn guess(scheme: Scheme, syndrome: &[u8], number: usize) -> PageBits {
    match scheme {
        Scheme::Crc => PageBits::NONE,
        Scheme::CrcPq => lines::flipped(syndrome),
        Scheme::CrcSecded => words::flipped(syndrome),
        Scheme::CrcHamming => lanes::flipped(syndrome, number == 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Engine;

    /// P and Q see nothing of it (`lines`), and so it could be taken for a change of the CRC.
    #[test]
    fn a_change_that_p_and_q_do_not_see_is_not_taken_for_a_wrong_crc() {
        let codec = Codec { scheme: Scheme::CrcPq, engine: Engine::detect() };
        let mut data = PageData::from_seed(3);
        let mut codes = [0; Scheme::CrcPq.code_bytes()];
        codec.encode(&Page::from(&mut data), &mut codes);
        data.flip(&[9, 8, 5, 2, 1, 0].into_iter().map(|exponent| 512 * (63 - exponent)).collect());
        let mut fresh = codes;
        codec.encode(&Page::from(&mut data), &mut fresh);
        assert!(fresh[4..132] == codes[4..132], "P and Q are the same");
        assert_eq!(codec.correct(&mut Page::from(&mut data), &mut codes), Outcome::Uncorrectable);
    }
}
