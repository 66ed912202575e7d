//! Signals as flags: a handler does nothing but set one.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

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
