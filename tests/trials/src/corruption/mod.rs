//! Another process corrupts locked pages of a guarded program where they lie.
//!
//! **Problem.** Flips that the guard itself injects show only that it finds the flips that it knows. **Idea.** The
//! victim's pages have computable content; another process finds each page by its content, wherever the engine keeps
//! it, and overwrites it; then the victim checks it. **Why `/proc/PID/mem`.** It writes where the victim itself may
//! not, and the guard does not notice.

mod class;
mod content;
mod memory;
mod victim;

use std::fmt;

use serde_json::Value;

pub use class::{Class, Donors};
pub use content::{PAGE_BYTES, Page};
use content::{below, mix};
use victim::{Answer, PAGES, Victim};

use crate::error::Error;
use crate::program::Programs;

/// How often each page is corrupted in the same way, in sequence.
const TIMES: u64 = 3;

/// The exit code of `rampart run` when a page is beyond correction.
const STOPPED: Option<i32> = Some(86);

/// The fates of corrupted pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fates {
    /// The victim found its own content each time.
    pub corrected: u64,
    /// The victim was stopped before it could read.
    pub stopped: u64,
    /// The victim read other content.
    pub silent: u64,
    /// Other outcomes: the victim ended otherwise, or the guard's counts differ from what was done.
    pub odd: Vec<String>,
}

impl Fates {
    /// Whether every page was corrected, or its program stopped.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.silent == 0 && self.odd.is_empty()
    }
}

impl fmt::Display for Fates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            ("corrected", self.corrected),
            ("stopped", self.stopped),
            ("SILENT", self.silent),
            ("ODD", self.odd.len() as u64),
        ];
        let counts = counts.iter().filter(|(_, count)| *count > 0).map(|(fate, count)| format!("{count} {fate}"));
        f.pad(&counts.collect::<Vec<_>>().join(", "))
    }
}

/// Corrupts so many pages of a victim in one way under one engine, each several times.
pub fn attack(programs: &Programs, engine: &str, class: Class, pages: u64, options: &[&str]) -> Result<Fates, Error> {
    let mut fates = Fates::default();
    let mut begun = None;
    for turn in 0..pages {
        let mut trial = match begun.take() {
            Some(trial) => trial,
            None => Trial { victim: Victim::start(programs, engine, options)?, class, right: 0 },
        };
        let number = below(mix(turn), PAGES);
        match trial.page(number, turn)? {
            Answer::Right => {
                fates.corrected += 1;
                begun = Some(trial);
            }
            Answer::Wrong(found) => {
                eprintln!("{engine}, {}: page {number}: {found}", class.name());
                fates.silent += 1;
            }
            Answer::Ended(STOPPED) => {
                fates.stopped += 1;
                fates.odd.extend(trial.stopped()?);
            }
            Answer::Ended(code) => fates.odd.push(format!("the victim ended with {code:?}")),
        }
    }
    if let Some(trial) = begun {
        fates.odd.extend(trial.ended()?);
    }
    Ok(fates)
}

/// A victim, and how often it found a corrupted page to be right.
struct Trial {
    victim: Victim,
    class: Class,
    right: u64,
}

impl Trial {
    /// Corrupts a page again and again, until the victim finds it wrong or is stopped.
    fn page(&mut self, number: usize, dice: u64) -> Result<Answer, Error> {
        let other = self.victim.content((number + PAGES / 2) % PAGES);
        for _ in 0..TIMES {
            // New content has new codes, which shows when they are made; otherwise a wrong P would stay as long as the
            // page is right.
            let older = self.victim.content(number);
            self.victim.write(number)?;
            if self.class.is_of_codes() {
                self.victim.corrupt_codes(number, self.class)?;
            } else {
                let donors = Donors { other: &other, older: &older };
                self.victim.corrupt(number, &self.class.corrupted(&self.victim.content(number), &donors, mix(dice)))?;
            }
            match self.victim.check(number)? {
                Answer::Right => self.right += 1,
                other => return Ok(other),
            }
        }
        Ok(Answer::Right)
    }

    /// The irregularities of a stopped victim.
    fn stopped(self) -> Result<Option<String>, Error> {
        let right = self.right;
        let (_code, report) = self.victim.end()?;
        let counts = counts(&report)?;
        let is_counted = counts.uncorrectable > 0 && counts.of(self.class) >= right;
        Ok((!is_counted).then(|| format!("right {right} times, then stopped: {counts:?}")))
    }

    /// The irregularities of a victim that was never stopped.
    fn ended(mut self) -> Result<Option<String>, Error> {
        let (all, right) = (self.victim.check_all()?, self.right);
        let (code, report) = self.victim.end()?;
        let counts = counts(&report)?;
        let is_counted = counts.uncorrectable == 0 && counts.of(self.class) >= right;
        let is_data = counts.corrected == 0 || !self.class.is_of_codes();
        let is_fine = all == Answer::Right && code == Some(0) && is_counted && is_data;
        Ok((!is_fine).then(|| format!("right {right} times, then {all:?}, {code:?}: {counts:?}")))
    }
}

/// The guard's counts.
#[derive(Debug)]
struct Counts {
    corrected: u64,
    codes_wrong: u64,
    uncorrectable: u64,
}

impl Counts {
    /// The expected count of a class. P is read only where a page is wrong.
    fn of(&self, class: Class) -> u64 {
        match class {
            Class::P => u64::MAX,
            _ if class.is_of_codes() => self.codes_wrong,
            _ => self.corrected,
        }
    }
}

fn counts(report: &Value) -> Result<Counts, Error> {
    let count = |name| report["counts"][name].as_u64().ok_or(Error::NoCount(name));
    Ok(Counts {
        corrected: count("corrected")?,
        codes_wrong: count("codes_wrong")?,
        uncorrectable: count("uncorrectable")?,
    })
}
