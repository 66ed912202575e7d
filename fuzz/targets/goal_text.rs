//! Any text is a schedule that is written as it was read, as text and binary, and runs to its end, or gives a one-line
//! error.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rampart_scale::goal::{binary, text};
use rampart_scale::{LogGops, Undisturbed, simulate};

fuzz_target!(|input: &str| {
    match text::read(input) {
        Ok(goal) => {
            assert_eq!(text::read(&text::write(&goal)).as_ref(), Ok(&goal), "text");
            assert_eq!(binary::read(&binary::write(&goal)).as_ref(), Ok(&goal), "bytes");
            if let Err(error) = simulate(&goal, &LogGops::loggopsim(), &Undisturbed) {
                assert_eq!(error.to_string().lines().count(), 1, "an error is one line");
            }
        }
        Err(error) => assert_eq!(error.to_string().lines().count(), 1, "an error is one line"),
    }
});
