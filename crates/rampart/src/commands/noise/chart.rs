//! Detours over time, as SVG: the height of each line is the length of a detour [Ferreira21, fig. 2]. A mark above
//! shows each injected error.

use plotters::prelude::*;
use rampart_scale::noise::OfCpu;
use rampart_scale::time::Time;

use crate::output::chart::{COLOURS, Failure, tick};

/// The size of a drawing, in pixels; the page scales it.
const SIZE: (u32, u32) = (920, 220);

/// The number of parts of the time. Only the longest detour of each part is drawn, so that a million detours do not
/// make a million lines.
const PARTS: usize = 800;

/// Draws the detours of one CPU over so many seconds. The axis is from the threshold to the longest detour of all CPUs.
pub fn svg(of: &OfCpu, errors: &[Time], seconds: f64, threshold: Time, longest: Time) -> String {
    let mut text = String::new();
    draw(of, errors, seconds, threshold, longest, &mut text).expect("a drawing into memory succeeds");
    text
}

fn draw(
    of: &OfCpu,
    errors: &[Time],
    seconds: f64,
    threshold: Time,
    longest: Time,
    text: &mut String,
) -> Result<(), Failure> {
    let micros = |time: Time| time.as_secs_f64() * 1e6;
    let low = micros(threshold).max(0.001);
    let high = micros(longest).max(10.0 * low) * 1.5;
    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    let mut chart = ChartBuilder::on(&root)
        .margin(8)
        .x_label_area_size(40)
        .y_label_area_size(72)
        .build_cartesian_2d(0.0..seconds, (low..high).log_scale())?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc("seconds")
        .y_desc("detour, µs")
        .x_label_formatter(&|value| tick(*value))
        .y_label_formatter(&|value| tick(*value))
        .label_style(("sans-serif", 13))
        .axis_desc_style(("sans-serif", 14))
        .draw()?;
    let lines = longest_by_part(of, seconds).into_iter().enumerate().filter_map(|(part, length)| {
        let at = (part as f64 + 0.5) / PARTS as f64 * seconds;
        length.map(|length| PathElement::new([(at, low), (at, micros(length))], COLOURS[0].stroke_width(1)))
    });
    chart.draw_series(lines)?;
    let marks = errors.iter().map(|moment| TriangleMarker::new((moment.as_secs_f64(), high), -6, COLOURS[1].filled()));
    chart.draw_series(marks)?;
    root.present()?;
    Ok(())
}

/// The longest detour that began in each part of the time, if any.
fn longest_by_part(of: &OfCpu, seconds: f64) -> Vec<Option<Time>> {
    let mut parts = vec![None; PARTS];
    for detour in &of.detours {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of a float saturates")]
        let part = (detour.start.as_secs_f64() / seconds * PARTS as f64) as usize;
        let longest = &mut parts[part.min(PARTS - 1)];
        *longest = (*longest).max(Some(detour.length));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampart_scale::noise::Detour;

    fn of_cpu(detours: &[(u64, u64)]) -> OfCpu {
        let detour = |&(start, length)| Detour { start: Time::from_nanos(start), length: Time::from_nanos(length) };
        OfCpu { detours: detours.iter().map(detour).collect(), ..OfCpu::default() }
    }

    #[test]
    fn of_a_part_of_the_time_the_longest_detour_is_drawn() {
        let parts = longest_by_part(&of_cpu(&[(0, 300), (1000, 900), (2000, 200), (999_999_999, 400)]), 1.0);
        assert_eq!(parts[0], Some(Time::from_nanos(900)));
        assert_eq!(parts[PARTS - 1], Some(Time::from_nanos(400)));
        assert_eq!(parts.iter().flatten().count(), 2);
    }

    #[test]
    fn a_quiet_cpu_is_drawn_too() {
        let svg = svg(&of_cpu(&[]), &[], 1.0, Time::from_nanos(150), Time::ZERO);
        assert!(svg.starts_with("<svg") && svg.contains("detour"));
    }

    #[test]
    fn each_error_has_a_mark() {
        let drawn =
            |errors: &[Time]| svg(&of_cpu(&[(0, 300)]), errors, 1.0, Time::from_nanos(150), Time::from_nanos(300));
        let shapes = |svg: &str| svg.matches("<polygon").count();
        assert_eq!(shapes(&drawn(&[1, 2, 3].map(Time::from_nanos))), shapes(&drawn(&[])) + 3);
    }
}
