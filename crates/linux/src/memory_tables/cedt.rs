//! CEDT, the CXL early discovery table: the windows in which CXL memory appears, and how they are interleaved.
//!
//! Source: CXL 3.1, 9.18.1. Its header is followed by structures that begin with their type (1 byte), a reserved byte
//! and their length (2 bytes). The CXL fixed memory window structure (CFMWS, 9.18.1.3) is
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 1 | the type: 1 |
//! | 2 | 2 | the length of the structure |
//! | 8 | 8 | the address |
//! | 16 | 8 | the length of the window |
//! | 24 | 1 | the encoded number of ways: 0 to 4 are 1 to 16, 8 to 10 are 3, 6 and 12 |
//! | 28 | 4 | the granularity: 256 bytes, times 2 to the power of this, at most 6 |
//! | 36 | 4 each | the host bridges, one a way |

use rampart_memory::{Bytes, FrameRange};

use super::{HEADER, Table};
use crate::Error;

const WINDOW: u8 = 1;

/// The offset of the first host bridge.
const TARGETS: usize = 36;

/// Windows begin and end at multiples of this.
const UNIT: u64 = 256 << 20;

/// A window of CXL memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CxlWindow {
    /// Its addresses.
    pub frames: FrameRange,
    /// Over how many host bridges it is interleaved, at least 1.
    pub ways: u8,
    /// How much lies on one host bridge before the next has its turn.
    pub granularity: Bytes,
}

/// Reads a CEDT. Returns its windows, ascending.
///
/// # Errors
/// [`Error::FirmwareTable`].
pub fn parse_cedt(bytes: &[u8]) -> Result<Vec<CxlWindow>, Error> {
    let table = Table::new("CEDT", bytes)?;
    let mut offset = HEADER;
    let mut windows = Vec::new();
    while offset < bytes.len() {
        let length = usize::from(table.u16(offset + 2)?);
        if length < 4 {
            return Err(table.wrong("a structure is shorter than its beginning"));
        }
        let structure = table.part(offset, length)?;
        if structure.u8(0)? == WINDOW {
            windows.push(window(structure)?);
        }
        offset += length;
    }
    windows.sort_by_key(|window| window.frames.start());
    if windows.windows(2).any(|pair| pair[1].frames.start() <= pair[0].frames.last()) {
        return Err(table.wrong("two windows overlap"));
    }
    Ok(windows)
}

/// Reads a structure of its own length.
fn window(window: Table<'_>) -> Result<CxlWindow, Error> {
    let ways = match window.u8(24)? {
        code @ 0..=4 => 1 << code,
        code @ 8..=10 => 3 << (code - 8),
        _ => return Err(window.wrong("the ways of a window have no meaning")),
    };
    let granularity = match window.u32(28)? {
        code @ 0..=6 => Bytes::new(256 << code),
        _ => return Err(window.wrong("the granularity of a window has no meaning")),
    };
    if window.bytes.len() < TARGETS + 4 * usize::from(ways) {
        return Err(window.wrong("a window lacks host bridges"));
    }
    let frames = window.frames(window.u64(8)?, window.u64(16)?, UNIT)?;
    Ok(CxlWindow { frames, ways, granularity })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::tests::{refusal, sealed, table};
    use super::*;
    use proptest::prelude::*;

    const GIB: u64 = 1 << 30;

    /// A host bridge, and a window of 8 GiB at 64 GiB over two of them in turns of 1 KiB, byte by byte.
    #[rustfmt::skip]
    pub fn a_bridge_and_a_window() -> Vec<u8> {
        table("CEDT", &[
            0, 0,  32, 0,  7, 0, 0, 0,  1, 0, 0, 0,  0, 0, 0, 0,
            0, 0, 0x40, 0x70, 3, 1, 0, 0,  0, 0, 1, 0, 0, 0, 0, 0,

            1, 0,  44, 0,  0, 0, 0, 0,  0, 0, 0, 0, 0x10, 0, 0, 0,  0, 0, 0, 0, 2, 0, 0, 0,
            1,  0,  0, 0,  2, 0, 0, 0,  6, 0,  1, 0,  7, 0, 0, 0,  6, 0, 0, 0,
        ])
    }

    fn structure(address: u64, length: u64, ways: u8, granularity: u32, bridges: usize) -> Vec<u8> {
        let mut bytes = vec![1, 0];
        bytes.extend(u16::try_from(36 + 4 * bridges).unwrap().to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend(address.to_le_bytes());
        bytes.extend(length.to_le_bytes());
        bytes.extend([ways, 0, 0, 0]);
        bytes.extend(granularity.to_le_bytes());
        bytes.resize(36 + 4 * bridges, 0);
        bytes
    }

    fn parse(structures: &[Vec<u8>]) -> Result<Vec<CxlWindow>, Error> {
        parse_cedt(&table("CEDT", &structures.concat()))
    }

    #[test]
    fn windows_are_read_byte_by_byte_among_other_structures() {
        let windows = parse_cedt(&a_bridge_and_a_window()).unwrap();
        assert_eq!(windows.len(), 1);
        let window = windows[0];
        assert_eq!((window.frames.start().address(), window.frames.bytes().get()), (64 * GIB, 8 * GIB));
        assert_eq!((window.ways, window.granularity), (2, Bytes::new(1024)));
        assert_eq!(parse(&[]).unwrap(), []);
    }

    #[test]
    fn ways_and_granularity_have_their_codes() {
        let ways = |code| parse(&[structure(GIB, GIB, code, 0, 16)]).map(|windows| windows[0].ways);
        let codes = [0, 1, 2, 3, 4, 8, 9, 10].map(|code| ways(code).unwrap());
        assert_eq!(codes, [1, 2, 4, 8, 16, 3, 6, 12]);
        for code in [5, 7, 11, 255] {
            assert_eq!(refusal(ways(code)), "the ways of a window have no meaning");
        }
        let granularity = |code| parse(&[structure(GIB, GIB, 0, code, 1)]).map(|windows| windows[0].granularity.get());
        assert_eq!([granularity(0).unwrap(), granularity(6).unwrap()], [256, 16 << 10]);
        for code in [7, u32::MAX] {
            assert_eq!(refusal(granularity(code)), "the granularity of a window has no meaning");
        }
    }

    #[test]
    fn windows_come_in_order_and_may_not_overlap() {
        let windows = [structure(4 * GIB, GIB, 0, 0, 1), structure(GIB, 3 * GIB, 0, 0, 1)];
        let starts: Vec<u64> = parse(&windows).unwrap().iter().map(|window| window.frames.start().address()).collect();
        assert_eq!(starts, [GIB, 4 * GIB]);
        let overlap = [structure(GIB, 2 * GIB, 0, 0, 1), structure(2 * GIB, GIB, 0, 0, 1)];
        assert_eq!(refusal(parse(&overlap)), "two windows overlap");
    }

    #[test]
    fn what_is_cut_off_or_not_aligned_is_refused() {
        for (ways, bridges) in [(0, 0), (1, 1), (4, 15)] {
            let lacking = structure(GIB, GIB, ways, 0, bridges);
            assert_eq!(refusal(parse(&[lacking])), "a window lacks host bridges");
        }
        let aligned = "a range of addresses is empty, too large or not aligned";
        assert_eq!(refusal(parse(&[structure(GIB, GIB / 8, 0, 0, 1)])), aligned);
        assert_eq!(refusal(parse(&[structure(GIB / 8, GIB, 0, 0, 1)])), aligned);
        assert_eq!(refusal(parse(&[vec![1, 0, 3]])), "it ends within a structure");
        assert_eq!(refusal(parse(&[vec![0, 0, 3, 0]])), "a structure is shorter than its beginning");
        assert_eq!(refusal(parse(&[vec![0, 0, 0, 0]])), "a structure is shorter than its beginning");
        assert_eq!(refusal(parse(&[vec![0, 0, 5, 0]])), "it ends within a structure");
        let mut short = a_bridge_and_a_window();
        short[70] = 40;
        assert_eq!(refusal(parse_cedt(&sealed(short))), "a window lacks host bridges");
    }

    proptest! {
        #[test]
        fn no_body_is_too_strange(body: Vec<u8>) {
            let _ = parse_cedt(&table("CEDT", &body));
            let _ = parse_cedt(&body);
        }

        /// A damaged byte in a structure never makes a window overlap another or end before it begins.
        #[test]
        fn a_damaged_table_gives_windows_in_order_or_an_error(place in 36_usize..112, byte: u8) {
            let mut bytes = a_bridge_and_a_window();
            bytes[place] = byte;
            if let Ok(windows) = parse_cedt(&sealed(bytes)) {
                prop_assert!(windows.iter().all(|window| window.ways >= 1 && window.granularity.get() >= 256));
                prop_assert!(windows.windows(2).all(|pair| pair[0].frames.last() < pair[1].frames.start()));
            }
        }
    }
}
