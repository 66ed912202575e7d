//! One run of a program, and the least heap in which it ends.

use std::fs;
use std::io::{Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rampart_native_build::JavaKit;
use serde::de::DeserializeOwned;

use super::programs::{BenchProgram, CompiledProgram};
use super::results::{RunEnd, RunFigures};
use super::setups::HeapSetup;
use crate::error::Error;
use crate::inputs::host_report::HostReport;

/// What runs programs.
pub struct ProgramRunner<'a> {
    pub kit: &'a JavaKit,
    pub code: Option<PathBuf>,
    /// For reports.
    pub folder: &'a Path,
    pub stopped: &'a dyn Fn() -> bool,
}

/// How many times as long as with ample memory a program may take.
const PATIENCE: f64 = 20.0;

/// The same in the least heap: in a smaller one, a program collects nearly all the time.
pub const PATIENCE_IN_LEAST: f64 = 4.0;

/// The time between two looks at a running program.
const LOOK: Duration = Duration::from_millis(5);

impl ProgramRunner<'_> {
    /// Runs a program with `heap_kib` of usable heap, and stops it after `limit`.
    ///
    /// # Errors
    /// If it cannot be run, prints something else than on HotSpot, or the user asks to stop.
    pub fn run(
        &self,
        (program, compiled): (&BenchProgram, &CompiledProgram),
        setup: &HeapSetup,
        seed: u64,
        heap_kib: u32,
        limit: Duration,
    ) -> Result<RunEnd, Error> {
        let mut host = Command::new(self.kit.host());
        host.arg(format!("--heap={heap_kib}")).arg(format!("--seed={seed}")).args(setup.options());
        if let Some(code) = &self.code {
            host.arg("--cache").arg(code);
        }
        let said = || format!("seed {seed}, {}", setup.options().join(" "));
        let report = self.run_on(host, (program, compiled), limit, said)?;
        report.map_or(Ok(RunEnd::Unfinished), |report| figures(&report).map(RunEnd::Finished))
    }

    /// Runs a program on a host that has its options already, and stops it after `limit`. Returns where the host's
    /// report is; `None` if the program did not end by itself, or failed. `said` is what an error says of the run.
    ///
    /// # Errors
    /// As for [`Self::run`].
    pub fn run_on(
        &self,
        mut host: Command,
        (program, compiled): (&BenchProgram, &CompiledProgram),
        limit: Duration,
        said: impl FnOnce() -> String,
    ) -> Result<Option<PathBuf>, Error> {
        let report = self.folder.join("report.json");
        // A report of the run before must not be taken for one of this run.
        let _ = fs::remove_file(&report);
        let name = host.get_program().display().to_string();
        let failed = |cause| Error::Program { name: name.clone(), cause };
        host.arg("--report").arg(&report);
        host.arg("--").arg(&compiled.module).arg(&program.rounds).stdin(Stdio::null()).stderr(Stdio::null());
        let mut printed = tempfile::tempfile().map_err(failed)?;
        host.stdout(printed.try_clone().map_err(failed)?);
        let (mut child, began) = (host.spawn().map_err(failed)?, Instant::now());
        let status = loop {
            if let Some(status) = child.try_wait().map_err(failed)? {
                break status;
            }
            let is_stopped = (self.stopped)();
            if is_stopped || began.elapsed() > limit {
                // It may have ended by itself.
                let _ = child.kill();
                child.wait().map_err(failed)?;
                return if is_stopped { Err(Error::BenchStopped) } else { Ok(None) };
            }
            thread::sleep(LOOK);
        };
        if !status.success() {
            return Ok(None);
        }
        let mut text = String::new();
        // What is no text is not what was expected.
        let _ = printed.rewind().and_then(|()| printed.read_to_string(&mut text));
        if text != compiled.expected {
            return Err(Error::WrongOutput { program: program.name.clone(), run: said() });
        }
        Ok(Some(report))
    }

    /// The limit of time of a program, given its time with ample memory.
    pub fn limit(ample: Duration) -> Duration {
        ample.mul_f64(PATIENCE)
    }

    /// The time of a program with ample memory.
    ///
    /// # Errors
    /// As for [`Self::run`]; and if it does not end.
    pub fn ample(&self, program: (&BenchProgram, &CompiledProgram)) -> Result<Duration, Error> {
        match self.run(program, &HeapSetup::BASE, 1, program.0.ample_kib, Duration::from_secs(600))? {
            RunEnd::Finished(figures) => Ok(Duration::from_secs_f64(figures.seconds)),
            RunEnd::Unfinished => Err(Error::BenchUnfinished(program.0.name.clone())),
        }
    }

    /// The least heap in which a program ends, in KiB, to 1/32 of it: by bisection, where nothing has failed. There, it
    /// takes at most four times as long as with ample memory.
    ///
    /// # Errors
    /// As for [`Self::run`].
    pub fn least_heap(&self, program: (&BenchProgram, &CompiledProgram), ample: Duration) -> Result<u32, Error> {
        let limit = ample.mul_f64(PATIENCE_IN_LEAST);
        bisect(512, program.0.ample_kib, |kib| {
            Ok(matches!(self.run(program, &HeapSetup::BASE, 1, kib, limit)?, RunEnd::Finished(_)))
        })
    }
}

/// The smallest size for which `does` holds, to within 1/32 of it or 64 KiB. It must hold for `enough`.
pub fn bisect<E>(too_little: u32, enough: u32, mut does: impl FnMut(u32) -> Result<bool, E>) -> Result<u32, E> {
    let (mut low, mut high) = (too_little, enough);
    while high - low > (high / 32).max(64) {
        let middle = low + (high - low) / 2;
        if does(middle)? {
            high = middle;
        } else {
            low = middle;
        }
    }
    Ok(high)
}

/// Reads a report of a host.
///
/// # Errors
/// If it is not there, or is none.
pub fn read_report<T: DeserializeOwned>(report: &Path) -> Result<T, Error> {
    let refused = |why: String| Error::HeapResults { path: report.to_owned(), why };
    let text = fs::read_to_string(report).map_err(|cause| refused(cause.to_string()))?;
    serde_json::from_str(&text).map_err(|error| refused(error.to_string()))
}

fn figures(report: &Path) -> Result<RunFigures, Error> {
    let refused = |why: String| Error::HeapResults { path: report.to_owned(), why };
    let report: HostReport = read_report(report)?;
    let seconds = |nanoseconds: u64| Duration::from_nanos(nanoseconds).as_secs_f64();
    let pauses = || report.collections.iter().map(|collection| collection.pause_ns);
    let nursery = report.collections.iter().filter(|collection| collection.kind == "nursery").count() as u64;
    Ok(RunFigures {
        seconds: seconds(report.program_ns.ok_or_else(|| refused("the program did not end".to_owned()))?),
        collecting_seconds: seconds(pauses().sum()),
        nursery,
        full: report.collections.len() as u64 - nursery,
        longest_ms: seconds(pauses().max().unwrap_or(0)) * 1e3,
        requested: report.perfect_pages_requested,
        borrowed: report.perfect_pages_borrowed,
        most_borrowed: report.most_pages_borrowed_at_once,
        peak_bytes: report.peak_bytes.unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_heap_is_found_to_a_thirty_second_part() {
        for least in [513, 1000, 4096, 10_000, 60_000] {
            let mut runs = 0;
            let found = bisect(512, 65_536, |kib| {
                runs += 1;
                Ok::<_, ()>(kib >= least)
            });
            let found = found.unwrap();
            assert!(found >= least && found - least <= (found / 32).max(64) && runs < 12, "{least}: {found} in {runs}");
        }
        assert_eq!(bisect(512, 65_536, |_| Err::<bool, _>("stop")), Err("stop"));
    }

    #[test]
    fn a_report_becomes_figures() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        let report = |program_ns: &str| {
            format!(
                r#"{{"program_ns":{program_ns},"peak_bytes":5,"perfect_pages_requested":4,"perfect_pages_borrowed":3,
                "most_pages_borrowed_at_once":2,"objects_moved":9,"bytes_moved":9,"table_bytes":9,"collections":[{{"kind":"nursery","pause_ns":1000000}},
                {{"kind":"full","pause_ns":3000000}}]}}"#
            )
        };
        fs::write(&path, report("2000000000")).unwrap();
        let found = figures(&path).unwrap();
        assert_eq!((found.seconds, found.nursery, found.full, found.most_borrowed), (2.0, 1, 1, 2));
        assert!((found.collecting_seconds - 0.004).abs() < 1e-12 && (found.longest_ms - 3.0).abs() < 1e-9);
        fs::write(&path, report("null")).unwrap();
        assert!(figures(&path).is_err());
    }
}
