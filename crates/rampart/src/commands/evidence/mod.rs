//! `rampart evidence`: lists every table and figure of the five works with the command that regenerates it.
//!
//! **Problem.** Nobody can tell from a tree of benches, experiments and documents which results of the works were
//! repeated, and which were left out. **Idea.** A list has a row for each numbered table and figure; tests hold it
//! complete, and each command in it valid. **Why this way.** What is missing is as easy to find as what is there.

pub mod arguments;
mod exhibit;
mod ferreira21;
mod fiala15;
mod gao13;
mod panwar15;
mod rahman16;
mod table;
#[cfg(test)]
mod tests;
mod works;

use serde_json::json;

use self::arguments::EvidenceArguments;
use self::exhibit::Exhibit;
use self::works::{CitedWork, ExhibitCounts, WORKS};
use crate::error::Error;
use crate::output::text;

/// Prints the tables and figures of one work, or of all.
pub fn run(arguments: &EvidenceArguments) -> Result<u8, Error> {
    let works: Vec<&CitedWork> =
        WORKS.iter().filter(|work| arguments.key.is_none_or(|chosen| chosen == work.key)).collect();
    if arguments.json {
        text::print_json(&document(&works, arguments.missing))?;
    } else {
        text::print(&table::of(&works, arguments.missing))?;
    }
    Ok(0)
}

/// The JSON of these works. Counts are of all tables and figures, also if only those that are missing are listed.
fn document(works: &[&CitedWork], only_missing: bool) -> serde_json::Value {
    let works: Vec<_> = works
        .iter()
        .map(|work| {
            let exhibits: Vec<&Exhibit> = work.exhibits(only_missing).collect();
            let counts = ExhibitCounts::of(work.exhibits(false));
            json!({ "key": work.key, "title": work.title, "exhibits": exhibits, "counts": counts })
        })
        .collect();
    json!({ "schema": "rampart.evidence/1", "works": works })
}
