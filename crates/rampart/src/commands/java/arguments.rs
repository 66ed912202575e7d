//! Options of `rampart java`.

use std::ffi::OsString;
use std::num::NonZero;
use std::path::PathBuf;

use clap::Args;
use rampart_heap::LineSize;
use rampart_heap::wear::{Clustering, FailurePercent, FailureRate};
use rampart_memory::Bytes;

use crate::parsing::{clustering, line_size, parse_size};

/// Options of `rampart java`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  rampart java --holes 25% --cluster 2 -- -jar app.jar input.txt\n  \
                        sudo rampart java --map --gc-log -- -jar app.jar\n  \
                        rampart java --gc-log -- -Xmx64m -cp 'classes:lib/*' org.example.Main")]
pub struct JavaArguments {
    /// The share of memory lines (64 B) that have failed, at random: 0% to 90%, or 100%, with which each program runs
    /// out of memory
    #[arg(long, value_name = "PERCENT", default_value = "0%")]
    pub holes: FailurePercent,
    /// Put the heap on known frames of this machine, and leave out the failed lines of those that are on its map of bad
    /// frames (`rampart map`); needs root
    #[arg(long, conflicts_with_all = ["holes", "cluster", "seed"])]
    pub map: bool,
    /// For tests: one line has failed, too, in each frame whose number is a multiple of this
    #[arg(long, value_name = "NUMBER", requires = "map", hide = true)]
    pub emulate_bad_frames: Option<NonZero<u64>>,
    /// Simulate hardware that collects the failed lines of each region at one end: pages per region, or 0 for none
    #[arg(long, value_name = "PAGES", default_value = "0", value_parser = clustering())]
    pub cluster: Clustering,
    /// Make so many further lines fail in each second, at random times: the heap moves what is on them; not with --map
    #[arg(long, value_name = "NUMBER", conflicts_with = "map")]
    pub failures_per_second: Option<FailureRate>,
    /// For tests: end the program if something is written to a failed line
    #[arg(long, hide = true)]
    pub canaries: bool,
    /// For tests: nearly all failures wait until the program neither allocates nor collects
    #[arg(long, requires = "failures_per_second", hide = true)]
    pub fail_outside: bool,
    /// The usable size of the heap, as -Xmx, which overrides this: pages are added to compensate for failed lines
    #[arg(long, value_name = "SIZE", value_parser = parse_heap, default_value = "256MiB")]
    pub heap: Bytes,
    /// The size of an Immix line, the unit in which the heap reuses memory, in bytes
    #[arg(long, default_value = "256", value_parser = line_size())]
    pub line: LineSize,
    /// Borrow at most this much perfect memory at a time, in pages of 4 KiB; beyond it only when a line fails under an
    /// object that cannot move [default: as much as the heap can pay for]
    #[arg(long, value_name = "SIZE", value_parser = parse_borrow)]
    pub borrow: Option<Bytes>,
    /// The seed of the failed lines
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Throw an exception at each access to an object whose data was lost, instead of aborting the program; slows the
    /// program (by 8 and 21 % in two that were measured)
    #[arg(long)]
    pub throw_losses: bool,
    /// Print a summary of collections and pause times to standard error when the program exits
    #[arg(long)]
    pub gc_log: bool,
    /// Print the summary of --gc-log, with each pause, as one JSON document to standard error: standard output belongs
    /// to the program
    #[arg(long, conflicts_with = "gc_log")]
    pub json: bool,
    /// The folder of the Java toolchain that java/build makes [default: ../lib/rampart/java relative to the folder of
    /// this program, else target/java of the source tree]
    #[arg(long, value_name = "FOLDER", env = "RAMPART_JAVA_KIT")]
    pub kit: Option<PathBuf>,
    /// What `java` would be given: [-XmxSIZE] (-jar FILE | -cp PATH CLASS) [ARGUMENT...]
    #[arg(last = true, required = true, value_name = "JAVA-ARGUMENT")]
    pub java: Vec<OsString>,
}

/// A size that a heap can borrow.
fn parse_borrow(text: &str) -> Result<Bytes, String> {
    let bytes = parse_size(text)?;
    if bytes <= Bytes::from_mib(1024) { Ok(bytes) } else { Err("give at most 1GiB".to_owned()) }
}

/// A size that a heap can have.
pub fn parse_heap(text: &str) -> Result<Bytes, String> {
    let bytes = parse_size(text)?;
    let fits = (Bytes::from_mib(1)..=Bytes::from_mib(1024)).contains(&bytes);
    if fits { Ok(bytes) } else { Err("give from 1MiB to 1GiB".to_owned()) }
}
