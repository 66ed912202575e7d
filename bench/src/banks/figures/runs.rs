//! The simulations, and the files that each writes.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use rampart_banks::{
    AllocatorName, HOLE_END, MachineSettings, ReplayReport, SyntheticLoad, SyntheticSettings, run_synthetic,
};
use rampart_memory::Bytes;

/// A file has at most so many samples, at equal distances.
const POINTS: usize = 240;

/// The patience of all runs: the default of `rampart banks replay`.
const PATIENCE_SECONDS: u64 = 10;

/// A kind of run.
#[derive(Clone, Copy)]
pub struct BankRun {
    /// Its name, of which its files have theirs.
    pub name: &'static str,
    load: SyntheticLoad,
    minutes: u64,
    gib: u64,
    bank_mib: u64,
    nodes: u32,
    ways: u32,
    allocator: AllocatorName,
    migrates: bool,
    /// It is run with the seeds from 1 to this one.
    pub seeds: u64,
}

const fn run(name: &'static str, load: SyntheticLoad, hours: u64, allocator: AllocatorName, seeds: u64) -> BankRun {
    let (gib, bank_mib, nodes, ways, migrates) = (32, 256, 2, 1, true);
    BankRun { name, load, minutes: hours * 60, gib, bank_mib, nodes, ways, allocator, migrates, seeds }
}

/// The same on a phone or a small desktop: 4 GiB, banks of 128 MiB [Panwar15, 5.1].
const fn small(run: BankRun) -> BankRun {
    BankRun { gib: 4, bank_mib: 128, nodes: 1, ..run }
}

const fn interleaved(run: BankRun) -> BankRun {
    BankRun { ways: 2, ..run }
}

use AllocatorName::{Adaptive, AdaptiveArbitrary, Buddy, Fullest, List};
use SyntheticLoad::{KernelHeavy, Light, Medium, Wide};

/// All kinds. Those of [Panwar15, table 5.1] have ten seeds.
pub const RUNS: &[BankRun] = &[
    // [Panwar15, figure 2.3]: a moment with little memory in use, after much was.
    quiet(run("quiet-buddy", Light, 2, Buddy, 1)),
    quiet(run("quiet-adaptive", Light, 2, Adaptive, 1)),
    quiet(run("quiet-fullest", Light, 2, Fullest, 1)),
    small(run("small-light-adaptive", Light, 2, Adaptive, 10)),
    small(run("small-light-fullest", Light, 2, Fullest, 10)),
    interleaved(small(run("small-light-adaptive-2-way", Light, 2, Adaptive, 10))),
    small(run("small-medium-adaptive", Medium, 10, Adaptive, 10)),
    small(run("small-medium-fullest", Medium, 10, Fullest, 10)),
    small(run("small-medium-list", Medium, 10, List, 1)),
    small(run("small-medium-buddy", Medium, 10, Buddy, 1)),
    interleaved(small(run("small-medium-adaptive-2-way", Medium, 10, Adaptive, 10))),
    run("light-adaptive", Light, 2, Adaptive, 10),
    interleaved(run("light-adaptive-2-way", Light, 2, Adaptive, 10)),
    run("light-fullest", Light, 2, Fullest, 10),
    run("light-list", Light, 2, List, 1),
    run("light-buddy", Light, 2, Buddy, 10),
    run("medium-buddy", Medium, 10, Buddy, 10),
    run("medium-adaptive", Medium, 10, Adaptive, 10),
    BankRun { migrates: false, ..run("medium-adaptive-no-migration", Medium, 10, Adaptive, 1) },
    interleaved(run("medium-adaptive-2-way", Medium, 10, Adaptive, 10)),
    run("medium-fullest", Medium, 10, Fullest, 10),
    BankRun { migrates: false, ..run("medium-fullest-no-migration", Medium, 10, Fullest, 1) },
    run("wide-buddy", Wide, 4, Buddy, 1),
    run("wide-adaptive", Wide, 4, Adaptive, 1),
    run("wide-fullest", Wide, 4, Fullest, 1),
    run("heavy-buddy", KernelHeavy, 2, Buddy, 10),
    run("heavy-adaptive", KernelHeavy, 2, Adaptive, 10),
    run("heavy-adaptive-arbitrary", KernelHeavy, 2, AdaptiveArbitrary, 1),
    run("heavy-fullest", KernelHeavy, 2, Fullest, 10),
    large(run("large-buddy", KernelHeavy, 1, Buddy, 1)),
    large(run("large-adaptive", KernelHeavy, 1, Adaptive, 1)),
    large(run("large-fullest", KernelHeavy, 1, Fullest, 1)),
];

/// At this minute, 82 % of the memory is free with the first seed, after more was in use.
const QUIET_MINUTE: u64 = 45;

const fn quiet(run: BankRun) -> BankRun {
    BankRun { minutes: QUIET_MINUTE, ..run }
}

/// Simulated, beside LKML's superpageblocks.
const fn large(run: BankRun) -> BankRun {
    BankRun { gib: 256, ..run }
}

const fn word(allocator: AllocatorName) -> &'static str {
    match allocator {
        Buddy => "buddy",
        AllocatorName::Array => "array",
        List => "list",
        Adaptive => "adaptive",
        AdaptiveArbitrary => "adaptive-arbitrary",
        Fullest => "fullest",
    }
}

impl BankRun {
    /// Returns the command that does the same.
    pub fn command(&self, seed: u64) -> String {
        let load = match self.load {
            Light => "light",
            Medium => "medium",
            Wide => "wide",
            KernelHeavy => "kernel-heavy",
        };
        let mut command = format!(
            "rampart banks replay --load {load} --for {}m --memory {}GiB --bank {}MiB --nodes {} --interleave {} \
             --reserve 2% --patience {PATIENCE_SECONDS}s --allocator {} --seed {seed}",
            self.minutes,
            self.gib,
            self.bank_mib,
            self.nodes,
            self.ways,
            word(self.allocator)
        );
        if !self.migrates {
            command += " --no-migration";
        }
        command
    }

    fn settings(&self, seed: u64) -> SyntheticSettings {
        let machine = MachineSettings {
            allocator: self.allocator,
            memory: Bytes::from_mib(self.gib << 10),
            low_memory: HOLE_END,
            bank: Bytes::from_mib(self.bank_mib),
            nodes: self.nodes,
            ways: self.ways,
            reserve_percent: 2,
            migrates: self.migrates,
            patience_micros: PATIENCE_SECONDS * 1_000_000,
        };
        SyntheticSettings { machine, load: self.load, micros: self.minutes * 60_000_000, seed }
    }

    /// Runs it, and writes its files; at last its row.
    pub fn write(&self, folder: &Path, seed: u64, commit: &str) -> Result<(), String> {
        let report = run_synthetic(self.settings(seed)).map_err(|error| error.to_string())?;
        if seed == 1 {
            let comments = format!("# {}\n# seed {seed}, commit {commit}\n", self.command(seed));
            for (kind, rows) in self.shown(&report) {
                let path = folder.join(format!("{}-{kind}.csv", self.name));
                std::fs::write(&path, comments.clone() + &rows).map_err(|why| format!("{}: {why}", path.display()))?;
            }
        }
        append(&folder.join("runs.csv"), &self.row(&report, seed, commit))
    }

    /// What the figures show of it.
    fn shown(&self, report: &ReplayReport) -> Vec<(&'static str, String)> {
        match (self.load, self.minutes) {
            (Light, QUIET_MINUTE) => vec![("footprint", footprint(report))],
            (Wide, _) => vec![("use", by_use(report))],
            (KernelHeavy, _) => vec![("samples", samples(report))],
            (Medium, _) if self.gib == 32 && self.ways == 1 => {
                vec![("samples", samples(report)), ("footprint", footprint(report))]
            }
            _ => Vec::new(),
        }
    }

    fn row(&self, report: &ReplayReport, seed: u64, commit: &str) -> String {
        let average = &report.average;
        let shown = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.4}"));
        let gib = |bytes: Bytes| bytes.get() as f64 / (1_u64 << 30) as f64;
        let emptied = report.migration.emptied as f64 * self.bank_mib as f64 / 1024.0;
        let most = report.most.offline.map(|banks| banks as f64 / report.banks as f64);
        format!(
            "{},{},{seed},{commit},{:.4},{:.4},{},{},{:.4},{},{:.2},{:.2},{emptied:.2},{},{:.2},{},{},{},{}\n",
            self.name,
            self.command(seed),
            average.free,
            average.removable,
            shown(average.offline),
            shown(most),
            average.optimum,
            shown(average.offline_of_free.or(Some(average.offlined_of_free))),
            gib(report.migration.moved),
            gib(report.migration.moved_again),
            report.most.tainted,
            average.tainted_gib,
            report.most.tainted_gib,
            report.steps.steals,
            report.refused,
            report.requests,
        )
    }
}

const COLUMNS: &str = "name,command,seed,commit,free,removable,offline,most_offline,optimum,c,moved_gib,moved_again_gib,\
                       emptied_gib,most_tainted,tainted_gib,most_tainted_gib,steals,refused,requests";

/// Adds a row, and begins the file if there is none.
fn append(path: &Path, row: &str) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let is_new = !path.exists();
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).map_err(failed)?;
    let head = format!(
        "# cargo xtask bench banks figures\n# a row for each run, with its command, seed and commit; the machine is \
         simulated\n# without pools (buddy), c is that of all banks that could go\n{COLUMNS}\n"
    );
    file.write_all((if is_new { head } else { String::new() } + row).as_bytes()).map_err(failed)
}

fn samples(report: &ReplayReport) -> String {
    let mut text = String::from(
        "hours,free,removable,empty,offline,optimum,tainted_gib,unusable_9,unusable_10,refused_9,requests_9,refused_10,requests_10,moved_gib,emptied\n",
    );
    let between = report.samples.len().div_ceil(POINTS).max(1);
    let (banks, memory) = (report.banks as f64, memory(report));
    for sample in report.samples.iter().skip(between - 1).step_by(between) {
        let of = |count: u64| count as f64 / banks;
        let _ = writeln!(
            text,
            "{:.4},{:.4},{:.4},{:.4},{},{:.4},{},{:.4},{:.4},{},{},{},{},{:.2},{}",
            sample.micros as f64 / 3.6e9,
            sample.free.get() as f64 / memory,
            of(sample.removable),
            of(sample.empty),
            sample.offline.map_or_else(String::new, |offline| format!("{:.4}", of(offline))),
            of(sample.optimum),
            sample.tainted_gib,
            sample.unusable_9,
            sample.unusable_10,
            sample.order_9.refused,
            sample.order_9.requests,
            sample.order_10.refused,
            sample.order_10.requests,
            sample.moved.get() as f64 / (1_u64 << 30) as f64,
            sample.emptied,
        );
    }
    text
}

fn memory(report: &ReplayReport) -> f64 {
    report.footprint.section.get() as f64 * report.footprint.kernel.len() as f64
}

fn footprint(report: &ReplayReport) -> String {
    let footprint = &report.footprint;
    let mut text = String::from("section,kernel,movable\n");
    for (place, (kernel, movable)) in footprint.kernel.iter().zip(&footprint.movable).enumerate() {
        let share = |bytes: &Bytes| bytes.get() as f64 / footprint.section.get() as f64;
        let _ = writeln!(text, "{place},{:.4},{:.4}", share(kernel), share(movable));
    }
    text
}

fn by_use(report: &ReplayReport) -> String {
    let mut text = String::from("used,samples,touched,tainted\n");
    for uses in &report.by_use {
        let _ = writeln!(text, "{},{},{:.4},{:.4}", uses.from_percent, uses.samples, uses.touched, uses.tainted);
    }
    text
}
