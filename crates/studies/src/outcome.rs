//! What an experiment gives: ours beside Rahman's, and whether what Rahman concludes holds here.

use serde::Serialize;

/// What the numbers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Time with testing over time without.
    Slowdown,
    /// The part of all frames that have a good test, 0 to 1.
    Coverage,
    /// Patterns applied to a frame, on average over time.
    Patterns,
    /// Threads in use, on average over time.
    Threads,
    /// Frames a second.
    FramesPerSecond,
}

impl Measure {
    /// As it is written beside an axis.
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

    /// Digits after the point that mean something.
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

/// One number, and Rahman's where his text or tables give one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Cell {
    /// Ours; none where the run is not possible, as when memory runs out.
    pub ours: Option<f64>,
    /// Rahman's.
    pub thesis: Option<f64>,
}

/// A table: rows of workloads or of time, columns of configurations.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// What its numbers are.
    pub measure: Measure,
    /// How it is best drawn.
    pub drawn: Drawn,
    /// What the rows are: `workload`, `seconds`.
    pub of: &'static str,
    /// The columns' names.
    pub columns: Vec<String>,
    /// The rows: a name, and a cell for each column.
    pub rows: Vec<(String, Vec<Cell>)>,
}

/// How a table is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Drawn {
    /// A group of bars for each row.
    Bars,
    /// A line for each column, over rows that are numbers.
    Lines,
}

/// Something that Rahman concludes, and whether our numbers do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// What Rahman concludes, with its section.
    pub says: &'static str,
    /// Whether it holds here.
    pub holds: bool,
    /// The numbers that decide it.
    pub because: String,
}

/// What an experiment gives.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// `rampart.experiment/1`.
    pub schema: &'static str,
    /// The experiment's name.
    pub experiment: &'static str,
    /// Where Rahman has it.
    pub source: &'static str,
    /// The first seed.
    pub seed: u64,
    /// How many seeds there are from it on; each number is a mean over them.
    pub seeds: u64,
    /// Simulated time, all runs together, in seconds.
    pub simulated_seconds: f64,
    /// The numbers.
    pub tables: Vec<Table>,
    /// What follows.
    pub claims: Vec<Claim>,
    /// Where ours differ in shape, and why; what Rahman does not give and was chosen.
    pub remarks: Vec<&'static str>,
}

impl Claim {
    pub(super) const fn new(says: &'static str, holds: bool, because: String) -> Self {
        Self { says, holds, because }
    }
}

impl Table {
    /// A table of workloads, each a group of bars.
    pub(super) fn bars(
        title: &str,
        measure: Measure,
        of: &'static str,
        columns: impl IntoIterator<Item = impl Into<String>>,
        rows: impl IntoIterator<Item = (String, Vec<Cell>)>,
    ) -> Self {
        let columns = columns.into_iter().map(Into::into).collect();
        Self { title: title.to_owned(), measure, drawn: Drawn::Bars, of, columns, rows: rows.into_iter().collect() }
    }

    /// A table whose rows are numbers, each column a line.
    pub(super) fn lines(
        title: &str,
        measure: Measure,
        of: &'static str,
        columns: impl IntoIterator<Item = impl Into<String>>,
        rows: impl IntoIterator<Item = (String, Vec<Cell>)>,
    ) -> Self {
        Self { drawn: Drawn::Lines, ..Self::bars(title, measure, of, columns, rows) }
    }

    /// The column of this name, top down.
    pub fn column(&self, name: &str) -> impl Iterator<Item = Option<f64>> {
        let index = self.columns.iter().position(|column| column == name).expect("a column of this table");
        self.rows.iter().map(move |(_, cells)| cells[index].ours)
    }

    /// Our number in a row and a column, if there is one.
    #[must_use]
    pub fn ours(&self, row: &str, column: &str) -> Option<f64> {
        let at = self.rows.iter().position(|(name, _)| name == row)?;
        self.column(column).nth(at)?
    }

    /// The same, for a claim to compare: where there is no number, none holds.
    pub(super) fn number(&self, row: &str, column: &str) -> f64 {
        self.ours(row, column).unwrap_or(f64::NAN)
    }

    /// Our number in the row of averages.
    pub(super) fn average(&self, column: &str) -> f64 {
        self.number("average", column)
    }
}

/// The least and the greatest.
pub(super) fn range(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let all = (f64::INFINITY, f64::NEG_INFINITY);
    values.into_iter().fold(all, |(least, most), value| (least.min(value), most.max(value)))
}

/// The mean of what there is.
#[must_use]
pub fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.into_iter().fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}
