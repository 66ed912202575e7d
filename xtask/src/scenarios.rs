//! Scenarios on a separate Linux kernel, in an emulated machine (`tests/qemu/run`).
//!
//! The short form is part of all tests. It runs the binaries that the tests were built with, and covers every kind of
//! external fault; only repetitions are cut. It runs beside the other tests, since a guest keeps one CPU busy, and many
//! tests wait. The long form uses release builds and runs at night.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rampart_skips::{Feature, VARIABLE, has_program};

use crate::error::Error;
use crate::files::target;
use crate::process::{cargo, run, run_read};
use crate::skips::Skips;
use crate::tally::{Tally, skipped_check};

/// The packages that a scenario needs: the product, and the program that makes a guest's RAM bad.
const PACKAGES: [&str; 3] = ["rampart-cli", "rampart-preload", "rampart-badram"];

const RUN: &str = "tests/qemu/run";

const EMULATOR: &str = "qemu-system-x86_64";

/// Debian 12's kernels: its own, and the newer one of its security archive.
const KERNELS: [&str; 2] = ["6.1", "6.12"];

/// The one that `tests/qemu/patched_kernel` builds.
const PATCHED: &str = "6.12-patched";

/// A scenario of the short form.
struct Short {
    name: &'static str,
    kernel: &'static str,
    /// The options that its guest reads from the kernel's command line.
    options: &'static str,
}

impl Short {
    /// Its name in the list of what was skipped.
    fn title(&self) -> String {
        format!("{} on Linux {}", self.name, self.kernel)
    }
}

/// The short form: one boot each. The older kernel has no engine `move`, and lacks some requests that `minor` makes of
/// the newer.
const SHORT: [Short; 5] = [
    Short { name: "bad_ram", kernel: KERNELS[0], options: "short seconds=180" },
    Short { name: "retire", kernel: KERNELS[0], options: "" },
    Short { name: "stuck_cells", kernel: KERNELS[1], options: "" },
    Short { name: "stuck_cells", kernel: KERNELS[0], options: "only=minor" },
    Short { name: "banks", kernel: KERNELS[1], options: "" },
];

/// All boots of the short form together end within this time, though other tests take half of the CPUs.
const SHORT_LIMIT: Duration = Duration::from_secs(1200);

/// Runs scenarios, or all of them, on a release build.
pub fn run_named(root: &Path, names: &[String]) -> Result<(), Error> {
    build(root)?;
    run(Command::new(root.join(RUN)).args(names).current_dir(root))
}

/// Runs scenarios, or all of the kernel module, on a kernel with our patches, which is built if it is not there.
pub fn run_patched(root: &Path, names: &[String]) -> Result<(), Error> {
    run(Command::new(root.join("tests/qemu/patched_kernel")).current_dir(root))?;
    build(root)?;
    let mut scenarios = Command::new(root.join(RUN));
    scenarios.env("KERNEL", PATCHED).current_dir(root);
    if names.is_empty() {
        scenarios.args(of_kernel_module(root)?)
    } else {
        scenarios.args(names)
    };
    run(&mut scenarios)
}

/// The names of the kernel module's scenarios.
fn of_kernel_module(root: &Path) -> Result<Vec<String>, Error> {
    let path = root.join("tests/qemu/scenarios");
    let failed = |cause| Error::Read { path: path.clone(), cause };
    let mut names = Vec::new();
    for entry in fs::read_dir(&path).map_err(failed)? {
        let file = entry.map_err(failed)?.file_name().into_string().unwrap_or_default();
        names.extend(file.strip_suffix(".sh").filter(|name| name.starts_with("kernel_")).map(str::to_owned));
    }
    names.sort_unstable();
    Ok(names)
}

/// Prints which external faults the testers find.
pub fn table(root: &Path) -> Result<(), Error> {
    build(root)?;
    run(Command::new(root.join("tests/qemu/table")).current_dir(root))
}

/// All scenarios on each kernel, whatever fails, the table, and the tests of which a daily run has only a part.
pub fn nightly(root: &Path) -> Result<(), Error> {
    let skips = Skips::begin(root)?;
    let (mut tests, mut tally) = (cargo(root), Tally::default());
    tests.args(["test", "--package", "rampart-cli", "--test", "end_to_end"]);
    let tests = run_read(tests.env("RAMPART_TEST_WHOLE", "1").env(VARIABLE, skips.file()), |line| {
        println!("{line}");
        tally += Tally::of(line).unwrap_or_default();
    });
    let tests = skips.close(tally).and(tests);
    build(root)?;
    let all = |kernel| run(Command::new(root.join(RUN)).env("KERNEL", kernel).current_dir(root));
    let outcomes = KERNELS.map(all);
    table(root)?;
    outcomes.into_iter().chain([tests]).collect()
}

/// The short form by itself, with its counts on the last line.
pub fn short(root: &Path) -> Result<(), Error> {
    let skips = Skips::begin(root)?;
    build_short(root)?;
    skips.close(run_short(root, &skips)?)
}

/// Builds what the short form runs, like the tests: with other features, most packages would be compiled once more.
pub fn build_short(root: &Path) -> Result<(), Error> {
    run(cargo(root).args(["build", "--workspace", "--lib", "--bins", "--tests"]))
}

/// The short form: how many checks passed and failed. A scenario that fails without a failed check counts as one. What
/// each prints is shown when it ends.
pub fn run_short(root: &Path, skips: &Skips) -> Result<Tally, Error> {
    let mut total = Tally::default();
    let end = Instant::now() + SHORT_LIMIT;
    for scenario in SHORT {
        if has_program(EMULATOR) {
            total += run_one(root, skips, &scenario, end)?;
        } else {
            println!("skipped: {}: apt-get install qemu-system-x86 to run it", scenario.title());
            skips.add(Feature::Qemu, &scenario.title(), &format!("{EMULATOR} is not installed"))?;
        }
    }
    Ok(total)
}

fn run_one(root: &Path, skips: &Skips, short: &Short, end: Instant) -> Result<Tally, Error> {
    let mut scenario = Command::new(root.join(RUN));
    scenario.arg(short.name).current_dir(root).env("RAMPART", target(root).join("debug/rampart"));
    let left = end.saturating_duration_since(Instant::now()).as_secs().max(1);
    scenario.env("QUIET", "1").env("KERNEL", short.kernel).env("OPTIONS", short.options);
    let (mut tally, mut printed, mut skipped) = (Tally::default(), String::new(), Vec::new());
    let outcome = run_read(scenario.env("LIMIT", left.to_string()), |line| {
        tally += Tally::of_check(line).unwrap_or_default();
        skipped.extend(skipped_check(line).map(|(feature, why)| (feature, why.to_owned())));
        printed.extend([line, "\n"]);
    });
    print!("{printed}");
    for (feature, why) in skipped {
        skips.add(feature, &short.title(), &why)?;
    }
    Ok(tally.with_outcome(outcome.is_ok()))
}

fn build(root: &Path) -> Result<(), Error> {
    run(cargo(root).args(["build", "--release"]).args(PACKAGES.iter().flat_map(|name| ["--package", name])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_of_the_kernel_module_is_known_by_its_name() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask/ lies in the root");
        let names = of_kernel_module(root).expect("the scenarios can be read");
        assert!(names.contains(&"kernel_module".to_owned()), "{names:?}");
        assert!(names.iter().all(|name| name.starts_with("kernel_")), "{names:?}");
    }

    #[test]
    fn the_short_form_has_the_scenarios_of_faults_from_outside() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask/ lies in the root");
        for Short { name, .. } in SHORT {
            assert!(root.join("tests/qemu/scenarios").join(name).with_extension("sh").is_file(), "{name}");
        }
        for name in ["bad_ram", "stuck_cells"] {
            assert!(SHORT.iter().any(|scenario| scenario.name == name), "{name}");
        }
    }
}
