//! Our heap beside wasmtime's copying collector, as far as it was measured.

use std::collections::BTreeSet;

use super::copying_results::{CopyingResults, RivalKey, RivalRun};
use super::measured::{MeasuredFigure, MeasuredPoint, MeasuredSeries, mean_of};
use super::setups::HeapRival;

/// What is compared of two runs.
type Compared = fn(&RivalRun) -> Option<f64>;

/// The times of a run, and the most memory of its process, for each program; nothing if nothing was measured.
pub fn copying_figures(results: &CopyingResults) -> Vec<MeasuredFigure> {
    let figure = |title, measure, compared| MeasuredFigure {
        number: None,
        title,
        paper: None,
        over: "program",
        measure,
        series: [HeapRival::OursSmaller, HeapRival::OursEqual].map(|rival| series(results, rival, compared)).to_vec(),
        by_program: true,
    };
    let all = [
        figure(
            "Beside wasmtime's copying collector with twice its minimum: time",
            "time relative to the copying collector; the aim is at most 1.05 with 60 % of the bytes",
            (|run| run.seconds) as Compared,
        ),
        figure(
            "Beside wasmtime's copying collector with twice its minimum: processor time",
            "processor time of the program's thread relative to the copying collector",
            |run| run.processor_seconds,
        ),
        figure(
            "Beside wasmtime's copying collector with twice its minimum: memory of the process",
            "peak resident memory relative to the copying collector",
            peak,
        ),
    ];
    all.into_iter().filter(|figure| figure.series.iter().any(|series| !series.points.is_empty())).collect()
}

#[expect(clippy::cast_precision_loss, reason = "bytes of a process")]
fn peak(run: &RivalRun) -> Option<f64> {
    (run.peak_bytes > 0).then_some(run.peak_bytes as f64)
}

fn series(results: &CopyingResults, rival: HeapRival, compared: Compared) -> MeasuredSeries {
    let programs: Vec<&str> = results.least.keys().map(String::as_str).collect();
    let seeds: BTreeSet<u64> = results.runs.keys().map(|key| key.seed).collect();
    let ratio = |program: &str, seed| {
        let run = |rival| results.runs.get(&RivalKey { program: program.to_owned(), rival, seed });
        let (ours, theirs) = (run(rival)?, run(HeapRival::Copying)?);
        if ours.seconds.is_none() || theirs.seconds.is_none() {
            return Some(Err(()));
        }
        Some(Ok(compared(ours)? / compared(theirs)?))
    };
    let one = |program: &&str| mean_of((*program).to_owned(), &[program], &seeds, ratio);
    let mut points: Vec<MeasuredPoint> = programs.iter().filter_map(one).collect();
    points.extend(mean_of("geometric mean".to_owned(), &programs, &seeds, ratio));
    MeasuredSeries { name: rival.to_string(), points }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> CopyingResults {
        let mut results = CopyingResults::default();
        for (program, factor) in [("A", 1.0), ("B", 4.0)] {
            results.least.insert(program.to_owned(), 1000);
            for seed in 1..=2 {
                let mut add = |rival, seconds: Option<f64>, peak_bytes| {
                    let processor_seconds = seconds.map(|seconds| seconds / 2.0);
                    let run = RivalRun { seconds, processor_seconds, peak_bytes, ..RivalRun::default() };
                    results.runs.insert(RivalKey { program: program.to_owned(), rival, seed }, run);
                };
                add(HeapRival::Copying, Some(10.0), 1000);
                add(HeapRival::OursSmaller, Some(10.0 * factor), 600);
                add(HeapRival::OursEqual, (program == "A").then_some(9.0), 1100);
            }
        }
        results
    }

    #[test]
    fn ours_is_compared_with_the_copying_collector_in_the_same_turn() {
        let figures = copying_figures(&results());
        let point = |figure: usize, series: usize, at: &str| {
            let points = &figures[figure].series[series].points;
            points.iter().find(|point| point.at == at).unwrap().clone()
        };
        let mean = point(0, 0, "geometric mean");
        assert!((mean.mean.unwrap() - 2.0).abs() < 1e-9 && mean.within.unwrap() < 1e-9 && mean.runs == 2);
        assert!((point(0, 1, "A").mean.unwrap() - 0.9).abs() < 1e-9);
        let dropped = point(0, 1, "geometric mean");
        assert_eq!((dropped.mean, dropped.unfinished.first().map(String::as_str)), (None, Some("B")));
        assert!((point(1, 0, "B").mean.unwrap() - 4.0).abs() < 1e-9);
        assert!((point(2, 0, "geometric mean").mean.unwrap() - 0.6).abs() < 1e-9);
        assert!(!figures[0].text().contains("Gao13"), "{}", figures[0].text());
        assert!(copying_figures(&CopyingResults::default()).is_empty());
    }
}
