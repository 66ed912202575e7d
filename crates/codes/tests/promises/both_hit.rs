//! A page and its codes were both hit.

use rampart_codes::Scheme;
use rand::RngExt;

use super::{BITS, CORRECTING, Stored, random};

/// Bits of a CRC.
const CRC: usize = 32;

#[test]
fn one_copy_of_the_crc_is_enough_to_correct_a_page() {
    let mut random = random(8);
    for scheme in CORRECTING {
        let mut stored = Stored::new(scheme);
        for bit in 0..CRC {
            for bit in [bit, 8 * scheme.code_bytes() - 1 - bit] {
                stored.flip([random.random_range(0..BITS)]);
                stored.flip_code(bit);
                assert!(stored.is_corrected(), "{scheme}, bit {bit} of the codes");
            }
        }
    }
}

#[test]
fn a_flip_in_secded_codes_does_no_harm_but_to_its_own_word() {
    let mut random = random(9);
    let mut stored = Stored::new(Scheme::CrcSecded);
    for code_bit in 0..8 * 512 {
        for same in [false, true] {
            let word = if same { code_bit / 8 } else { (code_bit / 8 + random.random_range(1..512)) % 512 };
            stored.flip([64 * word + random.random_range(0..64)]);
            stored.flip_code(CRC + code_bit);
            assert_eq!(stored.is_corrected(), !same, "word {word}, bit {code_bit} of the codes");
            stored.restore();
        }
    }
}

#[test]
fn a_flip_in_hamming_codes_does_no_harm_but_to_its_own_lane_or_parity_to_line_0() {
    let mut random = random(10);
    let mut stored = Stored::new(Scheme::CrcHamming);
    for code_bit in 0..7 * 512 {
        let parity = code_bit >= 6 * 512;
        for (same, line) in [(false, 0), (false, 1 + code_bit % 63), (true, random.random_range(0..64))] {
            let lane = if same { code_bit % 512 } else { (code_bit + random.random_range(1..512)) % 512 };
            stored.flip([512 * line + lane]);
            stored.flip_code(CRC + code_bit);
            let can = !(same || parity && line == 0);
            assert_eq!(stored.is_corrected(), can, "line {line}, lane {lane}, bit {code_bit} of the codes");
            stored.restore();
        }
    }
}

#[test]
fn a_flip_in_p_or_q_beside_one_in_the_page_is_told() {
    let mut random = random(11);
    let mut stored = Stored::new(Scheme::CrcPq);
    for code_bit in 0..2 * 512 {
        for _ in 0..10 {
            stored.flip([random.random_range(0..BITS)]);
            stored.flip_code(CRC + code_bit);
            assert!(!stored.is_corrected(), "bit {code_bit} of the codes");
            stored.restore();
        }
    }
}

#[test]
fn storms_over_pages_and_codes_are_never_silent() {
    let mut random = random(12);
    for scheme in Scheme::ALL {
        let mut stored = Stored::new(scheme);
        for _ in 0..10_000 {
            let flips = random.random_range(1..20);
            stored.flip((0..flips).map(|_| random.random_range(0..BITS)));
            for _ in 0..flips {
                stored.flip_code(random.random_range(0..8 * scheme.code_bytes()));
            }
            stored.correct();
            stored.restore();
        }
    }
}
