//! `redmpi`: what replicas cost, beside [Fiala15, tables 3.4 to 3.12].
//!
//! **Problem.** Fiala15 compares a plain job with a job of r replicas on r times the cores. Here are two CPUs, on
//! which r times as many processes take r times as long. **Idea.** r plain jobs at once use the same processes, cores
//! and caches as a job of r replicas. What that job takes more is what comparing costs. **Why this way.** It holds on
//! any number of CPUs. Pairs take turns, since others use the machine.
//!
//! CPU seconds and context switches are those of the ranks, which a preloaded library leaves when they end
//! (`usage.c`). Launchers and building the library do not count. The wall time is that of whole jobs.

pub mod faults;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use tempfile::TempDir;

use crate::median::{MedianRange, median};
use crate::soak::build_rampart;

/// Pairs of each comparison, unless `pairs=N`.
const PAIRS: usize = 11;

const DEGREES: [usize; 2] = [2, 3];

/// The Lennard-Jones melt that comes with LAMMPS (`examples/melt`), 4,000 atoms for each rank.
const MELT: &str = "units lj\natom_style atomic\nlattice fcc 0.8442\nregion box block 0 10 0 10 0 20\ncreate_box 1 box\n\
    create_atoms 1 box\nmass 1 1.0\nvelocity all create 1.44 87287 loop geom\npair_style lj/cut 2.5\n\
    pair_coeff 1 1 1.0 1.0 2.5\nneighbor 0.3 bin\nneigh_modify delay 0 every 20 check no\nfix 1 all nve\nthermo 50\nrun 400\n";

/// What replicas cost there, in per cent: the least and the most of the sizes in a table. That of LAMMPS is reckoned
/// from its times, since the per cents of its first row are not those of its times.
struct Published {
    program: &'static str,
    table: &'static str,
    /// Of two and of three replicas.
    costs: [(f64, f64); 2],
}

const fn published(program: &'static str, table: &'static str, two: (f64, f64), three: (f64, f64)) -> Published {
    Published { program, table, costs: [two, three] }
}

const PAPER: [Published; 7] = [
    published("lammps", "3.4", (0.1, 0.4), (0.4, 2.1)),
    published("hpccg", "3.7", (0.0, 29.3), (20.5, 31.5)),
    published("cg", "3.8", (2.2, 10.6), (7.0, 19.4)),
    published("ep", "3.9", (0.2, 0.5), (0.2, 0.6)),
    published("ft", "3.10", (-0.29, 2.7), (5.49, 5.49)),
    published("lu", "3.11", (5.0, 11.8), (3.8, 17.6)),
    published("mg", "3.12", (1.3, 2.1), (1.7, 26.7)),
];

/// Runs the programs of a list, or measures messages and LAMMPS.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let (mut pairs, mut list, mut mpi, mut mode) = (PAIRS, None, "openmpi".to_owned(), "now".to_owned());
    for argument in arguments {
        match argument.split_once('=') {
            Some(("pairs", number)) => pairs = number.parse().map_err(|_| format!("{argument} has no number"))?,
            Some(("mpi", name)) => name.clone_into(&mut mpi),
            Some(("mode", name)) => name.clone_into(&mut mode),
            _ => list = Some(PathBuf::from(argument)),
        }
    }
    let launcher = format!("mpirun.{mpi}");
    if Command::new(&launcher).arg("--version").output().is_err() {
        println!("skipped: no {launcher}");
        return Ok(());
    }
    let bench = Bench::ready(&mpi, &mode, pairs)?;
    let programs = match list {
        Some(list) => listed(&list)?,
        None => {
            bench.latency()?;
            lammps(bench.folder.path())?
        }
    };
    println!("{pairs} pairs in turns, {mpi}, --mode {mode}: more than as many plain jobs at once (95 %)");
    println!("{:<8} {:>2} {:>26} {:>26} {:>10}  paper", "program", "r", "CPU seconds", "wall time", "switches");
    let mut means = [Vec::new(), Vec::new()];
    for program in &programs {
        for (degree, mean) in DEGREES.into_iter().zip(&mut means) {
            mean.push(bench.compare(program, degree)?);
        }
    }
    for (degree, costs) in DEGREES.into_iter().zip(means).filter(|(_, costs)| !costs.is_empty()) {
        let (mean, worst) =
            (costs.iter().sum::<f64>() / costs.len() as f64, costs.iter().copied().fold(f64::MIN, f64::max));
        println!("{degree} replicas: {mean:+.1} % CPU seconds in the mean, {worst:+.1} % in the worst case");
    }
    println!(
        "targets: at most 5 % in the mean (with mode=later 2 %), 15 % in the worst case; \
         1.5 times the latency at 1 KiB, 1.1 at 1 MiB"
    );
    Ok(())
}

/// A program with its arguments, and the ranks that it needs.
struct Program {
    name: String,
    ranks: usize,
    command: Vec<String>,
    /// Copied into the folder of each job.
    inputs: Vec<PathBuf>,
}

/// Reads lines such as `cg 4 /folder/cg.A.x`; paths of programs are absolute or relative to the list.
fn listed(list: &Path) -> Result<Vec<Program>, String> {
    let text = fs::read_to_string(list).map_err(|error| format!("{}: {error}", list.display()))?;
    let folder = list.parent().unwrap_or(Path::new("."));
    let program = |line: &str| {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let [name, ranks, file, rest @ ..] = &words[..] else { return Err(format!("no NAME RANKS PROGRAM: {line}")) };
        let ranks = ranks.parse().map_err(|_| format!("no number of ranks: {line}"))?;
        let file = folder.join(file).canonicalize().map_err(|error| format!("{file}: {error}"))?;
        let command = [&[file.to_string_lossy().into_owned()], rest].concat();
        Ok(Program { name: name.clone(), ranks, command, inputs: Vec::new() })
    };
    text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')).map(program).collect()
}

fn lammps(folder: &Path) -> Result<Vec<Program>, String> {
    if Command::new("lmp").arg("-help").output().is_err() {
        println!("skipped: LAMMPS is not here (Debian: lammps)");
        return Ok(Vec::new());
    }
    let input = folder.join("in.melt");
    fs::write(&input, MELT).map_err(|error| error.to_string())?;
    let command = ["lmp", "-in", "in.melt", "-log", "none"].map(str::to_owned).to_vec();
    Ok(vec![Program { name: "lammps".to_owned(), ranks: 2, command, inputs: vec![input] }])
}

/// What the ranks of some jobs used together.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    cpu_seconds: f64,
    switches: f64,
    wall_seconds: f64,
}

struct Bench {
    rampart: PathBuf,
    folder: TempDir,
    usage: PathBuf,
    ping: PathBuf,
    mpi: String,
    mode: String,
    pairs: usize,
}

impl Bench {
    fn ready(mpi: &str, mode: &str, pairs: usize) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let built = |compiler: &str, name: &str, text: &str, options: &[&str]| {
            let (source, file) = (folder.path().join(format!("{name}.c")), folder.path().join(name));
            fs::write(&source, text).map_err(|error| error.to_string())?;
            let status = Command::new(compiler).args(["-O2", "-o"]).arg(&file).args(options).arg(&source).status();
            match status {
                Ok(status) if status.success() => Ok(file),
                other => Err(format!("{compiler} cannot build {name}: {other:?}")),
            }
        };
        let usage = built("cc", "usage", include_str!("usage.c"), &["-shared", "-fPIC"])?;
        let ping = built(&format!("mpicc.{mpi}"), "ping", include_str!("ping.c"), &[])?;
        Ok(Self { rampart: build_rampart()?, usage, ping, folder, mpi: mpi.to_owned(), mode: mode.to_owned(), pairs })
    }

    /// Messages from one rank to another: beside r jobs that do the same at once.
    fn latency(&self) -> Result<(), String> {
        let command = vec![self.ping.to_string_lossy().into_owned()];
        let ping = Program { name: "ping".to_owned(), ranks: 2, command, inputs: Vec::new() };
        println!("{}: microseconds one way, and times as long as {DEGREES:?} plain jobs at once", self.mpi);
        for degree in DEGREES {
            let mut times: Vec<(usize, Vec<f64>, Vec<f64>)> = Vec::new();
            for _ in 0..self.pairs {
                let plain = at_once(&self.plain(&ping, degree)?.1);
                let replicated = pings(&self.replicated(&ping, degree)?.1[0]);
                for (place, (one, other)) in plain.into_iter().zip(replicated).enumerate() {
                    if times.len() == place {
                        times.push((one.0, Vec::new(), Vec::new()));
                    }
                    times[place].1.push(one.1);
                    times[place].2.push(other.1);
                }
            }
            for (bytes, plain, replicated) in times {
                let ratios = plain.iter().zip(&replicated).map(|(plain, replicated)| replicated / plain).collect();
                let (plain, replicated, ratio) = (median(plain), median(replicated), median(ratios));
                println!("{degree} replicas, {bytes:>8} bytes: {plain:>9.2} -> {replicated:>9.2}  {ratio:.2}");
            }
        }
        Ok(())
    }

    /// Prints what replicas of a program cost, and returns the cost in CPU seconds, in per cent.
    fn compare(&self, program: &Program, degree: usize) -> Result<f64, String> {
        let (mut cpu, mut wall, mut switches) = (Vec::new(), Vec::new(), Vec::new());
        for pair in 0..self.pairs {
            let is_plain_first = pair % 2 == 0;
            let first = if is_plain_first { self.plain(program, degree)? } else { self.replicated(program, degree)? }.0;
            let second =
                if is_plain_first { self.replicated(program, degree)? } else { self.plain(program, degree)? }.0;
            let (plain, replicated) = if is_plain_first { (first, second) } else { (second, first) };
            cpu.push(100.0 * (replicated.cpu_seconds / plain.cpu_seconds - 1.0));
            wall.push(100.0 * (replicated.wall_seconds / plain.wall_seconds - 1.0));
            switches.push(replicated.switches / plain.switches);
        }
        let cost = median(cpu.clone());
        let paper = PAPER.iter().find(|one| one.program == program.name);
        let paper = paper.map_or_else(String::new, |one| {
            let (low, high) = one.costs[degree - 2];
            format!("{low:+.1} to {high:+.1} % (table {})", one.table)
        });
        let switches = format!("{:.2} x", median(switches));
        println!("{:<8} {degree:>2} {:>26} {:>26} {switches:>10}  {paper}", program.name, shown(cpu), shown(wall));
        Ok(cost)
    }

    /// As many plain jobs at once as there would be replicas.
    fn plain(&self, program: &Program, degree: usize) -> Result<(Usage, Vec<String>), String> {
        let launcher = format!("mpirun.{}", self.mpi);
        let ranks = program.ranks.to_string();
        let mut head = vec![launcher.as_str()];
        if self.mpi == "openmpi" {
            head.push("--oversubscribe");
        }
        head.extend(["-n", &ranks]);
        self.ran(program, &head, degree, degree)
    }

    fn replicated(&self, program: &Program, degree: usize) -> Result<(Usage, Vec<String>), String> {
        let rampart = self.rampart.canonicalize().map_err(|error| error.to_string())?;
        let (ranks, replicas) = (program.ranks.to_string(), degree.to_string());
        let launcher = format!("--launcher=mpirun.{}", self.mpi);
        let rampart = rampart.to_string_lossy().into_owned();
        self.ran(
            program,
            &[&rampart, "mpirun", "-n", &ranks, "--replicas", &replicas, "--mode", &self.mode, &launcher, "--"],
            1,
            degree,
        )
    }

    /// Runs so many jobs at once, of so many processes for each rank in all; with what they print.
    fn ran(
        &self,
        program: &Program,
        head: &[&str],
        jobs: usize,
        degree: usize,
    ) -> Result<(Usage, Vec<String>), String> {
        let text = |error: std::io::Error| error.to_string();
        let usage = tempfile::tempdir_in(self.folder.path()).map_err(text)?;
        let folders: Vec<TempDir> =
            (0..jobs).map(|_| tempfile::tempdir_in(self.folder.path())).collect::<Result<_, _>>().map_err(text)?;
        for (folder, input) in folders.iter().flat_map(|folder| program.inputs.iter().map(move |input| (folder, input)))
        {
            fs::copy(input, folder.path().join(input.file_name().unwrap_or_default())).map_err(text)?;
        }
        let began = Instant::now();
        let meeting = tempfile::tempdir_in(self.folder.path()).map_err(text)?;
        let children: Vec<Child> = folders
            .iter()
            .enumerate()
            .map(|(job, folder)| {
                let mut command = Command::new(head[0]);
                command.args(&head[1..]).args(&program.command).current_dir(folder.path()).stdin(Stdio::null());
                command.env("LD_PRELOAD", &self.usage).env("RAMPART_USAGE", usage.path());
                command.env("PING_MEETING", meeting.path());
                command.envs([("PING_JOBS", jobs.to_string()), ("PING_JOB", job.to_string())]);
                command.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
                // Without it, processes of Open MPI that wait give way only if their own job has more processes than
                // there are CPUs: several jobs at once would disturb each other.
                command.env("OMPI_MCA_mpi_yield_when_idle", "1");
                command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(text)
            })
            .collect::<Result<_, _>>()?;
        let mut printed = Vec::new();
        for child in children {
            let output = child.wait_with_output().map_err(text)?;
            let said = String::from_utf8_lossy(&output.stderr);
            if !output.status.success() || said.contains("differed") && !said.contains(" 0 differed") {
                return Err(format!("{} fails: {said}", program.name));
            }
            printed.push(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let mut used = Usage { wall_seconds: began.elapsed().as_secs_f64(), ..Usage::default() };
        let mut processes = 0;
        for entry in fs::read_dir(usage.path()).map_err(text)?.flatten() {
            let line = fs::read_to_string(entry.path()).map_err(text)?;
            let numbers: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
            let [cpu, waited, taken] = numbers[..] else { return Err(format!("no usage: {line}")) };
            used.cpu_seconds += cpu;
            used.switches += waited + taken;
            processes += 1;
        }
        let expected = program.ranks * degree;
        if processes != expected {
            return Err(format!("{}: {processes} processes of {expected} left what they used", program.name));
        }
        Ok((used, printed))
    }
}

/// The mean of jobs at once, for each size.
fn at_once(jobs: &[String]) -> Vec<(usize, f64)> {
    let mut times = pings(&jobs[0]);
    for job in &jobs[1..] {
        for ((_, time), (_, other)) in times.iter_mut().zip(pings(job)) {
            *time += other;
        }
    }
    times.iter_mut().for_each(|(_, time)| *time /= jobs.len() as f64);
    times
}

/// Bytes, and microseconds one way.
fn pings(text: &str) -> Vec<(usize, f64)> {
    let line = |line: &str| line.split_once(' ').and_then(|(bytes, time)| bytes.parse().ok().zip(time.parse().ok()));
    text.lines().filter_map(line).collect()
}

/// In per cent, with bounds (95 %).
fn shown(more: Vec<f64>) -> String {
    let MedianRange { median, low, high } = MedianRange::of(more);
    format!("{median:+.1} % ({low:+.1} to {high:+.1} %)")
}
