//! Commands of `rampart map`, and their options.

use std::num::NonZero;

use clap::{Subcommand, ValueEnum};
use rampart_memory::Frame;

/// Commands of `rampart map`.
#[derive(Debug, Subcommand)]
pub enum MapCommand {
    /// The bad frames that are known
    Show {
        /// The emulated ones instead
        #[arg(long)]
        emulated: bool,
        /// One JSON document on standard output
        #[arg(long)]
        json: bool,
    },
    /// The bad frames in a form that a boot loader or kernel takes
    Export {
        /// For whom
        #[arg(long, value_enum)]
        format: ExportFormat,
        /// memmap only: at most so many ranges; sound frames between bad ones are given up with them
        #[arg(long, value_name = "N")]
        ranges: Option<NonZero<usize>>,
    },
    /// Retire all known bad frames again; for boot time
    Restore {
        /// One JSON document on standard output
        #[arg(long)]
        json: bool,
    },
    /// Put a frame on the map by hand
    Add {
        /// Frame number, such as 0x1a2b3
        frame: Frame,
        /// One JSON document on standard output
        #[arg(long)]
        json: bool,
    },
    /// Take a frame off the map
    Forget {
        /// Frame number, such as 0x1a2b3
        frame: Frame,
        /// One JSON document on standard output
        #[arg(long)]
        json: bool,
    },
}

/// Forms of the exported map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// The kernel's memmap= option
    Memmap,
    /// GRUB's BadRAM line
    Badram,
    /// JSON
    Json,
}
