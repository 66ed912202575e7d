//! The figures as one page.

use std::collections::BTreeSet;

use maud::{Markup, html};
use plotters::prelude::*;

use super::copying_results::CopyingResults;
use super::measured::{MeasuredFigure, MeasuredPoint, MeasuredSeries};
use super::results::BenchResults;
use crate::output::html as pages;

type Failure = Box<dyn std::error::Error>;

const SIZE: (u32, u32) = (920, 320);

/// The lowest end of a vertical axis.
const LEAST_TOP: f64 = 1.2;

/// A page with all figures, and the least heaps.
pub fn figures(figures: &[MeasuredFigure], results: &BenchResults, rivals: &CopyingResults) -> String {
    let programs: BTreeSet<&String> = results.least.keys().chain(rivals.least.keys()).collect();
    let mib = |kib: Option<&u32>| kib.map_or_else(String::new, |kib| format!("{:.1}", f64::from(*kib) / 1024.0));
    let least = programs
        .into_iter()
        .map(|program| vec![program.clone(), mib(results.least.get(program)), mib(rivals.least.get(program))]);
    let body = html! {
        h1 { "Java programs on a heap with failed lines" }
        p {
            "Figures 3 to 10 of Gao13, and our heap beside wasmtime's copying collector, measured with `rampart heap
            bench`: " (results.runs.len() + rivals.runs.len()) " runs. Each value is a
            ratio; ± is the 95 % confidence interval. A point at which a program did not finish is not drawn."
        }
        @for figure in figures { (section(figure)) }
        h2 { "The minimum heap of each program, where nothing has failed" }
        (pages::table(&["program", "#ours, MiB", "#copying, both halves, MiB"], least))
    };
    pages::document("heap figures", &body)
}

/// A page with what is left of a memory.
pub fn usable(figures: &[MeasuredFigure]) -> String {
    let body = html! {
        h1 { "Memory that can be used when lines have failed" }
        p {
            "A simulation: each line endures its own number of writes. With clusters, hardware gathers the failed lines of
            two pages at one end, and takes two lines for that."
        }
        @for figure in figures { (section(figure)) }
    };
    pages::document("usable memory", &body)
}

fn section(figure: &MeasuredFigure) -> Markup {
    let names: Vec<&str> = figure.series.iter().map(|series| series.name.as_str()).collect();
    let heads: Vec<String> =
        std::iter::once(figure.over.to_owned()).chain(names.iter().map(|name| format!("#{name}"))).collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let rows = figure.places().into_iter().map(|place| {
        let cell = |series: &MeasuredSeries| {
            let point = series.points.iter().find(|point| point.at == place);
            point.map_or_else(String::new, MeasuredPoint::text)
        };
        std::iter::once(place.to_owned()).chain(figure.series.iter().map(cell)).collect::<Vec<_>>()
    });
    html! {
        h2 { (figure.heading()) }
        @if let Some(paper) = figure.paper { p { "Gao13: " (paper) "." } }
        figure { (pages::drawing(svg(figure))) }
        (pages::table(&heads, rows))
    }
}

fn svg(figure: &MeasuredFigure) -> String {
    let mut text = String::new();
    let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
    draw(figure, &root).and_then(|()| Ok(root.present()?)).expect("a drawing into memory succeeds");
    drop(root);
    text
}

fn draw(figure: &MeasuredFigure, root: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>) -> Result<(), Failure> {
    let places = figure.places();
    let means = figure.series.iter().flat_map(|series| &series.points).filter_map(|point| point.mean);
    let (low, high) = means.fold((1.0_f64, LEAST_TOP), |(low, high), mean| (low.min(mean), high.max(mean)));
    let end = places.len() as f64;
    let mut chart = ChartBuilder::on(root)
        .margin(8)
        .x_label_area_size(44)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..end, (low * 0.98).min(0.98)..high * 1.02)?;
    let label = |place: &f64| {
        let index = (place - 0.5).round();
        let is_middle = (place - 0.5 - index).abs() < 0.01 && index >= 0.0;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place of the axis")]
        let name = places.get(index as usize).copied();
        name.filter(|_| is_middle).unwrap_or_default().to_owned()
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(2 * places.len() + 1)
        .x_label_formatter(&label)
        .x_desc(figure.over)
        .y_desc(figure.measure)
        .draw()?;
    for (number, series) in figure.series.iter().enumerate() {
        let colour = Palette99::pick(number).to_rgba();
        let at = |name: &str| places.iter().position(|place| *place == name).map(|place| place as f64);
        let points = series.points.iter().filter_map(|point| Some((at(&point.at)?, point.mean?)));
        if figure.by_program {
            let width = 0.8 / figure.series.len() as f64;
            let left = 0.1 + width * number as f64;
            let bar = move |(place, mean): (f64, f64)| {
                Rectangle::new([(place + left, 1.0), (place + left + 0.9 * width, mean)], colour.filled())
            };
            chart
                .draw_series(points.map(bar))?
                .label(&series.name)
                .legend(move |(x, y)| Rectangle::new([(x, y - 4), (x + 12, y + 4)], colour.filled()));
        } else {
            let middle = points.map(|(place, mean)| (place + 0.5, mean));
            chart
                .draw_series(LineSeries::new(middle, colour.stroke_width(2)).point_size(3))?
                .label(&series.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 12, y)], colour.stroke_width(2)));
        }
    }
    chart.configure_series_labels().position(SeriesLabelPosition::UpperRight).border_style(BLACK.mix(0.3)).draw()?;
    Ok(())
}
