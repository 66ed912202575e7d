//! Memory errors that the hardware reported to the kernel.
//!
//! **Problem.** ECC corrects errors before a test can see them: the controller reports failing memory, or nobody does.
//! Only some interfaces show the frame, and not every machine has them. **Idea.** An [`ErrorFeed`] is one source of
//! [`MemoryError`](rampart_memory::MemoryError)s that is polled: the kernel's trace events, which know the address; its
//! counters, which know the DIMM at best; or a file that another program writes. **Why one at a time.** The kernel
//! shows the same error in each of its interfaces, so a listener to two of them would count it twice.

mod counters;
mod counts;
mod dimms;
mod events;
mod file;
mod injector;
mod lines;
mod trace_line;

use std::path::Path;

use rampart_memory::{ErrorBatch, Timestamp};

pub use self::counters::CounterFeed;
pub(crate) use self::counts::controllers;
pub use self::counts::{Controller, DimmCounts, ErrorCount, ErrorCounts};
pub use self::dimms::EdacDimm;
pub use self::events::EventFeed;
pub(crate) use self::events::probe as probe_events;
pub use self::file::{FileFeed, parse_line};
pub(crate) use self::injector::types as injectable_types;
pub use self::injector::{EinjInjector, InjectionTarget};
pub use self::trace_line::TraceLine;
use crate::{Absence, Error, Roots};

/// A source of memory errors.
#[derive(Debug)]
pub enum ErrorFeed {
    /// The kernel's trace events.
    Events(EventFeed),
    /// The kernel's counters.
    Counters(CounterFeed),
    /// A file that another program writes.
    File(FileFeed),
}

impl ErrorFeed {
    /// The errors that the kernel sees from now on: as trace events, or as counters where there are none.
    ///
    /// # Errors
    /// Why the kernel sees none.
    pub fn of_kernel(roots: &Roots) -> Result<Self, Absence> {
        controllers(roots)?;
        EventFeed::open(roots).map(Self::Events).or_else(|_| CounterFeed::open(roots).map(Self::Counters))
    }

    /// The errors in a file, one on each line, and those that are appended later.
    ///
    /// # Errors
    /// [`Error::Read`] if it cannot be opened.
    pub fn of_file(path: &Path) -> Result<Self, Error> {
        FileFeed::open(path).map(Self::File)
    }

    /// The errors since the last poll; never waits. `now` is the time of errors whose source has none.
    ///
    /// # Errors
    /// [`Error::Read`] if the source cannot be read now; it may be polled again.
    pub fn poll(&mut self, now: Timestamp) -> Result<ErrorBatch, Error> {
        match self {
            Self::Events(feed) => feed.poll(now),
            Self::Counters(feed) => Ok(feed.poll(now)),
            Self::File(feed) => feed.poll(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_kernel_without_trace_events_is_asked_for_its_counters() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::new(folder.path(), folder.path());
        assert!(ErrorFeed::of_kernel(&roots).unwrap_err().reason.contains("EDAC"));
        let count = roots.sys("devices/system/edac/mc/mc0/ce_noinfo_count");
        fs::create_dir_all(count.parent().unwrap()).unwrap();
        fs::write(&count, "1\n").unwrap();
        let mut feed = ErrorFeed::of_kernel(&roots).unwrap();
        assert!(matches!(feed, ErrorFeed::Counters(_)));
        fs::write(&count, "3\n").unwrap();
        assert_eq!(feed.poll(Timestamp::default()).unwrap().errors[0].count, 2);
    }

    #[test]
    fn on_this_machine_there_is_a_feed_or_one_line_says_why_not() {
        match ErrorFeed::of_kernel(&Roots::default()) {
            Ok(mut feed) => assert_eq!(feed.poll(Timestamp::default()).unwrap().unreadable, 0),
            Err(absence) => assert_eq!(absence.to_string().lines().count(), 1),
        }
    }
}
