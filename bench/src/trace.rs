//! `trace`: real programs of MPI, traced and simulated on their own ranks, beside the time that they took.
//!
//! **Problem.** A projection onto thousands of nodes cannot be checked; its program and its network can, where the program ran. **Idea.**
//! LAMMPS and HPCC, as Debian ships them, run plain and traced in turns; the traces are simulated over the network that was
//! measured here in the same run. **Why this way.** What the simulation leaves out shows as a difference, and tracing that costs much
//! would show as one too.
//!
//! On two ranks, one a CPU, and on four, which share two CPUs and so take turns.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::soak::build_rampart;

/// Pairs of a plain and a traced run.
const PAIRS: usize = 5;

/// The Lennard-Jones melt that comes with LAMMPS (`examples/melt`), 32,000 atoms.
const MELT: &str = "units lj\natom_style atomic\nlattice fcc 0.8442\nregion box block 0 20 0 20 0 20\ncreate_box 1 box\n\
    create_atoms 1 box\nmass 1 1.0\nvelocity all create 1.44 87287 loop geom\npair_style lj/cut 2.5\n\
    pair_coeff 1 1 1.0 1.0 2.5\nneighbor 0.3 bin\nneigh_modify delay 0 every 20 check no\nfix 1 all nve\nthermo 50\nrun 300\n";

/// Where Debian's HPCC has its input.
const HPCC_INPUT: &str = "/usr/share/doc/hpcc/examples/_hpccinf.txt";

/// Runs each program that is here.
pub fn run(_: &[String]) -> Result<(), String> {
    if Command::new("mpicc").arg("--version").output().is_err() {
        println!("skipped: no MPI (mpicc)");
        return Ok(());
    }
    let rampart = build_rampart()?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let network = folder.path().join("network.toml");
    let shown = output(
        Command::new(&rampart).args(["project", "calibrate", "-o"]).arg(&network).args(["--", "mpirun", "-n", "2"]),
        folder.path(),
    )?;
    println!("the network of this machine's MPI, between two ranks:\n{shown}");
    println!("medians of {PAIRS} runs: what was measured, how far off the simulation is, what tracing costs\n");
    println!("{:<8} {:>5} {:>11} {:>9} {:>9}", "program", "ranks", "measured", "off by", "tracing");
    for program in [lammps as Prepare, hpcc] {
        for ranks in [2, 4] {
            match program(folder.path(), ranks) {
                Ok((name, command)) => {
                    let program = Program { rampart: &rampart, network: &network, name, command, ranks };
                    program.compare(folder.path())?;
                }
                Err(skipped) => println!("skipped: {skipped}"),
            }
        }
    }
    println!("target: simulated within 10 % of the traced run, tracing below 2 % of LAMMPS");
    Ok(())
}

/// The name of a program and its command line, once its input is there; or why it cannot run.
type Prepare = fn(&Path, usize) -> Result<(&'static str, Vec<&'static str>), String>;

fn lammps(folder: &Path, _: usize) -> Result<(&'static str, Vec<&'static str>), String> {
    fs::write(folder.join("in.melt"), MELT).map_err(|error| error.to_string())?;
    Command::new("lmp").arg("-help").output().map_err(|_| "LAMMPS is not here (Debian: lammps)".to_owned())?;
    Ok(("lammps", vec!["lmp", "-in", "in.melt", "-log", "none"]))
}

fn hpcc(folder: &Path, ranks: usize) -> Result<(&'static str, Vec<&'static str>), String> {
    let input = fs::read_to_string(HPCC_INPUT).map_err(|_| "HPCC is not here (Debian: hpcc)".to_owned())?;
    let grid = |line: &str| if line.trim_end().ends_with("Ps") { format!("{} Ps", ranks / 2) } else { line.to_owned() };
    let input: Vec<String> = input.lines().map(grid).collect();
    fs::write(folder.join("hpccinf.txt"), input.join("\n") + "\n").map_err(|error| error.to_string())?;
    Ok(("hpcc", vec!["hpcc"]))
}

struct Program<'a> {
    rampart: &'a Path,
    network: &'a Path,
    name: &'static str,
    command: Vec<&'static str>,
    ranks: usize,
}

impl Program<'_> {
    fn compare(&self, folder: &Path) -> Result<(), String> {
        let ranks = self.ranks.to_string();
        let launch = [&["mpirun", "--oversubscribe", "-n", ranks.as_str()], &self.command[..]].concat();
        let (mut traced, mut off, mut overhead) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..PAIRS {
            let plain = output(Command::new(launch[0]).args(&launch[1..]), folder)?;
            let said =
                output(Command::new(self.rampart).args(["trace", "-o", "out.trace", "--"]).args(&launch), folder)?;
            overhead.extend(own_time(&said).zip(own_time(&plain)).map(|(traced, plain)| traced / plain - 1.0));
            let mut project = Command::new(self.rampart);
            let project = project.args(["project", "--json", "--trace", "out.trace", "--network"]).arg(self.network);
            let answer: Value = serde_json::from_str(&output(project, folder)?).map_err(|error| error.to_string())?;
            let seconds = |name: &str| answer["traced"][name].as_f64().ok_or_else(|| format!("no {name}"));
            traced.push(seconds("measured_seconds")?);
            off.push(seconds("simulated_seconds")? / seconds("measured_seconds")? - 1.0);
        }
        let overhead = (!overhead.is_empty()).then(|| format!("{:.1} %", 100.0 * median(overhead)));
        println!(
            "{:<8} {:>5} {:>9.3} s {:>7.1} % {:>9}",
            self.name,
            self.ranks,
            median(traced),
            100.0 * median(off),
            overhead.unwrap_or_default()
        );
        Ok(())
    }
}

/// What LAMMPS says that its steps took; HPCC says no such thing.
fn own_time(said: &str) -> Option<f64> {
    said.split_once("Loop time of ")?.1.split_whitespace().next()?.parse().ok()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// What a program prints; an error if it fails.
fn output(command: &mut Command, folder: &Path) -> Result<String, String> {
    let ran =
        command.current_dir(folder).envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
    let ran = ran.output().map_err(|error| error.to_string())?;
    if ran.status.success() {
        return Ok(String::from_utf8_lossy(&ran.stdout).into_owned());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&ran.stderr).trim()))
}
