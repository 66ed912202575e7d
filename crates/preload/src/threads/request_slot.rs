//! Where the program's threads ask the keeper for something, one at a time, and wait until it is done.
//!
//! Nothing is allocated: what a thread of the program allocates lies in the heap, which the keeper must not touch.

use std::sync::{Condvar, Mutex};

use rampart_guard::PageSpan;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnlockRequest {
    /// Open everything, and lock nothing until it is told otherwise.
    OpenAll,
    /// Open everything for good: the process ends with a core dump.
    OpenForDump,
    /// Open everything for good, and go on.
    OpenForGood,
    /// Open everything, and lock nothing for a while.
    OpenForAWhile,
    /// These pages read as zeros from now on.
    Zero(PageSpan),
    /// These stay open for good.
    Leave(PageSpan),
    /// These stay open until they are released.
    Hold(PageSpan),
    /// End the process, for this reason.
    End(&'static str),
    /// Verify what is locked.
    VerifyAll,
    /// Tell nothing more to those who keep what is told.
    TellNoMore,
}

/// The desk.
#[derive(Debug, Default)]
pub struct RequestSlot {
    /// Held by who asks.
    turn: Mutex<()>,
    /// What is not done yet.
    asked: Mutex<Option<UnlockRequest>>,
    done: Condvar,
}

impl RequestSlot {
    /// Asks, calls `wake` so that the keeper looks, and waits.
    pub fn ask(&self, request: UnlockRequest, wake: impl FnOnce()) {
        let _turn = self.turn.lock().expect("no panic");
        *self.asked.lock().expect("no panic") = Some(request);
        wake();
        let asked = self.asked.lock().expect("no panic");
        drop(self.done.wait_while(asked, |asked| asked.is_some()).expect("no panic"));
    }

    /// In the keeper's thread: does what is asked for, if anything is.
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
        let (desk, granted) = (&RequestSlot::default(), &AtomicU32::new(0));
        thread::scope(|scope| {
            let keeper = scope.spawn(move || {
                while granted.load(Ordering::Relaxed) < 400 {
                    desk.serve(|request| {
                        assert_eq!(request, UnlockRequest::VerifyAll);
                        granted.fetch_add(1, Ordering::Relaxed);
                    });
                    thread::park_timeout(std::time::Duration::from_millis(1));
                }
            });
            for _ in 0..4 {
                let keeper = keeper.thread().clone();
                scope.spawn(move || {
                    for _ in 0..100 {
                        let before = granted.load(Ordering::Relaxed);
                        desk.ask(UnlockRequest::VerifyAll, || keeper.unpark());
                        assert!(granted.load(Ordering::Relaxed) > before);
                    }
                });
            }
        });
        assert_eq!(granted.load(Ordering::Relaxed), 400);
    }
}
