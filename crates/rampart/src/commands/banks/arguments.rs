//! Options and commands of `rampart banks`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use rampart_banks::{AllocatorName, BankPowerState, HOLE_END, PowerModel, SyntheticLoad};
use rampart_memory::Bytes;

use crate::parsing::{parse_patience, parse_power_of_two, parse_time};

/// Options of `rampart banks`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BanksArguments {
    /// What to do [default: show all blocks]
    #[command(subcommand)]
    pub command: Option<BanksCommand>,
    /// The size of a bank, a power of two [default: as the firmware says, else 256MiB, and 128MiB with up to 4GiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_power_of_two)]
    pub bank: Option<Bytes>,
    /// Write a page with a picture of all blocks
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Commands of `rampart banks`.
#[derive(Debug, Subcommand)]
pub enum BanksCommand {
    /// Take memory offline, the blocks that are the cheapest to empty first; without --apply, only show which
    Consolidate(ConsolidateArguments),
    /// Record the page allocations of the whole machine while a program runs
    Record(RecordArguments),
    /// Replay recorded page allocations on a simulated machine, and count the banks that could go
    Replay(ReplayArguments),
    /// Keep three pools: blocks for the kernel, blocks for programs, and the rest offline; without --apply, show them
    Pools(PoolsArguments),
    /// Bring the blocks that `consolidate` and `pools` changed online again, each in its former zone
    Restore(RestoreArguments),
}

/// Options of `rampart banks consolidate`.
#[derive(Debug, Args)]
pub struct ConsolidateArguments {
    /// How much memory to have offline, as a share of all memory or as a size
    #[arg(long, value_name = "SHARE|SIZE", value_parser = parse_target)]
    pub target: OfflineTarget,
    /// Take the blocks offline
    #[arg(long, conflicts_with = "dry_run")]
    pub apply: bool,
    /// Only show which blocks would go (the default)
    #[arg(long)]
    pub dry_run: bool,
    /// How much of each node's memory stays free
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = parse_part)]
    pub reserve: u32,
    /// End once programs wait for memory for more than this share of the time (`some` of the kernel's PSI)
    #[arg(long, value_name = "SHARE", default_value = "10%", value_parser = parse_limit)]
    pub pressure_limit: u32,
    /// How long to try each block; then it is left, and tried twice more later
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_time)]
    pub deadline: Duration,
    /// The size of a bank, a power of two [default: as the firmware says, else 256MiB, and 128MiB with up to 4GiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_power_of_two)]
    pub bank: Option<Bytes>,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Options of `rampart banks pools`.
#[derive(Debug, Args)]
pub struct PoolsArguments {
    /// Make the pools and keep them until Ctrl-C, then restore all blocks
    #[arg(long, conflicts_with = "dry_run")]
    pub apply: bool,
    /// Only show how the pools would begin (the default)
    #[arg(long)]
    pub dry_run: bool,
    /// How much of each node's memory stays free
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = parse_part)]
    pub reserve: u32,
    /// How much of each node's memory stays with the kernel at least
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = parse_part)]
    pub core: u32,
    /// How long memory must lie idle before a block goes offline
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_time)]
    pub dwell: Duration,
    /// How long to try to empty a block; then it rests, each time longer
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_time)]
    pub deadline: Duration,
    /// End after this time, as with Ctrl-C
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time)]
    pub for_: Option<Duration>,
    /// Print one JSON object a line: each event when it happens
    #[arg(long)]
    pub json: bool,
}

/// The loads that `rampart banks replay` makes up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ReplayLoad {
    /// 10 to 50 % of the memory is in use
    Light,
    /// 30 to 80 % is, and from time to time very many small files are created and deleted
    Medium,
    /// 5 to 90 % is
    Wide,
    /// 40 to 95 % is, with 450,000 open files and 10,000 processes on 32 GiB
    KernelHeavy,
}

impl From<ReplayLoad> for SyntheticLoad {
    fn from(load: ReplayLoad) -> Self {
        match load {
            ReplayLoad::Light => Self::Light,
            ReplayLoad::Medium => Self::Medium,
            ReplayLoad::Wide => Self::Wide,
            ReplayLoad::KernelHeavy => Self::KernelHeavy,
        }
    }
}

/// The allocators that `rampart banks replay` knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ReplayAllocator {
    /// The buddy system of Linux
    Buddy,
    /// An array of banks: the kernel takes the lowest bank with room, programs the highest
    Array,
    /// Lists of banks: the kernel's, those of programs, and free ones
    List,
    /// Adaptive-Buddy: a buddy system for each of three pools of banks
    Adaptive,
    /// Adaptive-Buddy, but the kernel takes any bank of programs instead of the emptiest
    AdaptiveArbitrary,
    /// Three pools of banks, without lists of blocks: the fullest bank with room gets the next page
    Fullest,
}

impl From<ReplayAllocator> for AllocatorName {
    fn from(allocator: ReplayAllocator) -> Self {
        match allocator {
            ReplayAllocator::Buddy => Self::Buddy,
            ReplayAllocator::Array => Self::Array,
            ReplayAllocator::List => Self::List,
            ReplayAllocator::Adaptive => Self::Adaptive,
            ReplayAllocator::AdaptiveArbitrary => Self::AdaptiveArbitrary,
            ReplayAllocator::Fullest => Self::Fullest,
        }
    }
}

/// Options of `rampart banks record`.
#[derive(Debug, Args)]
pub struct RecordArguments {
    /// Write the trace to this file, which must not exist; compressed if its name ends in .zst
    #[arg(long, value_name = "FILE", default_value = "pages.pat.zst")]
    pub out: PathBuf,
    /// Record for this time at most; the program then runs on to its end, unrecorded
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time)]
    pub for_: Option<Duration>,
    /// How much memory of each CPU holds events until they are read
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = parse_buffer)]
    pub buffer: Bytes,
    /// Print one JSON document instead of text, on standard error: standard output is the program's
    #[arg(long)]
    pub json: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// What `rampart banks replay` takes offline banks to be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum OffState {
    /// The bank keeps its data: 7 % of full power
    SelfRefresh,
    /// The bank loses its data: less than 1 % of full power, counted as 1 %
    DeepPowerDown,
    /// The bank has no power
    Unpowered,
}

impl From<OffState> for BankPowerState {
    fn from(state: OffState) -> Self {
        match state {
            OffState::SelfRefresh => Self::SelfRefresh,
            OffState::DeepPowerDown => Self::DeepPowerDown,
            OffState::Unpowered => Self::Unpowered,
        }
    }
}

/// Options of the power of banks.
#[derive(Debug, Args)]
pub struct PowerArguments {
    /// The state of banks in the offline pool, for the energy
    #[arg(long, value_name = "STATE", value_enum, default_value_t = OffState::DeepPowerDown)]
    pub off_state: OffState,
    /// How long a bank takes to go off or come on, at full power [default: it costs nothing]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub change_time: Option<Duration>,
    /// How much of a bank can be read or written in a second, for pages that move [default: moving costs nothing]
    #[arg(long, value_name = "SIZE", value_parser = parse_some_bytes)]
    pub bandwidth: Option<Bytes>,
    /// What a GiB of memory draws at full power; then energy is in joules too
    #[arg(long, value_name = "WATTS", value_parser = parse_watts)]
    pub watts_per_gib: Option<f64>,
}

impl From<&PowerArguments> for PowerModel {
    fn from(arguments: &PowerArguments) -> Self {
        Self {
            off_state: arguments.off_state.into(),
            change: arguments.change_time,
            bandwidth: arguments.bandwidth,
            watts_per_gib: arguments.watts_per_gib,
        }
    }
}

/// Options of `rampart banks replay`.
#[derive(Debug, Args)]
pub struct ReplayArguments {
    /// Traces, replayed one after the other
    #[arg(value_name = "TRACE", required_unless_present = "load")]
    pub traces: Vec<PathBuf>,
    /// Instead of traces, a made-up load: light uses 10 to 50 % of the memory, medium 30 to 80 %
    #[arg(long, value_name = "LOAD", value_enum, conflicts_with_all = ["traces", "loops", "survivors"])]
    pub load: Option<ReplayLoad>,
    /// How much simulated time it takes; all traces are replayed until at least so much has passed [default: 2h of a
    /// made-up load; traces: see --loops]
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time, conflicts_with = "loops")]
    pub for_: Option<Duration>,
    /// The nodes (NUMA) of the simulated machine
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub nodes: u32,
    /// So many banks of a node are interleaved, and go offline only together
    #[arg(long, value_name = "WAYS", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub interleave: u32,
    /// The allocator of the simulated machine
    #[arg(long, value_enum, default_value_t = ReplayAllocator::Buddy)]
    pub allocator: ReplayAllocator,
    /// The memory of the simulated machine [default: 4GiB, or the power of two of which traces use up to 75 %]
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<Bytes>,
    /// How much of the memory lies below 4GiB, if a hole is there: the rest is another zone, and comes first
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = parse_low_memory)]
    pub low_memory: Bytes,
    /// The size of a bank, a power of two of at least 4MiB [default: 256MiB, and 128MiB with up to 4GiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_power_of_two)]
    pub bank: Option<Bytes>,
    /// How often all traces are replayed
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub loops: u32,
    /// How much of the kernel's memory that is in use at the end of a trace stays for good
    #[arg(long, value_name = "SHARE", default_value = "10%", value_parser = parse_part)]
    pub survivors: u32,
    /// How much memory stays free when banks go offline
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = parse_part)]
    pub reserve: u32,
    /// How long memory must be a surplus until a full bank is emptied; half as long for one that is half full
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_patience)]
    pub patience: Duration,
    /// Leave pages where they are, so that banks go offline only when their last page is freed
    #[arg(long)]
    pub no_migration: bool,
    /// What banks draw
    #[command(flatten)]
    pub power: PowerArguments,
    /// The seed of all random choices
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Options of `rampart banks restore`.
#[derive(Debug, Args)]
pub struct RestoreArguments {
    /// Bring other offline blocks online too, in the zone that the kernel chooses
    #[arg(long)]
    pub all: bool,
    /// How long to try to empty each block that is online in another zone than before
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_time)]
    pub deadline: Duration,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// How much memory to have offline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfflineTarget {
    /// Per cent of all memory.
    Percent(u32),
    /// At least this much.
    Size(Bytes),
}

impl OfflineTarget {
    /// The target on a machine with this much memory.
    #[must_use]
    pub const fn of(self, memory: Bytes) -> Bytes {
        match self {
            Self::Percent(percent) => {
                Bytes::new(memory.get() / 100 * percent as u64 + (memory.get() % 100 * percent as u64).div_ceil(100))
            }
            Self::Size(size) => size,
        }
    }
}

/// A share such as `30%`, or a size such as `2GiB`.
fn parse_target(text: &str) -> Result<OfflineTarget, String> {
    if text.ends_with('%') {
        return parse_part(text).map(OfflineTarget::Percent);
    }
    text.parse().map(OfflineTarget::Size).map_err(|_| "give a share such as 30%, or a size such as 2GiB".to_owned())
}

/// A size of a buffer, from 64 KiB to 1 GiB.
fn parse_buffer(text: &str) -> Result<Bytes, String> {
    let sizes = Bytes::new(64 << 10)..=Bytes::from_mib(1 << 10);
    let size = text.parse().ok().filter(|size| sizes.contains(size));
    size.ok_or_else(|| "give a size from 64KiB to 1GiB, such as 16MiB".to_owned())
}

/// A part of the first 4 GiB, in whole blocks of the largest order.
fn parse_low_memory(text: &str) -> Result<Bytes, String> {
    let block = Bytes::from_mib(4).get();
    let size = text.parse().ok().filter(|size: &Bytes| *size <= HOLE_END && size.get().is_multiple_of(block));
    size.ok_or_else(|| "give a multiple of 4MiB up to 4GiB, such as 2GiB".to_owned())
}

/// A size of at least a byte.
fn parse_some_bytes(text: &str) -> Result<Bytes, String> {
    match text.parse() {
        Ok(Bytes::ZERO) => Err("give at least 1B, such as 10GiB".to_owned()),
        Ok(bytes) => Ok(bytes),
        Err(_) => Err("give a size such as 10GiB".to_owned()),
    }
}

/// Watts of a GiB, from a millionth of a watt to a million.
fn parse_watts(text: &str) -> Result<f64, String> {
    let watts = text.parse().ok().filter(|watts| (1e-6..=1e6).contains(watts));
    watts.ok_or_else(|| "give watts from 0.000001 to 1000000, such as 1.3".to_owned())
}

/// A share of the time, from 0% to 100%, which is no limit.
fn parse_limit(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix('%').and_then(|number| number.parse().ok());
    number
        .filter(|percent| *percent <= 100)
        .ok_or_else(|| "give whole per cent from 0% to 100%, such as 10%".to_owned())
}

/// A part of a whole, from 0% to 99%.
fn parse_part(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix('%').and_then(|number| number.parse().ok());
    number.filter(|percent| *percent < 100).ok_or_else(|| "give whole per cent from 0% to 99%, such as 30%".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watts_are_a_number_above_zero() {
        assert_eq!([parse_watts("1.3"), parse_watts("1e-6"), parse_watts("1000000")], [Ok(1.3), Ok(1e-6), Ok(1e6)]);
        for wrong in ["0", "-1", "nan", "inf", "1e7", "1 W", ""] {
            assert!(parse_watts(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_target_is_a_share_or_a_size() {
        let memory = Bytes::from_mib(1000);
        let target = |text| parse_target(text).map(|target| target.of(memory).get());
        assert_eq!([target("30%"), target("0%"), target("1GiB")], [Ok(300 << 20), Ok(0), Ok(1 << 30)]);
        assert_eq!(OfflineTarget::Percent(99).of(Bytes::new(u64::MAX)).get(), u64::MAX / 100 * 99 + 15);
        for wrong in ["100%", "-1%", "%", "30 %", "half", ""] {
            assert!(target(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_memory_below_the_hole_is_some_of_the_first_4_gib() {
        let parsed = |text| parse_low_memory(text).ok();
        assert_eq!(["0B", "2GiB", "4GiB"].map(parsed), [0, 2, 4].map(|gib: u64| Some(Bytes::from_mib(gib << 10))));
        assert_eq!(["5GiB", "4100MiB", "2MiB", "6MiB", "-4MiB", "two"].map(parsed), [None; 6]);
    }
}
