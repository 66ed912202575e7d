//! Any text is a record of detours that its file returns unchanged, or gives a one-line error.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rampart_scale::noise::{DetourSummary, Noise};

fuzz_target!(|input: &str| {
    match Noise::read_csv(input) {
        Ok(noise) => {
            let _ = DetourSummary::of(&noise.cpus);
            let _ = noise.as_errors();
            assert_eq!(Noise::read_csv(&noise.csv()), Ok(noise), "a record comes back");
        }
        Err(error) => assert_eq!(error.to_string().lines().count(), 1, "an error is one line"),
    }
});
