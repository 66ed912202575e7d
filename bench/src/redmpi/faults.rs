//! `redmpi-faults`: what becomes of flips in messages, and of calls that are other ones, beside [Fiala15, 3.7.2].
//!
//! **Problem.** Replicas must correct each wrong message, or stop the job; a wrong result must never come out.
//! **Idea.** A program runs many times, each time with other flips. What it prints is compared with what it prints
//! without them, and each flip is looked for among the mismatches that were reported. **Why this way.** Rampart's own
//! report is not the judge: the program's results are. Words that differ between runs without flips, such as times, do
//! not count.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{Program, listed};
use crate::soak::build_rampart;

/// Seconds after which a job counts as hung.
const LIMIT: &str = "600";

/// Runs of each program without flips; and more where a word differs, which may be a time that was the same until then.
const CLEAN_RUNS: usize = 3;
const MORE_CLEAN_RUNS: usize = 20;

/// What is wrong in each run.
enum Fault {
    /// One bit is flipped, in a message, a rank and a replica that are drawn anew.
    Flip,
    /// A bit is flipped in each message with a probability of 1/odds, in one replica or in all.
    Flips { odds: u64, replica: Option<u64> },
    /// One send is another call, in a rank and a replica that are drawn anew: a word of `--inject call:change=`.
    Call(String),
}

struct Campaign {
    rampart: PathBuf,
    mpi: String,
    runs: usize,
    replicas: u64,
    seed: u64,
    fault: Fault,
}

/// Runs the programs of a list with faults, and prints a row for each.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let (mut runs, mut mpi, mut replicas, mut seed) = (100, "openmpi".to_owned(), 3, 1);
    let (mut odds, mut replica, mut list, mut rampart, mut change) = (None, None, None, None, None);
    for argument in arguments {
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("{argument} has no number"));
        match argument.split_once('=') {
            Some(("runs", text)) => runs = text.parse().map_err(|_| format!("{argument} has no number"))?,
            Some(("mpi", name)) => name.clone_into(&mut mpi),
            Some(("replicas", text)) => replicas = number(text)?,
            Some(("seed", text)) => seed = number(text)?,
            Some(("odds", text)) => odds = Some(number(text)?),
            Some(("change", word)) => change = Some(word.to_owned()),
            Some(("rampart", path)) => rampart = Some(PathBuf::from(path)),
            Some(("replica", text)) => replica = Some(number(text)?),
            _ => list = Some(PathBuf::from(argument)),
        }
    }
    let flips = odds.map_or(Fault::Flip, |odds| Fault::Flips { odds, replica });
    let fault = change.map_or(flips, Fault::Call);
    let programs = listed(&list.ok_or("name a list of programs: NAME RANKS PROGRAM [ARGUMENT...]")?)?;
    let rampart = rampart.map_or_else(build_rampart, Ok)?;
    let campaign = Campaign { rampart, mpi, runs, replicas, seed, fault };
    println!("{runs} runs of each program with a fault, {replicas} replicas, {}, seed {seed}", campaign.mpi);
    println!("{}", Counts::HEAD);
    let (mut all, mut faults) = ([0; 10], 0);
    for program in &programs {
        let counts = campaign.of(program)?;
        println!("{}", row(&program.name, counts.numbers()));
        all.iter_mut().zip(counts.numbers()).for_each(|(sum, number)| *sum += number);
        faults += counts.faults();
    }
    println!("{}", row("all", all));
    println!("expected: no wrong result, no flip in a message missed, no hang, no replica named that had no flip");
    if faults > 0 { Err("there are some".to_owned()) } else { Ok(()) }
}

/// What became of the runs of a program.
#[derive(Default)]
struct Counts {
    runs: u64,
    flips: u64,
    mismatches: u64,
    /// Runs with a mismatch and right results.
    corrected: u64,
    /// Runs with right results in which nothing differed.
    masked: u64,
    /// Runs that ended early, with a reason.
    stopped: u64,
    wrong: u64,
    hung: u64,
    /// Flips in messages that reached their receiver unseen.
    missed: u64,
    /// Mismatches that blame a replica without a flip.
    misnamed: u64,
}

impl Counts {
    const HEAD: &str =
        "program     runs   flips  mismatches  corrected  masked  stopped  wrong  hung  missed  misnamed";

    fn numbers(&self) -> [u64; 10] {
        let Self { runs, flips, mismatches, corrected, masked, stopped, wrong, hung, missed, misnamed } = *self;
        [runs, flips, mismatches, corrected, masked, stopped, wrong, hung, missed, misnamed]
    }

    /// What must never be.
    const fn faults(&self) -> u64 {
        self.wrong + self.hung + self.missed + self.misnamed
    }
}

/// A row of the table, as wide as its head.
fn row(name: &str, numbers: [u64; 10]) -> String {
    let widths = [5, 7, 11, 10, 7, 8, 6, 5, 7, 9];
    let columns = numbers.iter().zip(widths).map(|(number, width)| format!(" {number:>width$}"));
    format!("{name:<10}{}", columns.collect::<String>())
}

/// What a job printed, and Rampart's report of it.
struct Ran {
    words: Vec<String>,
    report: Option<Value>,
}

impl Campaign {
    fn of(&self, program: &Program) -> Result<Counts, String> {
        let clean = (0..CLEAN_RUNS).map(|_| self.job(program, None)).collect::<Result<Vec<_>, _>>()?;
        let mut expected = Expected::of(&clean, &program.name)?;
        let compared = clean[0].report.as_ref().and_then(|report| report["compared"].as_u64()).unwrap_or(0);
        // A process sends about as many messages as it compares.
        let messages = compared / (program.ranks as u64 * self.replicas);
        let mut counts = Counts::default();
        let mut random = self.seed;
        let mut tries = 0;
        while counts.runs < self.runs as u64 {
            tries += 1;
            if tries > 3 * self.runs {
                return Err(format!("{}: most runs have no fault", program.name));
            }
            let mut below = |limit: u64| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (random >> 33) % limit.max(1)
            };
            let seed = below(1 << 20);
            let (at, rank) = (1 + below(messages), below(program.ranks as u64));
            let anywhere = format!("at={at},rank={rank},replica={}", below(self.replicas));
            let fault = match &self.fault {
                Fault::Flip => format!("flip:send:{anywhere},seed={seed}"),
                Fault::Flips { odds, replica } => {
                    let replica = replica.map_or_else(String::new, |replica| format!(",replica={replica}"));
                    format!("flip:send:rate=1/{odds},seed={seed}{replica}")
                }
                Fault::Call(change) => format!("call:{anywhere},change={change}"),
            };
            let before = counts.faults();
            let job = self.job(program, Some(&fault))?;
            if job.report.is_some() && !expected.is(&job.words) {
                let more = (0..MORE_CLEAN_RUNS).map(|_| self.job(program, None)).collect::<Result<Vec<_>, _>>()?;
                expected.leave_out_what_varies(&more);
            }
            counts.see(&job, &expected);
            if counts.faults() > before {
                println!("look at {} with --inject {fault}", program.name);
            }
        }
        Ok(counts)
    }

    fn job(&self, program: &Program, fault: Option<&str>) -> Result<Ran, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let rampart = self.rampart.canonicalize().map_err(|error| error.to_string())?;
        let mut command = Command::new("timeout");
        command.args(["--kill-after=20", LIMIT]).arg(rampart).args(["mpirun", "--json", "-n"]);
        command.args([&program.ranks.to_string(), "--replicas", &self.replicas.to_string()]);
        command.arg(format!("--launcher=mpirun.{}", self.mpi));
        if let Some(fault) = fault {
            command.args(["--inject", fault]);
        }
        command.arg("--").args(&program.command).current_dir(folder.path()).stdin(Stdio::null());
        command.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
        let output = command.output().map_err(|error| error.to_string())?;
        let (out, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let document = said.find("\n{\n").map_or(&*said, |place| &said[place + 1..]);
        let report = if output.status.code() == Some(124) { None } else { serde_json::from_str(document).ok() };
        Ok(Ran { words: out.split_whitespace().map(str::to_owned).collect(), report })
    }
}

/// The words that a program prints in each run, and `None` for those that vary.
struct Expected(Vec<Option<String>>);

impl Expected {
    fn of(clean: &[Ran], name: &str) -> Result<Self, String> {
        let [first, rest @ ..] = clean else { return Err("no runs without flips".to_owned()) };
        for one in clean {
            match &one.report {
                Some(report) if report["differed"] == 0 && report["stopped"].is_null() => {}
                other => return Err(format!("{name} without flips: {other:?}")),
            }
            if one.words.len() != first.words.len() || one.words.is_empty() {
                return Err(format!("{name} does not print the same number of words in each run"));
            }
        }
        let mut expected = Self(first.words.iter().cloned().map(Some).collect());
        expected.leave_out_what_varies(rest);
        Ok(expected)
    }

    fn leave_out_what_varies(&mut self, clean: &[Ran]) {
        for (place, word) in self.0.iter_mut().enumerate() {
            if clean.iter().any(|one| one.words.get(place) != word.as_ref()) {
                *word = None;
            }
        }
    }

    fn is(&self, words: &[String]) -> bool {
        words.len() == self.0.len()
            && words.iter().zip(&self.0).all(|(word, expected)| expected.as_ref().is_none_or(|one| one == word))
    }
}

impl Counts {
    fn see(&mut self, job: &Ran, expected: &Expected) {
        let Some(report) = &job.report else {
            self.runs += 1;
            self.hung += 1;
            return;
        };
        let list = |name: &str| report[name].as_array().map_or(&[][..], Vec::as_slice);
        let (flips, mismatches) = (list("injections"), list("mismatches"));
        if flips.is_empty() {
            return;
        }
        self.runs += 1;
        self.flips += flips.len() as u64;
        self.mismatches += report["differed"].as_u64().unwrap_or(0);
        let hit: BTreeSet<u64> = flips.iter().filter_map(|flip| flip["replica"].as_u64()).collect();
        let blamed = mismatches.iter().filter_map(|one| one["wrong_replicas"].as_array()).flatten();
        self.misnamed += u64::from(blamed.filter_map(Value::as_u64).any(|replica| !hit.contains(&replica)));
        if !report["stopped"].is_null() || !report["died"].is_null() {
            self.stopped += 1;
            return;
        }
        self.missed += flips.iter().filter(|flip| is_missed(flip, mismatches)).count() as u64;
        match (expected.is(&job.words), mismatches.is_empty()) {
            (false, _) => self.wrong += 1,
            (true, false) => self.corrected += 1,
            (true, true) => self.masked += 1,
        }
    }
}

/// Whether no mismatch tells of a flip in a message between ranks. One in what a rank gives to a collective operation
/// may be lost there, as in a maximum. A call that is another one flips no bit.
fn is_missed(flip: &Value, mismatches: &[Value]) -> bool {
    let is_message = flip["to"].is_u64() && flip["tag"].is_u64() && flip["bit"].is_u64();
    is_message
        && !mismatches.iter().any(|one| {
            let is_named = one["wrong_replicas"].as_array().is_some_and(|list| list.contains(&flip["replica"]));
            one["sender"] == flip["rank"] && one["tag"] == flip["tag"] && one["bytes"] == flip["bytes"] && is_named
        })
}
