//! `guard-figures`: a program's slowdown and its unlocked memory, against the number of prefetched pages and the relock
//! interval.
//!
//! **Problem.** FlipSphere is tuned by hand: [Fiala15, fig. 4.3 and 4.5, tab. 4.3 to 4.6] give time and unlocked memory
//! for each pair of a relock interval and a number of pages to unlock ahead. **Idea.** The bench runs the same pairs
//! under FlipSphere's mechanism (`mprotect`, pages of 4 KiB), under ours with the same pages, and under ours with
//! default settings. **Why this way.** One run shows the results of tuning by hand beside the results without tuning.

mod draw;

use std::process::Command;

use crate::guard::{self, Guard, Program};
use crate::median::median;

/// Pages to unlock ahead, as in the tables.
const AHEAD: [u32; 4] = [16, 32, 64, 128];

/// Relock intervals, in milliseconds, as in [Fiala15, tab. 4.4 and 4.6].
const INTERVALS: [u32; 3] = [50, 100, 150];

/// Both mechanisms with FlipSphere's pages.
const ENGINES: [&str; 2] = ["mprotect", "move"];

/// The limit for pages that only the interval locks again.
const NO_CAP: &str = "1GiB";

/// FT ([Fiala15, tab. 4.4]; the time of its second row is from section 4.5.2) and CG [Fiala15, tab. 4.6], without the
/// cost of moving pages to a co-processor: a row per interval, a column per number of pages.
const PAPER: [(&str, Grid<Option<Point>>); 2] = [
    (
        "ft",
        [
            [paper(1.56, 8.8), paper(1.40, 10.8), paper(1.58, 10.8), paper(1.51, 15.4)],
            [paper(1.47, 16.8), paper(1.54, 16.8), paper(1.43, 19.4), paper(1.30, 23.3)],
            [paper(1.54, 23.6), paper(1.51, 24.6), paper(1.37, 27.6), paper(1.31, 29.5)],
        ],
    ),
    (
        "cg",
        [
            [paper(1.85, 21.9), paper(1.52, 34.7), paper(1.43, 42.1), paper(1.21, 48.0)],
            [paper(1.80, 41.8), paper(1.43, 53.4), paper(1.32, 62.7), paper(1.38, 62.1)],
            [None; AHEAD.len()],
        ],
    ),
];

/// A row per interval, a column per number of pages.
type Grid<T> = [[T; AHEAD.len()]; INTERVALS.len()];

/// One run under guard.
#[derive(Clone, Copy, Debug)]
struct Point {
    /// The slowdown.
    time: f64,
    /// The unlocked share of the heap, averaged over time, in per cent.
    unlocked: f64,
}

const fn paper(time: f64, unlocked: f64) -> Option<Point> {
    Some(Point { time, unlocked })
}

/// The runs of one program.
struct Panel {
    program: String,
    /// The time of the program alone, in seconds.
    alone: f64,
    /// A grid per engine.
    points: [Grid<Point>; ENGINES.len()],
    /// The guard with default settings.
    usual: Point,
}

impl Panel {
    /// FlipSphere's published point for this program.
    fn paper(&self, interval: usize, ahead: usize) -> Option<Point> {
        let (_, rows) = PAPER.iter().find(|(name, _)| self.program.starts_with(name))?;
        rows[interval][ahead]
    }
}

/// Runs the bench: the first argument is the file to draw, the others are programs, such as `ft.A` and `cg.B` of NPB.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let (file, paths) = arguments.split_first().ok_or("say where to draw, such as figures.svg")?;
    let guard = Guard::build()?;
    let mut programs = vec![("bench", guard::own("rows")?), ("bench-rand", guard::own("chunks")?)];
    programs.extend(paths.iter().map(|path| guard::at(path)));
    let mut panels = Vec::new();
    for (name, program) in &programs {
        let panel = panel(name, program, &guard)?;
        print(&panel);
        panels.push(panel);
    }
    std::fs::write(file, draw::svg(&panels)).map_err(|error| format!("{file}: {error}"))?;
    println!("drawn in {file}; unlocked: of the heap, on average over time; each point is one run");
    Ok(())
}

fn panel(name: &str, program: &Program, guard: &Guard) -> Result<Panel, String> {
    // In the first run, the host has to find memory.
    guard::timed(program())?;
    let alone = median((0..3).map(|_| guard::timed(program())).collect::<Result<_, _>>()?);
    let point = |setting: &[String]| point(&program(), setting, alone, guard);
    let mut points = [[[Point { time: 1.0, unlocked: 0.0 }; AHEAD.len()]; INTERVALS.len()]; ENGINES.len()];
    for (of_engine, engine) in points.iter_mut().zip(ENGINES) {
        for (of_interval, interval) in of_engine.iter_mut().zip(INTERVALS) {
            for (place, ahead) in of_interval.iter_mut().zip(AHEAD) {
                *place = point(&by_hand(engine, interval, ahead))?;
            }
        }
    }
    Ok(Panel { program: name.to_owned(), alone, points, usual: point(&[])? })
}

/// The options that imitate FlipSphere.
fn by_hand(engine: &str, interval: u32, ahead: u32) -> Vec<String> {
    let (interval, ahead) = (format!("{interval}ms"), ahead.to_string());
    ["--engine", engine, "--block", "4KiB", "--cap", NO_CAP, "--interval", &interval, "--prefetch", &ahead]
        .map(str::to_owned)
        .to_vec()
}

fn point(program: &Command, setting: &[String], alone: f64, guard: &Guard) -> Result<Point, String> {
    let time = guard::timed(guard.around(program, setting))? / alone;
    let locked = guard.told()?["locked_share"].as_f64().ok_or("the report does not say what was locked")?;
    Ok(Point { time, unlocked: 100.0 * (1.0 - locked) })
}

fn print(panel: &Panel) {
    println!(
        "{}, {:.2} s alone; {:.2} and {:.1} % unlocked by `rampart run` that is told nothing",
        panel.program, panel.alone, panel.usual.time, panel.usual.unlocked
    );
    println!("{:>10}{:>8}{:>22}{:>22}{:>22}", "interval", "ahead", "mprotect, 4 KiB", "move, 4 KiB", "Fiala15");
    for (i, interval) in INTERVALS.iter().enumerate() {
        for (a, ahead) in AHEAD.iter().enumerate() {
            let show = |point: Point| format!("{:>12.2}{:>8.1} %", point.time, point.unlocked);
            let ours: String = panel.points.iter().map(|of| show(of[i][a])).collect();
            let paper = panel.paper(i, a).map_or_else(|| format!("{:>22}", "-"), show);
            println!("{interval:>7} ms{ahead:>8}{ours}{paper}");
        }
    }
}
