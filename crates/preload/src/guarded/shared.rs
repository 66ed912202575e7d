//! What others see of this guard: counts in a file that is mapped, and what happened as lines of JSON beside it.
//!
//! Both are in the folder that `RAMPART_GUARD_STATE` names, called by the process' number, and readable after the process was
//! killed. Without that folder nobody looks.

#![allow(unsafe_code, reason = "maps a file")]

use std::env;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::ptr;

use rampart_codes::Outcome;
use rampart_guard::accesses::{Access, Buffer};
use rampart_guard::{Counter, Counts, Refusal, Trouble, Witness};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, ftruncate, open};
use rustix::mm::{MapFlags, ProtFlags, mmap};

use super::files::say;

use super::recorder;

/// Where counts and events go.
pub struct Shared {
    pub counts: &'static Counts,
    events: Option<OwnedFd>,
    /// What was unlocked and is not written down yet; none where nobody wants to know.
    pub accesses: Option<Buffer>,
}

impl Shared {
    /// Files for this process, or counts that nobody sees.
    pub fn new() -> Self {
        let folder = env::var_os("RAMPART_GUARD_STATE").map(PathBuf::from);
        let pid = std::process::id();
        let shared = folder.as_ref().and_then(|folder| mapped(&folder.join(format!("{pid}.counts"))));
        let events = folder.and_then(|folder| created(&folder.join(format!("{pid}.jsonl")), OFlags::APPEND));
        let counts = shared.unwrap_or_else(|| Box::leak(Box::default()));
        // Of the program that this process executed before: its counts go on, its memory is gone.
        counts.set(Counter::Pages, 0);
        counts.set(Counter::Open, 0);
        let accesses = recorder::is_wanted("accesses").then(|| Buffer::new(recorder::ACCESSES_AT_ONCE));
        Self { counts, events, accesses }
    }

    /// One line, by one write.
    fn tell(&self, line: &str) {
        if let Some(events) = &self.events {
            // A full disk is no reason to stop the program.
            let _ = rustix::io::write(events, line.as_bytes());
        }
    }
}

pub fn created(path: &Path, flags: OFlags) -> Option<OwnedFd> {
    let mode = Mode::RUSR | Mode::WUSR;
    open(path, OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | flags, mode).ok()
}

fn mapped(path: &Path) -> Option<&'static Counts> {
    let file = created(path, OFlags::empty())?;
    ftruncate(&file, Counts::BYTES as u64).ok()?;
    // SAFETY: a new mapping where the kernel chooses, of a file that is long enough.
    let memory =
        unsafe { mmap(ptr::null_mut(), Counts::BYTES, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, file, 0) };
    // SAFETY: it is of the right size, aligned to a page and never unmapped; counters are atomic, and any bytes are good ones.
    memory.ok().map(|memory| unsafe { &*memory.cast::<Counts>() })
}

/// A trouble as a line of JSON. `offset` is in bytes from the start of the heap's range.
fn line(trouble: &Trouble) -> String {
    let Trouble { page, frame, outcome } = trouble;
    let (name, bits) = match outcome {
        Outcome::Intact => ("intact", 0),
        Outcome::CodesWrong => ("codes_wrong", 0),
        Outcome::Corrected(correction) => ("corrected", correction.flipped.count()),
        Outcome::Uncorrectable => ("uncorrectable", 0),
    };
    let mut line = format!("{{\"event\":\"{name}\",\"page\":{},\"offset\":{}", page.0, page.0 * 4096);
    if let Some(frame) = frame {
        let _ = write!(line, ",\"frame\":{}", frame.number());
    }
    if bits > 0 {
        let _ = write!(line, ",\"bits\":{bits}");
    }
    line.push_str("}\n");
    line
}

impl Witness for Shared {
    fn trouble(&self, trouble: &Trouble) {
        self.tell(&line(trouble));
        if trouble.outcome == Outcome::Uncorrectable {
            let frame =
                trouble.frame.map_or_else(|| "a frame that is unknown".to_owned(), |frame| format!("frame {frame}"));
            say(&format!(
                "rampart: memory changed beyond correction: page {} of the heap, in {frame}\n",
                trouble.page.0
            ));
        }
    }

    fn lost(&self, block: rampart_guard::BlockIndex, why: &Refusal) {
        self.tell(&format!("{{\"event\":\"lost\",\"block\":{}}}\n", block.0));
        say(&format!("rampart: memory cannot be given to the program: {why}\n"));
    }

    fn unlocked(&self, access: Access) {
        if let Some(accesses) = &self.accesses {
            accesses.note(access);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use rampart_guard::PageIndex;
    use rampart_memory::Frame;

    #[test]
    fn a_trouble_is_one_line_of_json() {
        let trouble = Trouble { page: PageIndex(3), frame: Frame::new(16), outcome: Outcome::Uncorrectable };
        assert_eq!(line(&trouble), "{\"event\":\"uncorrectable\",\"page\":3,\"offset\":12288,\"frame\":16}\n");
        let nameless = Trouble { frame: None, outcome: Outcome::CodesWrong, ..trouble };
        assert_eq!(line(&nameless), "{\"event\":\"codes_wrong\",\"page\":3,\"offset\":12288}\n");
    }
}
