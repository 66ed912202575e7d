//! Who started the program, as a guard of it sees that: there, or gone.
//!
//! **Problem.** What a guard tells is of use only if somebody reads it and keeps it; that somebody may be killed, and a
//! guard may not wait for an answer to know. **Idea.** A file that is locked while it lives ([`rampart_guard::server`])
//! is looked at ten times a second. **Why this way.** It is one system call on a file that the guard's threads hold
//! anyway; the kernel ends the lock, however the owner of it ended; and processes that were forked or executed find the
//! same file by its name.

use std::env;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rampart_guard::server::{ALIVE, REQUIRED, VARIABLE};

/// How often it is looked at.
const GLANCE: Duration = Duration::from_millis(100);

/// What is seen of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// It was looked at just now, or was seen to be gone before.
    Nothing,
    /// It lives.
    Lives,
    /// It has ended, and removed what guards told: it did all that it wanted.
    Ended,
    /// It has died, and what guards tell stays where it is.
    Died,
}

/// Who keeps what guards tell.
pub struct ServerLiveness {
    /// Locked while it lives. `None`: there was none when this guard began.
    alive: Option<File>,
    pub folder: PathBuf,
    /// The program is not to go on without.
    pub is_required: bool,
    looked: Option<Instant>,
    is_gone: bool,
}

impl ServerLiveness {
    /// The one of a folder, as `RAMPART_GUARD_SERVER` has it.
    pub fn from_environment(folder: Option<&Path>) -> Self {
        Self::begin(folder.unwrap_or(Path::new("")), env::var(VARIABLE).is_ok_and(|wish| wish == REQUIRED))
    }

    fn begin(folder: &Path, is_required: bool) -> Self {
        let alive = File::open(folder.join(ALIVE)).ok();
        Self { alive, folder: folder.to_owned(), is_required, looked: None, is_gone: false }
    }

    /// Looks, if it is time to. Its end is seen once, and never if there was none from the start and nobody minds.
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

    /// What is seen when it is time to look.
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
