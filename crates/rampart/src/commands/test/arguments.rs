//! Options of `rampart test`.

use std::num::NonZero;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use rampart_march::execute::MarchEngine;
use rampart_march::{Fidelity, MarchChoice};
use rampart_memory::fault::InjectionSpec;
use rampart_memory::{Bytes, FrameRange};

use crate::parsing::{
    MethodChoice, SequenceChoice, parse_instructions, parse_march_test, parse_memory, parse_rest, parse_time,
};

/// Where the memory of a test comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SourceChoice {
    /// Memory that is free, claimed as any program does
    Free,
    /// Frames that the kernel module hands over (`rampart kernel load`; root)
    Kernel,
}

/// Options of `rampart test`.
#[derive(Debug, Args)]
pub struct TestArguments {
    /// How much memory to test, such as 4GiB [default: all free memory except a reserve]
    #[arg(long, value_name = "SIZE", value_parser = parse_memory)]
    pub memory: Option<Bytes>,
    /// Where the memory comes from [default: kernel if frames are chosen, else free]
    #[arg(long, value_enum)]
    pub source: Option<SourceChoice>,
    /// Test these frames, such as 0x40000..0x80000: without the last one; may be given more than once
    #[arg(long, value_name = "FIRST..END", value_delimiter = ',')]
    pub frames: Vec<FrameRange>,
    /// Test frames of this node only; may be given more than once
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub node: Vec<u32>,
    /// Test frames of this DIMM only, by the name of its socket, such as DIMM_A1
    #[arg(long, value_name = "NAME")]
    pub dimm: Option<String>,
    /// Which frames are on which DIMM: a TOML file with lines such as A1 = ["0x40000..0x80000"] [default: what the
    /// firmware says]
    #[arg(long, value_name = "FILE", requires = "dimm")]
    pub dimm_map: Option<PathBuf>,
    /// Test also frames in use: their contents are first moved to other frames
    #[arg(long)]
    pub used: bool,
    /// The march test: a name (`rampart march list`), or a test in march notation: '*(w0); ^(r0,w1); v(r1,w0)'
    #[arg(long, value_name = "TEST", default_value = "March C-", value_parser = parse_march_test)]
    pub march: MarchChoice,
    /// How thorough: fidelity N runs 2N data patterns; fidelity 10 tells any two bits of a line apart
    #[arg(long, value_name = "N", default_value = "1")]
    pub fidelity: Fidelity,
    /// The address sequence in which the test visits lines
    #[arg(long, value_enum, default_value_t = SequenceChoice::Both)]
    pub sequence: SequenceChoice,
    /// How many CPUs test [default: half of those that this process may use]
    #[arg(long, value_name = "N")]
    pub threads: Option<NonZero<usize>>,
    /// Repeat the test until this time has passed, such as 20s, 10m, 2h
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time)]
    pub duration: Option<Duration>,
    /// Run so many passes [default: 1, or as many as --for allows]
    #[arg(long, value_name = "N")]
    pub passes: Option<NonZero<u32>>,
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
    /// Emulate faults: 'stuck-at:100,coupling:20,seed=7'
    #[arg(long, value_name = "FAULTS")]
    pub inject: Option<InjectionSpec>,
    /// The seed of random data backgrounds
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}
