//! Options of `rampart noise`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use rampart_linux::CpuNumber;
use rampart_linux::topology::parse_cpus;

use crate::parsing::simulated_time;

/// Options of `rampart noise`.
#[derive(Debug, Args)]
pub struct NoiseArguments {
    /// How long to watch
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = simulated_time)]
    pub duration: Duration,
    /// Times longer than this count as detours
    #[arg(long, value_name = "TIME", default_value = "150ns", value_parser = simulated_time)]
    pub threshold: Duration,
    /// The CPUs to watch, such as 0-1,4; watching keeps them busy [default: all that this process may use]
    #[arg(long, value_name = "CPUS", value_parser = parse_cpu_list)]
    pub cores: Option<Cpus>,
    /// Have the firmware inject a corrected memory error so often (EINJ), and report how long each takes; with
    /// --dry-run, the default is a tenth of --for
    #[arg(long, value_name = "TIME", value_parser = simulated_time)]
    pub errors_every: Option<Duration>,
    /// Show which errors would be injected, when and where, and what that takes here; inject none. Where the firmware
    /// can inject errors, each is prepared, which shows how long the preparation itself takes
    #[arg(long)]
    pub dry_run: bool,
    /// Draw the detours as an HTML page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write all detours to this file, for `rampart project --detours`
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

impl NoiseArguments {
    /// How often errors are injected, or would be, if at all.
    pub fn errors_every(&self) -> Option<Duration> {
        let tenth = || (self.duration / 10).max(Duration::from_nanos(1));
        self.errors_every.or_else(|| self.dry_run.then(tenth))
    }
}

/// A list of CPUs, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpus(pub Vec<CpuNumber>);

fn parse_cpu_list(text: &str) -> Result<Cpus, String> {
    let list = parse_cpus(text).filter(|list| !list.is_empty());
    list.map(Cpus).ok_or_else(|| "no list of CPUs: write one such as 0-3,8, in ascending order".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_a_list_of_at_least_one() {
        assert_eq!(parse_cpu_list("0-1,4"), Ok(Cpus([0, 1, 4].map(CpuNumber).to_vec())));
        for bad in ["", "x", "1-0", "4,1"] {
            assert!(parse_cpu_list(bad).unwrap_err().contains("such as 0-3,8"), "{bad}");
        }
    }
}
