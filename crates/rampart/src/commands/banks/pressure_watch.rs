//! Whether programs wait for memory, asked again and again.
//!
//! The kernel has only the sum of all waits since the boot. So each answer is about the time since the last reading,
//! and a reading serves for a while, as a share of a shorter time shows single waits.

use std::time::{Duration, Instant};

use rampart_linux::Roots;
use rampart_linux::memory_state::Pressure;

/// Programs that wait for memory for this share of the time are pressed.
const PRESSED: f64 = 0.1;

/// A share of less time than this shows single waits.
const INTERVAL: Duration = Duration::from_millis(40);

/// How long programs have waited for memory.
#[derive(Debug, Default)]
pub struct PressureWatch(Option<Reading>);

#[derive(Clone, Copy, Debug)]
struct Reading {
    at: Instant,
    /// How long programs have waited since the boot.
    waited: Duration,
    /// What it said of the time before it.
    pressed: bool,
}

impl PressureWatch {
    /// Whether programs waited for a tenth of the last interval.
    pub fn is_pressed(&mut self, roots: &Roots) -> bool {
        let at = Instant::now();
        if let Some(last) = self.0
            && at.duration_since(last.at) < INTERVAL
        {
            return last.pressed;
        }
        let Some(pressure) = Pressure::read(roots) else { return false };
        let waited = pressure.some.total;
        let pressed = self.0.is_some_and(|last| {
            waited.saturating_sub(last.waited).as_secs_f64() > PRESSED * at.duration_since(last.at).as_secs_f64()
        });
        self.0 = Some(Reading { at, waited, pressed });
        pressed
    }
}
