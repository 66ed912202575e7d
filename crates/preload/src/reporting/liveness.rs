//! Whether `rampart run` still lives, as a guard sees it.
//!
//! **Problem.** A guard's reports are useful only if `rampart run` reads and keeps them; it may be killed, and a guard
//! may not wait for an answer to know. **Idea.** A file that is locked while it lives ([`rampart_guard::server`]) is
//! checked ten times per second. **Why this way.** It is one system call on a file that the guard's threads hold
//! anyway; the kernel releases the lock however its owner ended; and forked or executed processes find the same file by
//! its name.

use std::env;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rampart_guard::server::{ALIVE, REQUIRED, VARIABLE};

/// The period of checks.
const GLANCE: Duration = Duration::from_millis(100);

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// There was no check now, or it was seen to be gone before.
    Nothing,
    /// It lives.
    Lives,
    /// It ended, and removed the reports: it did all its work.
    Ended,
    /// It died, and the reports stay.
    Died,
}

/// The server that keeps the reports.
pub struct ServerLiveness {
    /// Locked while it lives. `None`: there was none when this guard began.
    alive: Option<File>,
    pub folder: PathBuf,
    /// The program must not go on without it.
    pub is_required: bool,
    looked: Option<Instant>,
    is_gone: bool,
}

impl ServerLiveness {
    /// The server of a folder, as required by `RAMPART_GUARD_SERVER`.
    pub fn from_environment(folder: Option<&Path>) -> Self {
        Self::begin(folder.unwrap_or(Path::new("")), env::var(VARIABLE).is_ok_and(|wish| wish == REQUIRED))
    }

    fn begin(folder: &Path, is_required: bool) -> Self {
        let alive = File::open(folder.join(ALIVE)).ok();
        Self { alive, folder: folder.to_owned(), is_required, looked: None, is_gone: false }
    }

    /// Checks, if it is time. Its end is reported once, and never if there was none from the start and none is
    /// required.
    pub fn look(&mut self) -> Sight {
        if self.is_gone || self.looked.is_some_and(|looked| looked.elapsed() < GLANCE) {
            return Sight::Nothing;
        }
        self.looked = Some(Instant::now());
        let lives = self.alive.as_ref().map_or(!self.is_required, |alive| alive.try_lock_shared().is_err());
        self.is_gone = !lives;
        match (lives, self.folder.exists()) {
            (true, _) => Sight::Lives,
            (false, true) => Sight::Died,
            (false, false) => Sight::Ended,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result of the next check.
    fn seen(server: &mut ServerLiveness) -> Sight {
        server.looked = None;
        server.look()
    }

    #[test]
    fn a_death_is_told_from_an_end_and_each_is_seen_once() {
        let folder = tempfile::tempdir().unwrap();
        let alive = File::create(folder.path().join(ALIVE)).unwrap();
        alive.lock().unwrap();
        let mut servers = [false, true].map(|required| ServerLiveness::begin(folder.path(), required));
        assert_eq!(servers.each_mut().map(seen), [Sight::Lives; 2]);
        drop(alive);
        assert_eq!(servers[0].look(), Sight::Nothing, "it is not time to look");
        assert_eq!([(); 2].map(|()| seen(&mut servers[0])), [Sight::Died, Sight::Nothing]);
        drop(folder);
        assert_eq!([(); 2].map(|()| seen(&mut servers[1])), [Sight::Ended, Sight::Nothing]);
    }

    #[test]
    fn one_that_never_was_there_is_missed_if_it_is_required() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(seen(&mut ServerLiveness::begin(folder.path(), true)), Sight::Died);
        assert_eq!(seen(&mut ServerLiveness::begin(folder.path(), false)), Sight::Lives);
    }
}
