//! `rampart heap usable`: how much memory is left when lines have failed, by what is given up for each.
//!
//! Nothing is measured here: lines wear out from a seed, and what still works is counted [Gao13, 1] and 7.2.

use std::collections::BTreeSet;
use std::fs;

use rampart_heap::wear::{
    FailedLines, FailureShare, GivenUp, RegionPages, WearOrder, WriteSpread, cluster_failures, usable_share,
};

use super::arguments::UsableArguments;
use super::measured::{MeasuredFigure, MeasuredPoint, MeasuredSeries};
use super::page;
use crate::error::Error;
use crate::output::text;

/// The pages of the memory: 64 MiB.
const PAGES: usize = 16_384;

/// Shares of failed lines in per cent.
const SHARES: [u32; 10] = [0, 1, 2, 5, 10, 15, 25, 35, 50, 75];

/// A way to use what is left.
type Usable = (&'static str, fn(&[FailedLines]) -> f64);

/// The ways, from what operating systems do to what the heap does.
const WAYS: [Usable; 5] = [
    ("whole pages", |failed| usable_share(failed, GivenUp::Page)),
    ("runs of 256 B", |failed| usable_share(failed, GivenUp::Lines(4))),
    ("lines of 64 B", |failed| usable_share(failed, GivenUp::Lines(1))),
    ("clustered, pages", |failed| usable_share(&clustered(failed), GivenUp::Page)),
    ("clustered, lines", |failed| usable_share(&clustered(failed), GivenUp::Lines(1))),
];

fn clustered(failed: &[FailedLines]) -> Vec<FailedLines> {
    cluster_failures(failed, RegionPages::Two)
}

/// Prints how much is left, or draws it.
pub fn run(arguments: &UsableArguments) -> Result<u8, Error> {
    let figures = [
        figure(WriteSpread::Levelled, "Usable memory, even wear", arguments.seed),
        figure(WriteSpread::Skewed, "Usable memory, few pages get most writes", arguments.seed),
    ];
    if let Some(path) = &arguments.html {
        fs::write(path, page::usable(&figures)).map_err(|cause| Error::Report { path: path.clone(), cause })?;
    }
    if arguments.json {
        text::print_json(&serde_json::json!({ "schema": "rampart.heap-usable/1", "figures": figures }))?;
    } else if arguments.html.is_none() {
        text::print(&figures.iter().map(MeasuredFigure::text).collect::<Vec<_>>().join("\n"))?;
    }
    Ok(0)
}

fn figure(spread: WriteSpread, title: &'static str, seed: u64) -> MeasuredFigure {
    let order = WearOrder::new(PAGES, spread, seed);
    let worn = SHARES.map(|percent| {
        let share = FailureShare::new(f64::from(percent) / 100.0).expect("a share");
        (percent, order.at(share))
    });
    let series = |name: &str, value: &dyn Fn(usize) -> f64| MeasuredSeries {
        name: name.to_owned(),
        points: (0..worn.len()).map(|index| point(worn[index].0, value(index))).collect(),
    };
    let ways = WAYS.iter().map(|(name, usable)| series(name, &|index| usable(&worn[index].1.failed)));
    let writes = series("of all writes", &|index| worn[index].1.writes);
    MeasuredFigure {
        number: None,
        title,
        paper: Some(
            "a page lasts until its first failure unless its other lines are used; wear that is not levelled leaves more \
             pages whole (1, 7.2)",
        ),
        over: "failed lines, %",
        measure: "share of the memory; last, of all writes that it endures",
        series: ways.chain([writes]).collect(),
        by_program: false,
    }
}

fn point(percent: u32, value: f64) -> MeasuredPoint {
    MeasuredPoint { at: percent.to_string(), mean: Some(value), within: None, runs: 1, unfinished: BTreeSet::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_outlast_pages_and_uneven_wear_leaves_pages_whole() {
        let figures = [WriteSpread::Levelled, WriteSpread::Skewed].map(|spread| figure(spread, "", 1));
        let at = |figure: &MeasuredFigure, name: &str, percent: &str| {
            let series = figure.series.iter().find(|series| series.name == name).expect("a way");
            let point = series.points.iter().find(|point| point.at == percent).expect("a share");
            point.mean.expect("a value")
        };
        let levelled = |name, percent| at(&figures[0], name, percent);
        let skewed = |name, percent| at(&figures[1], name, percent);
        assert!((levelled("whole pages", "0") - 1.0).abs() < 1e-9);
        assert!(levelled("whole pages", "10") < 0.01, "0.9^64 of the pages");
        assert!((levelled("lines of 64 B", "10") - 0.9).abs() < 1e-3);
        assert!((levelled("runs of 256 B", "10") - 0.9_f64.powi(4)).abs() < 0.01);
        assert!(levelled("clustered, pages", "10") > 0.49);
        assert!(skewed("whole pages", "10") > 0.8);
        assert!(skewed("of all writes", "10") < levelled("of all writes", "10"));
    }
}
