//! Turns memory errors that the hardware reports into frames to test first [Rahman16, 6.2].

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use rampart_linux::errors::ErrorFeed;
use rampart_memory::{ErrorBatch, ErrorTally, FrameRange, Suspects, Timestamp};
use rampart_store::rasdaemon::{self, Rasdaemon};

use super::shared::DaemonContext;
use super::{DaemonEvent, DaemonSettings};

/// How often the feed is polled.
const POLL_EVERY: Duration = Duration::from_millis(500);

/// The source of error reports.
enum Feed {
    /// The kernel, or a growing file.
    Linux(ErrorFeed),
    /// The database of rasdaemon.
    Rasdaemon(Rasdaemon),
}

impl Feed {
    /// Opens the named file: as a database of rasdaemon if it is one, otherwise as lines of JSON.
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

    /// Opens the kernel's reports if there are any, otherwise rasdaemon's database if it exists: both report the same
    /// errors.
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
    /// `None` if no source reports memory errors and no file was named.
    feed: Option<Feed>,
    tally: ErrorTally,
    threshold: u64,
    window: Duration,
    polled: Timestamp,
    reports: u64,
    /// Whether the last poll failed.
    in_trouble: bool,
}

impl ErrorWatch {
    /// Opens the named file, the kernel's reports, or rasdaemon's database.
    pub fn listen(shared: &DaemonContext<'_>, settings: DaemonSettings) -> Self {
        let now = shared.clock.now();
        let feed = match &shared.request.errors {
            Some(path) => Feed::named(path, now).inspect_err(|error| shared.observer.warned(error)).ok(),
            None => Feed::found(shared, now)
                .inspect_err(|absence| shared.observer.said(&format!("errors      none are reported here: {absence}")))
                .ok(),
        };
        Self {
            feed,
            tally: ErrorTally::new(settings.error_window),
            threshold: settings.error_threshold,
            window: settings.error_window,
            polled: Timestamp::from_micros(0),
            reports: 0,
            in_trouble: false,
        }
    }

    /// Changes threshold and window; a different window restarts the count.
    pub fn change(&mut self, settings: DaemonSettings) {
        self.threshold = settings.error_threshold;
        if self.window != settings.error_window {
            self.window = settings.error_window;
            self.tally = ErrorTally::new(self.window);
        }
    }

    /// The number of reports so far.
    pub const fn reports(&self) -> u64 {
        self.reports
    }

    /// Polls the feed if that is due; returns the frames above the threshold.
    pub fn poll(&mut self, shared: &DaemonContext<'_>, now: Timestamp) -> Option<Vec<FrameRange>> {
        let feed = self.feed.as_mut()?;
        if now.since(self.polled) < POLL_EVERY {
            return None;
        }
        self.polled = now;
        let batch = match feed.poll(now) {
            Ok(batch) => batch,
            Err(error) => {
                if !self.in_trouble {
                    shared.observer.warned(&format!("{error}; polled again twice a second"));
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

/// Converts frames and regions to ranges, the worst first.
fn ranges(suspects: &Suspects) -> Vec<FrameRange> {
    let frames = suspects.frames.iter().filter_map(|&(frame, _)| FrameRange::new(frame, 1));
    let regions = suspects.regions.iter().filter_map(|&(region, _)| FrameRange::new(region.first(), region.count()));
    frames.chain(regions).collect()
}
