//! Recommendations that follow from the cost of errors.

use super::BEARABLE;

/// Who should log corrected errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logging {
    /// Firmware may: it costs little.
    Firmware,
    /// The kernel should: firmware costs too much.
    Kernel,
    /// Nobody: both cost too much.
    Nobody,
}

impl Logging {
    /// Decides from the two costs; 0.1 is a tenth of the program's time.
    #[must_use]
    pub fn of(firmware: f64, software: f64) -> Self {
        match (firmware <= BEARABLE, software <= BEARABLE) {
            (true, _) => Self::Firmware,
            (false, true) => Self::Kernel,
            (false, false) => Self::Nobody,
        }
    }
}

/// What to do with a DIMM that has errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DimmAdvice {
    /// Its errors cost too much.
    Replace,
    /// Its errors cost little. Corrected errors do not predict other errors [Ferreira21, note 8].
    Leave,
    /// The confidence interval contains the limit.
    Unclear,
}

impl DimmAdvice {
    /// Decides from the cost of the errors and half of the cost's interval.
    #[must_use]
    pub fn of(cost: f64, uncertainty: f64) -> Self {
        if cost - uncertainty > BEARABLE {
            Self::Replace
        } else if cost + uncertainty <= BEARABLE {
            Self::Leave
        } else {
            Self::Unclear
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_costs_least_logs() {
        assert_eq!(Logging::of(0.05, 0.01), Logging::Firmware);
        assert_eq!(Logging::of(0.5, 0.01), Logging::Kernel);
        assert_eq!(Logging::of(0.5, 0.2), Logging::Nobody);
    }

    #[test]
    fn a_dimm_is_replaced_only_where_that_is_sure() {
        assert_eq!(DimmAdvice::of(0.2, 0.05), DimmAdvice::Replace);
        assert_eq!(DimmAdvice::of(0.02, 0.05), DimmAdvice::Leave);
        assert_eq!(DimmAdvice::of(0.09, 0.05), DimmAdvice::Unclear);
        assert_eq!(DimmAdvice::of(0.02, f64::INFINITY), DimmAdvice::Unclear);
    }
}
