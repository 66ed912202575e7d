//! `rampart status`: shows the machine as Rampart sees it.

pub mod arguments;
mod check;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use console::Term;
use rampart_banks::{Pool, PoolSizes};
use rampart_diagnostic::MachineUnderTest;
use rampart_diagnostic::daemon::DaemonState as WatchState;
use rampart_diagnostic::machine::reserve::MemoryReserve;
use rampart_linux::capabilities::{self, Capability, CapabilityState};
use rampart_linux::{MemoryState, Topology};
use rampart_march::execute::MarchEngine;
use rampart_memory::fault_map::{FrameUse, MapOrigin};
use rampart_memory::{Bytes, SuspectNode, Timestamp};
use rampart_store::TestRecord;
use serde::Serialize;
use serde_json::Value;

use self::arguments::StatusArguments;
use self::check::StatusCheck;
use crate::error::Error;
use crate::inputs::daemon::{self, DaemonLiveness};
use crate::inputs::pools::{self, FOLDER, PoolsState, machine_beside_pools};
use crate::inputs::store;
use crate::output::verbosity::Verbosity;
use crate::output::{colour, daemon as daemon_text, text};
use crate::process::signals::stop_flag;

/// The number of tests that are shown.
const TESTS_SHOWN: usize = 5;

/// The same with `--verbose`.
const TESTS_SHOWN_IF_VERBOSE: usize = 50;

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
    /// What `--check` says.
    check: StatusCheck,
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

/// Shows the status, once or again and again. Returns 0, or with `--check` what was found.
pub fn run(arguments: &StatusArguments, path: Option<PathBuf>, verbosity: Verbosity) -> Result<u8, Error> {
    if arguments.follow {
        return follow(arguments, path.as_ref(), verbosity);
    }
    let seen = Seen::now(path, verbosity)?;
    if let Some(fault) = seen.daemon.fault().filter(|_| !arguments.check) {
        eprintln!("{}", colour::warning(&fault));
    }
    let status = &seen.status;
    if arguments.json {
        text::print_json(status)?;
    } else {
        let with_page = !verbosity.is_quiet() && (!arguments.check || verbosity.is_verbose());
        let mut text = if with_page { seen.page(true) } else { String::new() };
        if arguments.check || verbosity.is_quiet() {
            let _ = writeln!(text, "{}", status.check.line());
        }
        text::print(&colour::verdicts(&text))?;
    }
    Ok(if arguments.check { status.check.exit_code() } else { 0 })
}

/// Shows the status again and again, until Ctrl-C. A terminal is redrawn; a pipe gets one page after another.
fn follow(arguments: &StatusArguments, path: Option<&PathBuf>, verbosity: Verbosity) -> Result<u8, Error> {
    let stop = stop_flag()?;
    let terminal = Term::stdout();
    while !stop.load(Ordering::Relaxed) {
        let seen = Seen::now(path.cloned(), verbosity)?;
        if arguments.json {
            text::print_json_line(&seen.status)?;
        } else {
            let text = seen.followed(verbosity);
            if terminal.is_term() && !verbosity.is_quiet() {
                terminal.clear_screen().map_err(Error::Output)?;
            }
            text::print(&colour::verdicts(&text))?;
        }
        pause(arguments.interval, &stop);
    }
    Ok(0)
}

/// Waits, but not for longer than until it is to stop.
fn pause(interval: Duration, stop: &AtomicBool) {
    let begun = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let left = interval.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return;
        }
        thread::sleep(left.min(Duration::from_millis(50)));
    }
}

/// What was seen at one moment.
struct Seen {
    status: Status,
    daemon: DaemonLiveness,
    history: Vec<TestRecord>,
    at: Timestamp,
}

impl Seen {
    fn now(path: Option<PathBuf>, verbosity: Verbosity) -> Result<Self, Error> {
        let machine = machine_beside_pools();
        let at = machine.clock.now();
        let store = store::open_to_read(path, at)?;
        let history = store.history(if verbosity.is_verbose() { TESTS_SHOWN_IF_VERBOSE } else { TESTS_SHOWN })?;
        let outlook = machine.outlook()?;
        let reserve = MemoryReserve::new(&outlook);
        let (known, uses) = (store.failures(MapOrigin::Real)?, machine.frame_uses());
        let mut bad_frames_now = BTreeMap::new();
        known.iter().for_each(|failed| *bad_frames_now.entry(uses.of(failed.frame)).or_default() += 1);
        let suspect_nodes = store.suspect_nodes(at)?;
        let daemon = daemon::beside(store.path());
        let watch = if let DaemonLiveness::Running(state) = &daemon { Some(state.clone()) } else { None };
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
            check: StatusCheck::of(&bad_frames_now, &suspect_nodes, &daemon),
            bad_frames_now,
            tests: history.iter().map(store::document).collect(),
            suspect_nodes,
            pools: PoolsStatus::of(&machine),
            watch,
            store: store.path().to_owned(),
        };
        Ok(Self { status, daemon, history, at })
    }

    /// The text of `--follow`: when it was, and what may change meanwhile.
    fn followed(&self, verbosity: Verbosity) -> String {
        let when = text::moment(self.at);
        if verbosity.is_quiet() {
            return format!("{when} {}\n", self.status.check.line());
        }
        format!("status      at {when}\n{}\n", self.page(verbosity.is_verbose()))
    }

    /// The whole status, or without what stays as it is: the machine's capabilities and the place of the store.
    fn page(&self, whole: bool) -> String {
        let mut text = self.status.memory_lines();
        if whole {
            text.push_str(&self.status.machine_lines());
        }
        match (&self.daemon, self.daemon.fault()) {
            (DaemonLiveness::Running(state), _) => {
                text.push_str(&daemon_text::page(state, Some(self.status.testable_now)));
            }
            (_, Some(fault)) => drop(writeln!(text, "watching    no daemon runs as it should: {fault}")),
            (_, None) => text.push_str("watching    no daemon runs: start `rampart watch`\n"),
        }
        text.push_str(&self.status.finding_lines(&self.history));
        if whole {
            let _ = writeln!(text, "store       {}", self.status.store.display());
        }
        text
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

impl Status {
    fn memory_lines(&self) -> String {
        let mut text = String::new();
        let machine = &self.memory.machine;
        let _ = writeln!(
            text,
            "memory      {} in all, {} free; {} can be tested now beside a reserve of {}",
            machine.total, machine.free, self.testable_now, self.reserve
        );
        if let Some(group) = &self.memory.cgroup {
            let _ = writeln!(text, "            limited by a control group to {}", group.limit);
        }
        for node in &self.topology.nodes {
            let _ = writeln!(text, "{:<11} {}, {} free, {} CPUs", node.node, node.total, node.free, node.cpus.len());
        }
        if let Some(line) = self.pools.as_ref().and_then(PoolsStatus::line) {
            let _ = writeln!(text, "pools       {line}");
        }
        text
    }

    /// What the machine can do.
    fn machine_lines(&self) -> String {
        let mut text = String::new();
        let model = self.topology.model.as_deref().unwrap_or("unknown CPU");
        let _ = writeln!(text, "loops       {} on {model}", self.engines.join(", "));
        for capability in &self.capabilities {
            let (sign, detail) = match &capability.state {
                CapabilityState::Available { detail } => ("yes", detail.clone()),
                CapabilityState::Absent(absence) => ("no", absence.to_string()),
            };
            let _ = writeln!(text, "{:<3} {:<22} {detail}", sign, capability.feature.to_string());
        }
        text
    }

    /// Bad frames, suspect nodes, and tests.
    fn finding_lines(&self, tests: &[TestRecord]) -> String {
        let mut text = String::new();
        let _ = writeln!(text, "bad frames  {} (`rampart map show`){}", self.bad_frames, states(&self.bad_frames_now));
        for suspect in &self.suspect_nodes {
            let _ = writeln!(text, "suspect     {}", store::suspicion(suspect));
        }
        if tests.is_empty() {
            let _ = writeln!(text, "tests       none yet: `rampart test`");
        }
        for (i, test) in tests.iter().enumerate() {
            let label = if i == 0 { "last tests" } else { "" };
            let _ = writeln!(text, "{label:<11} {}", store::describe(test, self.memory.machine.total));
        }
        text
    }
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
