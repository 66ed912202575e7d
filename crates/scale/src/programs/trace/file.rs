//! Traces of real programs, as files: `docs/trace-format.md`.
//!
//! **Problem.** A run of hours makes many calls, and may be killed at any of them. **Idea.** Each rank appends records
//! of some bytes to a file of its own; the files are joined when the program has ended. **Why this way.** A file that
//! ends at any byte is a trace up to there, and no rank waits for another.

use rampart_memory::Bytes;

use super::calls::{Calls, KnownRanks};
use super::record::{NoRecord, Record, Records};
use super::{MpiTrace, cut, together};
use crate::encoding::leb128::{Leb128Reader, put};
use crate::error::Error;
use crate::model::network::LogGops;
use crate::programs::goal::MOST_RANKS;
use crate::time::Time;

/// The first bytes of a trace.
pub const MAGIC: &[u8; 8] = b"RAMPTRAC";
const MAGIC_OF_RANK: &[u8; 8] = b"RAMPRANK";
const VERSION: u64 = 2;

/// A trace and how it was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedTrace {
    /// The calls of the ranks.
    pub trace: MpiTrace,
    /// The longest time of a rank from the end of `MPI_Init` to the start of `MPI_Finalize`; zero if no rank got that
    /// far.
    pub measured: Time,
    /// The number of records: calls and completions.
    pub records: u64,
    /// Whether every rank reached `MPI_Finalize`. If not, the trace holds what all ranks did together until then.
    pub complete: bool,
    /// The ranks and the CPUs of a node, if there were fewer CPUs than ranks. Computing was then measured as CPU time,
    /// and takes longer by this ratio.
    pub shared: Option<(u64, u64)>,
    /// The calls that are not simulated; their time counts as the program's own.
    pub others: Vec<String>,
}

/// Joins the files of all ranks, that of rank 0 first, into one.
#[must_use]
pub fn joined(ranks: &[Vec<u8>]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    put(&mut out, VERSION);
    put(&mut out, ranks.len() as u64);
    for rank in ranks {
        put(&mut out, rank.len() as u64);
        out.extend_from_slice(rank);
    }
    out
}

/// Whether a file with these first bytes may be a trace.
#[must_use]
pub fn is_begun(begin: &[u8]) -> bool {
    begin.starts_with(MAGIC)
}

/// The CPUs on which the ranks of a trace are simulated, where the traced ones shared theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankCpus {
    /// As in the traced run: computing takes longer by the number of ranks that shared a CPU.
    AsTraced,
    /// Each rank has its own: computing takes the CPU time that it took.
    Own,
}

/// Reads a file made by [`joined`], for a simulation over a network: the calls are shortened by the CPU time that the
/// network takes.
///
/// # Errors
/// If the file is not a trace of a program.
pub fn read(bytes: &[u8], network: &LogGops) -> Result<RecordedTrace, Error> {
    read_for(bytes, network, RankCpus::AsTraced)
}

/// As [`read`], for ranks on such CPUs.
///
/// # Errors
/// If the file is not a trace of a program.
pub fn read_for(bytes: &[u8], network: &LogGops, cpus: RankCpus) -> Result<RecordedTrace, Error> {
    let rest = bytes.strip_prefix(MAGIC).ok_or(Error::NoTrace { at: 0 })?;
    let mut numbers = Leb128Reader::new(rest, MAGIC.len());
    let refused = |numbers: &Leb128Reader| Error::NoTrace { at: numbers.at() };
    known_version(numbers.number().map_err(|_| refused(&numbers))?)?;
    let count: u32 = numbers.small().map_err(|_| refused(&numbers))?;
    if count == 0 || count > MOST_RANKS {
        return Err(Error::TooManyRanks { ranks: count });
    }
    // Each rank has at least a length: a bad file may claim any number.
    if numbers.rest().len() < count as usize {
        return Err(refused(&numbers));
    }
    let (mut known, mut ranks, mut files) = (KnownRanks::new(count), Vec::new(), Vec::new());
    for rank in 0..count {
        let length = numbers.number().map_err(|_| refused(&numbers))?;
        let file = numbers.bytes(length).map_err(|_| refused(&numbers))?;
        let before = numbers.at() - file.len();
        let file = OfRank { rank, ranks: count, before, network, cpus }.read(file, &mut known, &mut ranks)?;
        files.push(file);
    }
    if !numbers.rest().is_empty() {
        return Err(refused(&numbers));
    }
    let complete = files.iter().all(|file| file.wall.is_some());
    if !complete {
        cut::cut(&mut ranks, &known.communicators);
    }
    together::agree(&mut ranks);
    Ok(RecordedTrace {
        trace: MpiTrace::with_communicators(ranks, known.communicators)?,
        measured: files.iter().filter_map(|file| file.wall).max().unwrap_or_default(),
        records: files.iter().map(|file| file.records).sum(),
        complete,
        shared: files.iter().map(|file| file.share).find(|(ranks, cpus)| ranks > cpus),
        others: known.others.into_iter().collect(),
    })
}

/// Roughly the memory that a trace of this many bytes takes, with several runs at once on this many ranks. A record of
/// four bytes becomes a call of 40, and its computing another. The trace is kept once; each run has its own ranks.
#[must_use]
pub fn memory(bytes: u64, ranks: u32, runs: usize) -> Bytes {
    Bytes::new(bytes.saturating_mul(20).saturating_add(memory_of_runs(ranks, runs).get()))
}

/// Roughly the memory that several runs at once take on this many ranks.
#[must_use]
pub fn memory_of_runs(ranks: u32, runs: usize) -> Bytes {
    Bytes::new((u64::from(ranks) * 2048).saturating_mul(runs as u64))
}

fn known_version(found: u64) -> Result<(), Error> {
    if found == VERSION { Ok(()) } else { Err(Error::OtherFormat { found, known: VERSION }) }
}

/// The file of one rank inside the joined file.
struct OfRank<'a> {
    network: &'a LogGops,
    cpus: RankCpus,
    rank: u32,
    ranks: u32,
    /// Its offset.
    before: usize,
}

/// What was read besides the calls.
struct Read {
    wall: Option<Time>,
    records: u64,
    share: (u64, u64),
}

impl OfRank<'_> {
    /// Appends the rank's calls to `ranks`.
    fn read(&self, bytes: &[u8], known: &mut KnownRanks, ranks: &mut Vec<Vec<super::Call>>) -> Result<Read, Error> {
        if MAGIC_OF_RANK.starts_with(bytes) {
            // The rank was killed before it wrote anything.
            ranks.push(Vec::new());
            return Ok(Read { wall: None, records: 0, share: (1, 1) });
        }
        let rest = bytes.strip_prefix(MAGIC_OF_RANK).ok_or(Error::NoTrace { at: self.before })?;
        let mut numbers = Leb128Reader::new(rest, self.before + MAGIC_OF_RANK.len());
        let header: Result<Vec<u64>, _> = (0..5).map(|_| numbers.number()).collect();
        let refused = Error::NoTrace { at: numbers.at() };
        let Ok([version, rank, count, longer, shorter]) = header.as_deref().map(|all| all.try_into().unwrap_or([0; 5]))
        else {
            return Err(refused);
        };
        known_version(version)?;
        if rank != self.rank.into() || count != self.ranks.into() || longer == 0 || shorter == 0 {
            return Err(refused);
        }
        let share = match self.cpus {
            RankCpus::AsTraced => (longer, shorter),
            RankCpus::Own => (1, 1),
        };
        let mut calls = Calls::new(known, self.network, self.rank, share);
        let mut records = Records::new(numbers);
        let mut read = Read { wall: None, records: 0, share: (longer, shorter) };
        while read.wall.is_none() {
            let (spent, record) = match records.next() {
                Ok(next) => next,
                Err(NoRecord::CutOff) => break,
                Err(NoRecord::Damaged) => return Err(Error::NoTrace { at: records.at() }),
            };
            if let Record::End { wall } = &record {
                read.wall = Some(*wall);
            }
            read.records += 1;
            calls.add(spent, record).map_err(|_| Error::NoTrace { at: records.at() })?;
        }
        ranks.push(calls.end());
        Ok(read)
    }
}
