//! Which messages are hit [Fiala15, 3.4].

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// The numbers that users give for it, and that `mpi/redmpi/injector.h` knows.
const NAMES: [&str; 5] = ["odds", "at", "rank", "replica", "seed"];

/// Flips in messages, in the form that the library in the program reads.
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
        let words = text.strip_prefix("flip:").ok_or("it begins with flip:")?;
        let mut read = Vec::new();
        for word in words.split(',') {
            let (name, number) = word.split_once('=').ok_or_else(|| format!("{word:?} is no name=number"))?;
            if !NAMES.contains(&name) {
                return Err(format!("{name:?} is none of {}", NAMES.join(", ")));
            }
            let number: u32 = number.parse().map_err(|_| format!("{number:?} is no whole number"))?;
            read.push(format!("{name}={number}"));
        }
        let has = |name: &str| read.iter().any(|word| word.split_once('=').is_some_and(|(own, _)| own == name));
        if has("odds") == has("at") {
            return Err("name either odds or at".to_owned());
        }
        Ok(Self(read.join(" ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flips_are_read_or_refused_with_a_reason() {
        let read = |text: &str| text.parse::<Injection>().map(|own| own.0);
        assert_eq!(read("flip:odds=5000000,replica=0,seed=1").unwrap(), "odds=5000000 replica=0 seed=1");
        assert_eq!(read("flip:at=3,rank=1").unwrap(), "at=3 rank=1");
        for (text, why) in [
            ("odds=3", "flip:"),
            ("flip:", "name=number"),
            ("flip:odds=x", "whole number"),
            ("flip:often=3", "none of odds"),
            ("flip:rank=1", "either odds or at"),
            ("flip:odds=1,at=1", "either odds or at"),
        ] {
            assert!(read(text).unwrap_err().contains(why), "{text}");
        }
    }
}
