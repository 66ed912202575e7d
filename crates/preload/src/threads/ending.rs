//! The ends of a guarded process: its own, or because the program must not see a page.

#![allow(unsafe_code, reason = "ends the process by a call of the C library")]

use std::any::Any;
use std::sync::atomic::Ordering;
use std::thread;

use rampart_guard::OnError;
use rampart_memory::Clock as _;

use crate::messages::say_from_guard;
use crate::reporting::fault_context::FaultContext;

use super::live::{LiveGuard, NAP};

/// The exit code of a stopped process: a page is beyond correction, or the guard cannot go on.
pub const STOPPED: i32 = 86;

/// A thread of the guard panicked: ends the process.
pub(super) fn failed(thread: &str, why: &(dyn Any + Send)) -> ! {
    let text = why.downcast_ref::<&str>().copied().or_else(|| why.downcast_ref::<String>().map(String::as_str));
    let why = text.unwrap_or("it does not say why");
    say_from_guard(&format!("rampart: process {} is stopped: {thread} failed: {why}\n", std::process::id()));
    // SAFETY: it ends the process and runs nothing of the program's.
    unsafe { libc::_exit(STOPPED) }
}

impl LiveGuard {
    /// The end of a program that touched a page beyond correction, with a checkpoint first: all good pages are
    /// unlocked, and nothing is locked, until that is done.
    pub(super) fn wait_for_checkpoint(&self) -> ! {
        self.guard.unlock_all(self.clock.now());
        self.shared.stops(true, self.fault_context.lock().expect("no panic").as_ref());
        while !self.shared.has_answer() {
            thread::sleep(NAP);
        }
        self.end_process()
    }

    /// The last records.
    pub(super) fn write_down(&self) {
        let sample = self.guard.sample(self.clock.now());
        self.recorder().write(|| sample, self.shared.accesses.as_ref());
    }

    /// The program must not see a page that its thread touched: ends the process, at once or by the maintenance thread
    /// after the checkpoint. In the latter case other pages are served meanwhile.
    pub(super) fn stop(&self, fault_context: Option<FaultContext>) {
        let is_first = {
            let mut first = self.fault_context.lock().expect("no panic");
            let is_first = !self.held.load(Ordering::Acquire);
            if is_first {
                *first = fault_context;
            }
            is_first
        };
        if self.guard.on_error() != OnError::Checkpoint || !self.shared.is_read() {
            self.end_process();
        }
        if is_first {
            self.held.store(true, Ordering::Release);
            self.unpark_keeper();
        }
    }

    /// The guard cannot serve the program any more, which would wait for ever: ends the process with the reason.
    pub(super) fn cannot_go_on(&self, why: &str) -> ! {
        self.shared.cannot_go_on(why);
        self.exit()
    }

    fn end_process(&self) -> ! {
        self.shared.stops(false, self.fault_context.lock().expect("no panic").as_ref());
        self.exit()
    }

    /// Ends the process, with its counts written.
    pub(super) fn exit(&self) -> ! {
        self.write_down();
        // SAFETY: it ends the process and runs nothing of the program's.
        unsafe { libc::_exit(STOPPED) }
    }
}
