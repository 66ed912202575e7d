//! The instruction set that computes, chosen when the program runs.

use std::fmt;

use super::arch::Isa;
use super::page::{Page, Pages};
use super::pass::Job;
use crate::{PageData, Scheme, crc};

/// Pages on which an engine is compared with the portable one before its first use. A page exercises every instruction
/// of a kernel, since none branches on data; and each process of a guarded program makes the comparison.
const COMPARED: u64 = 4;

/// An instruction set of this processor.
///
/// The kernels for AVX-512 with VPCLMULQDQ and GFNI were measured on a Zen 5 (docs/performance.md).
/// [`CodeEngine::detect`] compares each kernel with the portable one before it trusts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CodeEngine(Isa);

impl CodeEngine {
    /// The engine that needs no special instruction.
    pub const PORTABLE: Self = Self(Isa::Portable);

    /// The fastest engine whose codes of a few pages equal those of the portable one. It takes a tenth of a
    /// millisecond: ask once.
    #[must_use]
    pub fn detect() -> Self {
        first_that(&Self::all_available(), |engine| are_right(COMPARED, |scheme, page| engine.codes(scheme, page)))
    }

    /// All engines of this processor, the fastest first, [`CodeEngine::PORTABLE`] last.
    #[must_use]
    pub fn all_available() -> Vec<Self> {
        Isa::available().into_iter().map(Self).collect()
    }

    /// The manufacturer's name of the instruction set.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.0.name()
    }

    /// The CRC of a page, and its correcting code with zeros after it.
    fn codes(self, scheme: Scheme, page: &Page<'_>) -> (u32, [u8; Scheme::MOST_CODE_BYTES]) {
        let mut check = [0; Scheme::MOST_CODE_BYTES];
        (self.encode(scheme, page, &mut check[..scheme.check_bytes()]), check)
    }

    /// The CRC of a page.
    pub(crate) fn crc(self, page: &Page<'_>) -> u32 {
        self.encode(Scheme::Crc, page, &mut [])
    }

    /// The CRC of a page; the correcting code goes to `check`. Panics if `check` does not have the scheme's length.
    pub(crate) fn encode(self, scheme: Scheme, page: &Page<'_>, check: &mut [u8]) -> u32 {
        let page = page.base().as_ptr();
        self.perform(scheme, page, page, check)
    }

    /// The same for one of many pages, with a prefetch of the next one.
    pub(crate) fn encode_one(self, scheme: Scheme, pages: &Pages<'_>, index: usize, check: &mut [u8]) -> u32 {
        let next = (index + 1).min(pages.count() - 1);
        self.perform(scheme, pages.at(index).as_ptr(), pages.at(next).as_ptr(), check)
    }

    fn perform(self, scheme: Scheme, page: *const u8, ahead: *const u8, check: &mut [u8]) -> u32 {
        assert_eq!(check.len(), scheme.check_bytes(), "room for what corrects in {scheme}");
        let job = Job { scheme, page, ahead, check: check.as_mut_ptr() };
        // SAFETY: 1. every `Page` and each of `Pages` may be read and is aligned to 64 bytes; 2. `check` is as long as
        // the scheme says, as just asserted.
        crc::of_state(unsafe { self.0.perform(&job) })
    }
}

/// The first trusted engine; the last one is trusted in any case.
fn first_that(engines: &[CodeEngine], trusted: impl Fn(CodeEngine) -> bool) -> CodeEngine {
    let (last, others) = engines.split_last().expect("every processor has the portable engine");
    *others.iter().find(|&&engine| trusted(engine)).unwrap_or(last)
}

/// Whether the codes of this many pages equal those of the portable engine.
fn are_right(pages: u64, codes: impl Fn(Scheme, &Page<'_>) -> (u32, [u8; Scheme::MOST_CODE_BYTES])) -> bool {
    (0..pages).all(|seed| {
        let mut data = PageData::from_seed(seed);
        let page = Page::from(&mut data);
        Scheme::ALL.into_iter().all(|scheme| codes(scheme, &page) == CodeEngine::PORTABLE.codes(scheme, &page))
    })
}

impl fmt::Display for CodeEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PageBits;

    #[test]
    fn every_engine_of_this_machine_agrees_with_the_portable_one() {
        let engines = CodeEngine::all_available();
        assert_eq!(engines.last(), Some(&CodeEngine::PORTABLE));
        assert_eq!(CodeEngine::detect(), engines[0]);
        for engine in engines {
            assert!(are_right(200, |scheme, page| engine.codes(scheme, page)), "{engine}");
        }
    }

    #[test]
    fn an_engine_is_wrong_if_the_codes_of_one_scheme_are_those_of_another_page() {
        for wrong in Scheme::ALL {
            let right = are_right(1, |scheme, page| {
                let mut data = page.read();
                if scheme == wrong {
                    data.flip(&PageBits::from_iter([12_345]));
                }
                CodeEngine::PORTABLE.codes(scheme, &Page::from(&mut data))
            });
            assert!(!right, "{wrong}");
        }
    }

    #[test]
    fn an_engine_that_disagrees_is_passed_over() {
        let engines = CodeEngine::all_available();
        for (i, &wrong) in engines.iter().enumerate() {
            let chosen = first_that(&engines, |engine| engine != wrong);
            let expected = if i == 0 { engines.get(1).copied().unwrap_or(CodeEngine::PORTABLE) } else { engines[0] };
            assert_eq!(chosen, expected, "{wrong} is wrong");
        }
        assert_eq!(first_that(&engines, |_| false), CodeEngine::PORTABLE);
    }

    #[test]
    fn an_engine_is_shown_by_its_name() {
        assert_eq!(format!("{:>10}", CodeEngine::PORTABLE), "  portable");
    }
}
