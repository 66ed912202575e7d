//! Commands of `rampart map`, and their options.

use std::num::NonZero;

use clap::{Subcommand, ValueEnum};
use rampart_memory::Frame;

/// Commands of `rampart map`.
#[derive(Debug, Subcommand)]
pub enum MapCommand {
    /// Show the known bad frames
    Show {
        /// Show those that emulated faults made bad instead
        #[arg(long)]
        emulated: bool,
        /// Print one JSON document instead of text
        #[arg(long)]
        json: bool,
    },
    /// Print the bad frames in a form that a boot loader or kernel takes
    Export {
        /// The form
        #[arg(long, value_enum)]
        format: ExportFormat,
        /// With memmap: print at most so many ranges, which then include good frames between bad ones
        #[arg(long, value_name = "N")]
        ranges: Option<NonZero<usize>>,
    },
    /// Retire all known bad frames again, after a boot
    Restore {
        /// Print one JSON document instead of text
        #[arg(long)]
        json: bool,
    },
    /// Put a frame on the map by hand
    Add {
        /// The frame number, such as 0x1a2b3
        frame: Frame,
        /// Print one JSON document instead of text
        #[arg(long)]
        json: bool,
    },
    /// Take a frame off the map
    Forget {
        /// The frame number, such as 0x1a2b3
        frame: Frame,
        /// Print one JSON document instead of text
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
