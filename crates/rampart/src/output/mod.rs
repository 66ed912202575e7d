//! Output for people and programs: text, JSON, pages, charts, progress, and files that are never left half-written.

pub mod chart;
pub mod colour;
pub mod csv;
pub mod daemon;
pub mod file;
pub mod html;
pub mod page_trace;
pub mod progress;
pub mod report;
pub mod text;
pub mod verbosity;
