//! The command line.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Parser, ValueEnum};
use rampart_heap::wasmtime::{HeapPlan, HeapShare};
use rampart_heap::wear::{ClusterBytes, FailureShare, RegionPages, cluster_failures, draw_failures};
use rampart_heap::{HeapSettings, LineSize};

/// Run a Java program, compiled to WebAssembly, on memory with failed lines
#[derive(Debug, Parser)]
#[command(version)]
pub struct Arguments {
    /// The working memory of the heap in MiB: pages are added to make up for failed lines
    #[arg(long, value_name = "MIB", default_value = "64", value_parser = clap::value_parser!(u32).range(1..=1024))]
    heap: u32,
    /// The share of lines of 64 B that have failed, at random
    #[arg(long, value_name = "PERCENT", default_value = "0", value_parser = share)]
    holes: FailureShare,
    /// The pages among which the hardware clusters failed lines
    #[arg(long, value_enum, default_value = "0")]
    cluster: Cluster,
    /// The size of the heap's lines in bytes
    #[arg(long, value_enum, default_value = "256")]
    line: Line,
    /// The seed of the places
    #[arg(long, default_value = "1")]
    seed: u64,
    /// Throw where the program would read data that is lost, which makes all accesses slower, instead of ending it
    #[arg(long)]
    pub throw_losses: bool,
    /// Say nothing about the collections
    #[arg(short, long)]
    pub quiet: bool,
    /// The compiled program
    pub module: PathBuf,
    /// Its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Cluster {
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

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Line {
    #[value(name = "64")]
    L64,
    #[value(name = "128")]
    L128,
    #[value(name = "256")]
    L256,
}

/// A share as people write it: `25%` or `25`.
fn share(text: &str) -> Result<FailureShare, String> {
    let percent: Option<f64> = text.trim_end_matches('%').parse().ok();
    let share = percent.filter(|percent| *percent <= 90.0).and_then(|percent| FailureShare::new(percent / 100.0));
    share.ok_or_else(|| "give a share from 0% to 90%".to_owned())
}

impl Arguments {
    /// The heap to be made.
    pub fn plan(&self, shared: Arc<HeapShare>) -> HeapPlan {
        let line = match self.line {
            Line::L64 => LineSize::L64,
            Line::L128 => LineSize::L128,
            Line::L256 => LineSize::L256,
        };
        let pages = self.holes.compensated(256 * self.heap as usize).expect("not everything has failed");
        let drawn = draw_failures(pages, self.holes, ClusterBytes::LINE, self.seed);
        let failed = match self.cluster {
            Cluster::None => drawn,
            Cluster::One => cluster_failures(&drawn, RegionPages::One),
            Cluster::Two => cluster_failures(&drawn, RegionPages::Two),
            Cluster::Four => cluster_failures(&drawn, RegionPages::Four),
        };
        HeapPlan { settings: HeapSettings { line, ..HeapSettings::default() }, failed, shared }
    }
}
