//! `trace`: real programs of MPI, traced and simulated on their own ranks, beside the time that they took.
//!
//! **Problem.** A projection onto thousands of nodes cannot be checked; its program and its network can, where the program ran. **Idea.**
//! LAMMPS and HPCC, as Debian ships them, run plain and traced in turns; the traces are simulated over the network that was
//! measured here in the same run. **Why this way.** What the simulation leaves out shows as a difference, and tracing that costs much
//! would show as one too.
//!
//! On two ranks, one a CPU, and on four, which share two CPUs and so take turns. What tracing costs is that of LAMMPS on two ranks, of which
//! many pairs are run: time that passes is what a user waits for, time of CPUs differs less from run to run. Building the library that
//! records is part of neither.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::middle::Middle;
use crate::soak::build_rampart;

/// Programs, their ranks, and how many pairs of a plain and a traced run: many where it is asked what tracing costs.
const RUNS: [(Prepare, usize, usize); 4] = [(lammps, 2, 12), (lammps, 4, 3), (hpcc, 2, 3), (hpcc, 4, 3)];

/// Runs a program, and tells then how long its processes were on CPUs.
const TIMED: [&str; 4] = ["sh", "-c", "\"$@\"; code=$?; times; exit $code", "sh"];

/// The Lennard-Jones melt that comes with LAMMPS (`examples/melt`), 32,000 atoms.
const MELT: &str = "units lj\natom_style atomic\nlattice fcc 0.8442\nregion box block 0 20 0 20 0 20\ncreate_box 1 box\n\
    create_atoms 1 box\nmass 1 1.0\nvelocity all create 1.44 87287 loop geom\npair_style lj/cut 2.5\n\
    pair_coeff 1 1 1.0 1.0 2.5\nneighbor 0.3 bin\nneigh_modify delay 0 every 20 check no\nfix 1 all nve\nthermo 50\nrun 100\n";

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
    println!("medians: what was measured, how far off the simulation is, what tracing costs (of a sign test: 95 %)\n");
    println!(
        "{:<8} {:>5} {:>11} {:>9}   {:<28} user+system",
        "program", "ranks", "measured", "off by", "tracing, wall"
    );
    for (prepare, ranks, pairs) in RUNS {
        match prepare(folder.path(), ranks) {
            Ok((name, command)) => {
                let program = Program { rampart: &rampart, network: &network, name, command, ranks };
                program.compare(folder.path(), pairs)?;
            }
            Err(skipped) => println!("skipped: {skipped}"),
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
    fn compare(&self, folder: &Path, pairs: usize) -> Result<(), String> {
        let (mut traced, mut off, mut wall, mut cpu) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for pair in 0..pairs {
            // Each comes first in every second pair.
            let mut said = [String::new(), String::new()];
            for with in if pair % 2 == 0 { [0, 1] } else { [1, 0] } {
                said[with] = output(&mut self.started(with == 1), folder)?;
            }
            let [plain, with] = said;
            wall.extend(own_seconds(&with).zip(own_seconds(&plain)).map(|(with, plain)| with / plain - 1.0));
            cpu.extend(cpu_seconds(&with).zip(cpu_seconds(&plain)).map(|(with, plain)| with / plain - 1.0));
            let (measured, simulated) = self.projected(folder)?;
            traced.push(measured);
            off.push(simulated / measured - 1.0);
        }
        let (measured, off) = (Middle::of(traced).median, 100.0 * Middle::of(off).median);
        let (wall, cpu) = (shown(wall), shown(cpu));
        println!("{:<8} {:>5} {measured:>9.3} s {off:>7.1} %   {wall:<28} {cpu}", self.name, self.ranks);
        Ok(())
    }

    fn started(&self, with: bool) -> Command {
        let ranks = self.ranks.to_string();
        let launch = [&TIMED[..], &["mpirun", "--oversubscribe", "-n", &ranks], &self.command].concat();
        if with {
            let mut command = Command::new(self.rampart);
            command.args(["trace", "-o", "out.trace", "--"]).args(launch);
            return command;
        }
        let mut command = Command::new(launch[0]);
        command.args(&launch[1..]);
        command
    }

    /// What the last traced run took, and its simulation.
    fn projected(&self, folder: &Path) -> Result<(f64, f64), String> {
        let mut project = Command::new(self.rampart);
        let project = project.args(["project", "--json", "--trace", "out.trace", "--network"]).arg(self.network);
        let answer: Value = serde_json::from_str(&output(project, folder)?).map_err(|error| error.to_string())?;
        let seconds = |name: &str| answer["traced"][name].as_f64().ok_or_else(|| format!("no {name}"));
        Ok((seconds("measured_seconds")?, seconds("simulated_seconds")?))
    }
}

/// What LAMMPS says that its steps took; HPCC says no such thing.
fn own_seconds(said: &str) -> Option<f64> {
    said.split_once("Loop time of ")?.1.split_whitespace().next()?.parse().ok()
}

/// User and system time by what `times` prints last: `1m2.3s 0m0.4s`.
fn cpu_seconds(said: &str) -> Option<f64> {
    let seconds = |time: &str| {
        let (minutes, seconds) = time.strip_suffix('s')?.split_once('m')?;
        Some(60.0 * minutes.parse::<f64>().ok()? + seconds.parse::<f64>().ok()?)
    };
    let (user, system) = said.lines().last()?.split_once(' ')?;
    Some(seconds(user)? + seconds(system)?)
}

fn shown(costs: Vec<f64>) -> String {
    if costs.is_empty() {
        return "-".to_owned();
    }
    let Middle { median, low, high } = Middle::of(costs);
    format!("{:.2} % ({:.2} to {:.2})", 100.0 * median, 100.0 * low, 100.0 * high)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_and_shells_say_of_time_is_read() {
        let said = "Loop time of 3.25 on 2 procs\n0m0.00s 0m0.00s\n1m6.250000s 0m0.500000s\n";
        assert_eq!((own_seconds(said), cpu_seconds(said)), (Some(3.25), Some(66.75)));
        assert_eq!((own_seconds("Loop time of"), cpu_seconds("done\n")), (None, None));
    }
}
