//! Encodes and verifies one page or many.

use crate::scheme::{Codes, write_codes};
use crate::{CodeEngine, Page, Pages, Scheme};

/// The result of a check of a page's CRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CodeVerdict {
    /// The page has the CRC that was stored.
    Verified,
    /// The page has another CRC: the page changed, or its stored CRC did. [`Codec::correct`] tells which.
    Wrong,
}

/// Computes the codes of one scheme.
///
/// The codes of a page are a slice of [`Scheme::code_bytes`] bytes, of any alignment; those of many pages follow each
/// other. All functions panic if a slice has another length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Codec {
    /// The codes.
    pub scheme: Scheme,
    /// The engine that computes them.
    pub engine: CodeEngine,
}

impl Codec {
    /// Writes the codes of a page.
    pub fn encode(&self, page: &Page<'_>, codes: &mut [u8]) {
        write_codes(codes, |check| self.engine.encode(self.scheme, page, check));
    }

    /// Checks a page against its first stored CRC. Nothing else of the codes is checked.
    #[must_use]
    pub fn verify(&self, page: &Page<'_>, codes: &[u8]) -> CodeVerdict {
        self.verdict(codes, self.engine.crc(page))
    }

    /// Writes the codes of many pages.
    pub fn encode_all(&self, pages: &Pages<'_>, codes: &mut [u8]) {
        assert_eq!(codes.len(), pages.count() * self.scheme.code_bytes(), "codes for each page");
        for (page, codes) in codes.chunks_exact_mut(self.scheme.code_bytes()).enumerate() {
            write_codes(codes, |check| self.engine.encode_one(self.scheme, pages, page, check));
        }
    }

    /// Verifies many pages, and calls `wrong` with the index of each wrong page, in ascending order.
    pub fn verify_all(&self, pages: &Pages<'_>, codes: &[u8], mut wrong: impl FnMut(usize)) {
        assert_eq!(codes.len(), pages.count() * self.scheme.code_bytes(), "codes of each page");
        for (page, codes) in codes.chunks_exact(self.scheme.code_bytes()).enumerate() {
            let crc = self.engine.encode_one(Scheme::Crc, pages, page, &mut []);
            if self.verdict(codes, crc) == CodeVerdict::Wrong {
                wrong(page);
            }
        }
    }

    fn verdict(&self, codes: &[u8], crc: u32) -> CodeVerdict {
        assert_eq!(codes.len(), self.scheme.code_bytes(), "the codes of a page");
        if Codes::read(codes).crcs[0] == crc { CodeVerdict::Verified } else { CodeVerdict::Wrong }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{PageBits, PageData, reference_model};

    /// Every engine of this machine with every scheme.
    fn codecs() -> impl Iterator<Item = Codec> {
        let engines = CodeEngine::all_available();
        engines.into_iter().flat_map(|engine| Scheme::ALL.map(|scheme| Codec { scheme, engine }))
    }

    fn naive_codes(scheme: Scheme, data: &PageData) -> Vec<u8> {
        let crc = reference_model::crc32c(&data.to_bytes()).to_le_bytes();
        let check = match scheme {
            Scheme::Crc => Vec::new(),
            Scheme::CrcPq => reference_model::p_and_q(data),
            Scheme::CrcSecded => reference_model::secded(data),
            Scheme::CrcHamming => reference_model::hamming(data),
        };
        [&crc, &*check, &crc].concat()
    }

    fn assert_naive(data: &mut PageData) {
        for codec in codecs() {
            let naive = naive_codes(codec.scheme, data);
            let mut codes = vec![0xa5; codec.scheme.code_bytes()];
            codec.encode(&Page::from(&mut *data), &mut codes);
            assert!(codes == naive, "{} by {}", codec.scheme, codec.engine);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn every_engine_computes_the_codes_of_the_naive_twins(seed: u64) {
            assert_naive(&mut PageData::from_seed(seed));
        }

        #[test]
        fn so_it_does_of_pages_with_few_bits_set(bits in prop::collection::vec(0_usize..32768, 0..4)) {
            let mut data = PageData::ZERO;
            data.flip(&bits.into_iter().collect());
            assert_naive(&mut data);
        }
    }

    #[test]
    fn codes_of_many_pages_are_those_of_each() {
        let mut data: Vec<_> = (0..5).map(PageData::from_seed).collect();
        for codec in codecs() {
            let size = codec.scheme.code_bytes();
            let mut each = vec![0; 5 * size];
            for (data, codes) in data.iter_mut().zip(each.chunks_mut(size)) {
                codec.encode(&Page::from(data), codes);
            }
            let mut all = vec![0; 5 * size];
            codec.encode_all(&Pages::from(&mut *data), &mut all);
            assert!(all == each, "{} by {}", codec.scheme, codec.engine);
        }
    }

    #[test]
    fn a_page_is_verified_by_its_own_codes_only() {
        for codec in codecs() {
            let mut data = PageData::from_seed(1);
            let mut codes = naive_codes(codec.scheme, &data);
            assert_eq!(codec.verify(&Page::from(&mut data), &codes), CodeVerdict::Verified);
            data.flip(&PageBits::from_iter([9]));
            assert_eq!(codec.verify(&Page::from(&mut data), &codes), CodeVerdict::Wrong);
            codes = naive_codes(codec.scheme, &data);
            assert_eq!(codec.verify(&Page::from(&mut data), &codes), CodeVerdict::Verified);
        }
    }

    #[test]
    fn of_many_pages_just_the_wrong_ones_are_named() {
        for codec in codecs() {
            let mut data: Vec<_> = (0..5).map(PageData::from_seed).collect();
            let mut codes = vec![0; 5 * codec.scheme.code_bytes()];
            codec.encode_all(&Pages::from(&mut *data), &mut codes);
            for page in [0, 3, 4] {
                data[page].flip(&PageBits::from_iter([1000 * page]));
            }
            let mut wrong = Vec::new();
            codec.verify_all(&Pages::from(&mut *data), &codes, |page| wrong.push(page));
            assert_eq!(wrong, [0, 3, 4], "{} by {}", codec.scheme, codec.engine);
        }
    }

    #[test]
    fn codes_need_not_be_aligned() {
        for codec in codecs() {
            let mut data = PageData::from_seed(1);
            let naive = naive_codes(codec.scheme, &data);
            for start in 0..8 {
                let mut codes = vec![0; start + naive.len() + 8];
                let page = Page::from(&mut data);
                codec.encode(&page, &mut codes[start..start + naive.len()]);
                assert!(codes[start..start + naive.len()] == naive, "{} by {}", codec.scheme, codec.engine);
                let around = codes[..start].iter().chain(&codes[start + naive.len()..]);
                assert!(around.clone().all(|&byte| byte == 0), "{} by {}", codec.scheme, codec.engine);
            }
        }
    }

    #[test]
    #[should_panic(expected = "room for what corrects in crc+pq")]
    fn codes_of_another_scheme_are_refused() {
        let codec = Codec { scheme: Scheme::CrcPq, engine: CodeEngine::PORTABLE };
        let mut data = PageData::ZERO;
        codec.encode(&Page::from(&mut data), &mut [0; Scheme::CrcSecded.code_bytes()]);
    }
}
