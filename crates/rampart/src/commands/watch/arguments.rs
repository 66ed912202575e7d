//! Options of `rampart watch`. Those that the configuration file has too are `None` unless given: the command line
//! wins.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PathBufValueParser, TypedValueParser as _};
use clap::{Args, ValueEnum};
use rampart_diagnostic::control::PolicyName;
use rampart_diagnostic::daemon::{Share, WatchSource};
use rampart_march::execute::MarchEngine;
use rampart_march::{Fidelity, MarchChoice};
use rampart_memory::fault::InjectionSpec;

use crate::parsing::{MethodChoice, SequenceChoice, parse_instructions, parse_march_test, parse_rest, parse_time};

/// Where the frames to watch come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WatchSourceChoice {
    /// The kernel module if it is loaded, else free memory
    Auto,
    /// Memory that is claimed like any program's
    Free,
    /// Free frames and those in use, by the kernel module
    Kernel,
}

/// Where something goes that need not go anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlet<T> {
    /// Nowhere.
    Off,
    /// There.
    To(T),
}

impl<T> Outlet<T> {
    /// Where it goes, if anywhere.
    pub fn into_option(self) -> Option<T> {
        match self {
            Self::Off => None,
            Self::To(place) => Some(place),
        }
    }
}

/// Options of `rampart watch`.
#[derive(Clone, Debug, Args)]
pub struct WatchArguments {
    /// Where the frames come from
    #[arg(long, value_enum, default_value_t = WatchSourceChoice::Auto)]
    pub source: WatchSourceChoice,
    /// How long a test of a frame stays good; each frame within reach is tested again before that [default: 30m]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub lifetime: Option<Duration>,
    /// The most CPUs that test at once [default: 1]
    #[arg(long, value_name = "N")]
    pub max_cores: Option<u32>,
    /// The most time that testing takes of each of these CPUs [default: 50%]
    #[arg(long, value_name = "PERCENT", value_parser = parse_share)]
    pub max_share: Option<Share>,
    /// The same while programs run, unless the lifetime needs more [default: 5%]
    #[arg(long, value_name = "PERCENT", value_parser = parse_share)]
    pub busy_share: Option<Share>,
    /// How fidelity and CPUs follow demand: comet, fixed, adaptive, fidelity-preserving or error-triggered [default:
    /// adaptive]
    #[arg(long, value_name = "NAME", value_parser = parse_policy)]
    pub policy: Option<PolicyName>,
    /// The lowest fidelity [default: 1]
    #[arg(long, value_name = "N")]
    pub min_fidelity: Option<Fidelity>,
    /// The highest fidelity [default: 32]
    #[arg(long, value_name = "N")]
    pub max_fidelity: Option<Fidelity>,
    /// The configuration file (docs/configuration.md), read again on SIGHUP
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Write events to this file, one JSON object per line; off: do not [default: off]
    #[arg(long, value_name = "FILE", value_parser = PathBufValueParser::new().map(parse_events))]
    pub events: Option<Outlet<PathBuf>>,
    /// Serve metrics for Prometheus on this loopback address, such as 127.0.0.1:9437; off: do not [default: off]
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_metrics)]
    pub metrics: Option<Outlet<SocketAddr>>,
    /// Stop after this time, such as 20s, 10m, 2h
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time)]
    pub duration: Option<Duration>,
    /// The march test: a name (`rampart march list`), or a test in march notation
    #[arg(long, value_name = "TEST", default_value = "March C-", value_parser = parse_march_test)]
    pub march: MarchChoice,
    /// The address sequence in which the test visits lines
    #[arg(long, value_enum, default_value_t = SequenceChoice::Both)]
    pub sequence: SequenceChoice,
    /// The wait of each Del element of the march test
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = parse_time)]
    pub delay: Duration,
    /// Read each block again after this time, to find cells that lose their value slowly; 0s: do not
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_rest)]
    pub retention: Duration,
    /// The instructions that test, by a name of `rampart status`, such as AVX2 [default: the widest of this processor]
    #[arg(long, value_name = "NAME", value_parser = parse_instructions)]
    pub instructions: Option<MarchEngine>,
    /// How writes reach the DRAM [default: the faster of those that bypass this machine's caches]
    #[arg(long, value_enum)]
    pub method: Option<MethodChoice>,
    /// Heed the memory errors of this file instead of the kernel's: one JSON object per line, or a database of
    /// rasdaemon
    #[arg(long, value_name = "FILE")]
    pub errors_file: Option<PathBuf>,
    /// Emulate faults: 'stuck-at:100,seed=7', or in a frame that is named: 'stuck-at@0x1a2b3'
    #[arg(long, value_name = "FAULTS")]
    pub inject: Option<InjectionSpec>,
    /// The seed of random data backgrounds
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print one JSON document at the end, instead of text
    #[arg(long)]
    pub json: bool,
}

impl From<WatchSourceChoice> for WatchSource {
    fn from(choice: WatchSourceChoice) -> Self {
        match choice {
            WatchSourceChoice::Auto => Self::Best,
            WatchSourceChoice::Free => Self::FreeMemory,
            WatchSourceChoice::Kernel => Self::KernelModule,
        }
    }
}

/// What a place is called that is none.
const OFF: &str = "off";

/// A share of a tester's time, such as `50%`.
pub fn parse_share(text: &str) -> Result<Share, String> {
    let number: Option<f64> = text.strip_suffix('%').and_then(|number| number.trim().parse().ok());
    let share = number.and_then(|percent| Share::new(percent / 100.0));
    share.ok_or_else(|| format!("{text:?} is no share: write 0.1% to 100%"))
}

/// A policy that tests ahead of allocation.
pub fn parse_policy(text: &str) -> Result<PolicyName, String> {
    match text.parse::<PolicyName>() {
        Ok(PolicyName::OnDemand) => {
            Err("on-demand tests when a program allocates, which only a kernel sees: give another policy".to_owned())
        }
        Ok(policy) => Ok(policy),
        Err(_) => Err(format!(
            "{text:?} is not a policy: give comet, fixed, adaptive, fidelity-preserving or error-triggered"
        )),
    }
}

/// The file for events, or `off`.
pub fn parse_events(path: PathBuf) -> Outlet<PathBuf> {
    if path.as_os_str() == OFF { Outlet::Off } else { Outlet::To(path) }
}

/// The address for metrics, or `off`.
pub fn parse_metrics(text: &str) -> Result<Outlet<SocketAddr>, String> {
    if text == OFF {
        return Ok(Outlet::Off);
    }
    match text.parse::<SocketAddr>() {
        Ok(address) if address.ip().is_loopback() => Ok(Outlet::To(address)),
        Ok(address) => Err(format!("{} is reached from elsewhere: give 127.0.0.1 or [::1]", address.ip())),
        Err(_) => Err(format!("{text:?} is no address: write 127.0.0.1:9437, or off")),
    }
}
