//! One drawing: lines or marks on two axes, with a title above and the command below.
//!
//! Library: `plotters`, as for the other figures.

use plotters::coord::Shift;
use plotters::prelude::*;

/// An error of the drawing library. Drawing does no input or output, so only our own bug causes one.
pub type Failure = Box<dyn std::error::Error>;

/// Where a panel is drawn.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Colours that people with red-green blindness can distinguish (Okabe and Ito, *Color universal design*, 2008).
pub const COLOURS: [RGBColor; 5] =
    [RGBColor(213, 94, 0), RGBColor(0, 114, 178), RGBColor(0, 158, 115), RGBColor(204, 121, 167), RGBColor(90, 90, 90)];

/// How values are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drawn {
    /// Joined.
    Line,
    /// Joined by dashes: what is possible, or what others have.
    Dashes,
    /// A cross each: values of others.
    Crosses,
}

/// One line.
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its points.
    pub points: Vec<(f64, f64)>,
    /// Its colour.
    pub colour: RGBColor,
    /// How it is drawn.
    pub drawn: Drawn,
}

/// A drawing.
pub struct Panel {
    /// What it shows.
    pub title: String,
    /// The horizontal axis, with its unit, and its ends.
    pub x: (&'static str, f64, f64),
    /// The vertical one.
    pub y: (&'static str, f64, f64),
    /// The lines.
    pub series: Vec<Series>,
    /// Where the legend is.
    pub legend: SeriesLabelPosition,
}

/// The room below the panels for the caption, in pixels.
const CAPTION: u32 = 22;

/// A letter of the captions is about so wide, in pixels.
const LETTER: u32 = 7;

/// Returns the lines of a text, of at most so many letters each unless a word is longer.
fn wrapped(text: &str, most: u32) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is a first");
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > most as usize {
            lines.push(word.to_owned());
        } else {
            *line += if line.is_empty() { "" } else { " " };
            *line += word;
        }
    }
    lines
}

/// Draws panels one below the other, and the captions below them.
pub fn svg(size: (u32, u32), captions: &[String], draw: impl FnOnce(&Area<'_>) -> Result<(), Failure>) -> String {
    let mut text = String::new();
    let captions: Vec<String> = captions.iter().flat_map(|caption| wrapped(caption, size.0 / LETTER)).collect();
    let lines = u32::try_from(captions.len()).expect("a few lines");
    let root = SVGBackend::with_string(&mut text, (size.0, size.1 + CAPTION * lines + 8)).into_drawing_area();
    let whole = |root: Area<'_>| {
        root.fill(&WHITE)?;
        let (panels, below) = root.split_vertically(size.1);
        draw(&panels)?;
        let style = ("sans-serif", 13).into_font().color(&RGBColor(80, 80, 80));
        for (line, caption) in (0..).zip(&captions) {
            below.draw(&Text::new(caption.clone(), (14, 4 + line * CAPTION.cast_signed()), style.clone()))?;
        }
        root.present()?;
        Ok::<(), Failure>(())
    };
    whole(root).expect("a drawing into memory succeeds");
    // One line: nobody reads a drawing line by line.
    text.replace('\n', " ")
}

impl Panel {
    /// Draws it.
    pub fn draw(&self, area: &Area<'_>) -> Result<(), Failure> {
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, ("sans-serif", 19))
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(58)
            .build_cartesian_2d(self.x.1..self.x.2, self.y.1..self.y.2)?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .bold_line_style(BLACK.mix(0.1))
            .x_label_formatter(&|value| tick(*value))
            .y_label_formatter(&|value| tick(*value))
            .x_desc(self.x.0)
            .y_desc(self.y.0)
            .label_style(("sans-serif", 13))
            .axis_desc_style(("sans-serif", 14))
            .draw()?;
        for series in &self.series {
            let colour = series.colour;
            let points = series.points.iter().copied();
            let drawn = match series.drawn {
                Drawn::Line => chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?,
                Drawn::Dashes => chart.draw_series(DashedLineSeries::new(points, 6, 4, colour.stroke_width(2)))?,
                Drawn::Crosses => chart.draw_series(points.map(|at| Cross::new(at, 6, colour.stroke_width(2))))?,
            };
            let named = drawn.label(series.name.as_str());
            match series.drawn {
                Drawn::Crosses => named.legend(move |(x, y)| Cross::new((x + 9, y), 5, colour.stroke_width(2))),
                Drawn::Line => {
                    named.legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(3)))
                }
                Drawn::Dashes => {
                    named.legend(move |(x, y)| PathElement::new([(x, y), (x + 7, y)], colour.stroke_width(2)))
                }
            };
        }
        if self.series.len() == 1 {
            return Ok(());
        }
        chart
            .configure_series_labels()
            .position(self.legend.clone())
            .background_style(WHITE.mix(0.85))
            .border_style(BLACK.mix(0.2))
            .label_font(("sans-serif", 13))
            .draw()?;
        Ok(())
    }
}

/// A number of an axis: whole if it is.
fn tick(value: f64) -> String {
    ((value * 100.0).round() / 100.0).to_string()
}

/// Draws a group of bars for each name, one of each colour, from 0 to `most`.
pub fn bars(
    area: &Area<'_>,
    (title, unit, most): (&str, &str, f64),
    groups: &[(String, Vec<f64>)],
    legend: &[(&str, RGBColor)],
) -> Result<(), Failure> {
    let name = |place: &f64| {
        let group = groups.iter().enumerate().find(|(at, _)| (*at as f64 + 0.5 - place).abs() < 0.01);
        group.map_or_else(String::new, |(_, (name, _))| name.clone())
    };
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 19))
        .margin(12)
        .x_label_area_size(30)
        .y_label_area_size(66)
        .build_cartesian_2d(0.0..groups.len() as f64, 0.0..most)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(WHITE)
        .bold_line_style(BLACK.mix(0.1))
        // A tick at each half, of which those in the middle of a group have a name.
        .x_labels(2 * groups.len() + 1)
        .x_label_formatter(&name)
        .y_label_formatter(&|value| tick(*value))
        .y_desc(unit)
        .label_style(("sans-serif", 13))
        .axis_desc_style(("sans-serif", 14))
        .draw()?;
    let width = 0.7 / legend.len() as f64;
    for (place, (name, colour)) in legend.iter().enumerate() {
        let bar = |(at, (_, values)): (usize, &(String, Vec<f64>))| {
            let left = at as f64 + 0.15 + place as f64 * width;
            Rectangle::new([(left, 0.0), (left + width, values[place])], colour.filled())
        };
        let colour = *colour;
        chart
            .draw_series(groups.iter().enumerate().map(bar))?
            .label(*name)
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 14, y + 5)], colour.filled()));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.2))
        .label_font(("sans-serif", 13))
        .draw()?;
    Ok(())
}

/// Draws a square for each section, row by row.
pub fn squares(area: &Area<'_>, title: &str, sections: &[RGBColor], columns: usize) -> Result<(), Failure> {
    let area = area.titled(title, ("sans-serif", 17))?;
    let (width, height) = area.dim_in_pixel();
    let rows = sections.len().div_ceil(columns).max(1);
    let pixels = |whole: u32, count: usize| (whole as usize / count.max(1)).max(2);
    let side = i32::try_from(pixels(width - 20, columns).min(pixels(height - 10, rows))).expect("a few pixels");
    for (place, colour) in sections.iter().enumerate() {
        let at = |place: usize| i32::try_from(place).expect("a few hundred") * side;
        let (x, y) = (10 + at(place % columns), 5 + at(place / columns));
        area.draw(&Rectangle::new([(x, y), (x + side - 1, y + side - 1)], colour.filled()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_caption_is_broken_between_words() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("one two three", 13), ["one two three"]);
        assert_eq!(wrapped("a-very-long-word b", 6), ["a-very-long-word", "b"]);
        assert_eq!(wrapped("", 6), [""]);
    }
}
