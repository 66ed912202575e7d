//! Any bytes are a trace that can be put on more ranks, or give a one-line error.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rampart_scale::trace::file;
use rampart_scale::{LogGops, Undisturbed, simulate};

fuzz_target!(|input: &[u8]| match file::read(input, &LogGops::loggopsim()) {
    Ok(recorded) => {
        // Messages of a foreign file may lack their other side: the run then gives an error.
        if let Ok(schedule) = recorded.trace.extrapolated(2) {
            drop(simulate(&schedule, &LogGops::loggopsim(), &Undisturbed));
        }
    }
    Err(error) => assert_eq!(error.to_string().lines().count(), 1, "an error is one line"),
});
