//! The report of a run: the counts and events of all its guards.
//!
//! The guard of each process writes both into a folder, in files named by the number of the process.

use std::fs;
use std::path::Path;

use rampart_guard::{Counter, Snapshot};
use rampart_memory::fault_map::Evidence;
use rampart_memory::{Bytes, FRAME_BYTES};
use serde::{Deserialize, Serialize};

use super::folder;

/// An event that a guard reported: a line of JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardEvent {
    /// `corrected`, `transient`, `codes_wrong`, `uncorrectable`, `lost`, `held`, `stopped`; `given_up`: the hardware
    /// reported the page lost; `failed`, `failed_emulated`: a frame failed its test; `erring`: it passed, but a page in
    /// it was wrong again; `suspect`, `cleared`: its tests begin, and end with trust; `guard_failed`.
    pub event: String,
    /// The time, in microseconds since 1970.
    pub at: Option<u64>,
    /// The page, counted from the start of the heap's range.
    pub page: Option<u64>,
    /// The offset of the page, in bytes from the start of the range.
    pub offset: Option<u64>,
    /// The address of the page in the program.
    pub address: Option<u64>,
    /// The frame of the page, if the kernel reveals it.
    pub frame: Option<u64>,
    /// The number of flipped bits.
    pub bits: Option<u32>,
    /// The first mismatch in a frame that failed its test.
    pub evidence: Option<Evidence>,
    /// The call of `malloc` that made the last allocation of 16 KiB or more in the page, as `FILE+0xOFFSET`.
    pub site: Option<String>,
    /// The thread that accessed the page, as `gettid(2)` numbers it.
    pub thread: Option<u32>,
    /// The instruction that accessed the page, as `FILE+0xOFFSET`.
    pub code: Option<String>,
    /// The reason why the guard could not continue.
    pub why: Option<String>,
}

/// Counters of things that are also reported as events, with the names of the events.
const REPORTED: [(Counter, &[&str]); 5] = [
    (Counter::Transient, &["transient"]),
    (Counter::Corrected, &["corrected"]),
    (Counter::CodesWrong, &["codes_wrong"]),
    (Counter::Uncorrectable, &["uncorrectable"]),
    (Counter::Retired, &["failed", "failed_emulated", "erring"]),
];

/// The report of a run; its serialized form is the document of `rampart run --json`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RunReport {
    /// Name and version of this document's schema.
    pub schema: &'static str,
    /// Processes that were guarded.
    pub processes: usize,
    /// Further guarded processes, for whose counts there was no room where guards write.
    pub uncounted: usize,
    /// Why no process was guarded.
    pub unguarded: Option<String>,
    /// The share of the heap that was locked, averaged over time and over all processes.
    pub locked_share: Option<f64>,
    /// The overhead of the guards, as a share of the time that the program would have taken without them; an estimate
    /// (docs/run.md).
    pub overhead: Option<f64>,
    /// The sums of all counts; also of [`Counter::MostPages`].
    pub counts: Snapshot,
    /// All events.
    pub events: Vec<GuardEvent>,
    /// Lines and files that could not be read.
    pub unreadable: usize,
}

impl RunReport {
    /// Adds the files of a folder to those of ended processes, which completes the report. Files and lines that cannot
    /// be read count as unreadable.
    pub fn with_folder(self, folder: &Path) -> Self {
        let mut report = Self { schema: "rampart.run/2", ..self };
        let mut paths: Vec<_> =
            fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("counts") => report.add_counts(&path),
                Some("jsonl") => report.add_events(&path),
                _ => {}
            }
        }
        report.count_events();
        report.locked_share = report.counts.locked_share();
        report.overhead = report.counts.overhead();
        report
    }

    /// Adds the counts and events of an ended process.
    pub fn add(&mut self, counts: &Path, events: &Path) {
        // The file does not exist if there was no room for it.
        if counts.exists() {
            self.add_counts(counts);
        }
        self.add_events(events);
    }

    fn add_counts(&mut self, path: &Path) {
        let bytes = folder::read(path);
        match bytes.as_ref().ok().and_then(|bytes| Snapshot::from_bytes(bytes)) {
            Some(counts) => {
                self.counts = self.counts.plus(&counts);
                self.processes += 1;
            }
            // A guard makes the file first, and then allocates room for it.
            None if bytes.is_ok_and(|bytes| bytes.is_empty()) => self.uncounted += 1,
            None => self.unreadable += 1,
        }
    }

    fn add_events(&mut self, path: &Path) {
        let text = folder::read(path).unwrap_or_default();
        for line in String::from_utf8_lossy(&text).lines() {
            match serde_json::from_str(line) {
                Ok(event) => self.events.push(event),
                Err(_) => self.unreadable += 1,
            }
        }
    }

    /// Raises counts to the number of events: a process that ended between the report and the count of something did
    /// not count it. One with a full disk could count and not report.
    fn count_events(&mut self) {
        for (counter, names) in REPORTED {
            let reported = self.events.iter().filter(|event| names.contains(&event.event.as_str())).count();
            self.counts = self.counts.at_least(counter, reported as u64);
        }
    }

    /// The JSON document, for programs.
    pub fn document(&self) -> String {
        serde_json::to_string_pretty(self).expect("reports are plain data")
    }

    /// The summary for people: one line.
    pub fn line(&self) -> String {
        let counted = self.counted_line();
        let plural = if self.uncounted == 1 { "" } else { "es" };
        match (self.uncounted, self.processes) {
            (0, _) => counted,
            (uncounted, 0) => format!(
                "warning: guarded {uncounted} process{plural}, but nothing is known of the errors found there: there was \
                 no room for the counts in the folder for temporary files"
            ),
            (uncounted, _) => {
                format!(
                    "{counted}; not counted: {uncounted} process{plural}, since there was no room in the folder for \
                     temporary files"
                )
            }
        }
    }

    fn counted_line(&self) -> String {
        if self.processes == 0 {
            let why = self.unguarded.as_deref().unwrap_or("the reason is unknown");
            return format!("warning: nothing was guarded: {why}");
        }
        let of = |counter| self.counts.get(counter);
        let plural = if self.processes == 1 { "" } else { "es" };
        let locked = match (of(Counter::Locked), of(Counter::Pinned)) {
            (0, refused @ 1..) => {
                format!("NOTHING was locked, {} attempts were refused; ", crate::output::text::count(refused))
            }
            _ => self
                .locked_share
                .map_or_else(String::new, |share| format!("{:.1} % locked on average, ", 100.0 * share)),
        };
        let excluded = self.excluded();
        let overhead = self.overhead.map_or_else(String::new, |part| format!(", overhead about {:.1} %", 100.0 * part));
        let tested = match (of(Counter::Tested), of(Counter::Retired)) {
            (0, _) => String::new(),
            (tested, retired) => {
                let [tested, retired] = [tested, retired].map(crate::output::text::count);
                format!("; {tested} frames tested, {retired} retired")
            }
        };
        format!(
            "guarded {} of {} in {} process{plural}: {locked}{} verified, {} pages corrected, {} uncorrectable; {} faults{overhead}{tested}{excluded}",
            pages(of(Counter::MostPages)),
            self.memory(),
            self.processes,
            pages(of(Counter::Verified)),
            crate::output::text::count(of(Counter::Corrected)),
            crate::output::text::count(of(Counter::Uncorrectable)),
            crate::output::text::count(of(Counter::Faults)),
        )
    }

    /// The guarded memory: its kinds, with sizes.
    fn memory(&self) -> String {
        let of = |counter| pages(self.counts.get(counter));
        match (of(Counter::MostMapped), of(Counter::Data)) {
            (Bytes::ZERO, Bytes::ZERO) => "heap".to_owned(),
            (mapped, Bytes::ZERO) => format!("heap and mappings (up to {mapped} mapped)"),
            (Bytes::ZERO, data) => format!("heap and static data ({data})"),
            (mapped, data) => format!("heap, mappings (up to {mapped} mapped) and static data ({data})"),
        }
    }

    /// The memory and processes that were to be guarded and could not be.
    fn excluded(&self) -> String {
        let (mappings, data) =
            (self.counts.get(Counter::UnguardedMappings), pages(self.counts.get(Counter::UnguardedData)));
        let plural = if mappings == 1 { "" } else { "s" };
        let mappings = (mappings > 0).then(|| format!("{} mapping{plural}", crate::output::text::count(mappings)));
        let data = (data > Bytes::ZERO).then(|| format!("{data} of static data"));
        let children = match self.counts.get(Counter::UnguardedChildren) {
            0 => None,
            1 => Some("1 child made without fork".to_owned()),
            more => Some(format!("{} children made without fork", crate::output::text::count(more))),
        };
        let all: Vec<_> = mappings.into_iter().chain(data).chain(children).collect();
        if all.is_empty() { String::new() } else { format!("; left alone: {}", all.join(", ")) }
    }
}

/// The size of so many pages.
fn pages(count: u64) -> Bytes {
    Bytes::new(count * FRAME_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_is_counted_also_of_a_process_that_ended_before_it_counted() {
        let folder = tempfile::tempdir().unwrap();
        let mut counts = vec![0; rampart_guard::GuardCounts::BYTES];
        for (counter, count) in [(Counter::Retired, 1_u64), (Counter::Corrected, 5)] {
            counts[8 * counter as usize..][..8].copy_from_slice(&count.to_ne_bytes());
        }
        fs::write(folder.path().join("1.counts"), counts).unwrap();
        let events = ["failed", "failed_emulated", "corrected"].map(|name| format!("{{\"event\":\"{name}\"}}\n"));
        fs::write(folder.path().join("1.jsonl"), events.concat()).unwrap();
        let report = RunReport::default().with_folder(folder.path());
        assert_eq!([Counter::Retired, Counter::Corrected].map(|counter| report.counts.get(counter)), [2, 5]);
    }

    #[test]
    fn a_guard_without_room_for_its_counts_is_told_from_none() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("1.counts"), "").unwrap();
        let report = RunReport::default().with_folder(folder.path());
        assert_eq!((report.processes, report.uncounted, report.unreadable), (0, 1, 0));
        assert!(report.line().starts_with("warning: guarded 1 process, but nothing is known"), "{}", report.line());
        fs::write(folder.path().join("2.counts"), vec![0; rampart_guard::GuardCounts::BYTES]).unwrap();
        let report = RunReport::default().with_folder(folder.path());
        assert_eq!((report.processes, report.uncounted), (1, 1));
        assert!(
            report.line().contains("in 1 process:") && report.line().contains("; not counted: 1 process"),
            "{}",
            report.line()
        );
    }

    #[test]
    fn counts_are_added_up_and_what_is_unreadable_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let counts = |faults: u64| {
            let mut bytes = vec![0; rampart_guard::GuardCounts::BYTES];
            bytes[..8].copy_from_slice(&faults.to_ne_bytes());
            bytes
        };
        fs::write(folder.path().join("1.counts"), counts(3)).unwrap();
        fs::write(folder.path().join("2.counts"), counts(4)).unwrap();
        fs::write(folder.path().join("3.counts"), "short").unwrap();
        let event = "{\"event\":\"uncorrectable\",\"page\":3,\"offset\":12288,\"frame\":16}\nnonsense\n";
        fs::write(folder.path().join("1.jsonl"), event).unwrap();
        let report = RunReport::default().with_folder(folder.path());
        assert_eq!((report.processes, report.unreadable, report.counts.get(Counter::Faults)), (2, 2, 7));
        assert_eq!(report.events[0].frame, Some(16));
        assert!(report.line().contains("in 2 processes") && report.line().ends_with("7 faults"), "{}", report.line());
    }

    #[test]
    fn a_guard_that_could_lock_nothing_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let counted = |counts: &[(Counter, u64)]| {
            let mut bytes = vec![0; rampart_guard::GuardCounts::BYTES];
            for (counter, count) in counts {
                bytes[*counter as usize * 8..][..8].copy_from_slice(&count.to_ne_bytes());
            }
            fs::write(folder.path().join("1.counts"), bytes).unwrap();
            RunReport::default().with_folder(folder.path()).line()
        };
        let nothing = "in 1 process: NOTHING was locked, 77 attempts were refused; 0 B verified";
        let line = counted(&[(Counter::Pinned, 77)]);
        assert!(line.contains(nothing), "{line}");
        for counts in [&[][..], &[(Counter::Pinned, 77), (Counter::Locked, 1)]] {
            let line = counted(counts);
            assert!(!line.contains("NOTHING"), "{line}");
        }
    }

    #[test]
    fn a_program_that_nobody_guarded_is_said_to_be_so() {
        let nothing =
            RunReport { unguarded: Some("why".to_owned()), ..RunReport::default().with_folder(Path::new("/nowhere")) };
        assert_eq!(nothing.line(), "warning: nothing was guarded: why");
    }
}
