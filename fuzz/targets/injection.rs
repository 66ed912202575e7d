//! Any text says which faults to plant and comes back as it was shown, or is an error of one line.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rampart_memory::fault::InjectionSpec;

fuzz_target!(|text: &str| {
    match text.parse::<InjectionSpec>() {
        Ok(spec) => {
            assert!(!spec.random().is_empty() || !spec.in_frames().is_empty(), "nothing to plant is an error");
            assert_eq!(spec.to_string().parse(), Ok(spec));
        }
        Err(error) => assert_eq!(error.to_string().lines().count(), 1, "{error}"),
    }
});
