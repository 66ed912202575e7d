//! Our heap beside wasmtime's copying collector: the runs of `rampart heap bench --figure copying`.
//!
//! **Problem.** A copying collector needs room for all objects twice; ours needs it once, and for its tables. **Idea.**
//! What is compared is bytes: of theirs, both halves; of ours, pages, tables and borrowed pages. Theirs gets twice the
//! least with which a program ends, ours gets a part of that. **Why this way.** The bytes are what a user pays.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde::Deserialize;

use super::copying_results::{CopyingResults, RivalKey, RivalRun};
use super::measure::{PATIENCE_IN_LEAST, ProgramRunner, bisect, read_report};
use super::programs::{BenchProgram, CompiledProgram};
use super::setups::{HeapRival, HeapSetup};
use crate::error::Error;
use crate::inputs::host_report::HostReport;

/// What the host of the copying collector reports (`java/copying/src/main.rs`).
#[derive(Debug, Deserialize)]
struct CopyingReport {
    program_ns: Option<u64>,
    program_processor_ns: Option<u64>,
    peak_bytes: Option<u64>,
    heap_bytes: u64,
    pauses_ns: Vec<u64>,
}

/// What our heap has beside its usable pages: tables, and borrowed pages.
#[derive(Clone, Copy, Debug, Default)]
struct BesidePages {
    bytes: u64,
    /// The usable pages of the heap in which that was measured.
    of_kib: u32,
}

/// What runs programs on both collectors.
pub struct CopyingRunner<'a> {
    runner: &'a ProgramRunner<'a>,
    host: PathBuf,
    code: Option<PathBuf>,
    /// How long each program takes with ample memory on the copying collector.
    ample: BTreeMap<String, Duration>,
}

/// How long a program may take with ample memory. The first run compiles it.
const LONGEST: Duration = Duration::from_secs(600);

impl<'a> CopyingRunner<'a> {
    /// # Errors
    /// If the host of the copying collector is not built.
    pub fn new(runner: &'a ProgramRunner<'a>) -> Result<Self, Error> {
        let host = runner.kit.copying_host()?;
        Ok(Self { runner, host, code: runner.kit.copying_code_folder(), ample: BTreeMap::new() })
    }

    /// Makes a run.
    ///
    /// # Errors
    /// As for [`ProgramRunner::run`].
    pub fn make(
        &mut self,
        program: (&BenchProgram, &CompiledProgram),
        (rival, seed): (HeapRival, u64),
        ample_of_ours: Duration,
        results: &mut CopyingResults,
    ) -> Result<(), Error> {
        let ample = self.ample(program)?;
        let least = match results.least.get(&program.0.name) {
            Some(least) => *least,
            None => {
                let least = self.least_heap(program, ample)?;
                results.add_least(&program.0.name, least)?;
                least
            }
        };
        let budget = rival.budget(least);
        let run = match rival {
            HeapRival::Copying => self.theirs(program, kib(budget), ProgramRunner::limit(ample))?,
            HeapRival::OursSmaller | HeapRival::OursEqual => {
                let known = results.size_of_ours(&program.0.name, rival);
                let first = known.unwrap_or_else(|| kib(budget));
                self.ours(program, (first, budget), seed, ProgramRunner::limit(ample_of_ours))?
            }
        };
        results.add_run(RivalKey { program: program.0.name.clone(), rival, seed }, run)
    }

    /// How long a program takes with ample memory.
    fn ample(&mut self, program: (&BenchProgram, &CompiledProgram)) -> Result<Duration, Error> {
        if let Some(ample) = self.ample.get(&program.0.name) {
            return Ok(*ample);
        }
        let run = self.theirs(program, 2 * program.0.ample_kib, LONGEST)?;
        let seconds = run.seconds.ok_or_else(|| Error::BenchUnfinished(program.0.name.clone()))?;
        let ample = Duration::from_secs_f64(seconds);
        self.ample.insert(program.0.name.clone(), ample);
        Ok(ample)
    }

    /// The least heap in which a program ends on the copying collector, found as for ours.
    fn least_heap(&self, program: (&BenchProgram, &CompiledProgram), ample: Duration) -> Result<u32, Error> {
        let limit = ample.mul_f64(PATIENCE_IN_LEAST);
        bisect(512, 2 * program.0.ample_kib, |kib| Ok(self.theirs(program, kib, limit)?.seconds.is_some()))
    }

    fn theirs(
        &self,
        program: (&BenchProgram, &CompiledProgram),
        heap_kib: u32,
        limit: Duration,
    ) -> Result<RivalRun, Error> {
        let mut host = Command::new(&self.host);
        host.arg(format!("--heap={heap_kib}"));
        if let Some(code) = &self.code {
            host.arg("--cache").arg(code);
        }
        let report = self.runner.run_on(host, program, limit, || "wasmtime's copying collector".to_owned())?;
        let unfinished = RivalRun { heap_kib, ..RivalRun::default() };
        report.map_or(Ok(unfinished), |report| Ok(RivalRun::theirs(&read_report(&report)?)))
    }

    /// Runs a program on our heap, with so many usable KiB at first. If the tables are more than what is left of the
    /// bytes then, it gets less and runs again.
    fn ours(
        &self,
        program: (&BenchProgram, &CompiledProgram),
        (first_kib, budget): (u32, u64),
        seed: u64,
        limit: Duration,
    ) -> Result<RivalRun, Error> {
        let mut heap_kib = first_kib;
        loop {
            let mut host = Command::new(self.runner.kit.host());
            host.arg(format!("--heap={heap_kib}")).arg(format!("--seed={seed}")).args(HeapSetup::BASE.options());
            if let Some(code) = &self.runner.code {
                host.arg("--cache").arg(code);
            }
            let report = self.runner.run_on(host, program, limit, || format!("seed {seed}"))?;
            let Some(report) = report else { return Ok(RivalRun { heap_kib, ..RivalRun::default() }) };
            let run = RivalRun::ours(heap_kib, &read_report(&report)?);
            let beside = BesidePages { bytes: run.bytes_beside_pages, of_kib: heap_kib };
            if let Some(fitting) = beside.shrunk(budget) {
                heap_kib = fitting;
            } else {
                return Ok(run);
            }
        }
    }
}

impl BesidePages {
    /// The usable KiB with which a heap fits into `budget`, if the one that was measured does not.
    fn shrunk(self, budget: u64) -> Option<u32> {
        let left = budget.saturating_sub(self.bytes);
        // Whole pages. A smaller heap does not have larger tables.
        (u64::from(self.of_kib) * 1024 > left).then(|| kib(left) / 4 * 4)
    }
}

fn kib(bytes: u64) -> u32 {
    u32::try_from(bytes / 1024).unwrap_or(u32::MAX)
}

fn seconds(nanoseconds: u64) -> f64 {
    Duration::from_nanos(nanoseconds).as_secs_f64()
}

impl RivalRun {
    fn theirs(report: &CopyingReport) -> Self {
        Self {
            heap_kib: kib(report.heap_bytes),
            bytes_beside_pages: 0,
            seconds: report.program_ns.map(seconds),
            processor_seconds: report.program_processor_ns.map(seconds),
            collecting_seconds: seconds(report.pauses_ns.iter().sum()),
            collections: report.pauses_ns.len() as u64,
            full: report.pauses_ns.len() as u64,
            longest_ms: seconds(report.pauses_ns.iter().copied().max().unwrap_or(0)) * 1e3,
            peak_bytes: report.peak_bytes.unwrap_or(0),
        }
    }

    /// A borrowed page is one that the heap has, and two of the heap's own are withheld meanwhile: it adds nothing to
    /// the heap's bytes but itself.
    fn ours(heap_kib: u32, report: &HostReport) -> Self {
        let pauses = || report.collections.iter().map(|collection| collection.pause_ns);
        let nursery = report.collections.iter().filter(|collection| collection.kind == "nursery").count();
        Self {
            heap_kib,
            bytes_beside_pages: report.table_bytes + report.most_pages_borrowed_at_once * 4096,
            seconds: report.program_ns.map(seconds),
            processor_seconds: report.program_processor_ns.map(seconds),
            collecting_seconds: seconds(pauses().sum()),
            collections: report.collections.len() as u64,
            full: (report.collections.len() - nursery) as u64,
            longest_ms: seconds(pauses().max().unwrap_or(0)) * 1e3,
            peak_bytes: report.peak_bytes.unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_and_tables_fit_into_the_bytes() {
        let beside = |bytes, of_kib| BesidePages { bytes, of_kib };
        assert_eq!(beside(0, 1000).shrunk(1_024_000), None, "no tables");
        assert_eq!(beside(10_000, 900).shrunk(1_024_000), None, "there is room");
        let fitting = beside(10_000, 1000).shrunk(1_024_000).unwrap();
        assert!(fitting == 988 && u64::from(fitting) * 1024 + 10_000 <= 1_024_000, "{fitting}");
        assert_eq!(beside(10_000, fitting).shrunk(1_024_000), None, "the second run is the one");
        assert_eq!(beside(10_000, 8).shrunk(9_000), Some(0));
    }

    #[test]
    fn a_report_of_either_host_becomes_a_run() {
        let theirs = r#"{"program_ns":2000000000,"program_processor_ns":1500000000,"peak_bytes":5,"heap_bytes":131072,"pauses_ns":[1000000,3000000]}"#;
        let theirs = RivalRun::theirs(&serde_json::from_str(theirs).unwrap());
        assert_eq!((theirs.heap_kib, theirs.seconds, theirs.collections, theirs.full), (128, Some(2.0), 2, 2));
        assert_eq!(theirs.processor_seconds, Some(1.5));
        assert!((theirs.collecting_seconds - 0.004).abs() < 1e-12 && (theirs.longest_ms - 3.0).abs() < 1e-9);
        let ours = r#"{"program_ns":1000000000,"peak_bytes":7,"perfect_pages_requested":4,"perfect_pages_borrowed":3,
            "most_pages_borrowed_at_once":2,"objects_moved":9,"bytes_moved":9,"table_bytes":100,
            "collections":[{"kind":"nursery","pause_ns":1000000},{"kind":"full","pause_ns":3000000}]}"#;
        let ours = RivalRun::ours(64, &serde_json::from_str(ours).unwrap());
        assert_eq!((ours.bytes_beside_pages, ours.collections, ours.full), (100 + 2 * 4096, 2, 1));
        assert_eq!((ours.seconds, ours.processor_seconds), (Some(1.0), None), "the kernel need not say");
    }
}
