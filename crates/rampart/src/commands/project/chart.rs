//! Bars on a logarithmic axis, as SVG: slowdowns span six orders of magnitude.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::bars::{Bar, BarGroup};
use crate::output::chart::{COLOURS, Failure};

/// The size of a drawing, in pixels; the page scales it.
const SIZE: (u32, u32) = (920, 324);

/// The room for the programs' names below their bars, in pixels.
const NAMES_HEIGHT: u32 = 76;

/// The axis, in percent: it begins a little below 0.01, so that 0.01 is labelled.
const MIN: f64 = 0.0099;
const MAX: f64 = 10_000.0;

/// The end of the axis, with room for the paths' names above the tallest bar.
const TOP: f64 = 5.0 * MAX;

/// Paths in the order of their colours, which are the same in each panel. Other paths, named by the time of an error,
/// all have the first colour.
const PATHS: [&str; 3] = ["hardware", "software", "firmware"];

/// Draws one panel: a cluster for each path, and in it a bar for each program, traces or skeletons, with the 95 %
/// interval as a line.
pub fn svg(groups: &[&BarGroup], traced: bool) -> String {
    let mut text = String::new();
    draw(groups, traced, &mut text).expect("a drawing into memory succeeds");
    text
}

fn draw(groups: &[&BarGroup], traced: bool, text: &mut String) -> Result<(), Failure> {
    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    let mut chart = ChartBuilder::on(&root)
        .margin(8)
        .x_label_area_size(NAMES_HEIGHT)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..groups.len() as f64, (MIN..TOP).log_scale())?;
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
        let shown: Vec<&Bar> = group.bars.iter().filter(|bar| bar.program.is_traced() == traced).collect();
        let width = 0.84 / shown.len() as f64;
        let left = |bar: usize| place as f64 + 0.08 + width * bar as f64;
        let clamped = |cost: f64| (100.0 * cost).clamp(MIN, MAX);
        let bars = shown.iter().enumerate().map(|(number, bar)| {
            let percent = bar.cost.map_or(MAX, |(cost, _)| clamped(cost));
            Rectangle::new([(left(number), MIN), (left(number) + 0.8 * width, percent)], colour.filled())
        });
        chart.draw_series(bars)?;
        let intervals = shown.iter().enumerate().filter_map(|(number, bar)| {
            let (cost, half) = bar.cost.filter(|(cost, half)| half.is_finite() && 100.0 * cost > MIN)?;
            let centre = left(number) + 0.4 * width;
            Some(PathElement::new([(centre, clamped(cost - half)), (centre, clamped(cost + half))], BLACK))
        });
        chart.draw_series(intervals)?;
        for (number, bar) in shown.iter().enumerate() {
            let (x, y) = chart.backend_coord(&(left(number) + 0.4 * width, MIN));
            root.draw(&Text::new(bar.program.workload(), (x, y + 6), below.clone()))?;
        }
        let centred = TextStyle::from(("sans-serif", 13).into_font()).pos(Pos::new(HPos::Center, VPos::Top));
        let name = Text::new(group.setting.path.clone(), (place as f64 + 0.5, TOP * 0.8), centred);
        chart.draw_series(std::iter::once(name))?;
    }
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampart_scale::KnownProgram;
    use rampart_scale::project::figure::Figure;

    #[test]
    fn each_bar_has_its_program_s_name_and_an_interval_where_it_has_one() {
        let setting = Figure::new(5).unwrap().settings(1).unwrap().remove(0);
        let bar = |name, cost| Bar { program: KnownProgram::named(name).unwrap(), nodes: 16_384, cost };
        let skeletons = [bar("hpcg-skeleton", Some((0.25, 0.04))), bar("cth", Some((0.0, 0.0))), bar("milc", None)];
        let bars = skeletons.into_iter().chain([bar("minife", None)]).collect();
        let svg = svg(&[&BarGroup { setting, bars }], false);
        for name in ["hpcg", "cth", "milc", "hardware"] {
            assert!(svg.contains(name), "{name}: {svg}");
        }
        assert!(!svg.contains("minife"), "a trace is in another drawing: {svg}");
        assert!(svg.contains("10000\n") && !svg.contains("10000.0"), "whole percents have no point: {svg}");
        assert_eq!(svg.matches("rotate(270").count(), 3 + 1, "the names, and what the axis shows: {svg}");
    }
}
