//! The meaning of a rank's records: the library's handles become ranks, tags and requests.
//!
//! **Problem.** Handles of communicators and requests are reused, they differ from rank to rank, and the sender to a
//! receive from any rank is known only when the receive is done. **Idea.** Go through a rank's records once, with a
//! table of the handles in use. Two ranks have the same communicator if its members are the same and it is the n-th
//! with these members on both. A request is the oldest one of its handle, since libraries give one handle to all sends
//! that complete at once. **Why this way.** The recorded program only has to write down what it sees.
//!
//! A call that does not block is CPU work. The simulated network takes the CPU's part of a message (*o*, and the part
//! that grows with size) once on either side. That much is subtracted from the calls that begin and complete the
//! message; the remaining time is computing. A call that blocks takes as long as the simulation says.
//!
//! A receive from any rank takes the same message as in the recorded run: which message came first is a fact of that
//! run. A receive that was cancelled or never completed is left out. Where the simulation lacks a call of MPI, the
//! nearest one replaces it: a synchronous send becomes a send, `MPI_Exscan` a scan, `MPI_Reduce_scatter` a reduction
//! and a scatter of its result (the algorithm that Open MPI calls non-overlapping), and the creation of a communicator
//! an `MPI_Allreduce` of one word among its members, who agree on its context.

use std::collections::{BTreeSet, HashMap, VecDeque};

use rampart_memory::Bytes;

use super::record::{CollectiveCode, Done, Handle, Peer, Record, RecordedMessage, Spent};
use super::{Call, Communicator, MpiRequest};
use crate::model::network::LogGops;
use crate::model::operation::{Operation, Rank, Tag};
use crate::programs::collective::CollectiveKind;
use crate::time::Time;

/// A record that contradicts an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Contradiction;

/// Facts about all ranks together.
#[derive(Debug, Default)]
pub(super) struct KnownRanks {
    ranks: u32,
    /// The communicators after [`Communicator::WORLD`].
    pub communicators: Vec<Vec<Rank>>,
    /// Communicators by their members and the number of earlier ones with the same members.
    numbers: HashMap<(Vec<u32>, u32), Communicator>,
    tags: HashMap<(Communicator, u32), Tag>,
    /// The names of calls that are not simulated.
    pub others: BTreeSet<String>,
}

impl KnownRanks {
    pub fn new(ranks: u32) -> Self {
        let world = ((0..ranks).collect(), 0);
        Self { ranks, numbers: HashMap::from([(world, Communicator::WORLD)]), ..Self::default() }
    }

    fn communicator(&mut self, members: &[u32], before: u32) -> Communicator {
        let communicators = &mut self.communicators;
        *self.numbers.entry((members.to_vec(), before)).or_insert_with(|| {
            communicators.push(members.iter().copied().map(Rank).collect());
            Communicator(u32::try_from(communicators.len()).expect("each is many bytes of a file"))
        })
    }

    /// A tag of one communicator differs from the same tag of another.
    fn tag(&mut self, communicator: Communicator, tag: u32) -> Tag {
        let next = Tag(u32::try_from(self.tags.len()).expect("each is some bytes of a file"));
        *self.tags.entry((communicator, tag)).or_insert(next)
    }

    fn members(&self, communicator: Communicator) -> Members<'_> {
        match communicator {
            Communicator::WORLD => Members::World(self.ranks),
            Communicator(number) => Members::Listed(&self.communicators[number as usize - 1]),
        }
    }
}

enum Members<'a> {
    World(u32),
    Listed(&'a [Rank]),
}

impl Members<'_> {
    fn count(&self) -> usize {
        match self {
            Self::World(ranks) => *ranks as usize,
            Self::Listed(ranks) => ranks.len(),
        }
    }

    fn rank(&self, number: u32) -> Result<Rank, Contradiction> {
        match self {
            Self::World(ranks) => (number < *ranks).then_some(Rank(number)),
            Self::Listed(ranks) => ranks.get(number as usize).copied(),
        }
        .ok_or(Contradiction)
    }
}

/// A request that is not yet done.
#[derive(Clone, Copy, Debug)]
struct Open {
    what: Asked,
    /// The CPU time that the network takes for it, minus the time already subtracted from calls.
    network: Time,
}

#[derive(Clone, Copy, Debug)]
enum Asked {
    /// There is no message.
    Nothing,
    Sent(MpiRequest),
    /// A receive that the call at this index began, in this communicator.
    Received(MpiRequest, usize, Communicator, RecordedMessage),
}

/// The message of a persistent request, which may begin many times.
#[derive(Clone, Copy, Debug)]
enum Template {
    Send(RecordedMessage),
    Recv(RecordedMessage),
}

/// The calls of one rank, built record by record.
#[derive(Debug)]
pub(super) struct Calls<'a> {
    known: &'a mut KnownRanks,
    network: &'a LogGops,
    rank: u32,
    /// CPUs and ranks of its node: with more ranks than CPUs, computing takes longer by this ratio.
    share: (u64, u64),
    /// A receive that turns out to be cancelled is `None` in the end.
    calls: Vec<Option<Call>>,
    communicators: HashMap<Handle, Communicator>,
    /// How many communicators with these members there were.
    met: HashMap<Vec<u32>, u32>,
    open: HashMap<Handle, VecDeque<Open>>,
    templates: HashMap<Handle, Template>,
    requests: u32,
}

impl<'a> Calls<'a> {
    pub fn new(known: &'a mut KnownRanks, network: &'a LogGops, rank: u32, share: (u64, u64)) -> Self {
        Self {
            known,
            network,
            rank,
            share,
            calls: Vec::new(),
            communicators: HashMap::new(),
            met: HashMap::new(),
            open: HashMap::new(),
            templates: HashMap::new(),
            requests: 0,
        }
    }

    /// All calls, without receives that never completed.
    pub fn end(mut self) -> Vec<Call> {
        for open in self.open.into_values().flatten() {
            if let Asked::Received(_, place, ..) = open.what {
                self.calls[place] = None;
            }
        }
        self.calls.into_iter().flatten().collect()
    }

    /// Adds a record, and the time spent before it.
    pub fn add(&mut self, spent: Spent, record: Record) -> Result<(), Contradiction> {
        let computed = self.longer(spent.computed)?;
        self.compute(computed);
        let library = self.longer(spent.library)?;
        let of_a_message = matches!(
            record,
            Record::Recv(_) | Record::Isend(..) | Record::Irecv(..) | Record::Start(_) | Record::Done(_)
        );
        if !of_a_message {
            self.compute(library);
        }
        match record {
            Record::Recv(message) => self.received(message, library)?,
            Record::Isend(message, request) => self.begin_send(message, request, library)?,
            Record::Irecv(message, request) => self.begin_receive(message, request, library),
            Record::Start(request) => self.start(request, library)?,
            Record::Done(done) => self.done(done, library)?,
            Record::Send(message) => {
                if let Some(operation) = self.send(message)? {
                    self.call(Call::Blocking(operation));
                }
            }
            Record::Sendrecv { sent, received } => self.exchange(sent, received)?,
            Record::SendInit(message, request) => {
                self.templates.insert(request, Template::Send(message));
            }
            Record::RecvInit(message, request) => {
                self.templates.insert(request, Template::Recv(message));
            }
            Record::Free(request) => self.free(request),
            Record::Collective { communicator, which, root, bytes } => {
                if let Some(communicator) = self.communicators.get(&communicator).copied() {
                    self.collective(communicator, which, root, bytes);
                }
            }
            Record::Communicator { communicator, members } => self.communicator(communicator, members)?,
            Record::Other(name) => {
                self.known.others.insert(name);
            }
            Record::End { .. } => {}
        }
        Ok(())
    }

    /// CPU time, extended where other ranks share the CPU.
    fn longer(&self, time: Time) -> Result<Time, Contradiction> {
        let (longer, shorter) = self.share;
        let picos = u128::from(time.picos()) * u128::from(longer) / u128::from(shorter);
        u64::try_from(picos).map(Time::from_picos).map_err(|_| Contradiction)
    }

    fn compute(&mut self, time: Time) {
        if time > Time::ZERO {
            self.call(Call::Blocking(Operation::calc(time)));
        }
    }

    /// Adds computing for the time of a call beyond the network's part; `network` is what is left of that part.
    fn compute_beyond(&mut self, library: Time, network: Time) -> Time {
        self.compute(library.since(network));
        network.since(library)
    }

    fn call(&mut self, call: Call) {
        self.calls.push(Some(call));
    }

    fn request(&mut self) -> MpiRequest {
        self.requests += 1;
        MpiRequest(self.requests - 1)
    }

    /// The communicator of a message; `None` if it was not recorded.
    fn of(&self, message: RecordedMessage) -> Option<Communicator> {
        self.communicators.get(&message.communicator).copied()
    }

    /// The peer and the tag of a message; `None` where there is no message.
    fn resolve(
        &mut self,
        communicator: Communicator,
        message: RecordedMessage,
    ) -> Result<Option<(Rank, Tag)>, Contradiction> {
        match (message.peer, message.tag) {
            (Peer::Nobody, _) => Ok(None),
            (Peer::Number(number), Some(tag)) => {
                let rank = self.known.members(communicator).rank(number)?;
                Ok(Some((rank, self.known.tag(communicator, tag))))
            }
            (Peer::Anybody, _) | (_, None) => Err(Contradiction),
        }
    }

    fn send(&mut self, message: RecordedMessage) -> Result<Option<Operation>, Contradiction> {
        let Some(communicator) = self.of(message) else { return Ok(None) };
        let resolved = self.resolve(communicator, message)?;
        Ok(resolved.map(|(to, tag)| Operation::send(to, Bytes::new(message.bytes), tag)))
    }

    fn receive(&mut self, message: RecordedMessage) -> Result<Option<Operation>, Contradiction> {
        self.of(message).map_or(Ok(None), |communicator| self.receive_in(communicator, message))
    }

    fn receive_in(
        &mut self,
        communicator: Communicator,
        message: RecordedMessage,
    ) -> Result<Option<Operation>, Contradiction> {
        let resolved = self.resolve(communicator, message)?;
        Ok(resolved.map(|(from, tag)| Operation::recv(Some(from), Bytes::new(message.bytes), Some(tag))))
    }

    /// A receive that may have been probed before.
    fn received(&mut self, message: RecordedMessage, library: Time) -> Result<(), Contradiction> {
        let operation = self.receive(message)?;
        if let Some(operation) = operation {
            self.call(Call::Blocking(operation));
        }
        let network = operation.map_or(Time::ZERO, |_| self.network.receiving(message.bytes));
        self.compute_beyond(library, network);
        Ok(())
    }

    /// A send whose message is in flight when the call returns.
    fn begin_send(&mut self, message: RecordedMessage, handle: Handle, library: Time) -> Result<(), Contradiction> {
        let operation = self.send(message)?;
        let network = operation.map_or(Time::ZERO, |_| self.network.sending(message.bytes));
        let network = self.compute_beyond(library, network);
        let what = operation.map_or(Asked::Nothing, |operation| {
            let request = self.request();
            self.call(Call::Begin(operation, request));
            Asked::Sent(request)
        });
        self.open.entry(handle).or_default().push_back(Open { what, network });
        Ok(())
    }

    /// A receive whose sender is known only when it is done; until then its index is kept.
    fn begin_receive(&mut self, message: RecordedMessage, handle: Handle, library: Time) {
        let communicator = self.of(message).filter(|_| message.peer != Peer::Nobody);
        let network = communicator.map_or(Time::ZERO, |_| self.network.receiving(message.bytes));
        let network = self.compute_beyond(library, network);
        let what = communicator.map_or(Asked::Nothing, |communicator| {
            self.calls.push(None);
            Asked::Received(self.request(), self.calls.len() - 1, communicator, message)
        });
        self.open.entry(handle).or_default().push_back(Open { what, network });
    }

    fn start(&mut self, handle: Handle, library: Time) -> Result<(), Contradiction> {
        match self.templates.get(&handle) {
            Some(Template::Send(message)) => return self.begin_send(*message, handle, library),
            Some(Template::Recv(message)) => self.begin_receive(*message, handle, library),
            None => self.compute(library),
        }
        Ok(())
    }

    fn exchange(&mut self, sent: RecordedMessage, received: RecordedMessage) -> Result<(), Contradiction> {
        let (receive, send) = (self.receive(received)?, self.send(sent)?);
        let begun: Vec<(Operation, MpiRequest)> =
            [receive, send].into_iter().flatten().map(|operation| (operation, self.request())).collect();
        begun.iter().for_each(|(operation, request)| self.call(Call::Begin(*operation, *request)));
        begun.iter().for_each(|(_, request)| self.call(Call::Wait(*request)));
        Ok(())
    }

    /// A request was waited for, or found done by a test.
    fn done(&mut self, done: Done, library: Time) -> Result<(), Contradiction> {
        let open = self.oldest(done.request).unwrap_or(Open { what: Asked::Nothing, network: Time::ZERO });
        match open.what {
            Asked::Sent(request) => self.call(Call::Wait(request)),
            Asked::Received(request, place, communicator, asked) if !done.cancelled => {
                let peer = done.source.map_or(asked.peer, Peer::Number);
                let took = RecordedMessage { peer, tag: done.tag.or(asked.tag), ..asked };
                self.calls[place] =
                    self.receive_in(communicator, took)?.map(|operation| Call::Begin(operation, request));
                self.call(Call::Wait(request));
            }
            Asked::Received(..) | Asked::Nothing => {}
        }
        self.compute_beyond(library, open.network);
        Ok(())
    }

    /// The oldest request of a handle; `None` for requests of calls that are not recorded.
    fn oldest(&mut self, handle: Handle) -> Option<Open> {
        let of_handle = self.open.get_mut(&handle)?;
        let oldest = of_handle.pop_front();
        if of_handle.is_empty() {
            self.open.remove(&handle);
        }
        oldest
    }

    fn free(&mut self, handle: Handle) {
        self.templates.remove(&handle);
        if let Some(Open { what: Asked::Received(_, place, ..), .. }) = self.oldest(handle) {
            self.calls[place] = None;
        }
    }

    fn collective(&mut self, communicator: Communicator, which: CollectiveCode, root: u32, bytes: u64) {
        let count = self.known.members(communicator).count() as u64;
        if count == 1 {
            return;
        }
        let (root, part) = (Rank(root), Bytes::new(bytes.div_ceil(count)));
        let bytes = Bytes::new(bytes);
        let kind = match which {
            CollectiveCode::Barrier => CollectiveKind::Barrier,
            CollectiveCode::Broadcast => CollectiveKind::Broadcast(root),
            CollectiveCode::Reduce => CollectiveKind::Reduce(root),
            CollectiveCode::Gather => CollectiveKind::Gather(root),
            CollectiveCode::Scatter => CollectiveKind::Scatter(root),
            CollectiveCode::Allreduce => CollectiveKind::Allreduce,
            CollectiveCode::Allgather => CollectiveKind::Allgather,
            CollectiveCode::Alltoall => {
                return self.call(Call::Collective(CollectiveKind::Alltoall, part, communicator));
            }
            CollectiveCode::Scan => CollectiveKind::Scan,
            CollectiveCode::ReduceScatter => {
                self.call(Call::Collective(CollectiveKind::Reduce(Rank(0)), bytes, communicator));
                return self.call(Call::Collective(CollectiveKind::Scatter(Rank(0)), part, communicator));
            }
        };
        self.call(Call::Collective(kind, bytes, communicator));
    }

    fn communicator(&mut self, handle: Handle, members: Vec<u32>) -> Result<(), Contradiction> {
        let within = members.iter().all(|member| *member < self.known.ranks);
        if !within || !members.contains(&self.rank) {
            return Err(Contradiction);
        }
        let before = self.met.get(&members).copied().unwrap_or(0);
        let communicator = self.known.communicator(&members, before);
        self.met.insert(members, before + 1);
        let first = self.communicators.is_empty();
        self.communicators.insert(handle, communicator);
        if !first {
            self.collective(communicator, CollectiveCode::Allreduce, 0, 8);
        }
        Ok(())
    }
}
