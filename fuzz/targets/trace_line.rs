//! Any line of the kernel's trace is an error that counts and names a valid place, or no error.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rampart_linux::errors::TraceLine;
use rampart_memory::{LINES_PER_FRAME, Timestamp};

fuzz_target!(|line: &str| {
    let at = Timestamp::from_micros(7);
    if let TraceLine::Error(error) = TraceLine::parse(line, at) {
        assert_eq!(error.at, at);
        assert!(error.count > 0);
        assert!(error.line.is_none_or(|line| u64::from(line) < LINES_PER_FRAME && error.frame.is_some()));
        let label = error.place.expect("an event always names a place").label;
        assert!(line.contains(&label));
    }
});
