//! The state file of the daemon: `rampart status` reads it, and it prevents two daemons with one store.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rampart_diagnostic::daemon::DaemonState;
use rampart_memory::{Clock, Timestamp};
use std::time::Duration;

/// An older state means that the daemon hangs or died; another process may have its number now.
const STALE: Duration = Duration::from_secs(10);

/// The path of the state file: `/run/rampart/watch.json` for the store of the machine, else a file beside the store.
#[must_use]
pub fn path(store: &Path) -> PathBuf {
    if store == Path::new("/var/lib/rampart/rampart.db") {
        return PathBuf::from("/run/rampart/watch.json");
    }
    store.with_file_name("watch.json")
}

/// Whether a daemon runs.
#[derive(Debug)]
pub enum DaemonLiveness {
    /// No daemon runs.
    NotRunning,
    /// A daemon runs, with this state.
    Running(Box<DaemonState>),
    /// The process with this number runs, but has not written its state for this long: the daemon hangs.
    Stuck(u32, Duration),
    /// The daemon with this process number ended without removing its state file.
    Died(u32),
}

impl DaemonLiveness {
    /// What is wrong with a daemon that should run, and what to do.
    pub fn fault(&self) -> Option<String> {
        match self {
            Self::NotRunning | Self::Running(_) => None,
            Self::Stuck(pid, silent) => Some(format!(
                "process {pid} watches, but has not reported for {}: stop it, and start `rampart watch` again",
                humantime::format_duration(Duration::from_secs(silent.as_secs()))
            )),
            Self::Died(pid) => {
                Some(format!("process {pid} watched and ended unexpectedly: start `rampart watch` again"))
            }
        }
    }
}

/// Reads a state file.
pub fn read(path: &Path, now: Timestamp) -> DaemonLiveness {
    let Some(state) = fs::read(path).ok().and_then(|text| serde_json::from_slice::<DaemonState>(&text).ok()) else {
        return DaemonLiveness::NotRunning;
    };
    let alive = Path::new("/proc").join(state.pid.to_string()).exists();
    let silent = now.since(state.at);
    match alive {
        true if silent <= STALE => DaemonLiveness::Running(Box::new(state)),
        true if is_rampart(state.pid) => DaemonLiveness::Stuck(state.pid, silent),
        _ => DaemonLiveness::Died(state.pid),
    }
}

/// Whether a process runs the same program as this one, by its name: a number may be that of another program now.
fn is_rampart(pid: u32) -> bool {
    let name = |process: &str| fs::read(Path::new("/proc").join(process).join("comm")).ok();
    name("self").is_some_and(|own| name(&pid.to_string()) == Some(own))
}

/// The state file of a running daemon, removed when it is dropped.
#[derive(Debug)]
pub struct StateFile {
    path: PathBuf,
}

impl StateFile {
    /// Makes the folder of the file.
    ///
    /// # Errors
    /// If the folder cannot be made.
    pub fn create(path: &Path) -> io::Result<Self> {
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        Ok(Self { path: path.to_owned() })
    }

    /// Replaces the content atomically: a reader sees the old content or the new.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, state: &DaemonState) -> io::Result<()> {
        let new = self.path.with_extension("json.new");
        fs::write(&new, serde_json::to_vec_pretty(state).expect("plain data"))?;
        fs::rename(&new, &self.path)
    }
}

impl Drop for StateFile {
    fn drop(&mut self) {
        // The file may never have been written.
        let _absent = fs::remove_file(&self.path);
    }
}

/// Whether a daemon runs with this store, by the machine's clock.
pub fn beside(store: &Path) -> DaemonLiveness {
    read(&path(store), rampart_linux::SystemClock.now())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    use rampart_diagnostic::control::PolicyName;
    use rampart_diagnostic::daemon::{FrameCounts, TestingCost};
    use rampart_memory::{Bytes, Fidelity, TestConfig};

    /// Between fork and exec, a child has its parent's name.
    fn eventually_named(pid: u32, name: &str) -> bool {
        let named = || fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == name);
        (0..1000).any(|_| {
            named() || {
                std::thread::sleep(Duration::from_millis(5));
                false
            }
        })
    }

    pub fn state(pid: u32, at: Timestamp) -> DaemonState {
        DaemonState {
            schema: rampart_diagnostic::daemon::STATE_SCHEMA.to_owned(),
            pid,
            started: at,
            at,
            sweeping: true,
            sweeps: 2,
            lifetime_seconds: 1800.0,
            policy: PolicyName::Adaptive,
            frames: FrameCounts { total: 1000, reached: 800, fresh: 700 },
            oldest_seconds: Some(12.5),
            claimed: Bytes::from_mib(64),
            guarantee: None,
            demand: 3.0,
            config: TestConfig { fidelity: Fidelity::MIN, threads: 1 },
            tested: 9,
            last_test: Some(at),
            overdue: false,
            test_rate: 4.0,
            cost: TestingCost::default(),
            pressure: 0,
            alarms: 0,
            errors: 0,
            offline: Bytes::ZERO,
            bad_frames: 0,
            emulated_frames: 0,
            own: None,
        }
    }

    #[test]
    fn a_state_is_live_while_its_process_is_and_gone_when_it_stops() {
        let folder = tempfile::tempdir().unwrap();
        let path = path(&folder.path().join("r.db"));
        assert_eq!(path, folder.path().join("watch.json"));
        let now = Timestamp::from_micros(1 << 50);
        assert!(matches!(read(&path, now), DaemonLiveness::NotRunning));
        let file = StateFile::create(&path).unwrap();
        let own = state(std::process::id(), now);
        file.write(&own).unwrap();
        let DaemonLiveness::Running(seen) = read(&path, now) else { panic!("it is live") };
        assert_eq!(*seen, own);
        let silent = read(&path, now.after(Duration::from_secs(11)));
        assert!(matches!(silent, DaemonLiveness::Stuck(pid, _) if pid == own.pid), "{silent:?}");
        assert!(silent.fault().is_some_and(|fault| fault.contains("has not reported for 11s")));
        file.write(&state(u32::MAX, now)).unwrap();
        assert!(matches!(read(&path, now), DaemonLiveness::Died(u32::MAX)));
        // This number was the daemon's; another program has it now.
        let mut other = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let its = eventually_named(other.id(), "sleep").then(|| {
            file.write(&state(other.id(), now)).unwrap();
            read(&path, now.after(Duration::from_secs(11)))
        });
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(matches!(its, Some(DaemonLiveness::Died(_))), "{its:?}");
        drop(file);
        assert!(matches!(read(&path, now), DaemonLiveness::NotRunning));
    }
}
