//! Any text gives a guard's settings, or a one-line error; valid settings are displayed and read back the same.

#![no_main]

use std::fmt::{Debug, Display};
use std::str::FromStr;

use libfuzzer_sys::fuzz_target;
use rampart_guard::{BadFrames, FrameSettings, GuardSettings};

fn comes_back<T: FromStr<Err: Display + Debug> + Display + PartialEq + Debug>(text: &str) {
    match text.parse::<T>() {
        Ok(told) => assert_eq!(told.to_string().parse::<T>().expect("what was shown"), told),
        Err(error) => assert_eq!(error.to_string().lines().count(), 1),
    }
}

fuzz_target!(|text: &str| {
    comes_back::<BadFrames>(text);
    comes_back::<FrameSettings>(text);
    comes_back::<GuardSettings>(text);
});
