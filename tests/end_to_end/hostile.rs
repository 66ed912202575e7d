//! Programs under guard in hostile settings: the fastest of the table. `cargo xtask bench hostile` tries all.

use rampart_trials::Programs;
use rampart_trials::hostile::{Ground, SETTINGS, Verdict};

use crate::guarded::{engines, installed, library};
use crate::harness::Rampart;

/// Settings in which a guarded program works, or is refused where the table allows that; each is tried with one engine,
/// in turn.
const WORK: &[&str] = &[
    "nothing",
    "8 threads",
    "ulimit -n 64",
    "ulimit -l 0",
    "ulimit -d 1 GiB",
    "ulimit -s 256",
    "ulimit -f 0",
    "RLIMIT_NOFILE 64, set by the program",
    "RLIMIT_NPROC 0, set by the program",
    "RLIMIT_AS 1 MiB, set by the program",
    "mlockall(MCL_FUTURE)",
    "mlock of the heap",
    "one CPU",
    "SIGALRM each millisecond",
    "SIGPROF each millisecond",
    "50 children end",
    "all signals blocked",
    "all blocked by the parent",
    "all ignored by the parent",
    "SIGCHLD ignored by the parent",
    "SIGSEGV and SIGBUS ignored",
    "all handlers set to their defaults",
    "sigaltstack in the heap",
    "SIGSTOP and SIGCONT",
    "ended by SIGKILL",
    "ended by abort",
    "exit code 7",
    "fork",
    "vfork and exec",
    "posix_spawn",
    "system",
    "a daemon by two forks",
    "exec of itself",
    "a child with setuid",
    "a script with #!",
    "seccomp, a filter that answers EPERM",
    "no_new_privs, set by the program",
    "not dumpable",
    "chroot by the program",
    "setuid by the program",
    "without /dev/shm",
    "temporary files read-only",
    "temporary files on a full disk",
    "TMPDIR missing",
    "TMPDIR with spaces",
    "HOME unset",
    "2,000 arguments",
    "LD_PRELOAD by the user",
    "standard input closed",
    "standard error closed",
    "standard input and error closed",
    "all standard files closed",
    "standard output full",
    "standard output a closed pipe",
    "every file but the standard ones closed",
    "every file covered by another",
    "umask 000",
    "umask 777",
    "a program that is missing",
    "a report that cannot be written",
];

/// Settings that the engines once handled differently; each is tried with all.
const WORK_WITH_EACH: &[&str] = &[
    "RLIMIT_NOFILE 0, set by the program",
    "mlockall(MCL_CURRENT)",
    "the last thread ends by itself",
    "_Fork",
    "raw clone",
    "raw clone3",
    "seccomp, strict",
    "seccomp, strict, ended by the kernel",
    "seccomp, a filter that kills",
];

/// Settings that are hostile where a locked page raises a signal.
const WORK_WITH_SIGNALS: &[&str] = &["a child that is traced", "threads in a locale"];

#[test]
fn a_program_works_in_hostile_settings_as_without_a_guard() {
    let rampart = Rampart::new();
    let engines: Vec<&str> = engines(&rampart).collect();
    if engines.is_empty() || !installed("bash") || !installed("cc") {
        return;
    }
    let programs = Programs::new(env!("CARGO_BIN_EXE_rampart"), library()).expect("a temporary folder");
    let ground = Ground::new(&programs).expect("a place for trials");
    let in_turn = WORK.iter().zip(engines.chunks(1).cycle());
    let with_each = WORK_WITH_EACH.iter().map(|name| (name, &engines[..]));
    let with_signals = WORK_WITH_SIGNALS.iter().map(|name| (name, &["mprotect"][..]));
    for (name, engines) in in_turn.chain(with_each).chain(with_signals) {
        let setting = SETTINGS.iter().find(|setting| setting.name == *name).expect("a setting of the table");
        match ground.try_setting(setting, engines).expect("it can be tried") {
            Ok(verdicts) => {
                let is_fine = |verdict: &Verdict| matches!(verdict, Verdict::Right | Verdict::Refused(_));
                assert!(verdicts.iter().all(is_fine), "{name}: {engines:?}: {verdicts:?}");
            }
            Err(why) => rampart_skips::skip(rampart_skips::Feature::HostileSetting, format!("{name}: {why}")),
        }
    }
}
