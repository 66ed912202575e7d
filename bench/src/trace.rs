//! `trace`: real MPI programs, traced and simulated on their own ranks, compared with their real time.
//!
//! **Problem.** A projection onto thousands of nodes cannot be checked; its program and its network can, where the
//! program ran. **Idea.** LAMMPS and HPCC, as Debian ships them, are traced on two ranks, one per CPU, and on four
//! ranks, which share two CPUs. The traces are simulated over the network that was measured here in the same run. **Why
//! this way.** Everything that the simulation leaves out shows as a difference.
//!
//! Tracing costs less than runs vary, so two plain jobs and a traced one take turns ([`crate::turns`]): the difference
//! of the two plain ones shows the precision of the measurement. Building the tracing library and merging the ranks'
//! records do not count.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::median::{MedianRange, median};
use crate::soak::build_rampart;
use crate::turns::{self, Job};

/// Programs, and how often two plain jobs and a traced one of each take turns: more often where there is a target.
const PROGRAMS: [(Prepare, usize); 2] = [(lammps, 12), (hpcc, 8)];

/// Ranks with a CPU each, and ranks that share CPUs.
const RANKS: [usize; 2] = [2, 4];

/// Simulated traces, per program and number of ranks.
const TRACED_RUNS: usize = 3;

/// The Lennard-Jones melt that comes with LAMMPS (`examples/melt`), 32,000 atoms.
const MELT: &str = "units lj\natom_style atomic\nlattice fcc 0.8442\nregion box block 0 20 0 20 0 20\ncreate_box 1 box\n\
    create_atoms 1 box\nmass 1 1.0\nvelocity all create 1.44 87287 loop geom\npair_style lj/cut 2.5\n\
    pair_coeff 1 1 1.0 1.0 2.5\nneighbor 0.3 bin\nneigh_modify delay 0 every 20 check no\nfix 1 all nve\nthermo 50\nrun 300\n";

/// The input of Debian's HPCC.
const HPCC_INPUT: &str = "/usr/share/doc/hpcc/examples/_hpccinf.txt";

/// Runs each installed program.
pub fn run(_: &[String]) -> Result<(), String> {
    if Command::new("mpicc").arg("--version").output().is_err() {
        println!("skipped: no MPI (mpicc)");
        return Ok(());
    }
    let bench = Bench::calibrated()?;
    for (prepare, times) in PROGRAMS {
        if let Err(skipped) = prepare(bench.folder.path(), RANKS[0]) {
            println!("skipped: {skipped}");
            continue;
        }
        for ranks in RANKS {
            bench.simulate(&prepare(bench.folder.path(), ranks)?)?;
        }
        bench.cost(prepare, times)?;
    }
    println!("targets: simulated within 10 % of the traced run; tracing costs less than 2 % of LAMMPS");
    Ok(())
}

/// A program with its input in a folder.
struct Program {
    command: &'static [&'static str],
    ranks: usize,
    folder: PathBuf,
}

impl Program {
    fn name(&self) -> &'static str {
        self.command[0]
    }
}

/// Puts a program's input into a folder, or says why it cannot run.
type Prepare = fn(&Path, usize) -> Result<Program, String>;

fn lammps(folder: &Path, ranks: usize) -> Result<Program, String> {
    fs::write(folder.join("in.melt"), MELT).map_err(|error| error.to_string())?;
    Command::new("lmp").arg("-help").output().map_err(|_| "LAMMPS is not here (Debian: lammps)".to_owned())?;
    Ok(Program { command: &["lmp", "-in", "in.melt", "-log", "none"], ranks, folder: folder.to_owned() })
}

fn hpcc(folder: &Path, ranks: usize) -> Result<Program, String> {
    let input = fs::read_to_string(HPCC_INPUT).map_err(|_| "HPCC is not here (Debian: hpcc)".to_owned())?;
    let grid = |line: &str| if line.trim_end().ends_with("Ps") { format!("{} Ps", ranks / 2) } else { line.to_owned() };
    let input: Vec<String> = input.lines().map(grid).collect();
    fs::write(folder.join("hpccinf.txt"), input.join("\n") + "\n").map_err(|error| error.to_string())?;
    Ok(Program { command: &["hpcc"], ranks, folder: folder.to_owned() })
}

/// The kind of a job.
#[derive(Clone, Copy)]
enum How {
    Plain,
    Traced,
}

struct Bench {
    rampart: PathBuf,
    folder: TempDir,
    network: PathBuf,
}

impl Bench {
    fn calibrated() -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let bench = Self { rampart: build_rampart()?, network: folder.path().join("network.toml"), folder };
        let mut calibrate = bench.command(&bench.rampart, bench.folder.path());
        calibrate.args(["project", "calibrate", "-o"]).arg(&bench.network).args(["--", "mpirun", "-n", "2"]);
        println!("the network of this machine's MPI, between two ranks:\n{}", output(calibrate)?);
        Ok(bench)
    }

    /// Traces a program and prints the error of the simulation.
    fn simulate(&self, program: &Program) -> Result<(), String> {
        let (mut measured, mut off) = (Vec::new(), Vec::new());
        for _ in 0..TRACED_RUNS {
            output(self.started(program, How::Traced))?;
            let mut project = self.command(&self.rampart, &program.folder);
            project.args(["project", "--json", "--trace", "out.trace", "--network"]).arg(&self.network);
            let answer: Value = serde_json::from_str(&output(project)?).map_err(|error| error.to_string())?;
            let seconds = |name: &str| answer["traced"][name].as_f64().ok_or_else(|| format!("no {name}"));
            measured.push(seconds("measured_seconds")?);
            off.push(seconds("simulated_seconds")? / seconds("measured_seconds")? - 1.0);
        }
        let (measured, off) = (median(measured), 100.0 * median(off));
        let (name, ranks) = (program.name(), program.ranks);
        println!("{name:<5} on {ranks}: {measured:.3} s, simulated {off:+.1} % (medians of {TRACED_RUNS} traced runs)");
        Ok(())
    }

    /// The cost of tracing a program with as many ranks as CPUs.
    fn cost(&self, prepare: Prepare, times: usize) -> Result<(), String> {
        let jobs = [("one", How::Plain), ("two", How::Plain), ("traced", How::Traced)];
        let programs = jobs.map(|(name, _)| self.subfolder(name).and_then(|folder| prepare(&folder, RANKS[0])));
        let programs = programs.into_iter().collect::<Result<Vec<_>, _>>()?;
        let (mut plain, mut traced, mut seconds) = (Vec::new(), Vec::new(), Vec::new());
        for time in 0..times {
            let mut ready: Vec<Job> =
                programs.iter().zip(jobs).map(|(program, (_, how))| self.job(program, how)).collect();
            // Each job is first, second and third equally often.
            let first = time % jobs.len();
            ready.rotate_left(first);
            let mut ran = turns::seconds(ready)?;
            ran.rotate_right(first);
            plain.push(ran[1] / ran[0] - 1.0);
            traced.push(2.0 * ran[2] / (ran[0] + ran[1]) - 1.0);
            seconds.push(ran[0]);
        }
        let (name, ranks, seconds) = (programs[0].name(), RANKS[0], median(seconds));
        println!("{name:<5} on {ranks}: tracing costs {} ({times} times {seconds:.3} s in turns)", shown(traced));
        println!("{:<5}       a second plain job {}", "", shown(plain));
        Ok(())
    }

    fn subfolder(&self, name: &str) -> Result<PathBuf, String> {
        let folder = self.folder.path().join(name);
        fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        Ok(folder)
    }

    fn job(&self, program: &Program, how: How) -> Job {
        Job { command: self.started(program, how), program: program.name(), ranks: program.ranks }
    }

    fn started(&self, program: &Program, how: How) -> Command {
        let ranks = program.ranks.to_string();
        let launch = [&["mpirun", "--oversubscribe", "-n", &ranks], program.command].concat();
        match how {
            How::Plain => {
                let mut command = self.command(Path::new(launch[0]), &program.folder);
                command.args(&launch[1..]);
                command
            }
            How::Traced => {
                let mut command = self.command(&self.rampart, &program.folder);
                command.args(["trace", "-o", "out.trace", "--"]).args(launch);
                command
            }
        }
    }

    fn command(&self, program: &Path, folder: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(folder);
        command.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
        command
    }
}

/// In per cent, with bounds (95 %).
fn shown(more: Vec<f64>) -> String {
    let MedianRange { median, low, high } = MedianRange::of(more);
    format!("{:+.2} % ({:+.2} to {:+.2} %)", 100.0 * median, 100.0 * low, 100.0 * high)
}

/// A program's output; an error if it fails.
fn output(mut command: Command) -> Result<String, String> {
    let ran = command.output().map_err(|error| error.to_string())?;
    if ran.status.success() {
        return Ok(String::from_utf8_lossy(&ran.stdout).into_owned());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&ran.stderr).trim()))
}
