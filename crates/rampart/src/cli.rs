//! The command line of `rampart`. Bad arguments are refused before anything is touched.

use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue};
use clap::{Parser, Subcommand};

use crate::commands::access::AccessArguments;
use crate::commands::banks::arguments::BanksArguments;
use crate::commands::errors::ErrorsArguments;
use crate::commands::evidence::arguments::EvidenceArguments;
use crate::commands::heap::arguments::HeapCommand;
use crate::commands::inject::InjectCommand;
use crate::commands::java::arguments::JavaArguments;
use crate::commands::kernel::arguments::KernelCommand;
use crate::commands::manual::{CompletionsArguments, ManArguments};
use crate::commands::map::arguments::MapCommand;
use crate::commands::march::MarchCommand;
use crate::commands::mpirun::arguments::MpirunArguments;
use crate::commands::noise::arguments::NoiseArguments;
use crate::commands::project::arguments::ProjectArguments;
use crate::commands::run::arguments::RunArguments;
use crate::commands::simulate::arguments::SimulateArguments;
use crate::commands::status::arguments::StatusArguments;
use crate::commands::test::arguments::TestArguments;
use crate::commands::trace::arguments::TraceArguments;
use crate::commands::watch::arguments::WatchArguments;

/// Keeps programs correct on memory that is not.
#[derive(Debug, Parser)]
#[command(name = "rampart", version, about, propagate_version = true, max_term_width = 100)]
pub struct Arguments {
    /// The file that keeps bad frames and test history [default: /var/lib/rampart/rampart.db for root, else
    /// ~/.local/state/rampart/rampart.db]
    #[arg(long, global = true, display_order = 900, value_name = "FILE", env = "RAMPART_STORE")]
    pub store: Option<PathBuf>,
    /// Print only the verdict, errors, and what is asked for: no single findings, no progress
    #[arg(short, long, global = true, display_order = 901)]
    pub quiet: bool,
    /// Print all findings and more detail, where a command has more (test, watch, run, map, status)
    #[arg(short, long, global = true, display_order = 902)]
    pub verbose: bool,
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Test this machine's free memory once, while it works
    Test(TestArguments),
    /// List the march tests, show one, prove which faults they find
    #[command(subcommand)]
    March(MarchCommand),
    /// Show, export, restore and edit the map of bad frames
    #[command(subcommand)]
    Map(MapCommand),
    /// List the faults that can be emulated
    #[command(subcommand)]
    Inject(InjectCommand),
    /// Repeat an experiment of COMeT and Asteroid on a simulated machine
    Simulate(SimulateArguments),
    /// List every table and figure of the five works that Rampart implements, with the command that regenerates it
    Evidence(EvidenceArguments),
    /// Test this machine's free memory continuously, as a daemon: each frame within reach once per lifetime
    Watch(Box<WatchArguments>),
    /// Run a program under guard: verify its heap before use, and correct errors
    Run(Box<RunArguments>),
    /// Run a Java program on a heap that leaves out failed lines of memory
    Java(Box<JavaArguments>),
    /// Measure what failed lines cost Java programs, draw that, and show what a heap with failed lines looks like
    #[command(subcommand)]
    Heap(HeapCommand),
    /// Show which memory a guarded program unlocked when, from a file of `rampart run --trace-access`
    Access(AccessArguments),
    /// Project what memory errors cost a program on thousands of nodes
    Project(Box<ProjectArguments>),
    /// Record what an unmodified MPI program computes and sends, for `rampart project --trace`
    Trace(TraceArguments),
    /// Run an MPI program with replicas of each rank: find wrong messages before they are used, and correct them
    Mpirun(Box<MpirunArguments>),
    /// Measure how often, and for how long, this machine takes its CPUs from programs
    Noise(NoiseArguments),
    /// Show the memory errors of this machine by DIMM: counters, rasdaemon's records, and their rate
    Errors(ErrorsArguments),
    /// Show what each memory block holds, and whether it can be emptied; empty blocks, and bring them back
    Banks(BanksArguments),
    /// Build, load and unload Rampart's kernel module; show what it counts
    #[command(subcommand)]
    Kernel(KernelCommand),
    /// Show this machine, what is possible on it and what is not, the last tests, bad frames, and the daemon
    Status(StatusArguments),
    /// Print what completes command lines in a shell: rampart completions bash >
    /// /usr/share/bash-completion/completions/rampart
    Completions(CompletionsArguments),
    /// Write the pages for `man` into a folder
    #[command(hide = true)]
    Man(ManArguments),
}

/// Flags of earlier versions: the subcommands that had one, its old name, its new name.
const RENAMED_FLAGS: [(&[&str], &str, &str); 2] =
    [(&["run"], "--ahead", "--prefetch"), (&["test", "watch"], "--order", "--sequence")];

/// The new name of the flag that these arguments of `rampart` are refused for, as a message; `None` if the flag never
/// existed.
pub fn message_for_renamed_flag(refusal: &clap::Error, arguments: &[String]) -> Option<String> {
    let Some(ContextValue::String(flag)) = refusal.get(ContextKind::InvalidArg) else { return None };
    let (_, old, new) = RENAMED_FLAGS.iter().find(|(commands, old, _)| {
        flag == old && arguments.iter().any(|argument| commands.contains(&argument.as_str()))
    })?;
    Some(format!("{old} is called {new} now (CHANGELOG.md)"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    /// A subcommand is a name that users have in scripts: a rename of its variant must not rename it.
    #[test]
    fn the_subcommands_keep_their_names() {
        let names: Vec<String> = Arguments::command().get_subcommands().map(|one| one.get_name().to_owned()).collect();
        let expected = [
            "test",
            "march",
            "map",
            "inject",
            "simulate",
            "evidence",
            "watch",
            "run",
            "java",
            "heap",
            "access",
            "project",
            "trace",
            "mpirun",
            "noise",
            "errors",
            "banks",
            "kernel",
            "status",
            "completions",
            "man",
        ];
        assert_eq!(names, expected);
        let below = |name: &str| -> Vec<String> {
            let command = Arguments::command();
            let parent = command.find_subcommand(name).expect("it exists");
            parent.get_subcommands().map(|one| one.get_name().to_owned()).collect()
        };
        assert_eq!(below("march"), ["list", "show", "prove"]);
        assert_eq!(below("map"), ["show", "export", "restore", "add", "forget"]);
        assert_eq!(below("inject"), ["list"]);
        assert_eq!(below("banks"), ["consolidate", "record", "replay", "pools", "restore"]);
        assert_eq!(below("kernel"), ["build", "load", "unload", "status"]);
        assert_eq!(below("project"), ["sweep", "calibrate"]);
    }

    #[test]
    fn a_renamed_flag_is_refused_with_its_new_name() {
        let message = |line: &str| {
            let arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let refusal = Arguments::try_parse_from(&arguments).expect_err("the flag is gone");
            message_for_renamed_flag(&refusal, &arguments)
        };
        let renamed = |old: &str, new: &str| Some(format!("{old} is called {new} now (CHANGELOG.md)"));
        assert_eq!(message("rampart run --ahead 4 true"), renamed("--ahead", "--prefetch"));
        assert_eq!(message("rampart run --ahead=4 true"), renamed("--ahead", "--prefetch"));
        assert_eq!(message("rampart test --order both"), renamed("--order", "--sequence"));
        assert_eq!(message("rampart watch --order interleaved"), renamed("--order", "--sequence"));
        assert_eq!(message("rampart noise --order both"), None);
        assert_eq!(message("rampart test --orders both"), None);
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for bad in [
            &["test", "--memory", "0"] as &[_],
            &["test", "--memory", "1KiB"],
            &["test", "--memory", "lots"],
            &["test", "--for", "0s"],
            &["test", "--for", "soon"],
            &["test", "--threads", "0"],
            &["test", "--fidelity", "0"],
            &["test", "--fidelity", "9999"],
            &["test", "--passes", "0"],
            &["test", "--retention", "2m"],
            &["watch", "--retention", "soon"],
            &["test", "--inject", "nonsense:3"],
            &["map", "forget", "frame"],
            &["map", "export", "--format", "xml"],
            &["simulate", "figure34", "--for", "19s"],
            &["simulate", "figure34", "--seeds", "0"],
            &["simulate", "figure34", "--seeds", "18446744073709551615"],
            &["project", "--mtbce", "30000000s"],
            &["project", "--mtbce", "1s", "--cost", "214d"],
            &["noise", "--for", "214d"],
            &["noise", "--threshold", "214d"],
            &["noise", "--errors-every", "214d"],
            &["watch", "--metrics", "0.0.0.0:9437"],
            &["watch", "--metrics", "192.168.1.1:9437"],
            &["watch", "--max-share", "0%"],
            &["watch", "--max-share", "50"],
            &["watch", "--policy", "on-demand"],
            &["watch", "--lifetime", "0s"],
        ] {
            let line = std::iter::once("rampart").chain(bad.iter().copied());
            assert!(Arguments::try_parse_from(line).is_err(), "{bad:?}");
        }
    }
}
