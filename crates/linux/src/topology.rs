//! The machine's nodes, their CPUs and their memory.
//!
//! **Problem.** A test is fastest from a CPU of the memory's own node, and may run only where this process may.
//! **Idea.** Read the nodes from sysfs and the allowed CPUs from the kernel, and show both. **Why this way.** A kernel
//! without NUMA is one node with everything, so no higher layer need ask.

use rampart_memory::{Bytes, Node};
use rustix::thread::{CpuSet, sched_getaffinity};
use serde::Serialize;

use crate::memory_state::meminfo::kib_of;
use crate::roots::{numbered, text};
use crate::{CpuNumber, Roots};

/// CPUs above this number count as garbage: the largest machines have thousands (`CONFIG_NR_CPUS` is at most 8192).
const MAX_CPU: u32 = (1 << 16) - 1;

/// The parts of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Topology {
    /// The nodes, ascending; at least one.
    pub nodes: Vec<NodeResources>,
    /// The CPUs on which this process may run, ascending.
    pub allowed: Vec<CpuNumber>,
    /// The manufacturer's name of the CPU; `None` if the kernel does not show it.
    pub model: Option<String>,
}

/// The resources of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeResources {
    /// The kernel's number.
    pub node: Node,
    /// Its CPUs, ascending; none if it has only memory.
    pub cpus: Vec<CpuNumber>,
    /// Its memory; zero if it has only CPUs.
    pub total: Bytes,
    /// The unused part of it.
    pub free: Bytes,
}

impl Topology {
    /// Reads it. Parts that the kernel does not show are empty, zero or `None`.
    #[must_use]
    pub fn read(roots: &Roots) -> Self {
        let allowed = allowed(roots);
        let mut nodes = nodes(roots);
        if nodes.is_empty() {
            let meminfo = text(&roots.proc("meminfo")).unwrap_or_default();
            nodes.push(node(0, allowed.clone(), &meminfo));
        }
        let model = text(&roots.proc("cpuinfo")).ok().and_then(|text| parse_model(&text));
        Self { nodes, allowed, model }
    }

    /// The CPUs of a node on which this process may run; all allowed ones if the node has none of them.
    #[must_use]
    pub fn cpus_near(&self, node: Node) -> Vec<CpuNumber> {
        let own = self.nodes.iter().filter(|resources| resources.node == node).flat_map(|resources| &resources.cpus);
        let near: Vec<_> = own.copied().filter(|cpu| self.allowed.contains(cpu)).collect();
        if near.is_empty() { self.allowed.clone() } else { near }
    }
}

fn nodes(roots: &Roots) -> Vec<NodeResources> {
    let folders = numbered(&roots.sys("devices/system/node"), "node");
    let read = |(number, folder): (u32, std::path::PathBuf)| {
        let cpus = text(&folder.join("cpulist")).ok().and_then(|text| parse_cpus(&text)).unwrap_or_default();
        node(number, cpus, &text(&folder.join("meminfo")).unwrap_or_default())
    };
    folders.into_iter().map(read).collect()
}

fn node(number: u32, cpus: Vec<CpuNumber>, meminfo: &str) -> NodeResources {
    let bytes = |key| kib_of(meminfo, key).unwrap_or_default();
    NodeResources { node: Node(number), cpus, total: bytes("MemTotal"), free: bytes("MemFree") }
}

/// The CPUs on which this process may run. The system call's set ends at CPU 1023, so larger machines are asked by
/// text.
fn allowed(roots: &Roots) -> Vec<CpuNumber> {
    match sched_getaffinity(None) {
        Ok(set) => (0..).map(CpuNumber).take(CpuSet::MAX_CPU).filter(|cpu| set.is_set(cpu.0 as usize)).collect(),
        Err(_) => {
            let status = text(&roots.proc("self/status")).unwrap_or_default();
            let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
            list.and_then(parse_cpus).unwrap_or_default()
        }
    }
}

/// Reads a list such as `0-3,8,10-11`, ascending; `None` if it is malformed.
#[must_use]
pub fn parse_cpus(text: &str) -> Option<Vec<CpuNumber>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        let after_the_others = cpus.last().is_none_or(|&CpuNumber(previous)| previous < first);
        if !after_the_others || first > last || last > MAX_CPU {
            return None;
        }
        cpus.extend((first..=last).map(CpuNumber));
    }
    Some(cpus)
}

/// The CPU's name in `/proc/cpuinfo`; on aarch64, which has none there, the numbers of its maker and part.
fn parse_model(text: &str) -> Option<String> {
    let value = |key: &str| {
        text.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == key && !value.trim().is_empty()).then(|| value.trim().to_owned())
        })
    };
    value("model name")
        .or_else(|| Some(format!("CPU implementer {}, part {}", value("CPU implementer")?, value("CPU part")?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;

    fn cpus(numbers: &[u32]) -> Vec<CpuNumber> {
        numbers.iter().copied().map(CpuNumber).collect()
    }

    #[test]
    fn lists_of_cpus_are_read_as_the_kernel_writes_them() {
        assert_eq!(parse_cpus("0-3,8,10-11\n"), Some(cpus(&[0, 1, 2, 3, 8, 10, 11])));
        assert_eq!(parse_cpus("\n"), Some(Vec::new()));
        for bad in ["x", "3-1", "0-4294967295", "1,1", "2,1", "-1", "0-", "0-1-2"] {
            assert_eq!(parse_cpus(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_cpu_is_named_by_its_maker_or_by_its_part() {
        let x86 = "processor\t: 0\nmodel\t\t: 143\nmodel name\t: Intel(R) Xeon(R) Processor\n";
        assert_eq!(parse_model(x86).unwrap(), "Intel(R) Xeon(R) Processor");
        let arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n";
        assert_eq!(parse_model(arm).unwrap(), "CPU implementer 0x41, part 0xd40");
        assert_eq!(parse_model("garbage"), None);
    }

    #[test]
    fn nodes_have_cpus_and_memory() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::new(folder.path(), folder.path());
        for (name, content) in [
            ("node0/cpulist", "0-1\n"),
            ("node0/meminfo", "Node 0 MemTotal: 1024 kB\nNode 0 MemFree: 512 kB\n"),
            ("node10/cpulist", "\n"),
            ("node10/meminfo", "Node 10 MemTotal: 2048 kB\nNode 10 MemFree: 2048 kB\n"),
            ("possible", "0-10\n"),
        ] {
            let path = roots.sys("devices/system/node").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let near = NodeResources {
            node: Node(0),
            cpus: cpus(&[0, 1]),
            total: Bytes::from_mib(1),
            free: Bytes::new(512 << 10),
        };
        let far =
            NodeResources { node: Node(10), cpus: cpus(&[]), total: Bytes::from_mib(2), free: Bytes::from_mib(2) };
        let topology = Topology { allowed: cpus(&[1, 2]), ..Topology::read(&roots) };
        assert_eq!(topology.nodes, [near, far]);
        assert_eq!(topology.cpus_near(Node(0)), cpus(&[1]));
        assert_eq!(topology.cpus_near(Node(10)), cpus(&[1, 2]), "a node without CPUs is reached from all");
    }

    #[test]
    fn a_kernel_without_numa_is_one_node_with_everything() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("meminfo"), "MemTotal: 1024 kB\nMemFree: 512 kB\n").unwrap();
        let topology = Topology::read(&Roots::new(folder.path(), folder.path()));
        assert_eq!(topology.nodes.len(), 1);
        assert_eq!((topology.nodes[0].node, topology.nodes[0].total), (Node(0), Bytes::from_mib(1)));
        assert_eq!(topology.nodes[0].cpus, topology.allowed);
    }

    #[test]
    fn this_machine_has_a_node_and_a_cpu_that_we_may_use() {
        let topology = Topology::read(&Roots::default());
        assert!(!topology.nodes.is_empty() && !topology.allowed.is_empty());
        let near: Vec<_> = topology.nodes.iter().flat_map(|node| topology.cpus_near(node.node)).collect();
        assert!(near.iter().all(|cpu| topology.allowed.contains(cpu)));
    }

    proptest! {
        #[test]
        fn no_list_is_too_strange(text in "[0-9,\\- a]{0,24}") {
            if let Some(cpus) = parse_cpus(&text) {
                prop_assert!(cpus.is_sorted() && cpus.len() <= MAX_CPU as usize + 1);
            }
        }
    }
}
