//! Options of `rampart java`.

use std::ffi::OsString;
use std::num::NonZero;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use rampart_memory::Bytes;

/// Options of `rampart java`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  rampart java --holes 25% --cluster 2 -- -jar app.jar input.txt\n  \
                        sudo rampart java --map --gc-log -- -jar app.jar\n  \
                        rampart java --gc-log -- -Xmx64m -cp classes:lib/* org.example.Main")]
pub struct JavaArguments {
    /// The share of the heap's lines of 64 B that have failed, at random: 0% to 90%
    #[arg(long, value_name = "PERCENT", default_value = "0%", value_parser = parse_share)]
    pub holes: FailedPercent,
    /// Put the heap on known frames of this machine, and leave out the failed lines of those that are on its map of bad
    /// frames (`rampart map`); needs root
    #[arg(long, conflicts_with_all = ["holes", "cluster", "seed"])]
    pub map: bool,
    /// For tests: one line has failed, too, in each frame whose number is a multiple of this
    #[arg(long, value_name = "NUMBER", requires = "map", hide = true)]
    pub emulate_bad_frames: Option<NonZero<u64>>,
    /// The pages among which the memory clusters its failed lines: 0 for none
    #[arg(long, value_name = "PAGES", value_enum, default_value = "0")]
    pub cluster: ClusterPages,
    /// The working memory of the heap, as -Xmx: pages are added to make up for failed lines
    #[arg(long, value_name = "SIZE", value_parser = parse_heap, default_value = "256MiB")]
    pub heap: Bytes,
    /// The size of the heap's lines in bytes
    #[arg(long, value_enum, default_value = "256")]
    pub line: LineBytes,
    /// The seed of the failed lines
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Throw an exception where the program would read an object whose data is lost with a line, instead of ending the
    /// program; makes all accesses slower
    #[arg(long)]
    pub throw_losses: bool,
    /// Say on standard error what the collections did when the program ends: how many there were, and how long the
    /// program stood still
    #[arg(long)]
    pub gc_log: bool,
    /// The same as one JSON document, on standard error: standard output is the program's
    #[arg(long, conflicts_with = "gc_log")]
    pub json: bool,
    /// The folder with the compiler and the host of Java programs, as java/build makes it [default:
    /// lib/rampart/java beside the folder of this program, or target/java of its tree]
    #[arg(long, value_name = "FOLDER", env = "RAMPART_JAVA_KIT")]
    pub kit: Option<PathBuf>,
    /// What `java` would be given: [-Xmx<size>] (-jar FILE | -cp PATH CLASS) [ARGUMENT...]
    #[arg(last = true, required = true, value_name = "JAVA-ARGUMENT")]
    pub java: Vec<OsString>,
}

/// A share of lines in per cent, from 0 to 90.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FailedPercent(pub f64);

/// The pages of a region in which the memory clusters failed lines [Gao13, 3.1.2].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ClusterPages {
    /// It does not cluster
    #[value(name = "0")]
    None,
    /// Each page by itself
    #[value(name = "1")]
    One,
    /// Two pages
    #[value(name = "2")]
    Two,
    /// Four pages
    #[value(name = "4")]
    Four,
}

/// The size of the heap's lines [Gao13, 6.3].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LineBytes {
    /// As the memory has them
    #[value(name = "64")]
    L64,
    /// Two of the memory's
    #[value(name = "128")]
    L128,
    /// Four of the memory's
    #[value(name = "256")]
    L256,
}

fn parse_share(text: &str) -> Result<FailedPercent, String> {
    let percent: Option<f64> = text.strip_suffix('%').unwrap_or(text).parse().ok();
    let percent = percent.filter(|percent| (0.0..=90.0).contains(percent));
    percent.map(FailedPercent).ok_or_else(|| "give a share from 0% to 90%".to_owned())
}

/// A size that a heap can have.
pub fn parse_heap(text: &str) -> Result<Bytes, String> {
    let bytes: Bytes = text.parse().map_err(|error: rampart_memory::ParseSizeError| error.to_string())?;
    let fits = (Bytes::from_mib(1)..=Bytes::from_mib(1024)).contains(&bytes);
    if fits { Ok(bytes) } else { Err("give from 1MiB to 1GiB".to_owned()) }
}
