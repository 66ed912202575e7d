//! The records of a rank's calls: `docs/trace-format.md`.
//!
//! This module resolves nothing: a communicator or a request is the library's handle.

use crate::encoding::leb128::{Leb128Reader, NoLeb128};
use crate::time::Time;

/// The most bytes of a call: 512 GiB. A collective of the largest number of ranks then moves fewer than 2^64 bytes, so
/// no size overflows.
const MOST_BYTES: u64 = 1 << 39;

/// The library's handle of a communicator or a request; handles are reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Handle(pub u64);

/// The other side of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    /// `MPI_PROC_NULL`: there is no message.
    Nobody,
    /// `MPI_ANY_SOURCE`.
    Anybody,
    /// A rank of the communicator.
    Number(u32),
}

/// A message, or the pattern of a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordedMessage {
    pub communicator: Handle,
    pub peer: Peer,
    /// `None` means any.
    pub tag: Option<u32>,
    pub bytes: u64,
}

/// A request that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Done {
    pub request: Handle,
    pub cancelled: bool,
    /// The sender, from the status of a receive.
    pub source: Option<u32>,
    pub tag: Option<u32>,
}

/// The collective. The numbers are those of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CollectiveCode {
    Barrier = 0,
    Broadcast = 1,
    Reduce = 2,
    Gather = 3,
    Scatter = 4,
    Allreduce = 5,
    Allgather = 6,
    Alltoall = 7,
    Scan = 8,
    ReduceScatter = 9,
}

impl CollectiveCode {
    const ALL: [Self; 10] = [
        Self::Barrier,
        Self::Broadcast,
        Self::Reduce,
        Self::Gather,
        Self::Scatter,
        Self::Allreduce,
        Self::Allgather,
        Self::Alltoall,
        Self::Scan,
        Self::ReduceScatter,
    ];
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Record {
    Send(RecordedMessage),
    Recv(RecordedMessage),
    Isend(RecordedMessage, Handle),
    Irecv(RecordedMessage, Handle),
    Sendrecv { sent: RecordedMessage, received: RecordedMessage },
    Done(Done),
    SendInit(RecordedMessage, Handle),
    RecvInit(RecordedMessage, Handle),
    Start(Handle),
    Free(Handle),
    Collective { communicator: Handle, which: CollectiveCode, root: u32, bytes: u64 },
    Communicator { communicator: Handle, members: Vec<u32> },
    Other(String),
    End { wall: Time },
}

/// A rank's time since the record before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spent {
    /// Time spent computing.
    pub computed: Time,
    /// Time in calls that do not block.
    pub library: Time,
}

/// Why there is no next record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoRecord {
    /// The bytes end, here or within a record.
    CutOff,
    /// The bytes are no record.
    Damaged,
}

impl From<NoLeb128> for NoRecord {
    fn from(why: NoLeb128) -> Self {
        match why {
            NoLeb128::Ended => Self::CutOff,
            NoLeb128::TooLarge => Self::Damaged,
        }
    }
}

/// Reads the records of one rank.
pub(super) struct Records<'a> {
    numbers: Leb128Reader<'a>,
    communicator: Handle,
    request: Handle,
}

impl<'a> Records<'a> {
    pub fn new(numbers: Leb128Reader<'a>) -> Self {
        Self { numbers, communicator: Handle::default(), request: Handle::default() }
    }

    /// The offset of the last record read, or of the one that could not be read.
    pub fn at(&self) -> usize {
        self.numbers.at()
    }

    /// The next record, and the time before it.
    pub fn next(&mut self) -> Result<(Spent, Record), NoRecord> {
        let kind = self.numbers.number()?;
        let (computed, library) = (self.time()?, self.time()?);
        let record = match kind {
            1 => Record::Send(self.message()?),
            2 => Record::Recv(self.message()?),
            3 => Record::Isend(self.message()?, self.request()?),
            4 => Record::Irecv(self.message()?, self.request()?),
            5 => Record::Sendrecv { sent: self.message()?, received: self.message()? },
            6 => Record::Done(self.done()?),
            7 => Record::SendInit(self.message()?, self.request()?),
            8 => Record::RecvInit(self.message()?, self.request()?),
            9 => Record::Start(self.request()?),
            10 => Record::Free(self.request()?),
            11 => self.collective()?,
            12 => Record::Communicator { communicator: self.communicator()?, members: self.members()? },
            13 => Record::Other(self.text()?),
            14 => Record::End { wall: self.time()? },
            _ => return Err(NoRecord::Damaged),
        };
        Ok((Spent { computed, library }, record))
    }

    fn time(&mut self) -> Result<Time, NoRecord> {
        Time::checked_nanos(self.numbers.number()?).ok_or(NoRecord::Damaged)
    }

    fn bytes(&mut self) -> Result<u64, NoRecord> {
        Some(self.numbers.number()?).filter(|bytes| *bytes <= MOST_BYTES).ok_or(NoRecord::Damaged)
    }

    fn message(&mut self) -> Result<RecordedMessage, NoRecord> {
        let communicator = self.communicator()?;
        let peer = match self.numbers.small::<u32>()? {
            0 => Peer::Nobody,
            1 => Peer::Anybody,
            number => Peer::Number(number - 2),
        };
        Ok(RecordedMessage { communicator, peer, tag: self.less_one()?, bytes: self.bytes()? })
    }

    fn done(&mut self) -> Result<Done, NoRecord> {
        let (request, cancelled) = (self.request()?, self.numbers.number()? != 0);
        Ok(Done { request, cancelled, source: self.less_one()?, tag: self.less_one()? })
    }

    fn collective(&mut self) -> Result<Record, NoRecord> {
        let communicator = self.communicator()?;
        let which = CollectiveCode::ALL.get(self.numbers.small::<usize>()?).copied().ok_or(NoRecord::Damaged)?;
        Ok(Record::Collective { communicator, which, root: self.numbers.small()?, bytes: self.bytes()? })
    }

    /// A bad file may claim any count: members are read until there are no more.
    fn members(&mut self) -> Result<Vec<u32>, NoRecord> {
        let count: u32 = self.numbers.small()?;
        (0..count).map(|_| Ok(self.numbers.small()?)).collect()
    }

    fn text(&mut self) -> Result<String, NoRecord> {
        let length = self.numbers.number()?;
        Ok(String::from_utf8_lossy(self.numbers.bytes(length)?).into_owned())
    }

    fn less_one(&mut self) -> Result<Option<u32>, NoRecord> {
        Ok(self.numbers.small::<u32>()?.checked_sub(1))
    }

    fn communicator(&mut self) -> Result<Handle, NoRecord> {
        let step = self.numbers.number()?;
        self.communicator = stepped(self.communicator, step);
        Ok(self.communicator)
    }

    fn request(&mut self) -> Result<Handle, NoRecord> {
        let step = self.numbers.number()?;
        self.request = stepped(self.request, step);
        Ok(self.request)
    }
}

/// The handle at this distance from the last one; the lowest bit is the sign.
fn stepped(last: Handle, step: u64) -> Handle {
    let distance = (step >> 1) ^ (step & 1).wrapping_neg();
    Handle(last.0.wrapping_add(distance))
}
