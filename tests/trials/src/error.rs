//! Errors of a trial itself. The result of a completed trial is no error.

use std::io;

/// Why a trial could not run.
#[derive(Debug, displaydoc::Display, thiserror::Error)]
pub enum Error {
    /// cannot {what}: {cause}
    Io {
        /// The operation.
        what: &'static str,
        /// The system's error.
        cause: io::Error,
    },
    /// cannot compile {0}: is a C compiler installed?
    Compile(String),
    /// page {page} was not locked within {seconds} s
    NeverLocked {
        /// The victim's page.
        page: usize,
        /// The time waited.
        seconds: u64,
    },
    /// page {0} was unlocked each time before it could be corrupted
    NeverCorrupted(usize),
    /// the report of `rampart run` lacks `{0}`
    NoCount(&'static str),
    /// the victim said `{0}`
    Said(String),
}

impl Error {
    /// For `map_err`.
    pub(crate) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |cause| Self::Io { what, cause }
    }
}
