//! `rampart banks replay`: how many banks stay free of the kernel's memory under recorded loads.

use std::fmt::Write as _;

use rampart_banks::{AllocatorName, BankLayout, BankSource, PageEvent, ReplayReport, ReplaySettings, replay};
use rampart_linux::{MemoryState, Roots, own_memory};
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
}

/// What was asked for.
#[derive(Serialize)]
struct Settings {
    memory: rampart_memory::Bytes,
    loops: u32,
    survivors_percent: u32,
    reserve_percent: u32,
    seed: u64,
}

/// Replays the traces. Returns 0.
pub fn run(arguments: &ReplayArguments) -> Result<u8, Error> {
    // A small file may decompress to more than there is: then only this process ends.
    own_memory::limit(MemoryState::read(&Roots::default())?.available())?;
    let traces: Vec<Vec<PageEvent>> = arguments
        .traces
        .iter()
        .map(|path| page_trace::read(path).map_err(|why| Error::PageTrace { path: path.clone(), why }))
        .collect::<Result<_, _>>()?;
    let banks = match arguments.bank {
        Some(size) => BankLayout { size, source: BankSource::Requested },
        None => BankLayout::assumed(arguments.memory),
    };
    let settings = ReplaySettings {
        allocator: arguments.allocator.into(),
        memory: arguments.memory,
        bank: banks.size,
        loops: arguments.loops,
        survivors_percent: arguments.survivors,
        reserve_percent: arguments.reserve,
        migrates: !arguments.no_migration,
        seed: arguments.seed,
    };
    let report = replay(&traces, settings)?;
    if arguments.json {
        text::print_json(&Document {
            schema: "rampart.replay/1",
            allocator: settings.allocator,
            layout: banks,
            settings: Settings {
                memory: settings.memory,
                loops: settings.loops,
                survivors_percent: settings.survivors_percent,
                reserve_percent: settings.reserve_percent,
                seed: settings.seed,
            },
            report: &report,
        })?;
    } else {
        text::print(&shown(&report, settings, banks))?;
    }
    Ok(0)
}

const fn named(allocator: AllocatorName) -> &'static str {
    match allocator {
        AllocatorName::Buddy => "buddy system of Linux",
        AllocatorName::Adaptive => "Adaptive-Buddy",
        AllocatorName::AdaptiveArbitrary => "Adaptive-Buddy that steals any bank",
        AllocatorName::Fullest => "fullest bank first",
    }
}

#[expect(clippy::cast_precision_loss, reason = "simulated seconds for people")]
fn shown(report: &ReplayReport, settings: ReplaySettings, banks: BankLayout) -> String {
    let average = &report.average;
    let mut text = String::new();
    let _ = writeln!(
        text,
        "replayed    {} requests, {} refused, in {:.0} s of simulated time",
        text::count(report.requests),
        text::count(report.refused),
        report.micros as f64 / 1e6
    );
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
