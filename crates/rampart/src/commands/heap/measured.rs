//! Figures, as far as they were measured.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde::Serialize;

use super::statistics::{RatioMean, geometric_mean};

/// A figure, as far as it was measured.
#[derive(Clone, Debug, Serialize)]
pub struct MeasuredFigure {
    /// Its number in [Gao13, 6], with a letter if there are two; `None` if it is not there.
    pub number: Option<&'static str>,
    pub title: &'static str,
    /// What [Gao13, 6] found; `None` if it has nothing like it.
    pub paper: Option<&'static str>,
    /// What the horizontal axis has.
    pub over: &'static str,
    /// What the values are.
    pub measure: &'static str,
    pub series: Vec<MeasuredSeries>,
    /// Whether each place of the axis is a program.
    pub by_program: bool,
}

/// A line of a figure.
#[derive(Clone, Debug, Serialize)]
pub struct MeasuredSeries {
    pub name: String,
    pub points: Vec<MeasuredPoint>,
}

/// A point of a line.
#[derive(Clone, Debug, Serialize)]
pub struct MeasuredPoint {
    /// Its place on the horizontal axis.
    pub at: String,
    /// The mean; `None` if there is none.
    pub mean: Option<f64>,
    /// How far from it the true mean lies with a probability of 95 %.
    pub within: Option<f64>,
    /// The number of seeds.
    pub runs: usize,
    /// The programs that did not end.
    pub unfinished: BTreeSet<String>,
}

impl MeasuredFigure {
    /// The places of the horizontal axis at which a series has a point, in the order of the axis.
    pub fn places(&self) -> Vec<&str> {
        let longest = self.series.iter().max_by_key(|series| series.points.len());
        longest.map(|series| series.points.iter().map(|point| point.at.as_str()).collect()).unwrap_or_default()
    }

    /// Its number and title.
    pub fn heading(&self) -> String {
        self.number.map_or_else(|| self.title.to_owned(), |number| format!("Figure {number}: {}", self.title))
    }

    /// A table: a line for each place, a column for each series.
    pub fn text(&self) -> String {
        let mut table = String::new();
        let _ = writeln!(table, "{} ({})", self.heading(), self.measure);
        if let Some(paper) = self.paper {
            let _ = writeln!(table, "Gao13: {paper}");
        }
        let heads: Vec<&str> = self.series.iter().map(|series| series.name.as_str()).collect();
        let width = |head: &str| head.chars().count().max(13);
        let _ = write!(table, "{:<16}", self.over.split(',').next().unwrap_or_default());
        for head in heads {
            let _ = write!(table, " {head:>0$}", width(head));
        }
        table.push('\n');
        for place in self.places() {
            let _ = write!(table, "{place:<16}");
            for series in &self.series {
                let point = series.points.iter().find(|point| point.at == place);
                let cell = point.map_or_else(String::new, MeasuredPoint::text);
                let _ = write!(table, " {cell:>0$}", width(&series.name));
            }
            table.push('\n');
        }
        table
    }
}

impl MeasuredPoint {
    /// The mean with its interval, or why there is none.
    pub fn text(&self) -> String {
        match (self.mean, self.within) {
            (Some(mean), Some(within)) => format!("{mean:.3} ±{within:.3}"),
            (Some(mean), None) => format!("{mean:.3}"),
            (None, _) => "did not finish".to_owned(),
        }
    }
}

/// The mean over these programs of a ratio of two runs, which is an error if either did not end, and `None` if one was
/// not made. `None` if nothing of it was measured.
pub fn mean_of(
    at: String,
    programs: &[&str],
    seeds: &BTreeSet<u64>,
    ratio: impl Fn(&str, u64) -> Option<Result<f64, ()>>,
) -> Option<MeasuredPoint> {
    let (mut unfinished, mut means) = (BTreeSet::new(), Vec::new());
    for seed in seeds {
        let mut ratios = BTreeMap::new();
        for program in programs {
            match ratio(program, *seed) {
                Some(Ok(ratio)) => drop(ratios.insert(*program, ratio)),
                Some(Err(())) => drop(unfinished.insert((*program).to_owned())),
                None => {}
            }
        }
        if ratios.len() == programs.len() {
            means.push(geometric_mean(&ratios.into_values().collect::<Vec<_>>()));
        }
    }
    if means.is_empty() && unfinished.is_empty() {
        return None;
    }
    let mean = (unfinished.is_empty() && !means.is_empty()).then(|| RatioMean::of(&means));
    let within = mean.and_then(|mean| mean.within);
    Some(MeasuredPoint { at, mean: mean.map(|mean| mean.mean), within, runs: means.len(), unfinished })
}
