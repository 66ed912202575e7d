//! Tables of an experiment as SVG: groups of bars, or lines; Rahman's numbers as marks beside ours.
//!
//! Library: `plotters` (axes, ticks and legends that look right, and SVG without any system library).

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use rampart_studies::{Drawn, Outcome, Table};

/// The width of a drawing, and the height of each of its tables, in pixels.
const SIZE: (u32, u32) = (1200, 520);

/// Colours that people who see red and green alike can tell apart (Okabe and Ito, *Color universal design*, 2008).
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

/// With more groups than this their names stand upright: side by side they would run into each other.
const ABREAST: usize = 10;

/// What the library says went wrong. Nothing is read or written here, so only a bug of ours makes it.
type Failure = Box<dyn std::error::Error>;

/// All tables of an outcome, one below the other, as one SVG document.
pub fn svg(outcome: &Outcome) -> String {
    let mut text = String::new();
    draw(outcome, &mut text).expect("a drawing into memory succeeds");
    text
}

fn draw(outcome: &Outcome, text: &mut String) -> Result<(), Failure> {
    let count = u32::try_from(outcome.tables.len()).expect("a handful of tables");
    let root = SVGBackend::with_string(text, (SIZE.0, SIZE.1 * count)).into_drawing_area();
    root.fill(&WHITE)?;
    for (area, table) in root.split_evenly((outcome.tables.len(), 1)).iter().zip(&outcome.tables) {
        match table.drawn {
            Drawn::Bars => bars(area, table)?,
            Drawn::Lines => lines(area, table)?,
        }
    }
    root.present()?;
    Ok(())
}

/// The least and the most that an axis shows: a slowdown begins at 1, all else at 0.
fn span(table: &Table) -> (f64, f64) {
    let values = || table.rows.iter().flat_map(|(_, cells)| cells).flat_map(|cell| [cell.ours, cell.thesis]).flatten();
    let base = if table.measure == rampart_studies::Measure::Slowdown { 1.0 } else { 0.0 };
    let least = values().fold(base, f64::min);
    let most = values().fold(base, f64::max);
    let margin = (most - least).max(0.01) * 0.08;
    (if least < base { least - margin } else { base }, most + margin)
}

/// A number of an axis: to a thousandth at most, and without needless digits.
fn tick(value: f64) -> String {
    ((value * 1000.0).round() / 1000.0).to_string()
}

fn bars(area: &DrawingArea<SVGBackend<'_>, Shift>, table: &Table) -> Result<(), Failure> {
    let (least, most) = span(table);
    let groups = table.rows.len() as f64;
    let upright = table.rows.len() > ABREAST;
    let mut chart = ChartBuilder::on(area)
        .caption(&table.title, ("sans-serif", 22))
        .margin(12)
        .x_label_area_size(if upright { 96 } else { 32 })
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..groups, least..most)?;
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
        let bars = ours.map(|(row, value)| {
            Rectangle::new([(left(row), least), (left(row) + 0.92 * width, value)], colour.filled())
        });
        chart
            .draw_series(bars)?
            .label(title.as_str())
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 12, y + 5)], colour.filled()));
        let thesis = table.rows.iter().enumerate().filter_map(|(row, (_, cells))| Some((row, cells[column].thesis?)));
        chart.draw_series(thesis.map(|(row, value)| Cross::new((left(row) + width / 2.0, value), 4, BLACK)))?;
    }
    let style = ("sans-serif", 14).into_text_style(area);
    let style = if upright {
        style.transform(FontTransform::Rotate270).pos(Pos::new(HPos::Right, VPos::Center))
    } else {
        style.pos(Pos::new(HPos::Center, VPos::Top))
    };
    chart.draw_series(table.rows.iter().enumerate().map(|(row, (name, _))| {
        Text::new(name.clone(), (row as f64 + 0.5, least - (most - least) * 0.02), style.clone())
    }))?;
    legend(chart, table)
}

fn lines(area: &DrawingArea<SVGBackend<'_>, Shift>, table: &Table) -> Result<(), Failure> {
    let (least, most) = span(table);
    let xs: Vec<f64> = table.rows.iter().filter_map(|(name, _)| name.parse().ok()).collect();
    let (first, last) = xs.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &x| (low.min(x), high.max(x)));
    let mut chart = ChartBuilder::on(area)
        .caption(&table.title, ("sans-serif", 22))
        .margin(12)
        .x_label_area_size(48)
        .y_label_area_size(64)
        .build_cartesian_2d(first..last, least..most)?;
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
        let thesis = table.rows.iter().zip(&xs).filter_map(|((_, cells), &x)| Some((x, cells[column].thesis?)));
        chart.draw_series(thesis.map(|at| Cross::new(at, 4, colour.stroke_width(2))))?;
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
    if table.rows.iter().flat_map(|(_, cells)| cells).any(|cell| cell.thesis.is_some()) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_an_axis_are_as_short_as_they_can_be() {
        assert_eq!([200_000.0, 1.0, 1.1 + 1e-12, 0.005].map(tick), ["200000", "1", "1.1", "0.005"]);
    }
}
