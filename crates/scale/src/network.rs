//! The LogGOPS model of a network.
//!
//! **Problem.** What does a message cost, whom, and when does it arrive? **Idea.** Seven parameters (Hoefler et al.,
//! LogGOPSim, HPDC 2010, after LogP): latency *L*, CPU overhead *o*, gap between messages *g*, gap per byte *G*, overhead per byte
//! *O*, processes *P*, and the size *S* above which sender and receiver meet first (rendezvous). **Why this way.** It is the
//! model of the paper's simulator (004_c4a115d9f0ebac82.txt, III-C), and what it leaves out (routes, contention) is said so.

use rampart_memory::Bytes;

use crate::time::{PerByte, Time};

/// Parameters of a network. The number of processes is the schedule's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogGops {
    /// *L*: from the end of the sender's overhead to the arrival of the first byte.
    pub latency: Time,
    /// *o*: time of the CPU for each message, at the sender and at the receiver.
    pub overhead: Time,
    /// *g*: the NIC takes the next message so much after the last.
    pub gap: Time,
    /// *G*: for each byte but the first, on the NIC.
    pub gap_per_byte: PerByte,
    /// *O*: for each byte but the first, on the CPU.
    pub overhead_per_byte: PerByte,
    /// *S*: a message that is larger than this waits for its receive.
    pub eager: Bytes,
}

impl LogGops {
    /// What LogGOPSim assumes when it is told nothing (its `simulator.ggo`): L 2.5 µs, o 1.5 µs, g 1 µs, G 6 ns, O 0, S 65,535 B.
    #[must_use]
    pub const fn loggopsim() -> Self {
        Self {
            latency: Time::from_nanos(2500),
            overhead: Time::from_nanos(1500),
            gap: Time::from_nanos(1000),
            gap_per_byte: PerByte::from_nanos(6),
            overhead_per_byte: PerByte::ZERO,
            eager: Bytes::new(65_535),
        }
    }

    /// *(s - 1) G*; nothing for a message without bytes.
    pub(crate) fn wire(&self, bytes: u64) -> Time {
        self.gap_per_byte.times(bytes.saturating_sub(1))
    }

    /// *(s - 1) O*; nothing for a message without bytes.
    pub(crate) fn copy(&self, bytes: u64) -> Time {
        self.overhead_per_byte.times(bytes.saturating_sub(1))
    }
}
