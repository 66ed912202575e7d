//! Man pages and completions: written from the command line's own definition.

use std::collections::BTreeSet;
use std::process::Command;

use crate::harness::{CommandOutput, Rampart};

/// The commands that `rampart --help` lists.
fn listed(rampart: &Rampart) -> BTreeSet<String> {
    let help = rampart.run(&["--help"]).out;
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // Lines that go on are indented further.
    let named = commands.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    named.filter_map(|line| line.split_whitespace().next().map(str::to_owned)).filter(|name| name != "help").collect()
}

#[test]
fn each_command_has_a_page_for_man() {
    let rampart = Rampart::new();
    let folder = rampart.folder().join("a/man");
    let output = rampart.run(&["man", folder.to_str().unwrap()]);
    assert_eq!((output.code, output.out.as_str()), (Some(0), ""), "{}", output.err);
    let commands = listed(&rampart);
    assert!(commands.len() >= 16 && commands.contains("mpirun"), "{commands:?}");
    for command in &commands {
        let page = std::fs::read_to_string(folder.join(format!("rampart-{command}.1"))).unwrap();
        assert!(page.contains(".SH OPTIONS") || page.contains(".SH SUBCOMMANDS"), "{command}: {page}");
    }
    let page = std::fs::read_to_string(folder.join("rampart-mpirun.1")).unwrap();
    assert!(page.contains("replicas") && page.contains("flip:send:rate=1/X"), "{page}");
    let refused = rampart.run(&["man", "/proc/nowhere"]);
    assert_eq!((refused.code, refused.err.lines().count()), (Some(2), 1), "{}", refused.err);
}

#[test]
fn shells_complete_each_command() {
    let rampart = Rampart::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = rampart.run(&["completions", shell]);
        assert_eq!((script.code, script.err.as_str()), (Some(0), ""));
        for command in listed(&rampart) {
            assert!(script.out.contains(&command), "{shell}: {command}");
        }
    }
    // What bash itself offers after `rampart mp`.
    let script = rampart.folder().join("completions");
    std::fs::write(&script, rampart.run(&["completions", "bash"]).out).unwrap();
    let ask =
        "source \"$1\"; COMP_WORDS=(rampart mp); COMP_CWORD=1; _rampart rampart mp rampart; echo \"${COMPREPLY[@]}\"";
    let output = CommandOutput::from(Command::new("bash").args(["-c", ask, "-"]).arg(&script).output().unwrap());
    assert_eq!((output.code, output.out.trim()), (Some(0), "mpirun"), "{output:?}");
    assert_eq!(rampart.run(&["completions", "cmd"]).code, Some(2));
}
