//! The LogGOPS model of a network.
//!
//! **Problem.** What does a message cost the sender and the receiver, and when does it arrive? **Idea.** Seven
//! parameters (Hoefler et al., LogGOPSim, HPDC 2010, after LogP): latency *L*, CPU overhead *o*, gap between messages
//! *g*, gap per byte *G*, overhead per byte *O*, processes *P*, and the size *S* above which sender and receiver first
//! agree (rendezvous). **Why this way.** It is the model of LogGOPSim [Ferreira21, III-C]. It leaves out routes and
//! contention.

use rampart_memory::Bytes;

use crate::error::Error;
use crate::time::{PerByte, Time};

/// The networks by their names on the command line.
pub const NETWORKS: [(&str, LogGops); 3] =
    [("cray-xc40", LogGops::cray_xc40()), ("slingshot", LogGops::slingshot()), ("loggopsim", LogGops::loggopsim())];

/// Parameters of a network. The schedule gives the number of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogGops {
    /// *L*: the time from the end of the sender's overhead to the arrival of the first byte.
    pub latency: Time,
    /// *o*: CPU time per message, at the sender and at the receiver.
    pub overhead: Time,
    /// *g*: the least time between two messages on the NIC.
    pub gap: Time,
    /// *G*: time on the NIC for each byte but the first.
    pub gap_per_byte: PerByte,
    /// *O*: time on the CPU for each byte but the first.
    pub overhead_per_byte: PerByte,
    /// *S*: a message larger than this waits for its receive.
    pub eager: Bytes,
}

impl LogGops {
    /// The defaults of LogGOPSim (its `simulator.ggo`): L 2.5 µs, o 1.5 µs, g 1 µs, G 6 ns, O 0, S 65,535 B.
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

    /// A Cray XC40 (Aries), on which the programs were traced. [Ferreira21, III-D] does not print its parameters.
    ///
    /// A message takes 1.3 µs from program to program and a node injects 10 GB/s (Alverson, Froese, Kaplan and Roweth,
    /// *Cray XC Series Network*, WP-Aries01-1112, 2012); messages of up to 8 KiB are eager
    /// (`MPICH_GNI_MAX_EAGER_MSG_SIZE`). The split of the 1.3 µs into L and o is assumed, and so is g.
    #[must_use]
    pub const fn cray_xc40() -> Self {
        Self {
            latency: Time::from_nanos(500),
            overhead: Time::from_nanos(400),
            gap: Time::from_nanos(400),
            gap_per_byte: PerByte::from_attos(100_000_000),
            overhead_per_byte: PerByte::ZERO,
            eager: Bytes::new(8192),
        }
    }

    /// A network of today's exascale systems (HPE Slingshot 11).
    ///
    /// A message takes about 2 µs from program to program (De Sensi et al., *An In-Depth Analysis of the Slingshot
    /// Interconnect*, SC 2020), a port carries 200 Gb/s; messages of up to 16 KiB are eager (`FI_CXI_RDZV_THRESHOLD`).
    /// The split of the 2 µs into L and o is assumed, and so is g.
    #[must_use]
    pub const fn slingshot() -> Self {
        Self {
            latency: Time::from_nanos(1200),
            overhead: Time::from_nanos(400),
            gap: Time::from_nanos(400),
            gap_per_byte: PerByte::from_attos(40_000_000),
            overhead_per_byte: PerByte::ZERO,
            eager: Bytes::new(16_384),
        }
    }

    /// The network of this name, from [`NETWORKS`].
    ///
    /// # Errors
    /// If there is none; the error lists the known names.
    pub fn named(name: &str) -> Result<Self, Error> {
        let found = NETWORKS.into_iter().find(|(known, _)| *known == name);
        found.map(|(_, network)| network).ok_or_else(|| Error::NoSuchNetwork {
            name: name.to_owned(),
            known: NETWORKS.map(|(known, _)| known).join(", "),
        })
    }

    /// The sender's CPU time for a message.
    pub(crate) fn sending(&self, bytes: u64) -> Time {
        self.overhead.plus(self.copy(bytes))
    }

    /// The receiver's CPU time for a message; the CPU stays busy until the last byte arrives.
    pub(crate) fn receiving(&self, bytes: u64) -> Time {
        self.overhead.plus(self.copy(bytes).max(self.wire(bytes)))
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
