//! Any text is a size or gives a one-line error; a size that is displayed exactly is read back.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rampart_memory::Bytes;

fuzz_target!(|text: &str| {
    match text.parse::<Bytes>() {
        Ok(size) => {
            assert_eq!(size.get().to_string().parse(), Ok(size), "in bytes");
            let shown = size.to_string();
            // Other sizes are displayed rounded to a tenth of their unit.
            assert!(shown.contains('.') || shown.parse() == Ok(size), "{shown}");
        }
        Err(error) => assert_eq!(error.to_string().lines().count(), 1, "{error}"),
    }
});
