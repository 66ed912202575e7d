//! `rampart status`: shows the machine as Rampart sees it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use rampart_banks::{Pool, PoolSizes};
use rampart_diagnostic::MachineUnderTest;
use rampart_diagnostic::daemon::DaemonState as WatchState;
use rampart_diagnostic::machine::reserve::MemoryReserve;
use rampart_linux::capabilities::{self, Capability, CapabilityState};
use rampart_linux::{MemoryState, Topology};
use rampart_march::execute::MarchEngine;
use rampart_memory::fault_map::{FrameUse, MapOrigin};
use rampart_memory::{Bytes, SuspectNode};
use rampart_store::TestRecord;
use serde::Serialize;
use serde_json::Value;

use crate::error::Error;
use crate::inputs::daemon::{self, DaemonLiveness};
use crate::inputs::pools::{self, FOLDER, PoolsState, machine_beside_pools};
use crate::inputs::store;
use crate::output::{daemon as daemon_text, text};

/// The number of tests that are shown.
const TESTS_SHOWN: usize = 5;

#[derive(Serialize)]
struct Status {
    schema: &'static str,
    version: &'static str,
    memory: MemoryState,
    testable_now: Bytes,
    reserve: Bytes,
    topology: Topology,
    engines: Vec<String>,
    capabilities: Vec<Capability>,
    store: PathBuf,
    bad_frames: usize,
    /// The number of bad frames by their present state.
    bad_frames_now: BTreeMap<FrameUse, usize>,
    tests: Vec<Value>,
    /// Nodes that erred in MPI jobs with replicas, twice or more.
    suspect_nodes: Vec<SuspectNode>,
    /// The pools of memory blocks; `None` on a kernel without blocks.
    pools: Option<PoolsStatus>,
    /// The state of the daemon, if one runs.
    watch: Option<Box<WatchState>>,
}

#[derive(Serialize)]
struct PoolsStatus {
    sizes: PoolSizes,
    /// The process that keeps them, if one does.
    keeper: Option<PoolsState>,
}

impl PoolsStatus {
    fn of(machine: &MachineUnderTest) -> Option<Self> {
        let blocks = machine.memory_blocks()?;
        let pools = blocks.blocks.iter().map(|block| Pool::of(block.state, &block.zones));
        Some(Self { sizes: PoolSizes::sum(blocks.size, pools), keeper: pools::read(Path::new(FOLDER)) })
    }

    /// A line; `None` where all memory is online for anything, and nobody keeps pools.
    fn line(&self) -> Option<String> {
        let PoolSizes { kernel, user, offline } = self.sizes;
        let sizes = format!("kernel core {kernel}, user pool {user}, offline {offline}");
        match &self.keeper {
            Some(keeper) => {
                let moves: u64 = keeper.moves.iter().map(|count| count.blocks).sum();
                let (pid, failures) = (keeper.pid, keeper.failures);
                Some(format!("{sizes}; process {pid} keeps them: {moves} blocks moved, {failures} attempts failed"))
            }
            None if user > Bytes::ZERO || offline > Bytes::ZERO => Some(format!("{sizes}; no process keeps them")),
            None => None,
        }
    }
}

/// Shows the status. Returns 0.
pub fn run(json: bool, path: Option<PathBuf>) -> Result<u8, Error> {
    let machine = machine_beside_pools();
    let store = store::open_to_read(path, machine.clock.now())?;
    let history = store.history(TESTS_SHOWN)?;
    let outlook = machine.outlook()?;
    let reserve = MemoryReserve::new(&outlook);
    let (known, uses) = (store.failures(MapOrigin::Real)?, machine.frame_uses());
    let mut bad_frames_now = BTreeMap::new();
    known.iter().for_each(|failed| *bad_frames_now.entry(uses.of(failed.frame)).or_default() += 1);
    let status = Status {
        schema: "rampart.status/1",
        version: env!("CARGO_PKG_VERSION"),
        memory: MemoryState::read(machine.roots())?,
        testable_now: reserve.claimable(&outlook),
        reserve: reserve.bytes(&outlook),
        topology: machine.topology().clone(),
        engines: MarchEngine::all_available().iter().map(ToString::to_string).collect(),
        capabilities: capabilities::all(machine.roots()),
        bad_frames: known.len(),
        bad_frames_now,
        tests: history.iter().map(store::document).collect(),
        suspect_nodes: store.suspect_nodes(machine.clock.now())?,
        pools: PoolsStatus::of(&machine),
        watch: daemon_state(&store),
        store: store.path().to_owned(),
    };
    if json {
        text::print_json(&status)?;
    } else {
        text::print(&text(&status, &history))?;
    }
    Ok(0)
}

/// The state of the daemon, if one runs. Reports a daemon that ended unexpectedly.
fn daemon_state(store: &rampart_store::Store) -> Option<Box<WatchState>> {
    match daemon::beside(store.path()) {
        DaemonLiveness::Running(state) => Some(state),
        DaemonLiveness::Stale(pid) => {
            eprintln!("rampart: process {pid} watched and ended unexpectedly: start `rampart watch` again");
            None
        }
        DaemonLiveness::NotRunning => None,
    }
}

/// The number of bad frames in each present state.
fn states(uses: &BTreeMap<FrameUse, usize>) -> String {
    let words = |frame_use| match frame_use {
        FrameUse::Retired => "retired now",
        FrameUse::Reserved => "reserved at boot",
        FrameUse::BeyondMemory => "beyond this machine's memory",
        FrameUse::Offline => "in memory that is offline",
        FrameUse::InUse => "NOT retired: in use",
        FrameUse::Unknown => "unknown whether retired: needs root",
    };
    let counts: Vec<_> = uses.iter().map(|(frame_use, count)| format!("{count} {}", words(*frame_use))).collect();
    if counts.is_empty() { String::new() } else { format!(": {}", counts.join(", ")) }
}

fn text(status: &Status, tests: &[TestRecord]) -> String {
    let mut text = String::new();
    let machine = &status.memory.machine;
    let _ = writeln!(
        text,
        "memory      {} in all, {} free; {} can be tested now beside a reserve of {}",
        machine.total, machine.free, status.testable_now, status.reserve
    );
    if let Some(group) = &status.memory.cgroup {
        let _ = writeln!(text, "            limited by a control group to {}", group.limit);
    }
    for node in &status.topology.nodes {
        let _ = writeln!(text, "{:<11} {}, {} free, {} CPUs", node.node, node.total, node.free, node.cpus.len());
    }
    if let Some(line) = status.pools.as_ref().and_then(PoolsStatus::line) {
        let _ = writeln!(text, "pools       {line}");
    }
    let model = status.topology.model.as_deref().unwrap_or("unknown CPU");
    let _ = writeln!(text, "loops       {} on {model}", status.engines.join(", "));
    for capability in &status.capabilities {
        let (sign, detail) = match &capability.state {
            CapabilityState::Available { detail } => ("yes", detail.clone()),
            CapabilityState::Absent(absence) => ("no", absence.to_string()),
        };
        let _ = writeln!(text, "{:<3} {:<22} {detail}", sign, capability.feature.to_string());
    }
    match &status.watch {
        Some(state) => text.push_str(&daemon_text::page(state)),
        None => text.push_str("watching    no daemon runs: start `rampart watch`\n"),
    }
    let _ = writeln!(text, "bad frames  {} (`rampart map show`){}", status.bad_frames, states(&status.bad_frames_now));
    for suspect in &status.suspect_nodes {
        let _ = writeln!(text, "suspect     {}", store::suspicion(suspect));
    }
    if tests.is_empty() {
        let _ = writeln!(text, "tests       none yet: `rampart test`");
    }
    for (i, test) in tests.iter().enumerate() {
        let label = if i == 0 { "last tests" } else { "" };
        let _ = writeln!(text, "{label:<11} {}", store::describe(test));
    }
    let _ = writeln!(text, "store       {}", status.store.display());
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampart_banks::PoolMove;
    use rampart_memory::HotplugBlock;

    #[test]
    fn pools_have_a_line_once_there_are_any() {
        let [kernel, user, offline] = [512, 256, 128].map(Bytes::from_mib);
        let line = |sizes, keeper| PoolsStatus { sizes, keeper }.line();
        assert_eq!(line(PoolSizes { kernel, ..PoolSizes::default() }, None), None);
        let sizes = PoolSizes { kernel, user, offline };
        let shown = "kernel core 512 MiB, user pool 256 MiB, offline 128 MiB";
        assert_eq!(line(sizes, None), Some(format!("{shown}; no process keeps them")));
        let mut keeper = PoolsState::new(Bytes::ZERO);
        keeper.pid = 7;
        keeper.failures = 2;
        for to in [Pool::User, Pool::Offline, Pool::User] {
            keeper.moved(Pool::Kernel, PoolMove { block: HotplugBlock(1), to });
        }
        let kept = "process 7 keeps them: 3 blocks moved, 2 attempts failed";
        assert_eq!(line(sizes, Some(keeper)), Some(format!("{shown}; {kept}")));
    }
}
