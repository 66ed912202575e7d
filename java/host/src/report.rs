//! What the collections did, as one JSON document.

use std::io;
use std::path::Path;
use std::time::Duration;

use rampart_heap::wasmtime::CollectionLog;
use rampart_heap::{Collection, HeapFrameCounts};
use serde_json::{Value, json};

/// Writes the report to a file.
///
/// # Errors
/// As the system has it.
pub fn write(path: &Path, log: &CollectionLog, ran: Option<Duration>) -> io::Result<()> {
    std::fs::write(path, format!("{:#}\n", document(log, ran)))
}

fn document(log: &CollectionLog, ran: Option<Duration>) -> Value {
    let collections: Vec<Value> =
        log.pauses.iter().map(|(kind, pause)| json!({"kind": name(*kind), "pause_ns": nanoseconds(*pause)})).collect();
    json!({
        "schema": "rampart.java/1",
        "program_ns": ran.map(nanoseconds),
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
        "table_bytes": log.metadata,
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

/// The most memory that this process had (proc_pid_status(5)); `None` if the kernel does not say.
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

const fn name(kind: Collection) -> &'static str {
    match kind {
        Collection::Nursery => "nursery",
        Collection::Full => "full",
        Collection::Compacting => "compacting",
    }
}
