//! Looks for teams that are dropped while the job runs.
//!
//! **Problem.** What such a team prints and writes counts no more from then on. **Idea.** The replicas that find out
//! which team it is report it, and the files of their reports are looked at from time to time. **Why this way.** It
//! needs nothing but the reports, which are read at the end anyway.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::arguments::MpirunArguments;
use super::drops::Drops;
use super::reports::JobReport;
use crate::error::Error;

/// The pause between two looks.
const PAUSE: Duration = Duration::from_secs(1);

/// Looks for teams that are dropped while the job runs.
pub struct DropWatch {
    folder: PathBuf,
    replicas: u32,
    /// Teams can be dropped.
    is_needed: bool,
    next: Instant,
    told: usize,
}

/// What is new of dropped teams.
pub struct DropNews {
    /// All that are dropped by now.
    pub teams: BTreeSet<u32>,
    /// One for each that was not known.
    pub lines: Vec<String>,
}

impl DropWatch {
    pub fn of(folder: &Path, arguments: &MpirunArguments) -> Self {
        let (replicas, is_needed) = (arguments.replicas, arguments.drops_teams());
        Self { folder: folder.to_owned(), replicas, is_needed, next: Instant::now() + PAUSE, told: 0 }
    }

    /// Lines that were not told yet.
    pub fn news(&mut self, drops: &Drops) -> Vec<String> {
        let lines: Vec<String> = drops.lines(self.replicas).into_iter().skip(self.told).collect();
        self.told += lines.len();
        lines
    }

    /// All teams that are dropped, if there are more of them than before.
    pub fn look(&mut self) -> Result<Option<DropNews>, Error> {
        if !self.is_needed || Instant::now() < self.next {
            return Ok(None);
        }
        self.next = Instant::now() + PAUSE;
        let mut drops = JobReport::read(&self.folder)?.drops;
        drops.keep_outlived(self.replicas);
        let lines = self.news(&drops);
        Ok((!lines.is_empty()).then(|| DropNews { teams: drops.teams(), lines }))
    }
}
