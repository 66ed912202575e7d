//! Programs under guard in hostile settings: those of the table that take least time. `cargo xtask bench hostile` tries all.

use rampart_trials::Programs;
use rampart_trials::hostile::{Ground, SETTINGS, Verdict};

use crate::guarded::{engines, installed, library};
use crate::harness::Rampart;

/// Settings in which a guarded program works under every engine.
const WORK: &[&str] = &[
    "nothing",
    "8 threads",
    "ulimit -n 64",
    "ulimit -l 0",
    "RLIMIT_NPROC 0, set by the program",
    "one CPU",
    "SIGALRM each millisecond",
    "SIGPROF each millisecond",
    "50 children end",
    "all signals blocked",
    "SIGSEGV and SIGBUS ignored",
    "sigaltstack in the heap",
    "ended by SIGKILL",
    "exit code 7",
    "fork",
    "vfork and exec",
    "posix_spawn",
    "a daemon by two forks",
    "a child with setuid",
    "a script with #!",
    "no_new_privs, set by the program",
    "chroot by the program",
    "setuid by the program",
    "TMPDIR with spaces",
    "HOME unset",
    "2,000 arguments",
    "LD_PRELOAD by the user",
    "standard input and error closed",
    "all standard files closed",
    "standard output full",
    "every file but the standard ones closed",
    "every file covered by another",
    "umask 000",
    "umask 777",
    "a program that is missing",
];

#[test]
fn a_program_works_in_hostile_settings_as_without_a_guard() {
    let rampart = Rampart::new();
    let engines: Vec<&str> = engines(&rampart).collect();
    if engines.is_empty() || !installed("bash") || !installed("cc") {
        return;
    }
    let programs = Programs::new(env!("CARGO_BIN_EXE_rampart"), library()).expect("a temporary folder");
    let ground = Ground::new(&programs).expect("a place for trials");
    for name in WORK {
        let setting = SETTINGS.iter().find(|setting| setting.name == *name).expect("a setting of the table");
        match ground.try_setting(setting, &engines).expect("it can be tried") {
            Ok(verdicts) => {
                let is_fine = |verdict: &Verdict| matches!(verdict, Verdict::Right | Verdict::Refused(_));
                assert!(verdicts.iter().all(is_fine), "{name}: {engines:?}: {verdicts:?}");
            }
            Err(why) => println!("skipped: {name}: {why}"),
        }
    }
}
