//! The outcome of an experiment: our numbers beside Rahman's, and whether his conclusions hold here.

use serde::Serialize;

/// The quantity that numbers measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Time with testing over time without.
    Slowdown,
    /// The share of all frames that have a good test, 0 to 1.
    Coverage,
    /// Patterns applied to a frame, averaged over time.
    Patterns,
    /// Threads in use, averaged over time.
    Threads,
    /// Frames per second.
    FramesPerSecond,
}

impl Measure {
    /// Returns the label of an axis.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Slowdown => "slowdown",
            Self::Coverage => "page coverage",
            Self::Patterns => "patterns",
            Self::Threads => "threads",
            Self::FramesPerSecond => "frames/s",
        }
    }

    /// Returns the number of significant digits after the point.
    #[must_use]
    pub const fn digits(self) -> usize {
        match self {
            Self::Slowdown => 3,
            Self::Coverage => 3,
            Self::Patterns | Self::Threads => 1,
            Self::FramesPerSecond => 0,
        }
    }
}

/// One number, and the published one if \[Rahman16\] states it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TableCell {
    /// Our number; `None` if the run is not possible, as when memory runs out.
    pub ours: Option<f64>,
    /// The published number.
    pub published: Option<f64>,
}

/// A table: rows of workloads or of time, columns of configurations.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// The title.
    pub title: String,
    /// The quantity of its numbers.
    pub measure: Measure,
    /// The preferred kind of drawing.
    pub drawn: StudyChart,
    /// The quantity of the rows: `workload`, `seconds`.
    pub of: &'static str,
    /// The columns' names.
    pub columns: Vec<String>,
    /// The rows: a name, and a cell for each column.
    pub rows: Vec<(String, Vec<TableCell>)>,
}

/// The kind of drawing of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StudyChart {
    /// A group of bars for each row.
    Bars,
    /// A line for each column, over rows that are numbers.
    Lines,
}

/// A conclusion of Rahman's, and whether our numbers support it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StudyClaim {
    /// Rahman's conclusion, with its section.
    pub says: &'static str,
    /// Whether it holds here.
    pub holds: bool,
    /// The numbers that decide it.
    pub because: String,
}

/// What all runs with one policy have in common, as means over their scenarios.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PolicySummary {
    /// The policy, or `no tests`.
    pub policy: &'static str,
    /// The number of scenarios.
    pub scenarios: usize,
    /// Time with testing over time without, where that is possible.
    pub slowdown: Option<f64>,
    /// The share of the frames that programs got or kept for which they had to wait for a test.
    pub on_demand: Option<f64>,
    /// The share of all frames that have a good test.
    pub coverage: Option<f64>,
    /// Of the banks that can go offline, the share in which no program has a page.
    pub empty_banks: f64,
    /// The share of them that is offline; `None` if the allocator knows no banks.
    pub offline_banks: Option<f64>,
}

/// The outcome of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StudyOutcome {
    /// `rampart.experiment/1`.
    pub schema: &'static str,
    /// The experiment's name.
    pub experiment: &'static str,
    /// Its place in Rahman's work.
    pub source: &'static str,
    /// The page allocator of the machines.
    pub allocator: &'static str,
    /// The first seed.
    pub seed: u64,
    /// The number of consecutive seeds from `seed` on; each number is a mean over them.
    pub seeds: u64,
    /// Simulated time summed over all runs, in seconds.
    pub simulated_seconds: f64,
    /// The numbers.
    pub tables: Vec<Table>,
    /// The figures that page allocators are compared by.
    pub policies: Vec<PolicySummary>,
    /// The conclusions that the numbers decide.
    pub claims: Vec<StudyClaim>,
    /// Differences in shape from Rahman's results, with the reason, and our choices where Rahman gives no value.
    pub remarks: Vec<&'static str>,
}

impl StudyClaim {
    pub(super) const fn new(says: &'static str, holds: bool, because: String) -> Self {
        Self { says, holds, because }
    }
}

impl Table {
    /// Returns a table of workloads, each a group of bars.
    pub(super) fn bars(
        title: &str,
        measure: Measure,
        of: &'static str,
        columns: impl IntoIterator<Item = impl Into<String>>,
        rows: impl IntoIterator<Item = (String, Vec<TableCell>)>,
    ) -> Self {
        let columns = columns.into_iter().map(Into::into).collect();
        Self {
            title: title.to_owned(),
            measure,
            drawn: StudyChart::Bars,
            of,
            columns,
            rows: rows.into_iter().collect(),
        }
    }

    /// Returns a table whose rows are numbers, each column a line.
    pub(super) fn lines(
        title: &str,
        measure: Measure,
        of: &'static str,
        columns: impl IntoIterator<Item = impl Into<String>>,
        rows: impl IntoIterator<Item = (String, Vec<TableCell>)>,
    ) -> Self {
        Self { drawn: StudyChart::Lines, ..Self::bars(title, measure, of, columns, rows) }
    }

    /// Returns our numbers in the column of this name, from the top down.
    pub fn column(&self, name: &str) -> impl Iterator<Item = Option<f64>> {
        let index = self.columns.iter().position(|column| column == name).expect("a column of this table");
        self.rows.iter().map(move |(_, cells)| cells[index].ours)
    }

    /// Returns our number in a row and a column, if there is one.
    #[must_use]
    pub fn ours(&self, row: &str, column: &str) -> Option<f64> {
        let at = self.rows.iter().position(|(name, _)| name == row)?;
        self.column(column).nth(at)?
    }

    /// Returns our number for a comparison in a claim; NaN if there is none, so that no comparison holds.
    pub(super) fn number(&self, row: &str, column: &str) -> f64 {
        self.ours(row, column).unwrap_or(f64::NAN)
    }

    /// Returns our number in the row of averages.
    pub(super) fn average(&self, column: &str) -> f64 {
        self.number("average", column)
    }
}

/// Returns the least and the greatest value.
pub(super) fn range(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let all = (f64::INFINITY, f64::NEG_INFINITY);
    values.into_iter().fold(all, |(least, greatest), value| (least.min(value), greatest.max(value)))
}

/// Returns the mean of the values; `None` if there are none.
#[must_use]
pub fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.into_iter().fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [&str; 2] = ["COMeT", "on demand"];

    fn rows() -> [(String, Vec<TableCell>); 2] {
        let row = |name: &str, ours: [Option<f64>; 2]| {
            (name.to_owned(), ours.map(|ours| TableCell { ours, published: Some(9.0) }).to_vec())
        };
        [row("mcf", [Some(1.5), Some(2.0)]), row("average", [Some(3.0), None])]
    }

    #[test]
    fn a_number_is_found_by_its_row_and_column() {
        let table = Table::bars("Slowdown", Measure::Slowdown, "program", COLUMNS, rows());
        assert_eq!(table.column("on demand").collect::<Vec<_>>(), [Some(2.0), None]);
        assert_eq!(table.ours("mcf", "COMeT"), Some(1.5));
        assert_eq!((table.ours("average", "on demand"), table.ours("lbm", "COMeT")), (None, None));
        assert_eq!((table.number("mcf", "on demand"), table.average("COMeT")), (2.0, 3.0));
        assert!(table.average("on demand").is_nan(), "so that no comparison holds");
    }

    #[test]
    fn rows_that_are_numbers_are_drawn_as_lines() {
        let bars = Table::bars("Slowdown", Measure::Slowdown, "program", COLUMNS, rows());
        let lines = Table::lines("Slowdown", Measure::Slowdown, "program", COLUMNS, rows());
        assert_eq!((bars.drawn, lines.drawn), (StudyChart::Bars, StudyChart::Lines));
    }

    #[test]
    fn range_and_mean_are_those_of_all_values() {
        assert_eq!(range([2.0, -1.5, 4.0]), (-1.5, 4.0));
        assert_eq!((mean([1.0, 2.0, 6.0]), mean([0.25]), mean([])), (Some(3.0), Some(0.25), None));
    }

    #[test]
    fn each_measure_has_its_unit_and_its_digits() {
        use Measure::{Coverage, FramesPerSecond, Patterns, Slowdown, Threads};
        let all = [Slowdown, Coverage, Patterns, Threads, FramesPerSecond].map(|one| (one.label(), one.digits()));
        let expected = [("slowdown", 3), ("page coverage", 3), ("patterns", 1), ("threads", 1), ("frames/s", 0)];
        assert_eq!(all, expected);
    }
}
