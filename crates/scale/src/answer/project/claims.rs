//! The statements of the text about [Ferreira21, fig. 3 to 7], and whether each holds here.
//!
//! Source: [Ferreira21, IV-B to IV-E].

/// A statement about some bars: their cost lies between two limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FigureClaim {
    /// The figure.
    pub figure: u8,
    /// The statement.
    pub words: &'static str,
    /// The panels; none means all.
    pub panels: &'static [&'static str],
    /// The path; none means all.
    pub path: Option<&'static str>,
    /// The workloads; none means all.
    pub workloads: &'static [&'static str],
    /// The least and the greatest cost; 0.1 is a tenth.
    pub range: (f64, f64),
}

const TIGHT: &[&str] = &["lammps-crack", "lulesh"];
const MIDDLE: &[&str] = &["minife", "hpcg", "sparc", "cth", "milc"];
const LOOSE: &[&str] = &["lammps-lj", "lammps-snap"];
const ANY: f64 = f64::INFINITY;

const fn claim(
    figure: u8,
    words: &'static str,
    panels: &'static [&'static str],
    path: Option<&'static str>,
    workloads: &'static [&'static str],
    range: (f64, f64),
) -> FigureClaim {
    FigureClaim { figure, words, panels, path, workloads, range }
}

const HARDWARE: Option<&str> = Some("hardware");
const SOFTWARE: Option<&str> = Some("software");
const FIRMWARE: Option<&str> = Some("firmware");

/// All statements.
pub const ALL: [FigureClaim; 17] = [
    claim(3, "corrected by hardware only: below 1 %", &[], HARDWARE, &[], (0.0, 0.01)),
    claim(3, "logged by software: below 10 % down to 10 ms on one node", &[], SOFTWARE, &[], (0.0, 0.1)),
    claim(3, "logged by firmware: below 10 % down to 1 s on one node", &["1 s", "10 s"], FIRMWARE, &[], (0.0, 0.1)),
    claim(3, "logged by firmware: hundreds of percent at 200 ms", &["200 ms"], FIRMWARE, &[], (1.0, 10.0)),
    claim(4, "present systems: significantly below 10 %", &[], None, &[], (0.0, 0.1)),
    claim(5, "hardware only is negligible on all five", &[], HARDWARE, &[], (0.0, 0.01)),
    claim(5, "software: significantly below 10 % on all five", &[], SOFTWARE, &[], (0.0, 0.1)),
    claim(5, "x10, firmware: nearly 100 % for LAMMPS-crack and LULESH", &["exascale-x10"], FIRMWARE, TIGHT, (0.8, 1.0)),
    claim(
        5,
        "x10, firmware: 10 to 15 % for miniFE, HPCG, SPARC, CTH, MILC",
        &["exascale-x10"],
        FIRMWARE,
        MIDDLE,
        (0.1, 0.15),
    ),
    claim(
        5,
        "x100 and Facebook, firmware: 100 to 1000 % for SPARC, CTH, MILC, LULESH, LAMMPS-crack",
        &["exascale-x100", "exascale-facebook"],
        FIRMWARE,
        &["sparc", "cth", "milc", "lulesh", "lammps-crack"],
        (1.0, 10.0),
    ),
    claim(5, "LAMMPS-lj and -snap: never more than a few percent", &[], None, LOOSE, (0.0, 0.05)),
    claim(
        5,
        "5,544 s keeps firmware at about 10 % where it is not LAMMPS-crack or LULESH",
        &["exascale-x10"],
        FIRMWARE,
        MIDDLE,
        (0.0, 0.15),
    ),
    claim(5, "Cielo's own rate, firmware: below 10 %", &["exascale"], FIRMWARE, &[], (0.0, 0.1)),
    claim(6, "software: below 10 % at an error a second on each node", &["1 s"], SOFTWARE, &[], (0.0, 0.1)),
    claim(6, "hardware only is not felt", &[], HARDWARE, &[], (0.0, 0.01)),
    claim(7, "150 ns is not felt, at either rate", &[], Some("150 ns"), &[], (0.0, 0.01)),
    claim(7, "133 ms every 0.2 s: no progress to speak of", &["200 ms"], Some("133 ms"), &[], (10.0, ANY)),
];

impl FigureClaim {
    /// Whether the statement is about the bars of this panel and path.
    #[must_use]
    pub fn is_of(&self, panel: &str, path: &str) -> bool {
        (self.panels.is_empty() || self.panels.contains(&panel)) && self.path.is_none_or(|of| of == path)
    }

    /// Whether the statement is about this workload's bar.
    #[must_use]
    pub fn is_of_workload(&self, name: &str) -> bool {
        self.workloads.is_empty() || self.workloads.contains(&name)
    }

    /// The least and the greatest of these costs, and whether both lie in the range; `None` without costs.
    #[must_use]
    pub fn judged(&self, costs: impl IntoIterator<Item = f64>) -> Option<(f64, f64, bool)> {
        let mut costs = costs.into_iter().peekable();
        costs.peek()?;
        let (least, most) = costs.fold((ANY, -ANY), |(least, most), cost| (cost.min(least), cost.max(most)));
        // A difference of a ten-thousandth is chance.
        Some((least, most, least >= self.range.0 - 1e-4 && most <= self.range.1 + 1e-4))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_holds_where_all_its_bars_lie_in_its_range() {
        let claim = ALL[1];
        assert_eq!(claim.judged([0.01, 0.09]), Some((0.01, 0.09, true)));
        assert_eq!(claim.judged([0.01, 0.11]), Some((0.01, 0.11, false)));
        assert_eq!(claim.judged([]), None);
    }
}
