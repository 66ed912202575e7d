//! Parsers of option values, which refuse bad values before anything is touched.

use std::time::Duration;

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use rampart_heap::LineSize;
use rampart_heap::wear::Clustering;
use rampart_march::execute::{MarchEngine, Method};
use rampart_march::named::ChoiceError;
use rampart_march::{AddressSequence, MarchChoice};
use rampart_memory::Bytes;
use rampart_scale::time::{Hours, Time};

/// The address sequences of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SequenceChoice {
    /// Both, one after the other: together they cover each pair of lines of a block
    Both,
    /// Ascending or descending addresses
    Sequential,
    /// Strides: each step goes to another page
    Strided,
}

impl SequenceChoice {
    /// The address sequences, in the order of their runs.
    pub fn list(self) -> Vec<AddressSequence> {
        match self {
            Self::Both => vec![AddressSequence::Sequential, AddressSequence::Strided],
            Self::Sequential => vec![AddressSequence::Sequential],
            Self::Strided => vec![AddressSequence::Strided],
        }
    }
}

/// How writes reach the DRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MethodChoice {
    /// Stores that bypass the caches
    NonTemporal,
    /// Plain stores, each flushed from the caches shortly afterwards
    FlushBehind,
    /// Plain stores, some of them flushed from the caches at a time
    FlushInGroups,
}

impl From<MethodChoice> for Method {
    fn from(choice: MethodChoice) -> Self {
        match choice {
            MethodChoice::NonTemporal => Self::NonTemporal,
            MethodChoice::FlushBehind => Self::FlushBehind,
            MethodChoice::FlushInGroups => Self::FlushInGroups,
        }
    }
}

/// An instruction set of this processor, such as `AVX2`.
pub fn parse_instructions(text: &str) -> Result<MarchEngine, String> {
    let names = || MarchEngine::all_available().into_iter().map(MarchEngine::name).collect::<Vec<_>>().join(" or ");
    MarchEngine::named(text).ok_or_else(|| format!("this processor tests with {}", names()))
}

/// A size in bytes, as it is written.
///
/// # Errors
/// In one line.
pub fn parse_size(text: &str) -> Result<Bytes, String> {
    text.parse().map_err(|error: rampart_memory::ParseSizeError| error.to_string())
}

/// An amount of memory that is worth a test, such as `4GiB`.
pub fn parse_memory(text: &str) -> Result<Bytes, String> {
    let bytes = parse_size(text)?;
    if bytes < rampart_diagnostic::SMALLEST_CLAIM {
        return Err(format!("{bytes} is too little: give at least {}", rampart_diagnostic::SMALLEST_CLAIM));
    }
    Ok(bytes)
}

/// A power of two of bytes, at least 4 KiB, such as `256MiB`.
pub fn parse_power_of_two(text: &str) -> Result<Bytes, String> {
    let bytes = parse_size(text)?;
    if bytes.get() < rampart_memory::FRAME_BYTES || !bytes.get().is_power_of_two() {
        return Err(format!("{bytes} is not a power of two of at least 4KiB: give one such as 256MiB"));
    }
    Ok(bytes)
}

/// Hardware that clusters failed lines, by the pages of its regions.
pub fn clustering() -> impl TypedValueParser<Value = Clustering> {
    let names = PossibleValuesParser::new(Clustering::ALL.map(Clustering::name));
    names.map(|name| Clustering::named(&name).expect("only names come through"))
}

/// The size of a line of a managed heap.
pub fn line_size() -> impl TypedValueParser<Value = LineSize> {
    let names = PossibleValuesParser::new(LineSize::ALL.map(LineSize::name));
    names.map(|name| LineSize::named(&name).expect("only names come through"))
}

/// A march test with at least one read, without which it finds nothing.
pub fn parse_march_test(text: &str) -> Result<MarchChoice, String> {
    let choice: MarchChoice = text.parse().map_err(|error: ChoiceError| error.to_string())?;
    if choice.test.reads() == 0 {
        return Err("a test that reads nothing finds nothing: add a read, such as ^(r0)".to_owned());
    }
    Ok(choice)
}

/// A time of up to a year, such as `20s`.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(Duration::ZERO) => Err("the time is 0: give at least 1ms, such as 20s or 10m".to_owned()),
        Ok(time) if time > Duration::from_secs(366 * 86_400) => Err("more than a year: give at most 366d".to_owned()),
        Ok(time) => Ok(time),
        Err(error) => Err(format!("{error}: write a time such as 20s, 10m or 2h")),
    }
}

/// A time of at most a year, or 0.
pub fn parse_patience(text: &str) -> Result<Duration, String> {
    if text == "0" || humantime::parse_duration(text) == Ok(Duration::ZERO) {
        return Ok(Duration::ZERO);
    }
    parse_time(text)
}

/// The time that a tested block rests: up to a minute, or 0.
pub fn parse_rest(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(time) if time > Duration::from_secs(60) => Err("more than a minute: give less".to_owned()),
        Ok(time) => Ok(time),
        Err(error) => Err(format!("{error}: write a time such as 300ms or 1s, or 0s for none")),
    }
}

/// The longest mean time between errors that can be simulated, in whole seconds: 213 days.
pub const RAREST_SECONDS: f64 = 18_446_744.0;

/// Converts a duration to simulated time; exact for durations that [`simulated_time`] accepts.
pub fn time(duration: Duration) -> Time {
    Time::from_nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// A duration that can be simulated, such as `20s`.
pub fn simulated_time(text: &str) -> Result<Duration, String> {
    const LONGEST: Duration = Duration::from_secs(18_446_744);
    let too_long = || format!("more than can be simulated: give at most {}s", LONGEST.as_secs());
    // A year is too long, and so is a number that overflows a duration.
    match (parse_time(text), humantime::parse_duration(text)) {
        (_, Ok(time)) if time > LONGEST => Err(too_long()),
        (_, Err(humantime::DurationError::NumberOverflow)) => Err(too_long()),
        (time, _) => time,
    }
}

/// A time of up to 10,000 years, such as `50years`.
pub fn long_time(text: &str) -> Result<Hours, String> {
    match long_time_or_none(text)? {
        Hours::ZERO => Err("the time is 0: give at least 1ms, such as 10min, 128h or 50years".to_owned()),
        time => Ok(time),
    }
}

/// A time of up to 10,000 years, or 0.
pub fn long_time_or_none(text: &str) -> Result<Hours, String> {
    const LONGEST: Hours = Hours::from_years(10_000.0);
    let shortest = Duration::from_millis(1);
    let too_long = || "more than 10,000 years: give less".to_owned();
    match humantime::parse_duration(text) {
        Ok(time) if time > Duration::ZERO && time < shortest => Err("less than 1ms: give more".to_owned()),
        Ok(time) => Some(Hours::new(time.as_secs_f64() / 3600.0)).filter(|time| *time <= LONGEST).ok_or_else(too_long),
        Err(humantime::DurationError::NumberOverflow) => Err(too_long()),
        Err(error) => Err(format!("{error}: write a time such as 10min, 128h or 50years")),
    }
}

/// A share from 0 to 1, as `20%` or `0.2`.
pub fn share(text: &str) -> Result<f64, String> {
    let (number, whole) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    let share = number.parse().ok().map(|number: f64| number / whole).filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("{text} is no share from 0 to 1: write it as 20% or 0.2"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_times_and_shares_are_read_or_refused_with_a_reason() {
        let hours = |text| long_time(text).map(|time| time.get().round());
        assert_eq!(["128h", "90min", "50years"].map(hours), [Ok(128.0), Ok(2.0), Ok(438_300.0)]);
        assert_eq!((long_time_or_none("0s"), long_time_or_none("1h")), (Ok(Hours::ZERO), Ok(Hours::new(1.0))));
        for (text, expected) in
            [("0s", "is 0"), ("1us", "less than 1ms"), ("10001years", "10,000"), ("99999999999999999999y", "10,000")]
        {
            assert!(long_time(text).unwrap_err().contains(expected), "{text}: {:?}", long_time(text));
        }
        assert!(long_time("soon").is_err() && long_time_or_none("-1h").is_err());
        assert_eq!(["20%", "0.2", "0", "100%"].map(share), [Ok(0.2), Ok(0.2), Ok(0.0), Ok(1.0)]);
        assert!(["1.1", "101%", "-1%", "nan", "", "much"].iter().all(|text| share(text).is_err()));
    }

    #[test]
    fn a_time_that_does_not_fit_is_refused_with_the_longest_that_does() {
        let longest = simulated_time("18446744s").unwrap();
        assert_eq!(time(longest).picos(), 18_446_744_000_000_000_000);
        for text in ["18446745s", "30000000s", "214d", "2years", "99999999999999999999s", "99999999999s"] {
            let message = simulated_time(text).unwrap_err();
            assert!(message.ends_with("give at most 18446744s"), "{text}: {message}");
        }
        assert!(simulated_time("0s").is_err() && simulated_time("soon").is_err());
    }
}
