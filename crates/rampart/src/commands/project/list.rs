//! `rampart project --list`: systems, workloads and networks, with the sources of their numbers.

use std::fmt::Write as _;

use rampart_scale::network::NETWORKS;
use rampart_scale::project::PreparedProgram;
use rampart_scale::system::SYSTEMS;
use rampart_scale::time::Time;
use rampart_scale::{KnownProgram, LogGops};
use serde_json::{Value, json};

use crate::error::Error;
use crate::output::text;

/// A program in the list.
struct ListedProgram {
    name: String,
    kind: &'static str,
    what: &'static str,
    source: &'static str,
    /// The time of what is repeated: in a skeleton the computing alone, in a trace everything.
    time: Time,
    /// The collectives of all ranks in it.
    collectives: usize,
}

impl ListedProgram {
    fn of(program: &KnownProgram) -> Result<Self, Error> {
        let (name, kind) = (program.name(), program.kind());
        Ok(match program {
            KnownProgram::Skeleton(workload) => Self {
                name,
                kind,
                what: workload.what,
                source: workload.source,
                time: workload.computing(),
                collectives: workload.collectives(),
            },
            KnownProgram::Traced(traced) => Self {
                name,
                kind,
                what: traced.what,
                source: traced.source,
                time: PreparedProgram::traced(traced, traced.ranks, &LogGops::cray_xc40())?.cycle(),
                collectives: traced.collectives(),
            },
        })
    }

    fn document(&self) -> Value {
        json!({
            "name": self.name, "kind": self.kind, "what": self.what, "source": self.source,
            "computing_seconds": self.time.as_secs_f64(), "collectives": self.collectives,
        })
    }
}

/// Shows the list.
pub fn show(json: bool) -> Result<(), Error> {
    let programs = KnownProgram::all().map(|program| ListedProgram::of(&program)).collect::<Result<Vec<_>, _>>()?;
    if json {
        return text::print_json(&json!({
            "systems": SYSTEMS.map(|system| json!({
                "name": system.name, "mtbce_seconds": system.mtbce_secs, "errors_a_year": system.errors_a_year,
                "nodes": system.nodes, "simulated": system.simulated,
            })),
            "workloads": programs.iter().map(ListedProgram::document).collect::<Vec<_>>(),
            "networks": NETWORKS.map(|(name, _)| name),
        }));
    }
    let mut text = String::from("systems (--system), by the mean time between corrected errors of a node\n");
    for system in SYSTEMS {
        let nodes = system.simulated.map_or_else(String::new, |nodes| format!(", {} nodes", text::count(nodes.into())));
        let _ = writeln!(text, "  {:<21} {}{nodes}", system.name, Time::from_secs_f64(system.mtbce_secs));
    }
    for (kind, heading) in [
        ("trace", "traces of real programs (--workload), by the length and the collectives of the repeated part"),
        ("skeleton", "skeletons (--workload), by what they compute and reduce in a cycle"),
    ] {
        let _ = writeln!(text, "{heading}");
        for ListedProgram { name, what, source, time, collectives, .. } in
            programs.iter().filter(|program| program.kind == kind)
        {
            let _ = writeln!(text, "  {name:<21} {time}, {collectives} reduced: {what}");
            let _ = writeln!(text, "  {:<21} {source}", "");
        }
    }
    let _ = writeln!(text, "networks (--network)\n  {}", NETWORKS.map(|(name, _)| name).join(", "));
    text::print(&text)
}
