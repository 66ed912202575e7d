//! A limit for a system call: a signal to the thread that waits in it.
#![allow(unsafe_code)]

use std::mem::zeroed;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// How often it is asked whether the work may go on. A signal that comes just before a system call begins is lost, so
/// it is sent again as often.
const MOMENT: Duration = Duration::from_millis(10);

/// Does `work`, and interrupts its system calls as soon as `may_go_on`, which another thread asks, says no. Returns
/// whether it was interrupted.
pub fn interruptible<T>(may_go_on: impl Fn() -> bool + Sync, work: impl FnOnce() -> T) -> (T, bool) {
    catch_alarm();
    // SAFETY: pthread_self(3) has no conditions.
    let waiting = unsafe { libc::pthread_self() };
    let interrupted = AtomicBool::new(false);
    let (done, end) = channel::<()>();
    let result = thread::scope(|scope| {
        let (interrupted, may_go_on) = (&interrupted, &may_go_on);
        scope.spawn(move || {
            while end.recv_timeout(MOMENT) == Err(RecvTimeoutError::Timeout) {
                if !interrupted.load(Ordering::Relaxed) && may_go_on() {
                    continue;
                }
                interrupted.store(true, Ordering::Relaxed);
                // SAFETY: `waiting` is the thread that runs this scope, and a scope ends after its threads, so the
                // thread lives. The signal has a handler.
                unsafe { libc::pthread_kill(waiting, libc::SIGALRM) };
            }
        });
        let result = work();
        drop(done);
        result
    });
    (result, interrupted.into_inner())
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
