//! The LogGOPS model of a network.
//!
//! **Problem.** What does a message cost, whom, and when does it arrive? **Idea.** Seven parameters (Hoefler et al.,
//! LogGOPSim, HPDC 2010, after LogP): latency *L*, CPU overhead *o*, gap between messages *g*, gap per byte *G*,
//! overhead per byte *O*, processes *P*, and the size *S* above which sender and receiver meet first (rendezvous).
//! **Why this way.** It is the model of LogGOPSim [Ferreira21, III-C], and what it leaves out (routes, contention) is
//! said so.

use rampart_memory::Bytes;

use crate::error::Error;
use crate::time::{PerByte, Time};

/// Networks by their names on the command line.
pub const NETWORKS: [(&str, LogGops); 3] =
    [("cray-xc40", LogGops::cray_xc40()), ("slingshot", LogGops::slingshot()), ("loggopsim", LogGops::loggopsim())];

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
    /// What LogGOPSim assumes when it is told nothing (its `simulator.ggo`): L 2.5 µs, o 1.5 µs, g 1 µs, G 6 ns, O 0, S
    /// 65,535 B.
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

    /// A Cray XC40 (Aries), on which the programs were traced; its parameters are not printed
    /// [Ferreira21, III-D].
    ///
    /// A message takes 1.3 µs from program to program and a node injects 10 GB/s (Alverson, Froese, Kaplan and Roweth,
    /// *Cray XC Series Network*, WP-Aries01-1112, 2012); up to 8 KiB are eager (`MPICH_GNI_MAX_EAGER_MSG_SIZE`). How
    /// the 1.3 µs part into L and o, and g, are assumed.
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
    /// Interconnect*, SC 2020), a port carries 200 Gb/s; up to 16 KiB are eager (`FI_CXI_RDZV_THRESHOLD`). How the 2 µs
    /// part into L and o, and g, are assumed.
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

    /// The one of this name, of those in [`NETWORKS`].
    ///
    /// # Errors
    /// If there is none, with those that there are.
    pub fn named(name: &str) -> Result<Self, Error> {
        let found = NETWORKS.into_iter().find(|(known, _)| *known == name);
        found.map(|(_, network)| network).ok_or_else(|| Error::NoSuchNetwork {
            name: name.to_owned(),
            known: NETWORKS.map(|(known, _)| known).join(", "),
        })
    }

    /// What a message takes of its sender's CPU.
    pub(crate) fn sending(&self, bytes: u64) -> Time {
        self.overhead.plus(self.copy(bytes))
    }

    /// What a message takes of its receiver's CPU, which is kept until the last byte is there.
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
