//! The capacity of this machine for simulations: its CPUs and its memory.

use std::thread;

use rampart_linux::{MemoryState, Roots};
use rampart_scale::Workload;
use rampart_scale::memory::fewer_nodes_that_fit;
use rampart_scale::project::memory;
use rampart_scale::workload::WorkloadRun;

use crate::error::Error;

/// The number of runs at once: one for each CPU.
pub fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// The program on about so many nodes.
///
/// # Errors
/// [`Error::TooLargeToSimulate`] if it does not fit into this machine's memory.
pub fn program(workload: &Workload, extrapolated: bool, nodes: u32) -> Result<WorkloadRun, Error> {
    let on = |nodes| if extrapolated { workload.extrapolated(nodes, 1) } else { workload.on(nodes, 1) };
    let memory = |nodes| memory(&on(nodes), threads());
    let available = MemoryState::read(&Roots::default())?.available();
    if memory(nodes) <= available {
        return Ok(on(nodes));
    }
    let fits = fewer_nodes_that_fit(nodes, available, memory);
    Err(Error::TooLargeToSimulate { nodes, needed: memory(nodes), available, fits })
}
