//! The maintenance thread: all work besides answers to faults.
//!
//! It locks memory that is due and makes its codes, serves requests of the program's threads ([`super::requests`]),
//! tests suspect frames again, and checks whether `rampart run` lives and whether the program has ended.

use std::sync::atomic::Ordering;
use std::thread;

use rampart_memory::Clock as _;

use crate::messages::say_from_guard;
use crate::reporting::liveness::{ServerLiveness, Sight};

use super::injector::ErrorInjector;
use super::last_thread::ProgramThreads;
use super::live::{LiveGuard, NAP};

impl LiveGuard {
    /// Serves requests, and locks memory that is due, until the process ends.
    pub(super) fn keep(
        &self,
        mut errors: Option<ErrorInjector>,
        mut server: ServerLiveness,
        mut program: ProgramThreads,
    ) {
        while !self.held.load(Ordering::Acquire) {
            self.look_at(&mut server);
            self.look_at_program(&mut program);
            self.slot.serve(|request| self.grant(request));
            self.suspects.look();
            let rests = self.rests();
            let idle = if rests { NAP } else { self.guard.keep(self.clock.now()).unwrap_or(NAP) };
            if let Some(errors) = errors.as_mut().filter(|_| !rests) {
                errors.err(&self.guard);
            }
            self.recorder().step(
                self.clock.now(),
                || self.guard.sample(self.clock.now()),
                self.shared.accesses.as_ref(),
            );
            if !idle.is_zero() {
                thread::park_timeout(idle.min(NAP));
            }
        }
        self.wait_for_checkpoint();
    }

    /// In the maintenance thread: reads the server's news for its guards, or acts on its absence.
    fn look_at(&self, server: &mut ServerLiveness) {
        // Asks the kernel only when something is printed: the maintenance thread is here at each of its steps.
        let process = std::process::id;
        match server.look() {
            Sight::Nothing => {}
            // A process that gave up its rights may not read the list any more.
            Sight::Lives if !self.shared.is_read() => {}
            Sight::Lives => {
                if let Err(why) = self.known.refresh() {
                    say_from_guard(&format!(
                        "rampart: process {} does not know which frames are bad: {why}\n",
                        process()
                    ));
                }
            }
            Sight::Ended | Sight::Died if server.is_required => {
                say_from_guard(&format!(
                    "rampart: `rampart run` is gone: process {} is stopped, since --require-server was given\n",
                    process()
                ));
                self.exit();
            }
            Sight::Ended => self.shared.nobody_reads(),
            Sight::Died => {
                self.shared.nobody_reads();
                let folder = server.folder.display();
                say_from_guard(&format!(
                    "rampart: `rampart run` has died: process {} goes on under guard, but no bad frame goes on the map;                      its report stays in {folder}\n",
                    process()
                ));
            }
        }
    }

    /// In the maintenance thread: ends the process if no thread of the program is left.
    fn look_at_program(&self, program: &mut ProgramThreads) {
        if let Some(status) = program.look() {
            self.guard.verify_all();
            self.write_down();
            status.end()
        }
    }
}
