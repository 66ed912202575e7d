//! A slot for requests of the program's threads to the maintenance thread, one at a time; the asking thread waits until
//! the request is done.
//!
//! Nothing is allocated: an allocation of a thread of the program is in the heap, which the maintenance thread must not
//! touch.

use std::sync::{Condvar, Mutex};

use rampart_guard::PageSpan;

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnlockRequest {
    /// Unlock everything, and lock nothing until further notice.
    OpenAll,
    /// Unlock everything for good: the process ends with a core dump.
    OpenForDump,
    /// Unlock everything for good, and go on.
    OpenForGood,
    /// Unlock everything, and lock nothing for a while.
    OpenForAWhile,
    /// These pages read as zeros from now on.
    Zero(PageSpan),
    /// Exclude these pages.
    Leave(PageSpan),
    /// These stay unlocked until they are released.
    Hold(PageSpan),
    /// End the process, for this reason.
    End(&'static str),
    /// Verify all locked pages.
    VerifyAll,
    /// Stop all reports.
    TellNoMore,
}

/// The slot.
#[derive(Debug, Default)]
pub struct RequestSlot {
    /// Held by the asking thread.
    turn: Mutex<()>,
    /// The pending request.
    asked: Mutex<Option<UnlockRequest>>,
    done: Condvar,
}

impl RequestSlot {
    /// Posts a request, calls `wake` so that the maintenance thread looks, and waits.
    pub fn ask(&self, request: UnlockRequest, wake: impl FnOnce()) {
        let _turn = self.turn.lock().expect("no panic");
        *self.asked.lock().expect("no panic") = Some(request);
        wake();
        let asked = self.asked.lock().expect("no panic");
        drop(self.done.wait_while(asked, |asked| asked.is_some()).expect("no panic"));
    }

    /// In the maintenance thread: serves the pending request, if any.
    pub fn serve(&self, grant: impl FnOnce(UnlockRequest)) {
        // Nobody else changes it while somebody waits.
        let asked = *self.asked.lock().expect("no panic");
        if let Some(request) = asked {
            grant(request);
            *self.asked.lock().expect("no panic") = None;
            self.done.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn each_of_many_who_ask_goes_on_once_it_is_done() {
        let (slot, granted) = (&RequestSlot::default(), &AtomicU32::new(0));
        thread::scope(|scope| {
            let maintenance = scope.spawn(move || {
                while granted.load(Ordering::Relaxed) < 400 {
                    slot.serve(|request| {
                        assert_eq!(request, UnlockRequest::VerifyAll);
                        granted.fetch_add(1, Ordering::Relaxed);
                    });
                    thread::park_timeout(std::time::Duration::from_millis(1));
                }
            });
            for _ in 0..4 {
                let maintenance = maintenance.thread().clone();
                scope.spawn(move || {
                    for _ in 0..100 {
                        let before = granted.load(Ordering::Relaxed);
                        slot.ask(UnlockRequest::VerifyAll, || maintenance.unpark());
                        assert!(granted.load(Ordering::Relaxed) > before);
                    }
                });
            }
        });
        assert_eq!(granted.load(Ordering::Relaxed), 400);
    }
}
