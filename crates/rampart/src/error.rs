//! What can keep a command from doing what was asked.

use std::io;

/// Why a command could not do what was asked. Each message is one line and says what to do.
#[derive(Debug, displaydoc::Display, thiserror::Error)]
pub enum Error {
    /// standard output was closed
    OutputClosed,
    /// cannot write to standard output: {0}
    Output(#[source] io::Error),
    /// {0}
    Linux(#[from] rampart_linux::Error),
    /// {0}
    Store(#[from] rampart_store::Error),
    /// {0}
    Diagnostic(#[from] rampart_diagnostic::Error),
    /// cannot catch Ctrl-C: {0}
    Signal(#[source] io::Error),
    /// the map cannot be exported: {0}
    Export(#[from] rampart_memory::fault_map::export::Emulated),
    /// frame {0} is not on the map: `rampart map show` lists those that are
    NotOnTheMap(rampart_memory::Frame),
}
