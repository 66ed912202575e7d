//! Follows the guards of a run: puts each bad frame on the map before it reports the frame.
//!
//! **Problem.** A page beyond correction ends the program, or the program continues with wrong content. In both cases
//! its frame must never be forgotten, and a person must read what happened. **Idea.** The guards append lines to files.
//! The process that started the program reads them from where it stopped, writes to the store, and only then prints a
//! message. **Why this way.** The guard may not wait for a disk, and a process that ends has already written
//! everything.
//!
//! | module | owns |
//! |---|---|
//! | [`events`] | the files of the guards: new events are read, and the files of ended processes removed |
//! | [`suspects`] | frames that a guard still tests |
//! | [`retirement`] | bad frames that wait until their process has ended |
//! | [`checkpoint`] | the command that runs before a process is stopped |
//! | [`messages`] | the text of each message |

mod checkpoint;
mod events;
mod messages;
mod retirement;
mod suspects;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rampart_linux::SystemClock;
use rampart_linux::process::has_ended;
use rampart_memory::fault_map::{FailedFrame, FaultMap, MapOrigin, Retirement};
use rampart_memory::{Clock as _, Frame, Timestamp};

use self::checkpoint::CheckpointCommand;
use self::events::{EventReader, ProcessEvent};
use self::retirement::{PendingRetirements, Retire};
use self::suspects::SuspectFrames;
use crate::error::Error;
use crate::guards::report::{GuardEvent, RunReport};
use crate::inputs::store;

/// Follows the guards of one run.
pub struct Follower {
    events: EventReader,
    /// Uncorrectable pages that were reported, each with its process.
    reported: HashSet<(u32, u64)>,
    store: Option<PathBuf>,
    /// Errors are injected into pages, so that frames with wrong pages do not go on the map.
    injected: bool,
    checkpoint: CheckpointCommand,
    /// Bad frames whose process has not ended; `None`: no frame is retired.
    retirements: Option<PendingRetirements>,
    suspects: SuspectFrames,
}

impl Follower {
    /// Follows the guards that will write into this folder.
    ///
    /// # Errors
    /// [`Error::GuardFolder`] if the file on which held processes wait cannot be made and locked.
    pub fn new(
        folder: &Path,
        store: Option<PathBuf>,
        injected: bool,
        command: Option<OsString>,
    ) -> Result<Self, Error> {
        Ok(Self {
            checkpoint: CheckpointCommand::new(folder, command)?,
            events: EventReader::new(folder),
            reported: HashSet::new(),
            store,
            injected,
            retirements: None,
            suspects: SuspectFrames::default(),
        })
    }

    /// Retires bad frames from now on, each once its process has ended.
    pub fn with_retirement(mut self, retire: Retire) -> Self {
        self.retirements = Some(PendingRetirements::new(retire));
        self
    }

    /// Stores and reports what is new, and starts the command for the checkpoint if a process is held.
    pub fn poll(&mut self) {
        self.poll_with(has_ended);
    }

    /// As [`Self::poll`]; suspect frames of processes that `has_ended` are bad.
    fn poll_with(&mut self, has_ended: impl Fn(u32) -> bool) {
        // Asked before the events are read, so that the last events of an ended process count.
        let ended: Vec<_> = self.suspects.testers().filter(|process| has_ended(*process)).collect();
        let mut events = self.events.read_new(rampart_linux::process::has_ended);
        self.suspects.update(&events);
        events.extend(self.suspects.take_unjudged(&ended));
        let stored = self.store_bad_frames(&events);
        self.note_for_retirement(&events, &stored);
        for (process, event) in &events {
            self.report(*process, event, &stored);
        }
        self.checkpoint.poll();
        // Another process may have these numbers from now on.
        let removed = self.events.take_removed();
        self.reported.retain(|(process, _)| !removed.contains(process));
        let retired = self.retirements.as_mut().map(|pending| pending.retire_ended(has_ended));
        self.store_retirements(&retired.unwrap_or_default());
    }

    /// Reports the rest when the program has ended, and waits for the command for the checkpoint. Returns the counts
    /// and events of the files that were removed from the folder.
    pub fn end(mut self) -> RunReport {
        self.poll();
        // Nobody follows a process that runs on.
        self.poll_with(|_| true);
        self.checkpoint.wait();
        let retired = self.retirements.as_mut().map(PendingRetirements::retire_all);
        self.store_retirements(&retired.unwrap_or_default());
        self.events.into_report()
    }

    /// Prints the message about an event, and starts the command for the checkpoint for a held process.
    fn report(&mut self, process: u32, event: &GuardEvent, stored: &Result<(), Error>) {
        let message = match event.event.as_str() {
            "uncorrectable" if self.reported.insert(page_of(process, event)) => {
                format!("{}; {}", messages::uncorrectable(process, event), self.mapped(event, stored))
            }
            "given_up" => format!("{}; {}", messages::given_up(process, event), self.mapped(event, stored)),
            "failed" => format!("{}; {}", messages::failed(event), self.mapped_by_test(event, stored)),
            "erring" => format!("{}; {}", messages::ERRING, self.mapped(event, stored)),
            "unjudged" => format!("{}; {}", messages::UNJUDGED, self.mapped(event, stored)),
            "stopped" => messages::stopped(process, event),
            "guard_failed" => messages::guard_failed(process, event),
            "held" => {
                return self.checkpoint.start(process, event, |process, event| self.events.frame_of(process, event));
            }
            _ => return,
        };
        eprintln!("rampart: {message}");
    }

    /// Whether the frame of an event is on the map, for a page that was wrong.
    fn mapped(&self, event: &GuardEvent, stored: &Result<(), Error>) -> String {
        if self.injected { messages::INJECTED.to_owned() } else { self.mapped_by_test(event, stored) }
    }

    /// The same for a frame that failed its test: such failures are never injected here.
    fn mapped_by_test(&self, event: &GuardEvent, stored: &Result<(), Error>) -> String {
        messages::mapped(event, stored, self.retirements.is_some())
    }

    /// Puts all frames that these events condemn on the map.
    fn store_bad_frames(&self, events: &[ProcessEvent]) -> Result<(), Error> {
        let now = SystemClock.now();
        let bad: Vec<_> = events.iter().filter_map(|(process, event)| self.condemned(*process, event, now)).collect();
        if bad.is_empty() {
            return Ok(());
        }
        let mut store = store::open(self.store.clone(), now)?;
        Ok(store.keep_failures(None, bad.iter().map(|failed| (MapOrigin::Real, failed)))?)
    }

    /// The frame that an event condemns, if it was not reported before.
    fn condemned(&self, process: u32, event: &GuardEvent, now: Timestamp) -> Option<FailedFrame> {
        let frame = Frame::new(event.frame?)?;
        match (event.event.as_str(), &event.evidence) {
            ("given_up", _) if !self.injected => Some(FailedFrame::spoilt(frame, now)),
            ("uncorrectable", _) if !self.injected && !self.reported.contains(&page_of(process, event)) => {
                Some(FailedFrame::spoilt(frame, now))
            }
            ("erring" | "unjudged", _) if !self.injected => Some(FailedFrame::spoilt(frame, now)),
            ("failed", Some(seen)) => Some(FaultMap::new(MapOrigin::Real).record(frame, seen.clone()).clone()),
            _ => None,
        }
    }

    /// Adds the frames that these events condemn to those that wait for retirement, if they are on the map.
    fn note_for_retirement(&mut self, events: &[ProcessEvent], stored: &Result<(), Error>) {
        let now = SystemClock.now();
        let bad: Vec<_> = events
            .iter()
            .filter_map(|(process, event)| Some((*process, self.condemned(*process, event, now)?)))
            .collect();
        if let (Some(pending), Ok(())) = (&mut self.retirements, stored) {
            bad.iter().for_each(|(process, failed)| pending.add(*process, failed.frame));
        }
    }

    /// Stores and reports the results of retirements.
    fn store_retirements(&self, results: &[(Frame, Retirement)]) {
        if results.is_empty() {
            return;
        }
        let stored = store::open(self.store.clone(), SystemClock.now()).and_then(|mut store| {
            results
                .iter()
                .try_for_each(|(frame, retirement)| Ok(store.keep_retirement(*frame, retirement).map(drop)?))
        });
        results.iter().for_each(|result| eprintln!("rampart: {}", messages::retirement(result)));
        if let Err(error) = stored {
            eprintln!("rampart: the results of these retirements could not be put on the map: {error}");
        }
    }
}

/// The page of an event, and its process.
fn page_of(process: u32, event: &GuardEvent) -> (u32, u64) {
    (process, event.page.unwrap_or(u64::MAX))
}
