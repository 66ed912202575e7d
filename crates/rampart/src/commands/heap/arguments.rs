//! Options of `rampart heap`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum as _};

use super::setups::HeapFigure;

/// Commands of `rampart heap`.
#[derive(Clone, Debug, Subcommand)]
pub enum HeapCommand {
    /// Run Java programs with many shares and places of failed lines, and keep what that cost
    Bench(BenchArguments),
    /// Draw figures 3 to 10 of Gao13 from what the bench kept, beside what it says
    Figures(FiguresArguments),
    /// Draw the blocks and lines of a small heap before and after a collection
    Show(ShowArguments),
}

/// Options of `rampart heap bench`.
#[derive(Clone, Debug, Args)]
pub struct BenchArguments {
    /// The folder of the results: runs that are there are not made again
    #[arg(long, value_name = "FOLDER", default_value = "heap-results")]
    pub results: PathBuf,
    /// Only the runs for this figure of Gao13; may be given several times [default: all, which takes many hours]
    #[arg(long = "figure", value_name = "NUMBER", value_enum)]
    pub chosen: Vec<HeapFigure>,
    /// Only this program; may be given several times
    #[arg(long = "program", value_name = "NAME")]
    pub programs: Vec<String>,
    /// How often each program runs with the same settings, each time with other places of failed lines
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub runs: u64,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
    /// The folder with the compiler and the host of Java programs
    #[arg(long, value_name = "FOLDER", env = "RAMPART_JAVA_KIT")]
    pub kit: Option<PathBuf>,
}

/// Options of `rampart heap figures`.
#[derive(Clone, Debug, Args)]
pub struct FiguresArguments {
    /// The folder of the results
    #[arg(long, value_name = "FOLDER", default_value = "heap-results")]
    pub results: PathBuf,
    /// Draw them into this page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Options of `rampart heap show`.
#[derive(Clone, Debug, Args)]
pub struct ShowArguments {
    /// Draw them into this page; without it, count them as text
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// The share of lines that have failed, in per cent
    #[arg(long, value_name = "PERCENT", default_value_t = 25, value_parser = clap::value_parser!(u32).range(0..=90))]
    pub holes: u32,
    /// The pages among which the memory clusters its failed lines: 0, 1, 2 or 4
    #[arg(long, value_name = "PAGES", default_value = "2", value_parser = ["0", "1", "2", "4"])]
    pub cluster: String,
    /// The seed of the failed lines, and of the program that fills the heap
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

impl BenchArguments {
    /// The figures whose runs are made.
    pub fn figures(&self) -> Vec<HeapFigure> {
        if self.chosen.is_empty() { HeapFigure::value_variants().to_vec() } else { self.chosen.clone() }
    }
}
