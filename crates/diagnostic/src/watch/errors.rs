//! Memory errors that the hardware reports, turned into frames to be tested first (000_fb6e5fb08980d1bc.txt, 6.2).

use std::time::Duration;

use rampart_linux::errors::ErrorFeed;
use rampart_memory::{ErrorTally, FrameRange, Suspects, Timestamp};

use super::shared::Shared;
use super::{Event, Knobs};

/// How often the feed is asked.
const EVERY: Duration = Duration::from_millis(500);

/// A feed and what it told of late.
pub struct Errors {
    /// `None` where the kernel sees no memory errors, and no file was named.
    feed: Option<ErrorFeed>,
    tally: ErrorTally,
    threshold: u64,
    window: Duration,
    asked: Timestamp,
    reports: u64,
    /// The feed could not be read when it was asked last.
    in_trouble: bool,
}

impl Errors {
    /// Listens to the file that was named, or to the kernel.
    pub fn listen(shared: &Shared<'_>, knobs: Knobs) -> Self {
        let feed = match &shared.request.errors {
            Some(path) => ErrorFeed::of_file(path).inspect_err(|error| shared.observer.warned(&error.to_string())).ok(),
            None => ErrorFeed::of_kernel(shared.machine.roots())
                .inspect_err(|absence| shared.observer.said(&format!("errors      none are reported here: {absence}")))
                .ok(),
        };
        Self {
            feed,
            tally: ErrorTally::new(knobs.error_window),
            threshold: knobs.error_threshold,
            window: knobs.error_window,
            asked: Timestamp::from_micros(0),
            reports: 0,
            in_trouble: false,
        }
    }

    /// Takes another threshold and window; another window begins to count anew.
    pub fn change(&mut self, knobs: Knobs) {
        self.threshold = knobs.error_threshold;
        if self.window != knobs.error_window {
            self.window = knobs.error_window;
            self.tally = ErrorTally::new(self.window);
        }
    }

    /// Reports so far.
    pub const fn reports(&self) -> u64 {
        self.reports
    }

    /// Asks the feed, if it is time; returns the frames that are over the threshold.
    pub fn look(&mut self, shared: &Shared<'_>, now: Timestamp) -> Option<Vec<FrameRange>> {
        let feed = self.feed.as_mut()?;
        if now.since(self.asked) < EVERY {
            return None;
        }
        self.asked = now;
        let batch = match feed.poll(now) {
            Ok(batch) => batch,
            Err(error) => {
                if !self.in_trouble {
                    shared.observer.warned(&format!("{error}; asked again twice a second"));
                }
                self.in_trouble = true;
                return None;
            }
        };
        self.in_trouble = false;
        batch.errors.iter().for_each(|error| self.tally.add(error, now));
        let suspects = self.tally.over(self.threshold, now);
        let (reports, lost) = (batch.errors.len() as u64, batch.lost + batch.unreadable);
        if reports + lost > 0 {
            self.reports += reports;
            let erring = (suspects.frames.len() + suspects.regions.len()) as u64;
            shared.happened(&Event::MemoryErrors { reports, lost, erring });
        }
        Some(ranges(&suspects))
    }
}

/// Frames and regions as ranges, the worst first.
fn ranges(suspects: &Suspects) -> Vec<FrameRange> {
    let frames = suspects.frames.iter().filter_map(|&(frame, _)| FrameRange::new(frame, 1));
    let regions = suspects.regions.iter().filter_map(|&(region, _)| FrameRange::new(region.first(), region.count()));
    frames.chain(regions).collect()
}
