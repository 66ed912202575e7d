//! Signals as flags: a handler only sets a flag.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Sent};

use crate::error::Error;

/// A flag that Ctrl-C and SIGTERM set; a second one ends the process at once.
pub fn stop_flag() -> Result<Arc<AtomicBool>, Error> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop)).map_err(Error::Signal)?;
        flag::register(signal, Arc::clone(&stop)).map_err(Error::Signal)?;
    }
    Ok(stop)
}

/// A flag that a signal sets.
pub type Flag = Arc<AtomicBool>;

/// A flag that Ctrl-C and SIGTERM set, for a command that ends with its program: however often they come, they do not
/// end this process. One that is ignored stays so, also for the program.
pub fn interruption_flag() -> Result<Flag, Error> {
    let flag = Flag::default();
    for signal in [SIGINT, SIGTERM].into_iter().filter(|signal| ignored_here() >> (signal - 1) & 1 == 0) {
        flag::register(signal, Arc::clone(&flag)).map_err(Error::Signal)?;
    }
    Ok(flag)
}

/// A flag that SIGHUP sets.
pub fn reload_flag() -> Result<Arc<AtomicBool>, Error> {
    let reload = Arc::new(AtomicBool::new(false));
    flag::register(SIGHUP, Arc::clone(&reload)).map_err(Error::Signal)?;
    Ok(reload)
}

/// Signals that were sent to this process but are meant for the program that it runs.
pub struct ForwardedSignals(SignalsInfo<WithOrigin>);

/// Signals that end a program by default, or with which a batch system announces its end.
const FORWARDED: [i32; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];

impl ForwardedSignals {
    /// Catches these signals, so that they no longer end this process. A signal that is ignored stays ignored: a
    /// program inherits that (`nohup`), and would not inherit a handler.
    pub fn catch() -> Result<Self, Error> {
        let ignored = ignored_here();
        let caught = FORWARDED.iter().filter(|&&signal| ignored >> (signal - 1) & 1 == 0);
        SignalsInfo::new(caught).map(Self).map_err(Error::Signal)
    }

    /// Passes on the signals since the last call, without those of a terminal, which sends them to the program too.
    /// Returns whether one of them, of either kind, asks for an end.
    pub fn pending(&mut self, mut pass_on: impl FnMut(i32)) -> bool {
        let by_process = |cause| matches!(cause, Cause::Sent(Sent::User | Sent::Queue | Sent::TKill));
        let signals: Vec<_> = self.0.pending().collect();
        signals.iter().filter(|origin| by_process(origin.cause)).for_each(|origin| pass_on(origin.signal));
        signals.iter().any(|origin| ![SIGUSR1, SIGUSR2].contains(&origin.signal))
    }
}

/// Catches SIGCHLD if this process was started to ignore it, and returns whether it was. Linux discards the exit status
/// of the children of a process that ignores it (wait(2)). A program that this process starts must be made to ignore it
/// again.
pub fn catch_ignored_sigchld() -> Result<bool, Error> {
    let was_ignored = ignored_here() >> (SIGCHLD - 1) & 1 == 1;
    if was_ignored {
        flag::register(SIGCHLD, Arc::default()).map_err(Error::Signal)?;
    }
    Ok(was_ignored)
}

/// Catches SIGXFSZ, so that a write beyond `ulimit -f` fails like one to a full disk and does not end this process. A
/// program that this process starts has the default again, since a handler is not inherited.
pub fn catch_file_limit_signal() -> Result<(), Error> {
    if ignored_here() >> (SIGXFSZ - 1) & 1 == 0 {
        flag::register(SIGXFSZ, Arc::default()).map_err(Error::Signal)?;
    }
    Ok(())
}

fn ignored_here() -> u64 {
    std::fs::read_to_string("/proc/self/status").map_or(0, |status| ignored(&status))
}

/// The mask of ignored signals in the status of a process (proc_pid_status(5)).
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_a_status() {
        assert_eq!(ignored("Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000000002\n"), 0x1001);
        assert_eq!(ignored("Name:\tx\n"), 0);
    }
}
