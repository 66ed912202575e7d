//! The tables of an experiment as SVG: groups of bars, or lines; the values of \[Rahman16\] as marks beside ours.
//!
//! Library: `plotters` (axes, ticks, legends, and SVG without any system library).

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use rampart_studies::{StudyChart, StudyOutcome, Table};

use crate::output::chart::tick;

/// The width of a drawing, and the height of each of its tables, in pixels.
const SIZE: (u32, u32) = (1200, 520);

/// Colours that people with red-green colour blindness can distinguish (Okabe and Ito, *Color universal design*, 2008).
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
    RGBColor(120, 120, 120),
    RGBColor(240, 228, 66),
];

/// The most groups with horizontal names; with more groups the names are vertical, so that they do not overlap.
const MAX_HORIZONTAL_NAMES: usize = 10;

/// An error of the drawing library. A drawing into memory fails only by a bug of ours.
type Failure = Box<dyn std::error::Error>;

/// Draws all tables of an outcome, one below the other, as one SVG document.
pub fn svg(outcome: &StudyOutcome) -> String {
    let mut text = String::new();
    draw(outcome, &mut text).expect("a drawing into memory succeeds");
    text
}

fn draw(outcome: &StudyOutcome, text: &mut String) -> Result<(), Failure> {
    let count = u32::try_from(outcome.tables.len()).expect("a handful of tables");
    let root = SVGBackend::with_string(text, (SIZE.0, SIZE.1 * count)).into_drawing_area();
    root.fill(&WHITE)?;
    for (area, table) in root.split_evenly((outcome.tables.len(), 1)).iter().zip(&outcome.tables) {
        match table.drawn {
            StudyChart::Bars => bars(area, table)?,
            StudyChart::Lines => lines(area, table)?,
        }
    }
    root.present()?;
    Ok(())
}

/// The ends of an axis: a slowdown begins at 1, all else at 0.
fn span(table: &Table) -> (f64, f64) {
    let values =
        || table.rows.iter().flat_map(|(_, cells)| cells).flat_map(|cell| [cell.ours, cell.published]).flatten();
    let base = if table.measure == rampart_studies::Measure::Slowdown { 1.0 } else { 0.0 };
    let low = values().fold(base, f64::min);
    let high = values().fold(base, f64::max);
    let margin = (high - low).max(0.01) * 0.08;
    (if low < base { low - margin } else { base }, high + margin)
}

fn bars(area: &DrawingArea<SVGBackend<'_>, Shift>, table: &Table) -> Result<(), Failure> {
    let (low, high) = span(table);
    let groups = table.rows.len() as f64;
    let upright = table.rows.len() > MAX_HORIZONTAL_NAMES;
    let mut chart = ChartBuilder::on(area)
        .caption(&table.title, ("sans-serif", 22))
        .margin(12)
        .x_label_area_size(if upright { 96 } else { 32 })
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..groups, low..high)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .light_line_style(WHITE)
        .y_desc(table.measure.label())
        .y_label_formatter(&|value| tick(*value))
        .label_style(("sans-serif", 14))
        .draw()?;
    let width = 0.84 / table.columns.len() as f64;
    for (column, title) in table.columns.iter().enumerate() {
        let colour = COLOURS[column % COLOURS.len()];
        let left = |row: usize| row as f64 + 0.08 + width * column as f64;
        let ours = table.rows.iter().enumerate().filter_map(|(row, (_, cells))| Some((row, cells[column].ours?)));
        let bars = ours
            .map(|(row, value)| Rectangle::new([(left(row), low), (left(row) + 0.92 * width, value)], colour.filled()));
        chart
            .draw_series(bars)?
            .label(title.as_str())
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 12, y + 5)], colour.filled()));
        let published =
            table.rows.iter().enumerate().filter_map(|(row, (_, cells))| Some((row, cells[column].published?)));
        chart.draw_series(published.map(|(row, value)| Cross::new((left(row) + width / 2.0, value), 4, BLACK)))?;
    }
    let style = ("sans-serif", 14).into_text_style(area);
    let style = if upright {
        style.transform(FontTransform::Rotate270).pos(Pos::new(HPos::Right, VPos::Center))
    } else {
        style.pos(Pos::new(HPos::Center, VPos::Top))
    };
    chart.draw_series(table.rows.iter().enumerate().map(|(row, (name, _))| {
        Text::new(name.clone(), (row as f64 + 0.5, low - (high - low) * 0.02), style.clone())
    }))?;
    legend(chart, table)
}

fn lines(area: &DrawingArea<SVGBackend<'_>, Shift>, table: &Table) -> Result<(), Failure> {
    let (low, high) = span(table);
    let xs: Vec<f64> = table.rows.iter().filter_map(|(name, _)| name.parse().ok()).collect();
    let (first, last) = xs.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), &x| (min.min(x), max.max(x)));
    let mut chart = ChartBuilder::on(area)
        .caption(&table.title, ("sans-serif", 22))
        .margin(12)
        .x_label_area_size(48)
        .y_label_area_size(64)
        .build_cartesian_2d(first..last, low..high)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .x_desc(table.of)
        .y_desc(table.measure.label())
        .y_label_formatter(&|value| tick(*value))
        .label_style(("sans-serif", 14))
        .draw()?;
    for (column, title) in table.columns.iter().enumerate() {
        let colour = COLOURS[column % COLOURS.len()];
        let ours = table.rows.iter().zip(&xs).filter_map(|((_, cells), &x)| Some((x, cells[column].ours?)));
        chart
            .draw_series(LineSeries::new(ours, colour.stroke_width(2)))?
            .label(title.as_str())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 14, y)], colour.stroke_width(2)));
        let published = table.rows.iter().zip(&xs).filter_map(|((_, cells), &x)| Some((x, cells[column].published?)));
        chart.draw_series(published.map(|at| Cross::new(at, 4, colour.stroke_width(2))))?;
    }
    legend(chart, table)
}

type Chart<'a> = ChartContext<
    'a,
    SVGBackend<'a>,
    Cartesian2d<plotters::coord::types::RangedCoordf64, plotters::coord::types::RangedCoordf64>,
>;

fn legend<'a>(mut chart: Chart<'a>, table: &Table) -> Result<(), Failure>
where
    SVGBackend<'a>: 'a,
{
    if table.rows.iter().flat_map(|(_, cells)| cells).any(|cell| cell.published.is_some()) {
        let none = std::iter::empty::<Cross<(f64, f64), i32>>();
        chart.draw_series(none)?.label("Rahman16").legend(|(x, y)| Cross::new((x + 6, y), 4, BLACK));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .label_font(("sans-serif", 13))
        .draw()?;
    Ok(())
}
