//! `rampart march`: shows march tests, and proves which faults they find.

use std::fmt::Write as _;

use clap::Subcommand;
use rampart_march::named::NAMED;
use rampart_march::simulator::{CoverageTable, Kind, prove};
use rampart_march::{MarchChoice, MarchTest, NamedTest};
use serde_json::json;

use crate::error::Error;
use crate::output::text;

/// Commands of `rampart march`.
#[derive(Debug, Subcommand)]
pub enum MarchCommand {
    /// List the named tests
    List {
        /// Print one JSON document instead of text
        #[arg(long)]
        json: bool,
    },
    /// Show one test in full
    Show {
        /// A name, or a test in march notation
        test: MarchChoice,
        /// Print one JSON document instead of text
        #[arg(long)]
        json: bool,
    },
    /// Prove which faults tests find, by the fault simulator
    Prove {
        /// A name, or a test in march notation [default: all named tests]
        test: Option<MarchChoice>,
        /// Print one JSON document instead of text
        #[arg(long)]
        json: bool,
    },
}

/// Runs one of the commands.
pub fn run(command: MarchCommand) -> Result<u8, Error> {
    match command {
        MarchCommand::List { json } => list(json)?,
        MarchCommand::Show { test, json } => show_one(&test, json)?,
        MarchCommand::Prove { test, json } => {
            let tests = match test {
                Some(choice) => vec![choice],
                None => NAMED.iter().map(|named| MarchChoice { named: Some(named), test: named.test() }).collect(),
            };
            prove_all(&tests, json)?;
        }
    }
    Ok(0)
}

fn list(json: bool) -> Result<(), Error> {
    if json {
        let tests: Vec<_> = NAMED.iter().map(|named| describe(Some(named), &named.test())).collect();
        return text::print_json(&tests);
    }
    let mut text = String::new();
    for named in &NAMED {
        let _ = writeln!(text, "{:<10} {:>2}n  {}", named.name, named.test().length(), named.notation);
    }
    text::print(&text)
}

fn describe(named: Option<&NamedTest>, test: &MarchTest) -> serde_json::Value {
    json!({
        "name": named.map(|named| named.name),
        "notation": test.to_string(),
        "ascii": format!("{test:#}"),
        "operations_per_line": test.length(),
        "reads": test.reads(),
        "writes": test.writes(),
        "delays": test.delays(),
        "source": named.map(|named| named.source),
    })
}

fn show_one(choice: &MarchChoice, json: bool) -> Result<(), Error> {
    let test = &choice.test;
    if json {
        return text::print_json(&describe(choice.named, test));
    }
    let mut text = String::new();
    if let Some(named) = choice.named {
        let _ = writeln!(text, "name        {}", named.name);
        let _ = writeln!(text, "published   {}", named.source);
    }
    let delays = match test.delays() {
        0 => String::new(),
        count => format!(", {count} delays"),
    };
    let _ = writeln!(text, "test        {test}");
    let _ = writeln!(text, "to type     {test:#}");
    let _ = writeln!(
        text,
        "length      {}n: {} reads and {} writes of each line{delays}",
        test.length(),
        test.reads(),
        test.writes()
    );
    text.push_str("finds\n");
    write_coverage(&mut text, &prove(test));
    text::print(&text)
}

/// Appends the coverage of each kind of fault, with its meaning.
fn write_coverage(text: &mut String, table: &CoverageTable) {
    for proof in table.proofs() {
        let _ = writeln!(text, "  {:<13} {:>5} %  {}", proof.kind, percent(proof.percent()), proof.kind.meaning());
    }
}

/// A percentage with at most one decimal, such as 100 or 37.5.
fn percent(value: f64) -> String {
    let tenths = format!("{value:.1}");
    tenths.strip_suffix(".0").unwrap_or(&tenths).to_owned()
}

/// The kinds of faults in the summary: those of published tables. A single test is shown with all kinds.
const SUMMARY: [Kind; 13] = [
    Kind::StuckAt,
    Kind::Transition,
    Kind::Address,
    Kind::StuckOpen,
    Kind::Retention,
    Kind::Inversion,
    Kind::Idempotent,
    Kind::State,
    Kind::WriteDisturb,
    Kind::DeceptiveRead,
    Kind::Disturb,
    Kind::LinkedIdempotent,
    Kind::LinkedInversion,
];

fn prove_all(tests: &[MarchChoice], json: bool) -> Result<(), Error> {
    let proofs: Vec<(&MarchChoice, CoverageTable)> = tests.iter().map(|choice| (choice, prove(&choice.test))).collect();
    if json {
        let documents: Vec<_> = proofs
            .iter()
            .map(|(choice, table)| json!({ "test": describe(choice.named, &choice.test), "coverage": table }))
            .collect();
        return text::print_json(&documents);
    }
    let mut text = String::from("% of faults found: 4 cells, from every initial state, in both directions of each ⇕\n");
    if let [(_, table)] = proofs.as_slice() {
        write_coverage(&mut text, table);
    } else {
        summary(&mut text, &proofs);
    }
    text::print(&text)
}

fn summary(text: &mut String, proofs: &[(&MarchChoice, CoverageTable)]) {
    let _ = write!(text, "{:<9} {:>3}", "test", "kN");
    for kind in SUMMARY {
        let _ = write!(text, " {kind:>5}");
    }
    text.push('\n');
    for (choice, table) in proofs {
        let name = choice.named.map_or("(yours)", |named| named.name);
        let _ = write!(text, "{name:<9} {:>3}", choice.test.length());
        for kind in SUMMARY {
            let _ = write!(text, " {:>width$}", percent(table.of(kind).percent()), width = kind.name().len().max(5));
        }
        text.push('\n');
    }
    text.push_str("`rampart march prove NAME` shows all kinds, with their meaning\n");
}
