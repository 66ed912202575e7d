//! What the collections did, as one JSON document.

use std::io;
use std::path::Path;
use std::time::Duration;

use rampart_heap::wasmtime::{CollectionLog, FailureLog, HeapShare};
use rampart_heap::{Collection, HeapFrameCounts};
use serde_json::{Value, json};

use crate::program::MainTime;
use crate::usage::peak_bytes;

/// Writes the report to a file.
///
/// # Errors
/// As the system has it.
pub fn write(path: &Path, shared: &HeapShare, ran: Option<MainTime>) -> io::Result<()> {
    std::fs::write(path, format!("{:#}\n", document(&shared.log(), &shared.failures.log(), ran)))
}

fn document(log: &CollectionLog, failures: &FailureLog, ran: Option<MainTime>) -> Value {
    let collections: Vec<Value> =
        log.pauses.iter().map(|(kind, pause)| json!({"kind": name(*kind), "pause_ns": nanoseconds(*pause)})).collect();
    json!({
        "schema": "rampart.java/1",
        "program_ns": ran.map(|ran| nanoseconds(ran.elapsed)),
        "program_processor_ns": ran.and_then(|ran| ran.processor).map(nanoseconds),
        "peak_bytes": peak_bytes(),
        "collections": collections,
        "frames": log.frames.map(frames),
        "pages_changed": log.counts.changed_pages,
        "objects_marked": log.counts.marked,
        "objects_moved": log.counts.moved,
        "bytes_moved": log.counts.moved_bytes,
        "pages_replaced": log.counts.replaced,
        "cards_found_dirty": log.counts.cards,
        "perfect_pages_requested": log.demand.requested,
        "perfect_pages_borrowed": log.demand.borrowed,
        "most_pages_borrowed_at_once": log.demand.most_borrowed,
        "most_live_bytes": log.counts.most_live_bytes,
        "table_bytes": log.metadata,
        "failures": (failures.raised > 0).then(|| of_failures(failures)),
        "canaries_checked": failures.canaries_checked,
    })
}

fn of_failures(failures: &FailureLog) -> Value {
    let times = |times: &[Duration]| times.iter().copied().map(nanoseconds).collect::<Vec<u64>>();
    json!({
        "raised": failures.raised,
        "raised_outside_of_allocator_and_collector": failures.raised_outside,
        "free": failures.free,
        "young": failures.young,
        "old": failures.old,
        "large": failures.large,
        "without_line": failures.without_line,
        "up_call_ns": times(&failures.up_calls),
        "vacated_ns": times(&failures.vacated),
        "evacuating_ns": times(&failures.evacuating),
    })
}

fn frames(counts: HeapFrameCounts) -> Value {
    json!({
        "pages": counts.pages,
        "imperfect_pages": counts.imperfect,
        "failed_lines": counts.failed_lines,
        "are_pinned": counts.pinning.holds_frames(),
    })
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

const fn name(kind: Collection) -> &'static str {
    match kind {
        Collection::Nursery => "nursery",
        Collection::Full => "full",
        Collection::Compacting => "compacting",
    }
}
