//! Errors as the kernel's trace events `ras:mc_event`, each with its address.
//!
//! **Problem.** Only the tracepoint knows the frame of an error. **Idea.** A trace instance of our own
//! (`tracing::instance`), with only this event switched on and with small buffers. **Why text and not the raw
//! buffers.** The text has been the same since the event exists; errors are rare, so parsing costs nothing.
//!
//! Source: Linux, Documentation/admin-guide/RAS/main.rst.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use rampart_memory::{ErrorBatch, Timestamp};

use super::lines::{TailedLines, polled};
use super::trace_line::TraceLine;
use crate::tracing::{TraceInstance, folder};
use crate::{Absence, Error, Roots};

/// The options of a kernel that shows the event.
const KERNEL: &str = "CONFIG_RAS and CONFIG_FTRACE, and mount tracefs on /sys/kernel/tracing";

/// Switches the event on and off; in each instance.
const SWITCH: &str = "events/ras/mc_event/enable";

/// Per CPU, in KiB: room for a few hundred events between two polls.
const BUFFER: &str = "64";

/// The errors that the kernel traces, from its opening until it is dropped.
#[derive(Debug)]
pub struct EventFeed {
    // Dropped before the instance: one that is being read cannot be removed.
    pipe: File,
    path: PathBuf,
    lines: TailedLines,
    _instance: TraceInstance,
}

impl EventFeed {
    /// Makes a trace instance and switches the event on in it.
    ///
    /// # Errors
    /// Why there are no such events, or not for this user.
    pub fn open(roots: &Roots) -> Result<Self, Absence> {
        Self::open_by(roots, |folder| fs::create_dir(folder))
    }

    /// `make` makes the folder of an instance; the kernel then fills it.
    fn open_by(roots: &Roots, make: impl FnOnce(&Path) -> io::Result<()>) -> Result<Self, Absence> {
        probe(roots)?;
        let instance = TraceInstance::create(roots, KERNEL, make)?;
        instance.write("buffer_size_kb", BUFFER)?;
        instance.write(SWITCH, "1")?;
        let path = instance.path("trace_pipe");
        let pipe = instance.open("trace_pipe")?;
        Ok(Self { pipe, path, lines: TailedLines::default(), _instance: instance })
    }

    /// The errors since the last poll, at most 4 MiB of their text, each as if reported `now`.
    ///
    /// # Errors
    /// [`Error::Read`] if the trace cannot be read.
    pub fn poll(&mut self, now: Timestamp) -> Result<ErrorBatch, Error> {
        let mut batch = ErrorBatch::default();
        let read = self.lines.read(&self.pipe, |line| take(line, now, &mut batch));
        polled(batch, read.map(drop), &self.path)
    }
}

/// Whether the event exists and may be switched on; changes nothing.
pub(crate) fn probe(roots: &Roots) -> Result<(), Absence> {
    let switch = folder(roots).join(SWITCH);
    let opened = OpenOptions::new().write(true).open(&switch);
    opened.map(drop).map_err(|cause| Absence::of_file(&switch, &cause, KERNEL))
}

fn take(line: Option<&str>, at: Timestamp, batch: &mut ErrorBatch) {
    match line.map_or(TraceLine::Unreadable, |line| TraceLine::parse(line, at)) {
        TraceLine::Error(error) => batch.errors.push(error),
        TraceLine::Lost(count) => batch.lost = batch.lost.saturating_add(count),
        TraceLine::Unreadable => batch.unreadable += 1,
        TraceLine::Other => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENT: &str =
        "1 Corrected error: x on A1 (mc:0 location:0:0:0 address:0x12345678 grain:8 syndrome:0x0 area:DRAM)";

    /// A folder that tracefs might have filled.
    fn fill(folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder.join(SWITCH).parent().unwrap())?;
        ["buffer_size_kb", SWITCH, "trace_pipe"].iter().try_for_each(|name| fs::write(folder.join(name), ""))
    }

    /// A machine with tracefs.
    fn machine() -> (tempfile::TempDir, Roots, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::new(folder.path(), folder.path());
        fill(&roots.sys("kernel/tracing")).unwrap();
        let instances = roots.sys("kernel/tracing/instances");
        fs::create_dir(&instances).unwrap();
        (folder, roots, instances)
    }

    fn own(instances: &Path) -> PathBuf {
        instances.join(format!("rampart-{}", std::process::id()))
    }

    #[test]
    fn events_are_read_from_an_instance_of_our_own() {
        let (_folder, roots, instances) = machine();
        let mut feed = EventFeed::open_by(&roots, fill).unwrap();
        let own = own(&instances);
        assert_eq!(fs::read_to_string(own.join(SWITCH)).unwrap(), "1");
        assert_eq!(fs::read_to_string(own.join("buffer_size_kb")).unwrap(), "64");
        assert_eq!(fs::read_to_string(roots.sys("kernel/tracing").join(SWITCH)).unwrap(), "", "not in the main trace");
        assert_eq!(feed.poll(Timestamp::default()).unwrap(), ErrorBatch::default());

        let text = format!("x-1 [0] 1.0: mc_event: {EVENT}\nCPU:0 [LOST 5 EVENTS]\nx-1 [0] 1.0: mc_event: what?\n");
        fs::write(own.join("trace_pipe"), text).unwrap();
        let batch = feed.poll(Timestamp::from_micros(3)).unwrap();
        assert_eq!((batch.lost, batch.unreadable), (5, 1));
        let frames: Vec<_> =
            batch.errors.iter().map(|error| (error.at.micros(), error.frame.unwrap().number())).collect();
        assert_eq!(frames, [(3, 0x12345)]);
        assert_eq!(feed.poll(Timestamp::default()).unwrap(), ErrorBatch::default());
    }

    #[test]
    fn an_instance_goes_with_its_feed() {
        let (_folder, roots, instances) = machine();
        let feed = EventFeed::open_by(&roots, fill).unwrap();
        let own = own(&instances);
        // As tracefs does by itself.
        fs::remove_dir_all(&own).and_then(|()| fs::create_dir(&own)).unwrap();
        drop(feed);
        assert!(!own.exists());
    }

    #[test]
    fn a_kernel_that_traces_no_errors_says_what_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let absence = EventFeed::open(&Roots::new(folder.path(), folder.path())).unwrap_err();
        assert!(absence.reason.contains("mc_event") && absence.remedy.contains("tracefs"), "{absence}");
        let (_folder, roots, instances) = machine();
        fs::remove_dir(&instances).unwrap();
        assert!(EventFeed::open(&roots).is_err());
    }
}
