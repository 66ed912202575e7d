//! [Ferreira21, fig. 3 to 7], as questions.
//!
//! \[Ferreira21\] prints its results as bars, without numbers; [`claims`] has its statements about them.

use super::claims::{self, FigureClaim};
use crate::error::Error;
use crate::model::detour::{Burst, CorrectedErrors, ErrorCost, Nodes, Overlap};
use crate::model::operation::Rank;
use crate::model::system::{Reporting, System};
use crate::time::Time;

/// Nodes of [Ferreira21, fig. 3, 6 and 7], and of the exascale systems.
const NODES: u32 = 16_384;

/// A group of bars: one setting, a bar for each workload.
#[derive(Clone, Debug, PartialEq)]
pub struct FigureSetting {
    /// What is varied beside the cost: a system, or a mean time between errors.
    pub panel: String,
    /// Who logs, or the time that an error takes.
    pub path: String,
    /// The number of nodes.
    pub nodes: u32,
    /// The errors.
    pub errors: CorrectedErrors,
}

/// One of these figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure(u8);

impl Figure {
    /// The figure with this number, 3 to 7.
    ///
    /// # Errors
    /// If the number is another.
    pub fn new(number: u8) -> Result<Self, Error> {
        if (3..=7).contains(&number) { Ok(Self(number)) } else { Err(Error::NoSuchFigure { number }) }
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// The figure's title.
    #[must_use]
    pub const fn shows(self) -> &'static str {
        match self.0 {
            3 => "errors on one node of 16,384, by who logs them",
            4 => "present systems, by who logs errors",
            5 => "exascale systems, by who logs errors",
            6 => "errors so frequent that the kernel's logging is felt",
            _ => "what an error takes, at two rates",
        }
    }

    /// All settings; `seed` is the first seed of the errors.
    ///
    /// # Errors
    /// None: all systems named here are known.
    pub fn settings(self, seed: u64) -> Result<Vec<FigureSetting>, Error> {
        let errors = |secs: f64, cost: Time, nodes: Nodes| CorrectedErrors {
            nodes,
            mean: Time::from_secs_f64(secs),
            burst: Burst::SINGLE,
            cost: ErrorCost::Fixed(cost),
            overlap: Overlap::Queued,
            seed,
        };
        let by_path = |panel: &str, nodes: u32, secs: f64, where_: Nodes, paths: &[Reporting]| -> Vec<FigureSetting> {
            let setting = |path: &Reporting| FigureSetting {
                panel: panel.to_owned(),
                path: path.name().to_owned(),
                nodes,
                errors: errors(secs, path.time(), where_),
            };
            paths.iter().map(setting).collect()
        };
        let apart = |secs: f64| Time::from_secs_f64(secs).to_string();
        let systems = |names: &[&str]| -> Result<Vec<FigureSetting>, Error> {
            let of = |name: &&str| {
                let system = System::named(name)?;
                let nodes = system.simulated.unwrap_or(NODES);
                Ok(by_path(name, nodes, system.mtbce_secs, Nodes::All, &Reporting::ALL))
            };
            Ok(names.iter().map(of).collect::<Result<Vec<_>, _>>()?.concat())
        };
        let one = Nodes::One(Rank(NODES / 2));
        let on_one = |path: Reporting, means: &[f64]| {
            means.iter().flat_map(|&secs| by_path(&apart(secs), NODES, secs, one, &[path])).collect::<Vec<_>>()
        };
        Ok(match self.0 {
            3 => [
                on_one(Reporting::Hardware, &[0.001, 0.01]),
                on_one(Reporting::Software, &[0.01, 0.1, 1.0]),
                on_one(Reporting::Firmware, &[0.2, 1.0, 10.0]),
            ]
            .concat(),
            4 => systems(&["cielo", "trinity", "summit"])?,
            5 => systems(&["exascale", "exascale-x10", "exascale-x20", "exascale-x100", "exascale-facebook"])?,
            6 => {
                let of = |secs: f64| by_path(&apart(secs), NODES, secs, Nodes::All, &Reporting::ALL);
                [36.0, 3.6, 1.0].map(of).concat()
            }
            _ => {
                let costs = [150, 10_000, 100_000, 775_000, 10_000_000, 133_000_000].map(Time::from_nanos);
                let of = |secs: f64| {
                    costs.map(|cost| FigureSetting {
                        panel: apart(secs),
                        path: cost.to_string(),
                        nodes: NODES,
                        errors: errors(secs, cost, Nodes::All),
                    })
                };
                [720.0, 0.2].map(of).concat()
            }
        })
    }

    /// The statements of \[Ferreira21\] about this figure.
    #[must_use]
    pub fn claims(self) -> Vec<FigureClaim> {
        claims::ALL.into_iter().filter(|claim| claim.figure == self.0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::traced::KnownProgram;

    #[test]
    fn each_figure_has_its_settings_and_no_other_number_is_one() {
        let count = |number| Figure::new(number).unwrap().settings(1).unwrap().len();
        assert_eq!([3, 4, 5, 6, 7].map(count), [8, 9, 15, 9, 12]);
        assert!(Figure::new(2).is_err() && Figure::new(8).is_err());
    }

    #[test]
    fn every_claim_is_of_bars_that_are_drawn() {
        for number in 3..=7 {
            let figure = Figure::new(number).unwrap();
            let settings = figure.settings(1).unwrap();
            for claim in figure.claims() {
                let drawn = settings.iter().any(|setting| claim.is_of(&setting.panel, &setting.path));
                assert!(drawn, "{}", claim.words);
                assert!(claim.workloads.iter().all(|name| KnownProgram::named(name).is_ok()), "{}", claim.words);
            }
        }
    }
}
