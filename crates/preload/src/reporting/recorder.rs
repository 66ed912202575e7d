//! Records that the maintenance thread writes while the program runs: counts over time, and unlocks with their times.
//!
//! `RAMPART_GUARD_RECORD` selects them, as `samples`, `accesses` or `samples,accesses`; the files are in the folder
//! that `RAMPART_GUARD_STATE` names, in the form of [`rampart_guard::journal`].

use std::env;
use std::path::Path;

use rampart_guard::accesses::{Buffer, UnlockAccess};
use rampart_guard::journal::{HEADER_BYTES, Header, SectionKind};
use rampart_guard::samples::{Sample, SamplePace};
use rampart_memory::Timestamp;
use rustix::fd::OwnedFd;
use rustix::fs::OFlags;
use rustix::io::pwrite;

use super::folder::{self, created};

/// The most unlocks between two writes of the maintenance thread: at the rate of the fastest faults, some tens of
/// milliseconds.
pub const ACCESSES_AT_ONCE: usize = 1 << 14;

/// The most unlocks that are written for a process: 64 MiB.
const MOST_ACCESSES: u64 = 1 << 22;

/// The most samples that are written: more than in a thousand years.
const MOST_SAMPLES: u64 = 1 << 17;

/// Whether the environment requests this.
pub fn is_wanted(what: &str) -> bool {
    let all = env::var("RAMPART_GUARD_RECORD").unwrap_or_default();
    folder::folder().is_some() && all.split(',').any(|wanted| wanted == what)
}

/// The journals of this process.
#[derive(Default)]
pub struct JournalRecorder {
    samples: Option<Journal>,
    pace: SamplePace,
    accesses: Option<Journal>,
    taken: Vec<UnlockAccess>,
}

impl JournalRecorder {
    /// The journals that the environment requests. Each program that a process executes has its own.
    pub fn from_environment(now: Timestamp) -> Self {
        let folder = folder::folder();
        let journal = |what, kind, most| {
            let folder = folder.as_ref().filter(|_| is_wanted(what))?;
            let name = format!("{}-{}.{what}", std::process::id(), now.micros());
            Journal::create(&folder.join(name), kind, most)
        };
        let accesses = journal("accesses", SectionKind::Accesses, MOST_ACCESSES);
        let taken = Vec::with_capacity(if accesses.is_some() { ACCESSES_AT_ONCE } else { 0 });
        Self {
            samples: journal("samples", SectionKind::Samples, MOST_SAMPLES),
            pace: SamplePace::default(),
            accesses,
            taken,
        }
    }

    /// Writes what is due.
    pub fn step(&mut self, now: Timestamp, sample: impl FnOnce() -> Sample, accesses: Option<&Buffer>) {
        if self.pace.is_due(now) {
            self.write(sample, accesses);
        } else if let Some(accesses) = accesses.filter(|accesses| accesses.is_filling()) {
            self.write_accesses(accesses);
        }
    }

    /// Writes everything.
    pub fn write(&mut self, sample: impl FnOnce() -> Sample, accesses: Option<&Buffer>) {
        if let Some(samples) = &mut self.samples {
            samples.append(&[sample().to_words()], 0);
        }
        if let Some(accesses) = accesses {
            self.write_accesses(accesses);
        }
    }

    fn write_accesses(&mut self, accesses: &Buffer) {
        let Some(journal) = &mut self.accesses else { return };
        let lost = accesses.take(&mut self.taken);
        let records: Vec<_> = self.taken.drain(..).map(UnlockAccess::to_words).collect();
        if lost > 0 || !records.is_empty() {
            journal.append(&records, lost);
        }
    }
}

/// A file that grows by whole records.
struct Journal {
    file: OwnedFd,
    header: Header,
    most: u64,
}

impl Journal {
    fn create(path: &Path, kind: SectionKind, most: u64) -> Option<Self> {
        let header = Header { kind, process: std::process::id(), records: 0, lost: 0 };
        let mut journal = Self { file: created(path, OFlags::TRUNC)?, header, most };
        journal.append::<0>(&[], 0);
        Some(journal)
    }

    /// Writes the records first and their number after: counted records are there, whenever the process ends. Without
    /// room, they count as lost: a full disk is no reason to stop the program.
    fn append<const N: usize>(&mut self, records: &[[u64; N]], lost: u64) {
        let header = &mut self.header;
        header.lost += lost;
        let room = usize::try_from(self.most - header.records).unwrap_or(usize::MAX);
        let (kept, beyond) = records.split_at(records.len().min(room));
        let bytes: Vec<u8> = kept.as_flattened().iter().flat_map(|word| word.to_le_bytes()).collect();
        let place = HEADER_BYTES as u64 + header.records * header.kind.words() as u64 * 8;
        let whole = bytes.is_empty() || pwrite(&self.file, &bytes, place) == Ok(bytes.len());
        header.records += if whole { kept.len() as u64 } else { 0 };
        header.lost += if whole { beyond.len() as u64 } else { records.len() as u64 };
        let _ = pwrite(&self.file, &header.to_bytes(), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use rampart_guard::journal::sections;

    #[test]
    fn a_journal_grows_by_whole_records_and_counts_what_it_has_no_room_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("1.accesses");
        let mut journal = Journal::create(&path, SectionKind::Accesses, 3).unwrap();
        journal.append(&[[1, 2], [3, 4]], 5);
        journal.append(&[[5, 6], [7, 8]], 0);
        let bytes = std::fs::read(&path).unwrap();
        let sections = sections(&bytes, SectionKind::Accesses).unwrap();
        assert_eq!((sections[0].header.records, sections[0].header.lost), (3, 6));
        let records: Vec<Vec<u64>> = sections[0].records().map(Iterator::collect).collect();
        assert_eq!(records, [[1, 2], [3, 4], [5, 6]]);
    }
}
