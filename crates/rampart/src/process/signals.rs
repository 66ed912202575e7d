//! Signals as flags: a handler does nothing but set one.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Sent};

use crate::error::Error;

/// Set by Ctrl-C and by SIGTERM; a second one ends the process at once, as usual.
pub fn stop_flag() -> Result<Arc<AtomicBool>, Error> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop)).map_err(Error::Signal)?;
        flag::register(signal, Arc::clone(&stop)).map_err(Error::Signal)?;
    }
    Ok(stop)
}

/// Set by SIGHUP.
pub fn reload_flag() -> Result<Arc<AtomicBool>, Error> {
    let reload = Arc::new(AtomicBool::new(false));
    flag::register(SIGHUP, Arc::clone(&reload)).map_err(Error::Signal)?;
    Ok(reload)
}

/// Signals that are meant for a program that we run, although they were sent to us.
pub struct Relayed(SignalsInfo<WithOrigin>);

/// They end a program by default, or a batch system announces its end with them.
const RELAYED: [i32; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];

impl Relayed {
    /// From now on these signals no longer end this process. One that is ignored stays so: a program inherits that
    /// (`nohup`), and would not inherit a handler.
    pub fn catch() -> Result<Self, Error> {
        let ignored = ignored_here();
        let caught = RELAYED.iter().filter(|&&signal| ignored >> (signal - 1) & 1 == 0);
        SignalsInfo::new(caught).map(Self).map_err(Error::Signal)
    }

    /// Those that came since the last time. A terminal sends its own to the program too: they are left out.
    pub fn pending(&mut self) -> impl Iterator<Item = i32> {
        let by_somebody = |cause| matches!(cause, Cause::Sent(Sent::User | Sent::Queue | Sent::TKill));
        self.0.pending().filter(move |origin| by_somebody(origin.cause)).map(|origin| origin.signal)
    }
}

/// Whether whoever started this process made it ignore SIGCHLD. Linux throws away how the children of such a process
/// end (wait(2)), so it is caught from now on; a program that we start is to ignore it by itself.
pub fn heed_children() -> Result<bool, Error> {
    let was_ignored = ignored_here() >> (SIGCHLD - 1) & 1 == 1;
    if was_ignored {
        flag::register(SIGCHLD, Arc::default()).map_err(Error::Signal)?;
    }
    Ok(was_ignored)
}

/// From now on a write beyond `ulimit -f` fails, as one to a full disk does, and does not end this process by
/// SIGXFSZ. A program that we start has its default again, since a handler is not inherited.
pub fn outlive_file_limit() -> Result<(), Error> {
    if ignored_here() >> (SIGXFSZ - 1) & 1 == 0 {
        flag::register(SIGXFSZ, Arc::default()).map_err(Error::Signal)?;
    }
    Ok(())
}

fn ignored_here() -> u64 {
    std::fs::read_to_string("/proc/self/status").map_or(0, |status| ignored(&status))
}

/// The mask of ignored signals in a process' status (proc_pid_status(5)).
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
