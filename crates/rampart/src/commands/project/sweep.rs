//! `rampart project sweep`: a figure of Ferreira et al., ours beside their words.

use std::fmt::Write as _;
use std::fs;

use rampart_scale::ParallelRuns;
use rampart_scale::project::claims::FigureClaim;
use rampart_scale::project::figure::{Figure, FigureSetting};
use rampart_scale::project::{PreparedProgram, Projection};
use rampart_scale::workload::Workload;
use rampart_scale::{Error as ScaleError, LogGops};
use serde_json::{Value, json};

use super::arguments::SweepArguments;
use super::bars::{Bar, Group};
use super::chart;
use super::program::{program, threads};
use crate::error::Error;
use crate::output::html;
use crate::output::progress::StepProgress;
use crate::output::text;
use crate::output::text::percent;
use crate::process::signals;

/// A figure, simulated.
pub struct Drawn {
    /// Which.
    pub figure: Figure,
    /// Its groups.
    pub groups: Vec<Group>,
    /// Whether programs are one grid of all ranks.
    pub whole: bool,
}

/// Runs all of it, shows the numbers, and writes what was asked for.
pub fn run(arguments: &SweepArguments) -> Result<(), Error> {
    let drawn = Drawn::simulated(arguments)?;
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

impl Drawn {
    fn simulated(arguments: &SweepArguments) -> Result<Self, Error> {
        let figure = Figure::new(arguments.figure)?;
        let settings = figure.settings(arguments.seed)?;
        let stop = signals::stop_flag()?;
        let workshop = ParallelRuns { threads: threads(), stop: &stop, done: &|_| {} };
        let mut groups: Vec<Group> = settings.into_iter().map(|setting| Group { setting, bars: Vec::new() }).collect();
        let workloads = asked(&arguments.workload)?;
        let (steps, mut done, all) = (StepProgress::new(), 0, groups.len() * workloads.len());
        // A program is worked out once for each number of nodes.
        for workload in workloads {
            let mut prepared: Option<(u32, PreparedProgram)> = None;
            for group in &mut groups {
                let nodes = group.setting.nodes;
                let ready = match prepared.take() {
                    Some((of, ready)) if of == nodes => ready,
                    _ => {
                        let program = program(&workload, !arguments.whole, nodes)?;
                        PreparedProgram::new(&program, &LogGops::cray_xc40())?
                    }
                };
                let cost = match ready.ask(&group.setting.errors, arguments.seeds, arguments.errors, &workshop) {
                    Ok(projection) => Some((Projection::cost(&projection), projection.uncertainty())),
                    Err(ScaleError::NoTimeLeft { .. } | ScaleError::TooLong) => None,
                    Err(error) => return Err(error.into()),
                };
                group.bars.push(Bar { workload: workload.name, nodes: ready.nodes(), cost });
                prepared = Some((nodes, ready));
                done += 1;
                steps.set(done, all);
            }
        }
        steps.end();
        Ok(Self { figure, groups, whole: arguments.whole })
    }

    /// What the ranks of a program are.
    fn shape(&self) -> &'static str {
        if self.whole {
            "one grid of all ranks"
        } else {
            "copies of traced ranks, as Ferreira et al. extrapolate theirs"
        }
    }

    /// What was found of a claim: the least and the most, and whether it holds.
    fn judged(&self, claim: &FigureClaim) -> Option<(f64, f64, bool)> {
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
        for Group { setting, bars } in &self.groups {
            let _ = write!(text, "{:<18} {:<10}", setting.panel, setting.path);
            for bar in bars {
                let _ =
                    write!(text, " {:>12}", bar.cost.map_or_else(|| "no time".to_owned(), |(cost, _)| percent(cost)));
            }
            text.push('\n');
        }
        for claim in self.figure.claims() {
            let Some((least, most, holds)) = self.judged(&claim) else { continue };
            let sign = if holds { "holds" } else { "does not hold" };
            let _ = writeln!(text, "{sign:<14} {}: here {} to {}", claim.words, shown(least), shown(most));
        }
        text
    }

    fn csv(&self) -> String {
        let mut text = String::from("panel,path,nodes,mtbce_seconds,workload,slowdown,uncertainty\n");
        for Group { setting, bars } in &self.groups {
            for bar in bars {
                let (cost, half) = bar.cost.unwrap_or((f64::INFINITY, f64::NAN));
                let mean = setting.errors.mean.as_secs_f64();
                let (FigureSetting { panel, path, .. }, Bar { workload, nodes, .. }) = (setting, bar);
                let _ = writeln!(text, "{panel},{path},{nodes},{mean},{workload},{cost},{half}");
            }
        }
        text
    }

    fn document(&self) -> Value {
        let bar = |bar: &Bar| {
            let (cost, half) = bar.cost.unzip();
            json!({ "workload": bar.workload, "nodes": bar.nodes, "slowdown": cost, "uncertainty": half })
        };
        let group = |group: &Group| {
            let FigureSetting { panel, path, errors, .. } = &group.setting;
            json!({
                "panel": panel, "path": path, "mtbce_seconds": errors.mean.as_secs_f64(),
                "bars": group.bars.iter().map(bar).collect::<Vec<_>>(),
            })
        };
        let claim = |claim: &FigureClaim| {
            let judged = self.judged(claim);
            json!({ "words": claim.words, "least": judged.map(|of| of.0), "most": judged.map(|of| of.1), "holds": judged.map(|of| of.2) })
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
        let mut body = format!(
            "<h1>{}</h1>\n<p class=soft>What corrected errors cost, in % of the time without them, with the interval of 95 %. Programs \
            are {}. No bar: below 0.01 %. A bar of 10000 %: as much or more, or errors leave the program no time.</p>\n",
            html::escape(&title),
            self.shape()
        );
        for panel in self.panels() {
            let groups = self.of_panel(panel);
            let every = groups[0].setting.errors.mean.to_string();
            let _ = writeln!(
                body,
                "<h2>{}</h2>\n<figure>\n{}\n</figure>",
                html::escape(&heading(panel, &every)),
                chart::svg(&groups)
            );
        }
        body.push_str("<h2>What Ferreira et al. say of it</h2>\n<div class=table><table>\n<tr><th>statement<th class=number>here, from<th class=number>to<th>\n");
        for claim in self.figure.claims() {
            let Some((least, most, holds)) = self.judged(&claim) else { continue };
            let (class, sign) = if holds { ("good", "holds") } else { ("bad", "does not hold") };
            let _ = writeln!(
                body,
                "<tr><td>{}<td class=number>{}<td class=number>{}<td class={class}>{sign}",
                html::escape(claim.words),
                shown(least),
                shown(most)
            );
        }
        body.push_str("</table></div>\n");
        html::document(&title, &body)
    }

    /// Each once: of some, software and firmware are asked about apart.
    fn panels(&self) -> Vec<&str> {
        let mut panels: Vec<&str> = Vec::new();
        for Group { setting, .. } in &self.groups {
            if !panels.contains(&setting.panel.as_str()) {
                panels.push(&setting.panel);
            }
        }
        panels
    }

    fn of_panel(&self, panel: &str) -> Vec<&Group> {
        self.groups.iter().filter(|group| group.setting.panel == panel).collect()
    }
}

/// The workloads of these names; of none, all.
fn asked(names: &[String]) -> Result<Vec<Workload>, ScaleError> {
    if names.is_empty() {
        Ok(Figure::workloads().to_vec())
    } else {
        names.iter().map(|name| Workload::named(name)).collect()
    }
}

/// What is above a panel, which is named by its system or by how often errors come.
fn heading(panel: &str, every: &str) -> String {
    if panel == every {
        format!("An error every {every} on a node")
    } else {
        format!("{panel}: an error every {every} on a node")
    }
}

fn shown(cost: f64) -> String {
    if cost.is_finite() { percent(cost) } else { "no time left".to_owned() }
}
