//! `rampart project sweep`: simulates a figure of \[Ferreira21\], and checks its claims. [`replicas::figure`] does so
//! for the one of \[Fiala15\].

use std::fmt::Write as _;
use std::fs;

use maud::{Markup, html};
use rampart_scale::ParallelRuns;
use rampart_scale::project::claims::FigureClaim;
use rampart_scale::project::figure::{Figure, FigureSetting};
use rampart_scale::project::{ERRORS_A_RUN, PreparedProgram, Projection};
use rampart_scale::{Error as ScaleError, KnownProgram, LogGops};
use serde_json::{Value, json};

use super::arguments::{FigureChoice, SweepArguments};
use super::bars::{Bar, BarGroup};
use super::capacity::{prepared, threads};
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
    /// Whether skeletons are one grid of all ranks, and not extrapolated.
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
        let programs = requested(&arguments.workload, arguments.whole)?;
        let (steps, mut done, all) = (StepProgress::new(), 0, groups.len() * programs.len());
        // Each program is prepared once for each number of nodes.
        for program in programs {
            let mut last: Option<(u32, PreparedProgram)> = None;
            for group in &mut groups {
                let nodes = group.setting.nodes;
                let simulated = match last.take() {
                    Some((prepared_nodes, simulated)) if prepared_nodes == nodes => simulated,
                    _ => prepared(&program, !arguments.whole, nodes, &LogGops::cray_xc40())?.0,
                };
                let cost = match simulated.ask(&group.setting.errors, seeds, errors, &parallel) {
                    Ok(projection) => Some((Projection::cost(&projection), projection.uncertainty())),
                    Err(ScaleError::NoTimeLeft { .. } | ScaleError::TooLong) => None,
                    Err(error) => return Err(error.into()),
                };
                group.bars.push(Bar { program, nodes: simulated.nodes(), cost });
                last = Some((nodes, simulated));
                done += 1;
                steps.set(done, all);
            }
        }
        steps.end();
        Ok(Self { figure, groups, whole: arguments.whole })
    }

    /// Which kinds of programs there are: skeletons (`false`), traces (`true`).
    fn kinds(&self) -> Vec<bool> {
        let has = |traced: &bool| self.groups[0].bars.iter().any(|bar| bar.program.is_traced() == *traced);
        [false, true].into_iter().filter(has).collect()
    }

    /// What programs of a kind are, and how their ranks are arranged.
    fn shape(&self, traced: bool) -> &'static str {
        match (traced, self.whole) {
            (true, _) => "traces, extrapolated as in [Ferreira21]",
            (false, true) => "skeletons, one grid of all ranks",
            (false, false) => "skeletons, extrapolated as in [Ferreira21]",
        }
    }

    /// The lowest and the highest slowdown of a kind of programs to which a claim applies, and whether it holds.
    fn check(&self, claim: &FigureClaim, traced: bool) -> Option<(f64, f64, bool)> {
        let groups = self.groups.iter().filter(|group| claim.is_of(&group.setting.panel, &group.setting.path));
        let bars = groups.flat_map(|group| &group.bars).filter(|bar| bar.program.is_traced() == traced);
        let bars = bars.filter(|bar| claim.is_of_workload(bar.program.workload()));
        claim.judged(bars.map(|bar| bar.cost.map_or(f64::INFINITY, |(cost, _)| cost)))
    }

    fn text(&self) -> String {
        let mut text = format!("figure {}: {}\n", self.figure.number(), self.figure.shows());
        for traced in self.kinds() {
            let _ = writeln!(text, "{}", self.shape(traced));
            self.write_bars(&mut text, traced);
        }
        for claim in self.figure.claims() {
            let of_kind = |traced| self.check(&claim, traced).map(|checked| (traced, checked));
            for (traced, (low, high, holds)) in [false, true].into_iter().filter_map(of_kind) {
                let (low, high) = (cost_text(low), cost_text(high));
                let _ = writeln!(text, "{:<14} {}: {} {low} to {high}", sign(holds), claim.words, kind(traced));
            }
        }
        text
    }

    fn write_bars(&self, text: &mut String, traced: bool) {
        let of_kind = |group: &BarGroup, show: &dyn Fn(&Bar) -> String| {
            let bars = group.bars.iter().filter(|bar| bar.program.is_traced() == traced);
            bars.fold(String::new(), |line, bar| format!("{line} {:>12}", show(bar)))
        };
        let names = of_kind(&self.groups[0], &|bar| bar.program.workload().to_owned());
        let _ = writeln!(text, "{:<18} {:<10}{names}", "", "");
        for group in &self.groups {
            let costs = of_kind(group, &|bar| bar.cost.map_or_else(|| "no time".to_owned(), |(cost, _)| percent(cost)));
            let _ = writeln!(text, "{:<18} {:<10}{costs}", group.setting.panel, group.setting.path);
        }
    }

    fn csv(&self) -> String {
        let heads = ["panel", "path", "nodes", "mtbce_seconds", "workload", "slowdown", "uncertainty"];
        let row = |FigureSetting { panel, path, errors, .. }: &FigureSetting, bar: &Bar| {
            let (cost, half) = bar.cost.unwrap_or((f64::INFINITY, f64::NAN));
            let mean = errors.mean.as_secs_f64();
            [
                panel.to_string(),
                path.to_string(),
                bar.nodes.to_string(),
                mean.to_string(),
                bar.program.name(),
                cost.to_string(),
                half.to_string(),
            ]
        };
        csv(heads, self.groups.iter().flat_map(|group| group.bars.iter().map(|bar| row(&group.setting, bar))))
    }

    fn document(&self) -> Value {
        let bar = |bar: &Bar| {
            let (cost, half) = bar.cost.unzip();
            let (name, kind) = (bar.program.name(), bar.program.kind());
            json!({ "workload": name, "kind": kind, "nodes": bar.nodes, "slowdown": cost, "uncertainty": half })
        };
        let group = |group: &BarGroup| {
            let FigureSetting { panel, path, errors, .. } = &group.setting;
            json!({
                "panel": panel, "path": path, "mtbce_seconds": errors.mean.as_secs_f64(),
                "bars": group.bars.iter().map(bar).collect::<Vec<_>>(),
            })
        };
        let claim = |claim: &FigureClaim| {
            let of_kind = |traced| {
                let (least, most, holds) = self.check(claim, traced)?;
                Some(json!({ "least": least, "most": most, "holds": holds }))
            };
            json!({ "words": claim.words, "skeletons": of_kind(false), "traces": of_kind(true) })
        };
        json!({
            "schema": "rampart.sweep/2",
            "figure": self.figure.number(),
            "shows": self.figure.shows(),
            "extrapolated": !self.whole,
            "groups": self.groups.iter().map(group).collect::<Vec<_>>(),
            "claims": self.figure.claims().iter().map(claim).collect::<Vec<_>>(),
        })
    }

    fn page(&self) -> String {
        let title = format!("Figure {}: {}", self.figure.number(), self.figure.shows());
        let of_both = |claim: &FigureClaim| {
            [false, true].into_iter().filter_map(|traced| self.row(claim, traced)).collect::<Vec<_>>()
        };
        let claims = self.figure.claims();
        let body = html! {
            h1 { (title) }
            p.soft {
                "The slowdown by corrected errors, in % of the time without them, with the 95 % interval. No bar: below \
                0.01 %. A bar of 10000 %: as much or more, or errors leave the program no time."
            }
            @for panel in self.panels() {
                @let groups = self.of_panel(panel);
                h2 { (heading(panel, &groups[0].setting.errors.mean.to_string())) }
                @for traced in self.kinds() {
                    (html::figure(&[], chart::svg(&groups, traced), self.shape(traced)))
                }
            }
            h2 { "The claims of [Ferreira21]" }
            (html::table(&["statement", "of", "#here, from", "#to", ""], claims.iter().flat_map(of_both)))
        };
        html::document(&title, &body)
    }

    /// A claim beside what is so here for one kind of programs, if it is about what was simulated.
    fn row(&self, claim: &FigureClaim, traced: bool) -> Option<Vec<Markup>> {
        let (low, high, holds) = self.check(claim, traced)?;
        let class = if holds { "good" } else { "bad" };
        Some(vec![
            html! { (claim.words) },
            html! { (kind(traced)) },
            html! { (cost_text(low)) },
            html! { (cost_text(high)) },
            html! { span class=(class) { (sign(holds)) } },
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

/// The programs of these names, or all if there are none. A trace is no grid: all in `whole` grids are the skeletons.
fn requested(names: &[String], whole: bool) -> Result<Vec<KnownProgram>, Error> {
    if names.is_empty() {
        return Ok(KnownProgram::all().filter(|program| !(whole && program.is_traced())).collect());
    }
    let programs = names.iter().map(|name| Ok(KnownProgram::named(name)?));
    let programs = programs.collect::<Result<Vec<_>, Error>>()?;
    match programs.iter().find(|program| whole && program.is_traced()) {
        Some(traced) => Err(Error::NoGrid { name: traced.name() }),
        None => Ok(programs),
    }
}

/// What programs of a kind are called together.
fn kind(traced: bool) -> &'static str {
    if traced { "traces" } else { "skeletons" }
}

fn sign(holds: bool) -> &'static str {
    if holds { "holds" } else { "does not hold" }
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
