//! Any text is a march test that is displayed as it was read, or gives an error that points inside the text.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rampart_march::MarchTest;

fuzz_target!(|text: &str| {
    match text.parse::<MarchTest>() {
        Ok(test) => {
            assert!(test.length() > 0 || test.delays() > 0);
            assert_eq!(test.to_string().parse(), Ok(test.clone()), "Unicode");
            assert_eq!(format!("{test:#}").parse(), Ok(test), "ASCII");
        }
        Err(error) => {
            assert!(error.at <= text.chars().count());
            assert_eq!(error.to_string().lines().count(), 1, "an error is one line");
            assert_eq!(error.pointing_at(text).lines().count(), 2, "the text and a caret");
        }
    }
});
