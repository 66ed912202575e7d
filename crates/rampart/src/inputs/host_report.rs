//! What the host of Java programs reports of a run (`java/host/src/report.rs`).

use serde::Deserialize;

/// The report.
#[derive(Debug, Deserialize)]
pub struct HostReport {
    /// The time of the program's main method; `None` if it did not end by itself.
    pub program_ns: Option<u64>,
    /// What its thread had of a processor, if the kernel says so.
    pub program_processor_ns: Option<u64>,
    /// The most memory that the process had, if the kernel says so.
    pub peak_bytes: Option<u64>,
    pub collections: Vec<ReportedCollection>,
    pub objects_moved: u64,
    pub bytes_moved: u64,
    pub perfect_pages_requested: u64,
    pub perfect_pages_borrowed: u64,
    pub most_pages_borrowed_at_once: u64,
    pub table_bytes: u64,
    /// The host with wasmtime's collector has none.
    #[serde(default)]
    pub cards_found_dirty: u64,
    /// The frames of a heap that knows them.
    pub frames: Option<ReportedFrames>,
    #[serde(default)]
    pub pages_changed: u64,
    /// Lines that failed while the program ran, if there were any.
    pub failures: Option<ReportedFailures>,
}

/// Lines that failed while a program ran.
#[derive(Debug, Deserialize)]
pub struct ReportedFailures {
    pub raised: u64,
    pub free: u64,
    pub young: u64,
    pub old: u64,
    pub large: u64,
    /// How long the heap took to deal with each, without the collection that follows.
    pub up_call_ns: Vec<u64>,
    /// How long after each failure no object was left in its line.
    pub vacated_ns: Vec<u64>,
    /// The collections that moved objects out of failed lines.
    pub evacuating_ns: Vec<u64>,
}

/// The frames of a heap.
#[derive(Debug, Deserialize)]
pub struct ReportedFrames {
    pub pages: u64,
    pub imperfect_pages: u64,
    pub failed_lines: u64,
    pub are_pinned: bool,
}

/// A collection.
#[derive(Debug, Deserialize)]
pub struct ReportedCollection {
    /// `nursery`, `full` or `compacting`.
    pub kind: String,
    pub pause_ns: u64,
}
