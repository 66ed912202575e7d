//! Reads the events that the guards append to their files, and removes the files of ended processes.
//!
//! A build runs a hundred thousand processes. The files of an ended process are added to the report and removed, so
//! that there are no more files to look through than live processes, and none fill a disk.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::guards::folder;
use crate::guards::report::{GuardEvent, RunReport};

/// An event, and the process whose guard reported it.
pub type ProcessEvent = (u32, GuardEvent);

/// Reads the event files of a folder.
pub struct EventReader {
    folder: PathBuf,
    /// How many bytes of each file were read.
    offsets: HashMap<PathBuf, u64>,
    /// The counts and events of ended processes.
    ended: RunReport,
    /// Processes whose files were removed since the last call of [`Self::take_removed`].
    removed: Vec<u32>,
}

impl EventReader {
    /// Reads the files that guards will write into this folder.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), offsets: HashMap::new(), ended: RunReport::default(), removed: Vec::new() }
    }

    /// The new events: those of whole lines that were not read yet. Removes the files of ended processes.
    pub fn read_new(&mut self, has_ended: impl Fn(u32) -> bool) -> Vec<ProcessEvent> {
        let mut new = Vec::new();
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let process = path.file_stem().and_then(OsStr::to_str).and_then(|name| name.parse().ok());
            let (Some(process), Some("jsonl")) = (process, path.extension().and_then(OsStr::to_str)) else { continue };
            let Ok(mut file) = folder::open(&path) else { continue };
            // A guard that writes has locked its file, and one that is about to lock it waits for this lock.
            let is_last = file.try_lock().is_ok() && has_ended(process);
            let offset = self.offsets.entry(path.clone()).or_default();
            let text = read_from(&mut file, *offset).unwrap_or_default();
            let whole = text.rfind('\n').map_or(0, |end| end + 1);
            *offset += whole as u64;
            // Lines that are no event are counted when the run has ended.
            let events = text[..whole].lines().filter_map(|line| serde_json::from_str::<GuardEvent>(line).ok());
            // Asked after the lines were read: a process that has our rights now had them when it wrote the lines.
            let is_trusted = whole == 0 || !folder::gave_up_rights(process);
            new.extend(
                events.map(|event| (process, if is_trusted { event } else { GuardEvent { frame: None, ..event } })),
            );
            if is_last {
                self.remove(process, &path);
            }
        }
        new
    }

    /// Adds the counts and events of an ended process to the report, and removes its files.
    fn remove(&mut self, process: u32, events: &Path) {
        let counts = events.with_extension("counts");
        self.ended.add(&counts, events);
        self.offsets.remove(events);
        self.removed.push(process);
        for path in [&counts, events] {
            // A file that cannot be removed would be counted again; nobody but us may enter the folder.
            let _ = fs::remove_file(path);
        }
    }

    /// Processes whose files were removed since the last call. Another process may get their numbers.
    pub fn take_removed(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.removed)
    }

    /// The frame that a process reported with the uncorrectable page of an event.
    pub fn frame_of(&self, process: u32, event: &GuardEvent) -> Option<u64> {
        let lines = folder::read(&self.folder.join(format!("{process}.jsonl"))).ok()?;
        let lines = String::from_utf8_lossy(&lines);
        let reported = lines.lines().filter_map(|line| serde_json::from_str::<GuardEvent>(line).ok());
        reported.filter(|seen| seen.event == "uncorrectable" && seen.page == event.page).find_map(|seen| seen.frame)
    }

    /// The counts and events of the processes whose files were removed.
    pub fn into_report(self) -> RunReport {
        self.ended
    }
}

/// The rest of a file, if it has more or fewer bytes than were read.
fn read_from(file: &mut File, offset: u64) -> Option<String> {
    if file.metadata().ok()?.len() == offset {
        return None;
    }
    file.seek(SeekFrom::Start(offset)).ok()?;
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::process::Command;

    #[test]
    fn lines_are_read_once_and_only_whole_ones() {
        let folder = tempfile::tempdir().unwrap();
        let mut reader = EventReader::new(folder.path());
        let write = |text: &str| fs::write(folder.path().join("7.jsonl"), text).unwrap();
        fs::write(folder.path().join("7.counts"), "not mine").unwrap();
        let first = "{\"event\":\"corrected\",\"page\":1}\n";
        write(&format!("{first}nonsense\n{{\"event\":\"stop"));
        let events = reader.read_new(|_| false);
        assert_eq!((events.len(), events[0].0, events[0].1.page), (1, 7, Some(1)));
        write(&format!("{first}nonsense\n{{\"event\":\"stopped\",\"code\":\"a+0x1\",\"thread\":8}}\n"));
        let events = reader.read_new(|_| false);
        assert_eq!((events.len(), events[0].1.code.as_deref(), events[0].1.thread), (1, Some("a+0x1"), Some(8)));
        assert!(reader.read_new(|_| false).is_empty());
    }

    #[test]
    fn what_ended_processes_left_is_added_up_and_taken_away_and_what_somebody_writes_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let file = |number: u32, events: &str| {
            let mut counts = vec![0; rampart_guard::GuardCounts::BYTES];
            counts[..8].copy_from_slice(&u64::from(number).to_ne_bytes());
            fs::write(path(&format!("{number}.counts")), counts).unwrap();
            fs::write(path(&format!("{number}.jsonl")), events).unwrap();
            File::open(path(&format!("{number}.jsonl"))).unwrap()
        };
        file(1, "{\"event\":\"corrected\"}\n{\"event\":\"corr");
        let writes = file(2, "");
        writes.try_lock_shared().unwrap();
        file(3, "");
        let mut reader = EventReader::new(folder.path());
        // Process 3 is about to lock its file.
        assert_eq!(reader.read_new(|process| process != 3).len(), 1);
        assert!(!path("1.counts").exists() && !path("1.jsonl").exists());
        assert!(["2.counts", "2.jsonl", "3.counts", "3.jsonl"].iter().all(|name| path(name).exists()));
        // Not only closed: a program that another test starts holds a copy until it is executed.
        writes.unlock().unwrap();
        file(1, "{\"event\":\"corrected\"}\n");
        assert_eq!(reader.read_new(|process| process != 3).len(), 1, "another process has the number");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        let report = reader.into_report().with_folder(folder.path());
        let faults = report.counts.get(rampart_guard::Counter::Faults);
        assert_eq!((report.processes, faults, report.events.len(), report.unreadable), (4, 1 + 2 + 1 + 3, 2, 1));
    }

    #[test]
    fn a_process_that_gave_up_our_rights_condemns_no_frame() {
        use std::os::unix::process::CommandExt as _;
        let folder = tempfile::tempdir().unwrap();
        let lowered = Command::new("sleep").arg("60").uid(65_534).spawn();
        let Some(mut lowered) = rampart_skips::granted(&[rampart_skips::Feature::Root], lowered) else { return };
        let mut reader = EventReader::new(folder.path());
        for process in [lowered.id(), std::process::id()] {
            let event = "{\"event\":\"given_up\",\"page\":4,\"frame\":19}\n";
            fs::write(folder.path().join(format!("{process}.jsonl")), event).unwrap();
        }
        let frames: HashMap<u32, Option<u64>> =
            reader.read_new(|_| false).into_iter().map(|(process, event)| (process, event.frame)).collect();
        assert_eq!(frames, HashMap::from([(lowered.id(), None), (std::process::id(), Some(19))]));
        lowered.kill().unwrap();
        lowered.wait().unwrap();
    }
}
