//! `rampart project sweep`: simulates a figure of \[Ferreira21\], and checks its claims. [`replicas::figure`] does so
//! for the one of \[Fiala15\].

use std::fmt::Write as _;
use std::fs;

use maud::{Markup, html};
use rampart_scale::ParallelRuns;
use rampart_scale::project::claims::FigureClaim;
use rampart_scale::project::figure::{Figure, FigureSetting};
use rampart_scale::project::{ERRORS_A_RUN, PreparedProgram, Projection};
use rampart_scale::workload::Workload;
use rampart_scale::{Error as ScaleError, LogGops};
use serde_json::{Value, json};

use super::arguments::{FigureChoice, SweepArguments};
use super::bars::{Bar, BarGroup};
use super::capacity::{program, threads};
use super::{chart, replicas};
use crate::error::Error;
use crate::output::csv::csv;
use crate::output::html;
use crate::output::progress::StepProgress;
use crate::output::text;
use crate::output::text::percent;
use crate::process::signals;

/// The number of runs of a bar.
const SEEDS: u64 = 8;

/// A simulated figure.
pub struct DrawnFigure {
    /// The figure.
    pub figure: Figure,
    /// The groups of bars.
    pub groups: Vec<BarGroup>,
    /// Whether programs are one grid of all ranks, and not extrapolated.
    pub whole: bool,
}

/// Simulates the figure, shows the values, and writes the requested files.
pub fn run(arguments: &SweepArguments) -> Result<(), Error> {
    let number = match arguments.figure {
        FigureChoice::Replicas => return replicas::figure::run(arguments),
        FigureChoice::Slowdown(number) => number,
    };
    let drawn = DrawnFigure::simulated(number, arguments)?;
    if arguments.json {
        text::print_json(&drawn.document())?;
    } else {
        text::print(&drawn.text())?;
    }
    let write = |path: &std::path::PathBuf, text: String| {
        fs::write(path, text).map_err(|cause| Error::Plot { path: path.clone(), cause })
    };
    arguments.csv.as_ref().map(|path| write(path, drawn.csv())).transpose()?;
    arguments.html.as_ref().map(|path| write(path, drawn.page())).transpose()?;
    Ok(())
}

impl DrawnFigure {
    fn simulated(number: u8, arguments: &SweepArguments) -> Result<Self, Error> {
        let figure = Figure::new(number)?;
        let settings = figure.settings(arguments.seed.unwrap_or(1))?;
        let (seeds, errors) = (arguments.seeds.unwrap_or(SEEDS), arguments.errors.unwrap_or(ERRORS_A_RUN));
        let stop = signals::stop_flag()?;
        let parallel = ParallelRuns { threads: threads(), stop: &stop, done: &|_| {} };
        let mut groups: Vec<BarGroup> =
            settings.into_iter().map(|setting| BarGroup { setting, bars: Vec::new() }).collect();
        let workloads = requested(&arguments.workload)?;
        let (steps, mut done, all) = (StepProgress::new(), 0, groups.len() * workloads.len());
        // Each program is prepared once for each number of nodes.
        for workload in workloads {
            let mut prepared: Option<(u32, PreparedProgram)> = None;
            for group in &mut groups {
                let nodes = group.setting.nodes;
                let program = match prepared.take() {
                    Some((prepared_nodes, program)) if prepared_nodes == nodes => program,
                    _ => {
                        let program = program(&workload, !arguments.whole, nodes)?;
                        PreparedProgram::new(&program, &LogGops::cray_xc40())?
                    }
                };
                let cost = match program.ask(&group.setting.errors, seeds, errors, &parallel) {
                    Ok(projection) => Some((Projection::cost(&projection), projection.uncertainty())),
                    Err(ScaleError::NoTimeLeft { .. } | ScaleError::TooLong) => None,
                    Err(error) => return Err(error.into()),
                };
                group.bars.push(Bar { workload: workload.name, nodes: program.nodes(), cost });
                prepared = Some((nodes, program));
                done += 1;
                steps.set(done, all);
            }
        }
        steps.end();
        Ok(Self { figure, groups, whole: arguments.whole })
    }

    /// How the ranks of a program are arranged.
    fn shape(&self) -> &'static str {
        if self.whole { "one grid of all ranks" } else { "copies of traced ranks, extrapolated as in [Ferreira21]" }
    }

    /// The lowest and the highest slowdown to which a claim applies, and whether it holds.
    fn check(&self, claim: &FigureClaim) -> Option<(f64, f64, bool)> {
        let groups = self.groups.iter().filter(|group| claim.is_of(&group.setting.panel, &group.setting.path));
        let bars = groups.flat_map(|group| &group.bars).filter(|bar| claim.is_of_workload(bar.workload));
        claim.judged(bars.map(|bar| bar.cost.map_or(f64::INFINITY, |(cost, _)| cost)))
    }

    fn text(&self) -> String {
        let mut text =
            format!("figure {}: {}; programs are {}\n", self.figure.number(), self.figure.shows(), self.shape());
        let _ = write!(text, "{:<18} {:<10}", "", "");
        for bar in &self.groups[0].bars {
            let _ = write!(text, " {:>12}", bar.workload);
        }
        text.push('\n');
        for BarGroup { setting, bars } in &self.groups {
            let _ = write!(text, "{:<18} {:<10}", setting.panel, setting.path);
            for bar in bars {
                let _ =
                    write!(text, " {:>12}", bar.cost.map_or_else(|| "no time".to_owned(), |(cost, _)| percent(cost)));
            }
            text.push('\n');
        }
        for claim in self.figure.claims() {
            let Some((low, high, holds)) = self.check(&claim) else { continue };
            let sign = if holds { "holds" } else { "does not hold" };
            let _ = writeln!(text, "{sign:<14} {}: here {} to {}", claim.words, cost_text(low), cost_text(high));
        }
        text
    }

    fn csv(&self) -> String {
        let heads = ["panel", "path", "nodes", "mtbce_seconds", "workload", "slowdown", "uncertainty"];
        let row = |FigureSetting { panel, path, errors, .. }: &FigureSetting,
                   Bar { workload, nodes, cost, .. }: &Bar| {
            let (cost, half) = cost.unwrap_or((f64::INFINITY, f64::NAN));
            let mean = errors.mean.as_secs_f64();
            [
                panel.to_string(),
                path.to_string(),
                nodes.to_string(),
                mean.to_string(),
                workload.to_string(),
                cost.to_string(),
                half.to_string(),
            ]
        };
        csv(heads, self.groups.iter().flat_map(|group| group.bars.iter().map(|bar| row(&group.setting, bar))))
    }

    fn document(&self) -> Value {
        let bar = |bar: &Bar| {
            let (cost, half) = bar.cost.unzip();
            json!({ "workload": bar.workload, "nodes": bar.nodes, "slowdown": cost, "uncertainty": half })
        };
        let group = |group: &BarGroup| {
            let FigureSetting { panel, path, errors, .. } = &group.setting;
            json!({
                "panel": panel, "path": path, "mtbce_seconds": errors.mean.as_secs_f64(),
                "bars": group.bars.iter().map(bar).collect::<Vec<_>>(),
            })
        };
        let claim = |claim: &FigureClaim| {
            let checked = self.check(claim);
            json!({ "words": claim.words, "least": checked.map(|of| of.0), "most": checked.map(|of| of.1), "holds": checked.map(|of| of.2) })
        };
        json!({
            "schema": "rampart.sweep/1",
            "figure": self.figure.number(),
            "shows": self.figure.shows(),
            "extrapolated": !self.whole,
            "groups": self.groups.iter().map(group).collect::<Vec<_>>(),
            "claims": self.figure.claims().iter().map(claim).collect::<Vec<_>>(),
        })
    }

    fn page(&self) -> String {
        let title = format!("Figure {}: {}", self.figure.number(), self.figure.shows());
        let claims = self.figure.claims();
        let body = html! {
            h1 { (title) }
            p.soft {
                "The slowdown by corrected errors, in % of the time without them, with the 95 % interval. Programs are "
                (self.shape()) ". No bar: below 0.01 %. A bar of 10000 %: as much or more, or errors leave the program \
                no time."
            }
            @for panel in self.panels() {
                @let groups = self.of_panel(panel);
                h2 { (heading(panel, &groups[0].setting.errors.mean.to_string())) }
                figure { (html::drawing(chart::svg(&groups))) }
            }
            h2 { "The claims of [Ferreira21]" }
            (html::table(&["statement", "#here, from", "#to", ""], claims.iter().filter_map(|claim| self.row(claim))))
        };
        html::document(&title, &body)
    }

    /// A claim beside what is so here, if it is about what was simulated.
    fn row(&self, claim: &FigureClaim) -> Option<Vec<Markup>> {
        let (low, high, holds) = self.check(claim)?;
        let (class, sign) = if holds { ("good", "holds") } else { ("bad", "does not hold") };
        Some(vec![
            html! { (claim.words) },
            html! { (cost_text(low)) },
            html! { (cost_text(high)) },
            html! { span class=(class) { (sign) } },
        ])
    }

    /// The panels, each once: some have several groups, such as software and firmware.
    fn panels(&self) -> Vec<&str> {
        let mut panels: Vec<&str> = Vec::new();
        for BarGroup { setting, .. } in &self.groups {
            if !panels.contains(&setting.panel.as_str()) {
                panels.push(&setting.panel);
            }
        }
        panels
    }

    fn of_panel(&self, panel: &str) -> Vec<&BarGroup> {
        self.groups.iter().filter(|group| group.setting.panel == panel).collect()
    }
}

/// The workloads of these names, or all if there are none.
fn requested(names: &[String]) -> Result<Vec<Workload>, ScaleError> {
    if names.is_empty() {
        Ok(Figure::workloads().to_vec())
    } else {
        names.iter().map(|name| Workload::named(name)).collect()
    }
}

/// The heading of a panel, which is named by its system or by the mean time between errors.
fn heading(panel: &str, every: &str) -> String {
    if panel == every {
        format!("An error every {every} on a node")
    } else {
        format!("{panel}: an error every {every} on a node")
    }
}

fn cost_text(cost: f64) -> String {
    if cost.is_finite() { percent(cost) } else { "no time left".to_owned() }
}
