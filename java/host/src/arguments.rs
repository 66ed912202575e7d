//! The command line.

use std::collections::HashMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Parser, ValueEnum};
use rampart_heap::wasmtime::{HeapPlan, HeapShare};
use rampart_heap::wear::{
    ClusterBytes, Clustering, FailedLines, FailurePercent, FailureRate, FailureTimes, draw_failures,
};
use rampart_heap::{FailureGrain, FrameMemory, HeapMemory, HeapSettings, LineSize, LinesOfFrame, SimulatedMemory};
use rampart_linux::Roots;

/// Run a Java program, compiled to WebAssembly, on memory with failed lines
#[derive(Debug, Parser)]
#[command(version)]
pub struct Arguments {
    /// The working memory of the heap in KiB: pages are added to make up for failed lines
    #[arg(long, value_name = "KIB", default_value = "65536", value_parser = clap::value_parser!(u32).range(512..=1 << 20))]
    heap: u32,
    /// The share of lines of 64 B that have failed, at random
    #[arg(long, value_name = "PERCENT", default_value = "0", conflicts_with = "frames")]
    holes: FailurePercent,
    /// The pages among which the hardware clusters failed lines
    #[arg(long, value_name = "PAGES", default_value = "0", value_parser = clustering())]
    cluster: Clustering,
    /// The size of the heap's lines in bytes
    #[arg(long, value_name = "BYTES", default_value = "256", value_parser = line_size())]
    line: LineSize,
    /// What a failed line of the memory takes from the heap
    #[arg(long, value_enum, default_value = "memory-line")]
    grain: Grain,
    /// Failures come in aligned regions of so many bytes, a power of two, which fail as a whole
    #[arg(long, value_name = "BYTES", default_value = "64", conflicts_with = "cluster", value_parser = region)]
    failed_together: ClusterBytes,
    /// Put the heap on known frames of this machine, of which lines have failed as this file says: a frame a line, its
    /// number and a bit for each failed line, both hexadecimal
    #[arg(long, value_name = "FILE")]
    frames: Option<PathBuf>,
    /// For tests, with --frames: one line has failed, too, in each frame whose number is a multiple of this
    #[arg(long, value_name = "NUMBER", requires = "frames", hide = true)]
    emulate_bad_frames: Option<NonZero<u64>>,
    /// So many lines fail in each second while the program runs, at random times
    #[arg(long, value_name = "NUMBER", conflicts_with = "frames")]
    failures_per_second: Option<FailureRate>,
    /// For tests: end the program if something is written to a failed line
    #[arg(long, hide = true)]
    pub canaries: bool,
    /// For tests: nearly all failures wait until the program neither allocates nor collects
    #[arg(long, requires = "failures_per_second", hide = true)]
    pub fail_outside: bool,
    /// At most so many KiB of perfect memory are borrowed at a time
    #[arg(long, value_name = "KIB")]
    borrow: Option<u32>,
    /// Add no pages for failed lines
    #[arg(long)]
    uncompensated: bool,
    /// Collect all objects each time
    #[arg(long)]
    only_full: bool,
    /// The seed of the places
    #[arg(long, default_value = "1")]
    seed: u64,
    /// Write what the collections did to this file, as one JSON document
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Keep what is compiled to machine code in this folder
    #[arg(long, value_name = "FOLDER")]
    pub cache: Option<PathBuf>,
    /// Throw where the program would read data that is lost, which makes all accesses slower, instead of ending it
    #[arg(long)]
    pub throw_losses: bool,
    /// The compiled program
    pub module: PathBuf,
    /// Its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Grain {
    /// Itself
    MemoryLine,
    /// The heap's line that it is in
    HeapLine,
}

fn clustering() -> impl TypedValueParser<Value = Clustering> {
    let names = PossibleValuesParser::new(Clustering::ALL.map(Clustering::name));
    names.map(|name| Clustering::named(&name).expect("only names come through"))
}

fn line_size() -> impl TypedValueParser<Value = LineSize> {
    let names = PossibleValuesParser::new(LineSize::ALL.map(LineSize::name));
    names.map(|name| LineSize::named(&name).expect("only names come through"))
}

fn region(text: &str) -> Result<ClusterBytes, String> {
    let bytes = text.parse().ok().and_then(ClusterBytes::new);
    bytes.ok_or_else(|| "give a power of two of at least 64".to_owned())
}

impl Arguments {
    /// The heap to be made.
    ///
    /// # Errors
    /// In one line.
    pub fn plan(&self, shared: Arc<HeapShare>) -> Result<HeapPlan, String> {
        let grain = match self.grain {
            Grain::MemoryLine => FailureGrain::MemoryLine,
            Grain::HeapLine => FailureGrain::HeapLine,
        };
        let settings = HeapSettings {
            line: self.line,
            grain,
            is_generational: !self.only_full,
            borrowable: self.borrow.map_or(usize::MAX, |kib| kib as usize / 4),
            ..HeapSettings::default()
        };
        let memory: Box<dyn HeapMemory> = match &self.frames {
            Some(frames) => {
                let lines_of = lines_of_frames(frames, self.emulate_bad_frames)?;
                let memory = FrameMemory::new(&Roots::default(), self.heap.div_ceil(4), lines_of);
                let memory = memory.map_err(|error| error.to_string())?;
                shared.lies_on(memory.counts());
                Box::new(memory)
            }
            None => Box::new(SimulatedMemory::new(self.draw())),
        };
        Ok(HeapPlan { settings, memory, shared })
    }

    /// When lines fail while the program runs.
    pub fn failure_times(&self) -> Option<FailureTimes> {
        self.failures_per_second.map(|rate| rate.times(self.seed))
    }

    /// The failed lines of each page of a heap on simulated memory.
    fn draw(&self) -> Vec<FailedLines> {
        let (working, share) = (self.heap.div_ceil(4) as usize, self.holes.share());
        // Nothing makes up for a memory of which all has failed.
        let compensated = share.compensated(working).filter(|_| !self.uncompensated);
        let pages = compensated.unwrap_or(working);
        self.cluster.addresses(draw_failures(pages, share, self.failed_together, self.seed))
    }
}

/// The failed lines of each frame, as a file says.
fn lines_of_frames(path: &Path, emulated: Option<NonZero<u64>>) -> Result<LinesOfFrame, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    let frame = |line: &str| {
        let (frame, lines) = line.split_once(' ')?;
        let [frame, lines] = [frame, lines].map(|number| u64::from_str_radix(number, 16).ok());
        Some((frame?, FailedLines::from_bits(lines?)))
    };
    let known: Option<HashMap<u64, FailedLines>> = text.lines().map(frame).collect();
    let known = known.ok_or_else(|| format!("{} is no list of frames", path.display()))?;
    Ok(Box::new(move |frame| {
        let is_emulated = emulated.is_some_and(|every| frame.number().is_multiple_of(every.get()));
        let lines = known.get(&frame.number()).copied().unwrap_or_default();
        if is_emulated { lines.with(0) } else { lines }
    }))
}
