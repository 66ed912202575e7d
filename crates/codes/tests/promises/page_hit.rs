//! The page was hit, its codes were not.

use rampart_codes::{CodeEngine, CodeVerdict, CorrectionOutcome, Scheme};
use rand::RngExt;

use super::{BITS, CORRECTING, Stored, different_bits, places, random};

#[test]
fn every_single_flip_of_a_page_is_corrected() {
    for scheme in CORRECTING {
        let mut stored = Stored::new(scheme);
        for bit in 0..BITS {
            stored.flip([bit]);
            assert_eq!(stored.verify(), CodeVerdict::Wrong);
            let outcome = stored.correct();
            let CorrectionOutcome::Corrected(correction) = outcome else { panic!("{scheme}, bit {bit}: {outcome:?}") };
            assert_eq!(places(&correction.flipped), [bit], "{scheme}");
            assert_eq!(stored.verify(), CodeVerdict::Verified);
        }
    }
}

/// The kernel says which instruction sets there are: what the crate overlooks would never be tested.
#[test]
#[cfg(target_arch = "x86_64")]
fn no_engine_of_this_processor_is_left_out() {
    let names: Vec<&str> = CodeEngine::all_available().into_iter().map(CodeEngine::name).collect();
    let mut needs = Vec::new();
    for (name, more) in [
        ("SSE4.2", &["sse4_2", "pclmulqdq"][..]),
        ("AVX2", &["avx2"]),
        ("AVX-512", &["avx512f", "avx512bw"]),
        ("AVX-512 with VPCLMULQDQ and GFNI", &["avx512vbmi", "vpclmulqdq", "gfni"]),
    ] {
        needs.extend(more);
        assert!(!rampart_skips::cpu_has(name, &needs) || names.contains(&name), "{name}: {names:?}");
    }
}

#[test]
fn so_it_is_by_every_engine() {
    for engine in CodeEngine::all_available() {
        for scheme in CORRECTING {
            let mut stored = Stored::by(engine, scheme);
            for bit in (0..BITS).step_by(509) {
                stored.flip([bit]);
                assert!(stored.is_corrected(), "{scheme} by {engine}, bit {bit}");
            }
        }
    }
}

#[test]
fn a_page_that_is_as_it_was_is_intact() {
    for scheme in Scheme::ALL {
        let mut stored = Stored::new(scheme);
        assert_eq!((stored.verify(), stored.correct()), (CodeVerdict::Verified, CorrectionOutcome::Intact), "{scheme}");
    }
}

#[test]
fn a_crc_alone_sees_every_flip_and_corrects_none() {
    let mut stored = Stored::new(Scheme::Crc);
    for bit in 0..BITS {
        stored.flip([bit]);
        assert_eq!((stored.verify(), stored.correct()), (CodeVerdict::Wrong, CorrectionOutcome::Uncorrectable));
        stored.restore();
    }
}

/// 20000 of 20000 pages; FlipSphere [Fiala15, 4.3] has no such code.
#[test]
fn of_20000_destroyed_lines_p_and_q_rebuild_all() {
    let mut stored = Stored::new(Scheme::CrcPq);
    let mut random = random(1);
    for _ in 0..20_000 {
        let line = random.random_range(0..64);
        for word in &mut stored.page.lines[line].0 {
            *word = random.random();
        }
        assert_ne!(stored.page, stored.good);
        assert!(stored.is_corrected(), "line {line}");
    }
}

#[test]
fn two_flips_are_corrected_just_where_the_scheme_can_and_never_silent() {
    let mut random = random(2);
    for scheme in CORRECTING {
        let mut stored = Stored::new(scheme);
        let mut corrected = 0;
        for round in 0..20_000 {
            let first = random.random_range(0..BITS);
            // Every other time close to each other: in one line, or in one lane, and sometimes in one word.
            let second = match round % 4 {
                0 => first / 512 * 512 + random.random_range(0..512),
                1 => first % 512 + 512 * random.random_range(0..64),
                2 => first / 64 * 64 + random.random_range(0..64),
                _ => random.random_range(0..BITS),
            };
            if first == second {
                continue;
            }
            let can = match scheme {
                Scheme::CrcPq => first / 512 == second / 512,
                Scheme::CrcHamming => first % 512 != second % 512,
                Scheme::CrcSecded => first / 64 != second / 64,
                Scheme::Crc => false,
            };
            stored.flip([first, second]);
            assert_eq!(stored.verify(), CodeVerdict::Wrong);
            assert_eq!(stored.is_corrected(), can, "{scheme}: bits {first} and {second}");
            corrected += u32::from(can);
            stored.restore();
        }
        assert!((5000..16_000).contains(&corrected), "{scheme}: {corrected} is neither few nor nearly all");
    }
}

#[test]
fn one_flip_in_every_word_or_lane_at_once_is_corrected() {
    let mut random = random(3);
    for _ in 0..100 {
        let mut words = Stored::new(Scheme::CrcSecded);
        words.flip((0..512).map(|word| 64 * word + random.random_range(0..64)));
        assert!(words.is_corrected());
        let mut lanes = Stored::new(Scheme::CrcHamming);
        lanes.flip((0..512).map(|lane| lane + 512 * random.random_range(0..64)));
        assert!(lanes.is_corrected());
    }
}

#[test]
fn in_storms_of_flips_none_is_silent() {
    let mut random = random(4);
    for scheme in Scheme::ALL {
        let mut stored = Stored::new(scheme);
        for round in 0..10_000 {
            let count = 3 + round % 62;
            stored.page.flip(&different_bits(&mut random, count));
            assert_eq!(stored.verify(), CodeVerdict::Wrong);
            stored.correct();
            stored.restore();
        }
    }
}

/// The effect of a failing column of a chip: one bit position is wrong in all lines that hold the other value. To P and
/// Q one such change in 512 looks like none at all.
#[test]
fn a_bit_position_that_fails_in_many_lines_is_never_silent() {
    let mut random = random(5);
    for scheme in Scheme::ALL {
        let mut stored = Stored::new(scheme);
        let mut corrected = 0;
        for _ in 0..10_000 {
            let (lane, lines) = (random.random_range(0..512), random.random::<u64>());
            stored.flip((0..64).filter(|line| lines >> line & 1 == 1).map(|line| 512 * line + lane));
            assert_eq!(stored.verify(), CodeVerdict::Wrong);
            corrected += u32::from(stored.is_corrected());
            stored.restore();
        }
        let all = if scheme == Scheme::CrcSecded { 10_000 } else { 0 };
        assert_eq!(corrected, all, "{scheme}: each flip is in a word of its own, and in one lane");
    }
}

/// SECDED alone mistakes nearly half of them for one flip elsewhere in the word.
#[test]
fn three_flips_in_a_word_are_never_corrected_into_a_fourth() {
    let mut stored = Stored::new(Scheme::CrcSecded);
    for (first, second, third) in triples(64) {
        stored.flip([first, second, third].map(|bit| 64 * 77 + bit));
        assert_eq!(stored.correct(), CorrectionOutcome::Uncorrectable, "bits {first}, {second} and {third}");
        stored.restore();
    }
}

/// The Hamming codes alone mistake every one of them for one flip in a fourth line.
#[test]
fn three_flips_in_a_lane_are_never_corrected_into_a_fourth() {
    let mut stored = Stored::new(Scheme::CrcHamming);
    for (first, second, third) in triples(64) {
        stored.flip([first, second, third].map(|line| 512 * line + 123));
        assert_eq!(stored.correct(), CorrectionOutcome::Uncorrectable, "lines {first}, {second} and {third}");
        stored.restore();
    }
}

fn triples(below: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    let pairs = (0..below).flat_map(|third| (0..third).map(move |second| (second, third)));
    pairs.flat_map(|(second, third)| (0..second).map(move |first| (first, second, third)))
}

/// To P and Q, one byte changed in each of two lines looks in one of four cases like one changed in a third line.
#[test]
fn two_wrong_lines_are_never_corrected_into_a_third() {
    let mut random = random(6);
    let mut stored = Stored::new(Scheme::CrcPq);
    for _ in 0..20_000 {
        let (one, byte) = (random.random_range(0..64), random.random_range(0..64));
        let other = (one + random.random_range(1..64)) % 64;
        for line in [one, other] {
            let change: u64 = random.random_range(1..256);
            stored.page.lines[line].0[byte / 8] ^= change << (8 * (byte % 8));
        }
        assert_eq!(stored.correct(), CorrectionOutcome::Uncorrectable, "lines {one} and {other}");
        stored.restore();
    }
}
