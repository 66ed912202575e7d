//! What can go wrong in a chore.

use std::io;
use std::path::PathBuf;

/// Why a chore did not succeed.
#[derive(Debug, displaydoc::Display, thiserror::Error)]
pub enum Error {
    /// cannot read {path}: {cause}
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
    /// cannot write {path}: {cause}
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
    /// cannot write the parts of {path} that the rules own: {what}
    Marks {
        /// The document.
        path: PathBuf,
        /// The problem with its marks.
        what: String,
    },
    /// the tree is not tidy: {0} of the lines above
    Untidy(usize),
    /// cannot start `{command}`: {cause}
    Start {
        /// The program and its arguments.
        command: String,
        /// The system's error.
        cause: io::Error,
    },
    /// `{0}` failed
    Failed(String),
    /// stage `{stage}` failed: {cause}
    Stage {
        /// Its name.
        stage: &'static str,
        /// Why.
        cause: Box<Error>,
    },
    // Never shown: the number of failures was already printed, on a line that should be the last.
    /// tests failed
    TestsFailed,
    /// README.md has no section `Start` with packages to install and two commands
    NoStart,
    /// apt has no source of {0} here: add one
    NoArchive(&'static str),
    /// there is no {name}: apt-get install {package}
    NoProgram {
        /// Its name.
        name: &'static str,
        /// Debian's package that has it.
        package: &'static str,
    },
    /// cannot read what cargo says of the packages: {0}
    Metadata(serde_json::Error),
    /// no room `{0}`: `cargo xtask mutants` lists them
    NoRoom(String),
    /// no test notices {0} of the mutations above
    Survived(usize),
    /// .ci/required-features: no feature is called `{0}`: tests/skips/src/feature.rs names them
    NoFeature(String),
    /// no fuzz target `{0}`: `cargo xtask fuzz` lists them
    NoFuzzTarget(String),
}
