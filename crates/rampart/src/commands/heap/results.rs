//! What was measured: two files of comma-separated values in a folder, which each further bench adds to.
//!
//! **Problem.** All figures take many hours. **Idea.** Each run is written down when it ends, under all that it depends
//! on; a bench makes those that are not there. **Why this way.** A bench can be stopped at any time and goes on where
//! it was, and another figure can use what is there.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::setups::{FailurePlaces, Generations, HeapSetup, LineLoss};
use crate::error::Error;

/// One run: a program, the settings, and the seed of its failures.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunKey {
    pub program: String,
    pub setup: HeapSetup,
    pub seed: u64,
}

/// What became of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RunEnd {
    /// It printed what it should.
    Finished(RunFigures),
    /// It ran out of memory, or took twenty times as long as with ample memory.
    Unfinished,
}

/// What was measured of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunFigures {
    /// The time of its main method.
    pub seconds: f64,
    /// Of that, in collections.
    pub collecting_seconds: f64,
    /// Collections of young objects.
    pub nursery: u64,
    /// Collections of all objects.
    pub full: u64,
    /// The longest pause.
    pub longest_ms: f64,
    /// Perfect pages that were asked for.
    pub requested: u64,
    /// Of these, borrowed.
    pub borrowed: u64,
    /// The most at a time.
    pub most_borrowed: u64,
    /// The most memory that the process had.
    pub peak_bytes: u64,
}

#[derive(Serialize, Deserialize)]
struct Row {
    program: String,
    heap_percent: u32,
    generations: String,
    failed_percent: u32,
    places: String,
    line: u32,
    loss: String,
    compensated: bool,
    seed: u64,
    seconds: Option<f64>,
    collecting_seconds: Option<f64>,
    nursery: Option<u64>,
    full: Option<u64>,
    longest_ms: Option<f64>,
    requested: Option<u64>,
    borrowed: Option<u64>,
    most_borrowed: Option<u64>,
    peak_bytes: Option<u64>,
}

/// The least heap of a program.
#[derive(Serialize, Deserialize)]
pub struct LeastRow {
    pub program: String,
    pub least_kib: u32,
}

/// All that was measured.
#[derive(Debug, Default)]
pub struct BenchResults {
    folder: PathBuf,
    /// The least heap of each program, in KiB.
    pub least: BTreeMap<String, u32>,
    pub runs: BTreeMap<RunKey, RunEnd>,
}

impl BenchResults {
    /// Reads what is in a folder; nothing if it does not exist.
    ///
    /// # Errors
    /// If a file is there and is not ours.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let mut results = Self { folder: folder.to_owned(), ..Self::default() };
        for row in rows::<LeastRow>(&folder.join(LEAST))? {
            results.least.insert(row.program, row.least_kib);
        }
        let path = folder.join(RUNS);
        for row in rows::<Row>(&path)? {
            let (key, end) = row
                .parts()
                .ok_or_else(|| Error::HeapResults { path: path.clone(), why: "a row is none of ours".to_owned() })?;
            results.runs.insert(key, end);
        }
        Ok(results)
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
    pub fn add_run(&mut self, key: RunKey, end: RunEnd) -> Result<(), Error> {
        append(&self.folder.join(RUNS), &Row::of(&key, end))?;
        self.runs.insert(key, end);
        Ok(())
    }
}

const LEAST: &str = "least-heaps.csv";
const RUNS: &str = "runs.csv";

/// Adds a row to a file.
///
/// # Errors
/// If it cannot be written.
pub fn append(path: &Path, row: &impl Serialize) -> Result<(), Error> {
    let unwritten = |cause| Error::Report { path: path.to_owned(), cause };
    fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).map_err(unwritten)?;
    let file = OpenOptions::new().create(true).append(true).open(path).map_err(unwritten)?;
    let is_new = file.metadata().map_err(unwritten)?.len() == 0;
    let mut writer = csv::WriterBuilder::new().has_headers(is_new).from_writer(file);
    writer.serialize(row).map_err(io::Error::from).and_then(|()| writer.flush()).map_err(unwritten)
}

/// The rows of a file; none if it is not there.
///
/// # Errors
/// If it is not ours.
pub fn rows<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<Vec<T>, Error> {
    let file = match File::open(path) {
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(|cause| Error::HeapResults { path: path.to_owned(), why: cause.to_string() })?,
    };
    let rows: Result<Vec<T>, csv::Error> = csv::Reader::from_reader(file).deserialize().collect();
    rows.map_err(|error| Error::HeapResults { path: path.to_owned(), why: error.to_string() })
}

impl Row {
    fn of(key: &RunKey, end: RunEnd) -> Self {
        let HeapSetup { heap, generations, failed, places, line, loss, compensated } = key.setup;
        let figures = match end {
            RunEnd::Finished(figures) => Some(figures),
            RunEnd::Unfinished => None,
        };
        Self {
            program: key.program.clone(),
            heap_percent: heap,
            generations: if generations == Generations::Sticky { "sticky" } else { "one" }.to_owned(),
            failed_percent: failed,
            places: places.to_string(),
            line,
            loss: if loss == LineLoss::Memory { "memory-line" } else { "heap-line" }.to_owned(),
            compensated,
            seed: key.seed,
            seconds: figures.map(|figures| figures.seconds),
            collecting_seconds: figures.map(|figures| figures.collecting_seconds),
            nursery: figures.map(|figures| figures.nursery),
            full: figures.map(|figures| figures.full),
            longest_ms: figures.map(|figures| figures.longest_ms),
            requested: figures.map(|figures| figures.requested),
            borrowed: figures.map(|figures| figures.borrowed),
            most_borrowed: figures.map(|figures| figures.most_borrowed),
            peak_bytes: figures.map(|figures| figures.peak_bytes),
        }
    }

    fn parts(self) -> Option<(RunKey, RunEnd)> {
        let places: FailurePlaces = self.places.parse().ok()?;
        let generations = match self.generations.as_str() {
            "sticky" => Generations::Sticky,
            "one" => Generations::One,
            _ => return None,
        };
        let loss = match self.loss.as_str() {
            "memory-line" => LineLoss::Memory,
            "heap-line" => LineLoss::Heap,
            _ => return None,
        };
        let setup = HeapSetup {
            heap: self.heap_percent,
            generations,
            failed: self.failed_percent,
            places,
            line: self.line,
            loss,
            compensated: self.compensated,
        };
        let end = match self.seconds {
            None => RunEnd::Unfinished,
            Some(seconds) => RunEnd::Finished(RunFigures {
                seconds,
                collecting_seconds: self.collecting_seconds?,
                nursery: self.nursery?,
                full: self.full?,
                longest_ms: self.longest_ms?,
                requested: self.requested?,
                borrowed: self.borrowed?,
                most_borrowed: self.most_borrowed?,
                peak_bytes: self.peak_bytes?,
            }),
        };
        Some((RunKey { program: self.program, setup, seed: self.seed }, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results");
        let mut written = BenchResults::read(&path).unwrap();
        let figures = RunFigures {
            seconds: 1.5,
            collecting_seconds: 0.25,
            nursery: 1,
            full: 2,
            longest_ms: 3.5,
            requested: 4,
            borrowed: 5,
            most_borrowed: 6,
            peak_bytes: 7,
        };
        let key = |seed| RunKey { program: "Lua".to_owned(), setup: HeapSetup::BASE, seed };
        written.add_least("Lua", 4096).unwrap();
        written.add_run(key(1), RunEnd::Finished(figures)).unwrap();
        written.add_run(key(2), RunEnd::Unfinished).unwrap();
        let read = BenchResults::read(&path).unwrap();
        assert_eq!((&read.least, &read.runs), (&written.least, &written.runs));
        assert_eq!((read.least["Lua"], read.runs.len()), (4096, 2));
    }

    #[test]
    fn a_file_of_others_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [(LEAST, "a,b\n1,2\n"), (RUNS, "program\nx\n")] {
            fs::write(folder.path().join(name), text).unwrap();
            assert!(BenchResults::read(folder.path()).is_err(), "{name}");
            fs::remove_file(folder.path().join(name)).unwrap();
        }
    }
}
