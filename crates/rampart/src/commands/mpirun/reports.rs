//! What the processes of a job report: a file each, with a line for each event (`mpi/redmpi/events.h`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::arguments::Mode;
use super::drops::Drops;
use super::files::FileMismatch;
use super::lives::{EarlyEnd, Lives};
use super::output::{JobEnd, OutputMismatch};
use super::placement::crowded;
use crate::error::Error;
use crate::output::text::count;

/// A message that differed between replicas, as one of them saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaMismatch {
    pub rank: u32,
    pub replica: u32,
    /// What was received: `message`, or the name of a collective operation.
    pub what: String,
    /// The numbers of the line, by name: `comm`, `peer`, `sender`, `tag`, `bytes`, `offset`, `number`, `step`; -1 is
    /// unknown.
    pub numbers: BTreeMap<String, i64>,
    /// Replicas whose version was not that of the majority.
    pub wrong: Vec<u32>,
    /// `right`, `replaced` or `undecided`; `kept` if a majority had another version, and the program has the wrong one.
    pub verdict: String,
}

/// A bit that was flipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Injected {
    pub rank: u32,
    pub replica: u32,
    /// The numbers of the line, by name: `message`, `to`, `tag`, `bytes`, `bit`, `compared`, `step`; -1 is unknown.
    pub numbers: BTreeMap<String, i64>,
}

/// What the processes of a job said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobReport {
    /// Processes that began and that ended.
    pub began: u32,
    pub ended: u32,
    /// Those that ended as they should.
    finished: BTreeSet<(u32, u32)>,
    pub compared: u64,
    pub replaced: u64,
    /// The program's messages between ranks, with all copies and hashes, and their bytes.
    pub sent_messages: u64,
    pub sent_bytes: u64,
    /// CPU time in nanoseconds, of processes that were compared behind the program: what comparing took, and all.
    pub comparer_time: u64,
    pub cpu_time: u64,
    /// Steps of the program, as the rank with the most of them counted.
    pub steps: u64,
    pub injections: Vec<Injected>,
    /// Replicas did different things: an error has changed what one of them does.
    pub has_diverged: bool,
    pub mismatches: Vec<ReplicaMismatch>,
    /// Where replicas differed in what they printed.
    pub outputs: Vec<OutputMismatch>,
    /// Files that they wrote differently.
    pub files: Vec<FileMismatch>,
    /// Why the job was stopped.
    pub stopped: Option<String>,
    /// The program ended itself by `MPI_Abort`, with this number.
    pub aborted: Option<i32>,
    pub lives: Lives,
    /// Teams without which the job went on.
    pub drops: Drops,
    /// The job came to an early end: with which process, and the signal that ended it, as far as they are known.
    pub early_end: Option<(Option<EarlyEnd>, Option<i32>)>,
    /// The nodes of replicas, by rank and replica.
    pub nodes: BTreeMap<(u32, u32), String>,
}

impl JobReport {
    /// Reads the files of a job's folder, when it has ended.
    pub fn read(folder: &Path, replicas: u32) -> Result<Self, Error> {
        let mut report = Self::default();
        EventLines::of(folder).see_new(|rank, replica, line| report.see(rank, replica, line))?;
        for (process, path) in files_of(folder, "progress.")? {
            let bytes = fs::read(&path).map_err(|cause| Error::Job { path, cause })?;
            numbers_in(&bytes).into_iter().for_each(|numbers| report.see_progress(process, numbers));
        }
        report.drops.keep_outlived(replicas);
        Ok(report)
    }

    /// What a process had compared and replaced when it ended; of one that said so itself, that is known.
    fn see_progress(&mut self, process: (u32, u32), (compared, replaced): (u64, u64)) {
        if !self.finished.contains(&process) {
            self.compared += compared;
            self.replaced += replaced;
        }
    }

    /// A line of one process.
    pub fn see(&mut self, rank: u32, replica: u32, line: &str) {
        let (what, rest) = line.split_once(' ').unwrap_or((line, ""));
        self.lives.see(rank, replica, what, rest);
        self.drops.see(rank, replica, what, rest);
        match what {
            "begin" => {
                self.began += 1;
                self.nodes.insert((rank, replica), rest.to_owned());
            }
            "end" => {
                let numbers = numbers(rest);
                let number = |name: &str| numbers.get(name).copied().and_then(|one| u64::try_from(one).ok());
                self.ended += 1;
                self.finished.insert((rank, replica));
                self.compared += number("compared").unwrap_or(0);
                self.replaced += number("replaced").unwrap_or(0);
                self.sent_messages += number("messages").unwrap_or(0);
                self.sent_bytes += number("bytes").unwrap_or(0);
                self.steps = self.steps.max(number("steps").unwrap_or(0));
            }
            "comparer" => {
                let numbers = numbers(rest);
                let number = |name: &str| numbers.get(name).copied().and_then(|one| u64::try_from(one).ok());
                self.comparer_time += number("cpu").unwrap_or(0);
                self.cpu_time += number("of").unwrap_or(0);
            }
            "injected" => {
                self.injections.push(Injected { rank, replica, numbers: numbers(rest) });
                self.steps = self.steps.max(self.injections.last().and_then(|one| one.known("step")).unwrap_or(0));
            }
            "mismatch" => {
                self.mismatches.extend(mismatch(rank, replica, rest));
                self.steps = self.steps.max(self.mismatches.last().and_then(|one| one.known("step")).unwrap_or(0));
            }
            "stopped" => self.stopped = self.stopped.take().or_else(|| Some(format!("rank {rank}: {rest}"))),
            "diverged" => {
                self.has_diverged = true;
                self.stopped = self.stopped.take().or_else(|| Some(format!("rank {rank}: {rest}")));
            }
            "aborted" => self.aborted = rest.rsplit(' ').next().and_then(|code| code.parse().ok()),
            _ => {}
        }
    }

    /// The exit code of a program that ended the job itself, where the launcher lets others go on: by `MPI_Abort`, or
    /// by a crash of all replicas of a rank.
    pub fn own_end(&self) -> Option<u8> {
        let crash = || self.lives.first_end(&self.drops.teams())?.common_crash();
        let code = self.aborted.map(|code| code.to_le_bytes()[0].max(1));
        code.or_else(|| u8::try_from(128 + crash()?).ok())
    }

    /// A process ended before its time, and nobody wanted that. `signal` is that of the launcher's exit code.
    pub fn look_for_early_end(&mut self, signal: Option<i32>) {
        if self.stopped.is_none() && self.aborted.is_none() && !self.is_complete() {
            self.early_end = Some((self.lives.first_end(&self.drops.teams()), signal));
        }
    }

    /// Whether all processes came to the end that were not dropped.
    fn is_complete(&self) -> bool {
        let is_accounted_for = |one: &(u32, u32)| self.finished.contains(one) || self.drops.are_without(*one);
        self.nodes.keys().all(is_accounted_for)
    }

    /// A line for that process.
    pub fn early_end_line(&self) -> Option<String> {
        let (Some(end), signal) = self.early_end.as_ref()? else {
            return Some(
                "a process died, and none could say which it was; this MPI cannot go on without it".to_owned(),
            );
        };
        let node = self.nodes.get(&(end.rank, end.replica)).map_or("?", String::as_str);
        Some(end.line(node, *signal))
    }

    /// What was compared, in words.
    pub fn summary(&self, ranks: u32, replicas: u32, mode: Mode) -> String {
        let (job, differed) = (format!("{ranks} ranks of {replicas} replicas"), count(self.messages() as u64));
        let (when, outcome) = match mode {
            Mode::Now => ("", format!("{} replaced", count(self.replaced))),
            Mode::Later => (" behind the program", "none was corrected".to_owned()),
        };
        let messages =
            if self.compared == 1 { "1 message".to_owned() } else { format!("{} messages", count(self.compared)) };
        if self.early_end.is_some() {
            let were = if self.compared == 1 { "was" } else { "were" };
            return format!("until then, {messages} {were} compared{when} in {job}: {differed} differed, {outcome}");
        }
        format!("{messages} compared{when} in {job}: {differed} differed, {outcome}")
    }

    /// How the job ended, of which the launcher says whether all is well.
    pub fn end(&self, is_well: bool) -> JobEnd {
        match self.stopped {
            Some(_) => JobEnd::Stopped,
            None if is_well && self.is_complete() => JobEnd::Complete,
            None => JobEnd::CutOff,
        }
    }

    /// The share of the CPU time that comparing behind the program took; `None` if that was not done, or to no end.
    pub fn comparer_share(&self) -> Option<f64> {
        (self.cpu_time > 0).then(|| self.comparer_time as f64 / self.cpu_time as f64)
    }

    /// Replicas of this rank printed different things, without a majority.
    pub fn stop_for_output(&mut self, rank: Option<u32>) {
        let why = |rank| format!("rank {rank}: replicas differ in what they print, and there is no majority");
        self.stopped = self.stopped.take().or_else(|| rank.map(why));
    }

    /// A line for each replica that printed something else than the others.
    pub fn output_lines(&self) -> impl Iterator<Item = String> {
        self.outputs.iter().filter_map(|&OutputMismatch { rank, wrong, offset }| {
            let (wrong, byte) = (wrong?, count(offset));
            Some(format!("replica {wrong} of rank {rank} printed other things than the others from byte {byte} on"))
        })
    }

    /// A line for each file that teams wrote differently.
    pub fn file_lines(&self) -> impl Iterator<Item = String> {
        self.files.iter().map(|one| {
            let path = shown(&one.path);
            let place = one.offset.map_or_else(String::new, |offset| format!(" from byte {} on", count(offset)));
            match &one.wrong {
                Some(wrong) => {
                    let wrong: Vec<String> = wrong.iter().map(u32::to_string).collect();
                    let (noun, wrong) = (if wrong.len() == 1 { "replica" } else { "replicas" }, wrong.join(", "));
                    format!("{path}: {noun} {wrong} wrote something else{place}; the file is that of the others")
                }
                None if one.kept.is_empty() => format!("{path}: replicas wrote different things{place}"),
                None => format!(
                    "{path}: replicas wrote different things{place}, and there is no majority: see {path}.replica-*"
                ),
            }
        })
    }

    /// Messages that differed: each of them was seen by several replicas.
    pub fn messages(&self) -> usize {
        let mut places: Vec<_> = self.mismatches.iter().map(|one| (one.rank, one.numbers.get("number"))).collect();
        places.sort_unstable();
        places.dedup();
        places.len()
    }

    /// Ranks of which a node has several replicas, if there are several nodes.
    pub fn crowded_nodes(&self) -> BTreeMap<&str, u32> {
        let first = self.nodes.values().next();
        if self.nodes.values().all(|node| Some(node) == first) { BTreeMap::new() } else { crowded(&self.nodes) }
    }

    /// How often a node had the wrong version, by its name; of messages, the sender's.
    pub fn erring_nodes(&self) -> BTreeMap<&str, usize> {
        let mut nodes = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for one in &self.mismatches {
            let sender = one.sender().unwrap_or(one.rank);
            for &replica in &one.wrong {
                let Some(node) = self.nodes.get(&(sender, replica)) else { continue };
                if seen.insert((one.rank, one.numbers.get("number"), replica)) {
                    *nodes.entry(node.as_str()).or_insert(0) += 1;
                }
            }
        }
        for one in &self.outputs {
            if let Some(node) = one.wrong.and_then(|replica| self.nodes.get(&(one.rank, replica))) {
                *nodes.entry(node.as_str()).or_insert(0) += 1;
            }
        }
        nodes
    }

    /// The whole as JSON.
    pub fn document(&self, ranks: u32, replicas: u32) -> Value {
        json!({
            "schema": "rampart.mpirun/1",
            "ranks": ranks,
            "replicas": replicas,
            "processes": { "began": self.began, "ended": self.ended },
            "compared": self.compared,
            "differed": self.messages(),
            "replaced": self.replaced,
            "sent": { "messages": self.sent_messages, "bytes": self.sent_bytes },
            "comparer_share": self.comparer_share(),
            "injected": self.injections.len(),
            "injections": self.injections.iter().map(Injected::document).collect::<Vec<_>>(),
            "stopped": self.stopped,
            "died": self.early_end.as_ref().map(|(end, signal)| end.as_ref().map(|end| end.document(*signal))),
            "dropped": self.drops.document(),
            "erring_nodes": self.erring_nodes(),
            "crowded_nodes": self.crowded_nodes(),
            "output_mismatches": self.outputs.iter().map(output_document).collect::<Vec<_>>(),
            "file_mismatches": self.files.iter().map(file_document).collect::<Vec<_>>(),
            "mismatches": self.mismatches.iter().map(ReplicaMismatch::document).collect::<Vec<_>>(),
        })
    }
}

impl Injected {
    /// A number, if it is known.
    pub fn known(&self, name: &str) -> Option<u64> {
        self.numbers.get(name).and_then(|&number| u64::try_from(number).ok())
    }

    fn document(&self) -> Value {
        let (to, tag) = (self.known("to"), self.known("tag"));
        json!({
            "rank": self.rank,
            "replica": self.replica,
            "message": self.known("message"),
            "to": to,
            "tag": tag,
            "bytes": self.known("bytes"),
            "bit": self.known("bit"),
            "step": self.known("step"),
        })
    }
}

impl ReplicaMismatch {
    /// A number, if it is known.
    pub fn known(&self, name: &str) -> Option<u64> {
        self.numbers.get(name).and_then(|&number| u64::try_from(number).ok())
    }

    /// The rank that sent it; `None` for the result of a collective operation.
    pub fn sender(&self) -> Option<u32> {
        self.known("sender").and_then(|sender| u32::try_from(sender).ok())
    }

    fn document(&self) -> Value {
        let known = |name: &str| self.known(name);
        json!({
            "rank": self.rank,
            "replica": self.replica,
            "what": self.what,
            "communicator": known("comm"),
            "peer": known("peer"),
            "sender": self.sender(),
            "tag": known("tag"),
            "bytes": known("bytes"),
            "first_difference": known("offset"),
            "number": known("number"),
            "step": known("step"),
            "wrong_replicas": self.wrong,
            "verdict": self.verdict,
        })
    }
}

fn output_document(one: &OutputMismatch) -> Value {
    json!({ "rank": one.rank, "wrong_replica": one.wrong, "first_difference": one.offset })
}

fn file_document(one: &FileMismatch) -> Value {
    json!({
        "path": one.path,
        "wrong_replicas": one.wrong,
        "first_difference": one.offset,
        "kept": one.kept,
    })
}

/// A path as the user would name it.
fn shown(path: &Path) -> String {
    let here = std::env::current_dir().and_then(|here| here.canonicalize());
    let path = here.ok().and_then(|here| path.strip_prefix(here).ok()).unwrap_or(path);
    path.display().to_string()
}

/// The lines of a job's events, each of which is seen once.
pub struct EventLines {
    folder: PathBuf,
    /// How many bytes of a process's file were seen.
    seen: BTreeMap<(u32, u32), u64>,
}

impl EventLines {
    pub fn of(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), seen: BTreeMap::new() }
    }

    /// Passes on the rank, the replica, and each line that was not seen yet. One without its end is left for later.
    pub fn see_new(&mut self, mut see: impl FnMut(u32, u32, &str)) -> Result<(), Error> {
        for ((rank, replica), path) in files_of(&self.folder, "events.")? {
            let seen = self.seen.entry((rank, replica)).or_default();
            let bytes = read_from(&path, *seen).map_err(|cause| Error::Job { path, cause })?;
            let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
            String::from_utf8_lossy(&bytes[..whole]).lines().for_each(|line| see(rank, replica, line));
            *seen += whole as u64;
        }
        Ok(())
    }
}

fn read_from(path: &Path, place: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(place))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The files of a job's processes, such as `events.RANK.REPLICA`, by their rank and replica.
fn files_of(folder: &Path, prefix: &str) -> Result<BTreeMap<(u32, u32), PathBuf>, Error> {
    let unread = |cause| Error::Job { path: folder.to_owned(), cause };
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).map_err(unread)? {
        let path = entry.map_err(unread)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if let Some(process) = place(name, prefix) {
            files.insert(process, path);
        }
    }
    Ok(files)
}

/// The two numbers of `mpi/redmpi/progress.c`.
fn numbers_in(bytes: &[u8]) -> Option<(u64, u64)> {
    let (first, rest) = bytes.split_first_chunk()?;
    Some((u64::from_ne_bytes(*first), u64::from_ne_bytes(*rest.first_chunk()?)))
}

/// The rank and the replica in the name of a file, such as `events.RANK.REPLICA`.
fn place(name: &str, prefix: &str) -> Option<(u32, u32)> {
    let (rank, replica) = name.strip_prefix(prefix)?.split_once('.')?;
    Some((rank.parse().ok()?, replica.parse().ok()?))
}

/// Pairs of a name and a number.
fn numbers(text: &str) -> BTreeMap<String, i64> {
    let words: Vec<&str> = text.split(' ').collect();
    let pair = |pair: &[&str]| Some((pair[0].to_owned(), pair[1].parse().ok()?));
    words.chunks_exact(2).filter_map(pair).collect()
}

/// Reads `WHAT comm N ... wrong 0xMASK VERDICT`; `None` if the line was cut off.
fn mismatch(rank: u32, replica: u32, text: &str) -> Option<ReplicaMismatch> {
    let (what, rest) = text.split_once(' ')?;
    let (pairs, mask) = rest.split_once(" wrong ")?;
    let (mask, verdict) = mask.split_once(' ')?;
    let mask = u32::from_str_radix(mask.trim_start_matches("0x"), 16).ok()?;
    let wrong = (0..32).filter(|replica| mask >> replica & 1 == 1).collect();
    let (what, verdict) = (what.to_owned(), verdict.to_owned());
    Some(ReplicaMismatch { rank, replica, what, numbers: numbers(pairs), wrong, verdict })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_processes_say_is_added_up() {
        let mut report = JobReport::default();
        for replica in 0..3 {
            report.see(0, replica, &format!("begin node{replica}"));
            report.see(1, replica, &format!("begin node{replica}"));
        }
        let line = |verdict| {
            format!(
                "mismatch message comm 1 peer 0 sender 1 tag 7 bytes 80 offset 3 number 9 step 2 wrong 0x2 {verdict}"
            )
        };
        report.see(0, 1, &line("replaced"));
        report.see(0, 2, &line("right"));
        report.see(0, 1, "end compared 10 differed 1 replaced 1 steps 4 messages 20 bytes 900");
        report.see(1, 1, "injected message 3 to 0 tag 7 bytes 80 bit 24 compared 2 step 1");
        report.see(1, 1, "mismatch message comm 1 pe");
        assert_eq!(report.comparer_share(), None);
        report.see(0, 1, "comparer cpu 30 of 1000");
        report.see(1, 1, "comparer cpu 10 of 1000");
        assert_eq!(report.comparer_share(), Some(0.02));
        assert_eq!((report.began, report.ended, report.compared, report.replaced), (6, 1, 10, 1));
        assert_eq!((report.messages(), report.injections.len(), report.mismatches.len()), (1, 1, 2));
        assert_eq!(report.erring_nodes(), BTreeMap::from([("node1", 1)]));
        let document = report.document(2, 3);
        assert_eq!(document["sent"], json!({ "messages": 20, "bytes": 900 }));
        assert_eq!(document["mismatches"][0]["wrong_replicas"], json!([1]));
        assert_eq!(document["mismatches"][1]["verdict"], "right");
        assert_eq!((&document["mismatches"][1]["sender"], &document["mismatches"][1]["step"]), (&json!(1), &json!(2)));
        assert_eq!((&document["injections"][0]["bit"], report.steps, report.has_diverged), (&json!(24), 4, false));
        report.see(1, 0, "diverged replicas 0 and 1 of rank 1 do different things");
        report.see(0, 0, "stopped for another reason");
        assert!(report.has_diverged && report.stopped.unwrap().starts_with("rank 1: replicas 0 and 1"));
    }

    #[test]
    fn a_job_whose_processes_all_leave_by_exit_ends_early() {
        let mut report = JobReport::default();
        for replica in 0..2 {
            report.see(0, replica, "begin a");
            report.see(0, replica, &format!("process 1{replica}"));
            report.see(0, replica, &format!("left at 100{replica}"));
        }
        report.look_for_early_end(None);
        let line = report.early_end_line().expect("none came to the end");
        assert!(line.starts_with("replica 0 of rank 0 ended without MPI_Finalize"), "{line}");
        assert!(matches!(report.end(true), JobEnd::CutOff));
    }

    #[test]
    fn only_files_of_events_are_read() {
        let place = |name| place(name, "events.");
        assert_eq!(place("events.12.3"), Some((12, 3)));
        assert_eq!((place("stdout.3"), place("events.x.1"), place("events.1")), (None, None, None));
    }

    #[test]
    fn a_process_that_did_not_end_counts_what_it_had_compared() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
        let numbers = |compared: u64, replaced: u64| [compared.to_ne_bytes(), replaced.to_ne_bytes()].concat();
        write("events.0.0", b"begin a\nend compared 10 differed 1 replaced 1 steps 0 messages 2 bytes 3\n");
        write("progress.0.0", &numbers(10, 1));
        write("events.0.1", b"begin b\n");
        write("progress.0.1", &numbers(7, 2));
        write("progress.1.0", b"short");
        let report = JobReport::read(folder.path(), 3).unwrap();
        assert_eq!((report.compared, report.replaced, report.began, report.ended), (17, 3, 2, 1));
    }

    #[test]
    fn each_line_is_seen_once_when_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let mut events = EventLines::of(folder.path());
        let mut seen = Vec::new();
        for (written, new) in [("begin a\nend comp", 1), ("ared 1\n", 1), ("", 0), ("begin b\nx\n", 2)] {
            let mut file = File::options().append(true).create(true).open(folder.path().join("events.1.2")).unwrap();
            io::Write::write_all(&mut file, written.as_bytes()).unwrap();
            let before = seen.len();
            events.see_new(|rank, replica, line| seen.push((rank, replica, line.to_owned()))).unwrap();
            assert_eq!(seen.len() - before, new, "{written}");
        }
        let lines: Vec<&str> = seen.iter().map(|(_, _, line)| line.as_str()).collect();
        assert_eq!(lines, ["begin a", "end compared 1", "begin b", "x"]);
        assert!(seen.iter().all(|(rank, replica, _)| (*rank, *replica) == (1, 2)));
    }
}
