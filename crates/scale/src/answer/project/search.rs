//! The most frequent errors that a program tolerates.

use super::PreparedProgram;
use crate::error::Error;
use crate::model::detour::CorrectedErrors;
use crate::statistics::parallel_runs::ParallelRuns;
use crate::time::Time;

/// The highest tolerable cost: the limit of 10 % of [Ferreira21, IV-B to IV-D].
pub const BEARABLE: f64 = 0.10;

/// The accuracy of the answer: within a fifth, about as accurate as this few errors allow.
const NEAR: f64 = 1.2;

/// The largest mean time that is tried and can be simulated: 213 days, in whole seconds.
const RAREST: f64 = 18_446_744.0;

/// The most frequent errors that a program tolerates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bearable {
    /// This frequent, and no more frequent.
    From(Time),
    /// Even this frequent; more frequent errors cannot be simulated.
    Below(Time),
    /// None: not even one per node in the longest time that can be simulated, 213 days.
    None,
}

/// The lowest mean time between errors of a node that costs at most [`BEARABLE`], within a fifth. Each guess takes
/// `runs` runs.
///
/// # Errors
/// Those of a run.
pub fn bearable(
    prepared: &PreparedProgram,
    errors: &CorrectedErrors,
    runs: u64,
    wanted: u64,
    parallel: &ParallelRuns,
) -> Result<Bearable, Error> {
    let bears = |mean: f64| -> Result<Option<bool>, Error> {
        let errors = CorrectedErrors { mean: Time::from_secs_f64(mean), ..errors.clone() };
        match prepared.ask(&errors, runs, wanted, parallel) {
            Ok(projection) => Ok(Some(projection.cost() <= BEARABLE)),
            Err(Error::NoTimeLeft { .. } | Error::TooLong) => Ok(Some(false)),
            Err(Error::TooManyErrors { .. } | Error::NoSuchErrors) => Ok(None),
            Err(error) => Err(error),
        }
    };
    // A node alone loses cost / mean of its time: below ten times the cost, no program tolerates the errors.
    let mut low = (errors.cost.mean_secs() * errors.burst_size() / BEARABLE).max(1e-6);
    if low >= RAREST {
        return Ok(Bearable::None);
    }
    let mut high = errors.mean.as_secs_f64().max(low).min(RAREST);
    loop {
        match bears(high)? {
            Some(true) => break,
            // Too many to draw, or too frequent: try rarer ones.
            Some(false) | None if high < RAREST => (low, high) = (high, (high * 4.0).min(RAREST)),
            _ => return Ok(Bearable::None),
        }
    }
    while high / low > NEAR {
        // The upper end first: towards the lower end errors are frequent and each guess takes longer.
        let middle = (low * high).sqrt().max(high / 4.0);
        match bears(middle)? {
            Some(true) => high = middle,
            Some(false) => low = middle,
            None => return Ok(Bearable::Below(Time::from_secs_f64(high))),
        }
    }
    Ok(Bearable::From(Time::from_secs_f64(high)))
}
