//! Which messages are hit [Fiala15, 3.4].

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// Where bits flip: in the buffer of a message, just before it is sent.
const FLIP: &str = "flip:send:";

/// What users give for it: whole numbers, and a rate.
const NAMES: [&str; 6] = [RATE, "at", "step", "rank", "replica", "seed"];

/// The share of the messages that are hit. `mpi/redmpi/injector.h` takes its inverse.
const RATE: &str = "rate";
const ODDS: &str = "odds";

/// The same for a call that becomes another one.
const NAMES_OF_CALL: [&str; 4] = ["at", CHANGE, "rank", "replica"];
const CHANGE: &str = "change";

/// What can become of a call.
const CHANGES: [&str; 8] = ["tag", "length", "target", "skip", "loop", "crash", "abort", "exit"];

/// Flips in messages, or a call that becomes another one, in the form that the library in the program reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Injection(String);

impl Display for Injection {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

impl FromStr for Injection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(words) = text.strip_prefix("call:") {
            return Self::of_call(words);
        }
        let own = Self::read(text.strip_prefix(FLIP).ok_or("it begins with flip:send: or call:")?, &NAMES)?;
        if [ODDS, "at", "step"].iter().filter(|name| own.value(name).is_some()).count() != 1 {
            return Err("name one of rate, at and step".to_owned());
        }
        Ok(own)
    }
}

impl Injection {
    /// A call that becomes another one.
    fn of_call(words: &str) -> Result<Self, String> {
        let own = Self::read(words, &NAMES_OF_CALL)?;
        if own.number("at").is_none() || own.value(CHANGE).is_none() {
            return Err("name at and change".to_owned());
        }
        Ok(own)
    }

    /// Numbers of these names, and what changes.
    fn read(words: &str, names: &[&str]) -> Result<Self, String> {
        let mut read = Vec::new();
        for word in words.split(',') {
            let (name, value) = word.split_once('=').ok_or_else(|| format!("{word:?} is no name=value"))?;
            if !names.contains(&name) {
                return Err(format!("{name:?} is none of {}", names.join(", ")));
            }
            read.push(match name {
                RATE => format!("{ODDS}={}", odds(value)?),
                CHANGE if CHANGES.contains(&value) => word.to_owned(),
                CHANGE => return Err(format!("{value:?} is none of {}", CHANGES.join(", "))),
                _ if value.parse::<u32>().is_ok() => word.to_owned(),
                _ => return Err(format!("{value:?} is no whole number")),
            });
        }
        Ok(Self(read.join(" ")))
    }

    /// What is given for this name.
    fn value(&self, name: &str) -> Option<&str> {
        let mut words = self.0.split(' ').filter_map(|word| word.split_once('='));
        words.find(|(own, _)| *own == name).map(|(_, value)| value)
    }

    /// The number of this name.
    fn number(&self, name: &str) -> Option<u32> {
        self.value(name)?.parse().ok()
    }

    /// The only replica that is hit.
    pub fn replica(&self) -> Option<u32> {
        self.number("replica")
    }

    /// Why a job of so many ranks and replicas has nothing that could be hit.
    pub fn misses(&self, ranks: u32, replicas: u32) -> Option<String> {
        [("rank", ranks), ("replica", replicas)].into_iter().find_map(|(name, all)| {
            let number = self.number(name).filter(|&number| number >= all)?;
            Some(format!("there is no {name} {number}: the last one is {}", all - 1))
        })
    }
}

/// The X of a rate of 1/X, such as `1/5e6` [Fiala15, 3.7.2] or `0.001`, rounded.
#[expect(clippy::cast_possible_truncation, reason = "at most 1e18")]
fn odds(rate: &str) -> Result<u64, String> {
    let (share, whole) = rate.split_once('/').unwrap_or((rate, "1"));
    let share = share.parse::<f64>().ok().zip(whole.parse::<f64>().ok()).map(|(share, whole)| share / whole);
    // Anything rarer never happens. A NaN is in no range.
    let share = share.filter(|share| (1e-18..=1.0).contains(share));
    Ok((1.0 / share.ok_or_else(|| format!("{rate:?} is no rate of at most 1, such as 1/5e6"))?).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<String, String> {
        text.parse::<Injection>().map(|own| own.0)
    }

    fn are_refused(cases: &[(&str, &str)]) {
        for (text, why) in cases {
            assert!(read(text).unwrap_err().contains(why), "{text}");
        }
    }

    #[test]
    fn flips_are_read_or_refused_with_a_reason() {
        assert_eq!(read("flip:send:rate=1/5e6,replica=0,seed=1").unwrap(), "odds=5000000 replica=0 seed=1");
        assert_eq!(read("flip:send:rate=0.02").unwrap(), "odds=50");
        assert_eq!(read("flip:send:rate=1/1").unwrap(), "odds=1");
        assert_eq!(read("flip:send:at=3,rank=1").unwrap(), "at=3 rank=1");
        assert_eq!(read("flip:send:step=4,rank=1").unwrap(), "step=4 rank=1");
        are_refused(&[
            ("rate=3", "flip:send:"),
            ("flip:at=3", "flip:send:"),
            ("flip:send:", "name=value"),
            ("flip:send:at=x", "whole number"),
            ("flip:send:often=3", "none of rate"),
            ("flip:send:rank=1", "one of rate"),
            ("flip:send:rate=1,at=1", "one of rate"),
            ("flip:send:step=1,at=1", "one of rate"),
            ("flip:send:at=1,change=tag", "none of rate"),
        ]);
    }

    #[test]
    fn a_rate_is_a_share_of_the_messages() {
        are_refused(&[
            ("flip:send:rate=5e6", "at most 1"),
            ("flip:send:rate=2/1", "at most 1"),
            ("flip:send:rate=0", "at most 1"),
            ("flip:send:rate=-1/5", "at most 1"),
            ("flip:send:rate=1/0", "at most 1"),
            ("flip:send:rate=0/0", "at most 1"),
            ("flip:send:rate=1/x", "no rate"),
            ("flip:send:rate=10/s", "no rate"),
        ]);
    }

    #[test]
    fn calls_are_read_or_refused_with_a_reason() {
        assert_eq!(read("call:at=7,rank=2,change=skip").unwrap(), "at=7 rank=2 change=skip");
        are_refused(&[
            ("call:", "name=value"),
            ("call:at=7", "name at and change"),
            ("call:change=tag", "name at and change"),
            ("call:at=7,change=sign", "none of tag"),
            ("call:at=x,change=tag", "whole number"),
            ("call:rate=7,change=tag", "none of at"),
        ]);
    }

    #[test]
    fn a_rank_or_a_replica_that_is_not_there_is_missed() {
        let one: Injection = "flip:send:step=4,rank=3,replica=1".parse().unwrap();
        assert_eq!(one.replica(), Some(1));
        assert_eq!(one.misses(4, 2), None);
        assert!(one.misses(3, 2).unwrap().contains("no rank 3: the last one is 2"));
        assert!(one.misses(4, 1).unwrap().contains("no replica 1"));
        assert_eq!("flip:send:rate=1/7".parse::<Injection>().unwrap().misses(1, 1), None);
    }
}
