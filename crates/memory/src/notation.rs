//! Frame numbers and sizes as people write them.

use std::str::FromStr;

use crate::{Bytes, Frame, FrameRange};

/// {0:?} is not a frame number: give it as 0x1a2b3 or decimal, below 2^40
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub struct ParseFrameError(String);

impl FromStr for Frame {
    type Err = ParseFrameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(hex) if !hex.starts_with('+') => u64::from_str_radix(hex, 16),
            _ if text.starts_with('+') => return Err(ParseFrameError(text.to_owned())),
            _ => text.parse(),
        };
        number.ok().and_then(Self::new).ok_or_else(|| ParseFrameError(text.to_owned()))
    }
}

/// {0:?} is no range of frames: give the first, and the one behind the last, such as 0x40000..0x80000
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub struct ParseFrameRangeError(String);

impl FromStr for FrameRange {
    type Err = ParseFrameRangeError;

    /// `0x40000..0x80000`: without its end, as in Rust.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = || {
            let (start, end) = text.split_once("..")?;
            let (start, end): (Frame, Frame) = (start.trim().parse().ok()?, end.trim().parse().ok()?);
            Self::new(start, end.number().checked_sub(start.number())?)
        };
        parsed().ok_or_else(|| ParseFrameRangeError(text.to_owned()))
    }
}

/// Why a text is not a size.
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum ParseSizeError {
    /// {0:?} is not a size: write a number and a unit, such as 64MiB or 4GiB
    Malformed(String),
    /// {0:?} is more than 2^64 bytes
    TooLarge(String),
}

impl FromStr for Bytes {
    type Err = ParseSizeError;

    /// `4096`, `64MiB`, `64 MiB`, `1.5GiB`, `4G`, `4g`: units are powers of 1024, as everywhere in memory.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let malformed = || ParseSizeError::Malformed(text.to_owned());
        let trimmed = text.trim();
        let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(split);
        let factor = unit_factor(unit.trim()).ok_or_else(malformed)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        if whole.is_empty() || fraction.is_empty() || fraction.len() > 9 || fraction.contains('.') {
            return Err(malformed());
        }
        let too_large = || ParseSizeError::TooLarge(text.to_owned());
        let whole: u64 = whole.parse().map_err(|_| too_large())?;
        let scale = 10_u128.pow(u32::try_from(fraction.len()).expect("at most 9"));
        let fraction: u128 = fraction.parse().map_err(|_| malformed())?;
        let bytes = u128::from(whole) * u128::from(factor) + fraction * u128::from(factor) / scale;
        u64::try_from(bytes).map(Self::new).map_err(|_| too_large())
    }
}

fn unit_factor(unit: &str) -> Option<u64> {
    let lower = unit.to_ascii_lowercase();
    let letter = match lower.as_str() {
        "" | "b" => return Some(1),
        _ => lower.strip_suffix("ib").or_else(|| lower.strip_suffix('b')).unwrap_or(&lower),
    };
    let power = ["k", "m", "g", "t", "p", "e"].iter().position(|&known| known == letter)?;
    Some(1 << (10 * (power + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(number: u64) -> Frame {
        Frame::new(number).unwrap()
    }

    #[test]
    fn a_range_of_frames_is_without_its_end() {
        let range: FrameRange = "0x40000..0x80000".parse().unwrap();
        assert_eq!((range.start().number(), range.last().number()), (0x4_0000, 0x7_ffff));
        assert_eq!("7..8".parse::<FrameRange>().unwrap().count(), 1);
        for wrong in ["7", "7..7", "8..7", "7..", "..7", "7..8..9", "7-9", "a..b", "0..0x10000000001"] {
            assert!(wrong.parse::<FrameRange>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn frames_parse_in_hex_and_decimal_and_refuse_the_rest() {
        assert_eq!("0x1000".parse(), Ok(frame(0x1000)));
        assert_eq!("4096".parse(), Ok(frame(4096)));
        for bad in ["", "0x", "-1", "+1", "0x+1", "0x10000000000", "1 ", "frame"] {
            assert!(bad.parse::<Frame>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn sizes_as_people_write_them() {
        for (text, bytes) in [
            ("4096", 4096),
            ("64MiB", 64 << 20),
            ("64 mb", 64 << 20),
            ("1.5GiB", 3 << 29),
            ("4g", 4 << 30),
            ("0", 0),
            ("2TiB", 2 << 40),
            ("3p", 3 << 50),
            ("1EiB", 1 << 60),
        ] {
            assert_eq!(text.parse(), Ok(Bytes::new(bytes)), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_size_is_refused() {
        for bad in ["", "MiB", "-1", "1e9", "4 GiB GiB", "1.2.3K", ".5G", "5.G", "4Gi4", "x", "4ib"] {
            assert!(matches!(bad.parse::<Bytes>(), Err(ParseSizeError::Malformed(_))), "{bad:?}");
        }
        for bad in ["99999999999999999999", "17179869184GiB", "16EiB"] {
            assert!(matches!(bad.parse::<Bytes>(), Err(ParseSizeError::TooLarge(_))), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn whole_sizes_come_back_as_they_were_shown(count in 0_u64..1024, power in 0_u32..6) {
            let size = Bytes::new(count << (10 * power));
            prop_assert_eq!(size.to_string().parse(), Ok(size));
        }
    }
}
