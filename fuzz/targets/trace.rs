//! Any bytes are a trace that can be put on more ranks, or an error of one line.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rampart_scale::trace::file;
use rampart_scale::{LogGops, Undisturbed, simulate};

fuzz_target!(|input: &[u8]| match file::read(input, &LogGops::loggopsim()) {
    Ok(recorded) => {
        // Messages of a strange file may have no other side: that is an error of the run, and no more.
        if let Ok(schedule) = recorded.trace.extrapolated(2) {
            drop(simulate(&schedule, &LogGops::loggopsim(), &Undisturbed));
        }
    }
    Err(error) => assert_eq!(error.to_string().lines().count(), 1, "an error is one line"),
});
