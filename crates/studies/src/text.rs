//! Prints an outcome as text: each of our numbers, with Rahman's in parentheses.

use std::fmt;

use super::outcome::{PolicySummary, StudyOutcome, Table, TableCell};

impl fmt::Display for StudyOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.experiment, self.source)?;
        match self.seeds {
            1 => write!(f, "seed {}", self.seed)?,
            seeds => write!(f, "means over {seeds} seeds from {} on", self.seed)?,
        }
        writeln!(f, ", {:.0} s simulated; in parentheses Rahman's number", self.simulated_seconds)?;
        for table in &self.tables {
            write!(f, "\n{table}")?;
        }
        write_policies(f, self.allocator, &self.policies)?;
        if !self.claims.is_empty() {
            writeln!(f)?;
        }
        for claim in &self.claims {
            let holds = if claim.holds { "holds" } else { "DOES NOT HOLD" };
            writeln!(f, "{holds:<13} {}: {}", claim.says, claim.because)?;
        }
        self.remarks.iter().try_for_each(|remark| writeln!(f, "note          {remark}"))
    }
}

/// Prints the figures that page allocators are compared by: means over the scenarios of each policy.
fn write_policies(f: &mut fmt::Formatter<'_>, allocator: &str, policies: &[PolicySummary]) -> fmt::Result {
    writeln!(f, "\nPage allocator {allocator} (means; shares of frames and of banks)")?;
    writeln!(f, "policy               scenarios  slowdown  on demand  coverage  empty banks  offline banks")?;
    for policy in policies {
        let share = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), |share| format!("{share:.3}"));
        writeln!(
            f,
            "{:<19}  {:>9}  {:>8}  {:>9}  {:>8}  {:>11.3}  {:>13}",
            policy.policy,
            policy.scenarios,
            share(policy.slowdown),
            share(policy.on_demand),
            share(policy.coverage),
            policy.empty_banks,
            share(policy.offline_banks)
        )?;
    }
    Ok(())
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.rows.iter().map(|(name, _)| name.len()).chain([self.of.len()]).max().unwrap_or(0);
        let texts: Vec<Vec<String>> =
            self.rows.iter().map(|(_, cells)| cells.iter().map(|&cell| self.cell(cell)).collect()).collect();
        let width = |column: usize| {
            let cells = texts.iter().map(|row| row[column].len());
            cells.chain([self.columns[column].len()]).max().unwrap_or(0)
        };
        writeln!(f, "{} ({})", self.title, self.measure.label())?;
        write!(f, "{:<name$}", self.of)?;
        for (column, title) in self.columns.iter().enumerate() {
            write!(f, "  {title:>width$}", width = width(column))?;
        }
        writeln!(f)?;
        for ((row, _), cells) in self.rows.iter().zip(&texts) {
            write!(f, "{row:<name$}")?;
            for (column, text) in cells.iter().enumerate() {
                write!(f, "  {text:>width$}", width = width(column))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

impl Table {
    fn cell(&self, cell: TableCell) -> String {
        let digits = self.measure.digits();
        let ours = cell.ours.map_or_else(|| "-".to_owned(), |ours| format!("{ours:.digits$}"));
        match cell.published {
            // Rahman gives two digits for slowdowns.
            Some(published) => format!("{ours} ({published:.width$})", width = digits.min(2)),
            None => ours,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::outcome::{Measure, StudyChart, StudyClaim};
    use super::*;

    fn outcome(claims: Vec<StudyClaim>) -> StudyOutcome {
        let policy = |policy, offline_banks: Option<f64>| PolicySummary {
            policy,
            scenarios: 4,
            slowdown: offline_banks.map(|_| 1.25),
            on_demand: None,
            coverage: None,
            empty_banks: 0.5,
            offline_banks,
        };
        StudyOutcome {
            schema: "rampart.experiment/1",
            experiment: "delta",
            source: "[Rahman16, 4.2.3]",
            allocator: "adaptive",
            seed: 7,
            seeds: 1,
            simulated_seconds: 1200.0,
            tables: Vec::new(),
            policies: vec![policy("no tests", None), policy("comet", Some(0.75))],
            claims,
            remarks: vec!["so it is"],
        }
    }

    #[test]
    fn an_outcome_tells_its_source_its_seeds_and_what_holds() {
        let claims = vec![
            StudyClaim::new("it is small (4.2.3)", true, "0.010".to_owned()),
            StudyClaim::new("it is large", false, "0.010".to_owned()),
        ];
        let policies = "\nPage allocator adaptive (means; shares of frames and of banks)\n\
            policy               scenarios  slowdown  on demand  coverage  empty banks  offline banks\n\
            no tests                     4         -          -         -        0.500              -\n\
            comet                        4     1.250          -         -        0.500          0.750\n";
        let head = "delta: [Rahman16, 4.2.3]\nseed 7, 1200 s simulated; in parentheses Rahman's number\n";
        let note = "note          so it is\n";
        let decided = "\nholds         it is small (4.2.3): 0.010\nDOES NOT HOLD it is large: 0.010\n";
        assert_eq!(outcome(claims).to_string(), format!("{head}{policies}{decided}{note}"));
        assert_eq!(outcome(Vec::new()).to_string(), format!("{head}{policies}{note}"));
        let several = StudyOutcome { seeds: 3, ..outcome(Vec::new()) }.to_string();
        assert!(several.contains("\nmeans over 3 seeds from 7 on, 1200 s simulated"), "{several}");
    }

    #[test]
    fn numbers_stand_below_each_other_with_the_thesis_beside() {
        let cell = |ours, published| TableCell { ours, published };
        let table = Table {
            title: "Slowdown".to_owned(),
            measure: Measure::Slowdown,
            drawn: StudyChart::Bars,
            of: "program",
            columns: vec!["COMeT".to_owned(), "On-demand".to_owned()],
            rows: vec![
                ("mcf".to_owned(), vec![cell(Some(1.0412), Some(1.04)), cell(None, None)]),
                ("cactusADM".to_owned(), vec![cell(Some(1.05), None), cell(Some(1.5), Some(1.5))]),
            ],
        };
        let expected = "Slowdown (slowdown)\n\
                        program          COMeT     On-demand\n\
                        mcf        1.041 (1.04)             -\n\
                        cactusADM         1.050  1.500 (1.50)\n";
        let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(squeeze(&table.to_string()), squeeze(expected));
        let widths: Vec<usize> = table.to_string().lines().skip(1).map(str::len).collect();
        assert!(widths.windows(2).all(|pair| pair[0] == pair[1]), "{widths:?}");
    }
}
