//! A guarded program's troubles, as they happen: each bad frame is on the map before anybody reads of it.
//!
//! **Problem.** A page beyond correction ends the program, or it goes on with what is wrong; either way its frame must
//! never be forgotten, and a person reads what happened. **Idea.** The guards add lines to files; whoever started the
//! program reads on where it stopped, writes to the store, and only then speaks. **Why this way.** The guard may not
//! wait for a disk, and a process that ends has told all before.
//!
//! A build runs a hundred thousand processes. What one that has ended left behind is added up and taken away, so that
//! no more files are looked through than processes live, and none fill a disk.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

use rampart_linux::SystemClock;
use rampart_linux::process::has_ended;
use rampart_memory::fault_map::{FailedFrame, FaultMap, Origin, Retirement};
use rampart_memory::{Clock as _, Frame, Timestamp};

use super::retiring::{Retire, Retiring, said};
use crate::error::Error;
use crate::guards::folder;
use crate::guards::left::{GuardEvent, Left};
use crate::inputs::store;

/// What is said of a frame in which errors were made up.
const MADE_UP: &str = "it was made up: its frame does not go on the map";

/// What is said of a frame in which a page was wrong twice.
const ERRING: &str = "memory changed a second time in a frame that passes its test";

/// What is said of a frame in which a page was wrong, and which no test could clear before its process ended.
const UNJUDGED: &str = "memory changed in a frame whose tests had not ended when the process did";

/// Follows the guards of one run.
pub struct Follower {
    folder: PathBuf,
    /// How far each file was read.
    read: HashMap<PathBuf, u64>,
    /// Pages that were told, each by its process.
    told: HashSet<(u32, u64)>,
    store: Option<PathBuf>,
    /// Errors are made up, and what they do does not go on the map.
    made_up: bool,
    /// What is run once before the first process is stopped.
    command: Option<OsString>,
    running: Option<Child>,
    /// Locked until that has ended, or we have: those who are held wait for it.
    waiting: Option<File>,
    /// Bad frames that are still somebody's; `None`: nothing is retired.
    retiring: Option<Retiring>,
    /// Frames that are under suspicion, and the process that tests each.
    suspects: BTreeSet<(u32, u64)>,
    /// What processes left that have ended.
    ended: Left,
    /// Their numbers, until all that they told was heeded.
    taken: Vec<u32>,
}

impl Follower {
    /// Follows the guards that will write into this folder.
    ///
    /// # Errors
    /// [`Error::GuardFolder`] if those who are to be held cannot be told so.
    pub fn new(folder: &Path, store: Option<PathBuf>, made_up: bool, command: Option<OsString>) -> Result<Self, Error> {
        let locked = || folder::locked(&folder.join("checkpoint"));
        let waiting = command.as_ref().map(|_| locked()).transpose().map_err(Error::GuardFolder)?;
        let (read, told) = Default::default();
        Ok(Self {
            folder: folder.to_owned(),
            read,
            told,
            store,
            made_up,
            command,
            running: None,
            waiting,
            retiring: None,
            suspects: BTreeSet::new(),
            ended: Left::default(),
            taken: Vec::new(),
        })
    }

    /// From now on bad frames are retired once their process has ended.
    pub fn retiring(mut self, retire: Retire) -> Self {
        self.retiring = Some(Retiring::new(retire));
        self
    }

    /// Keeps and says what is new, and runs what is to be run.
    pub fn look(&mut self) {
        self.look_for(has_ended);
    }

    /// The same; what a process left unjudged that `has_ended` is bad.
    fn look_for(&mut self, has_ended: impl Fn(u32) -> bool) {
        // Asked before what they told is read: what they tell last counts.
        let ended: Vec<_> = self.testers().filter(|process| has_ended(*process)).collect();
        let mut news = self.news(rampart_linux::process::has_ended);
        self.note_suspects(&news);
        news.extend(self.unjudged(&ended));
        let kept = self.keep(&news);
        self.note_for_retirement(&news, &kept);
        for (process, event) in &news {
            match event.event.as_str() {
                "uncorrectable" if self.told.insert(place(*process, event)) => {
                    eprintln!("rampart: {}; {}", beyond(*process, event), self.is_kept(event, &kept));
                }
                "given_up" => eprintln!("rampart: {}; {}", given_up(*process, event), self.is_kept(event, &kept)),
                "failed" => eprintln!("rampart: {}; {}", failed(event), self.is_on_the_map(event, &kept)),
                "erring" => eprintln!("rampart: {}; {}", ERRING, self.is_kept(event, &kept)),
                "unjudged" => eprintln!("rampart: {}; {}", UNJUDGED, self.is_kept(event, &kept)),
                "stopped" => eprintln!("rampart: {}", stopped(*process, event)),
                "guard_failed" => eprintln!("rampart: {}", guard_failed(*process, event)),
                "held" => self.run_command(*process, event),
                _ => {}
            }
        }
        if let Some(Ok(Some(status))) = self.running.as_mut().map(Child::try_wait) {
            self.has_run(status);
        }
        // Another process may have its number from now on.
        let taken = std::mem::take(&mut self.taken);
        self.told.retain(|(process, _)| !taken.contains(process));
        let retired = self.retiring.as_mut().map(|retiring| retiring.look(has_ended));
        self.keep_retirements(&retired.unwrap_or_default());
    }

    /// The program has ended: says the rest, and waits for what still runs. Returns what was taken from the folder.
    pub fn end(mut self) -> Left {
        self.look();
        // Nobody hears of a process that runs on.
        self.look_for(|_| true);
        if let Some(Ok(status)) = self.running.as_mut().map(Child::wait) {
            self.has_run(status);
        }
        let retired = self.retiring.as_mut().map(Retiring::end);
        self.keep_retirements(&retired.unwrap_or_default());
        self.ended
    }

    /// Processes that test frames under suspicion.
    fn testers(&self) -> impl Iterator<Item = u32> {
        self.suspects.iter().map(|(process, _)| *process)
    }

    fn note_suspects(&mut self, news: &[(u32, GuardEvent)]) {
        for (process, event) in news {
            let Some(frame) = event.frame else { continue };
            match event.event.as_str() {
                "suspect" => drop(self.suspects.insert((*process, frame))),
                "cleared" | "failed" | "erring" => drop(self.suspects.remove(&(*process, frame))),
                _ => {}
            }
        }
    }

    /// What these processes had under suspicion, as events.
    fn unjudged(&mut self, ended: &[u32]) -> Vec<(u32, GuardEvent)> {
        let left = self.suspects.extract_if(.., |(process, _)| ended.contains(process));
        let event = |frame| GuardEvent { event: "unjudged".to_owned(), frame: Some(frame), ..GuardEvent::default() };
        left.map(|(process, frame)| (process, event(frame))).collect()
    }

    /// Those of the frames that these news condemn, and that are on the map.
    fn note_for_retirement(&mut self, news: &[(u32, GuardEvent)], kept: &Result<(), Error>) {
        let now = SystemClock.now();
        let bad: Vec<_> = news
            .iter()
            .filter_map(|(process, event)| Some((*process, self.condemned(*process, event, now)?)))
            .collect();
        if let (Some(retiring), Ok(())) = (&mut self.retiring, kept) {
            bad.iter().for_each(|(process, failed)| retiring.add(*process, failed.frame));
        }
    }

    /// Writes down and says what became of frames.
    fn keep_retirements(&self, retired: &[(Frame, Retirement)]) {
        if retired.is_empty() {
            return;
        }
        let kept = store::open(self.store.clone(), SystemClock.now()).and_then(|mut store| {
            retired
                .iter()
                .try_for_each(|(frame, retirement)| Ok(store.keep_retirement(*frame, retirement).map(drop)?))
        });
        retired.iter().for_each(|retired| eprintln!("rampart: {}", said(retired)));
        if let Err(error) = kept {
            eprintln!("rampart: the map does not say what became of them: {error}");
        }
    }

    fn has_run(&mut self, status: ExitStatus) {
        eprintln!("rampart: the command for the checkpoint has ended: {status}");
        (self.running, self.waiting) = (None, None);
    }

    /// Puts all frames that are bad by these news on the map, for good.
    fn keep(&self, news: &[(u32, GuardEvent)]) -> Result<(), Error> {
        let now = SystemClock.now();
        let bad: Vec<_> = news.iter().filter_map(|(process, event)| self.condemned(*process, event, now)).collect();
        if bad.is_empty() {
            return Ok(());
        }
        let mut store = store::open(self.store.clone(), now)?;
        Ok(store.keep_failures(None, bad.iter().map(|failed| (Origin::Real, failed)))?)
    }

    /// The frame that an event condemns, if that is news.
    fn condemned(&self, process: u32, event: &GuardEvent, now: Timestamp) -> Option<FailedFrame> {
        let frame = Frame::new(event.frame?)?;
        match (event.event.as_str(), &event.evidence) {
            ("given_up", _) if !self.made_up => Some(FailedFrame::spoilt(frame, now)),
            ("uncorrectable", _) if !self.made_up && !self.told.contains(&place(process, event)) => {
                Some(FailedFrame::spoilt(frame, now))
            }
            ("erring" | "unjudged", _) if !self.made_up => Some(FailedFrame::spoilt(frame, now)),
            ("failed", Some(seen)) => Some(FaultMap::new(Origin::Real).record(frame, seen.clone()).clone()),
            _ => None,
        }
    }

    /// What became of the frame of an event.
    fn is_kept(&self, event: &GuardEvent, kept: &Result<(), Error>) -> String {
        if self.made_up { MADE_UP.to_owned() } else { self.is_on_the_map(event, kept) }
    }

    /// The same, of what is never made up.
    fn is_on_the_map(&self, event: &GuardEvent, kept: &Result<(), Error>) -> String {
        is_kept(event, kept, self.retiring.is_some())
    }

    /// Runs what is to be run before the program is stopped: once, for the first process that is held.
    fn run_command(&mut self, process: u32, event: &GuardEvent) {
        let Some(command) = self.command.take() else { return };
        let number = |value: Option<u64>| value.map_or_else(String::new, |value| value.to_string());
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(&command).env("RAMPART_PID", process.to_string());
        shell.env("RAMPART_PAGE", number(event.page)).env("RAMPART_OFFSET", number(event.offset));
        shell.env("RAMPART_FRAME", number(self.frame_of(process, event)));
        match shell.spawn() {
            Ok(child) => self.running = Some(child),
            Err(error) => {
                eprintln!("rampart: cannot run the command for the checkpoint: {error}");
                self.waiting = None;
            }
        }
    }

    /// The frame that was told with a page of a process.
    fn frame_of(&self, process: u32, event: &GuardEvent) -> Option<u64> {
        let lines = folder::read(&self.folder.join(format!("{process}.jsonl"))).ok()?;
        let lines = String::from_utf8_lossy(&lines);
        let told = lines.lines().filter_map(|line| serde_json::from_str::<GuardEvent>(line).ok());
        told.filter(|told| told.event == "uncorrectable" && told.page == event.page).find_map(|told| told.frame)
    }

    /// Whole lines that were not read yet, and whose they are. What an ended process left is taken away.
    fn news(&mut self, has_ended: impl Fn(u32) -> bool) -> Vec<(u32, GuardEvent)> {
        let mut news = Vec::new();
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let process = path.file_stem().and_then(OsStr::to_str).and_then(|name| name.parse().ok());
            let (Some(process), Some("jsonl")) = (process, path.extension().and_then(OsStr::to_str)) else { continue };
            let Ok(mut file) = folder::open(&path) else { continue };
            // Who writes has it locked, and who is about to waits for us.
            let is_last = file.try_lock().is_ok() && has_ended(process);
            let place = self.read.entry(path.clone()).or_default();
            let text = from(&mut file, *place).unwrap_or_default();
            let whole = text.rfind('\n').map_or(0, |end| end + 1);
            *place += whole as u64;
            // What is no event is counted when the run has ended.
            let events = text[..whole].lines().filter_map(|line| serde_json::from_str::<GuardEvent>(line).ok());
            // Asked after the lines were read: who wrote them had our rights if it has them still.
            let is_trusted = whole == 0 || !folder::gave_up_rights(process);
            news.extend(
                events.map(|event| (process, if is_trusted { event } else { GuardEvent { frame: None, ..event } })),
            );
            if is_last {
                self.take(process, &path);
            }
        }
        news
    }

    /// Adds up what a process left, and removes it.
    fn take(&mut self, process: u32, events: &Path) {
        let counts = events.with_extension("counts");
        self.ended.add(&counts, events);
        self.read.remove(events);
        self.taken.push(process);
        for path in [&counts, events] {
            // What cannot be removed would be counted again; nobody but us may enter the folder.
            let _ = fs::remove_file(path);
        }
    }
}

/// The rest of a file.
fn from(file: &mut File, place: u64) -> Option<String> {
    if file.metadata().ok()?.len() == place {
        return None;
    }
    file.seek(SeekFrom::Start(place)).ok()?;
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    Some(text)
}

/// The page of an event, and whose it is.
fn place(process: u32, event: &GuardEvent) -> (u32, u64) {
    (process, event.page.unwrap_or(u64::MAX))
}

/// What became of the frame of an event, and what will.
fn is_kept(event: &GuardEvent, kept: &Result<(), Error>, is_retired: bool) -> String {
    let Some(frame) = event.frame.and_then(Frame::new) else {
        return "its frame is unknown: reading frame numbers wants root".to_owned();
    };
    match kept {
        Ok(()) if is_retired => {
            format!("frame {frame} is on the map of bad frames, and is retired once the process has ended")
        }
        Ok(()) => format!("frame {frame} is on the map of bad frames; `rampart map restore` retires it"),
        Err(error) => format!("frame {frame} could not be put on the map of bad frames: {error}"),
    }
}

/// What a test saw.
fn failed(event: &GuardEvent) -> String {
    let seen = event.evidence.as_ref();
    let line = seen
        .map_or_else(String::new, |seen| format!(", with {} wrong bits in line {}", seen.bits().count(), seen.line));
    format!("memory failed its test{line}")
}

/// What memory did, and to what.
fn beyond(process: u32, event: &GuardEvent) -> String {
    let site = event.site.as_deref().unwrap_or("an unknown place");
    format!("memory changed beyond correction: {}, allocated at {site}", page(process, event))
}

/// What the hardware reported.
fn given_up(process: u32, event: &GuardEvent) -> String {
    format!("the hardware gave memory up: {}", page(process, event))
}

/// Which page.
fn page(process: u32, event: &GuardEvent) -> String {
    let page = event.page.unwrap_or_default();
    let offset = event.offset.unwrap_or_default();
    let place = event.address.map_or_else(|| format!("{offset:#x} bytes into its heap"), |at| format!("at {at:#x}"));
    format!("page {page} of process {process}, {place}")
}

/// Who wanted it.
fn stopped(process: u32, event: &GuardEvent) -> String {
    let thread = event.thread.map_or_else(String::new, |thread| format!(": thread {thread} wanted it"));
    let code = event.code.as_ref().map_or_else(String::new, |code| format!(", at {code}"));
    format!("process {process} was stopped before it used the page{thread}{code}")
}

fn guard_failed(process: u32, event: &GuardEvent) -> String {
    let why = event.why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
    format!("process {process} was stopped: its guard cannot go on{why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    use rampart_memory::fault_map::Cause;

    #[test]
    fn lines_are_read_once_and_only_whole_ones() {
        let folder = tempfile::tempdir().unwrap();
        let mut follower = Follower::new(folder.path(), None, false, None).unwrap();
        let write = |text: &str| fs::write(folder.path().join("7.jsonl"), text).unwrap();
        fs::write(folder.path().join("7.counts"), "not mine").unwrap();
        let first = "{\"event\":\"corrected\",\"page\":1}\n";
        write(&format!("{first}nonsense\n{{\"event\":\"stop"));
        let news = follower.news(|_| false);
        assert_eq!((news.len(), news[0].0, news[0].1.page), (1, 7, Some(1)));
        write(&format!("{first}nonsense\n{{\"event\":\"stopped\",\"code\":\"a+0x1\",\"thread\":8}}\n"));
        let news = follower.news(|_| false);
        assert_eq!(
            stopped(news[0].0, &news[0].1),
            "process 7 was stopped before it used the page: thread 8 wanted it, at a+0x1"
        );
        assert!(follower.news(|_| false).is_empty());
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
        let mut follower = Follower::new(folder.path(), None, false, None).unwrap();
        // The third is about to lock its file.
        assert_eq!(follower.news(|process| process != 3).len(), 1);
        assert!(!path("1.counts").exists() && !path("1.jsonl").exists());
        assert!(["2.counts", "2.jsonl", "3.counts", "3.jsonl"].iter().all(|name| path(name).exists()));
        drop(writes);
        file(1, "{\"event\":\"corrected\"}\n");
        assert_eq!(follower.news(|process| process != 3).len(), 1, "another process has the number");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        let left = follower.ended.and(folder.path());
        let faults = left.counts.get(rampart_guard::Counter::Faults);
        assert_eq!((left.processes, faults, left.events.len(), left.unreadable), (4, 1 + 2 + 1 + 3, 2, 1));
    }

    #[test]
    fn a_page_is_named_with_its_process_and_offset() {
        let event: GuardEvent =
            serde_json::from_str("{\"event\":\"uncorrectable\",\"page\":3,\"offset\":12288}").unwrap();
        let known = GuardEvent { site: Some("/bin/job+0x7".to_owned()), ..event.clone() };
        assert!(
            beyond(7, &event)
                .ends_with("page 3 of process 7, 0x3000 bytes into its heap, allocated at an unknown place")
        );
        assert!(beyond(7, &known).ends_with("allocated at /bin/job+0x7"));
        let placed = GuardEvent { address: Some(0x5000), ..event };
        assert!(beyond(7, &placed).contains("page 3 of process 7, at 0x5000, "));
    }

    #[test]
    fn a_bad_frame_is_on_the_map_before_it_is_said_and_one_that_was_made_up_never_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let zeros = [0; 8];
        let evidence = format!(
            "{{\"at\":7,\"line\":3,\"expected\":{zeros:?},\"found\":[1,0,0,0,0,0,0,2],\"reread\":{zeros:?},\"test\":\"{{⇕(w0)}}\",\"element\":0,\"background\":\"solid\"}}"
        );
        let failed =
            |name: &str, frame: u64| format!("{{\"event\":\"{name}\",\"frame\":{frame},\"evidence\":{evidence}}}\n");
        let made_up =
            format!("{{\"event\":\"uncorrectable\",\"page\":3,\"frame\":16}}\n{}", failed("failed_emulated", 17));
        let follow = |made_up, events: &str| {
            fs::write(folder.path().join("7.jsonl"), events).unwrap();
            Follower::new(folder.path(), Some(path.clone()), made_up, None).unwrap().look();
        };
        follow(true, &made_up);
        assert!(!path.exists());
        let given_up = "{\"event\":\"given_up\",\"page\":4,\"frame\":19}\n";
        follow(true, given_up);
        follow(false, &(made_up.clone() + &failed("failed", 18) + given_up));
        let map = store::open(Some(path.clone()), Timestamp::default()).unwrap().failures(Origin::Real).unwrap();
        let known = |number: u64| map.get(Frame::new(number).unwrap()).map(|known| (known.cause, known.lines));
        let (guard, march) = ((Cause::Guard, u64::MAX), (Cause::MarchTest, 1 << 3));
        assert_eq!([16, 17, 18, 19].map(known), [Some(guard), None, Some(march), Some(guard)]);
    }

    #[test]
    fn a_bad_frame_is_retired_once_its_process_has_ended_and_the_map_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let (ended, lives) = (u32::MAX, std::process::id());
        let write = |process: u32, events: &str| {
            fs::write(folder.path().join(format!("{process}.jsonl")), events).unwrap();
        };
        write(ended, "{\"event\":\"uncorrectable\",\"page\":3,\"frame\":16}\n{\"event\":\"erring\",\"frame\":18}\n");
        write(lives, "{\"event\":\"uncorrectable\",\"page\":3,\"frame\":17}\n");
        let retire = |frame: Frame| match frame.number() {
            18 => Retirement::Refused("it is in use".to_owned()),
            _ => Retirement::Offlined,
        };
        let follower = Follower::new(folder.path(), Some(path.clone()), false, None).unwrap();
        let known = || {
            let map = store::open(Some(path.clone()), Timestamp::default()).unwrap().failures(Origin::Real).unwrap();
            [16, 17, 18].map(|number| map.get(Frame::new(number).unwrap()).unwrap().retirement.clone())
        };
        let mut follower = follower.retiring(Box::new(retire));
        follower.look();
        assert_eq!(known(), [Retirement::Offlined, Retirement::Pending, Retirement::Pending]);
        follower.end();
        assert_eq!(
            known(),
            [Retirement::Offlined, Retirement::Offlined, Retirement::Refused("it is in use".to_owned())]
        );
    }

    #[test]
    fn a_frame_that_was_under_suspicion_when_its_process_ended_is_bad_and_one_that_was_cleared_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let (ended, lives) = (u32::MAX, std::process::id());
        let told = |name: &str, frame: u64| format!("{{\"event\":\"{name}\",\"frame\":{frame}}}\n");
        let write = |process: u32, events: &[String]| {
            fs::write(folder.path().join(format!("{process}.jsonl")), events.concat()).unwrap();
        };
        let [first, last] = [told("suspect", 16), told("cleared", 16)];
        write(ended, &[first.clone(), told("suspect", 17), last.clone(), told("suspect", 20), told("erring", 20)]);
        write(lives, &[told("suspect", 18), told("suspect", 19)]);
        let mut follower = Follower::new(folder.path(), Some(path.clone()), false, None).unwrap();
        let bad = || {
            let map = store::open(Some(path.clone()), Timestamp::default()).unwrap().failures(Origin::Real).unwrap();
            (16..21).filter(|&number| map.get(Frame::new(number).unwrap()).is_some()).collect::<Vec<_>>()
        };
        follower.look();
        assert_eq!(bad(), [20], "who has just told it may tell more");
        follower.look();
        assert_eq!(bad(), [17, 20]);
        write(lives, &[told("suspect", 18), told("suspect", 19), told("cleared", 19)]);
        follower.end();
        assert_eq!(bad(), [17, 18, 20], "nobody hears of the process that runs on");
    }

    #[test]
    fn what_was_made_up_is_never_retired() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let events = "{\"event\":\"uncorrectable\",\"page\":3,\"frame\":16}\n{\"event\":\"erring\",\"frame\":18}\n";
        fs::write(folder.path().join(format!("{}.jsonl", u32::MAX)), events).unwrap();
        let follower = Follower::new(folder.path(), Some(path), true, None).unwrap();
        let mut follower = follower.retiring(Box::new(|frame| panic!("{frame} is retired")));
        follower.look();
        follower.end();
    }

    #[test]
    fn a_frame_that_fails_is_told_with_what_was_seen() {
        let event: GuardEvent = serde_json::from_str("{\"event\":\"failed\"}").unwrap();
        assert!(is_kept(&event, &Ok(()), true).contains("unknown") && failed(&event) == "memory failed its test");
    }

    #[test]
    fn a_process_that_gave_up_our_rights_condemns_no_frame() {
        use std::os::unix::process::CommandExt as _;
        let folder = tempfile::tempdir().unwrap();
        let Ok(mut lowered) = Command::new("sleep").arg("60").uid(65_534).spawn() else {
            println!("skipped: only root becomes another user");
            return;
        };
        let mut follower = Follower::new(folder.path(), None, false, None).unwrap();
        for process in [lowered.id(), std::process::id()] {
            let event = "{\"event\":\"given_up\",\"page\":4,\"frame\":19}\n";
            fs::write(folder.path().join(format!("{process}.jsonl")), event).unwrap();
        }
        let frames: HashMap<u32, Option<u64>> =
            follower.news(|_| false).into_iter().map(|(process, event)| (process, event.frame)).collect();
        assert_eq!(frames, HashMap::from([(lowered.id(), None), (std::process::id(), Some(19))]));
        lowered.kill().unwrap();
        lowered.wait().unwrap();
    }
}
