//! What the records of a rank mean: from the library's names to ranks, tags and requests.
//!
//! **Problem.** Handles of communicators and requests are used again, differ from rank to rank, and what a receive from
//! anyone took is known when it is done. **Idea.** A rank's records are gone through once, with the handles that are in
//! use. A communicator is the same on two ranks if its members are and it is the so-many-th with these; a request is
//! the oldest that its handle names, since libraries give all sends that are done at once one handle. **Why this way.**
//! The program that is recorded does no more than to write down what it sees.
//!
//! A call that does not block is work of the CPU. The network takes a message's part of it (*o*, and what grows with
//! size) once on either side, so that much is left out of the calls that begin and find the message; what they took
//! beyond is computing. A call that blocks takes what the simulation says.
//!
//! A receive takes what it took then: who was first is a fact of the recorded run, and is kept. One that was cancelled,
//! or never done, is left out. Where MPI has a call that the simulation has not, it is the nearest: a synchronous send
//! is a send, `MPI_Exscan` is a scan, `MPI_Reduce_scatter` a reduction and a scatter of its result (the algorithm that
//! Open MPI calls non-overlapping), and making a communicator an `MPI_Allreduce` of a word among its members, who agree
//! on its context.

use std::collections::{BTreeSet, HashMap, VecDeque};

use rampart_memory::Bytes;

use super::record::{CollectiveCode, Done, Handle, Peer, Record, RecordedMessage, Spent};
use super::{Call, Communicator, MpiRequest};
use crate::model::network::LogGops;
use crate::model::operation::{Operation, Rank, Tag};
use crate::programs::collective::CollectiveKind;
use crate::time::Time;

/// A record that contradicts what was before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Contradiction;

/// What is known of all ranks together.
#[derive(Debug, Default)]
pub(super) struct KnownRanks {
    ranks: u32,
    /// Those after [`Communicator::WORLD`].
    pub communicators: Vec<Vec<Rank>>,
    /// By their members, and how many there were with these before.
    numbers: HashMap<(Vec<u32>, u32), Communicator>,
    tags: HashMap<(Communicator, u32), Tag>,
    /// What was called and is not simulated.
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

    /// Tags of one communicator are not those of another.
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

/// A request that is not done.
#[derive(Clone, Copy, Debug)]
struct Open {
    what: Asked,
    /// What the network takes of the CPU for it, less what was left out of calls by now.
    network: Time,
}

#[derive(Clone, Copy, Debug)]
enum Asked {
    /// There is no message.
    Nothing,
    Sent(MpiRequest),
    /// Begun by the call at this place, in this communicator.
    Received(MpiRequest, usize, Communicator, RecordedMessage),
}

/// What a persistent request begins again and again.
#[derive(Clone, Copy, Debug)]
enum Template {
    Send(RecordedMessage),
    Recv(RecordedMessage),
}

/// The calls of one rank, as its records are told one by one.
#[derive(Debug)]
pub(super) struct Calls<'a> {
    known: &'a mut KnownRanks,
    network: &'a LogGops,
    rank: u32,
    /// Its CPUs' time and its own: with more ranks than CPUs on a node, computing takes longer by this.
    share: (u64, u64),
    /// A receive that may turn out to have been cancelled is `None` in the end.
    calls: Vec<Option<Call>>,
    communicators: HashMap<Handle, Communicator>,
    /// How many communicators there were with these members.
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

    /// All of them, receives left out that were never done.
    pub fn end(mut self) -> Vec<Call> {
        for open in self.open.into_values().flatten() {
            if let Asked::Received(_, place, ..) = open.what {
                self.calls[place] = None;
            }
        }
        self.calls.into_iter().flatten().collect()
    }

    /// One record more, and what was before it.
    pub fn tell(&mut self, spent: Spent, record: Record) -> Result<(), Contradiction> {
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

    /// Time of a CPU that others use as well.
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

    /// Computes what a call took beyond the network's part, of which so much is left.
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

    /// The communicator of a message; one that is not recorded is none.
    fn of(&self, message: RecordedMessage) -> Option<Communicator> {
        self.communicators.get(&message.communicator).copied()
    }

    /// Whose message, and by which tag; `None` where there is none.
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

    /// It may have been found by looking, before.
    fn received(&mut self, message: RecordedMessage, library: Time) -> Result<(), Contradiction> {
        let operation = self.receive(message)?;
        if let Some(operation) = operation {
            self.call(Call::Blocking(operation));
        }
        let network = operation.map_or(Time::ZERO, |_| self.network.receiving(message.bytes));
        self.compute_beyond(library, network);
        Ok(())
    }

    /// The message is on its way when the call is over.
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

    /// What it receives is known when it is done; until then its place is kept.
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

    /// It was waited for, or found by looking.
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

    /// The oldest request of a handle; requests of calls that are not recorded are none.
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
