//! The journals that guards write while their programs run: counts over time, and accesses that unlocked memory.

use std::fs;
use std::path::{Path, PathBuf};

use rampart_guard::accesses::UnlockAccess;
use rampart_guard::journal::{Header, JournalError, SectionKind, sections};
use rampart_guard::samples::Sample;
use rampart_guard::{Counter, Snapshot};
use rampart_memory::Timestamp;

use super::folder;

/// The accesses of one process that unlocked memory, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessTrace {
    /// The process, as `getpid(2)` numbered it.
    pub process: u32,
    /// Each access that unlocked memory, or prefetch.
    pub accesses: Vec<UnlockAccess>,
    /// Accesses that were not recorded because there was no room, and invalid records.
    pub lost: u64,
}

/// Reads the traces of a file, one for each program that a process executed and that unlocked memory.
///
/// # Errors
/// If it is no such file, or cut off.
pub fn traces(file: &[u8]) -> Result<Vec<ProcessTrace>, JournalError> {
    let trace = |section: rampart_guard::journal::Section<'_>| {
        let Header { process, records, lost, .. } = section.header;
        let accesses: Vec<_> = section.records().filter_map(UnlockAccess::from_words).collect();
        ProcessTrace { process, lost: lost + (records - accesses.len() as u64), accesses }
    };
    let is_used = |trace: &ProcessTrace| !trace.accesses.is_empty() || trace.lost > 0;
    Ok(sections(file, SectionKind::Accesses)?.into_iter().map(trace).filter(is_used).collect())
}

/// The journal files of a folder with this extension, sorted; there is one for each program that a process executed.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut paths: Vec<_> = entries.filter(|path| path.extension().is_some_and(|found| found == extension)).collect();
    paths.sort();
    paths
}

/// The journals of all guards of a run.
#[derive(Clone, Debug, Default)]
pub struct GuardJournals {
    /// Counts over time, of each program.
    pub timeline: Timeline,
    /// The accesses of each.
    pub traces: Vec<ProcessTrace>,
    /// Files that could not be read, each with the reason.
    pub unreadable: Vec<String>,
}

impl GuardJournals {
    /// Reads the journals of a folder.
    pub fn read(folder: &Path) -> Self {
        let mut journals = Self::default();
        for path in files(folder, "samples") {
            let read = folder::read(&path).map_err(|error| error.to_string()).and_then(|bytes| {
                let sections = sections(&bytes, SectionKind::Samples).map_err(|error| error.to_string())?;
                let samples =
                    sections.into_iter().map(|section| section.records().filter_map(Sample::from_words).collect());
                journals.timeline.programs.extend(samples);
                Ok(())
            });
            journals.note_failure(&path, read);
        }
        for path in files(folder, "accesses") {
            let read = folder::read(&path).map_err(|error| error.to_string()).and_then(|bytes| {
                journals.traces.extend(traces(&bytes).map_err(|error| error.to_string())?);
                Ok(())
            });
            journals.note_failure(&path, read);
        }
        journals
    }

    fn note_failure(&mut self, path: &Path, read: Result<(), String>) {
        if let Err(why) = read {
            let name = path.file_name().unwrap_or_default();
            self.unreadable.push(format!("{}: {why}", name.display()));
        }
    }

    /// The traces as the content of a file that [`traces`] reads.
    pub fn traces_file(&self) -> Vec<u8> {
        let mut file = Vec::new();
        for ProcessTrace { process, accesses, lost } in &self.traces {
            let header =
                Header { kind: SectionKind::Accesses, process: *process, records: accesses.len() as u64, lost: *lost };
            file.extend(header.to_bytes());
            file.extend(accesses.iter().flat_map(|access| access.to_words()).flat_map(u64::to_le_bytes));
        }
        file
    }
}

/// The counts of each program of a run over time.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// The samples of each program, oldest first.
    pub programs: Vec<Vec<Sample>>,
}

impl Timeline {
    /// From the first sample to the last; `None` without two that differ in time.
    pub fn span(&self) -> Option<(Timestamp, Timestamp)> {
        let samples = || self.programs.iter().flatten().map(|sample| sample.at);
        samples().min().zip(samples().max()).filter(|(first, last)| first < last)
    }

    /// The growth of a counter in each of `parts` equal parts of the span, all programs together.
    pub fn growth(&self, counter: Counter, parts: usize) -> Vec<f64> {
        let Some((first, last)) = self.span() else { return vec![0.0; parts] };
        let total = |at: f64| self.programs.iter().map(|samples| grown(samples, counter, at)).sum::<f64>();
        let totals: Vec<f64> = edges(first, last, parts).map(total).collect();
        totals.windows(2).map(|pair| (pair[1] - pair[0]).max(0.0)).collect()
    }

    /// For how many microseconds programs were guarded in each of `parts` equal parts of the span, all together.
    pub fn guarded_micros(&self, parts: usize) -> Vec<f64> {
        let Some((first, last)) = self.span() else { return vec![0.0; parts] };
        let edges: Vec<f64> = edges(first, last, parts).collect();
        let within = |samples: &Vec<Sample>, from: f64, to: f64| {
            let (Some(begun), Some(ended)) = (samples.first(), samples.last()) else { return 0.0 };
            (micros(ended.at).min(to) - micros(begun.at).max(from)).max(0.0)
        };
        let all = |pair: &[f64]| self.programs.iter().map(|samples| within(samples, pair[0], pair[1])).sum();
        edges.windows(2).map(all).collect()
    }
}

/// The moments, in microseconds, between which the parts of a span lie.
fn edges(first: Timestamp, last: Timestamp, parts: usize) -> impl Iterator<Item = f64> {
    let width = micros(last) - micros(first);
    (0..=parts).map(move |part| micros(first) + width * part as f64 / parts as f64)
}

fn micros(at: Timestamp) -> f64 {
    at.micros() as f64
}

/// The growth of a counter of a program since its first sample, interpolated linearly between two samples.
fn grown(samples: &[Sample], counter: Counter, at: f64) -> f64 {
    let value = |counts: &Snapshot| counts.get(counter) as f64;
    let next = samples.partition_point(|sample| micros(sample.at) <= at);
    let Some(first) = samples.first().filter(|_| next > 0) else { return 0.0 };
    let before = &samples[next - 1];
    let since_first = value(&before.counts) - value(&first.counts);
    let Some(after) = samples.get(next) else { return since_first };
    let part = (at - micros(before.at)) / (micros(after.at) - micros(before.at));
    since_first + part * (value(&after.counts) - value(&before.counts))
}

#[cfg(test)]
mod tests {
    use super::*;

    use rampart_guard::accesses::Touch;
    use rampart_guard::{GuardCounts, PageIndex};

    fn sample(at: u64, faults: u64) -> Sample {
        let counts = GuardCounts::default();
        counts.set(Counter::Faults, faults);
        Sample { at: Timestamp::from_micros(at), counts: counts.snapshot() }
    }

    #[test]
    fn growth_is_added_up_over_programs_and_spread_evenly_between_samples() {
        let programs = vec![vec![sample(1000, 7), sample(2000, 27)], vec![sample(1500, 0), sample(1750, 4)]];
        let timeline = Timeline { programs };
        assert_eq!(timeline.growth(Counter::Faults, 4), [5.0, 5.0, 9.0, 5.0]);
        assert_eq!(timeline.growth(Counter::Locked, 4), [0.0; 4]);
        assert_eq!(Timeline::default().growth(Counter::Faults, 2), [0.0; 2]);
    }

    #[test]
    fn each_part_has_the_time_of_the_programs_that_ran_in_it() {
        let programs = vec![vec![sample(1000, 7), sample(2000, 27)], vec![sample(1500, 0), sample(1750, 4)]];
        assert_eq!(Timeline { programs }.guarded_micros(4), [250.0, 250.0, 500.0, 250.0]);
        assert_eq!(Timeline::default().guarded_micros(2), [0.0; 2]);
    }

    #[test]
    fn traces_are_written_as_they_are_read_and_what_is_unreadable_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let at = Timestamp::from_micros(3);
        let accesses = vec![UnlockAccess { at, page: PageIndex(512), pages: 512, touch: Touch::Write }];
        let traces_of = |process| ProcessTrace { process, accesses: accesses.clone(), lost: 2 };
        let written = GuardJournals { traces: vec![traces_of(1), traces_of(2)], ..GuardJournals::default() };
        let path = folder.path().join("1.accesses");
        let bytes = written.traces_file();
        fs::write(&path, &bytes).unwrap();
        assert_eq!(traces(&bytes), Ok(written.traces.clone()));
        fs::write(folder.path().join("2.accesses"), &bytes[..60]).unwrap();
        fs::write(folder.path().join("3.samples"), "nonsense").unwrap();
        let read = GuardJournals::read(folder.path());
        assert_eq!(read.traces, written.traces);
        assert!(read.unreadable[0].starts_with("3.samples: it has no samples of a guard"), "{:?}", read.unreadable);
        assert!(read.unreadable[1].starts_with("2.accesses: it is cut off"), "{:?}", read.unreadable);
    }
}
