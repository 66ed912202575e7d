//! Memory errors that the hardware reports, turned into frames to be tested first [Rahman16, 6.2].

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use rampart_linux::errors::ErrorFeed;
use rampart_memory::{ErrorBatch, ErrorTally, FrameRange, Suspects, Timestamp};
use rampart_store::rasdaemon::{self, Rasdaemon};

use super::shared::DaemonContext;
use super::{DaemonEvent, DaemonSettings};

/// The period of polls of the feed.
const EVERY: Duration = Duration::from_millis(500);

/// The source of reports.
enum Feed {
    /// The kernel, or a growing file.
    Linux(ErrorFeed),
    /// rasdaemon's database.
    Rasdaemon(Rasdaemon),
}

impl Feed {
    /// The named file: a database of rasdaemon's if it is one, else lines of JSON.
    fn named(path: &Path, now: Timestamp) -> Result<Self, String> {
        let mut first = [0; 15];
        let is_database = File::open(path)
            .and_then(|mut file| file.read_exact(&mut first))
            .is_ok_and(|()| &first == b"SQLite format 3");
        if is_database {
            return Rasdaemon::open(path, now).map(Self::Rasdaemon).map_err(|error| error.to_string());
        }
        ErrorFeed::of_file(path).map(Self::Linux).map_err(|error| error.to_string())
    }

    /// The kernel if it sees errors, else rasdaemon if it has a database: both report the same errors.
    fn found(shared: &DaemonContext<'_>, now: Timestamp) -> Result<Self, String> {
        let absence = match ErrorFeed::of_kernel(shared.machine.roots()) {
            Ok(feed) => return Ok(Self::Linux(feed)),
            Err(absence) => absence.to_string(),
        };
        let path = Path::new(rasdaemon::DEFAULT_PATH);
        if path.exists() {
            Rasdaemon::open(path, now).map(Self::Rasdaemon).map_err(|error| error.to_string())
        } else {
            Err(absence)
        }
    }

    fn poll(&mut self, now: Timestamp) -> Result<ErrorBatch, String> {
        match self {
            Self::Linux(feed) => feed.poll(now).map_err(|error| error.to_string()),
            Self::Rasdaemon(database) => database.poll().map_err(|error| error.to_string()),
        }
    }
}

/// A feed and its recent reports.
pub struct ErrorWatch {
    /// `None` without any reports of memory errors, and without a named file.
    feed: Option<Feed>,
    tally: ErrorTally,
    threshold: u64,
    window: Duration,
    asked: Timestamp,
    reports: u64,
    /// The feed could not be read at the last poll.
    in_trouble: bool,
}

impl ErrorWatch {
    /// Opens the named file, or the kernel's feed, or rasdaemon's.
    pub fn listen(shared: &DaemonContext<'_>, knobs: DaemonSettings) -> Self {
        let now = shared.clock.now();
        let feed = match &shared.request.errors {
            Some(path) => Feed::named(path, now).inspect_err(|error| shared.observer.warned(error)).ok(),
            None => Feed::found(shared, now)
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

    /// Uses another threshold and window; another window starts counting anew.
    pub fn change(&mut self, knobs: DaemonSettings) {
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

    /// Polls the feed, if it is time; returns the frames over the threshold.
    pub fn look(&mut self, shared: &DaemonContext<'_>, now: Timestamp) -> Option<Vec<FrameRange>> {
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
            shared.happened(&DaemonEvent::MemoryErrors { reports, lost, erring });
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
