//! Line charts, bars and heat maps, as SVG.

use std::collections::BTreeMap;
use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

/// An error of the drawing library. A drawing into memory fails only by a bug of ours.
pub type Failure = Box<dyn std::error::Error>;

/// The colours of the lines, in order. The style sheet of a page replaces these values for dark pages.
pub const COLOURS: [RGBColor; 3] = [RGBColor(0, 114, 178), RGBColor(213, 94, 0), RGBColor(0, 158, 115)];

/// The size of a drawing, in pixels; the page scales it.
const SIZE: (u32, u32) = (920, 240);

/// The most bars of a chart, and the most columns and rows of a heat map: what is more is added up.
const MOST_BARS: usize = 184;
const MOST_CELLS: (usize, usize) = (184, 64);

type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Axes<'a> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// One drawing: lines over the same time, or over what else grows.
pub struct Chart<'a> {
    /// The measure of the vertical axis, with its unit.
    pub measure: &'a str,
    /// That of the horizontal axis.
    pub over: &'a str,
    /// The length of the horizontal axis.
    pub length: f64,
    /// The end of the vertical axis; `None`: a little above the largest value.
    pub max: Option<f64>,
    /// Each line: its name, and values at equal distances.
    pub lines: Vec<(&'a str, Vec<f64>)>,
}

/// The end of a vertical axis: a little above the largest value.
fn top(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, f64::max).max(f64::MIN_POSITIVE) * 1.05
}

/// A number of an axis, rounded to a thousandth, without trailing zeros.
pub fn tick(value: f64) -> String {
    ((value * 1000.0).round() / 1000.0).to_string()
}

/// The most numbers at an axis.
const MOST_TICKS: usize = 10;

/// The numbers at an axis from 0: how many are asked for, and which are shown.
struct Ticks {
    count: usize,
    whole: bool,
}

impl Ticks {
    /// Of a measure.
    const ANY: Self = Self { count: MOST_TICKS, whole: false };

    /// Of things that are counted, up to `end`: no halves.
    fn whole(end: f64) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of a float saturates")]
        let things = end as usize;
        Self { count: things.saturating_add(1).clamp(2, MOST_TICKS), whole: true }
    }

    fn text(&self, value: f64) -> String {
        if self.whole && (value - value.round()).abs() > 1e-9 { String::new() } else { tick(value) }
    }
}

/// Draws the axes with their names.
fn axes<'a>(
    area: &Canvas<'a>,
    (over, across, over_ticks): (&str, Range<f64>, Ticks),
    (measure, up, ticks): (&str, Range<f64>, Ticks),
) -> Result<Axes<'a>, Failure> {
    let mut chart =
        ChartBuilder::on(area).margin(8).x_label_area_size(40).y_label_area_size(64).build_cartesian_2d(across, up)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(over_ticks.count)
        .y_labels(ticks.count)
        .light_line_style(TRANSPARENT)
        .x_desc(over)
        .y_desc(measure)
        .x_label_formatter(&|value| over_ticks.text(*value))
        .y_label_formatter(&|value| ticks.text(*value))
        .label_style(("sans-serif", 13))
        .axis_desc_style(("sans-serif", 14))
        .draw()?;
    Ok(chart)
}

/// Draws into memory.
fn svg(size: (u32, u32), draw: impl FnOnce(&Canvas<'_>) -> Result<(), Failure>) -> String {
    let mut text = String::new();
    let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
    draw(&root).and_then(|()| Ok(root.present()?)).expect("a drawing into memory succeeds");
    drop(root);
    text
}

impl Chart<'_> {
    /// Draws the chart.
    pub fn svg(&self) -> String {
        svg(SIZE, |root| self.draw(root))
    }

    fn draw(&self, root: &Canvas<'_>) -> Result<(), Failure> {
        let values = || self.lines.iter().flat_map(|(_, values)| values.iter().copied());
        let max = self.max.unwrap_or_else(|| top(values()));
        let ticks = if values().all(|value| value.fract() == 0.0) { Ticks::whole(max) } else { Ticks::ANY };
        let mut chart = axes(root, (self.over, 0.0..self.length, Ticks::ANY), (self.measure, 0.0..max, ticks))?;
        for ((_, values), colour) in self.lines.iter().zip(COLOURS) {
            let place =
                |(part, &value): (usize, &f64)| ((part as f64 + 0.5) / values.len() as f64 * self.length, value);
            chart.draw_series(LineSeries::new(values.iter().enumerate().map(place), colour.stroke_width(2)))?;
        }
        Ok(())
    }
}

/// One drawing: a bar for each of some numbered things.
pub struct Bars<'a> {
    /// The measure of the vertical axis.
    pub measure: &'a str,
    /// The things.
    pub over: &'a str,
    /// A value for each. Neighbours are added up where there are too many.
    pub values: Vec<u64>,
}

impl Bars<'_> {
    /// Draws the bars.
    pub fn svg(&self) -> String {
        svg(SIZE, |root| self.draw(root))
    }

    fn draw(&self, root: &Canvas<'_>) -> Result<(), Failure> {
        let (all, sums) = (self.values.len().max(1), self.sums());
        let width = all as f64 / sums.len() as f64;
        let max = top(sums.iter().map(|&sum| sum as f64));
        let (end, ticks) = (all as f64, Ticks::whole(max));
        let mut chart = axes(root, (self.over, 0.0..end, Ticks::whole(end)), (self.measure, 0.0..max, ticks))?;
        let bars = sums.iter().enumerate().map(|(bar, &sum)| {
            let left = bar as f64 * width;
            Rectangle::new([(left + 0.08 * width, 0.0), (left + 0.92 * width, sum as f64)], COLOURS[0].filled())
        });
        chart.draw_series(bars)?;
        Ok(())
    }

    fn sums(&self) -> Vec<u64> {
        let mut sums = vec![0; self.values.len().clamp(1, MOST_BARS)];
        for (place, value) in self.values.iter().enumerate() {
            sums[part(place, self.values.len(), MOST_BARS)] += value;
        }
        sums
    }
}

/// The part of `all` things in which one lies, if there may be `most` parts.
const fn part(place: usize, all: usize, most: usize) -> usize {
    if all <= most { place } else { place * most / all }
}

/// Counts in two directions: a cell is drawn stronger, the more it has.
pub struct HeatMap<'a> {
    /// What the horizontal axis numbers, and how many there are.
    pub across: (&'a str, usize),
    /// The same of the vertical axis.
    pub up: (&'a str, usize),
    /// Counts, by column and row. Neighbours are added up where there are too many.
    pub counts: BTreeMap<(usize, usize), u64>,
}

impl HeatMap<'_> {
    /// Draws the map.
    pub fn svg(&self) -> String {
        svg((SIZE.0, 320), |root| self.draw(root))
    }

    /// Draws several maps side by side.
    pub fn side_by_side(maps: &[Self]) -> String {
        svg((SIZE.0, 290), |root| {
            root.split_evenly((1, maps.len().max(1))).iter().zip(maps).try_for_each(|(area, map)| map.draw(area))
        })
    }

    fn draw(&self, area: &Canvas<'_>) -> Result<(), Failure> {
        let ((over, columns), (measure, rows)) = (self.across, self.up);
        let [right, top] = [columns, rows].map(|all| all.max(1) as f64);
        let (over, up) = ((over, 0.0..right, Ticks::whole(right)), (measure, 0.0..top, Ticks::whole(top)));
        let mut chart = axes(area, over, up)?;
        let size = |all: usize, most: usize| all as f64 / all.clamp(1, most) as f64;
        let (width, height) = (size(columns, MOST_CELLS.0), size(rows, MOST_CELLS.1));
        let sums = self.sums();
        let most = sums.values().copied().max().unwrap_or(0);
        let cells = sums.into_iter().map(|((column, row), sum)| {
            let (left, low) = (column as f64 * width, row as f64 * height);
            Rectangle::new([(left, low), (left + width, low + height)], COLOURS[1].mix(strength(sum, most)).filled())
        });
        chart.draw_series(cells)?;
        Ok(())
    }

    fn sums(&self) -> BTreeMap<(usize, usize), u64> {
        let mut sums = BTreeMap::new();
        for (&(column, row), count) in &self.counts {
            let cell = (part(column, self.across.1, MOST_CELLS.0), part(row, self.up.1, MOST_CELLS.1));
            *sums.entry(cell).or_insert(0) += count;
        }
        sums
    }
}

/// How strongly a cell is drawn, from a fourth to 1: by the order of magnitude, so that single messages are seen.
fn strength(sum: u64, most: u64) -> f64 {
    0.25 + 0.75 * (sum as f64).ln_1p() / (most as f64).ln_1p().max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_an_axis_are_as_short_as_they_can_be() {
        assert_eq!([200_000.0, 1.0, 1.1 + 1e-12, 0.005].map(tick), ["200000", "1", "1.1", "0.005"]);
    }

    #[test]
    fn what_is_counted_has_no_halves_at_its_axis() {
        let shown = |svg: &str, label: &str| svg.lines().any(|line| line.trim() == label);
        let has_parts = |svg: &str| svg.lines().any(|line| line.trim().starts_with("0."));
        let bars = Bars { measure: "messages", over: "rank", values: vec![0, 0, 21, 0] }.svg();
        assert!(shown(&bars, "2") && shown(&bars, "3") && !shown(&bars, "2.5"), "{bars}");
        let lines = |value| Chart {
            measure: "messages",
            over: "step",
            length: 10.0,
            max: None,
            lines: vec![("all", vec![0.0, value, 1.0])],
        };
        assert!(!has_parts(&lines(1.0).svg()));
        assert!(has_parts(&lines(0.25).svg()), "a measure");
    }

    #[test]
    fn each_value_has_a_bar_until_there_are_too_many() {
        let bars = |count: usize| Bars { measure: "messages", over: "rank", values: vec![1; count] };
        assert_eq!(bars(16).sums(), vec![1; 16]);
        assert_eq!(bars(0).sums(), [0]);
        let many = bars(1000).sums();
        assert_eq!((many.len(), many.iter().sum::<u64>()), (MOST_BARS, 1000));
        let rectangles = |count| bars(count).svg().matches("fill=\"#0072B2\"").count();
        assert_eq!((rectangles(16), rectangles(1000)), (16, MOST_BARS));
    }

    #[test]
    fn a_heat_map_has_a_cell_for_each_count_and_loses_none() {
        let map = |size: usize| HeatMap {
            across: ("step", size),
            up: ("rank", size),
            counts: (0..size).map(|one| ((one, one), 2)).collect(),
        };
        assert_eq!(map(40).sums(), (0..40).map(|one| ((one, one), 2)).collect());
        assert_eq!(map(40).svg().matches("fill=\"#D55E00\"").count(), 40);
        let large = map(5000).sums();
        assert_eq!(large.values().sum::<u64>(), 2 * 5000);
        assert!(large.keys().all(|&(column, row)| column < MOST_CELLS.0 && row < MOST_CELLS.1));
        let several = HeatMap::side_by_side(&[map(3), map(4)]);
        assert_eq!(several.matches("fill=\"#D55E00\"").count(), 7);
        assert!(map(0).svg().starts_with("<svg"), "an empty one is drawn too");
    }

    #[test]
    fn a_single_message_is_seen_beside_thousands() {
        assert!(strength(1, 100_000) > 0.25 && strength(1, 100_000) < strength(50, 100_000));
        assert!((strength(7, 7) - 1.0).abs() < 1e-9);
    }
}
