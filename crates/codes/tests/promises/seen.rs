//! What the CRC always detects.

use std::collections::HashSet;

use rampart_codes::{CodeEngine, Codec, Page, PageBits, PageData, Scheme};

use super::BITS;

/// The change of the CRC for each bit of a page. The CRC of a sum of changes is the sum of these.
fn changes() -> Vec<u32> {
    let codec = Codec { scheme: Scheme::Crc, engine: CodeEngine::detect() };
    let crc = |bits: &[usize]| {
        let mut page = PageData::ZERO;
        page.flip(&PageBits::from_iter(bits.iter().copied()));
        let mut codes = [0; 8];
        codec.encode(&Page::from(&mut page), &mut codes);
        u32::from_le_bytes([codes[0], codes[1], codes[2], codes[3]])
    };
    let none = crc(&[]);
    (0..BITS).map(|bit| crc(&[bit]) ^ none).collect()
}

#[test]
fn every_change_of_1_2_or_3_bits_or_of_any_odd_number_is_seen() {
    let changes = changes();
    assert!(changes.iter().all(|change| change.count_ones() % 2 == 1), "so no odd number of them adds up to zero");
    let different: HashSet<_> = changes.iter().collect();
    assert_eq!(different.len(), BITS, "so no two add up to zero");
}

#[test]
fn every_change_within_32_bits_in_a_row_is_seen() {
    let changes = changes();
    for (first, row) in changes.windows(32).enumerate() {
        assert!(independent(row), "some change of bits from {first} on is not seen");
    }
}

/// Whether no sum of some of them is zero.
fn independent(changes: &[u32]) -> bool {
    let mut by_highest = [0; 32];
    changes.iter().all(|&change| {
        let mut rest: u32 = change;
        while let Some(highest) = rest.checked_ilog2() {
            let known = &mut by_highest[highest as usize];
            if *known == 0 {
                *known = rest;
                return true;
            }
            rest ^= *known;
        }
        false
    })
}

#[test]
fn changes_that_depend_on_each_other_are_told() {
    assert!(independent(&[1, 2, 4]) && independent(&[7, 3]));
    assert!(!independent(&[1, 2, 3]) && !independent(&[0]) && !independent(&[5, 5]));
}
