//! Bars on a logarithmic axis, as SVG: what an error costs spans six orders of magnitude.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::bars::Group;
use crate::output::chart::{COLOURS, Failure};

/// The size of a drawing, in pixels; the page scales it.
const SIZE: (u32, u32) = (920, 324);

/// Room for the workloads' names below their bars, in pixels.
const NAMES: u32 = 76;

/// The axis, in percent: from a little below 0.01, so that this is shown.
const LEAST: f64 = 0.0099;
const MOST: f64 = 10_000.0;

/// Above the tallest bar is room for the paths' names.
const TOP: f64 = 5.0 * MOST;

/// Paths in the order of their colours, which are the same in each panel; others, by how long an error takes, are all
/// of the first.
const PATHS: [&str; 3] = ["hardware", "software", "firmware"];

/// The bars of one panel: a cluster for each path, a bar for each workload with the interval of 95 % as a line.
pub fn svg(groups: &[&Group]) -> String {
    let mut text = String::new();
    draw(groups, &mut text).expect("a drawing into memory succeeds");
    text
}

fn draw(groups: &[&Group], text: &mut String) -> Result<(), Failure> {
    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    let mut chart = ChartBuilder::on(&root)
        .margin(8)
        .x_label_area_size(NAMES)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..groups.len() as f64, (LEAST..TOP).log_scale())?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .light_line_style(TRANSPARENT)
        .y_desc("slowdown, %")
        .y_label_formatter(&|percent| percent.to_string())
        .label_style(("sans-serif", 13))
        .draw()?;
    let upright = ("sans-serif", 11).into_font().transform(FontTransform::Rotate270);
    let below = TextStyle::from(upright).pos(Pos::new(HPos::Right, VPos::Center));
    for (place, group) in groups.iter().enumerate() {
        let path = PATHS.iter().position(|path| *path == group.setting.path).unwrap_or(0);
        let colour = COLOURS[path % COLOURS.len()];
        let width = 0.84 / group.bars.len() as f64;
        let left = |bar: usize| place as f64 + 0.08 + width * bar as f64;
        let shown = |cost: f64| (100.0 * cost).clamp(LEAST, MOST);
        let bars = group.bars.iter().enumerate().map(|(number, bar)| {
            let percent = bar.cost.map_or(MOST, |(cost, _)| shown(cost));
            Rectangle::new([(left(number), LEAST), (left(number) + 0.8 * width, percent)], colour.filled())
        });
        chart.draw_series(bars)?;
        let intervals = group.bars.iter().enumerate().filter_map(|(number, bar)| {
            let (cost, half) = bar.cost.filter(|(cost, half)| half.is_finite() && 100.0 * cost > LEAST)?;
            let middle = left(number) + 0.4 * width;
            Some(PathElement::new([(middle, shown(cost - half)), (middle, shown(cost + half))], BLACK))
        });
        chart.draw_series(intervals)?;
        for (number, bar) in group.bars.iter().enumerate() {
            let (x, y) = chart.backend_coord(&(left(number) + 0.4 * width, LEAST));
            root.draw(&Text::new(bar.workload, (x, y + 6), below.clone()))?;
        }
        let middle = TextStyle::from(("sans-serif", 13).into_font()).pos(Pos::new(HPos::Center, VPos::Top));
        let name = Text::new(group.setting.path.clone(), (place as f64 + 0.5, TOP * 0.8), middle);
        chart.draw_series(std::iter::once(name))?;
    }
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::bars::Bar;
    use super::*;
    use rampart_scale::project::figure::Figure;

    #[test]
    fn each_bar_has_its_workload_s_name_and_an_interval_where_it_has_one() {
        let setting = Figure::new(5).unwrap().settings(1).unwrap().remove(0);
        let bar = |workload, cost| Bar { workload, nodes: 16_384, cost };
        let bars = vec![bar("hpcg", Some((0.25, 0.04))), bar("cth", Some((0.0, 0.0))), bar("milc", None)];
        let svg = svg(&[&Group { setting, bars }]);
        for name in ["hpcg", "cth", "milc", "hardware"] {
            assert!(svg.contains(name), "{name}: {svg}");
        }
        assert!(svg.contains("10000\n") && !svg.contains("10000.0"), "whole percents have no point: {svg}");
        assert_eq!(svg.matches("rotate(270").count(), 3 + 1, "the names, and what the axis shows: {svg}");
    }
}
