//! Any bytes are a schedule that comes back as text and as bytes, or an error of one line.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rampart_scale::goal::{binary, text};

fuzz_target!(|input: &[u8]| {
    match binary::read(input) {
        Ok(goal) => {
            assert_eq!(text::read(&text::write(&goal)).as_ref(), Ok(&goal), "text");
            assert_eq!(binary::read(&binary::write(&goal)), Ok(goal), "bytes");
        }
        Err(error) => assert_eq!(error.to_string().lines().count(), 1, "an error is one line"),
    }
});
