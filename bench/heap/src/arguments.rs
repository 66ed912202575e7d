//! What the command line says: PROGRAM SIZE COLLECTOR BYTES RUNS [tables-apart].

use crate::programs::Program;

/// A collector, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collector {
    /// Our Sticky Immix.
    Sticky,
    /// Our Immix.
    Immix,
    /// A plan of MMTk, by MMTk's name for it.
    Mmtk(&'static str),
}

/// Whether the tables of our heap are part of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tables {
    /// They are, as MMTk's are part of its.
    Counted,
    /// They are not, so that heaps with different tables have the same pages.
    Apart,
}

/// What to run, and on what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arguments {
    /// The program.
    pub program: Program,
    /// How much it does.
    pub size: u64,
    /// On which collector.
    pub collector: Collector,
    /// The bytes of the heap.
    pub bytes: u64,
    /// What they include.
    pub tables: Tables,
    /// How often it runs; the last time counts.
    pub runs: u32,
}

const USAGE: &str = "usage: rampart-heap-bench PROGRAM SIZE COLLECTOR BYTES RUNS [tables-apart]";

impl Collector {
    /// The collector of a name.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "sticky" => Self::Sticky,
            "immix" => Self::Immix,
            "mmtk-immix" => Self::Mmtk("Immix"),
            "mmtk-sticky" => Self::Mmtk("StickyImmix"),
            "mmtk-mark-sweep" => Self::Mmtk("MarkSweep"),
            "mmtk-semi-space" => Self::Mmtk("SemiSpace"),
            _ => return None,
        })
    }
}

impl Arguments {
    /// Reads them.
    ///
    /// # Errors
    /// If one is missing or unknown.
    pub fn parse(given: &[String]) -> Result<Self, String> {
        let (named, tables) = match given {
            [named @ .., last] if last == "tables-apart" => (named, Tables::Apart),
            named => (named, Tables::Counted),
        };
        let [program, size, collector, bytes, runs] = named else { return Err(USAGE.into()) };
        let unknown = |what: &str| format!("{what} is unknown; {USAGE}");
        Ok(Self {
            program: Program::named(program).ok_or_else(|| unknown(program))?,
            size: size.parse().map_err(|_| unknown(size))?,
            collector: Collector::named(collector).ok_or_else(|| unknown(collector))?,
            bytes: bytes.parse().map_err(|_| unknown(bytes))?,
            tables,
            runs: runs.parse().ok().filter(|runs| *runs > 0).ok_or_else(|| unknown(runs))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_runs_on_what() {
        let parse = |line: &str| Arguments::parse(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        let read = parse("churn 1000 mmtk-sticky 4096 2 tables-apart").unwrap();
        assert_eq!((read.program, read.collector), (Program::Churn, Collector::Mmtk("StickyImmix")));
        assert_eq!((read.size, read.bytes, read.runs, read.tables), (1000, 4096, 2, Tables::Apart));
        assert_eq!(parse("churn 1000 sticky 4096 1").unwrap().tables, Tables::Counted);
        for wrong in ["churn 1000 sticky 4096", "churn 1000 sticky 4096 0", "churn 1000 best 4096 1"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
