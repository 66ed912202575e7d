//! Which runs a figure of [Gao13, 6] needs.
//!
//! All figures vary the same few settings of the heap. So a figure is a list of them, and a run that two figures need
//! is made once.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// The settings of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HeapSetup {
    /// The working memory, in per cent of the least with which the program ends.
    pub heap: u32,
    /// Which objects are collected.
    pub generations: Generations,
    /// The share of lines that have failed, in per cent.
    pub failed: u32,
    /// Where they lie.
    pub places: FailurePlaces,
    /// The size of the heap's lines, in bytes.
    pub line: u32,
    /// What a failed line takes from the heap.
    pub loss: LineLoss,
    /// Whether pages are added to make up for failed lines.
    pub compensated: bool,
}

/// Which objects a collection traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Generations {
    /// Young ones, and all when that is not enough: Sticky Immix.
    Sticky,
    /// All: Immix.
    One,
}

/// Where failed lines lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FailurePlaces {
    /// Anywhere.
    Uniform,
    /// Gathered by the hardware, in regions of so many pages.
    Pages(u32),
    /// In aligned regions of so many bytes, which fail as a whole.
    Bytes(u32),
}

/// What a failed line of the memory takes from the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LineLoss {
    /// Itself.
    Memory,
    /// The whole Immix line that contains it, as in [Gao13, 6].
    Heap,
}

/// What is measured: figures of [Gao13, 6], and one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum HeapFigure {
    /// Immix and Sticky Immix, by size of the heap
    #[value(name = "3")]
    Collectors,
    /// Each program, by share of failed lines
    #[value(name = "4")]
    Programs,
    /// Compensation for failed lines, by size of the heap
    #[value(name = "5")]
    Compensation,
    /// Sizes of lines, by size of the heap
    #[value(name = "6")]
    LinesByHeap,
    /// Sizes of lines, by share of failed lines
    #[value(name = "7")]
    LinesByFailures,
    /// Sizes of regions that fail as a whole
    #[value(name = "8")]
    Regions,
    /// Clustering in one and two pages: time, and demand for perfect pages
    #[value(name = "9")]
    Clustering,
    /// Clustering in one and two pages, for each program
    #[value(name = "10")]
    ClusteredPrograms,
    /// Each program beside wasmtime's copying collector, by bytes (needs `java/build copying`; only on request)
    Copying,
}

/// Whose heap, and how many bytes it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeapRival {
    /// wasmtime's copying collector, with twice the least.
    Copying,
    /// Ours, with 60 % of its bytes.
    OursSmaller,
    /// Ours, with as many.
    OursEqual,
}

impl HeapRival {
    pub const ALL: [Self; 3] = [Self::Copying, Self::OursSmaller, Self::OursEqual];

    /// The bytes it may have, given the least heap of the copying collector.
    pub const fn budget(self, least_kib: u32) -> u64 {
        let percent = match self {
            Self::Copying | Self::OursEqual => 100,
            Self::OursSmaller => 60,
        };
        2 * least_kib as u64 * 1024 * percent / 100
    }
}

impl fmt::Display for HeapRival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Copying => "copying",
            Self::OursSmaller => "ours with 60 % of the bytes",
            Self::OursEqual => "ours with equal bytes",
        })
    }
}

/// The sizes of heaps, in per cent of the least.
pub const HEAPS: [u32; 7] = [100, 125, 150, 200, 300, 400, 600];

/// The sizes of lines.
pub const LINES: [u32; 3] = [64, 128, 256];

/// The shares of failed lines of most figures.
pub const SHARES: [u32; 3] = [10, 25, 50];

/// Those that are measured for each program without clusters, too.
pub const UNIFORM_SHARES: [u32; 2] = [10, 50];

/// Those of figure 9, and one more: beyond 50 %, clusters of two pages leave hardly a page perfect.
pub const CLUSTERED_SHARES: [u32; 4] = [10, 25, 50, 60];

/// Those of figure 7.
pub const MANY_SHARES: [u32; 9] = [0, 5, 10, 15, 20, 25, 30, 40, 50];

/// The regions of figure 8.
pub const REGIONS: [u32; 9] = [64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384];

impl HeapSetup {
    /// Twice the least memory, nothing failed: what the others are compared with.
    pub const BASE: Self = Self {
        heap: 200,
        generations: Generations::Sticky,
        failed: 0,
        places: FailurePlaces::Uniform,
        line: 256,
        loss: LineLoss::Memory,
        compensated: true,
    };

    /// The same program and heap where nothing has failed.
    pub const fn base(self) -> Self {
        Self { heap: self.heap, ..Self::BASE }
    }

    /// The base with failed lines.
    pub const fn with_failures(failed: u32, places: FailurePlaces) -> Self {
        Self { failed, places, ..Self::BASE }
    }

    const fn as_in_the_paper(self) -> Self {
        Self { loss: LineLoss::Heap, ..self }
    }

    /// The options of the host, without the size of the heap and the seed.
    pub fn options(&self) -> Vec<String> {
        let mut options = vec![format!("--holes={}%", self.failed), format!("--line={}", self.line)];
        match self.places {
            FailurePlaces::Uniform => {}
            FailurePlaces::Pages(pages) => options.push(format!("--cluster={pages}")),
            FailurePlaces::Bytes(bytes) => options.push(format!("--failed-together={bytes}")),
        }
        if self.loss == LineLoss::Heap {
            options.push("--grain=heap-line".to_owned());
        }
        if self.generations == Generations::One {
            options.push("--only-full".to_owned());
        }
        if !self.compensated {
            options.push("--uncompensated".to_owned());
        }
        options
    }
}

impl HeapFigure {
    /// Those of [Gao13, 6].
    pub fn of_paper() -> Vec<Self> {
        Self::value_variants().iter().copied().filter(|figure| *figure != Self::Copying).collect()
    }

    /// The runs that it needs, without those that only serve for comparison, and without those of other collectors.
    pub fn setups(self) -> Vec<HeapSetup> {
        let failing = |failed, places| HeapSetup::with_failures(failed, places);
        let at_heaps = |setups: &[HeapSetup]| -> Vec<HeapSetup> {
            HEAPS.into_iter().flat_map(|heap| setups.iter().map(move |setup| HeapSetup { heap, ..*setup })).collect()
        };
        let with_lines = |setup: HeapSetup| LINES.map(|line| HeapSetup { line, ..setup.as_in_the_paper() });
        match self {
            Self::Collectors => {
                at_heaps(&[HeapSetup::BASE, HeapSetup { generations: Generations::One, ..HeapSetup::BASE }])
            }
            Self::Programs => {
                let clustered = SHARES.map(|failed| failing(failed, FailurePlaces::Pages(2)));
                let uniform = UNIFORM_SHARES.map(|failed| failing(failed, FailurePlaces::Uniform));
                [&clustered[..], &uniform].concat()
            }
            Self::Compensation => {
                let uniform = failing(10, FailurePlaces::Uniform);
                let uncompensated = HeapSetup { compensated: false, ..uniform };
                at_heaps(&[uncompensated, uniform, failing(10, FailurePlaces::Pages(2))])
            }
            Self::LinesByHeap => {
                let both = [HeapSetup::BASE, failing(10, FailurePlaces::Uniform)].map(with_lines);
                at_heaps(both.as_flattened())
            }
            Self::LinesByFailures => {
                MANY_SHARES.into_iter().flat_map(|failed| with_lines(failing(failed, FailurePlaces::Uniform))).collect()
            }
            Self::Regions => {
                let region = |bytes| move |failed| failing(failed, FailurePlaces::Bytes(bytes)).as_in_the_paper();
                REGIONS.into_iter().flat_map(|bytes| SHARES.map(region(bytes))).collect()
            }
            Self::Clustering => {
                let places = [FailurePlaces::Uniform, FailurePlaces::Pages(1), FailurePlaces::Pages(2)];
                let of =
                    |place| CLUSTERED_SHARES.into_iter().flat_map(move |failed| with_lines(failing(failed, place)));
                places.into_iter().flat_map(of).collect()
            }
            Self::ClusteredPrograms => {
                let of = |pages| SHARES.map(|failed| failing(failed, FailurePlaces::Pages(pages)));
                [of(1), of(2)].concat()
            }
            Self::Copying => Vec::new(),
        }
    }
}

/// All runs that these figures need, each once, with those that they are compared with.
pub fn runs_of(figures: &[HeapFigure]) -> Vec<HeapSetup> {
    let setups = figures.iter().flat_map(|figure| figure.setups());
    let mut all: Vec<HeapSetup> = setups.flat_map(|setup| [setup.base(), setup]).collect();
    all.sort_unstable();
    all.dedup();
    all
}

impl fmt::Display for FailurePlaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => write!(f, "uniform"),
            Self::Pages(pages) => write!(f, "pages-{pages}"),
            Self::Bytes(bytes) => write!(f, "bytes-{bytes}"),
        }
    }
}

impl FromStr for FailurePlaces {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let number = |text: &str| text.parse().map_err(drop);
        match text.split_once('-') {
            None if text == "uniform" => Ok(Self::Uniform),
            Some(("pages", pages)) => Ok(Self::Pages(number(pages)?)),
            Some(("bytes", bytes)) => Ok(Self::Bytes(number(bytes)?)),
            _ => Err(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_two_figures_need_is_made_once_beside_what_it_is_compared_with() {
        let four = runs_of(&[HeapFigure::Programs]);
        assert_eq!(four.len(), 6);
        assert!(four.contains(&HeapSetup::BASE));
        assert_eq!(runs_of(&[HeapFigure::Programs, HeapFigure::ClusteredPrograms]).len(), 9);
        assert_eq!(runs_of(&[HeapFigure::Collectors]).len(), 2 * HEAPS.len());
        let all = runs_of(HeapFigure::value_variants());
        assert!(all.iter().all(|setup| all.contains(&setup.base())), "each has what it is compared with");
        assert!(runs_of(&[HeapFigure::Copying]).is_empty() && !HeapFigure::of_paper().contains(&HeapFigure::Copying));
    }

    #[test]
    fn the_host_is_told_what_differs() {
        assert_eq!(HeapSetup::BASE.options(), ["--holes=0%", "--line=256"]);
        let paper =
            HeapSetup { line: 64, compensated: false, ..HeapSetup::with_failures(25, FailurePlaces::Bytes(512)) };
        let paper = HeapSetup { generations: Generations::One, ..paper.as_in_the_paper() };
        let options = [
            "--holes=25%",
            "--line=64",
            "--failed-together=512",
            "--grain=heap-line",
            "--only-full",
            "--uncompensated",
        ];
        assert_eq!(paper.options(), options);
        assert!(HeapSetup::with_failures(10, FailurePlaces::Pages(2)).options().contains(&"--cluster=2".to_owned()));
        for places in [FailurePlaces::Uniform, FailurePlaces::Pages(2), FailurePlaces::Bytes(64)] {
            assert_eq!(places.to_string().parse(), Ok(places));
        }
        assert_eq!("pages-x".parse::<FailurePlaces>(), Err(()));
    }

    #[test]
    fn the_bytes_of_both_halves_are_compared() {
        assert_eq!(HeapRival::ALL.map(|rival| rival.budget(1000)), [2_048_000, 1_228_800, 2_048_000]);
    }
}
