//! The fault handler: the thread that answers faults, and first writes to watched pages.

use std::cell::RefCell;

use rampart_guard::FaultOutcome;
use rampart_memory::Clock as _;

use crate::reporting::fault_context::FaultContext;

use super::live::LiveGuard;
use super::placement::Beside;

impl LiveGuard {
    /// Serves faults until the process ends.
    pub(super) fn handle(&'static self) -> ! {
        let beside = RefCell::new(Beside::new(&self.keeper_id));
        let serve = |page, touch, thread: Option<u32>| {
            let served = self.guard.fault(page, touch, self.clock.now(), || {
                self.guard.goes_on(self.clock.now());
                self.wake_keeper();
            });
            if let Some(thread) = thread {
                beside.borrow_mut().served(thread);
            }
            if served == FaultOutcome::Stop {
                self.stop(Some(FaultContext::by(page, thread)));
            }
            served
        };
        match self.memory.serve(&self.stop, &serve, &|page| self.guard.written(page)) {
            Ok(()) => self.cannot_go_on("nobody serves its faults any more"),
            Err(why) => self.cannot_go_on(&why.to_string()),
        }
    }
}
