//! `rampart heap bench`: makes the runs that are not there yet.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rampart_native_build::JavaKit;

use super::arguments::BenchArguments;
use super::copying::CopyingRunner;
use super::copying_results::CopyingResults;
use super::measure::ProgramRunner;
use super::programs::{BenchProgram, CompiledProgram, programs_of};
use super::results::{BenchResults, RunKey};
use super::setups::{HeapFigure, HeapRival, HeapSetup, runs_of};
use crate::error::Error;
use crate::output::progress::StepProgress;
use crate::output::text;
use crate::process::signals::interruption_flag;

/// Runs the bench. Stopped by Ctrl-C, it keeps what is complete.
pub fn run(arguments: &BenchArguments) -> Result<u8, Error> {
    let kit = JavaKit::choose(arguments.kit.as_deref())?;
    let programs = programs_of(&kit, &arguments.programs)?;
    let mut results = BenchResults::read(&arguments.results)?;
    let mut rivals = CopyingResults::read(&arguments.results)?;
    let folder = tempfile::Builder::new().prefix("rampart-heap-").tempdir();
    let folder = folder.map_err(|cause| Error::Job { path: std::env::temp_dir(), cause })?;
    let stop = interruption_flag()?;
    let stopped = || stop.load(Ordering::Relaxed);
    let runner = ProgramRunner { kit: &kit, code: kit.code_folder(), folder: folder.path(), stopped: &stopped };
    let copying = arguments.figures().contains(&HeapFigure::Copying);
    let copying = copying.then(|| CopyingRunner::new(&runner)).transpose()?;
    let mut bench = Bench { arguments, programs: &programs, runner: &runner, ready: BTreeMap::new(), made: 0 };
    let ended = bench.make(&mut results).and_then(|()| copying.map_or(Ok(()), |to| bench.beside(to, &mut rivals)));
    say(arguments, &results, &rivals, bench.made)?;
    match ended {
        Err(Error::BenchStopped) => Ok(2),
        Err(error) => Err(error),
        Ok(()) => Ok(0),
    }
}

struct Bench<'a> {
    arguments: &'a BenchArguments,
    programs: &'a [BenchProgram],
    runner: &'a ProgramRunner<'a>,
    /// The programs that were needed, and how long each takes with ample memory.
    ready: BTreeMap<String, (CompiledProgram, Duration)>,
    made: usize,
}

impl Bench<'_> {
    fn make(&mut self, results: &mut BenchResults) -> Result<(), Error> {
        let setups = runs_of(&self.arguments.figures());
        let all = self.programs.len() * setups.len() * usize::try_from(self.arguments.runs).unwrap_or(usize::MAX);
        let (progress, mut done) = (StepProgress::new(), 0);
        for seed in 1..=self.arguments.runs {
            for program in self.programs {
                // Each seed begins with another setting: what a machine does slowly or soon shall meet all alike.
                for number in 0..setups.len() {
                    let turn = usize::try_from(seed).unwrap_or(0) + number;
                    self.make_one(program, &setups[turn % setups.len()], seed, results)?;
                    done += 1;
                    progress.set(done, all);
                }
            }
        }
        progress.end();
        Ok(())
    }

    /// The runs beside the copying collector.
    fn beside(&mut self, mut copying: CopyingRunner<'_>, results: &mut CopyingResults) -> Result<(), Error> {
        let all =
            self.programs.len() * HeapRival::ALL.len() * usize::try_from(self.arguments.runs).unwrap_or(usize::MAX);
        let (progress, mut done) = (StepProgress::new(), 0);
        for seed in 1..=self.arguments.runs {
            for program in self.programs {
                for number in 0..HeapRival::ALL.len() {
                    let turn = usize::try_from(seed).unwrap_or(0) + number;
                    let rival = HeapRival::ALL[turn % HeapRival::ALL.len()];
                    if !results.has(&program.name, rival, seed) {
                        let (compiled, ample) = self.ready(program)?;
                        copying.make((program, &compiled), (rival, seed), ample, results)?;
                        self.made += 1;
                    }
                    done += 1;
                    progress.set(done, all);
                }
            }
        }
        progress.end();
        Ok(())
    }

    /// Makes a run unless it is there.
    fn make_one(
        &mut self,
        program: &BenchProgram,
        setup: &HeapSetup,
        seed: u64,
        results: &mut BenchResults,
    ) -> Result<(), Error> {
        let key = RunKey { program: program.name.clone(), setup: *setup, seed };
        if results.runs.contains_key(&key) {
            return Ok(());
        }
        let (compiled, ample) = self.ready(program)?;
        let least = match results.least.get(&program.name) {
            Some(least) => *least,
            None => {
                let least = self.runner.least_heap((program, &compiled), ample)?;
                results.add_least(&program.name, least)?;
                least
            }
        };
        let heap = u32::try_from(u64::from(least) * u64::from(setup.heap) / 100).unwrap_or(u32::MAX);
        let end = self.runner.run((program, &compiled), setup, seed, heap, ProgramRunner::limit(ample))?;
        self.made += 1;
        results.add_run(key, end)
    }

    /// A program, and how long it takes with ample memory.
    fn ready(&mut self, program: &BenchProgram) -> Result<(CompiledProgram, Duration), Error> {
        if let Some(ready) = self.ready.get(&program.name) {
            return Ok(ready.clone());
        }
        let ready = self.prepare(program)?;
        self.ready.insert(program.name.clone(), ready.clone());
        Ok(ready)
    }

    fn prepare(&self, program: &BenchProgram) -> Result<(CompiledProgram, Duration), Error> {
        let mut poll = || if (self.runner.stopped)() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        let compiled = program.compile(self.runner.kit, self.runner.folder, &mut poll)?;
        let ample = self.runner.ample((program, &compiled))?;
        Ok((compiled, ample))
    }
}

fn say(arguments: &BenchArguments, results: &BenchResults, rivals: &CopyingResults, made: usize) -> Result<(), Error> {
    let folder = arguments.results.display();
    let recorded = results.runs.len() + rivals.runs.len();
    if arguments.json {
        let document = serde_json::json!({
            "schema": "rampart.heap-bench/1",
            "runs_made": made,
            "runs": recorded,
            "least_heaps_kib": results.least,
            "least_copying_heaps_kib": rivals.least,
        });
        return text::print_json(&document);
    }
    text::print(&format!(
        "{made} runs made, {recorded} in {folder}: `rampart heap figures --results {folder} --html FILE` draws them\n"
    ))
}
