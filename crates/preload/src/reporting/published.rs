//! The guard's published state: counts in a mapped file, and events as lines of JSON beside it.
//!
//! Both are in the folder that `RAMPART_GUARD_STATE` names, under the process' number, and readable after the process
//! was killed. Without that folder nobody reads them.

#![allow(unsafe_code, reason = "maps a file")]

use std::fmt::{self, Write as _};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rampart_codes::CorrectionOutcome;
use rampart_guard::accesses::{Buffer, UnlockAccess};
use rampart_guard::{Counter, EngineRefusal, GuardCounts, GuardObserver, PageIndex, Trouble};
use rampart_linux::SystemClock;
use rampart_memory::fault_map::{Evidence, MapOrigin};
use rampart_memory::{Clock, FRAME_BYTES, Frame};
use rustix::fd::{AsRawFd as _, OwnedFd};
use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, ftruncate, open};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use rustix::process::{Uid, geteuid};

use crate::messages::say_from_guard;

use super::fault_context::{FaultContext, site};
use super::folder::{self, created, locked};
use super::recorder;

/// Returns the program's address of a page.
pub type Addresses = Box<dyn Fn(PageIndex) -> usize + Send + Sync>;

/// The destination of counts and events.
pub struct Published {
    pub counts: &'static GuardCounts,
    events: Option<OwnedFd>,
    /// Unlocks that are not written yet; none if nobody requests them.
    pub accesses: Option<Buffer>,
    /// The folder. Threads of the guard may not read the environment: programs such as bash bring a `getenv` of their
    /// own, which reads the heap.
    folder: Option<PathBuf>,
    /// The user who created it.
    user: Uid,
    /// Nobody reads any more.
    alone: AtomicBool,
    /// Locked while the checkpoint command of [`Published::stops`] runs.
    checkpoint: Option<File>,
    /// The program's address of a page.
    addresses: OnceLock<Addresses>,
}

impl Published {
    /// Files for this process, or counts that nobody sees.
    pub fn new() -> Self {
        let folder = folder::folder();
        let pid = std::process::id();
        // First, because its lock keeps both.
        let events = folder.as_ref().and_then(|folder| locked(&folder.join(format!("{pid}.jsonl")), OFlags::APPEND));
        let shared = folder.as_ref().and_then(|folder| mapped(&folder.join(format!("{pid}.counts"))));
        let counts = shared.unwrap_or_else(|| Box::leak(Box::default()));
        // Of the program that this process executed before: its counts go on, its memory is gone.
        counts.set(Counter::Pages, 0);
        counts.set(Counter::Unlocked, 0);
        let accesses = recorder::is_wanted("accesses").then(|| Buffer::new(recorder::ACCESSES_AT_ONCE));
        // Now, because a process may give up the right to open it.
        let checkpoint = folder.as_ref().and_then(|folder| File::open(folder.join("checkpoint")).ok());
        let alone = AtomicBool::new(false);
        Self { counts, events, accesses, folder, user: geteuid(), alone, checkpoint, addresses: OnceLock::new() }
    }

    /// Writes events to this file, for a test.
    #[cfg(test)]
    pub fn to_file(events: File) -> Self {
        Self { events: Some(events.into()), ..Self::new() }
    }

    /// From now on pages are reported with their addresses.
    pub fn set_addresses(&self, addresses: Addresses) {
        let _ = self.addresses.set(addresses);
    }

    fn place(&self, page: PageIndex) -> Place {
        Place { page, address: self.addresses.get().map(|address| address(page)) }
    }

    /// Writes one line, by one write. `false`: nobody reads it, or the disk is full, which is no reason to stop the
    /// program.
    fn report(&self, line: &str) -> bool {
        let reported = |events: &OwnedFd| rustix::io::write(events, line.as_bytes()) == Ok(line.len());
        self.events.as_ref().is_some_and(reported) && !self.alone.load(Ordering::Relaxed)
    }

    /// The hardware lost a locked page of the program.
    pub fn lost_page(&self, page: PageIndex, frame: Option<Frame>) {
        let frame = frame.map_or_else(String::new, |frame| format!(",\"frame\":{}", frame.number()));
        self.report(&format!("{{\"event\":\"given_up\",\"at\":{}{}{frame}}}\n", now(), self.place(page)));
    }

    /// A frame failed a test, with this first evidence.
    pub fn failed(&self, frame: Option<Frame>, origin: MapOrigin, seen: &Evidence) {
        let name = match origin {
            MapOrigin::Real => "failed",
            MapOrigin::Emulated => "failed_emulated",
        };
        let frame = frame.map_or_else(String::new, |frame| format!(",\"frame\":{}", frame.number()));
        let (bits, seen) = (seen.bits().count(), evidence(seen));
        let at = now();
        self.report(&format!("{{\"event\":\"{name}\",\"at\":{at}{frame},\"bits\":{bits},\"evidence\":{seen}}}\n"));
    }

    /// A page had a second error in this frame, though it passed its test, or nobody can show that it is good.
    pub fn erring(&self, frame: Frame) {
        self.report(&format!("{{\"event\":\"erring\",\"at\":{},\"frame\":{}}}\n", now(), frame.number()));
    }

    /// A page had an error in this frame. It has passed a test since, and is tested again until it is `settled`: it
    /// passed all tests. A frame that fails, or that cannot be trusted for another reason, has an event of its own.
    pub fn suspects(&self, frame: Frame, settled: bool) {
        let event = if settled { "cleared" } else { "suspect" };
        self.report(&format!("{{\"event\":\"{event}\",\"at\":{},\"frame\":{}}}\n", now(), frame.number()));
    }

    /// The program does not go on: it touched a page that is beyond correction. `held`: it ends as soon as the
    /// checkpoint command has ended.
    pub fn stops(&self, held: bool, fault_context: Option<&FaultContext>) {
        let event = if held { "held" } else { "stopped" };
        let mut line = format!("{{\"event\":\"{event}\",\"at\":{}", now());
        if let Some(FaultContext { page, thread, code }) = fault_context {
            let _ = write!(line, "{}", self.place(*page));
            let _ = thread.map(|thread| write!(line, ",\"thread\":{thread}"));
            let _ = code.as_ref().map(|code| write!(line, ",\"code\":{}", json(code)));
        }
        line.push_str("}\n");
        if !self.report(&line) && !held {
            say_from_guard("rampart: the program was stopped before it used the page\n");
        }
    }

    /// The guard cannot go on, for this reason, and the program is stopped.
    pub fn cannot_go_on(&self, why: &str) {
        if !self.report(&format!("{{\"event\":\"guard_failed\",\"at\":{},\"why\":{}}}\n", now(), json(why))) {
            say_from_guard(&format!(
                "rampart: process {} is stopped: its guard cannot go on: {why}\n",
                std::process::id()
            ));
        }
    }

    /// The folder of the reports.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The reader of the reports is gone.
    pub fn nobody_reads(&self) {
        self.alone.store(true, Ordering::Relaxed);
    }

    /// Whether somebody reads the reports.
    pub fn is_read(&self) -> bool {
        self.events.is_some() && !self.alone.load(Ordering::Relaxed)
    }

    /// Whether the checkpoint command has ended, or its runner is gone: until then a file is locked.
    pub fn has_answer(&self) -> bool {
        self.checkpoint.as_ref().is_none_or(|file| file.try_lock_shared().is_ok())
    }

    /// Whether this process has given up its initial rights, and cannot take them back.
    pub fn gave_up_rights(&self) -> bool {
        let [mut real, mut effective, mut saved] = [0; 3];
        // SAFETY: three places of ours.
        let known = unsafe { libc::getresuid(&raw mut real, &raw mut effective, &raw mut saved) } == 0;
        known && [real, effective, saved].iter().all(|&user| user != self.user.as_raw())
    }

    /// In a thread of the guard: nothing more is reported, even by somebody who gets hold of the file.
    pub fn stop_reporting(&self) -> rustix::io::Result<()> {
        self.nobody_reads();
        let Some(events) = &self.events else { return Ok(()) };
        let nowhere = open("/dev/null", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        // SAFETY: two files of this table; the number stays that of an open file, as its owner expects.
        let done = unsafe { libc::dup3(nowhere.as_raw_fd(), events.as_raw_fd(), libc::O_CLOEXEC) };
        if done < 0 {
            Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::BADF))
        } else {
            Ok(())
        }
    }
}

/// Microseconds since 1970.
fn now() -> u64 {
    SystemClock.now().micros()
}

/// Text as a JSON string.
fn json(text: &str) -> String {
    let mut quoted = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            control if control.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(control));
            }
            other => quoted.push(other),
        }
    }
    quoted + "\""
}

fn mapped(path: &Path) -> Option<&'static GuardCounts> {
    let file = created(path, OFlags::empty())?;
    // A write to a page of a file that has no room on its disk ends a process by SIGBUS.
    match fallocate(&file, FallocateFlags::empty(), 0, GuardCounts::BYTES as u64) {
        Err(Errno::OPNOTSUPP) => ftruncate(&file, GuardCounts::BYTES as u64).ok()?,
        allocated => allocated.ok()?,
    }
    // SAFETY: a new mapping where the kernel chooses, of a file that is long enough.
    let memory = unsafe {
        mmap(ptr::null_mut(), GuardCounts::BYTES, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, file, 0)
    };
    // SAFETY: it is of the right size, aligned to a page and never unmapped; counters are atomic, and any bytes are
    // good ones.
    memory.ok().map(|memory| unsafe { &*memory.cast::<GuardCounts>() })
}

/// Evidence as a JSON object.
fn evidence(seen: &Evidence) -> String {
    let Evidence { at, line, expected, found, reread, test, element, background } = seen;
    let [expected, found, reread] = [expected, found, reread].map(|data| format!("{:?}", data.0));
    let (at, test, background) = (at.micros(), json(test), json(background));
    format!(
        "{{\"at\":{at},\"line\":{line},\"expected\":{expected},\"found\":{found},\"reread\":{reread},\"test\":{test},\
         \"element\":{element},\"background\":{background}}}"
    )
}

/// A page, and its start: in bytes from the start of the range, and as the program's address.
struct Place {
    page: PageIndex,
    address: Option<usize>,
}

/// As members of a JSON object.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ",\"page\":{},\"offset\":{}", self.page.0, self.page.0 * FRAME_BYTES)?;
        self.address.map_or(Ok(()), |address| write!(f, ",\"address\":{address}"))
    }
}

/// A report as a line of JSON, for a page with this allocation site.
fn line(at: u64, trouble: &Trouble, place: &Place, site: Option<&str>) -> String {
    let Trouble { frame, outcome, .. } = trouble;
    let (name, bits) = match outcome {
        CorrectionOutcome::Intact => ("transient", 0),
        CorrectionOutcome::CodesWrong => ("codes_wrong", 0),
        CorrectionOutcome::Corrected(correction) => ("corrected", correction.flipped.count()),
        CorrectionOutcome::Uncorrectable => ("uncorrectable", 0),
    };
    let mut line = format!("{{\"event\":\"{name}\",\"at\":{at}{place}");
    if let Some(frame) = frame {
        let _ = write!(line, ",\"frame\":{}", frame.number());
    }
    if bits > 0 {
        let _ = write!(line, ",\"bits\":{bits}");
    }
    if let Some(site) = site {
        let _ = write!(line, ",\"site\":{}", json(site));
    }
    line.push_str("}\n");
    line
}

impl GuardObserver for Published {
    fn trouble(&self, trouble: &Trouble) {
        let is_beyond = trouble.outcome == CorrectionOutcome::Uncorrectable;
        let site = if is_beyond { site(trouble.page) } else { None };
        let reported = self.report(&line(now(), trouble, &self.place(trouble.page), site.as_deref()));
        if is_beyond && !reported {
            let site = site.as_deref().unwrap_or("an unknown place");
            let frame =
                trouble.frame.map_or_else(|| "a frame that is unknown".to_owned(), |frame| format!("frame {frame}"));
            say_from_guard(&format!(
                "rampart: memory changed beyond correction: page {} of the heap, in {frame}, allocated at {site}\n",
                trouble.page.0
            ));
        }
    }

    fn lost(&self, block: rampart_guard::BlockIndex, why: &EngineRefusal) {
        self.report(&format!("{{\"event\":\"lost\",\"at\":{},\"block\":{}}}\n", now(), block.0));
        say_from_guard(&format!("rampart: memory cannot be given to the program: {why}\n"));
    }

    fn unlocked(&self, access: UnlockAccess) {
        if let Some(accesses) = &self.accesses {
            accesses.note(access);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use rampart_memory::{LineData, Timestamp};

    #[test]
    fn a_trouble_is_one_line_of_json() {
        let trouble = Trouble { page: PageIndex(3), frame: Frame::new(16), outcome: CorrectionOutcome::Uncorrectable };
        let place = Place { page: trouble.page, address: Some(65_536) };
        let written = line(7, &trouble, &place, Some("/bin/job+0x10"));
        let start = "{\"event\":\"uncorrectable\",\"at\":7,\"page\":3,\"offset\":12288";
        assert_eq!(written, format!("{start},\"address\":65536,\"frame\":16,\"site\":\"/bin/job+0x10\"}}\n"));
        let nameless = Trouble { frame: None, outcome: CorrectionOutcome::CodesWrong, ..trouble };
        let written = line(7, &nameless, &Place { address: None, ..place }, None);
        assert_eq!(written, "{\"event\":\"codes_wrong\",\"at\":7,\"page\":3,\"offset\":12288}\n");
    }

    #[test]
    fn evidence_is_read_back_as_it_was() {
        let data = |word| LineData([word, 0, 0, 0, 0, 0, 0, u64::MAX]);
        let seen = Evidence {
            at: Timestamp::from_micros(5),
            line: 63,
            expected: data(0),
            found: data(1),
            reread: data(2),
            test: "{⇕(w0); ⇑(r0)}".to_owned(),
            element: 1,
            background: "a \"name\"".to_owned(),
        };
        assert_eq!(serde_json::from_str::<Evidence>(&evidence(&seen)).unwrap(), seen);
    }

    #[test]
    fn names_of_files_are_quoted() {
        assert_eq!(json("a\"b\\c\n"), "\"a\\\"b\\\\c\\u000a\"");
    }
}
