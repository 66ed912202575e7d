//! Options of `rampart heap`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use rampart_heap::wear::{Clustering, FailurePercent};

use super::setups::HeapFigure;
use crate::parsing::clustering;

/// Commands of `rampart heap`.
#[derive(Clone, Debug, Subcommand)]
pub enum HeapCommand {
    /// Run Java programs with different rates and distributions of failed lines, and record their times
    Bench(BenchArguments),
    /// Show figures 3 to 10 of Gao13 (docs/references.md) from the recorded runs, next to what that paper found, and
    /// our heap beside a copying collector
    Figures(FiguresArguments),
    /// Draw the blocks and lines of a small heap before and after a collection
    Show(ShowArguments),
    /// Simulate wear, and show how much memory is left when lines have failed: by whole pages, by lines, and clustered
    Usable(UsableArguments),
}

/// Options of `rampart heap bench`.
#[derive(Clone, Debug, Args)]
pub struct BenchArguments {
    /// The folder of the results: runs that are recorded there are skipped
    #[arg(long, value_name = "FOLDER", default_value = "heap-results")]
    pub results: PathBuf,
    /// Only the runs for this figure of Gao13, or for `copying`; may be given several times [default: all of Gao13,
    /// which takes many hours]
    #[arg(long = "figure", value_name = "FIGURE", value_enum)]
    pub chosen: Vec<HeapFigure>,
    /// Only this program; may be given several times
    #[arg(long = "program", value_name = "NAME")]
    pub programs: Vec<String>,
    /// Runs per program and setting, each with another seed, and so with other failed lines
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub runs: u64,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
    /// The folder of the Java toolchain that java/build makes [default: as for `rampart java`]
    #[arg(long, value_name = "FOLDER", env = "RAMPART_JAVA_KIT")]
    pub kit: Option<PathBuf>,
}

/// Options of `rampart heap figures`.
#[derive(Clone, Debug, Args)]
pub struct FiguresArguments {
    /// The folder of the results
    #[arg(long, value_name = "FOLDER", default_value = "heap-results")]
    pub results: PathBuf,
    /// Write the drawings to this HTML file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Options of `rampart heap show`.
#[derive(Clone, Debug, Args)]
pub struct ShowArguments {
    /// Write the drawings to this HTML file [default: print how many lines are free, used, marked and failed]
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// The share of memory lines (64 B) that have failed, at random: 0% to 90%, or 100%
    #[arg(long, value_name = "PERCENT", default_value = "25%")]
    pub holes: FailurePercent,
    /// Simulate hardware that collects the failed lines of each region at one end: pages per region, or 0 for none
    #[arg(long, value_name = "PAGES", default_value = "2", value_parser = clustering())]
    pub cluster: Clustering,
    /// The seed of the failed lines, and of the program that fills the heap
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Options of `rampart heap usable`.
#[derive(Clone, Debug, Args)]
pub struct UsableArguments {
    /// Write the drawings to this HTML file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// The seed of the simulated endurance of each line
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

impl BenchArguments {
    /// The figures whose runs are made.
    pub fn figures(&self) -> Vec<HeapFigure> {
        if self.chosen.is_empty() { HeapFigure::of_paper() } else { self.chosen.clone() }
    }
}
