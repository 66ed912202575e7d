//! A test of chosen frames of the machine, which the kernel module hands over: free ones, and those in use, whose
//! content is moved first [Rahman16, 4.1.2].
//!
//! **Problem.** A program that claims memory gets the frames that the kernel chooses, and reaches none that others use.
//! **Idea.** The kernel module takes the very frames that are named off the kernel's lists, or away from who uses them.
//! Testers work as for free memory, but for the way frames come and go; a bad frame is retired while it is claimed, so
//! it is never free again. **Why this way.** A claim lasts for seconds, not for the test: the module ends it otherwise,
//! and programs miss little.

pub mod choice;
pub mod dimm;
mod lists;
mod piece;
mod schedule;
mod shared;
mod summary;
mod tester;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rampart_linux::FlagTable;
use rampart_linux::kernel_module::ModuleDevice;
use rampart_memory::FrameRange;
use rampart_store::Store;

use self::choice::{FrameChoice, FrameReach};
use self::schedule::LARGEST_BYTES;
use self::shared::{ChosenContext, ChosenTest};
use super::report::Report;
use super::{Stopped, TICK, TestRequest};
use crate::error::Error;
use crate::machine::reserve::MemoryReserve;
use crate::machine::{MachineUnderTest, PAGEBLOCK};
use crate::testing::known_bad;
use crate::testing::observer::TestObserver;
use crate::testing::prepare::{MarchSetup, choose_cpus, warning};
use crate::testing::publishing::Publisher;
use crate::testing::record::TestRecorder;

/// Tests chosen frames to the end, or until `stop` is set. Each finding is written to the store first.
///
/// # Errors
/// If the test cannot begin: the module is not there or in use, or no frame that was named is memory.
pub fn run(
    request: &TestRequest,
    choice: &FrameChoice,
    machine: &MachineUnderTest,
    store: Store,
    stop: &AtomicBool,
    observer: &dyn TestObserver,
) -> Result<Report, Error> {
    let device = Arc::new(ModuleDevice::open(machine.roots()).map_err(Error::NoModule)?);
    run_over(device, (request, choice), machine, store, stop, observer)
}

/// The same over a device that is open.
fn run_over(
    device: Arc<ModuleDevice>,
    (request, choice): (&TestRequest, &FrameChoice),
    machine: &MachineUnderTest,
    mut store: Store,
    stop: &AtomicBool,
    observer: &dyn TestObserver,
) -> Result<Report, Error> {
    let started = machine.clock.now();
    let blocks = machine.memory_blocks().ok_or(Error::NoMemoryBlocks)?;
    let ranges = choice.online(&blocks);
    if ranges.is_empty() {
        return Err(Error::NoSuchFrames);
    }
    let reach = reach(machine, &ranges, choice.used)?;
    if choice.names_all() && reach.memory == 0 {
        return Err(Error::NoSuchFrames);
    }
    let errors = machine.errors();
    let known = known_bad::retire(machine, &mut store, observer);
    let cpus = choose_cpus(request.threads, machine.cpus())?;
    let march = MarchSetup::new(request.engine, request.method, request.delay, request.retention, LARGEST_BYTES)?;
    warning(&march.check).iter().for_each(|warning| observer.warned(warning));
    let outlook = machine.outlook()?;
    let recorder = TestRecorder::begin(store, request.start(started), &*machine.clock, observer);
    let test = ChosenTest {
        request,
        choice,
        machine,
        observer,
        device,
        cpus,
        march,
        asked_for: reach.request(choice),
        total: outlook.total,
        reserve: MemoryReserve::new(&outlook),
        known_bad: known.in_use,
    };
    let nodes = choice.nodes_of(&blocks);
    let shared = ChosenContext::new(test, &ranges, nodes, Publisher::new(recorder));
    observer.said(&shared.describe());
    if let Some(dimm) = &choice.dimm {
        observer.said(&format!("dimm        {dimm}"));
    }
    let shared_by_all = &shared;
    thread::scope(|scope| {
        let tester = |&cpu| scope.spawn(move || tester::work(shared_by_all, cpu));
        let testers: Vec<_> = shared.test.cpus.iter().map(tester).collect();
        while testers.iter().any(|tester| !tester.is_finished()) {
            tick(&shared, stop);
            thread::sleep(TICK);
        }
    });
    Ok(summary::summarize(&shared, &ranges, started, machine.errors_since(&errors)))
}

/// Counts the frames by their present use.
fn reach(machine: &MachineUnderTest, ranges: &[FrameRange], used: bool) -> Result<FrameReach, Error> {
    let (table, mut reach) = (FlagTable::open(machine.roots())?, FrameReach::default());
    for block in ranges.iter().flat_map(|range| range.cut_at_multiples(PAGEBLOCK)) {
        reach.add(&table.classes(block)?, used);
    }
    Ok(reach)
}

/// Runs every few milliseconds: stops in time, writes findings, and shows progress.
fn tick(shared: &ChosenContext<'_>, stop: &AtomicBool) {
    if stop.load(Ordering::Relaxed) {
        shared.stop(Stopped::Asked);
    } else if shared.test.request.duration.is_some_and(|limit| shared.elapsed() >= limit) {
        shared.stop(Stopped::TimeUp);
    }
    shared.test.device.renew();
    shared.publish_if_due();
    shared.test.observer.progress(&shared.progress());
}
