//! The points of [`super::run`] as SVG: time on the left axis, unlocked memory on the right, against prefetched pages.
//!
//! Library: `plotters`, as for the experiments of the diagnostic.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::{AHEAD, ENGINES, INTERVALS, Panel};

/// The size of each panel, in pixels.
const SIZE: (u32, u32) = (620, 380);

/// One colour per interval; people with red-green blindness can distinguish them (Okabe and Ito, *Color universal
/// design*, 2008).
const COLOURS: [RGBColor; INTERVALS.len()] = [RGBColor(0, 114, 178), RGBColor(230, 159, 0), RGBColor(0, 158, 115)];

/// An error of the drawing library. Drawing does no input or output, so only our own bug causes one.
type Failure = Box<dyn std::error::Error>;

/// A row per program, a column per engine.
pub fn svg(panels: &[Panel]) -> String {
    let mut text = String::new();
    draw(panels, &mut text).expect("a drawing into memory succeeds");
    text
}

fn draw(panels: &[Panel], text: &mut String) -> Result<(), Failure> {
    let times = |count: usize, pixels: u32| pixels * u32::try_from(count).expect("a handful");
    let size = (times(ENGINES.len(), SIZE.0), times(panels.len(), SIZE.1));
    let root = SVGBackend::with_string(text, size).into_drawing_area();
    root.fill(&WHITE)?;
    let areas = root.split_evenly((panels.len(), ENGINES.len()));
    for (at, area) in areas.iter().enumerate() {
        one(area, &panels[at / ENGINES.len()], at % ENGINES.len())?;
    }
    root.present()?;
    Ok(())
}

/// Each number of pages is twice the previous one.
fn place(ahead: usize) -> f64 {
    f64::from(AHEAD[ahead]).log2()
}

fn one(area: &DrawingArea<SVGBackend<'_>, Shift>, panel: &Panel, engine: usize) -> Result<(), Failure> {
    let all = || panel.points.iter().flatten().flatten().chain([&panel.usual]);
    let slowest = all().map(|point| point.time).fold(2.0, f64::max);
    let most = all().map(|point| point.unlocked).fold(10.0, f64::max);
    let steps = place(0)..place(AHEAD.len() - 1);
    let mut chart = ChartBuilder::on(area)
        .caption(format!("{}, {}, pages of 4 KiB", panel.program, ENGINES[engine]), ("sans-serif", 18))
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(48)
        .right_y_label_area_size(48)
        .build_cartesian_2d(steps.clone(), 0.8..slowest * 1.05)?
        .set_secondary_coord(steps, 0.0..most * 1.1);
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .x_labels(AHEAD.len())
        .x_label_formatter(&|place| format!("{:.0}", place.exp2()))
        .x_desc("pages opened ahead")
        .y_desc("time beside the program alone (lines)")
        .draw()?;
    chart.configure_secondary_axes().y_desc("% unlocked (dashes)").draw()?;
    for (interval, colour) in COLOURS.into_iter().enumerate() {
        let of = |value: fn(&super::Point) -> f64| {
            let points = panel.points[engine][interval].iter().enumerate();
            points.map(move |(ahead, point)| (place(ahead), value(point)))
        };
        chart
            .draw_series(LineSeries::new(of(|point| point.time), colour.stroke_width(2)))?
            .label(format!("{} ms", INTERVALS[interval]))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 14, y)], colour.stroke_width(2)));
        chart.draw_secondary_series(DashedLineSeries::new(of(|point| point.unlocked), 4, 4, colour.stroke_width(1)))?;
        let paper = (0..AHEAD.len()).filter_map(|ahead| Some((place(ahead), panel.paper(interval, ahead)?.time)));
        chart.draw_series(paper.map(|at| Cross::new(at, 4, colour.stroke_width(2))))?;
    }
    let usual = panel.usual.time;
    chart
        .draw_series(LineSeries::new((0..AHEAD.len()).map(|ahead| (place(ahead), usual)), BLACK.stroke_width(1)))?
        .label(format!("told nothing: {:.1} % unlocked", panel.usual.unlocked))
        .legend(|(x, y)| PathElement::new([(x, y), (x + 14, y)], BLACK.stroke_width(1)));
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .label_font(("sans-serif", 12))
        .draw()?;
    Ok(())
}
