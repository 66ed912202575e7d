//! `rampart banks replay`: how many banks stay free of the kernel's memory under recorded or made-up loads.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use rampart_banks::{
    AllocatorName, BankLayout, BankSource, EnergyReport, MachineSettings, PageEvent, PowerModel, ReplayReport,
    ReplaySettings, SyntheticLoad, SyntheticSettings, replay, run_synthetic,
};
use rampart_linux::{MemoryState, Roots, own_memory};
use rampart_memory::Bytes;
use serde::Serialize;

use super::arguments::ReplayArguments;
use crate::error::Error;
use crate::inputs::page_trace;
use crate::output::text;

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    allocator: AllocatorName,
    layout: BankLayout,
    settings: Settings,
    #[serde(flatten)]
    report: &'a ReplayReport,
    /// `None` if no time passed.
    energy: Option<EnergyReport>,
}

/// What was asked for; null where it does not apply.
#[derive(Serialize)]
struct Settings {
    memory: Bytes,
    nodes: u32,
    load: Option<SyntheticLoad>,
    loops: Option<u32>,
    survivors_percent: Option<u32>,
    reserve_percent: u32,
    migrates: bool,
    seed: u64,
}

/// Replays the traces, or runs the made-up load. Returns 0.
pub fn run(arguments: &ReplayArguments) -> Result<u8, Error> {
    // A small file may decompress to more than there is: then only this process ends.
    own_memory::limit(MemoryState::read(&Roots::default())?.available())?;
    let banks = match arguments.bank {
        Some(size) => BankLayout::requested(size),
        None => BankLayout::assumed(arguments.memory),
    };
    let machine = MachineSettings {
        allocator: arguments.allocator.into(),
        memory: arguments.memory,
        bank: banks.size,
        nodes: arguments.nodes,
        reserve_percent: arguments.reserve,
        migrates: !arguments.no_migration,
    };
    let report = match arguments.load {
        Some(load) => run_synthetic(SyntheticSettings {
            machine,
            load: load.into(),
            minutes: (arguments.time.as_secs() / 60).max(1),
            seed: arguments.seed,
        })?,
        None => replay_traces(arguments, machine)?,
    };
    let energy = report.energy(&PowerModel::from(&arguments.power), machine.bank);
    if arguments.json {
        let (loops, survivors) = (arguments.loops, arguments.survivors);
        text::print_json(&Document {
            schema: "rampart.replay/1",
            allocator: machine.allocator,
            layout: banks,
            settings: Settings {
                memory: machine.memory,
                nodes: machine.nodes,
                load: arguments.load.map(Into::into),
                loops: arguments.load.is_none().then_some(loops),
                survivors_percent: arguments.load.is_none().then_some(survivors),
                reserve_percent: machine.reserve_percent,
                migrates: machine.migrates,
                seed: arguments.seed,
            },
            report: &report,
            energy,
        })?;
    } else {
        let energy = energy.as_ref().map(shown_energy).unwrap_or_default();
        text::print(&(shown(&report, machine, &banks) + &energy))?;
    }
    Ok(0)
}

fn replay_traces(arguments: &ReplayArguments, machine: MachineSettings) -> Result<ReplayReport, Error> {
    let read = |path: &PathBuf| page_trace::read(path).map_err(|why| Error::PageTrace { path: path.clone(), why });
    let traces: Vec<Vec<PageEvent>> = arguments.traces.iter().map(read).collect::<Result<_, _>>()?;
    let settings = ReplaySettings {
        machine,
        loops: arguments.loops,
        survivors_percent: arguments.survivors,
        seed: arguments.seed,
    };
    Ok(replay(&traces, settings)?)
}

const fn named(allocator: AllocatorName) -> &'static str {
    match allocator {
        AllocatorName::Buddy => "buddy system of Linux",
        AllocatorName::Array => "array of banks",
        AllocatorName::List => "lists of banks",
        AllocatorName::Adaptive => "Adaptive-Buddy",
        AllocatorName::AdaptiveArbitrary => "Adaptive-Buddy that steals any bank",
        AllocatorName::Fullest => "fullest bank first",
    }
}

#[expect(clippy::cast_precision_loss, reason = "simulated seconds for people")]
fn shown(report: &ReplayReport, settings: MachineSettings, banks: &BankLayout) -> String {
    let average = &report.average;
    let mut text = String::new();
    let _ = writeln!(
        text,
        "served      {} requests, {} refused, in {:.0} s of simulated time",
        text::count(report.requests),
        text::count(report.refused),
        report.micros as f64 / 1e6
    );
    if report.refused > 0 {
        text += "refused     the machine lacks memory for this load: give a larger --memory\n";
    }
    let source = if banks.source == BankSource::Assumed { " (assumed)" } else { "" };
    let _ = writeln!(
        text,
        "machine     {} in {} banks of {}{source}, {}",
        settings.memory,
        report.banks,
        banks.size,
        named(settings.allocator)
    );
    let _ = writeln!(
        text,
        "removable   {} of the banks on average: no memory of the kernel lies in them; {} are empty",
        text::percent(average.removable),
        text::percent(average.empty)
    );
    let _ = writeln!(
        text,
        "offlinable  {} of the banks on average, {} at best, with {} % of the memory kept free",
        text::percent(average.offlinable),
        text::percent(average.optimum),
        settings.reserve_percent
    );
    let _ = writeln!(
        text,
        "c           {:.2}: offlinable memory over free memory ({} of all)",
        average.offlined_of_free,
        text::percent(average.free)
    );
    if let (Some(offline), Some(of_free)) = (average.offline, average.offline_of_free) {
        let _ = writeln!(
            text,
            "offline     {} of the banks on average, c {of_free:.2}; moved {} to empty {} banks, and failed with {}",
            text::percent(offline),
            report.migration.moved,
            text::count(report.migration.emptied),
            text::count(report.migration.failed)
        );
    }
    text
}

fn shown_energy(energy: &EnergyReport) -> String {
    let mut text = format!("energy      {} of that of all banks in active-idle", text::percent(energy.share));
    if let Some(joules) = energy.joules {
        let _ = write!(text, ": {:.1} J of {:.1} J", joules.used, joules.all_on);
    }
    let part = |part: Option<f64>| part.map_or_else(|| "not counted".to_owned(), text::percent);
    let _ = writeln!(
        text,
        "; {} changes of state: {}, migration: {}",
        text::count(energy.change_count),
        part(energy.changes),
        part(energy.migration)
    );
    if let Some(nanos) = energy.break_even_nanos.filter(|&nanos| nanos > 0) {
        let time = text::duration(Duration::from_nanos(nanos).as_secs_f64());
        let _ = writeln!(text, "break-even  a bank saves energy once it is off for more than {time}");
    }
    for what in &energy.assumed {
        let _ = writeln!(text, "assumed     {what}");
    }
    text
}
