//! Any text names faults to inject and is displayed as it was read, or gives a one-line error.

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
