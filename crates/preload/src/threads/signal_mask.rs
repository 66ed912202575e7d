//! The signals that reach a thread.

#![allow(unsafe_code, reason = "calls of the C library")]

use std::ffi::c_int;

/// All signals are blocked on this thread, and on those that it starts, while this lives.
pub struct Signals(libc::sigset_t);

impl Signals {
    pub fn block_all() -> Self {
        // SAFETY: sets of signals are plain data, and both calls are given places for them.
        unsafe {
            let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            Self(before)
        }
    }

    /// Lets one signal reach this thread from now on.
    pub fn take(signal: c_int) {
        // SAFETY: a set of signals is plain data, and both calls are given a place for it.
        unsafe {
            let mut only = std::mem::zeroed();
            libc::sigemptyset(&raw mut only);
            libc::sigaddset(&raw mut only, signal);
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const only, std::ptr::null_mut());
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // SAFETY: the set is what the thread had before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut()) };
    }
}
