//! What each scheme detects, corrects and refuses, as the crate's documents promise.

mod both_hit;
mod codes_hit;
mod page_hit;
mod seen;

use rampart_codes::{CodeEngine, CodeVerdict, Codec, Correction, CorrectionOutcome, Page, PageBits, PageData, Scheme};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The correcting schemes.
const CORRECTING: [Scheme; 3] = [Scheme::CrcPq, Scheme::CrcHamming, Scheme::CrcSecded];

/// Bits of a page.
const BITS: usize = 32768;

/// A page and its codes, both as stored and as they are now.
#[derive(Clone)]
struct Stored {
    codec: Codec,
    good: PageData,
    good_codes: Vec<u8>,
    page: PageData,
    codes: Vec<u8>,
}

impl Stored {
    fn new(scheme: Scheme) -> Self {
        Self::by(CodeEngine::detect(), scheme)
    }

    fn by(engine: CodeEngine, scheme: Scheme) -> Self {
        let codec = Codec { scheme, engine };
        let mut good = PageData::from_seed(scheme.code_bytes() as u64);
        let mut codes = vec![0; scheme.code_bytes()];
        codec.encode(&Page::from(&mut good), &mut codes);
        Self { codec, page: good.clone(), good, good_codes: codes.clone(), codes }
    }

    fn flip(&mut self, bits: impl IntoIterator<Item = usize>) {
        self.page.flip(&bits.into_iter().collect());
    }

    fn flip_code(&mut self, bit: usize) {
        self.codes[bit / 8] ^= 1 << (bit % 8);
    }

    fn verify(&mut self) -> CodeVerdict {
        self.codec.verify(&Page::from(&mut self.page), &self.codes)
    }

    /// Corrects, and checks that the reported outcome is true.
    fn correct(&mut self) -> CorrectionOutcome {
        let (page, codes) = (self.page.clone(), self.codes.clone());
        let verified = self.verify() == CodeVerdict::Verified;
        let outcome = self.codec.correct(&mut Page::from(&mut self.page), &mut self.codes);
        let scheme = self.codec.scheme;
        assert!(!verified || page == self.good, "{scheme}: a wrong page was verified");
        match &outcome {
            CorrectionOutcome::Uncorrectable => {
                assert!(self.page == page && self.codes == codes, "{scheme}: what cannot be corrected is left alone");
            }
            CorrectionOutcome::Intact | CorrectionOutcome::CodesWrong => {
                assert!(self.page == self.good && page == self.good, "{scheme}: silent");
                assert!(self.codes == self.good_codes, "{scheme}: the codes are right again");
                assert_eq!(codes != self.good_codes, outcome == CorrectionOutcome::CodesWrong, "{scheme}");
            }
            CorrectionOutcome::Corrected(Correction { flipped, codes_wrong }) => {
                assert!(self.page == self.good, "{scheme}: corrected into something else");
                assert!(self.codes == self.good_codes, "{scheme}: the codes are right again");
                let mut back = page;
                back.flip(flipped);
                assert!(back == self.good && !flipped.is_empty(), "{scheme}: other bits are named");
                assert_eq!(*codes_wrong, codes != self.good_codes, "{scheme}");
            }
        }
        outcome
    }

    fn is_corrected(&mut self) -> bool {
        matches!(self.correct(), CorrectionOutcome::Corrected(_))
    }

    /// Restores the stored page and codes.
    fn restore(&mut self) {
        self.page.clone_from(&self.good);
        self.codes.clone_from(&self.good_codes);
    }
}

fn random(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// This many different bits of a page.
fn different_bits(random: &mut ChaCha8Rng, count: u32) -> PageBits {
    let mut bits = PageBits::NONE;
    while bits.count() < count {
        bits.insert(random.random_range(0..BITS));
    }
    bits
}

/// Their indices in the page.
fn places(bits: &PageBits) -> Vec<usize> {
    bits.iter().map(|(line, bit)| 512 * line + usize::from(bit.index())).collect()
}
