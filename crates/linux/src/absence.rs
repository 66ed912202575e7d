//! Features that a machine lacks, reported so that the user can act.

use std::io;
use std::path::Path;

use serde::Serialize;

/// Why something is impossible here, and what to do about it; one line each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, displaydoc::Display)]
#[displaydoc("{reason}; {remedy}")]
pub struct Absence {
    /// The missing feature.
    pub reason: String,
    /// How to get it.
    pub remedy: String,
}

impl Absence {
    pub(crate) fn new(reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { reason: reason.into(), remedy: remedy.into() }
    }

    /// The absence behind a failed `open`, `read` or `write` of a kernel file. `kernel` is the option that a kernel
    /// without that file lacks, such as `CONFIG_PSI`.
    pub(crate) fn of_file(path: &Path, cause: &io::Error, kernel: &str) -> Self {
        let path = path.display();
        match cause.kind() {
            io::ErrorKind::NotFound => {
                Self::new(format!("{path} does not exist"), format!("use a kernel with {kernel}"))
            }
            io::ErrorKind::PermissionDenied => {
                Self::new(format!("{path} may not be opened by this user"), "run as root, outside of a container")
            }
            io::ErrorKind::ReadOnlyFilesystem => {
                Self::new(format!("{path} is mounted read-only"), "run outside of a container")
            }
            _ => Self::new(format!("{path} cannot be opened: {cause}"), format!("use a kernel with {kernel}")),
        }
    }
}
