//! What the collections did, as one JSON document.

use std::io;
use std::path::Path;

use rampart_heap::Collection;
use rampart_heap::wasmtime::CollectionLog;
use serde_json::{Value, json};

/// Writes the report to a file.
///
/// # Errors
/// As the system has it.
pub fn write(path: &Path, log: &CollectionLog) -> io::Result<()> {
    std::fs::write(path, format!("{:#}\n", document(log)))
}

fn document(log: &CollectionLog) -> Value {
    let collections: Vec<Value> = log
        .pauses
        .iter()
        .map(|(kind, pause)| json!({"kind": name(*kind), "pause_ns": u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX)}))
        .collect();
    json!({
        "schema": "rampart.java/1",
        "collections": collections,
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

const fn name(kind: Collection) -> &'static str {
    match kind {
        Collection::Nursery => "nursery",
        Collection::Full => "full",
        Collection::Compacting => "compacting",
    }
}
