//! Which messages are hit [Fiala15, 3.4].

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// The numbers that users give for it, and that `mpi/redmpi/injector.h` knows.
const NAMES: [&str; 6] = ["odds", "at", "step", "rank", "replica", "seed"];

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
        let own = Self::read(text.strip_prefix("flip:").ok_or("it begins with flip: or call:")?, &NAMES)?;
        if ["odds", "at", "step"].iter().filter(|name| own.number(name).is_some()).count() != 1 {
            return Err("name one of odds, at and step".to_owned());
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
            if name == CHANGE && !CHANGES.contains(&value) {
                return Err(format!("{value:?} is none of {}", CHANGES.join(", ")));
            }
            if name != CHANGE && value.parse::<u32>().is_err() {
                return Err(format!("{value:?} is no whole number"));
            }
            read.push(word);
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
        assert_eq!(read("flip:odds=5000000,replica=0,seed=1").unwrap(), "odds=5000000 replica=0 seed=1");
        assert_eq!(read("flip:at=3,rank=1").unwrap(), "at=3 rank=1");
        assert_eq!(read("flip:step=4,rank=1").unwrap(), "step=4 rank=1");
        are_refused(&[
            ("odds=3", "flip:"),
            ("flip:", "name=value"),
            ("flip:odds=x", "whole number"),
            ("flip:often=3", "none of odds"),
            ("flip:rank=1", "one of odds"),
            ("flip:odds=1,at=1", "one of odds"),
            ("flip:step=1,at=1", "one of odds"),
            ("flip:at=1,change=tag", "none of odds"),
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
            ("call:odds=7,change=tag", "none of at"),
        ]);
    }

    #[test]
    fn a_rank_or_a_replica_that_is_not_there_is_missed() {
        let one: Injection = "flip:step=4,rank=3,replica=1".parse().unwrap();
        assert_eq!(one.replica(), Some(1));
        assert_eq!(one.misses(4, 2), None);
        assert!(one.misses(3, 2).unwrap().contains("no rank 3: the last one is 2"));
        assert!(one.misses(4, 1).unwrap().contains("no replica 1"));
        assert_eq!("flip:odds=7".parse::<Injection>().unwrap().misses(1, 1), None);
    }
}
