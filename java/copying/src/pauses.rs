//! How long each collection took.
//!
//! **Problem.** wasmtime's collector counts nothing and calls nobody. **Idea.** It says in its log when a collection
//! begins and ends. **Why this way.** A clock in its source would make it another collector than the one published.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use log::{LevelFilter, Log, Metadata, Record};

/// The module of the collector, and what it says.
const COLLECTOR: &str = "wasmtime::runtime::vm::gc::enabled::copying";
const BEGINS: &str = "Begin copying collection: processing roots";
const ENDS: &str = "End copying collection";

/// The pauses so far, and when the collection began that is under way.
#[derive(Debug, Default)]
struct Pauses {
    began: Option<Instant>,
    ended: Vec<Duration>,
}

/// Hears what wasmtime says.
struct CollectionListener(Mutex<Pauses>);

static LISTENER: CollectionListener = CollectionListener(Mutex::new(Pauses { began: None, ended: Vec::new() }));

/// Listens from now on. Before, wasmtime has much to say while it compiles.
pub fn listen() {
    if log::set_logger(&LISTENER).is_ok() {
        log::set_max_level(LevelFilter::Trace);
    }
}

/// Listens no longer; returns how long each collection took.
pub fn pauses() -> Vec<Duration> {
    log::set_max_level(LevelFilter::Off);
    let mut pauses = LISTENER.0.lock().unwrap_or_else(PoisonError::into_inner);
    std::mem::take(&mut pauses.ended)
}

impl Pauses {
    fn hear(&mut self, said: &str, now: Instant) {
        match said {
            BEGINS => self.began = Some(now),
            ENDS => self.ended.extend(self.began.take().map(|began| now.duration_since(began))),
            _ => {}
        }
    }
}

impl Log for CollectionListener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == COLLECTOR
    }

    fn log(&self, record: &Record<'_>) {
        if let (true, Some(said)) = (self.enabled(record.metadata()), record.args().as_str()) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).hear(said, Instant::now());
        }
    }

    fn flush(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_the_time_from_the_begin_of_a_collection_to_its_end() {
        let (mut pauses, start) = (Pauses::default(), Instant::now());
        let said = [(ENDS, 0), (BEGINS, 1), ("Begin processing worklist increment", 2), (ENDS, 5), (BEGINS, 9)];
        for (said, at) in said {
            pauses.hear(said, start + Duration::from_millis(at));
        }
        assert_eq!(pauses.ended, [Duration::from_millis(4)]);
    }
}
