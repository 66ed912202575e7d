//! `rampart noise`: what takes this machine's CPUs from programs.

pub mod arguments;
mod chart;
mod errors;
mod show;

use std::fs;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use rampart_linux::capabilities::{self, Feature};
use rampart_linux::cpu::Tsc;
use rampart_linux::cpu::detours::{self, Watched};
use rampart_linux::{Cpu, Roots, Topology};
use rampart_scale::noise::{Detour, Noise, OfCpu};

use self::arguments::NoiseArguments;
use self::errors::{ErrorInjection, Made};
use self::show::Measured;
use crate::error::Error;
use crate::output::progress::StepProgress;
use crate::output::text;
use crate::parsing::time;
use crate::process::signals;

/// Detours that are kept of each CPU: 16 MiB of them.
const MOST: usize = 1 << 20;

/// Watches, and shows what was seen.
pub fn run(arguments: &NoiseArguments) -> Result<u8, Error> {
    let roots = Roots::default();
    let cpus = cpus(arguments, &Topology::read(&roots).allowed)?;
    let errors = ErrorInjection::asked_for(arguments, &roots)?;
    let tsc = Tsc::measured().map_err(Error::NoCounter)?;
    let stop = signals::stop_flag()?;
    let (watched, made) = watch(&cpus, &tsc, arguments, errors, &stop)?;
    let noise = Noise {
        threshold: time(arguments.threshold),
        cpus: cpus.iter().zip(&watched).map(|(cpu, watched)| of_cpu(*cpu, watched)).collect(),
    };
    let measured = Measured {
        noise,
        ticks_per_second: tsc.ticks_per_second(),
        source: Tsc::SOURCE,
        injection: capabilities::of(Feature::ErrorInjection, &roots).state,
        made,
        stopped: stop.load(Ordering::Relaxed),
    };
    // The numbers first: they are not lost where a file cannot be written.
    if arguments.json {
        text::print_json(&measured.document())?;
    } else {
        text::print(&measured.text())?;
    }
    let write = |path: &PathBuf, text: String| {
        fs::write(path, text).map_err(|cause| Error::Report { path: path.clone(), cause })
    };
    arguments.csv.as_ref().map(|path| write(path, measured.noise.csv())).transpose()?;
    arguments.html.as_ref().map(|path| write(path, measured.page())).transpose()?;
    Ok(0)
}

/// The CPUs that were asked for, if this process may use them.
fn cpus(arguments: &NoiseArguments, allowed: &[Cpu]) -> Result<Vec<Cpu>, Error> {
    let Some(asked) = &arguments.cores else { return Ok(allowed.to_vec()) };
    match asked.0.iter().find(|cpu| !allowed.contains(cpu)) {
        Some(cpu) => {
            let allowed: Vec<String> = allowed.iter().map(|cpu| cpu.0.to_string()).collect();
            Err(Error::NotAllowed { cpu: *cpu, allowed: allowed.join(", ") })
        }
        None => Ok(asked.0.clone()),
    }
}

/// Watches all of them at once, each from a thread of its own, while another makes errors if they are asked for.
fn watch(
    cpus: &[Cpu],
    tsc: &Tsc,
    arguments: &NoiseArguments,
    errors: Option<ErrorInjection>,
    stop: &AtomicBool,
) -> Result<(Vec<Watched>, Option<Made>), Error> {
    let NoiseArguments { duration, threshold, .. } = *arguments;
    let over = &AtomicBool::new(false);
    thread::scope(|scope| {
        let watchers: Vec<_> = cpus
            .iter()
            .map(|&cpu| scope.spawn(move || detours::watch(cpu, tsc, threshold, duration, MOST, stop)))
            .collect();
        let maker = errors.map(|errors| {
            scope.spawn(move || errors.make(tsc, over).inspect_err(|_| stop.store(true, Ordering::Relaxed)))
        });
        // Only for somebody who looks on: a step of the line is a detour itself.
        if std::io::stderr().is_terminal() {
            follow(duration, &|| watchers.iter().all(ScopedJoinHandle::is_finished));
        }
        let seen: Vec<_> =
            watchers.into_iter().map(|watcher| watcher.join().expect("a watcher does not panic")).collect();
        over.store(true, Ordering::Relaxed);
        let made = maker.map(|maker| maker.join().expect("a maker of errors does not panic")).transpose()?;
        Ok((seen.into_iter().collect::<Result<_, _>>()?, made))
    })
}

fn follow(duration: Duration, ended: &dyn Fn() -> bool) {
    let (steps, begun) = (StepProgress::new(), Instant::now());
    let seconds = |time: Duration| usize::try_from(time.as_secs()).unwrap_or(usize::MAX);
    while !ended() {
        steps.set(seconds(begun.elapsed().min(duration)), seconds(duration).max(1));
        thread::sleep(Duration::from_secs(1).min(duration));
    }
    steps.end();
}

fn of_cpu(cpu: Cpu, watched: &Watched) -> OfCpu {
    let detour = |of: &detours::CpuDetour| Detour { start: time(of.start), length: time(of.length) };
    OfCpu {
        cpu: cpu.0,
        watched: time(watched.length),
        detours: watched.detours.iter().map(detour).collect(),
        beyond: watched.beyond,
        beyond_took: time(watched.beyond_took),
    }
}
