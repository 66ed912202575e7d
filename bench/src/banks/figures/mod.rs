//! `banks figures`: the figures and tables of [Panwar15, 2, 5] on the simulated machine.
//!
//! **Problem.** The figures need simulations of hours, for several allocators and seeds, and must be drawn from what
//! those wrote, with the values of \[Panwar15\] beside. **Idea.** Each run writes a row of `runs.csv`, and those of the
//! first seed also write what they saw; then everything is drawn from the files alone. **Why this way.** A run whose
//! row exists is not repeated, so the work can be ended at any time and goes on with the next call.

mod draw;
mod panel;
mod runs;
mod table;

use std::path::Path;
use std::process::Command;

use runs::RUNS;
use table::{Csv, RunRow};

/// Where the files lie.
pub const FOLDER: &str = "docs/figures/banks";

/// `[NAME...]`: runs all simulations, or those whose names begin so, as far as their rows do not exist; then draws.
/// With `draw`, nothing is run.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let folder = Path::new(FOLDER);
    std::fs::create_dir_all(folder).map_err(|error| format!("{FOLDER}: {error}"))?;
    if arguments.first().is_none_or(|only| only != "draw") {
        simulate(folder, arguments)?;
    }
    print(&Csv::read(&folder.join("runs.csv"))?.runs()?);
    draw::all(folder)
}

fn simulate(folder: &Path, names: &[String]) -> Result<(), String> {
    let commit = commit()?;
    let chosen = |name: &str| names.is_empty() || names.iter().any(|wanted| name.starts_with(wanted.as_str()));
    for seed in 1..=10 {
        for run in RUNS.iter().filter(|run| seed <= run.seeds && chosen(run.name)) {
            let file = folder.join("runs.csv");
            let done = if file.exists() { Csv::read(&file)?.runs()? } else { Vec::new() };
            let command = run.command(seed);
            if done.iter().any(|row| row.command == command) {
                continue;
            }
            eprintln!("{command}");
            run.write(folder, seed, &commit)?;
        }
    }
    Ok(())
}

/// The commit of the tree; `+` if files were changed since.
fn commit() -> Result<String, String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().map_err(|error| error.to_string())?;
        Ok::<String, String>(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let is_changed = !git(&["status", "--porcelain", "--untracked-files=no", "--", "crates", "bench"])?.is_empty();
    Ok(git(&["rev-parse", "--short=10", "HEAD"])? + if is_changed { "+" } else { "" })
}

/// Prints tables 5.1 and 5.2 of \[Panwar15\] and what else each kind of run shows: mean [least, most] of its seeds.
fn print(rows: &[RunRow]) {
    println!(
        "| run | seeds | removable | offline | most offline | at best | c | moved, GiB | again, GiB | emptied, GiB | \
         tainted, most | steals |\n|---|---|---|---|---|---|---|---|---|---|---|---|"
    );
    for run in RUNS {
        let of: Vec<&RunRow> = rows.iter().filter(|row| row.name == run.name).collect();
        if of.is_empty() {
            continue;
        }
        let show = |column: &str, digits: usize, scale: f64| {
            let values: Vec<f64> = of.iter().filter_map(|row| row.number(column)).map(|value| value * scale).collect();
            if values.is_empty() {
                return String::new();
            }
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let (least, most) =
                (values.iter().copied().fold(f64::MAX, f64::min), values.iter().copied().fold(f64::MIN, f64::max));
            if values.len() == 1 {
                format!("{mean:.digits$}")
            } else {
                format!("{mean:.digits$} [{least:.digits$}, {most:.digits$}]")
            }
        };
        println!(
            "| {} | {} | {} % | {} % | {} % | {} % | {} | {} | {} | {} | {} | {} |",
            run.name,
            of.len(),
            show("removable", 1, 100.0),
            show("offline", 1, 100.0),
            show("most_offline", 1, 100.0),
            show("optimum", 1, 100.0),
            show("c", 2, 1.0),
            show("moved_gib", 0, 1.0),
            show("moved_again_gib", 0, 1.0),
            show("emptied_gib", 0, 1.0),
            show("most_tainted", 0, 1.0),
            show("steals", 0, 1.0),
        );
    }
}
