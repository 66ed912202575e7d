//! `rampart test`: tests free memory once.

pub mod arguments;

use std::path::PathBuf;

use rampart_diagnostic::{DimmChoice, FrameChoice, MachineUnderTest, TestRequest, TestSource, once};
use rampart_memory::{Node, Timestamp};

use self::arguments::{SourceChoice, TestArguments};
use crate::error::Error;
use crate::inputs::pools::machine_beside_pools;
use crate::inputs::{dimm_map, store};
use crate::output::progress::TestProgressLine;
use crate::output::verbosity::Verbosity;
use crate::output::{colour, report as report_text, text};
use crate::process::signals::stop_flag;

/// Tests memory. Returns 0 if all requested memory is good, 1 if bad frames were found, 2 if not all could be tested.
pub fn run(arguments: &TestArguments, path: Option<PathBuf>, verbosity: Verbosity) -> Result<u8, Error> {
    let machine = machine_beside_pools();
    let request = request(arguments, &machine)?;
    let began = machine.clock.now();
    let store = store::open(path.clone(), began)?;
    let stop = stop_flag()?;
    let line = TestProgressLine::new(arguments.json, verbosity);
    let report = once::run(&request, &machine, store, &stop, &line);
    line.end();
    let report = report?;
    if arguments.json {
        text::print_json(&report)?;
    } else {
        text::print(&colour::verdicts(&report_text::report(&report, verbosity)))?;
    }
    let is_of_all = arguments.memory.is_none() && arguments.inject.is_none() && !is_chosen(arguments);
    if is_of_all && report.incomplete.is_none() {
        note_test(path, began)?;
    }
    Ok(report.verdict.exit_code())
}

/// This node is suspect no more for what MPI jobs had wrong here before.
fn note_test(path: Option<PathBuf>, began: Timestamp) -> Result<(), Error> {
    let Some(node) = rampart_linux::host_name() else { return Ok(()) };
    let mut store = store::open_to_read(path, began)?;
    let is_suspect = store.read_only().is_none() && store.suspect_nodes(began)?.iter().any(|one| one.node == node);
    if is_suspect { Ok(store.keep_node_test(&node, began)?) } else { Ok(()) }
}

/// Whether only some frames are to be tested.
fn is_chosen(arguments: &TestArguments) -> bool {
    arguments.used || arguments.dimm.is_some() || !arguments.frames.is_empty() || !arguments.node.is_empty()
}

fn request(arguments: &TestArguments, machine: &MachineUnderTest) -> Result<TestRequest, Error> {
    Ok(TestRequest {
        memory: arguments.memory,
        name: arguments.march.named.map(|named| named.name.to_owned()),
        march: arguments.march.test.clone(),
        fidelity: arguments.fidelity,
        sequences: arguments.sequence.list(),
        threads: arguments.threads,
        duration: arguments.duration,
        passes: arguments.passes,
        delay: arguments.delay,
        retention: arguments.retention,
        engine: arguments.instructions,
        method: arguments.method.map(Into::into),
        inject: arguments.inject.clone(),
        seed: arguments.seed,
        source: source(arguments, machine)?,
    })
}

/// Where the memory comes from: if frames are chosen, it can only be the kernel module.
fn source(arguments: &TestArguments, machine: &MachineUnderTest) -> Result<TestSource, Error> {
    let is_chosen = is_chosen(arguments);
    match arguments.source {
        Some(SourceChoice::Free) if is_chosen => Err(Error::FreeIsNotChosen),
        None | Some(SourceChoice::Free) if !is_chosen => Ok(TestSource::FreeMemory),
        _ if arguments.memory.is_some() || arguments.inject.is_some() => Err(Error::ChosenByNumber),
        _ => Ok(TestSource::Kernel(FrameChoice {
            ranges: arguments.frames.clone(),
            nodes: arguments.node.iter().copied().map(Node).collect(),
            dimm: dimm(arguments, machine)?,
            used: arguments.used,
        })),
    }
}

/// The DIMM that was named, if one was.
fn dimm(arguments: &TestArguments, machine: &MachineUnderTest) -> Result<Option<DimmChoice>, Error> {
    let Some(name) = &arguments.dimm else { return Ok(None) };
    let found = match &arguments.dimm_map {
        Some(path) => DimmChoice::of_list(name, &dimm_map::read(path)?),
        None => DimmChoice::of_machine(name, machine),
    };
    Ok(Some(found?))
}
