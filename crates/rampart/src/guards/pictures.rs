//! Drawings of what a program unlocked: its heap over time [Fiala15, fig. 4.6], and four moments of it [Fiala15, fig.
//! 4.1 and 4.2].
//!
//! **Problem.** There are millions of accesses that unlocked memory, and a drawing has thousands of points. **Idea.**
//! They are counted in the cells of a grid; a cell is drawn stronger at 10 and at 100 of them. **Why this way.** The
//! page has a fixed size, and shows single accesses as well as patterns.

use maud::{Markup, html};
use plotters::coord::Shift;
use plotters::prelude::*;
use rampart_guard::accesses::{Touch, UnlockAccess};
use rampart_memory::FRAME_BYTES;

use super::journals::ProcessTrace;
use crate::output::chart::{COLOURS, Failure, tick};
use crate::output::html::figure;
use crate::output::text;

/// The number of processes that are drawn: those with the most accesses.
const PICTURES: usize = 4;

/// The number of cells over time, and over addresses.
const GRID: (usize, usize) = (184, 64);

/// The number of moments that are drawn, each by itself.
const MOMENTS: usize = 4;

/// The number of cells of a moment, in a row and in all.
const MOMENT_CELLS: (usize, usize) = (64, 64 * 32);

/// A moment is one part in so many of the time.
const MOMENT_PART: u128 = 40;

/// A drawing of each of the traces with the most accesses.
pub fn pictures(traces: &[ProcessTrace]) -> Markup {
    let mut longest: Vec<&ProcessTrace> = traces.iter().filter(|trace| !trace.accesses.is_empty()).collect();
    longest.sort_by_key(|trace| std::cmp::Reverse(trace.accesses.len()));
    html! {
        @for trace in longest.iter().take(PICTURES) {
            @if let Some(picture) = Picture::new(&trace.accesses) {
                h2 { "What process " (trace.process) " unlocked when" }
                (of_process(trace, &picture))
            }
        }
        @if longest.len() > PICTURES {
            p.soft { (longest.len() - PICTURES) " more processes are not drawn." }
        }
    }
}

fn of_process(trace: &ProcessTrace, picture: &Picture<'_>) -> Markup {
    let names = ["unlocked for a read", "for a write", "by the prefetcher, before the program accessed it"];
    let number = html! {
        ". " (text::count(trace.accesses.len() as u64)) " times"
        @if trace.lost > 0 {
            " " span.bad { (text::count(trace.lost)) " more are not drawn: there was no room to record them" }
        }
    };
    let moments = picture.moments().map(|at| format!("{at:.3} s")).join(", ");
    let caption = format!("The heap at {moments}: each row goes on where the one below it ends, from the lower left");
    html! {
        (figure(&names, picture.over_time(), number))
        (figure(&[], picture.at_moments(), caption))
    }
}

/// The accesses of one process, to be drawn.
pub struct Picture<'a> {
    accesses: &'a [UnlockAccess],
    /// The first access, in microseconds since 1970.
    begin: u64,
    /// The time from the first access to the last.
    micros: u128,
    pages: u64,
}

impl<'a> Picture<'a> {
    /// A picture of these accesses; `None` if there are none.
    pub fn new(accesses: &'a [UnlockAccess]) -> Option<Self> {
        let times = || accesses.iter().map(|access| access.at.micros());
        let (begin, end) = times().min().zip(times().max())?;
        let pages = accesses.iter().map(|access| access.page.0.saturating_add(access.pages.into())).max()?;
        Some(Self { accesses, begin, micros: u128::from(end - begin) + 1, pages: pages.max(1) })
    }

    /// The begin of each moment, in seconds from the first access.
    pub fn moments(&self) -> [f64; MOMENTS] {
        std::array::from_fn(|moment| self.moment(moment).0 as f64 / 1e6)
    }

    /// The begin and end of a moment, in microseconds from the first access.
    fn moment(&self, moment: usize) -> (u128, u128) {
        let centre = self.micros * (2 * moment as u128 + 1) / (2 * MOMENTS as u128);
        let half = self.micros.div_ceil(2 * MOMENT_PART);
        (centre.saturating_sub(half), centre + half)
    }

    /// The time of an access, in microseconds from the first.
    fn since(&self, access: &UnlockAccess) -> u128 {
        u128::from(access.at.micros() - self.begin)
    }

    /// The cells that an access unlocked, of `cells` over the whole heap.
    fn cells(&self, access: &UnlockAccess, cells: usize) -> std::ops::RangeInclusive<usize> {
        let cell = |page: u64| {
            let place = u128::from(page.min(self.pages - 1)) * cells as u128 / u128::from(self.pages);
            usize::try_from(place).expect("below the number of cells")
        };
        cell(access.page.0)..=cell(access.page.0 + u64::from(access.pages.max(1)) - 1)
    }

    /// Draws the heap over time.
    pub fn over_time(&self) -> String {
        let mut text = String::new();
        self.draw_over_time(&mut text).expect("a drawing into memory succeeds");
        text
    }

    fn draw_over_time(&self, text: &mut String) -> Result<(), Failure> {
        let root = SVGBackend::with_string(text, (920, 420)).into_drawing_area();
        let (seconds, mebibytes) = (self.micros as f64 / 1e6, (self.pages * FRAME_BYTES) as f64 / f64::from(1 << 20));
        let mut chart = ChartBuilder::on(&root)
            .margin(8)
            .x_label_area_size(40)
            .y_label_area_size(64)
            .build_cartesian_2d(0.0..seconds, 0.0..mebibytes)?;
        chart
            .configure_mesh()
            .disable_mesh()
            .x_desc("seconds")
            .y_desc("MiB from the start of the heap")
            .x_label_formatter(&|value| tick(*value))
            .y_label_formatter(&|value| tick(*value))
            .label_style(("sans-serif", 13))
            .axis_desc_style(("sans-serif", 14))
            .draw()?;
        let (width, height) = (seconds / GRID.0 as f64, mebibytes / GRID.1 as f64);
        let cells = self.grid().into_iter().map(|CellRun { column, rows, strength, colour }| {
            let (left, low, high) = (column as f64 * width, rows.0 as f64 * height, rows.1 as f64 * height);
            Rectangle::new([(left, low), (left + width, high)], COLOURS[colour].mix(strength).filled())
        });
        chart.draw_series(cells)?;
        root.present()?;
        Ok(())
    }

    /// The cells in which memory was unlocked; adjacent cells of a column that look the same are one run.
    fn grid(&self) -> Vec<CellRun> {
        let mut counts = vec![[0_u64; 3]; GRID.0 * GRID.1];
        for access in self.accesses {
            let column = self.since(access) * GRID.0 as u128 / self.micros;
            let column = usize::try_from(column).expect("below the number of columns");
            for row in self.cells(access, GRID.1) {
                counts[column * GRID.1 + row][colour(access.touch)] += 1;
            }
        }
        let mut runs: Vec<CellRun> = Vec::new();
        for (index, counts) in counts.iter().enumerate() {
            let (column, row) = (index / GRID.1, index % GRID.1);
            let Some((strength, colour)) = appearance(*counts) else { continue };
            match runs.last_mut() {
                Some(last)
                    if (last.column, last.rows.1, last.colour) == (column, row, colour)
                        && last.strength.total_cmp(&strength).is_eq() =>
                {
                    last.rows.1 = row + 1;
                }
                _ => runs.push(CellRun { column, rows: (row, row + 1), strength, colour }),
            }
        }
        runs
    }

    /// Draws four moments: each cell is a part of the heap, the first at the lower left.
    pub fn at_moments(&self) -> String {
        let mut text = String::new();
        self.draw_moments(&mut text).expect("a drawing into memory succeeds");
        text
    }

    fn draw_moments(&self, text: &mut String) -> Result<(), Failure> {
        let root = SVGBackend::with_string(text, (920, 130)).into_drawing_area();
        for (moment, area) in root.split_evenly((1, MOMENTS)).iter().enumerate() {
            self.draw_moment(moment, &area.margin(4, 4, 6, 6))?;
        }
        root.present()?;
        Ok(())
    }

    fn draw_moment(&self, moment: usize, area: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<(), Failure> {
        let (begin, end) = self.moment(moment);
        let inside = |access: &&UnlockAccess| (begin..end).contains(&self.since(access));
        let mut touched = vec![None; MOMENT_CELLS.1];
        for access in self.accesses.iter().filter(inside) {
            for cell in self.cells(access, MOMENT_CELLS.1) {
                touched[cell] =
                    Some(touched[cell].map_or(colour(access.touch), |seen: usize| seen.min(colour(access.touch))));
            }
        }
        let (width, height) = area.dim_in_pixel();
        let (columns, rows) = (MOMENT_CELLS.0, MOMENT_CELLS.1 / MOMENT_CELLS.0);
        let at =
            |cell: usize, cells: usize, pixels: u32| i32::try_from(cell * pixels as usize / cells).expect("few pixels");
        for row in 0..rows {
            let cells = &touched[row * columns..][..columns];
            let mut column = 0;
            for same in cells.chunk_by(|a, b| a == b) {
                let (left, right) = (at(column, columns, width), at(column + same.len(), columns, width));
                let (high, low) = (at(rows - 1 - row, rows, height), at(rows - row, rows, height));
                column += same.len();
                if let Some(colour) = same[0] {
                    area.draw(&Rectangle::new([(left, high), (right, low)], COLOURS[colour].filled()))?;
                }
            }
        }
        let (right, low) = (at(1, 1, width) - 1, at(1, 1, height) - 1);
        area.draw(&Rectangle::new([(0, 0), (right, low)], BLACK.mix(0.4)))?;
        Ok(())
    }
}

/// Adjacent cells of a column that look the same.
struct CellRun {
    column: usize,
    rows: (usize, usize),
    strength: f64,
    colour: usize,
}

/// The index of the colour.
const fn colour(touch: Touch) -> usize {
    match touch {
        Touch::Read => 0,
        Touch::Write => 1,
        Touch::Prefetch => 2,
    }
}

/// The strength and colour of a cell, by its number of accesses and the kind of most of them; `None` if there are none.
fn appearance(counts: [u64; 3]) -> Option<(f64, usize)> {
    let all = counts.iter().sum::<u64>();
    let dominant = (0..3).max_by_key(|&colour| (counts[colour], 3 - colour))?;
    (all > 0).then(|| ([0.45, 0.7, 1.0][all.ilog10().min(2) as usize], dominant))
}

#[cfg(test)]
mod tests {
    use super::*;

    use rampart_guard::PageIndex;
    use rampart_memory::Timestamp;

    fn sequential_accesses() -> Vec<UnlockAccess> {
        let access = |step: u64| UnlockAccess {
            at: Timestamp::from_micros(1_000_000 + 1000 * step),
            page: PageIndex(4 * step),
            pages: 4,
            touch: if step.is_multiple_of(2) { Touch::Read } else { Touch::Prefetch },
        };
        (0..640).map(access).collect()
    }

    #[test]
    fn a_sweep_is_a_diagonal() {
        let accesses = sequential_accesses();
        let runs = Picture::new(&accesses).unwrap().grid();
        let off = runs.iter().filter(|run| run.rows.0.abs_diff(run.column * GRID.1 / GRID.0) > 1);
        assert_eq!((off.count(), runs.iter().map(|run| run.rows.1 - run.rows.0).min()), (0, Some(1)));
        assert!((0..GRID.0).all(|column| runs.iter().any(|run| run.column == column)), "no column is empty");
    }

    #[test]
    fn a_moment_shows_what_was_unlocked_in_it_and_nothing_else() {
        let accesses = sequential_accesses();
        let picture = Picture::new(&accesses).unwrap();
        let (begin, end) = picture.moment(0);
        assert!((end - begin).abs_diff(picture.micros / MOMENT_PART) <= 2);
        let drawn = picture.at_moments();
        assert!(drawn.matches("<rect").count() >= 2 * MOMENTS, "a frame and something in it, four times: {drawn}");
        assert!(drawn.len() < 20_000, "runs of equal cells are drawn as one");
    }

    #[test]
    fn one_unlocking_anywhere_is_drawn_and_none_is_no_picture() {
        assert!(Picture::new(&[]).is_none());
        let alone = UnlockAccess {
            at: Timestamp::from_micros(0),
            page: PageIndex((1 << 48) - 1),
            pages: 1,
            touch: Touch::Write,
        };
        let drawn = Picture::new(&[alone]).unwrap().over_time();
        assert!(drawn.contains("#D55E00"), "{drawn}");
    }
}
