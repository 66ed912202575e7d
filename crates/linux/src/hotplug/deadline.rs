//! A deadline for a system call: a signal to the thread that waits in it.
#![allow(unsafe_code)]

use std::mem::zeroed;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// A signal that comes just before the system call begins is lost, so it is sent again.
const AGAIN: Duration = Duration::from_millis(20);

/// Does `work`, and interrupts its system calls from `limit` on. Returns whether it ended before.
pub fn with_deadline<T>(limit: Duration, work: impl FnOnce() -> T) -> (T, bool) {
    catch_alarm();
    // SAFETY: pthread_self(3) has no conditions.
    let waiting = unsafe { libc::pthread_self() };
    let in_time = AtomicBool::new(true);
    let (done, end) = channel::<()>();
    let result = thread::scope(|scope| {
        let in_time = &in_time;
        scope.spawn(move || {
            let mut rest = limit;
            while end.recv_timeout(rest) == Err(RecvTimeoutError::Timeout) {
                in_time.store(false, Ordering::Relaxed);
                // SAFETY: `waiting` is the thread that runs this scope, and a scope ends after its threads, so the
                // thread lives. The signal has a handler.
                unsafe { libc::pthread_kill(waiting, libc::SIGALRM) };
                rest = AGAIN;
            }
        });
        let result = work();
        drop(done);
        result
    });
    (result, in_time.into_inner())
}

extern "C" fn do_nothing(_signal: libc::c_int) {}

/// Lets SIGALRM end a system call, and nothing else. It is not restored: nobody here uses SIGALRM otherwise.
fn catch_alarm() {
    // SAFETY: all zeros is a valid `sigaction`: no flags, so system calls are not restarted, and an empty mask.
    let mut action: libc::sigaction = unsafe { zeroed() };
    action.sa_sigaction = do_nothing as *const () as usize;
    // SAFETY: `action` is a complete action whose handler does nothing, which is safe at any point of any thread; the
    // old action is not asked for. It cannot fail: SIGALRM may be caught.
    unsafe { libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut()) };
}
