//! What a rank does: compute, send, receive.

use rampart_memory::Bytes;

use crate::time::Time;

/// A process, by its number; below 2^32 - 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank(pub u32);

impl Rank {
    /// As an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The label of a message that a receive can ask for; below 2^32 - 2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u32);

/// The number that the schedule gave to an operation of one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub u32);

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The CPU computes.
    Calc(Time),
    /// Sends a message.
    Send {
        /// The receiver.
        to: Rank,
        /// The size.
        bytes: Bytes,
        /// Its tag.
        tag: Tag,
    },
    /// Waits for a message; the CPU is free meanwhile.
    Recv {
        /// The sender; `None` means any.
        from: Option<Rank>,
        /// The size.
        bytes: Bytes,
        /// Its tag; `None` means any.
        tag: Option<Tag>,
    },
}

/// Sends first, then receives, then computing: operations that become ready at the same time start in this order, as in
/// LogGOPSim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum OperationKind {
    Send,
    Recv,
    Calc,
}

/// The rank or tag that matches all.
pub(crate) const ANY: u32 = u32::MAX;

/// The tag of collectives. No wildcard matches it: in MPI the messages of collectives belong to another context.
/// Messages from one rank to another stay in order, so one tag is enough.
pub(crate) const COLLECTIVES: Tag = Tag(u32::MAX - 1);

/// One operation, in 24 bytes: millions of them are in flight at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Bytes, or picoseconds of computing.
    pub(crate) size: u64,
    pub(crate) peer: u32,
    pub(crate) tag: u32,
    pub(crate) id: OpId,
    pub(crate) kind: OperationKind,
    pub(crate) cpu: u8,
    pub(crate) nic: u8,
}

impl Operation {
    /// Computes for this time.
    #[must_use]
    pub const fn calc(time: Time) -> Self {
        Self::new(OperationKind::Calc, time.picos(), 0, 0)
    }

    /// Sends this many bytes.
    #[must_use]
    pub const fn send(to: Rank, bytes: Bytes, tag: Tag) -> Self {
        Self::new(OperationKind::Send, bytes.get(), to.0, tag.0)
    }

    /// Receives; `None` means any sender or any tag.
    #[must_use]
    pub fn recv(from: Option<Rank>, bytes: Bytes, tag: Option<Tag>) -> Self {
        Self::new(OperationKind::Recv, bytes.get(), from.map_or(ANY, |rank| rank.0), tag.map_or(ANY, |tag| tag.0))
    }

    const fn new(kind: OperationKind, size: u64, peer: u32, tag: u32) -> Self {
        Self { size, peer, tag, id: OpId(0), kind, cpu: 0, nic: 0 }
    }

    /// The same operation on another CPU and NIC of its rank.
    #[must_use]
    pub const fn on(self, cpu: u8, nic: u8) -> Self {
        Self { cpu, nic, ..self }
    }

    /// The same operation with another number.
    #[must_use]
    pub const fn named(self, id: OpId) -> Self {
        Self { id, ..self }
    }

    /// The same operation with its peer moved by this distance; a wildcard stays a wildcard.
    #[must_use]
    pub(crate) const fn shifted(self, by: u32) -> Self {
        if self.peer == ANY || matches!(self.kind, OperationKind::Calc) {
            self
        } else {
            Self { peer: self.peer + by, ..self }
        }
    }

    /// Whether it uses CPU 0 and NIC 0.
    pub(crate) const fn is_usual(self) -> bool {
        self.cpu == 0 && self.nic == 0
    }

    /// The other rank, if it names one.
    pub(crate) fn peer(self) -> Option<Rank> {
        (self.kind != OperationKind::Calc && self.peer != ANY).then_some(Rank(self.peer))
    }

    /// Its number.
    #[must_use]
    pub const fn id(self) -> OpId {
        self.id
    }

    /// The CPU that it runs on, counted from 0.
    #[must_use]
    pub const fn cpu(self) -> u8 {
        self.cpu
    }

    /// The NIC that it uses, counted from 0.
    #[must_use]
    pub const fn nic(self) -> u8 {
        self.nic
    }

    /// What it does.
    #[must_use]
    pub fn action(self) -> Action {
        let bytes = Bytes::new(self.size);
        let unless_any = |number| (number != ANY).then_some(number);
        match self.kind {
            OperationKind::Calc => Action::Calc(Time::from_picos(self.size)),
            OperationKind::Send => Action::Send { to: Rank(self.peer), bytes, tag: Tag(self.tag) },
            OperationKind::Recv => {
                Action::Recv { from: unless_any(self.peer).map(Rank), bytes, tag: unless_any(self.tag).map(Tag) }
            }
        }
    }
}
