//! Locked pages that another process corrupts, in each way and under each engine. `cargo xtask bench guard-corruption`
//! tries more.

use rampart_trials::Programs;
use rampart_trials::corruption::{Class, Fates, attack};

use crate::guarded::{engines, installed, library};
use crate::harness::Rampart;

/// Pages per class and engine.
const PAGES: u64 = 2;

/// The fates of pages of a class, under all engines that work here. Only root can open another process' memory.
fn fates(class: Class) -> Vec<(&'static str, Fates)> {
    let root = rampart_skips::root("only root opens the memory of another process");
    if !root || !installed("cc") || !installed("setpriv") {
        return Vec::new();
    }
    let rampart = Rampart::new();
    let programs = Programs::new(env!("CARGO_BIN_EXE_rampart"), library()).expect("a temporary folder");
    let fate = |engine| {
        let fates = attack(&programs, engine, class, PAGES, &[]).unwrap_or_else(|error| panic!("{engine}: {error}"));
        assert!(fates.is_sound(), "{engine}, {class:?}: {fates:?}");
        assert_eq!(fates.corrected + fates.stopped, PAGES, "{engine}, {class:?}: {fates:?}");
        (engine, fates)
    };
    engines(&rampart).map(fate).collect()
}

/// P and Q correct any change of one line, however often it comes back.
#[test]
fn a_line_of_a_locked_page_that_another_process_corrupts_is_put_right() {
    use Class::{Bit, Byte, Line, Nibble, OtherLine, TwoBitsOfAWord, Word, ZeroLine};
    for class in [Bit, TwoBitsOfAWord, Nibble, Byte, Word, Line, ZeroLine, OtherLine] {
        for (engine, fates) in fates(class) {
            assert_eq!(fates.corrected, PAGES, "{engine}, {class:?}: {fates:?}");
        }
    }
}

#[test]
fn more_than_a_line_of_a_locked_page_that_another_process_corrupts_stops_the_program() {
    use Class::{HalfPage, OlderPage, OtherPage, SwappedLines, TwoBitsInTwoLines};
    for class in [TwoBitsInTwoLines, SwappedLines, HalfPage, OtherPage, OlderPage] {
        for (engine, fates) in fates(class) {
            assert_eq!(fates.stopped, PAGES, "{engine}, {class:?}: {fates:?}");
        }
    }
    // Whether a burst lies in one line or two is random.
    fates(Class::Burst);
}

#[test]
fn stored_codes_that_another_process_corrupts_are_wrong_codes_and_not_bad_data() {
    for class in Class::OF_CODES {
        for (engine, fates) in fates(class) {
            let expected = if class == Class::BothCrcs { (0, PAGES) } else { (PAGES, 0) };
            assert_eq!((fates.corrected, fates.stopped), expected, "{engine}, {class:?}: {fates:?}");
        }
    }
}
