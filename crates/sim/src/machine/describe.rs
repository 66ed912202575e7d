//! The description of a machine.

use std::time::Duration;

use rampart_buddy::{Zone, ZoneKind};
use rampart_memory::{Fidelity, Frame, FrameRange, Node, TestLifetime};

use crate::cost::{Access, Costs};

/// A machine before it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// Its memory.
    pub zones: Vec<Zone>,
    /// Its cores.
    pub cpus: u32,
    /// Its costs.
    pub costs: Costs,
    /// The speed of programs, relative to the Pentium D of [Rahman16, tab. 2].
    pub speed: f64,
    /// Bytes per second that a program moves while it only accesses memory.
    pub program_traffic: f64,
    /// Whether programs take and return short-lived pages ([`crate::workload`]).
    pub short_lived: bool,
    /// The length of a step.
    pub quantum: Duration,
    /// Frames that are bad.
    pub faults: Vec<(Frame, Fault)>,
}

/// The kind of a bad frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// Every test finds it.
    Permanent,
    /// Each pattern of a test finds it with this probability, above 0 and up to 1.
    Intermittent(f64),
}

/// The kernel's support for the diagnostic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Testing {
    /// The lifetime of a test.
    pub lifetime: TestLifetime,
    /// The testers' way to the memory.
    pub access: Access,
    /// The fidelity of a test that a program waits for.
    pub on_demand: Fidelity,
    /// Whether a returned page expires and goes to the end of its list [Rahman16, 5.2.3.2].
    pub recycling: bool,
    /// Whether each core runs its own tests on demand [Rahman16, 5.2.3.1]; otherwise one tester runs all.
    pub core_local: bool,
    /// Whether pages in use are renewed before they expire. Otherwise they age [Rahman16, fig. 15].
    pub migration: bool,
}

/// The first frame of memory: firmware uses the first megabyte.
const FIRST: u64 = 256;

fn zone(node: u32, kind: ZoneKind, first: u64, frames: u64) -> Zone {
    let first = Frame::new(first).expect("far below 2^40");
    Zone { node: Node(node), kind, frames: FrameRange::new(first, frames).expect("some frames") }
}

const GIB: u64 = 1 << 18;

impl Description {
    /// [Rahman16, tab. 2], single-threaded setup: Pentium D 930, two cores, 1 GB, one node.
    #[must_use]
    pub fn pentium_d() -> Self {
        Self {
            zones: vec![zone(0, ZoneKind::Dma, FIRST, 4096 - FIRST), zone(0, ZoneKind::Normal, 4096, GIB - 4096)],
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
            cpus: 16,
            costs: Costs::t620(),
            speed: 3.0,
            program_traffic: 5e9,
            short_lived: true,
            quantum: Duration::from_millis(1),
            faults: Vec::new(),
        }
    }

    /// A machine of so many frames on each of so many nodes, for tests; its time passes in steps of `quantum`.
    #[must_use]
    pub fn small(nodes: u32, frames: u64, cpus: u32, quantum: Duration) -> Self {
        let zones = (0..nodes).map(|node| zone(node, ZoneKind::Normal, u64::from(node) * 2 * frames.max(1024), frames));
        Self { zones: zones.collect(), cpus, quantum, ..Self::pentium_d() }
    }

    /// The number of nodes.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.zones.iter().map(|zone| self.node_index(zone.node) + 1).max().unwrap_or(0)
    }

    /// One past the last frame.
    pub(super) fn frames(&self) -> u64 {
        self.zones.iter().map(|zone| zone.frames.last().number() + 1).max().unwrap_or(0)
    }

    pub(super) fn node_index(&self, node: Node) -> usize {
        usize::try_from(node.0).expect("a handful of nodes")
    }

    /// The node of a core: cores alternate between the nodes, as the even and odd ones of [Rahman16, 5.3.5].
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
