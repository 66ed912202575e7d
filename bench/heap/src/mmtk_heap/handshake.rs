//! How the program and the collector's thread wait for each other.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Where the two meet.
#[derive(Default)]
pub struct Handshake {
    state: Mutex<HandshakeState>,
    changed: Condvar,
}

#[derive(Default)]
struct HandshakeState {
    is_stopped: bool,
    pauses: Vec<f64>,
}

impl Handshake {
    fn state(&self) -> MutexGuard<'_, HandshakeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The program waits until the collection is over.
    pub fn wait(&self) {
        let start = Instant::now();
        let mut state = self.state();
        state.is_stopped = true;
        self.changed.notify_all();
        while state.is_stopped {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.pauses.push(start.elapsed().as_secs_f64());
    }

    /// The collector waits until the program does.
    pub fn stop_program(&self) {
        let mut state = self.state();
        while !state.is_stopped {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The program goes on.
    pub fn resume_program(&self) {
        self.state().is_stopped = false;
        self.changed.notify_all();
    }

    /// How long the program has waited each time, in seconds.
    pub fn pauses(&self) -> Vec<f64> {
        self.state().pauses.clone()
    }
}
