//! The codes that are stored with a page.

use std::fmt;
use std::str::FromStr;

use crate::LINE_BYTES;

/// Bytes of a CRC.
const CRC_BYTES: usize = 4;

/// The codes that are stored with a page: a CRC, and a correcting code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// CRC32C alone: changes are detected, none is corrected.
    Crc,
    /// With two lines, P and Q, as in RAID 6: P is the sum of the page's lines, Q that of line i times 2^(63-i) in the
    /// field of 256 elements modulo 0x11d, byte by byte. Any one line can be rebuilt.
    CrcPq,
    /// With a byte for each word of 64 bits: a SECDED(72,64) Hsiao code, in the order of the words.
    CrcSecded,
    /// With seven lines: for each bit of a line's index, 0 to 63, the sum of the lines whose index has it; then the sum
    /// of all. Each bit position of a line is a word of 64 bits with an extended Hamming code.
    CrcHamming,
}

impl Scheme {
    /// All schemes, the one with the fewest bytes first.
    pub const ALL: [Self; 4] = [Self::Crc, Self::CrcPq, Self::CrcHamming, Self::CrcSecded];

    /// The most bytes that a scheme stores with a page.
    pub(crate) const MOST_CODE_BYTES: usize = Self::CrcSecded.code_bytes();

    /// The number of bytes stored with a page: 8 to 520.
    #[must_use]
    pub const fn code_bytes(self) -> usize {
        CRC_BYTES + self.check_bytes() + CRC_BYTES
    }

    /// The bytes of the correcting code.
    pub(crate) const fn check_bytes(self) -> usize {
        match self {
            Self::Crc => 0,
            Self::CrcPq => 2 * LINE_BYTES,
            Self::CrcSecded => 8 * LINE_BYTES,
            Self::CrcHamming => 7 * LINE_BYTES,
        }
    }

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crc => "crc",
            Self::CrcPq => "crc+pq",
            Self::CrcSecded => "crc+secded",
            Self::CrcHamming => "crc+hamming",
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// `{0}` is not a scheme of codes: give crc, crc+pq, crc+hamming or crc+secded
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub struct UnknownScheme(String);

impl FromStr for Scheme {
    type Err = UnknownScheme;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|scheme| scheme.name() == text).ok_or_else(|| UnknownScheme(text.to_owned()))
    }
}

/// The codes of one page as they lie in memory: the CRC, the correcting code, and the CRC again, so far from the first
/// that no one line holds both.
#[derive(Clone, Copy)]
pub(crate) struct Codes<'a> {
    /// Both copies of the CRC.
    pub crcs: [u32; 2],
    /// The correcting code.
    pub check: &'a [u8],
}

impl<'a> Codes<'a> {
    /// Panics if there are too few bytes for two CRCs.
    pub fn read(codes: &'a [u8]) -> Self {
        let (first, rest) = codes.split_first_chunk().expect("codes begin with a CRC");
        let (check, second) = rest.split_last_chunk().expect("codes end with a CRC");
        Self { crcs: [*first, *second].map(u32::from_le_bytes), check }
    }
}

/// Writes the codes of a page: `check` writes the correcting code and returns the CRC. Panics if there are too few
/// bytes for two CRCs.
pub(crate) fn write_codes(codes: &mut [u8], check: impl FnOnce(&mut [u8]) -> u32) {
    let (first, rest) = codes.split_first_chunk_mut().expect("codes begin with a CRC");
    let (middle, second) = rest.split_last_chunk_mut().expect("codes end with a CRC");
    *first = check(middle).to_le_bytes();
    *second = *first;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_are_known_by_their_names() {
        for scheme in Scheme::ALL {
            assert_eq!(scheme.to_string().parse(), Ok(scheme));
        }
        for bad in ["", "CRC", "pq", "crc+", "crc+pq ", "secded"] {
            let error = bad.parse::<Scheme>().unwrap_err();
            assert!(Scheme::ALL.iter().all(|scheme| error.to_string().contains(scheme.name())), "{error}");
        }
    }

    #[test]
    fn the_paper_stores_four_bytes_and_512() {
        // [Fiala15, tab. 4.1]: 516 bytes; here the CRC is stored twice.
        assert_eq!(Scheme::CrcSecded.code_bytes(), 516 + CRC_BYTES);
        assert_eq!(Scheme::ALL.map(Scheme::code_bytes), [8, 136, 456, 520]);
        assert!(Scheme::ALL.iter().all(|scheme| scheme.code_bytes() <= Scheme::MOST_CODE_BYTES));
    }

    #[test]
    fn no_line_holds_both_crcs_where_there_is_something_that_corrects() {
        for scheme in Scheme::ALL.into_iter().filter(|&scheme| scheme != Scheme::Crc) {
            assert!(scheme.check_bytes() >= 2 * LINE_BYTES, "{scheme}");
        }
    }

    #[test]
    fn codes_are_read_as_they_were_written() {
        let mut codes = [0; 136];
        write_codes(&mut codes, |check| {
            check.fill(7);
            0x0102_0304
        });
        let read = Codes::read(&codes);
        assert_eq!((read.crcs, read.check), ([0x0102_0304; 2], &[7; 128][..]));
        assert_eq!(codes[..4], [4, 3, 2, 1]);
    }
}
