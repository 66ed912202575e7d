//! Line charts over time, as SVG.

use plotters::prelude::*;

/// An error of the drawing library. A drawing into memory fails only by a bug of ours.
pub type Failure = Box<dyn std::error::Error>;

/// The colours of the lines, in order. The style sheet of a page replaces these values for dark pages.
pub const COLOURS: [RGBColor; 3] = [RGBColor(0, 114, 178), RGBColor(213, 94, 0), RGBColor(0, 158, 115)];

/// The size of a drawing, in pixels; the page scales it.
const SIZE: (u32, u32) = (920, 240);

/// One drawing: lines over the same time.
pub struct Chart<'a> {
    /// The measure of the vertical axis, with its unit.
    pub measure: &'a str,
    /// The length of the time axis, in seconds.
    pub seconds: f64,
    /// The end of the vertical axis; `None`: a little above the largest value.
    pub max: Option<f64>,
    /// Each line: its name, and values at equal distances.
    pub lines: Vec<(&'a str, Vec<f64>)>,
}

impl Chart<'_> {
    /// Draws the chart.
    pub fn svg(&self) -> String {
        let mut text = String::new();
        self.draw(&mut text).expect("a drawing into memory succeeds");
        text
    }

    fn draw(&self, text: &mut String) -> Result<(), Failure> {
        let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
        let values = self.lines.iter().flat_map(|(_, values)| values);
        let max = self.max.unwrap_or_else(|| values.copied().fold(0.0, f64::max).max(f64::MIN_POSITIVE) * 1.05);
        let mut chart = ChartBuilder::on(&root)
            .margin(8)
            .x_label_area_size(40)
            .y_label_area_size(64)
            .build_cartesian_2d(0.0..self.seconds, 0.0..max)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .x_desc("seconds")
            .y_desc(self.measure)
            .label_style(("sans-serif", 13))
            .axis_desc_style(("sans-serif", 14))
            .draw()?;
        for ((_, values), colour) in self.lines.iter().zip(COLOURS) {
            let place =
                |(part, &value): (usize, &f64)| ((part as f64 + 0.5) / values.len() as f64 * self.seconds, value);
            chart.draw_series(LineSeries::new(values.iter().enumerate().map(place), colour.stroke_width(2)))?;
        }
        root.present()?;
        Ok(())
    }
}
