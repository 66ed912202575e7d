//! Models of the demand of Rahman's programs.
//!
//! **Problem.** SPEC CPU2006 cannot run here, and Rahman gives only the time and the share of memory of each program.
//! **Idea.** A program fills its footprint, replaces part of it repeatedly, holds the rest until it ends, and also
//! allocates and frees short-lived pages. Each number is Rahman's or derived from his text, as this table shows.
//!
//! | number | from |
//! |---|---|
//! | time, share of 1 GB | [Rahman16, tab. 3] |
//! | filled in 120 s, or half the time | COMeT's one tester (2,500 frames a second) kept up with the start of bzip2, 258,000 frames, and of cactusADM [Rahman16, 4.2.2] |
//! | long-held share | gemsFDTD 7.3 % [Rahman16, 4.2.4]; calculix, mcf and milc "a small number" there, 0.1 here; zeusmp and all others *calibrated* on [Rahman16, fig. 15]: zeusmp loses 36.9 of 62.8 points without migration, and 0.4 for the others makes the average loss about the reported 9.9 of 51.4 points. No other statement gives them, so fig. 15 is no evidence here |
//! | the rest is held 2 minutes on average | [Rahman16, 4.2.3] gives it for calculix, and for no other program |
//! | short-lived frames a second | *calibrated* on Fix1.32 in [Rahman16, tab. 9] for L1, M1 and H2 (1.03, 1.10, 1.25), a class each; the mixes of [Rahman16, tab. 7] give each program's class. Without recycling a short-lived page returns to the core that freed it and is given out again while its test is good, so these do not show in [Rahman16, ch. 4] |
//! | swing | [Rahman16, 5.3.4]: L and H workloads have peaks and valleys, M ones are stable |
//! | memory share | classes by misses per instruction of SPEC CPU2006 (Jaleel, *Memory characterization of workloads using instrumentation-driven simulation*, 2007): estimates |
//!
//! PARSEC is not here: Rahman gives the working sets of two of its programs and nothing to derive demand from.

mod mixes;
mod spec;

pub use mixes::{MIXES, Mix, PAIRS};
pub use spec::{SPEC, find};

/// Frames in the 1 GB that [Rahman16, tab. 3] gives shares of.
const GIGABYTE: f64 = 262_144.0;

/// Seconds in which a program fills its footprint, but at most half its time.
const FILLING: f64 = 120.0;

/// Mean seconds for which a program holds a frame that it does not hold to the end.
const HELD: f64 = 120.0;

/// How demanding a program is, by the mixes of [Rahman16, tab. 7] that it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramDemand {
    /// Only in L mixes, or in the gentler part of M ones.
    Low,
    /// In M mixes.
    Medium,
    /// Mostly in H mixes.
    High,
}

impl ProgramDemand {
    /// Returns the short-lived frames allocated and freed per second, on the server.
    const fn short_lived(self) -> f64 {
        match self {
            Self::Low => 300.0,
            Self::Medium => 2_600.0,
            Self::High => 10_400.0,
        }
    }

    /// Returns how far demand rises and falls around its mean, 0 to 1.
    const fn swing(self) -> f64 {
        match self {
            Self::Medium => 0.1,
            Self::Low | Self::High => 0.8,
        }
    }
}

/// The share of a program's time that it spends on memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intensity {
    /// Its data fits the caches.
    Cached,
    /// In between.
    Mixed,
    /// It streams, or chases pointers, through memory.
    Bound,
}

impl Intensity {
    const fn share(self) -> f64 {
        match self {
            Self::Cached => 0.1,
            Self::Mixed => 0.3,
            Self::Bound => 0.6,
        }
    }
}

/// One of Rahman's programs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorkloadProgram {
    /// Its name in [Rahman16, tab. 3].
    pub name: &'static str,
    /// Its time alone on the Pentium D, in seconds.
    pub seconds: f64,
    /// Its share of 1 GB, 0 to 1.
    pub share: f64,
    /// The part of its footprint that it holds until it ends, 0 to 1.
    pub long_held: f64,
    /// How demanding it is.
    pub demand: ProgramDemand,
    /// How much memory slows it.
    pub intensity: Intensity,
}

/// A program's demand, in its own time on an otherwise idle machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Its time, in seconds.
    pub seconds: f64,
    /// Frames that it fills.
    pub footprint: u64,
    /// Of those, frames held until it ends.
    pub long_held: u64,
    /// Frames filled per second.
    pub filling: f64,
    /// Frames replaced per second.
    pub replaced: f64,
    /// Short-lived frames per second.
    pub short_lived: f64,
    /// How far the last two rates rise and fall.
    pub swing: f64,
    /// The share of its time that it spends on memory.
    pub memory: f64,
}

impl WorkloadProgram {
    /// Returns the rates on a machine that is `speed` times as fast as the Pentium D, with short-lived pages or without
    /// [Rahman16, ch. 4].
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole frames of a positive number")]
    pub fn rates(&self, speed: f64, short_lived: bool) -> Rates {
        let footprint = self.share * GIGABYTE;
        let filled_in = FILLING.min(self.seconds / 2.0);
        Rates {
            seconds: self.seconds / speed,
            footprint: footprint as u64,
            long_held: (self.long_held * footprint) as u64,
            filling: footprint / filled_in * speed,
            replaced: (1.0 - self.long_held) * footprint / HELD * speed,
            short_lived: if short_lived { self.demand.short_lived() } else { 0.0 },
            swing: self.demand.swing(),
            memory: self.intensity.share(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_3_is_sorted_by_share_as_the_thesis_prints_it() {
        assert_eq!(SPEC.len(), 28);
        assert!(SPEC.windows(2).all(|pair| pair[0].share <= pair[1].share));
        let mean = SPEC.iter().map(|program| program.share).sum::<f64>() / 28.0;
        assert!(
            (mean - 0.45).abs() < 0.02,
            "{mean}: on demand covers 46.4 % on average, slightly more than this (4.2.2)"
        );
    }

    #[test]
    fn every_program_of_the_mixes_is_known_and_each_mix_has_twelve() {
        for mix in MIXES {
            let programs = mix.programs();
            assert_eq!(programs.len(), 12, "{}", mix.name);
            assert!(programs.iter().all(|name| find(name).is_some()), "{}", mix.name);
            for &(name, count) in mix.parts {
                let first = programs.iter().position(|program| *program == name).unwrap();
                assert!(
                    programs[first..first + count].iter().all(|program| *program == name),
                    "{name} is on both nodes"
                );
            }
        }
        assert!(PAIRS.iter().flatten().all(|name| find(name).is_some()));
    }

    #[test]
    fn no_program_fills_memory_faster_than_the_tester_of_table_1_tests() {
        for program in &SPEC {
            let rates = program.rates(1.0, false);
            assert!(rates.filling <= 2_500.0, "{}: {}", program.name, rates.filling);
            assert!(rates.long_held <= rates.footprint && rates.footprint < 262_144);
        }
    }
}
