//! Testing for as long as the machine runs: `rampart watch`.
//!
//! **Problem.** A test says nothing about next week, so each frame that can be reached must be tested again and again,
//! without the cooperation of programs and without harm to them. **Idea.** The controller of [`crate::control`] works
//! on the free memory of [`crate::sources::free_memory`], or on all frames that the kernel module can take
//! ([`crate::sources::kernel_frames`]). The main thread calls its timers, gives back memory that
//! programs need, and reports events; testers, bound to their node, run only when no program needs their CPU, and rest
//! for a part of the time. **Why this way.** The simulation runs the same decision code; this module adds threads,
//! clocks, the store and Linux.
//!
//! No finding is reported before it is in the store, and no bad frame is given back [Rahman16, fig. 2].

#[cfg(test)]
mod claimed_tests;
mod claimer;
mod errors;
mod event;
mod keep;
mod on_demand;
mod pace;
mod prepare;
mod shared;
mod state;
mod suspicion;
mod tester;
#[cfg(test)]
mod tests;
mod watcher;

use std::iter::Peekable;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use rampart_linux::SteadyClock;
use rampart_linux::kernel_module::{LoadedModule, ModuleDevice};
use rampart_march::execute::{MarchEngine, Method};
use rampart_march::{AddressSequence, MarchTest, Plan};
use rampart_memory::fault::InjectionSpec;
use rampart_memory::fault_map::Retirement;
use rampart_memory::{Clock, Fidelity, Frame, Node, Timestamp};
use rampart_store::{Store, TestStart};

use self::claimer::ClaimQueue;
use self::keep::{known_ages, known_bad};
use self::prepare::{WatchPreparation, WatchReach};
use self::shared::DaemonContext;
use self::watcher::DaemonLoop;
use crate::control::dispatch::Tester;
use crate::control::policy::Bandwidth;
use crate::control::replenish::{FromDemand, Nothing, RateMachine, Replenish};
use crate::control::{ControlSettings, Diagnostic, PolicyName};
use crate::error::Error;
use crate::machine::MachineUnderTest;
use crate::sources::DaemonSource;
use crate::sources::free_memory::{Claims, FreeMemoryPool, OpenClaim, ThisMachine};
use crate::sources::kernel_frames::{KernelFrames, KernelWithModule};
use crate::testing::known_bad as on_the_map;
use crate::testing::observer::TestObserver;
use crate::testing::prepare::warning;
use crate::testing::record::TestRecorder;

pub use event::{DaemonEvent, EventRecord, SCHEMA as EVENT_SCHEMA};
pub use pace::Shares;
pub use state::{DaemonState, FrameCounts, SCHEMA as STATE_SCHEMA, TestingCost, WatchSummary};

/// The fraction of its time in which a tester may test: above 0, at most 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(f64);

impl Share {
    /// A share between 0.001 and 1; `None` for other numbers.
    #[must_use]
    pub fn new(part: f64) -> Option<Self> {
        (0.001..=1.0).contains(&part).then_some(Self(part))
    }

    /// From 0.001 to 1.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 1000")]
    fn per_mille(self) -> u64 {
        (self.0 * 1000.0).round() as u64
    }
}

/// The settings that may be changed while the daemon runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DaemonSettings {
    /// The settings of the test controller.
    pub control: ControlSettings,
    /// The policy.
    pub policy: PolicyName,
    /// The limits of each tester's share of time.
    pub shares: Shares,
    /// A frame or a region of 2 MiB with more errors than this within [`DaemonSettings::error_window`] is tested first.
    pub error_threshold: u64,
    /// How long a reported memory error counts.
    pub error_window: Duration,
}

/// Where the frames to watch come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchSource {
    /// The kernel module if it is loaded and can be used, else free memory.
    Best,
    /// Memory that is claimed like any program's.
    FreeMemory,
    /// The kernel module.
    KernelModule,
}

/// The parameters of a run of `rampart watch`.
#[derive(Clone, Debug)]
pub struct WatchRequest {
    /// Where the frames come from.
    pub source: WatchSource,
    /// The march test.
    pub march: MarchTest,
    /// Address sequences, at least one.
    pub sequences: Vec<AddressSequence>,
    /// How long a `Del` element waits.
    pub delay: Duration,
    /// How long data rests before the delayed read; zero: no delayed read.
    pub retention: Duration,
    /// The instructions that test; `None`: the widest of this processor.
    pub engine: Option<MarchEngine>,
    /// How writes reach the DRAM; `None`: the fastest method that passes the cache-bypass check.
    pub method: Option<Method>,
    /// The settings that may be changed later.
    pub settings: DaemonSettings,
    /// Stop after this time.
    pub duration: Option<Duration>,
    /// Faults to inject.
    pub inject: Option<InjectionSpec>,
    /// The seed of random data backgrounds.
    pub seed: u64,
    /// A file of memory errors, lines of JSON or a database of rasdaemon, to read instead of the kernel's reports.
    pub errors: Option<PathBuf>,
    /// The name of this node in MPI jobs, if it is known.
    pub node: Option<String>,
}

impl WatchRequest {
    /// The test plan of a step at a fidelity.
    fn plan(&self, fidelity: Fidelity) -> Plan {
        let plan = Plan::new(self.march.clone(), fidelity, &self.sequences, self.seed);
        if self.retention > Duration::ZERO { plan.with_delayed_reads() } else { plan }
    }

    fn start(&self, at: Timestamp) -> TestStart {
        TestStart {
            at,
            notation: self.march.to_string(),
            fidelity: self.settings.control.limits.min_fidelity.backgrounds(),
            sequences: self.sequences.iter().map(ToString::to_string).collect(),
            requested: None,
            injected: self.inject.as_ref().map(ToString::to_string),
        }
    }
}

/// Receives the daemon's events, and may change its settings.
pub trait Observer: TestObserver {
    /// Receives an event.
    fn happened(&self, at: Timestamp, event: &DaemonEvent);
    /// Receives the state, once a second.
    fn state(&self, state: &DaemonState);
    /// Returns new settings if there are any; called often. MAX-CORES must be at most the number of the machine's CPUs.
    fn reload(&self) -> Option<DaemonSettings>;
}

/// How often the main loop runs; see [`crate::once`].
const TICK: Duration = Duration::from_millis(20);

/// Runs the daemon until `stop` is set, or the time is up.
///
/// # Errors
/// If the daemon cannot start: no memory is free, the request needs more CPUs than there are, or the injected faults do
/// not fit.
pub fn run(
    request: &WatchRequest,
    machine: &MachineUnderTest,
    mut store: Store,
    stop: &AtomicBool,
    observer: &dyn Observer,
) -> Result<WatchSummary, Error> {
    let clock = SteadyClock::default();
    let began = clock.now();
    let device = module_device(request.source, machine, observer)?;
    let known = on_the_map::retire(machine, &mut store, observer);
    let reach = if device.is_some() { WatchReach::AllFrames } else { WatchReach::FreeMemory };
    let prepared = WatchPreparation::new(request, machine, reach, known.in_use)?;
    observer.said(&prepared.describe(request));
    warning(&prepared.march.check).iter().for_each(|warning| observer.warned(warning));
    prepared.shortage(request).iter().for_each(|warning| observer.warned(warning));
    let warn = |text: &str| observer.warned(text);
    let (bound, bad) = (request.settings.control.lifetime, known_bad(&store, observer));
    let watched = Watched { request, machine, prepared: &prepared, observer, clock: &clock };
    if let Some(device) = device {
        let kernel = KernelWithModule::open(machine, Arc::clone(&device), began, &warn)?;
        let frames = KernelFrames::new(kernel, bound, bad, began);
        let tests_on_demand = |shared: &DaemonContext<'_>| on_demand::work(shared, &device);
        return Ok(watched.watch(Box::new(frames), tests_on_demand, store, &known.tried, stop));
    }
    let (ask, asked) = channel();
    let (answers, answered) = channel();
    let open = OpenClaim::default();
    let kernel = ThisMachine::new(machine, Claims { ask, answers: answered, open: open.clone() }, &warn);
    let ages = known_ages(&store, began, observer);
    let pool = FreeMemoryPool::new(kernel, prepared.step, bound, ages, bad, began);
    let claimer = |shared: &DaemonContext<'_>| claimer::work(shared, &ClaimQueue { asked, answers, open });
    Ok(watched.watch(Box::new(pool), claimer, store, &known.tried, stop))
}

/// The device of the kernel module, if its frames are to be watched.
fn module_device(
    source: WatchSource,
    machine: &MachineUnderTest,
    observer: &dyn Observer,
) -> Result<Option<Arc<ModuleDevice>>, Error> {
    if source == WatchSource::FreeMemory {
        return Ok(None);
    }
    match (source, ModuleDevice::open(machine.roots())) {
        (WatchSource::KernelModule, Err(absence)) => Err(Error::NoModule(absence)),
        (_, Err(absence)) => {
            if LoadedModule::find(machine.roots()).is_some() {
                observer.warned(&format!("the kernel module is not used, only free memory is tested: {absence}"));
            }
            Ok(None)
        }
        (_, Ok(device)) => Ok(Some(Arc::new(device))),
    }
}

/// The parts of a daemon, except for the source of frames.
struct Watched<'a> {
    request: &'a WatchRequest,
    machine: &'a MachineUnderTest,
    prepared: &'a WatchPreparation,
    observer: &'a dyn Observer,
    clock: &'a SteadyClock,
}

impl Watched<'_> {
    /// Runs the daemon over a source until `stop` is set, or the time is up. `background` is the source's own thread;
    /// `tried` are frames of the fault map, and whether the kernel retired them.
    fn watch(
        &self,
        source: Box<dyn DaemonSource + Send + '_>,
        background: impl FnOnce(&DaemonContext<'_>) + Send,
        store: Store,
        tried: &[(Frame, Retirement)],
        stop: &AtomicBool,
    ) -> WatchSummary {
        let Self { request, machine, prepared, observer, clock } = *self;
        let began = clock.now();
        let diagnostic = controller(request, prepared, source, began);
        let recorder = TestRecorder::begin(store, request.start(began), &*machine.clock, observer);
        let shared = DaemonContext::new(request, machine, prepared, observer, clock, recorder, diagnostic);
        let version = env!("CARGO_PKG_VERSION");
        shared.happened(&DaemonEvent::Started { version, notation: request.march.to_string() });
        for (frame, retirement) in tried.iter().cloned() {
            shared.happened(&DaemonEvent::Retired { frame, retirement });
        }
        let mut watcher = DaemonLoop::new(&shared, began);
        thread::scope(|scope| {
            let shared = &shared;
            scope.spawn(move || background(shared));
            let mut waiting = (0..).map(Tester).zip(&prepared.testers).peekable();
            while !stop.load(Ordering::Relaxed) && !watcher.time_is_up() {
                while let Some((tester, (_, near))) = next_tester(&mut waiting, watcher.max_cores()) {
                    scope.spawn(move || tester::work(shared, tester, near));
                }
                watcher.tick();
                thread::sleep(TICK);
            }
            shared.interruption.halt();
        });
        watcher.end()
    }
}

/// The next tester to start. Testers beyond MAX-CORES are not started before it is raised; testers above a lowered
/// limit get no work.
fn next_tester<T>(waiting: &mut Peekable<impl Iterator<Item = (Tester, T)>>, max_cores: usize) -> Option<(Tester, T)> {
    waiting.next_if(|(tester, _)| tester.0 < max_cores)
}

fn controller<'a>(
    request: &WatchRequest,
    prepared: &WatchPreparation,
    source: Box<dyn DaemonSource + Send + 'a>,
    now: Timestamp,
) -> Diagnostic<Box<dyn DaemonSource + Send + 'a>> {
    let DaemonSettings { control, policy, shares, .. } = request.settings;
    let nodes: Vec<Node> = prepared.testers.iter().map(|(node, _)| *node).collect();
    let max_blocks = prepared.step.frames();
    let rule = |_| rule(policy, control, max_blocks);
    let whole = prepared.bandwidth(request).at_fidelity_1;
    let bandwidth = Bandwidth { at_fidelity_1: whole * shares.beside_programs.get() };
    Diagnostic::new(source, control, policy.policy(control.limits), rule, &nodes, bandwidth, now)
}

/// The replenish rule of a policy: COMeT has its own, from a frame to a step in each period.
fn rule(policy: PolicyName, settings: ControlSettings, max_blocks: u64) -> Box<dyn Replenish + Send> {
    match policy {
        PolicyName::OnDemand => Box::new(Nothing),
        PolicyName::Comet => Box::new(RateMachine::new(1, max_blocks, max_blocks.div_ceil(256))),
        _ => Box::new(FromDemand::new(settings.alpha)),
    }
}
