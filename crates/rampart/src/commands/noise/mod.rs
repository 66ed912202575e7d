//! `rampart noise`: measures how often, and for how long, this machine takes its CPUs from programs.

pub mod arguments;
mod chart;
mod injection;
mod measurement;
mod plan;

use std::fs;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use rampart_linux::capabilities::{self, Feature};
use rampart_linux::cpu::Tsc;
use rampart_linux::cpu::detours::{self, Watched};
use rampart_linux::{CpuNumber, Roots, Topology};
use rampart_scale::noise::{Detour, Noise, OfCpu};
use serde_json::json;

use self::arguments::NoiseArguments;
use self::injection::{ErrorInjection, InjectionLog};
use self::measurement::NoiseMeasurement;
use self::plan::InjectionPlan;
use crate::error::Error;
use crate::output::progress::StepProgress;
use crate::output::text;
use crate::parsing::time;
use crate::process::signals;

/// The most detours that are recorded of each CPU: 16 MiB of them.
const MAX_DETOURS: usize = 1 << 20;

/// Measures detours, and shows them.
pub fn run(arguments: &NoiseArguments) -> Result<u8, Error> {
    let roots = Roots::default();
    let cpus = cpus(arguments, &Topology::read(&roots).allowed)?;
    let injection = ErrorInjection::requested(arguments, &roots)?;
    let tsc = Tsc::measured();
    let plan = injection.as_ref().and_then(|injection| injection.plan(&roots, tsc.as_ref().err()));
    if let Some(plan) = plan.as_ref().filter(|_| !arguments.json) {
        text::print(&plan.text())?;
    }
    let tsc = match (tsc, &plan) {
        (Ok(tsc), _) => tsc,
        // A dry run shows its plan on any machine, unless a file of detours is to be written.
        (Err(_), Some(plan)) if arguments.csv.is_none() && arguments.html.is_none() => return planned(arguments, plan),
        (Err(absence), _) => return Err(Error::NoCounter(absence)),
    };
    let stop = signals::stop_flag()?;
    let (watched, injected) = watch(&cpus, &tsc, arguments, injection, &stop)?;
    let noise = Noise {
        threshold: time(arguments.threshold),
        cpus: cpus.iter().zip(&watched).map(|(cpu, watched)| of_cpu(*cpu, watched)).collect(),
    };
    let measurement = NoiseMeasurement {
        noise,
        ticks_per_second: tsc.ticks_per_second(),
        source: Tsc::SOURCE,
        injection: capabilities::of(Feature::ErrorInjection, &roots).state,
        injected,
        plan,
        stopped: stop.load(Ordering::Relaxed),
    };
    // The figures are printed first, so that they are not lost if a file cannot be written.
    if arguments.json {
        text::print_json(&measurement.document())?;
    } else {
        text::print(&measurement.text())?;
    }
    let write = |path: &PathBuf, text: String| {
        fs::write(path, text).map_err(|cause| Error::Report { path: path.clone(), cause })
    };
    arguments.csv.as_ref().map(|path| write(path, measurement.noise.csv())).transpose()?;
    arguments.html.as_ref().map(|path| write(path, measurement.page())).transpose()?;
    Ok(0)
}

/// Ends a dry run where detours cannot be measured. People have read the plan.
fn planned(arguments: &NoiseArguments, plan: &InjectionPlan) -> Result<u8, Error> {
    if arguments.json {
        text::print_json(&json!({ "schema": "rampart.noise.plan/1", "plan": plan.document() }))?;
    }
    Ok(0)
}

/// The requested CPUs, if this process may use them.
fn cpus(arguments: &NoiseArguments, allowed: &[CpuNumber]) -> Result<Vec<CpuNumber>, Error> {
    let Some(requested) = &arguments.cores else { return Ok(allowed.to_vec()) };
    match requested.0.iter().find(|cpu| !allowed.contains(cpu)) {
        Some(cpu) => {
            let allowed: Vec<String> = allowed.iter().map(|cpu| cpu.0.to_string()).collect();
            Err(Error::NotAllowed { cpu: *cpu, allowed: allowed.join(", ") })
        }
        None => Ok(requested.0.clone()),
    }
}

/// Watches all CPUs at once, each from a thread of its own, while another thread injects errors if requested.
fn watch(
    cpus: &[CpuNumber],
    tsc: &Tsc,
    arguments: &NoiseArguments,
    injection: Option<ErrorInjection>,
    stop: &AtomicBool,
) -> Result<(Vec<Watched>, Option<InjectionLog>), Error> {
    let NoiseArguments { duration, threshold, .. } = *arguments;
    let over = &AtomicBool::new(false);
    thread::scope(|scope| {
        let watchers: Vec<_> = cpus
            .iter()
            .map(|&cpu| scope.spawn(move || detours::watch(cpu, tsc, threshold, duration, MAX_DETOURS, stop)))
            .collect();
        let injector = injection.map(|injection| {
            scope.spawn(move || injection.run(tsc, over).inspect_err(|_| stop.store(true, Ordering::Relaxed)))
        });
        // Only on a terminal: each update of the progress line is a detour itself.
        if std::io::stderr().is_terminal() {
            show_progress(duration, &|| watchers.iter().all(ScopedJoinHandle::is_finished));
        }
        let watched: Vec<_> =
            watchers.into_iter().map(|watcher| watcher.join().expect("a watcher does not panic")).collect();
        over.store(true, Ordering::Relaxed);
        let injected = injector.map(|injector| injector.join().expect("an injector does not panic")).transpose()?;
        Ok((watched.into_iter().collect::<Result<_, _>>()?, injected))
    })
}

fn show_progress(duration: Duration, ended: &dyn Fn() -> bool) {
    let (steps, begun) = (StepProgress::new(), Instant::now());
    let seconds = |time: Duration| usize::try_from(time.as_secs()).unwrap_or(usize::MAX);
    while !ended() {
        steps.set(seconds(begun.elapsed().min(duration)), seconds(duration).max(1));
        thread::sleep(Duration::from_secs(1).min(duration));
    }
    steps.end();
}

fn of_cpu(cpu: CpuNumber, watched: &Watched) -> OfCpu {
    let detour = |of: &detours::CpuDetour| Detour { start: time(of.start), length: time(of.length) };
    OfCpu {
        cpu: cpu.0,
        watched: time(watched.length),
        detours: watched.detours.iter().map(detour).collect(),
        beyond: watched.beyond,
        beyond_took: time(watched.beyond_took),
    }
}
