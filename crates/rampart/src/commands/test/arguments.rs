//! Options of `rampart test`.

use std::num::NonZero;
use std::time::Duration;

use clap::Args;
use rampart_march::{Fidelity, MarchChoice};
use rampart_memory::Bytes;
use rampart_memory::fault::InjectionSpec;

use crate::parsing::{MethodChoice, Orders, a_test_that_reads, some_memory, some_rest, some_time};

/// Options of `rampart test`.
#[derive(Debug, Args)]
pub struct TestArguments {
    /// How much memory to test, such as 4GiB [default: all that is free, but for a reserve]
    #[arg(long, value_name = "SIZE", value_parser = some_memory)]
    pub memory: Option<Bytes>,
    /// A named test (`rampart march list`), or one in the field's notation: '*(w0); ^(r0,w1); v(r1,w0)'
    #[arg(long, value_name = "TEST", default_value = "March C-", value_parser = a_test_that_reads)]
    pub march: MarchChoice,
    /// How thorough: 2 patterns for each; 10 tell any two bits of a line apart
    #[arg(long, value_name = "N", default_value = "1")]
    pub fidelity: Fidelity,
    /// In which order lines are visited
    #[arg(long, value_enum, default_value_t = Orders::Both)]
    pub order: Orders,
    /// CPUs that test [default: half of those this process may use]
    #[arg(long, value_name = "N")]
    pub threads: Option<NonZero<usize>>,
    /// Repeat until this time has passed, such as 20s, 10m, 2h
    #[arg(long = "for", value_name = "TIME", value_parser = some_time)]
    pub duration: Option<Duration>,
    /// Repeat this often [default: 1, or as often as --for allows]
    #[arg(long, value_name = "N")]
    pub passes: Option<NonZero<u32>>,
    /// How long a Del element of the test waits
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = some_time)]
    pub delay: Duration,
    /// How long what was written rests before it is read once more, for cells that lose their value slowly; 0s: no such
    /// read
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = some_rest)]
    pub retention: Duration,
    /// How writes reach the DRAM [default: the faster of those that bypass this machine's caches]
    #[arg(long, value_enum)]
    pub method: Option<MethodChoice>,
    /// Emulated faults to plant: 'stuck-at:100,coupling:20,seed=7'
    #[arg(long, value_name = "FAULTS")]
    pub inject: Option<InjectionSpec>,
    /// What random backgrounds are drawn from
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// One JSON document on standard output
    #[arg(long)]
    pub json: bool,
}
