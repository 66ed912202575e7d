//! `rampart banks replay`: how many banks stay free of the kernel's memory under recorded or made-up loads.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use rampart_banks::{
    AllocatorName, AllocatorSteps, BankFootprint, BankLayout, BankSource, EnergyReport, MachineSettings, PageEvent,
    PowerModel, ReplayLength, ReplayReport, ReplaySettings, SyntheticLoad, SyntheticSettings, fitting_memory, replay,
    run_synthetic,
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
    low_memory: Bytes,
    nodes: u32,
    interleave: u32,
    load: Option<SyntheticLoad>,
    for_micros: Option<u64>,
    loops: Option<u32>,
    survivors_percent: Option<u32>,
    reserve_percent: u32,
    migrates: bool,
    patience_micros: u64,
    seed: u64,
}

/// How long a made-up load takes, unless that is said.
const MADE_UP_TIME: Duration = Duration::from_hours(2);

/// Replays the traces, or runs the made-up load. Returns 0.
pub fn run(arguments: &ReplayArguments) -> Result<u8, Error> {
    // A small file may decompress to more than there is: then only this process ends.
    own_memory::limit(MemoryState::read(&Roots::default())?.available())?;
    let traces = read_traces(&arguments.traces)?;
    let memory = arguments.memory.unwrap_or_else(|| fitting_memory(&traces));
    let banks = match arguments.bank {
        Some(size) => BankLayout::requested(size),
        None => BankLayout::assumed(memory),
    };
    let machine = MachineSettings {
        allocator: arguments.allocator.into(),
        memory,
        low_memory: arguments.low_memory,
        bank: banks.size,
        nodes: arguments.nodes,
        ways: arguments.interleave,
        reserve_percent: arguments.reserve,
        migrates: !arguments.no_migration,
        patience_micros: micros(arguments.patience),
    };
    let report = match arguments.load {
        Some(load) => run_synthetic(SyntheticSettings {
            machine,
            load: load.into(),
            micros: micros(arguments.for_.unwrap_or(MADE_UP_TIME)),
            seed: arguments.seed,
        })?,
        None => replay_traces(&traces, arguments, machine)?,
    };
    let energy = report.energy(&PowerModel::from(&arguments.power), machine.bank);
    if arguments.json {
        let is_load = arguments.load.is_some();
        let time = arguments.for_.or(is_load.then_some(MADE_UP_TIME));
        text::print_json(&Document {
            schema: "rampart.replay/1",
            allocator: machine.allocator,
            layout: banks,
            settings: Settings {
                memory: machine.memory,
                low_memory: machine.low_memory,
                nodes: machine.nodes,
                interleave: machine.ways,
                load: arguments.load.map(Into::into),
                for_micros: time.map(micros),
                loops: time.is_none().then_some(arguments.loops),
                survivors_percent: (!is_load).then_some(arguments.survivors),
                reserve_percent: machine.reserve_percent,
                migrates: machine.migrates,
                patience_micros: machine.patience_micros,
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

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn read_traces(paths: &[PathBuf]) -> Result<Vec<Vec<PageEvent>>, Error> {
    let read = |path: &PathBuf| page_trace::read(path).map_err(|why| Error::PageTrace { path: path.clone(), why });
    paths.iter().map(read).collect()
}

fn replay_traces(
    traces: &[Vec<PageEvent>],
    arguments: &ReplayArguments,
    machine: MachineSettings,
) -> Result<ReplayReport, Error> {
    let settings = ReplaySettings {
        machine,
        length: arguments.for_.map_or(ReplayLength::Loops(arguments.loops), |time| ReplayLength::Micros(micros(time))),
        survivors_percent: arguments.survivors,
        seed: arguments.seed,
    };
    Ok(replay(traces, settings)?)
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
        text += "refused     the machine lacks memory, or large enough blocks, for this load: give a larger --memory\n";
    }
    let source = if banks.source == BankSource::Assumed { " (assumed)" } else { "" };
    let _ = writeln!(
        text,
        "machine     {} in {} banks of {}{source}{}, {}",
        settings.memory,
        report.banks,
        banks.size,
        if settings.ways > 1 { format!(", {} of them interleaved", settings.ways) } else { String::new() },
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
        let migration = &report.migration;
        let _ = writeln!(
            text,
            "offline     {} of the banks on average, c {of_free:.2}; moved {} ({} of it again) to empty {} banks, and failed with {}",
            text::percent(offline),
            migration.moved,
            migration.moved_again,
            text::count(migration.emptied),
            text::count(migration.failed)
        );
    }
    text + &shown_large(report, settings) + &shown_steps(&report.steps) + &shown_footprint(&report.footprint)
}

/// The kernel's memory, and large blocks.
#[expect(clippy::cast_precision_loss, reason = "shares for people")]
fn shown_large(report: &ReplayReport, settings: MachineSettings) -> String {
    let average = &report.average;
    let mut text = format!(
        "tainted     {} of the banks on average hold memory of the kernel, {} at most; {:.0} of the {} simulated blocks of 1 GiB, {} at most\n",
        text::percent(1.0 - average.removable),
        text::percent(report.most.tainted as f64 / report.banks as f64),
        average.tainted_gib,
        settings.memory.get().div_ceil(1 << 30),
        report.most.tainted_gib,
    );
    let steps = report.by_use.iter().map(|uses| format!("{} at {} %", text::percent(uses.touched), uses.from_percent));
    let _ = writeln!(text, "touched     of the banks, by memory used: {}", steps.collect::<Vec<_>>().join(", "));
    let large = report.samples.last().map(|last| [("2 MiB", last.order_9), ("4 MiB", last.order_10)]);
    let shown = large.iter().flatten().map(|(size, large)| {
        format!("{} of {} requests of {size} refused", text::count(large.refused), text::count(large.requests))
    });
    let _ = writeln!(
        text,
        "large       {} and {} of the free memory on average lie in no free block of 2 and of 4 MiB; {}",
        text::percent(average.unusable_9),
        text::percent(average.unusable_10),
        shown.collect::<Vec<_>>().join(", ")
    );
    text
}

fn shown_steps(steps: &AllocatorSteps) -> String {
    let mut text = format!(
        "steps       {} splits, {} merges, {} steals",
        text::count(steps.splits),
        text::count(steps.merges),
        text::count(steps.steals)
    );
    if let (Some(searches), Some(looked_at), Some(most)) = (steps.searches, steps.looked_at, steps.most_looked_at) {
        let (searches, looked_at) = (text::count(searches), text::count(looked_at));
        let _ = write!(text, "; {looked_at} banks looked at in {searches} searches, {most} at most in one");
    }
    text + "\n"
}

/// A sign for each section.
fn shown_footprint(footprint: &BankFootprint) -> String {
    let sign = |(kernel, movable): (&Bytes, &Bytes)| match (*kernel, *movable) {
        (Bytes::ZERO, Bytes::ZERO) => '.',
        (Bytes::ZERO, _) => 'o',
        _ => '#',
    };
    let signs: Vec<char> = footprint.kernel.iter().zip(&footprint.movable).map(sign).collect();
    let rows = signs.chunks(64).map(|row| format!("            {}\n", row.iter().collect::<String>()));
    let size = footprint.section;
    format!(
        "at the end  in {size} each: # memory of the kernel, o of programs only, . nothing\n{}",
        rows.collect::<String>()
    )
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
