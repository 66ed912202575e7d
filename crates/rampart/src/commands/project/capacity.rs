//! The capacity of this machine for simulations: its CPUs and its memory.

use std::thread;

use rampart_linux::{MemoryState, Roots};
use rampart_memory::Bytes;
use rampart_scale::memory::fewer_nodes_that_fit;
use rampart_scale::project::{PreparedProgram, memory, memory_of_traced};
use rampart_scale::{KnownProgram, LogGops};

use crate::error::Error;

/// The number of runs at once: one for each CPU.
pub fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// The program on about so many nodes, and the memory that it takes. A skeleton is one grid, or `extrapolated`; a trace
/// is always extrapolated.
///
/// # Errors
/// [`Error::TooLargeToSimulate`] if it does not fit into this machine's memory.
pub fn prepared(
    program: &KnownProgram,
    extrapolated: bool,
    nodes: u32,
    network: &LogGops,
) -> Result<(PreparedProgram, Bytes), Error> {
    match program {
        KnownProgram::Traced(traced) => {
            let memory = check(nodes, |nodes| memory_of_traced(traced, nodes, threads()))?;
            Ok((PreparedProgram::traced(traced, nodes, network)?, memory))
        }
        KnownProgram::Skeleton(workload) => {
            let on = |nodes| if extrapolated { workload.extrapolated(nodes, 1) } else { workload.on(nodes, 1) };
            let memory = check(nodes, |nodes| memory(&on(nodes), threads()))?;
            Ok((PreparedProgram::new(&on(nodes), network)?, memory))
        }
    }
}

/// The memory that so many nodes need, if this machine has as much.
fn check(nodes: u32, memory: impl Fn(u32) -> Bytes) -> Result<Bytes, Error> {
    let available = MemoryState::read(&Roots::default())?.available();
    let needed = memory(nodes);
    if needed <= available {
        return Ok(needed);
    }
    let fits = fewer_nodes_that_fit(nodes, available, memory);
    Err(Error::TooLargeToSimulate { nodes, needed, available, fits })
}
