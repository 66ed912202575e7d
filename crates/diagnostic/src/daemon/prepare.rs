//! Prepares the daemon: nodes, CPUs, loops, and the speed of the machine.

use std::collections::BTreeSet;
use std::time::Duration;

use humantime::format_duration;
use rampart_linux::{Block, CpuNumber, PageKind, Topology};
use rampart_march::execute::Region;
use rampart_march::execute::limit::Limit;
use rampart_memory::fault::Campaign;
use rampart_memory::{Bytes, FRAME_BYTES, Fidelity, Frame, Node, TestLifetime};

use super::{DaemonSettings, WatchRequest};
use crate::control::policy::Bandwidth;
use crate::control::{ControlSettings, PolicyLimits};
use crate::error::Error;
use crate::machine::MachineUnderTest;
use crate::machine::reserve::{MemoryReserve, SMALLEST_CLAIM};
use crate::sources::kernel_frames::STRETCH;
use crate::testing::prepare::{MarchSetup, choose_cpus, lines};

/// The largest step: the kernel clears it in about 40 ms, during which the claim cannot react to the demand of
/// programs.
const LARGEST_STEP: Bytes = Bytes::from_mib(32);

/// The most memory of a tester that rests at once when the kernel module hands frames over: programs miss it.
const MOST_RESTING: Bytes = Bytes::from_mib(64);

/// Which frames a daemon reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchReach {
    /// Those that a program can claim.
    FreeMemory,
    /// Also those in use, by the kernel module.
    AllFrames,
}

/// The settings of a daemon that is about to start.
pub struct WatchPreparation {
    pub reach: WatchReach,
    /// The memory that is to be tested once a lifetime.
    pub claimable: Bytes,
    pub step: Bytes,
    /// The node and the CPUs of each tester. There is one tester per CPU, because MAX-CORES may be raised later.
    pub testers: Vec<(Node, Vec<CpuNumber>)>,
    /// A tester begins with no further step while so much of its memory rests before the delayed read.
    pub most_resting: Bytes,
    /// Frames of the fault map that are in use because the kernel did not retire them.
    pub known_bad: BTreeSet<Frame>,
    pub march: MarchSetup,
    pub limit: Limit,
    pub campaign: Option<Campaign>,
}

impl WatchPreparation {
    pub fn new(
        request: &WatchRequest,
        machine: &MachineUnderTest,
        reach: WatchReach,
        known_bad: BTreeSet<Frame>,
    ) -> Result<Self, Error> {
        let outlook = machine.outlook()?;
        let free = MemoryReserve::new(&outlook).claimable(&outlook);
        if free < SMALLEST_CLAIM {
            return Err(Error::NothingFree);
        }
        let (claimable, step, most_resting) = match reach {
            WatchReach::FreeMemory => {
                let step = Bytes::new(free.get() / 8).min(LARGEST_STEP).round_down(SMALLEST_CLAIM).max(SMALLEST_CLAIM);
                (free, step, Bytes::new(u64::MAX))
            }
            WatchReach::AllFrames => {
                let resting = Bytes::new(outlook.total.get() / 32).min(MOST_RESTING);
                (outlook.total, Bytes::new(STRETCH * FRAME_BYTES), resting)
            }
        };
        let threads = usize::try_from(request.settings.control.limits.max_cores).unwrap_or(usize::MAX);
        choose_cpus(std::num::NonZero::new(threads), machine.cpus())?;
        let campaign = match &request.inject {
            Some(spec) => {
                let steps = (claimable.get() / step.get()).max(1);
                Some(Campaign::new(spec, steps * lines(step), lines(step))?)
            }
            None => None,
        };
        let march = MarchSetup::new(request.engine, request.method, request.delay, request.retention, step)?;
        let mut block = Block::claim(step.min(free), PageKind::Huge)?;
        let survives = block.access();
        let limit = Limit::measure(march.engine, &mut Region::from(&mut block));
        drop(survives);
        Ok(Self {
            reach,
            claimable,
            step,
            most_resting,
            known_bad,
            testers: testers(machine.topology()),
            march,
            limit,
            campaign,
        })
    }

    pub fn describe(&self, request: &WatchRequest) -> String {
        let PolicyLimits { min_fidelity, max_fidelity, max_cores, .. } = request.settings.control.limits;
        let plural = if max_cores == 1 { "" } else { "s" };
        let reach = match self.reach {
            WatchReach::FreeMemory => "each frame in reach",
            WatchReach::AllFrames => "each frame that the kernel module can take, also in use,",
        };
        format!(
            "watching    {reach} once in {} with {}, fidelity {min_fidelity} to {max_fidelity}, by {} on at \
             most {max_cores} CPU{plural}, {:.0} % of each, {:.0} % beside programs ({}, {})",
            format_duration(request.settings.control.lifetime.lifetime()),
            request.march,
            request.settings.policy.as_str(),
            100.0 * request.settings.shares.maximum.get(),
            100.0 * request.settings.shares.beside_programs.get(),
            self.march.engine,
            self.march.settings.method
        )
    }

    /// A warning, if all testers at the lowest fidelity cannot test the memory once a lifetime.
    pub fn shortage(&self, request: &WatchRequest) -> Option<String> {
        shortage(request.settings, self.claimable, self.bandwidth(request))
    }

    /// The estimated bandwidth of one tester that never rests, before any measurement: the limit of its memory.
    #[expect(clippy::cast_precision_loss, reason = "counts of operations")]
    pub fn bandwidth(&self, request: &WatchRequest) -> Bandwidth {
        let plan = request.plan(Fidelity::MIN);
        let bytes = self.limit.of(plan.reads(), plan.writes());
        Bandwidth { at_fidelity_1: bytes / FRAME_BYTES as f64 }
    }
}

/// A warning, if all testers, each with this bandwidth while it tests, cannot test so much memory once a lifetime
/// [Rahman16, 3.2.2].
pub fn shortage(settings: DaemonSettings, memory: Bytes, bandwidth: Bandwidth) -> Option<String> {
    let ControlSettings { lifetime, alpha, limits, .. } = settings.control;
    let speed = bandwidth.of(limits.min_fidelity) * settings.shares.maximum.get();
    let latency = Duration::from_secs_f64(speed.recip());
    let testers = f64::from(limits.max_cores);
    let needed = TestLifetime::affordable(alpha, memory, 1.0, latency, testers) + lifetime.delta();
    (needed > lifetime.lifetime()).then(|| {
        format!(
            "a lifetime of {} is too short to test {memory}: set at least {}, or raise max-cores or max-share",
            format_duration(lifetime.lifetime()),
            format_duration(Duration::from_secs(needed.as_secs() + 1))
        )
    })
}

/// One tester for each CPU that the process may use, distributed over the nodes that have both memory and CPUs.
pub fn testers(topology: &Topology) -> Vec<(Node, Vec<CpuNumber>)> {
    let nodes = topology.nodes.iter();
    let able: Vec<_> = nodes.filter(|node| node.total > Bytes::ZERO && !node.cpus.is_empty()).collect();
    let of = |index: usize| match able.get(index % able.len().max(1)) {
        Some(resources) => (resources.node, topology.cpus_near(resources.node)),
        None => (Node(0), topology.allowed.clone()),
    };
    (0..topology.allowed.len()).map(of).collect()
}
