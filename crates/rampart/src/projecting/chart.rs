//! Bars on a logarithmic axis, as SVG: what an error costs spans six orders of magnitude.

use plotters::prelude::*;

use super::sweep::Group;
use crate::guarding::page::{COLOURS, Failure};

/// The size of a drawing, in pixels; the page scales it.
const SIZE: (u32, u32) = (920, 260);

/// The axis, in percent.
const LEAST: f64 = 0.01;
const MOST: f64 = 10_000.0;

/// The bars of one panel: a cluster for each path, a bar for each workload.
pub fn svg(groups: &[&Group]) -> String {
    let mut text = String::new();
    draw(groups, &mut text).expect("a drawing into memory succeeds");
    text
}

fn draw(groups: &[&Group], text: &mut String) -> Result<(), Failure> {
    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    let mut chart = ChartBuilder::on(&root)
        .margin(8)
        .x_label_area_size(32)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..groups.len() as f64, (LEAST..MOST).log_scale())?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .light_line_style(TRANSPARENT)
        .y_desc("slowdown, %")
        .label_style(("sans-serif", 13))
        .draw()?;
    for (place, group) in groups.iter().enumerate() {
        let colour = COLOURS[place % COLOURS.len()];
        let width = 0.84 / group.bars.len() as f64;
        let left = |bar: usize| place as f64 + 0.08 + width * bar as f64;
        let bars = group.bars.iter().enumerate().map(|(number, bar)| {
            let percent = bar.cost.map_or(MOST, |(cost, _)| 100.0 * cost).clamp(LEAST, MOST);
            Rectangle::new([(left(number), LEAST), (left(number) + 0.9 * width, percent)], colour.filled())
        });
        chart.draw_series(bars)?;
        let name = Text::new(group.setting.path.clone(), (place as f64 + 0.4, MOST * 0.6), ("sans-serif", 13));
        chart.draw_series(std::iter::once(name))?;
    }
    root.present()?;
    Ok(())
}
