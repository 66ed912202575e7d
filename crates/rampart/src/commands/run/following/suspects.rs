//! Suspect frames: a page in each was wrong once, and its guard tests the frame until it trusts it.

use std::collections::BTreeSet;

use super::events::ProcessEvent;
use crate::guards::report::GuardEvent;

/// Suspect frames, and the process that tests each.
#[derive(Default)]
pub struct SuspectFrames(BTreeSet<(u32, u64)>);

impl SuspectFrames {
    /// Processes that test suspect frames; one for each frame.
    pub fn testers(&self) -> impl Iterator<Item = u32> {
        self.0.iter().map(|(process, _)| *process)
    }

    /// Adds the frames that became suspect by these events, and removes those whose tests have ended.
    pub fn update(&mut self, events: &[ProcessEvent]) {
        for (process, event) in events {
            let Some(frame) = event.frame else { continue };
            match event.event.as_str() {
                "suspect" => drop(self.0.insert((*process, frame))),
                "cleared" | "failed" | "erring" => drop(self.0.remove(&(*process, frame))),
                _ => {}
            }
        }
    }

    /// Removes the suspect frames of ended processes, and returns each as an event `unjudged`.
    pub fn take_unjudged(&mut self, ended: &[u32]) -> Vec<ProcessEvent> {
        let unjudged = self.0.extract_if(.., |(process, _)| ended.contains(process));
        let event = |frame| GuardEvent { event: "unjudged".to_owned(), frame: Some(frame), ..GuardEvent::default() };
        unjudged.map(|(process, frame)| (process, event(frame))).collect()
    }
}
