//! Curves over the number of nodes, on a logarithmic axis, as SVG.

use plotters::prelude::*;

use super::curve::ReplicaCurve;
use crate::output::chart::{COLOURS, Failure};
use crate::output::text::whole;

/// The size of a drawing, in pixels; the page scales it.
const SIZE: (u32, u32) = (920, 340);

/// Draws a line for each number of replicas, and a vertical one at each of `lines`, with its name. Times beyond twice
/// the running time with most replicas are cut off.
pub fn svg(curve: &ReplicaCurve, lines: &[(String, u32)]) -> String {
    let mut text = String::new();
    draw(curve, lines, &mut text).expect("a drawing into memory succeeds");
    text
}

fn draw(curve: &ReplicaCurve, lines: &[(String, u32)], text: &mut String) -> Result<(), Failure> {
    let (Some(first), Some(last)) = (curve.points.first(), curve.points.last()) else { return Ok(()) };
    let slowest = curve.degrees.last().map_or(0.0, |degree| curve.job.running(*degree).get());
    let end = 2.0 * slowest;
    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    let mut chart = ChartBuilder::on(&root)
        .margin(8)
        .margin_right(40)
        .x_label_area_size(40)
        .y_label_area_size(64)
        .build_cartesian_2d((f64::from(first.nodes)..f64::from(last.nodes)).log_scale(), 0.0..end)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc("nodes without replicas")
        .y_desc("hours to completion")
        .x_label_formatter(&|nodes| whole(*nodes))
        .y_label_formatter(&|hours| format!("{hours:.0}"))
        .label_style(("sans-serif", 13))
        .axis_desc_style(("sans-serif", 14))
        .draw()?;
    for (name, nodes) in lines {
        let at = f64::from(*nodes);
        chart.draw_series([PathElement::new([(at, 0.0), (at, 0.93 * end)], BLACK)])?;
        chart.draw_series([Text::new(name.clone(), (at, 0.99 * end), ("sans-serif", 13).into_font())])?;
    }
    for (number, colour) in COLOURS.iter().enumerate().take(curve.degrees.len()) {
        let points = curve.points.iter().map_while(|point| {
            let hours = point.hours[number].filter(|hours| *hours <= end)?;
            Some((f64::from(point.nodes), hours))
        });
        chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?;
    }
    root.present()?;
    Ok(())
}
