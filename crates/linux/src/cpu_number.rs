//! CPUs by their numbers.

use serde::Serialize;

/// A CPU, by the kernel's number: one hardware thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, displaydoc::Display)]
#[serde(transparent)]
#[displaydoc("CPU {0}")]
pub struct CpuNumber(pub u32);
