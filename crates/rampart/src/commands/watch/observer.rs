//! Reports the events and the state of the daemon: terminal, event log, state file, metrics.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rampart_diagnostic::daemon::{DaemonEvent, DaemonSettings, DaemonState, EVENT_SCHEMA, EventRecord, Observer};
use rampart_diagnostic::once::report::BadFrame;
use rampart_diagnostic::{TestObserver, TestProgress};
use rampart_memory::{Clock, Timestamp};

use super::arguments::WatchArguments;
use super::config::{self, Configuration};
use super::metrics::Metrics;
use crate::error::Error;
use crate::inputs::daemon::StateFile;
use crate::output::verbosity::{LiveFindings, Verbosity};
use crate::output::{colour, daemon as daemon_text, progress};

/// The observer of a running daemon.
pub struct WatchObserver<'a> {
    arguments: &'a WatchArguments,
    cpus: u32,
    reload: Arc<AtomicBool>,
    bar: ProgressBar,
    verbosity: Verbosity,
    findings: LiveFindings,
    state_file: StateFile,
    outlets: Mutex<Outlets>,
    /// Whether the last write of the state file failed.
    write_failed: AtomicBool,
}

/// Where events and metrics go, as the configuration says; another one may say otherwise.
struct Outlets {
    events: Option<EventLog>,
    metrics: Option<Metrics>,
}

/// The event log; events that could not be written are counted.
struct EventLog {
    file: File,
    lost: u64,
}

impl<'a> WatchObserver<'a> {
    /// An observer of a daemon that may use so many `cpus`. `reload` is set when the configuration is to be read again.
    ///
    /// # Errors
    /// If the event log cannot be opened, or metrics cannot be served.
    pub fn new(
        arguments: &'a WatchArguments,
        verbosity: Verbosity,
        cpus: u32,
        reload: Arc<AtomicBool>,
        state_file: StateFile,
        configuration: &Configuration,
    ) -> Result<Self, Error> {
        let bar = ProgressBar::new_spinner();
        if !progress::is_shown() {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        bar.set_style(ProgressStyle::with_template("{spinner} {msg}").expect("a fixed template"));
        let outlets = Mutex::new(Outlets {
            metrics: configuration.metrics.map(serve).transpose()?,
            events: configuration.events.as_deref().map(open).transpose()?,
        });
        let write_failed = AtomicBool::new(false);
        let findings = LiveFindings::new(verbosity);
        Ok(Self { arguments, verbosity, findings, cpus, reload, bar, state_file, outlets, write_failed })
    }

    /// Removes the progress line.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

impl WatchObserver<'_> {
    fn outlets(&self) -> MutexGuard<'_, Outlets> {
        self.outlets.lock().expect("no writer panicked")
    }

    /// Reads the configuration again, and sends events and metrics where it says. After an error all is as before.
    fn read_again(&self) -> Result<DaemonSettings, Error> {
        let Configuration { settings, metrics, events } = config::configuration(self.arguments, self.cpus)?;
        self.outlets().change(metrics, events.as_deref())?;
        Ok(settings)
    }
}

impl Outlets {
    /// Opens what is new before it closes anything. The event log is opened anew even under the same name: another file
    /// may have it by now.
    fn change(&mut self, metrics: Option<SocketAddr>, events: Option<&Path>) -> Result<(), Error> {
        let is_served = metrics.is_some() && metrics == self.metrics.as_ref().map(Metrics::asked);
        let served = metrics.filter(|_| !is_served).map(serve).transpose()?;
        self.events = events.map(open).transpose()?;
        if !is_served {
            if let (Some(new), Some(old)) = (&served, &self.metrics) {
                new.continue_from(old);
            }
            self.metrics = served;
        }
        Ok(())
    }
}

fn serve(address: SocketAddr) -> Result<Metrics, Error> {
    Metrics::serve(address).map_err(|error| Error::Metrics(address, error))
}

fn open(path: &Path) -> Result<EventLog, Error> {
    let opened: io::Result<File> = OpenOptions::new().create(true).append(true).open(path);
    let file = opened.map_err(|error| Error::Events(path.to_owned(), error))?;
    Ok(EventLog { file, lost: 0 })
}

impl EventLog {
    /// Writes one line with one write, so that lines of two daemons do not mix.
    fn write(&mut self, at: Timestamp, event: &DaemonEvent) {
        let line = EventRecord { schema: EVENT_SCHEMA, at, event };
        let mut line = serde_json::to_string(&line).expect("plain data");
        line.push('\n');
        if let Err(error) = self.file.write_all(line.as_bytes()) {
            if self.lost == 0 {
                eprintln!("rampart: an event could not be written ({error}): free some space for the log");
            }
            self.lost += 1;
        }
    }
}

impl Drop for EventLog {
    fn drop(&mut self) {
        if self.lost > 0 {
            eprintln!("rampart: {} events could not be written", self.lost);
        }
    }
}

impl TestObserver for WatchObserver<'_> {
    fn said(&self, text: &str) {
        if self.arguments.json || self.verbosity.is_quiet() {
            return;
        }
        // A closed output is noticed when the summary is printed.
        self.bar.suspend(|| drop(crate::output::text::print(&format!("{text}\n"))));
    }

    fn warned(&self, text: &str) {
        self.bar.suspend(|| eprintln!("{}", colour::warning(text)));
    }

    fn bad_frame(&self, bad: &BadFrame) {
        if let Some(line) = self.findings.line(bad) {
            self.said(&line);
        }
    }

    /// Shows nothing: a daemon has no end to approach.
    fn progress(&self, _: &TestProgress) {}
}

impl Observer for WatchObserver<'_> {
    fn happened(&self, at: Timestamp, event: &DaemonEvent) {
        if let Some(events) = &mut self.outlets().events {
            events.write(at, event);
        }
    }

    fn state(&self, state: &DaemonState) {
        self.bar.set_message(daemon_text::line(state));
        self.bar.tick();
        let written = self.state_file.write(state);
        let had_failed = self.write_failed.swap(written.is_err(), Ordering::Relaxed);
        if let (Err(error), false) = (written, had_failed) {
            self.warned(&format!("the state for `rampart status` cannot be written ({error}): free some space"));
        }
        if let Some(metrics) = &self.outlets().metrics {
            metrics.set(state);
        }
    }

    fn reload(&self) -> Option<DaemonSettings> {
        if !self.reload.swap(false, Ordering::Relaxed) {
            return None;
        }
        match self.read_again() {
            Ok(settings) => Some(settings),
            Err(error) => {
                let why = error.to_string();
                self.warned(&format!("{why}; the old settings stay"));
                self.happened(rampart_linux::SystemClock.now(), &DaemonEvent::ReloadRefused { why });
                None
            }
        }
    }
}
