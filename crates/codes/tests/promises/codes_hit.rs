//! The codes were hit, the page was not.

use rampart_codes::{CodeVerdict, CorrectionOutcome, Scheme};
use rand::RngExt;

use super::{CORRECTING, Stored, random};

#[test]
fn after_every_single_flip_of_its_codes_a_page_is_known_to_be_good() {
    for scheme in Scheme::ALL {
        let mut stored = Stored::new(scheme);
        for bit in 0..8 * scheme.code_bytes() {
            stored.flip_code(bit);
            // Only the first CRC is checked where nothing is wrong.
            let verdict = if bit < 32 { CodeVerdict::Wrong } else { CodeVerdict::Verified };
            assert_eq!(stored.verify(), verdict, "{scheme}, bit {bit}");
            assert_eq!(stored.correct(), CorrectionOutcome::CodesWrong, "{scheme}, bit {bit}");
            assert_eq!(stored.correct(), CorrectionOutcome::Intact, "{scheme}, bit {bit}");
        }
    }
}

#[test]
fn after_a_line_of_its_codes_was_destroyed_a_page_is_known_to_be_good() {
    let mut random = random(7);
    for scheme in CORRECTING {
        let mut stored = Stored::new(scheme);
        // Codes need not be aligned, so the line may begin at any byte of them, and before the first.
        for end in 1..scheme.code_bytes() + 64 {
            let line = end.saturating_sub(64)..end.min(scheme.code_bytes());
            stored.codes[line].iter_mut().for_each(|byte| *byte ^= random.random_range(1..=u8::MAX));
            assert_eq!(stored.correct(), CorrectionOutcome::CodesWrong, "{scheme}, before byte {end}");
        }
    }
}

#[test]
fn all_that_corrects_may_be_destroyed() {
    for scheme in CORRECTING {
        let mut stored = Stored::new(scheme);
        let end = scheme.code_bytes() - 4;
        stored.codes[4..end].fill(0x5a);
        assert_eq!(
            (stored.verify(), stored.correct()),
            (CodeVerdict::Verified, CorrectionOutcome::CodesWrong),
            "{scheme}"
        );
    }
}

#[test]
fn a_good_page_both_of_whose_crcs_were_hit_is_not_told_from_a_bad_one() {
    for scheme in Scheme::ALL {
        let mut stored = Stored::new(scheme);
        stored.flip_code(5);
        stored.flip_code(8 * scheme.code_bytes() - 5);
        assert_eq!(stored.correct(), CorrectionOutcome::Uncorrectable, "{scheme}");
    }
}
