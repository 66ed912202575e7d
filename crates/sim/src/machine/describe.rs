//! The description of a machine.

use std::time::Duration;

use rampart_buddy::{BankSize, Zone, ZoneKind};
use rampart_memory::{Fidelity, Frame, FrameRange, Node, TestLifetime};

use crate::cost::{Access, Costs};

/// The parts and parameters of a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// Its memory.
    pub zones: Vec<Zone>,
    /// The size of its banks, of which not every allocator knows.
    pub bank: BankSize,
    /// Its cores.
    pub cpus: u32,
    /// Its costs.
    pub costs: Costs,
    /// How many times as fast as the Pentium D of [Rahman16, tab. 2] a program runs.
    pub speed: f64,
    /// Bytes per second that a program moves while it only accesses memory.
    pub program_traffic: f64,
    /// Whether programs allocate and free short-lived pages ([`crate::workload`]).
    pub short_lived: bool,
    /// The time that passes in a step.
    pub quantum: Duration,
    /// The bad frames.
    pub faults: Vec<(Frame, Fault)>,
}

/// How tests find a bad frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// Every test finds it.
    Permanent,
    /// Each pattern of a test finds it with this probability, above 0 and up to 1.
    Intermittent(f64),
}

/// The support of the machine's kernel for the diagnostic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Testing {
    /// How long a test stays good.
    pub lifetime: TestLifetime,
    /// How testers access memory.
    pub access: Access,
    /// How thoroughly a frame is tested while a program waits for it.
    pub on_demand: Fidelity,
    /// Whether a page that a program frees is marked expired and put at the end of its list [Rahman16, 5.2.3.2].
    pub recycling: bool,
    /// Whether each core tests on demand the pages that it needs [Rahman16, 5.2.3.1]; otherwise one tester does it for
    /// all.
    pub core_local: bool,
    /// Whether pages in use are re-placed before they expire; otherwise they stay in use after that [Rahman16, fig.
    /// 15].
    pub migration: bool,
}

/// The first frame of memory: the megabyte below belongs to the firmware.
const FIRST: u64 = 256;

fn zone(node: u32, kind: ZoneKind, first: u64, frames: u64) -> Zone {
    let first = Frame::new(first).expect("far below 2^40");
    Zone { node: Node(node), kind, frames: FrameRange::new(first, frames).expect("some frames") }
}

const GIB: u64 = 1 << 18;

/// Banks as `rampart banks` assumes them: of 128 MiB on a machine with up to 4 GiB, else of 256 MiB.
fn bank(frames: u64) -> BankSize {
    BankSize::of_frames(frames).expect("a power of two, and large enough")
}

impl Description {
    /// [Rahman16, tab. 2], single-threaded setup: Pentium D 930, two cores, 1 GB, one node.
    #[must_use]
    pub fn pentium_d() -> Self {
        Self {
            zones: vec![zone(0, ZoneKind::Dma, FIRST, 4096 - FIRST), zone(0, ZoneKind::Normal, 4096, GIB - 4096)],
            bank: bank(GIB / 8),
            cpus: 2,
            costs: Costs::pentium_d(),
            speed: 1.0,
            program_traffic: 2e9,
            short_lived: false,
            quantum: Duration::from_millis(1),
            faults: Vec::new(),
        }
    }

    /// [Rahman16, 5.3.1]: PowerEdge T620, two nodes of eight cores and 32 GB. A core is about three times as fast as
    /// [Rahman16, tab. 2]'s (SPECint2006 base of both, estimated).
    #[must_use]
    pub fn t620() -> Self {
        Self {
            zones: vec![
                zone(0, ZoneKind::Dma32, FIRST, 4 * GIB - FIRST),
                zone(0, ZoneKind::Normal, 4 * GIB, 28 * GIB),
                zone(1, ZoneKind::Normal, 32 * GIB, 32 * GIB),
            ],
            bank: bank(GIB / 4),
            cpus: 16,
            costs: Costs::t620(),
            speed: 3.0,
            program_traffic: 5e9,
            short_lived: true,
            quantum: Duration::from_millis(1),
            faults: Vec::new(),
        }
    }

    /// Returns a machine with `frames` frames on each of `nodes` nodes and the smallest banks, for tests; its time
    /// passes in steps of `quantum`.
    #[must_use]
    pub fn small(nodes: u32, frames: u64, cpus: u32, quantum: Duration) -> Self {
        let zones = (0..nodes).map(|node| zone(node, ZoneKind::Normal, u64::from(node) * 2 * frames.max(1024), frames));
        Self { zones: zones.collect(), bank: bank(1024), cpus, quantum, ..Self::pentium_d() }
    }

    /// Returns the number of nodes.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.zones.iter().map(|zone| self.node_index(zone.node) + 1).max().unwrap_or(0)
    }

    /// Returns the number of the last frame plus 1.
    pub(super) fn frames(&self) -> u64 {
        self.zones.iter().map(|zone| zone.frames.last().number() + 1).max().unwrap_or(0)
    }

    pub(super) fn node_index(&self, node: Node) -> usize {
        usize::try_from(node.0).expect("a handful of nodes")
    }

    /// Returns the node of a core: cores belong to the nodes in turn, like Rahman's even and odd ones [Rahman16,
    /// 5.3.5].
    #[must_use]
    pub fn node_of_core(&self, core: usize) -> Node {
        Node(u32::try_from(core % self.nodes()).expect("a handful of nodes"))
    }

    pub(super) fn node_of_frame(&self, frame: Frame) -> Node {
        let zone = self.zones.iter().find(|zone| zone.frames.contains(frame));
        zone.expect("a frame of this machine").node
    }

    pub(super) fn node_index_of(&self, frame: Frame) -> usize {
        self.node_index(self.node_of_frame(frame))
    }
}
