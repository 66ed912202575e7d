//! The figures, each from the files of the runs that it names; one without its files is left out, and that is said.

use std::path::Path;

use plotters::prelude::*;

use super::panel::{Area, COLOURS, Drawn, Failure, Panel, Series, bars, squares, svg};
use super::table::Csv;
use crate::median::median;

/// The values of \[Panwar15\], and of LKML.
const PAPER: &str = "panwar15.csv";

/// The allocators in the order of their colours.
const NAMES: [(&str, &str); 3] =
    [("buddy", "Buddy of Linux"), ("adaptive", "Adaptive-Buddy"), ("fullest", "FullestBank")];

const GREY: RGBColor = COLOURS[4];

/// A figure: the name of its file, and how it is drawn.
type Figure = (&'static str, fn(&Path) -> Result<String, String>);

const FIGURES: [Figure; 9] = [
    ("figure-2.3.svg", sections),
    ("figures-2.4-5.1.svg", footprints),
    ("figure-5.2.svg", removable),
    ("figures-5.3-5.4.svg", offlined),
    ("figure-5.5.svg", migrated),
    ("figures-6.1-6.3.svg", programs),
    ("touched.svg", touched),
    ("large-blocks.svg", large_blocks),
    ("tainted-gib.svg", tainted),
];

/// Draws what can be drawn.
pub fn all(folder: &Path) -> Result<(), String> {
    for (name, draw) in FIGURES {
        match draw(folder) {
            Ok(text) => {
                let path = folder.join(name);
                std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
            }
            Err(why) => eprintln!("{name} is left out: {why}"),
        }
    }
    Ok(())
}

/// The files of a kind of the same load, by allocator, and the caption that is right for all.
fn of_allocators(folder: &Path, load: &str, kind: &str) -> Result<(Vec<Csv>, Vec<String>), String> {
    let read = |(word, _): &(&str, &str)| Csv::read(&folder.join(format!("{load}-{word}-{kind}.csv")));
    let files: Vec<Csv> = NAMES.iter().map(read).collect::<Result<_, _>>()?;
    let captions = captions(&files[0]);
    Ok((files, captions))
}

/// The command of a run and its commit, as the file has them; `buddy` stands for all allocators of the figure.
fn captions(file: &Csv) -> Vec<String> {
    let mut lines = file.comments.clone();
    if let Some(command) = lines.first_mut() {
        *command = command.replace("--allocator buddy", "--allocator NAME");
    }
    lines
}

fn line(name: &str, points: Vec<(f64, f64)>, colour: RGBColor) -> Series {
    Series { name: name.to_owned(), points, colour, drawn: Drawn::Line }
}

fn percent(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    points.into_iter().map(|(x, y)| (x, y * 100.0)).collect()
}

fn end(points: &[(f64, f64)]) -> f64 {
    points.iter().map(|point| point.0).fold(0.0, f64::max)
}

fn one(panel: &Panel, captions: &[String]) -> String {
    svg((900, 420), captions, |area| panel.draw(area))
}

fn rows(panels: &[Panel], captions: &[String]) -> String {
    let height = 340 * u32::try_from(panels.len()).expect("a few panels");
    svg((900, height), captions, |area| {
        let areas = area.split_evenly((panels.len(), 1));
        areas.iter().zip(panels).try_for_each(|(area, panel)| panel.draw(area))
    })
}

/// [Panwar15, figure 2.3]: most memory is free, but is any section?
fn sections(folder: &Path) -> Result<String, String> {
    let (files, captions) = of_allocators(folder, "quiet", "footprint")?;
    let mut panels = Vec::new();
    for ((file, (_, name)), colour) in files.iter().zip(NAMES).zip(COLOURS) {
        let (kernel, movable) = (file.numbers("kernel")?, file.numbers("movable")?);
        let used: Vec<f64> = kernel.iter().zip(&movable).map(|(kernel, movable)| kernel + movable).collect();
        let free = 100.0 * (1.0 - used.iter().sum::<f64>() / used.len() as f64);
        let empty = used.iter().filter(|used| **used == 0.0).count();
        // A step for each section.
        let steps = used
            .iter()
            .enumerate()
            .flat_map(|(place, used)| [(place as f64, used * 100.0), (place as f64 + 1.0, used * 100.0)]);
        panels.push(Panel {
            title: format!("{name}: {free:.0} % of the memory is free, and {empty} of {} sections are", used.len()),
            x: ("section of 128 MiB", 0.0, used.len() as f64),
            y: ("% of it in use", 0.0, 100.0),
            series: vec![line(name, steps.collect(), colour)],
            legend: SeriesLabelPosition::UpperRight,
        });
    }
    Ok(rows(&panels, &captions))
}

/// [Panwar15, figures 2.4 and 5.1]: sections with memory of the kernel are black.
fn footprints(folder: &Path) -> Result<String, String> {
    let (files, mut captions) = of_allocators(folder, "medium", "footprint")?;
    let paper = Csv::read(&folder.join(PAPER))?;
    captions.push(format!(
        "black: memory of the kernel; blue: of programs only; white: empty. Buddy in [Panwar15, figure 2.4]: more than {} of 256 black",
        paper.named("tainted sections of 256", "value")?
    ));
    let colour = |kernel: f64, movable: f64| match (kernel > 0.0, movable > 0.0) {
        (true, _) => BLACK,
        (_, true) => RGBColor(150, 200, 235),
        _ => RGBColor(238, 238, 238),
    };
    let mut maps = Vec::new();
    for (file, (_, name)) in files.iter().zip(NAMES) {
        let (kernel, movable) = (file.numbers("kernel")?, file.numbers("movable")?);
        let black = kernel.iter().filter(|kernel| **kernel > 0.0).count();
        let colours: Vec<RGBColor> = kernel.iter().zip(&movable).map(|(&of, &other)| colour(of, other)).collect();
        maps.push((format!("{name}: {black} of {}", colours.len()), colours));
    }
    let draw = |area: &Area<'_>| -> Result<(), Failure> {
        let areas = area.split_evenly((1, maps.len()));
        areas.iter().zip(&maps).try_for_each(|(area, (title, colours))| squares(area, title, colours, 16))
    };
    Ok(svg((960, 350), &captions, draw))
}

/// [Panwar15, figure 5.2].
fn removable(folder: &Path) -> Result<String, String> {
    let (files, captions) = of_allocators(folder, "medium", "samples")?;
    let mut series = Vec::new();
    for ((file, (_, name)), colour) in files.iter().zip(NAMES).zip(COLOURS) {
        series.push(line(name, percent(file.points("hours", "removable")?), colour));
    }
    let panel = Panel {
        title: "Removable banks [Panwar15, figure 5.2]".to_owned(),
        x: ("simulated hours", 0.0, end(&series[0].points)),
        y: ("% of the banks", 0.0, 100.0),
        series,
        legend: SeriesLabelPosition::MiddleRight,
    };
    Ok(one(&panel, &captions))
}

/// [Panwar15, figures 5.3 and 5.4]: the same run, without migration and with it.
fn offlined(folder: &Path) -> Result<String, String> {
    let mut panels = Vec::new();
    let mut notes = Vec::new();
    for (run, title) in [
        ("medium-adaptive-no-migration", "without migration [Panwar15, figure 5.3]"),
        ("medium-adaptive", "with migration [Panwar15, figure 5.4]"),
    ] {
        let file = Csv::read(&folder.join(format!("{run}-samples.csv")))?;
        let free = percent(file.points("hours", "free")?);
        let offline = percent(file.points("hours", "offline")?);
        panels.push(Panel {
            title: format!("Free and offlined memory, Adaptive-Buddy, {title}"),
            x: ("simulated hours", 0.0, end(&free)),
            y: ("% of the memory", 0.0, 100.0),
            series: vec![line("free", free, GREY), line("offlined", offline, COLOURS[1])],
            legend: SeriesLabelPosition::UpperRight,
        });
        notes.extend(captions(&file));
    }
    Ok(rows(&panels, &notes))
}

/// [Panwar15, figure 5.5]: what moved, and the size of the banks that it emptied.
fn migrated(folder: &Path) -> Result<String, String> {
    let paper = Csv::read(&folder.join(PAPER))?;
    let mut panels = Vec::new();
    let mut notes = Vec::new();
    for (run, name) in [("medium-adaptive", "Adaptive-Buddy"), ("medium-fullest", "FullestBank")] {
        let file = Csv::read(&folder.join(format!("{run}-samples.csv")))?;
        let moved = file.points("hours", "moved_gib")?;
        // Banks of 256 MiB.
        let emptied: Vec<(f64, f64)> =
            file.points("hours", "emptied")?.into_iter().map(|(hour, banks)| (hour, banks / 4.0)).collect();
        let (hours, most) = (end(&moved), emptied.iter().chain(&moved).map(|point| point.1).fold(30.0, f64::max));
        let theirs = |what: &str, of: &str, colour| -> Result<Series, String> {
            let value = paper.named(what, "value")?;
            let name = format!("{of} in more than 10 h [Panwar15]: {value} GB");
            Ok(Series { name, points: vec![(0.0, value), (hours, value)], colour, drawn: Drawn::Dashes })
        };
        panels.push(Panel {
            title: format!("{name}: memory moved, and memory of the banks that this emptied [Panwar15, figure 5.5]"),
            x: ("simulated hours", 0.0, hours),
            y: ("GiB, summed", 0.0, most * 1.05),
            series: vec![
                line("banks emptied", emptied, COLOURS[1]),
                line("moved", moved, COLOURS[0]),
                theirs("offlined by migration", "offlined", COLOURS[1])?,
                theirs("migrated", "migrated", COLOURS[0])?,
            ],
            legend: SeriesLabelPosition::UpperLeft,
        });
        notes.extend(captions(&file));
    }
    Ok(rows(&panels, &notes))
}

/// [Panwar15, figures 6.1 to 6.3]: a build and a file server, without pools and with them.
fn programs(folder: &Path) -> Result<String, String> {
    let read = |kernel| Ok((kernel, Csv::read(&folder.join(format!("programs-{kernel}.csv")))?));
    let files: Vec<(&str, Csv)> = ["6.1", "6.12"].into_iter().map(read).collect::<Result<_, String>>()?;
    let group = |(kernel, file): &(&str, Csv), (program, what, unit): (&str, &str, f64)| {
        let of = |pools| {
            let runs = file.numbers_where("instructions", &[("program", program), ("pools", pools)])?;
            let none = || format!("{program} did not run on {kernel} {pools} pools");
            if runs.is_empty() { Err(none()) } else { Ok(median(runs) / unit) }
        };
        Ok::<_, String>((format!("{kernel}, {what}"), vec![of("without")?, of("with")?]))
    };
    let of_kernels = |programs: &[(&str, &str, f64)]| -> Result<Vec<(String, Vec<f64>)>, String> {
        let all = files.iter().flat_map(|file| programs.iter().map(move |&program| (file, program)));
        all.map(|(file, program)| group(file, program)).collect()
    };
    let builds = of_kernels(&[("build-1", "one job", 1e6), ("build-4", "four jobs", 1e6)])?;
    let servers = of_kernels(&[
        ("files-1000", "1,000", 1e6),
        ("files-10000", "10,000", 1e7),
        ("files-450000", "450,000", 4.5e8),
    ])?;
    let legend = [("without pools", COLOURS[0]), ("with pools, the daemon included", COLOURS[1])];
    let notes: Vec<String> = files.iter().flat_map(|(_, file)| captions(file)).collect();
    Ok(svg((900, 680), &notes, |area| {
        let areas = area.split_evenly((2, 1));
        let build = "A build of 32 files [Panwar15, figures 6.1 and 6.2]";
        bars(&areas[0], (build, "10^6 instructions, median", 400.0), &builds, &legend)?;
        let server = "A file server, by kernel and number of files [Panwar15, figure 6.3]";
        bars(&areas[1], (server, "10^3 instructions per file, median", 400.0), &servers, &legend)
    }))
}

/// The claim of [Panwar15, abstract]: how little memory in use touches every bank.
fn touched(folder: &Path) -> Result<String, String> {
    let (files, captions) = of_allocators(folder, "wide", "use")?;
    let mut series = Vec::new();
    for ((file, (_, name)), colour) in files.iter().zip(NAMES).zip(COLOURS) {
        // A step of 5 % is drawn at its middle.
        let points = file.points("used", "touched")?.into_iter().map(|(used, share)| (used + 2.5, share));
        series.push(line(name, percent(points.collect()), colour));
    }
    let least = Series {
        name: "as few as possible".to_owned(),
        points: vec![(0.0, 0.0), (100.0, 100.0)],
        colour: GREY,
        drawn: Drawn::Dashes,
    };
    let paper = Csv::read(&folder.join(PAPER))?;
    let linux = Series {
        name: "Linux 3.17 [Panwar15, abstract]".to_owned(),
        points: vec![(paper.named("memory used that touches every bank", "value")?, 100.0)],
        colour: BLACK,
        drawn: Drawn::Crosses,
    };
    series.extend([least, linux]);
    let panel = Panel {
        title: "Banks touched, by memory in use".to_owned(),
        x: ("% of the memory in use", 0.0, 100.0),
        y: ("% of the banks touched", 0.0, 105.0),
        series,
        legend: SeriesLabelPosition::LowerRight,
    };
    Ok(one(&panel, &captions))
}

/// What a request of 2 MiB or 4 MiB finds.
fn large_blocks(folder: &Path) -> Result<String, String> {
    let (files, captions) = of_allocators(folder, "heavy", "samples")?;
    let mut panels = Vec::new();
    for (column, size) in [("unusable_9", "2 MiB"), ("unusable_10", "4 MiB")] {
        let mut series = Vec::new();
        for ((file, (_, name)), colour) in files.iter().zip(NAMES).zip(COLOURS) {
            let order = column.trim_start_matches("unusable_");
            let last = |what: &str| Ok::<f64, String>(file.numbers(&format!("{what}_{order}"))?.pop().unwrap_or(0.0));
            let name = format!("{name}: {} of {} requests refused", last("refused")?, last("requests")?);
            series.push(line(&name, percent(file.points("hours", column)?), colour));
        }
        panels.push(Panel {
            title: format!("Unusable free space index for blocks of {size}"),
            x: ("simulated hours", 0.0, end(&series[0].points)),
            y: ("% of free memory", 0.0, 100.0),
            series,
            legend: SeriesLabelPosition::UpperRight,
        });
    }
    Ok(rows(&panels, &captions))
}

/// Blocks of 1 GiB with memory of the kernel, on 256 GiB.
fn tainted(folder: &Path) -> Result<String, String> {
    let (files, mut captions) = of_allocators(folder, "large", "samples")?;
    let paper = Csv::read(&folder.join(PAPER))?;
    let rfc = paper.named("tainted blocks of 1 GiB of 238", "value")?;
    captions.push("The machine of 256 GiB is simulated. The RFC measured a real one, under another load.".to_owned());
    let mut series = Vec::new();
    for ((file, (_, name)), colour) in files.iter().zip(NAMES).zip(COLOURS) {
        series.push(line(name, file.points("hours", "tainted_gib")?, colour));
    }
    let hours = end(&series[0].points);
    series.push(Series {
        name: format!("superpageblocks RFC (LKML, 2026): fewer than {rfc} of 238"),
        points: vec![(0.0, rfc), (hours, rfc)],
        colour: GREY,
        drawn: Drawn::Dashes,
    });
    let panel = Panel {
        title: "Tainted blocks of 1 GiB, of 256 simulated ones".to_owned(),
        x: ("simulated hours", 0.0, hours),
        y: ("blocks", 0.0, 260.0),
        series,
        legend: SeriesLabelPosition::MiddleRight,
    };
    Ok(one(&panel, &captions))
}
