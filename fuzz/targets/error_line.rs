//! Any line of a file of errors is ignored, or gives an error that is written as it was read, names a valid place, and
//! can be counted.

#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use rampart_linux::errors::parse_line;
use rampart_memory::{ErrorTally, Frame, LINES_PER_FRAME, Timestamp};

fuzz_target!(|line: &str| {
    let Some(error) = parse_line(line) else { return };
    assert!(error.frame.is_none_or(|frame| frame <= Frame::MAX));
    assert!(error.line.is_none_or(|line| u64::from(line) < LINES_PER_FRAME));
    let written = serde_json::to_string(&error).expect("an error is plain data");
    assert_eq!(parse_line(&written).as_ref(), Some(&error));

    let now = Timestamp::from_micros(1_714_557_600_000_000);
    let mut tally = ErrorTally::new(Duration::from_secs(3600));
    tally.add(&error, error.at);
    tally.add(&error, now);
    let counted = |(_, count): &(Frame, u64)| *count;
    let suspects = tally.over(0, now);
    assert!(suspects.frames.iter().map(counted).sum::<u64>() <= 2 * u64::from(error.count));
});
