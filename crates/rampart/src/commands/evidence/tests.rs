//! The list is complete, and what it names exists.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser as _;
use rampart_scale::project::figure::Figure;

use super::arguments::WorkKey;
use super::exhibit::{Exhibit, ExhibitKind, ExhibitState};
use super::works::{CitedWork, ExhibitCounts, WORKS};
use crate::cli::{Arguments, Command};
use crate::commands::project::arguments::{FigureChoice, ProjectCommand};

/// The chapters (0: the whole work, whose numbers have no chapter) with their last number; numbers begin at 1.
type Chapters = &'static [(u32, u32)];

/// What the works number, from their lists of figures and tables and from the captions.
const NUMBERED: [(WorkKey, Chapters, Chapters); 5] = [
    (WorkKey::Rahman16, &[(0, 34)], &[(0, 9)]),
    (WorkKey::Gao13, &[(0, 10)], &[]),
    (WorkKey::Fiala15, &[(3, 17), (4, 6), (5, 10)], &[(3, 12), (4, 6), (5, 8)]),
    (WorkKey::Panwar15, &[(2, 4), (4, 3), (5, 5), (6, 3)], &[(1, 2), (4, 2), (5, 2), (6, 4)]),
    (WorkKey::Ferreira21, &[(0, 7)], &[(0, 2)]),
];

/// How many tables and figures there are in all.
const ALL: usize = 146;

/// The root of the tree.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates/rampart lies two folders below the root")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn exhibits() -> impl Iterator<Item = (WorkKey, &'static Exhibit)> {
    WORKS.iter().flat_map(|work| work.exhibits(false).map(|exhibit| (work.key, exhibit)))
}

/// The numbers that a work must have, in order.
fn numbers(key: WorkKey, chapters: Chapters, kind: ExhibitKind) -> Vec<String> {
    let name = |chapter: u32, number: u32| match (key, kind) {
        (WorkKey::Ferreira21, ExhibitKind::Table) => "I".repeat(number as usize),
        _ if chapter == 0 => number.to_string(),
        _ => format!("{chapter}.{number}"),
    };
    chapters.iter().flat_map(|&(chapter, last)| (1..=last).map(move |number| name(chapter, number))).collect()
}

#[test]
fn every_numbered_table_and_figure_of_the_five_works_is_listed_once() {
    assert_eq!(WORKS.map(|work| work.key), NUMBERED.map(|(key, ..)| key));
    for (work, (key, figures, tables)) in WORKS.iter().zip(NUMBERED) {
        for (kind, chapters) in [(ExhibitKind::Figure, figures), (ExhibitKind::Table, tables)] {
            let of_kind = work.exhibits(false).filter(|exhibit| exhibit.kind == kind);
            let listed: Vec<&str> = of_kind.map(|exhibit| exhibit.number).collect();
            assert_eq!(listed, numbers(key, chapters, kind), "{key:?}");
        }
    }
    assert_eq!(exhibits().count(), ALL);
}

#[test]
fn the_five_works_are_those_of_the_references() {
    let references = read("docs/references.md");
    let section = references.split("\n## ").nth(1).expect("the first section has the works");
    let rows: Vec<&str> = section.lines().filter(|line| line.starts_with("| ") && !line.contains("| key |")).collect();
    assert_eq!(rows.len(), WORKS.len(), "{rows:?}");
    for (row, CitedWork { key, title, .. }) in rows.iter().zip(&WORKS) {
        assert!(row.starts_with(&format!("| {key:?} |")) && row.contains(&format!("*{title}*")), "{row}");
    }
}

#[test]
fn each_row_says_what_its_state_asks_for() {
    for (key, exhibit) in exhibits() {
        let Exhibit { kind, number, title, state, commands, results, remark } = exhibit;
        let place = format!("{key:?}, {} {number}", kind.name());
        assert!(!title.is_empty() && !title.ends_with('.'), "{place}");
        let has_remark = remark.is_some_and(|words| !words.is_empty());
        match state {
            ExhibitState::Regenerated => assert!(!commands.is_empty(), "{place}"),
            ExhibitState::InPart => assert!(!commands.is_empty() && has_remark, "{place}"),
            ExhibitState::Missing => assert!(commands.is_empty() && results.is_empty() && has_remark, "{place}"),
            ExhibitState::NotHere => assert!(results.is_empty() && has_remark, "{place}"),
            ExhibitState::Illustration => assert!(commands.is_empty() && results.is_empty(), "{place}"),
        }
    }
}

/// A result that inputs were fitted to says nothing about a model. docs/experiments.md has a row for each input, whose
/// last column names the tables and figures with such results.
#[test]
fn what_the_simulated_machine_is_calibrated_on_is_no_evidence() {
    let document = read("docs/experiments.md");
    let rows = document.lines().skip_while(|line| !line.ends_with("| no evidence |")).skip(2);
    let columns = rows.take_while(|line| line.starts_with('|')).map(|row| row.rsplit('|').nth(1).expect("a column"));
    let mut named: Vec<&str> = columns.flat_map(|column| column.split([',', ':'])).map(str::trim).collect();
    named.retain(|name| name.starts_with("figure ") || name.starts_with("table "));
    named.sort_unstable();
    named.dedup();
    let of_rahman = exhibits().filter(|(key, _)| *key == WorkKey::Rahman16).map(|(_, exhibit)| exhibit);
    let calibrated = of_rahman.filter(|exhibit| exhibit.remark.is_some_and(|remark| remark.contains("calibrated")));
    let mut listed = Vec::new();
    for exhibit in calibrated {
        assert_eq!(exhibit.state, ExhibitState::InPart, "{}", exhibit.number);
        listed.push(format!("{} {}", exhibit.kind.name(), exhibit.number));
    }
    listed.sort_unstable();
    assert_eq!(listed, named);
    assert!(listed.contains(&"figure 15".to_owned()));
    let is_repeated = |exhibit: &Exhibit| exhibit.commands.contains(&"rampart simulate figure15");
    assert!(!exhibits().any(|(_, exhibit)| is_repeated(exhibit)), "all of it is calibrated");
}

#[test]
fn counts_add_up() {
    let ExhibitCounts { all, regenerated, in_part, missing, not_here, illustrations } =
        ExhibitCounts::of(exhibits().map(|(_, exhibit)| exhibit));
    assert_eq!(all, regenerated + in_part + missing + not_here + illustrations);
    assert_eq!(all, ALL);
}

#[test]
fn every_command_in_the_list_is_one() {
    for (key, exhibit) in exhibits() {
        for command in exhibit.commands {
            let checked = check(command);
            assert!(checked.is_ok(), "{key:?} {}: {command}: {}", exhibit.number, checked.unwrap_err());
        }
    }
    for bad in [
        "rampart simulate figure99",
        "rampart simulates figure12",
        "rampart project sweep --figure 8",
        "cargo xtask bench nothing",
        "cargo xtask bench banks nothing",
        "cargo xtask qemu kernel_figures",
        "SCENARIOS=tests/qemu/measured cargo xtask qemu nothing",
        "cargo test -p rampart-codes nothing",
        "tests/qemu/nothing",
        "X=\"1 2",
    ] {
        assert!(check(bad).is_err(), "{bad}");
    }
}

/// The words of a command line, as a shell has them.
fn words(command: &str) -> Result<Vec<String>, String> {
    let mut words = vec![String::new()];
    let mut is_quoted = false;
    for c in command.chars() {
        match c {
            '"' => is_quoted = !is_quoted,
            ' ' if !is_quoted => words.push(String::new()),
            _ => words.last_mut().expect("there is a first word").push(c),
        }
    }
    if is_quoted { Err("a quotation does not end".to_owned()) } else { Ok(words) }
}

/// Whether a command line could be run: it parses, and what it names exists.
fn check(command: &str) -> Result<(), String> {
    let words = words(command)?;
    let is_setting =
        |word: &&String| word.split_once('=').is_some_and(|(name, _)| name.chars().all(char::is_uppercase));
    let settings: Vec<&String> = words.iter().take_while(is_setting).collect();
    let rest: Vec<&str> = words.iter().skip(settings.len()).map(String::as_str).collect();
    match rest.as_slice() {
        ["rampart", ..] => check_rampart(&rest),
        ["cargo", "xtask", "bench", name, options @ ..] => check_bench(name, options),
        ["cargo", "xtask", "qemu", "--patched", names @ ..] | ["cargo", "xtask", "qemu", names @ ..] => {
            let folder = settings.iter().find_map(|setting| setting.strip_prefix("SCENARIOS="));
            check_scenarios(folder.unwrap_or("tests/qemu/scenarios"), names)
        }
        ["cargo", "test", "-p", package, name] => check_test(package, name),
        [path] if path.starts_with("tests/") && root().join(path).is_file() => Ok(()),
        _ => Err("unknown command".to_owned()),
    }
}

/// Parsed as the command line is; the names that the parser takes as they are must exist, too.
fn check_rampart(words: &[&str]) -> Result<(), String> {
    let arguments = Arguments::try_parse_from(words).map_err(|error| error.to_string())?;
    match arguments.command {
        Command::Simulate(simulate) => {
            let name = simulate.name.ok_or("no experiment is named")?;
            rampart_studies::find(&name).map(drop).ok_or(format!("no experiment {name}"))
        }
        Command::Project(project) => match project.command {
            Some(ProjectCommand::Sweep(sweep)) => match sweep.figure {
                FigureChoice::Slowdown(number) => Figure::new(number).map(drop).map_err(|error| error.to_string()),
                FigureChoice::Replicas => Ok(()),
            },
            None if project.question.list => Ok(()),
            _ => Err("only figures and lists are regenerated".to_owned()),
        },
        _ => Ok(()),
    }
}

/// The bench is in the list of benches; of `banks`, its first option also has a function.
fn check_bench(name: &str, options: &[&str]) -> Result<(), String> {
    let benches = read("bench/src/main.rs");
    let row =
        benches.lines().find(|line| line.trim_start().trim_start_matches('(').starts_with(&format!("\"{name}\",")));
    if row.is_none() {
        return Err(format!("no bench {name}"));
    }
    let known = |option: &&str| read("bench/src/banks/mod.rs").contains(&format!("\"{option}\""));
    match options.first().filter(|_| name == "banks") {
        Some(option) if !known(option) => Err(format!("banks knows no {option}")),
        _ => Ok(()),
    }
}

fn check_scenarios(folder: &str, names: &[&str]) -> Result<(), String> {
    let is_absent = |name: &&&str| !root().join(folder).join(name).with_extension("sh").is_file();
    names.iter().find(is_absent).map_or(Ok(()), |name| Err(format!("{folder} has no {name}.sh")))
}

/// Some source of the package has the function.
fn check_test(package: &str, name: &str) -> Result<(), String> {
    let folder = root().join(package.replacen("rampart-", "crates/", 1)).join("src");
    let function = format!("fn {name}()");
    let has_it = |path: &PathBuf| fs::read_to_string(path).is_ok_and(|text| text.contains(&function));
    let sources = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let is_there = sources.filter_map(Result::ok).map(|entry| entry.path()).any(|path| has_it(&path));
    if is_there { Ok(()) } else { Err(format!("{package} has no test {name}")) }
}

#[test]
fn every_file_and_heading_in_the_list_exists() {
    for (key, exhibit) in exhibits() {
        for result in exhibit.results {
            let (path, anchor) = result.split_once('#').map_or((*result, None), |(path, anchor)| (path, Some(anchor)));
            assert!(root().join(path).is_file(), "{key:?} {}: {path}", exhibit.number);
            let headings =
                || read(path).lines().filter(|line| line.starts_with('#')).map(anchor_of).collect::<Vec<_>>();
            if let Some(anchor) = anchor {
                assert!(headings().iter().any(|heading| heading == anchor), "{key:?} {}: {result}", exhibit.number);
            }
        }
    }
}

/// The name by which a link in Markdown reaches a heading.
fn anchor_of(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
    text.chars().filter(|c| c.is_alphanumeric() || "-_".contains(*c)).collect()
}

#[test]
fn every_document_and_bench_in_a_remark_exists() {
    for remark in exhibits().filter_map(|(_, exhibit)| exhibit.remark) {
        for path in remark.split([' ', ',', ';']).filter(|word| word.starts_with("docs/")) {
            assert!(root().join(path).is_file(), "{path}");
        }
        for bench in remark.split('`').skip(1).step_by(2).filter(|code| code.starts_with("cargo xtask bench ")) {
            assert_eq!(check(bench), Ok(()), "{bench}");
        }
    }
}
