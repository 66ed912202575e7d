//! The notation of faults to inject: `stuck-at:100,coupling:20,seed=7`.
//!
//! A list of items, separated by commas. `KIND:COUNT` injects so many faults at random places, `KIND@FRAME` one in a
//! physical frame, `OPTION=VALUE` sets an option. A text is accepted as a whole or refused with the item that is wrong:
//! if a misspelt fault were silently ignored, a tester would look better than it is.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Frame;
use crate::fault::Probability;

/// A kind of fault, as a specification names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultClass {
    /// SAF.
    StuckAt,
    /// TF.
    Transition,
    /// CFin, CFid or CFst, with equal probability.
    Coupling,
    /// CFin.
    CouplingInversion,
    /// CFid.
    CouplingIdempotent,
    /// CFst.
    CouplingState,
    /// AF of type A, B, C or D, with equal probability.
    Address,
    /// SOF.
    StuckOpen,
    /// DRF.
    Retention,
    /// Two linked CFid.
    Linked,
    /// Two to eight stuck bits of one word.
    MultiBit,
}

impl FaultClass {
    /// All kinds, with their names.
    pub const ALL: [(&str, Self); 11] = [
        ("stuck-at", Self::StuckAt),
        ("transition", Self::Transition),
        ("coupling", Self::Coupling),
        ("coupling-in", Self::CouplingInversion),
        ("coupling-id", Self::CouplingIdempotent),
        ("coupling-st", Self::CouplingState),
        ("address", Self::Address),
        ("stuck-open", Self::StuckOpen),
        ("retention", Self::Retention),
        ("linked", Self::Linked),
        ("multi-bit", Self::MultiBit),
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(_, class)| *class == self).expect("every class has a name").0
    }

    /// The defect, in a line for people.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::StuckAt => "SAF: a bit is always 0, or always 1",
            Self::Transition => "TF: a bit cannot rise, or cannot fall",
            Self::Coupling => "CFin, CFid or CFst, each as likely",
            Self::CouplingInversion => "CFin: a transition of one bit inverts another",
            Self::CouplingIdempotent => "CFid: a transition of one bit sets another, or clears it",
            Self::CouplingState => "CFst: a bit is held at a value while another has a state",
            Self::Address => "AF: an address reaches no line, another's line, or two",
            Self::StuckOpen => "SOF: a line cannot be reached; a read gives what the one before gave",
            Self::Retention => {
                "DRF: a bit loses its value after a while; a delayed read or a test with delays finds it"
            }
            Self::Linked => "two CFid of one victim that can hide each other",
            Self::MultiBit => "two to eight stuck bits of one word",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, class)| class)
    }
}

/// The faults to inject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct InjectionSpec {
    random: Vec<(FaultClass, u32)>,
    in_frames: Vec<(FaultClass, Frame)>,
    seed: u64,
    intermittent: Option<Probability>,
    pattern_sensitive: bool,
    retention: Duration,
}

impl InjectionSpec {
    /// The most faults of one specification.
    pub const MOST_FAULTS: u32 = 1_000_000;

    /// The default time for which a leaking cell holds its value: the refresh interval of DRAM up to 85 °C (JESD79-4,
    /// tREFW).
    pub const RETENTION: Duration = Duration::from_millis(64);

    /// The options: the form of each, and its meaning.
    pub const OPTIONS: [(&str, &str); 4] = [
        ("seed=NUMBER", "what places are drawn from; the same seed gives the same faults"),
        ("intermittent=PROBABILITY", "each fault acts only so often when it can, such as 0.5"),
        ("pattern=on", "each fault acts only while its neighbours hold a pattern"),
        ("retention=TIME", "how long a retention fault holds its value, such as 100ms; 64ms if nothing is said"),
    ];

    /// How many faults of each kind lie at random places, in the given order; never zero of a kind.
    #[must_use]
    pub fn random(&self) -> &[(FaultClass, u32)] {
        &self.random
    }

    /// The faults of named frames, in the given order.
    #[must_use]
    pub fn in_frames(&self) -> &[(FaultClass, Frame)] {
        &self.in_frames
    }

    /// The seed of the places; 0 by default.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// The probability that a fault acts when it can; `None` if always.
    #[must_use]
    pub const fn intermittent(&self) -> Option<Probability> {
        self.intermittent
    }

    /// Whether each fault acts only while its neighbours hold a pattern.
    #[must_use]
    pub const fn is_pattern_sensitive(&self) -> bool {
        self.pattern_sensitive
    }

    /// How long a retention fault holds its value.
    #[must_use]
    pub const fn retention(&self) -> Duration {
        self.retention
    }
}

/// item {place}, {item:?}: {problem}
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub struct ParseInjectionError {
    place: usize,
    item: String,
    problem: Problem,
}

/// What is wrong with an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Problem {
    Form,
    Kind,
    Option,
    Count,
    TooMany,
    Frame,
    Seed,
    Probability,
    Pattern,
    Time,
    Twice,
    Both,
    Nothing,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Form => "write KIND:COUNT, KIND@FRAME or OPTION=VALUE, as in stuck-at:100, stuck-at@0x1a2b3, seed=7",
            Self::Kind => {
                return write!(
                    f,
                    "no such kind of fault; there are {}",
                    FaultClass::ALL.map(|(name, _)| name).join(", ")
                );
            }
            Self::Option => {
                let options = InjectionSpec::OPTIONS.map(|(option, _)| option);
                return write!(f, "no such option; there are {}", options.join(", "));
            }
            Self::Count => "a count is a whole number from 1 to 1000000",
            Self::TooMany => "more than 1000000 faults in all",
            Self::Frame => "a frame is a number such as 0x1a2b3, below 2^40",
            Self::Seed => "a seed is a whole number below 2^64",
            Self::Probability => "a probability is a number above 0 and up to 1, such as 0.5",
            Self::Pattern => "pattern is on or off",
            Self::Time => "a time is a whole number above 0 of us, ms or s, such as 100ms",
            Self::Twice => "given twice",
            Self::Both => "faults are intermittent or pattern-sensitive, not both",
            Self::Nothing => "no fault to plant: add one, such as stuck-at:100",
        })
    }
}

impl FromStr for InjectionSpec {
    type Err = ParseInjectionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut draft = Draft::default();
        let mut last = (1, text);
        for (number, item) in text.split(',').enumerate() {
            last = (number + 1, item);
            draft.add(item.trim()).map_err(|problem| at(last, problem))?;
        }
        draft.finish().map_err(|problem| at(last, problem))
    }
}

/// The error at an item, with enough of the item to recognise it.
fn at((place, item): (usize, &str), problem: Problem) -> ParseInjectionError {
    const SHOWN: usize = 40;
    let mut item: String = item.trim().to_owned();
    if let Some((end, _)) = item.char_indices().nth(SHOWN) {
        item.truncate(end);
        item.push('…');
    }
    ParseInjectionError { place, item, problem }
}

/// A specification while its items are read.
#[derive(Default)]
struct Draft {
    random: Vec<(FaultClass, u32)>,
    in_frames: Vec<(FaultClass, Frame)>,
    seed: Option<u64>,
    intermittent: Option<Probability>,
    pattern_sensitive: Option<bool>,
    retention: Option<Duration>,
    faults: u32,
}

impl Draft {
    fn add(&mut self, item: &str) -> Result<(), Problem> {
        let separator = item.find([':', '@', '=']).ok_or(Problem::Form)?;
        let (name, rest) = item.split_at(separator);
        let (sign, value) = rest.split_at(1);
        match sign {
            "=" => self.set(name.trim(), value.trim()),
            _ => {
                let class = FaultClass::named(name.trim()).ok_or(Problem::Kind)?;
                if sign == ":" { self.add_random(class, value.trim()) } else { self.add_in_frame(class, value.trim()) }
            }
        }
    }

    fn add_random(&mut self, class: FaultClass, count: &str) -> Result<(), Problem> {
        let count: u64 = whole(count).ok_or(Problem::Count)?;
        let count = u32::try_from(count).ok().filter(|count| (1..=InjectionSpec::MOST_FAULTS).contains(count));
        let count = count.ok_or(Problem::Count)?;
        if self.random.iter().any(|(known, _)| *known == class) {
            return Err(Problem::Twice);
        }
        self.random.push((class, count));
        self.count(count)
    }

    fn add_in_frame(&mut self, class: FaultClass, frame: &str) -> Result<(), Problem> {
        let frame = frame.parse().map_err(|_| Problem::Frame)?;
        if self.in_frames.contains(&(class, frame)) {
            return Err(Problem::Twice);
        }
        self.in_frames.push((class, frame));
        self.count(1)
    }

    fn count(&mut self, more: u32) -> Result<(), Problem> {
        self.faults += more;
        if self.faults <= InjectionSpec::MOST_FAULTS { Ok(()) } else { Err(Problem::TooMany) }
    }

    fn set(&mut self, option: &str, value: &str) -> Result<(), Problem> {
        match option {
            "seed" => once(&mut self.seed, whole(value).ok_or(Problem::Seed)?),
            "intermittent" => once(&mut self.intermittent, probability(value).ok_or(Problem::Probability)?),
            "pattern" => match value {
                "on" => once(&mut self.pattern_sensitive, true),
                "off" => once(&mut self.pattern_sensitive, false),
                _ => Err(Problem::Pattern),
            },
            "retention" => once(&mut self.retention, time(value).ok_or(Problem::Time)?),
            _ => Err(Problem::Option),
        }
    }

    fn finish(self) -> Result<InjectionSpec, Problem> {
        let pattern_sensitive = self.pattern_sensitive.unwrap_or(false);
        if self.faults == 0 {
            return Err(Problem::Nothing);
        }
        if self.intermittent.is_some() && pattern_sensitive {
            return Err(Problem::Both);
        }
        Ok(InjectionSpec {
            random: self.random,
            in_frames: self.in_frames,
            seed: self.seed.unwrap_or(0),
            intermittent: self.intermittent,
            pattern_sensitive,
            retention: self.retention.unwrap_or(InjectionSpec::RETENTION),
        })
    }
}

fn once<T>(option: &mut Option<T>, value: T) -> Result<(), Problem> {
    if option.is_some() {
        return Err(Problem::Twice);
    }
    *option = Some(value);
    Ok(())
}

/// Digits alone: no sign, no blank.
fn whole(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

fn probability(text: &str) -> Option<Probability> {
    if !text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return None;
    }
    let number: f64 = text.parse().ok()?;
    if number > 0.0 { Probability::try_from(number).ok() } else { None }
}

const TIME_UNITS: [(&str, u64); 3] = [("us", 1), ("ms", 1_000), ("s", 1_000_000)];

fn time(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let (_, micros) = TIME_UNITS.into_iter().find(|(name, _)| *name == unit.trim())?;
    let micros = whole(number)?.checked_mul(micros)?;
    (micros > 0).then(|| Duration::from_micros(micros))
}

impl fmt::Display for InjectionSpec {
    /// The shortest text with the same meaning, always with the seed, because it repeats a run.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (class, count) in &self.random {
            write!(f, "{}:{count},", class.name())?;
        }
        for (class, frame) in &self.in_frames {
            write!(f, "{}@{frame},", class.name())?;
        }
        write!(f, "seed={}", self.seed)?;
        if let Some(probability) = self.intermittent {
            write!(f, ",intermittent={}", probability.get())?;
        }
        if self.pattern_sensitive {
            write!(f, ",pattern=on")?;
        }
        if self.retention != Self::RETENTION {
            let micros = self.retention.as_micros();
            let fitting = TIME_UNITS.into_iter().rev().find(|(_, unit)| micros.is_multiple_of(u128::from(*unit)));
            let (name, unit) = fitting.expect("a specification's times are whole microseconds");
            write!(f, ",retention={}{name}", micros / u128::from(unit))?;
        }
        Ok(())
    }
}

impl TryFrom<String> for InjectionSpec {
    type Error = ParseInjectionError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<InjectionSpec> for String {
    fn from(spec: InjectionSpec) -> Self {
        spec.to_string()
    }
}

#[cfg(test)]
mod tests;
