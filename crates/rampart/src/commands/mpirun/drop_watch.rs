//! Looks for teams that are dropped while the job runs, and for the end of one that nobody else ends.
//!
//! **Problem.** What such a team prints and writes counts no more from then on. And a launcher that lets a job go on
//! when processes end does so after `MPI_Abort`, too. **Idea.** The replicas that find out which team it is report it,
//! and what is new in the files of their reports is read from time to time. **Why this way.** It needs nothing but the
//! reports.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use super::arguments::{MpirunArguments, OnDeath};
use super::drops::Drops;
use super::reports::EventLines;
use crate::error::Error;

/// The pause between two looks.
const PAUSE: Duration = Duration::from_secs(1);

/// Looks for teams that are dropped while the job runs.
pub struct DropWatch {
    events: EventLines,
    drops: Drops,
    is_aborted: bool,
    replicas: u32,
    /// Teams can be dropped.
    is_needed: bool,
    outlives_deaths: bool,
    next: Instant,
    told: usize,
}

/// What is new.
pub struct DropNews {
    /// The program has called `MPI_Abort`, and the launcher does not end the job.
    pub is_aborted: bool,
    /// All that are dropped by now.
    pub teams: BTreeSet<u32>,
    /// One for each that was not known.
    pub lines: Vec<String>,
}

impl DropWatch {
    pub fn of(folder: &Path, arguments: &MpirunArguments) -> Self {
        Self {
            events: EventLines::of(folder),
            drops: Drops::default(),
            is_aborted: false,
            replicas: arguments.replicas,
            is_needed: arguments.drops_teams(),
            outlives_deaths: arguments.on_death == OnDeath::Drop,
            next: Instant::now() + PAUSE,
            told: 0,
        }
    }

    /// Lines that were not told yet.
    pub fn news(&mut self, drops: &Drops) -> Vec<String> {
        let lines: Vec<String> = drops.lines(self.replicas).into_iter().skip(self.told).collect();
        self.told += lines.len();
        lines
    }

    /// What is new, if anything is.
    pub fn look(&mut self) -> Result<Option<DropNews>, Error> {
        if !self.is_needed || Instant::now() < self.next {
            return Ok(None);
        }
        self.next = Instant::now() + PAUSE;
        let Self { events, drops, is_aborted, .. } = self;
        events.see_new(|rank, replica, line| {
            let (what, rest) = line.split_once(' ').unwrap_or((line, ""));
            drops.see(rank, replica, what, rest);
            *is_aborted |= what == "aborted";
        })?;
        let mut drops = self.drops.clone();
        drops.keep_outlived(self.replicas);
        let (lines, is_aborted) = (self.news(&drops), self.outlives_deaths && self.is_aborted);
        Ok((!lines.is_empty() || is_aborted).then(|| DropNews { is_aborted, teams: drops.teams(), lines }))
    }
}
