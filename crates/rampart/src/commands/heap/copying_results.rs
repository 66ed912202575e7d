//! What was measured beside wasmtime's copying collector: two more files in the folder of the results.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::results::{LeastRow, append, rows};
use super::setups::HeapRival;
use crate::error::Error;

/// One run: a program, whose heap, and the number of the run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RivalKey {
    pub program: String,
    pub rival: HeapRival,
    pub seed: u64,
}

/// What was measured of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RivalRun {
    /// Of the copying collector, both halves; of ours, the usable pages.
    pub heap_kib: u32,
    /// Of ours, tables and borrowed pages.
    pub bytes_beside_pages: u64,
    /// The time of the main method; `None` if the program did not end.
    pub seconds: Option<f64>,
    /// What its thread had of a processor; `None`, too, if the kernel does not say.
    pub processor_seconds: Option<f64>,
    /// Of the time, in collections.
    pub collecting_seconds: f64,
    /// All collections.
    pub collections: u64,
    /// Of these, those of all objects.
    pub full: u64,
    /// The longest pause.
    pub longest_ms: f64,
    /// The most memory that the process had.
    pub peak_bytes: u64,
}

#[derive(Serialize, Deserialize)]
struct RivalRow {
    program: String,
    heap_of: HeapRival,
    seed: u64,
    heap_kib: u32,
    bytes_beside_pages: u64,
    seconds: Option<f64>,
    processor_seconds: Option<f64>,
    collecting_seconds: f64,
    collections: u64,
    full: u64,
    longest_ms: f64,
    peak_bytes: u64,
}

/// All that was measured.
#[derive(Debug, Default)]
pub struct CopyingResults {
    folder: PathBuf,
    /// The least heap of each program on the copying collector, in KiB, both halves counted.
    pub least: BTreeMap<String, u32>,
    pub runs: BTreeMap<RivalKey, RivalRun>,
}

const LEAST: &str = "least-copying-heaps.csv";
const RUNS: &str = "copying-runs.csv";

impl CopyingResults {
    /// Reads what is in a folder; nothing if it does not exist.
    ///
    /// # Errors
    /// If a file is there and is not ours.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let least = rows::<LeastRow>(&folder.join(LEAST))?.into_iter().map(|row| (row.program, row.least_kib));
        let runs = rows::<RivalRow>(&folder.join(RUNS))?.into_iter().map(RivalRow::parts);
        Ok(Self { folder: folder.to_owned(), least: least.collect(), runs: runs.collect() })
    }

    /// Adds the least heap of a program.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn add_least(&mut self, program: &str, least_kib: u32) -> Result<(), Error> {
        append(&self.folder.join(LEAST), &LeastRow { program: program.to_owned(), least_kib })?;
        self.least.insert(program.to_owned(), least_kib);
        Ok(())
    }

    /// Adds a run.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn add_run(&mut self, key: RivalKey, run: RivalRun) -> Result<(), Error> {
        append(&self.folder.join(RUNS), &RivalRow::of(&key, run))?;
        self.runs.insert(key, run);
        Ok(())
    }

    /// Whether a run is there.
    pub fn has(&self, program: &str, rival: HeapRival, seed: u64) -> bool {
        self.runs.contains_key(&RivalKey { program: program.to_owned(), rival, seed })
    }

    /// The usable KiB that our heap had in an earlier run of the same program.
    pub fn size_of_ours(&self, program: &str, rival: HeapRival) -> Option<u32> {
        let mut earlier = self.runs.iter().filter(|(key, _)| key.program == program && key.rival == rival);
        earlier.next().map(|(_, run)| run.heap_kib)
    }
}

impl RivalRow {
    fn of(key: &RivalKey, run: RivalRun) -> Self {
        Self {
            program: key.program.clone(),
            heap_of: key.rival,
            seed: key.seed,
            heap_kib: run.heap_kib,
            bytes_beside_pages: run.bytes_beside_pages,
            seconds: run.seconds,
            processor_seconds: run.processor_seconds,
            collecting_seconds: run.collecting_seconds,
            collections: run.collections,
            full: run.full,
            longest_ms: run.longest_ms,
            peak_bytes: run.peak_bytes,
        }
    }

    fn parts(self) -> (RivalKey, RivalRun) {
        let run = RivalRun {
            heap_kib: self.heap_kib,
            bytes_beside_pages: self.bytes_beside_pages,
            seconds: self.seconds,
            processor_seconds: self.processor_seconds,
            collecting_seconds: self.collecting_seconds,
            collections: self.collections,
            full: self.full,
            longest_ms: self.longest_ms,
            peak_bytes: self.peak_bytes,
        };
        (RivalKey { program: self.program, rival: self.heap_of, seed: self.seed }, run)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_is_written_beside_the_copying_collector_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut written = CopyingResults::read(folder.path()).unwrap();
        let key = |rival, seed| RivalKey { program: "Lua".to_owned(), rival, seed };
        let run = RivalRun { heap_kib: 64, seconds: Some(1.5), collections: 3, ..RivalRun::default() };
        written.add_least("Lua", 4096).unwrap();
        written.add_run(key(HeapRival::Copying, 1), run).unwrap();
        written.add_run(key(HeapRival::OursSmaller, 1), RivalRun { seconds: None, ..run }).unwrap();
        let read = CopyingResults::read(folder.path()).unwrap();
        assert_eq!((&read.least, &read.runs), (&written.least, &written.runs));
        assert_eq!((read.least["Lua"], read.runs.len()), (4096, 2));
        assert_eq!(read.size_of_ours("Lua", HeapRival::OursSmaller), Some(64));
        assert_eq!(read.size_of_ours("Lua", HeapRival::OursEqual), None);
        assert!(read.has("Lua", HeapRival::Copying, 1) && !read.has("Lua", HeapRival::Copying, 2));
        fs::write(folder.path().join(RUNS), "program\nx\n").unwrap();
        assert!(CopyingResults::read(folder.path()).is_err(), "a file of others");
    }
}
