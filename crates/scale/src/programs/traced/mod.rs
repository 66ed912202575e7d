//! Workloads of \[Ferreira21\] as traces of the real programs.
//!
//! **Problem.** A [skeleton](crate::programs::workload) has the messages of a program and not its imbalance, and some
//! of its times are assumed. **Idea.** Most of these programs are public, so they can be traced. **Why this way.** A
//! trace of eight ranks takes some kilobytes a step, and is extrapolated to any number of ranks as in [Ferreira21,
//! III-C]. `crates/scale/traces/README.md` says how each was recorded.
//!
//! | module | owns |
//! |---|---|
//! | [`table`] | the traces, with sources |
//! | [`known`] | a program by its name: a trace where there is one, else a skeleton |

pub mod known;
pub mod table;
#[cfg(test)]
mod tests;

use crate::error::Error;
use crate::model::network::LogGops;
use crate::programs::trace::file::{RankCpus, RecordedTrace, read_for};
use crate::programs::trace::meetings::TracePart;

pub use known::KnownProgram;
pub use table::TRACES;

/// A traced program, of which a part is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedWorkload {
    /// The name on the command line, which is that of its skeleton.
    pub name: &'static str,
    /// The problem that it computes.
    pub what: &'static str,
    /// The program, its size, and where it was traced.
    pub source: &'static str,
    /// The number of traced ranks.
    pub ranks: u32,
    /// The trace, compressed by Zstandard.
    file: &'static [u8],
    /// The collectives of all ranks before the repeated part: the program sets up its data until then.
    setup: usize,
    /// The collectives of all ranks in the repeated part; the last one ends it.
    repeated: usize,
}

/// The greatest size of a decompressed trace, in bytes.
const MOST_BYTES: usize = 1 << 24;

impl TracedWorkload {
    /// The whole trace, for a simulation over a network on nodes where each rank has a CPU of its own.
    ///
    /// # Errors
    /// None for the traces of [`TRACES`], which tests read.
    pub fn recorded(&self, network: &LogGops) -> Result<RecordedTrace, Error> {
        let bytes = zstd::bulk::decompress(self.file, MOST_BYTES);
        read_for(&bytes.map_err(|_| Error::NoTrace { at: 0 })?, network, RankCpus::Own)
    }

    /// The part that is repeated.
    ///
    /// # Errors
    /// As [`Self::recorded`].
    pub fn cycle(&self, network: &LogGops) -> Result<Vec<TracePart>, Error> {
        let mut parts = self.recorded(network)?.trace.parts()?;
        if parts.len() < self.setup + self.repeated {
            return Err(Error::NoTrace { at: 0 });
        }
        parts.truncate(self.setup + self.repeated);
        Ok(parts.split_off(self.setup))
    }

    /// The collectives of all ranks in the repeated part.
    #[must_use]
    pub const fn collectives(&self) -> usize {
        self.repeated
    }

    /// The number of copies of the traced ranks on so many nodes: as many as there is room for, and at least one.
    #[must_use]
    pub fn copies(&self, nodes: u32) -> u32 {
        (nodes / self.ranks).max(1)
    }
}
