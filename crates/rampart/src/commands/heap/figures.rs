//! `rampart heap figures`: figures 3 to 10 of [Gao13, 6] from the results of the bench.
//!
//! A point of a figure is the geometric mean over all programs of a ratio of times, for each seed; its interval is
//! that of the seeds. If a program did not end, the point is not drawn, and the program's name is said [Gao13, 5].

use std::collections::BTreeSet;
use std::fs;

use clap::ValueEnum as _;

use super::arguments::FiguresArguments;
use super::copying_figures::copying_figures;
use super::copying_results::CopyingResults;
use super::measured::{MeasuredFigure, MeasuredPoint, MeasuredSeries, mean_of};
use super::page;
use super::results::{BenchResults, RunEnd, RunFigures, RunKey};
use super::setups::{
    CLUSTERED_SHARES, FailurePlaces, Generations, HEAPS, HeapFigure, HeapSetup, LINES, LineLoss, MANY_SHARES, REGIONS,
    SHARES, UNIFORM_SHARES,
};
use crate::error::Error;
use crate::output::text;

/// What is compared of two runs.
type Measured = fn(&RunFigures) -> f64;

/// Prints the figures, or draws them.
pub fn run(arguments: &FiguresArguments) -> Result<u8, Error> {
    let results = BenchResults::read(&arguments.results)?;
    let rivals = CopyingResults::read(&arguments.results)?;
    if results.runs.is_empty() && rivals.runs.is_empty() {
        return Err(Error::NoHeapResults(arguments.results.clone()));
    }
    let figures = [figures_of(&results), copying_figures(&rivals)].concat();
    if let Some(path) = &arguments.html {
        let page = page::figures(&figures, &results, &rivals);
        fs::write(path, page).map_err(|cause| Error::Report { path: path.clone(), cause })?;
    }
    if arguments.json {
        text::print_json(&serde_json::json!({
            "schema": "rampart.heap-figures/1", "least_heaps_kib": results.least,
            "least_copying_heaps_kib": rivals.least, "figures": figures,
        }))?;
    } else if arguments.html.is_none() {
        text::print(&figures.iter().map(MeasuredFigure::text).collect::<Vec<_>>().join("\n"))?;
    }
    Ok(0)
}

/// All figures of which something was measured.
pub fn figures_of(results: &BenchResults) -> Vec<MeasuredFigure> {
    let study = Study::of(results);
    let all = HeapFigure::value_variants().iter().flat_map(|figure| study.figure(*figure));
    all.filter(|figure| figure.series.iter().any(|series| !series.points.is_empty())).collect()
}

/// The results, as the figures ask for them.
struct Study<'a> {
    results: &'a BenchResults,
    programs: Vec<&'a str>,
    seeds: BTreeSet<u64>,
}

fn seconds(run: &RunFigures) -> f64 {
    run.seconds
}

#[expect(clippy::cast_precision_loss, reason = "pages")]
fn perfect_pages(run: &RunFigures) -> f64 {
    run.requested.max(1) as f64
}

impl<'a> Study<'a> {
    fn of(results: &'a BenchResults) -> Self {
        let programs = results.least.keys().map(String::as_str).collect();
        Self { results, programs, seeds: results.runs.keys().map(|key| key.seed).collect() }
    }

    /// The ratio of a program's run to another; an error if either did not end, and `None` if one was not made.
    fn ratio(
        &self,
        program: &str,
        setup: HeapSetup,
        base: HeapSetup,
        seed: u64,
        measured: Measured,
    ) -> Option<Result<f64, ()>> {
        let run = |setup| self.results.runs.get(&RunKey { program: program.to_owned(), setup, seed });
        match (run(setup)?, run(base)?) {
            (RunEnd::Finished(run), RunEnd::Finished(base)) => Some(Ok(measured(run) / measured(base))),
            _ => Some(Err(())),
        }
    }

    /// The mean over these programs; `None` if nothing of it was measured.
    fn point(
        &self,
        at: String,
        programs: &[&str],
        setup: HeapSetup,
        base: HeapSetup,
        measured: Measured,
    ) -> Option<MeasuredPoint> {
        let ratio = |program: &str, seed| self.ratio(program, setup, base, seed, measured);
        mean_of(at, programs, &self.seeds, ratio)
    }

    fn series(
        &self,
        name: impl Into<String>,
        setups: impl IntoIterator<Item = (String, HeapSetup)>,
        base: impl Fn(HeapSetup) -> HeapSetup,
        measured: Measured,
    ) -> MeasuredSeries {
        let points = setups
            .into_iter()
            .filter_map(|(at, setup)| self.point(at, &self.programs, setup, base(setup), measured))
            .collect();
        MeasuredSeries { name: name.into(), points }
    }

    /// By size of the heap, beside Sticky Immix without failures in the largest.
    fn by_heap(&self, name: &str, setup: HeapSetup) -> MeasuredSeries {
        let largest = HeapSetup { heap: HEAPS[HEAPS.len() - 1], ..HeapSetup::BASE };
        let setups = HEAPS.map(|heap| (multiple(heap), HeapSetup { heap, ..setup }));
        self.series(name, setups, |_| largest, seconds)
    }

    /// By program, beside the same program without failures.
    fn by_program(&self, name: impl Into<String>, setup: HeapSetup) -> MeasuredSeries {
        let one = |program: &&str| self.point((*program).to_owned(), &[program], setup, setup.base(), seconds);
        let mut points: Vec<MeasuredPoint> = self.programs.iter().filter_map(one).collect();
        points.extend(self.point("geometric mean".to_owned(), &self.programs, setup, setup.base(), seconds));
        MeasuredSeries { name: name.into(), points }
    }

    fn figure(&self, figure: HeapFigure) -> Vec<MeasuredFigure> {
        match figure {
            HeapFigure::Collectors => vec![self.collectors()],
            HeapFigure::Programs => vec![self.per_program()],
            HeapFigure::Compensation => vec![self.compensation()],
            HeapFigure::LinesByHeap => vec![self.lines_by_heap()],
            HeapFigure::LinesByFailures => vec![self.lines_by_failures()],
            HeapFigure::Regions => vec![self.regions()],
            HeapFigure::Clustering => vec![self.clustering_time(), self.clustering_demand()],
            HeapFigure::ClusteredPrograms => vec![self.clustered_programs()],
            // `copying_figures` has it.
            HeapFigure::Copying => Vec::new(),
        }
    }

    fn collectors(&self) -> MeasuredFigure {
        let immix = HeapSetup { generations: Generations::One, ..HeapSetup::BASE };
        MeasuredFigure {
            number: Some("3"),
            title: "Immix and Sticky Immix, by size of the heap",
            paper: Some("Sticky Immix is the fastest, most of all in small heaps (Gao13 also has mark-sweep)"),
            over: "heap, in multiples of the minimum",
            measure: "time relative to Sticky Immix in the largest heap",
            series: vec![self.by_heap("Sticky Immix", HeapSetup::BASE), self.by_heap("Immix", immix)],
            by_program: false,
        }
    }

    fn per_program(&self) -> MeasuredFigure {
        let of = |name: String, share, places| self.by_program(name, HeapSetup::with_failures(share, places));
        let clustered = SHARES.map(|share| of(format!("{share} %"), share, FailurePlaces::Pages(2)));
        let uniform = UNIFORM_SHARES.map(|share| of(format!("{share} % uniform"), share, FailurePlaces::Uniform));
        MeasuredFigure {
            number: Some("4"),
            title: "Each program, with failed lines clustered in two pages (and uniform, which figure 4 does not have)",
            paper: Some(
                "clustered, the mean is 1.039 at 10 % and 1.124 at 50 %, the worst 1.074 and 1.40; uniform, the mean is 1.17 and 1.33",
            ),
            over: "program",
            measure: "time relative to no failures",
            series: clustered.into_iter().chain(uniform).collect(),
            by_program: true,
        }
    }

    fn compensation(&self) -> MeasuredFigure {
        let uniform = HeapSetup::with_failures(10, FailurePlaces::Uniform);
        MeasuredFigure {
            number: Some("5"),
            title: "Compensation for failed lines, by size of the heap, at 10 %",
            paper: Some("uniform failures cost over 25 % in small to moderate heaps, and over 10 % in large ones"),
            over: "heap, in multiples of the minimum",
            measure: "time relative to no failures in the largest heap",
            series: vec![
                self.by_heap("no failures", HeapSetup::BASE),
                self.by_heap("uniform, not compensated", HeapSetup { compensated: false, ..uniform }),
                self.by_heap("uniform", uniform),
                self.by_heap("two-page clusters", HeapSetup::with_failures(10, FailurePlaces::Pages(2))),
            ],
            by_program: false,
        }
    }

    fn lines_by_heap(&self) -> MeasuredFigure {
        let of = |failed: u32| {
            let setup = HeapSetup { loss: LineLoss::Heap, ..HeapSetup::with_failures(failed, FailurePlaces::Uniform) };
            LINES.map(|line| self.by_heap(&format!("{line} B, {failed} %"), HeapSetup { line, ..setup }))
        };
        MeasuredFigure {
            number: Some("6"),
            title: "Sizes of lines, by size of the heap, with whole lines lost",
            paper: Some("larger lines are better without failures, and worse with 10 % of uniform ones"),
            over: "heap, in multiples of the minimum",
            measure: "time relative to 256 B without failures in the largest heap",
            series: [of(0), of(10)].concat(),
            by_program: false,
        }
    }

    fn lines_by_failures(&self) -> MeasuredFigure {
        let of = |line: u32| {
            let setup = |failed| {
                let uniform = HeapSetup::with_failures(failed, FailurePlaces::Uniform);
                (format!("{failed} %"), HeapSetup { line, loss: LineLoss::Heap, ..uniform })
            };
            self.series(format!("{line} B"), MANY_SHARES.map(setup), HeapSetup::base, seconds)
        };
        MeasuredFigure {
            number: Some("7"),
            title: "Sizes of lines, by share of uniform failures, with whole lines lost",
            paper: Some("with lines of 256 B, programs do not finish at 25 %; those of 64 and 128 B cross near 15 %"),
            over: "failed lines",
            measure: "time relative to no failures",
            series: LINES.map(of).to_vec(),
            by_program: false,
        }
    }

    fn regions(&self) -> MeasuredFigure {
        let of = |failed: u32| {
            let setup = |bytes: u32| {
                let region = HeapSetup::with_failures(failed, FailurePlaces::Bytes(bytes));
                (format!("{bytes} B"), HeapSetup { loss: LineLoss::Heap, ..region })
            };
            self.series(format!("{failed} %"), REGIONS.map(setup), HeapSetup::base, seconds)
        };
        MeasuredFigure {
            number: Some("8"),
            title: "Regions that fail as a whole",
            paper: Some(
                "regions of 256 B at 50 % cost 20 %; at 25 and 50 %, with regions of 64 B, programs do not finish",
            ),
            over: "region",
            measure: "time relative to no failures",
            series: SHARES.map(of).to_vec(),
            by_program: false,
        }
    }

    fn clustering(&self, measured: Measured, base: impl Fn(HeapSetup) -> HeapSetup) -> Vec<MeasuredSeries> {
        let places = [
            ("no clusters", FailurePlaces::Uniform),
            ("one page", FailurePlaces::Pages(1)),
            ("two pages", FailurePlaces::Pages(2)),
        ];
        let of = |(name, place): (&str, FailurePlaces), line: u32| {
            let setup = |failed| {
                let setup = HeapSetup { line, loss: LineLoss::Heap, ..HeapSetup::with_failures(failed, place) };
                (format!("{failed} %"), setup)
            };
            self.series(format!("{name}, {line} B"), CLUSTERED_SHARES.map(setup), &base, measured)
        };
        places.into_iter().flat_map(|place| LINES.map(|line| of(place, line))).collect()
    }

    fn clustering_time(&self) -> MeasuredFigure {
        MeasuredFigure {
            number: Some("9a"),
            title: "Clustering in one and two pages",
            paper: Some("clustering is better at each share, and lines of 256 B are best with it"),
            over: "failed lines",
            measure: "time relative to no failures",
            series: self.clustering(seconds, HeapSetup::base),
            by_program: false,
        }
    }

    fn clustering_demand(&self) -> MeasuredFigure {
        MeasuredFigure {
            number: Some("9b"),
            title: "Demand for perfect pages",
            paper: Some(
                "two-page clusters need a third of the perfect pages that are needed without clusters, up to 50 %",
            ),
            over: "failed lines",
            measure: "requested pages relative to no failures",
            series: self.clustering(perfect_pages, HeapSetup::base),
            by_program: false,
        }
    }

    fn clustered_programs(&self) -> MeasuredFigure {
        let of = |pages: u32| {
            SHARES.map(|share| {
                let name = format!("{} at {share} %", if pages == 1 { "one page" } else { "two pages" });
                self.by_program(name, HeapSetup::with_failures(share, FailurePlaces::Pages(pages)))
            })
        };
        MeasuredFigure {
            number: Some("10"),
            title: "Clustering in one and two pages, for each program",
            paper: Some("two pages are better for each program, unless half of the lines have failed"),
            over: "program",
            measure: "time relative to no failures",
            series: [of(1), of(2)].concat(),
            by_program: true,
        }
    }
}

/// A size of the heap, as a multiple of the least.
fn multiple(percent: u32) -> String {
    format!("{}", f64::from(percent) / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(seconds: f64) -> RunEnd {
        RunEnd::Finished(RunFigures {
            seconds,
            collecting_seconds: 0.0,
            nursery: 1,
            full: 0,
            longest_ms: 1.0,
            requested: 2,
            borrowed: 0,
            most_borrowed: 0,
            peak_bytes: 0,
        })
    }

    fn results() -> BenchResults {
        let mut results = BenchResults::default();
        let failing = |share| HeapSetup::with_failures(share, FailurePlaces::Pages(2));
        for (program, factor) in [("A", 1.0), ("B", 4.0)] {
            results.least.insert(program.to_owned(), 1000);
            for seed in 1..=3 {
                let mut add = |setup, end| {
                    results.runs.insert(RunKey { program: program.to_owned(), setup, seed }, end);
                };
                add(HeapSetup::BASE, run(10.0));
                add(failing(10), run(10.0 * factor));
                add(failing(50), if program == "B" && seed == 2 { RunEnd::Unfinished } else { run(11.0) });
            }
        }
        results
    }

    #[test]
    fn a_point_is_the_geometric_mean_of_all_programs_or_says_who_did_not_end() {
        let figures = figures_of(&results());
        let four = figures.iter().find(|figure| figure.number == Some("4")).unwrap();
        let point = |series: usize, at: &str| four.series[series].points.iter().find(|point| point.at == at).unwrap();
        let mean = point(0, "geometric mean");
        assert!((mean.mean.unwrap() - 2.0).abs() < 1e-9 && mean.within.unwrap() < 1e-9 && mean.runs == 3);
        assert_eq!((four.series[0].name.as_str(), four.series[1].points.len()), ("10 %", 0), "25 % was not measured");
        let dropped = point(2, "geometric mean");
        assert_eq!((dropped.mean, dropped.unfinished.iter().next().map(String::as_str)), (None, Some("B")));
        assert!((point(2, "A").mean.unwrap() - 1.1).abs() < 1e-9, "the other program has its own point");
        let row = four.text().lines().find(|line| line.starts_with("geometric mean")).unwrap().to_owned();
        assert!(row.contains("2.000 ±0.000"), "{row}");
        assert!(four.text().contains("did not finish"), "{}", four.text());
    }

    #[test]
    fn what_was_not_measured_is_not_drawn() {
        let numbers: Vec<&str> =
            figures_of(&results()).iter().map(|figure| figure.number.unwrap_or_default()).collect();
        assert_eq!(numbers, ["4", "10"], "the runs of figure 4 are part of figure 10");
        assert!(figures_of(&BenchResults::default()).is_empty());
    }
}
