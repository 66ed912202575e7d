//! `rampart run` leaves these alone: other users' files, closed streams, signals, exit codes, and programs that it
//! cannot guard.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use rampart_skips::{Feature, skip};

use crate::guarded::{can_guard, count, engines, installed, library, report, run, victim};
use crate::harness::{CommandOutput, Rampart, end, signal};

/// The files that a run leaves in the folder for temporary files.
struct Temporary(PathBuf);

impl Temporary {
    /// A folder with the permissions of /tmp.
    fn new(rampart: &Rampart) -> Self {
        let folder = rampart.folder().join("tmp");
        fs::create_dir_all(&folder).expect("a folder");
        for shared in [rampart.folder(), &folder] {
            fs::set_permissions(shared, PermissionsExt::from_mode(0o1777)).expect("it is ours");
        }
        Self(folder)
    }

    fn is_empty(&self) -> bool {
        fs::read_dir(&self.0).expect("a folder").next().is_none()
    }

    fn command(&self, rampart: &Rampart, arguments: &[&str]) -> Command {
        let mut command = rampart.command(&[&["run", "--test", "none"], arguments].concat());
        command.env("RAMPART_GUARD_LIBRARY", library()).env("TMPDIR", &self.0).current_dir(rampart.folder());
        command
    }

    /// Runs a shell script under guard, inside another script that prepares the settings: `"$@"` is the run.
    fn run_below(&self, rampart: &Rampart, set_up: &str, script: &str) -> CommandOutput {
        let run = self.command(rampart, &["--", "sh", "-c", script]);
        let mut shell = Command::new("sh");
        shell.args(["-c", set_up, "sh"]).arg(run.get_program()).args(run.get_args()).current_dir(rampart.folder());
        shell.envs(run.get_envs().filter_map(|(name, value)| Some((name, value?)))).stdin(Stdio::null());
        CommandOutput::from(shell.output().expect("sh runs"))
    }
}

fn bad_frames(rampart: &Rampart) -> usize {
    rampart.json(&["map", "show", "--json"])["frames"].as_array().expect("a list").len()
}

/// Condemns a frame.
const FORGED: &str = r#"{\"event\":\"uncorrectable\",\"page\":3,\"offset\":12288,\"frame\":77}"#;

#[test]
fn the_folder_of_a_run_is_its_users_alone_whatever_the_umask() {
    let rampart = Rampart::new();
    if !can_guard(&rampart) {
        return;
    }
    let temporary = Temporary::new(&rampart);
    let list = "stat -c %a $RAMPART_GUARD_STATE $RAMPART_GUARD_STATE/*";
    for umask in ["000", "022", "777"] {
        let output = temporary.run_below(&rampart, &format!("umask {umask}; exec \"$@\""), list);
        let rights: Vec<_> = output.out.lines().collect();
        assert_eq!(rights[0], "700", "umask {umask}: {output:?}");
        assert!(rights.len() > 3 && rights[1..].iter().all(|&rights| rights == "600"), "umask {umask}: {output:?}");
        assert!(temporary.is_empty(), "umask {umask}");
    }
    if !rampart_skips::root("only root becomes another user") || !installed("setpriv") {
        return;
    }
    let nobody = "env -u LD_PRELOAD setpriv --reuid 65534 --regid 65534 --clear-groups";
    let attack = format!(
        "cd /; for name in 99.jsonl bad-frames server checkpoint 99.counts; do
             {nobody} sh -c \"echo '{FORGED}' >> $RAMPART_GUARD_STATE/$name\" && echo wrote $name
             {nobody} ln -s /precious $RAMPART_GUARD_STATE/$name.link && echo linked $name
         done
         {nobody} flock -n $RAMPART_GUARD_STATE/server true && echo locked
         {nobody} ls $RAMPART_GUARD_STATE && echo listed
         sleep 0.2; echo done"
    );
    let output = temporary.run_below(&rampart, "umask 000; exec \"$@\"", &attack);
    assert_eq!((output.code, output.out.as_str()), (Some(0), "done\n"), "{}", output.err);
    assert!(!output.err.contains("frame 0x4d") && bad_frames(&rampart) == 0, "{}", output.err);
}

/// Only the program itself could write them; even so, nobody else's word condemns a frame.
#[test]
fn what_another_user_or_a_link_says_condemns_no_frame() {
    let rampart = Rampart::new();
    if !rampart_skips::root("only root gives a file away") || !can_guard(&rampart) {
        return;
    }
    let temporary = Temporary::new(&rampart);
    let forged = FORGED.replace('\\', "");
    let forge = format!(
        "echo '{forged}' > theirs; chown 65534 theirs; mv theirs $RAMPART_GUARD_STATE/97.jsonl
         echo '{forged}' > elsewhere; ln -s $PWD/elsewhere $RAMPART_GUARD_STATE/98.jsonl
         echo '{forged}' > twin; ln twin $RAMPART_GUARD_STATE/99.jsonl
         mkfifo $RAMPART_GUARD_STATE/96.jsonl; sleep 0.3; echo done"
    );
    let output = temporary.run_below(&rampart, "exec \"$@\"", &forge);
    assert_eq!((output.code, output.out.as_str()), (Some(0), "done\n"), "{}", output.err);
    assert_eq!(bad_frames(&rampart), 0, "{}", output.err);
    assert!(temporary.is_empty());
}

/// Names that a guard is about to create are links to a file of the user.
#[test]
fn a_guard_follows_no_link_to_a_file_of_its_users() {
    let rampart = Rampart::new();
    if !can_guard(&rampart) {
        return;
    }
    let temporary = Temporary::new(&rampart);
    let precious = rampart.folder().join("precious");
    fs::write(&precious, "precious").expect("a file");
    // The same process executes another program, whose guard opens its files anew.
    let trap = "for name in counts jsonl; do
                    rm -f $RAMPART_GUARD_STATE/$$.$name; ln -s $PWD/precious $RAMPART_GUARD_STATE/$$.$name
                done
                exec sh -c 'echo done'";
    for options in [&[][..], &["--trace-access", "trace"]] {
        let arguments = [options, &["--", "sh", "-c", trap]].concat();
        let output = CommandOutput::from(temporary.command(&rampart, &arguments).output().expect("the binary runs"));
        assert_eq!((output.code, output.out.as_str()), (Some(0), "done\n"), "{}", output.err);
        assert_eq!(fs::read_to_string(&precious).expect("it is there"), "precious");
    }
}

/// Gives up root, and prints what it still has.
const GIVES_UP: &str = "\
import os, sys, time
words = [bytes([n % 251]) * 65536 for n in range(128)]
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
for _ in range(5):
    time.sleep(0.1)
    assert all(word == bytes([n % 251]) * 65536 for n, word in enumerate(words))
print('right', flush=True)
";

#[test]
fn a_program_that_gives_up_root_stays_under_guard_and_is_not_believed() {
    let rampart = Rampart::new();
    if !rampart_skips::root("only root becomes another user") || !installed("/usr/bin/python3") {
        return;
    }
    let events = |name: &str| {
        let report = report(&rampart);
        report["events"].as_array().expect("a list").iter().filter(|event| event["event"] == name).count()
    };
    for engine in engines(&rampart) {
        let options = ["--engine", engine, "--cap", "4MiB", "--test", "none", "--report", "report.json"];
        let output = run(&rampart, &[&options[..], &["--", "/usr/bin/python3", "-c", GIVES_UP]].concat());
        assert_eq!((output.code, output.out.as_str()), (Some(0), "right\n"), "{engine}: {}", output.err);
        assert_eq!(output.err.matches("gives up the rights of its user").count(), 1, "{engine}: {}", output.err);
        assert!(count(&report(&rampart), "locked") > 0, "{engine}");
        // Later findings are reported, and not stored.
        let flips = ["--codes", "crc", "--inject", "flip:locked:rate=500/s,seed=7"];
        let output = run(&rampart, &[&options[..], &flips, &["--", "/usr/bin/python3", "-c", GIVES_UP]].concat());
        let told = events("uncorrectable") > 0;
        assert!(output.code == Some(86) && (told || output.err.contains("beyond correction")), "{engine}: {output:?}");
        assert!(told || events("stopped") == 0, "{engine}: {output:?}");
    }
}

/// Executes a shell as another user, as `su` does.
const AS_NOBODY: &str = "\
import os
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
os.execv('/bin/sh', ['sh', '-c', 'for n in 1 2 3; do /bin/echo $n; done'])
";

#[test]
fn a_program_of_another_user_is_told_of_in_one_line() {
    let rampart = Rampart::new();
    if !rampart_skips::root("only root becomes another user") || !installed("/usr/bin/python3") {
        return;
    }
    // The library must be where another user can read it.
    let folder = tempfile::tempdir().expect("a folder");
    let readable = folder.path().join("librampart_preload.so");
    fs::copy(library(), &readable).expect("a copy");
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).expect("it is ours");
    for engine in engines(&rampart) {
        let mut command = rampart.command(&["run", "--engine", engine, "--test", "none", "--"]);
        command.args(["/usr/bin/python3", "-c", AS_NOBODY]);
        let output =
            CommandOutput::from(command.env("RAMPART_GUARD_LIBRARY", &readable).output().expect("the binary runs"));
        assert_eq!((output.code, output.out.as_str()), (Some(0), "1\n2\n3\n"), "{engine}: {}", output.err);
        let lines = ["is not of the user", "is not guarded"].map(|line| output.err.matches(line).count());
        assert!(lines[0] <= 1 && lines[1] <= 1 && lines[0] + lines[1] >= 1, "{engine}: {}", output.err);
    }
}

#[test]
fn closed_streams_change_nothing_and_leave_nothing() {
    let rampart = Rampart::new();
    let temporary = Temporary::new(&rampart);
    if !can_guard(&rampart) {
        return;
    }
    for closed in ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"] {
        let output = temporary.run_below(&rampart, &format!("exec \"$@\" {closed}"), "exit 7");
        assert_eq!(output.code, Some(7), "{closed}: {}", output.err);
        assert!(temporary.is_empty(), "{closed}");
    }
    for engine in engines(&rampart) {
        // No file of the guard replaces the ones that the program closed.
        let inside = "for stream in 0 1 2; do
                          readlink /proc/self/fd/$stream <&- 3>&1 >&- 2>&- >&3 3>&- | grep -v pipe:
                      done; exit 5";
        let output = CommandOutput::from(
            temporary
                .command(&rampart, &["--engine", engine, "--", "sh", "-c", inside])
                .output()
                .expect("the binary runs"),
        );
        assert_eq!((output.code, output.out.as_str()), (Some(5), ""), "{engine}: {}", output.err);
    }
}

#[test]
fn a_reader_of_standard_error_that_goes_away_changes_nothing() {
    let rampart = Rampart::new();
    if !can_guard(&rampart) {
        return;
    }
    let temporary = Temporary::new(&rampart);
    for stream in ["full", "pipe"] {
        let mut command = temporary.command(&rampart, &["--", "sh", "-c", "sleep 0.3; exit 7"]);
        command.stdout(Stdio::null());
        if stream == "full" {
            command.stderr(fs::OpenOptions::new().write(true).open("/dev/full").expect("a device"));
        } else {
            command.stderr(Stdio::piped());
        }
        let mut child = command.spawn().expect("the binary runs");
        drop(child.stderr.take());
        assert_eq!(child.wait().expect("it ends").code(), Some(7), "{stream}");
        assert!(temporary.is_empty(), "{stream}");
    }
}

/// A build runs a hundred thousand processes; the folder has files of living ones only.
#[test]
fn what_ended_processes_leave_fills_no_folder_and_is_all_in_the_report() {
    let rampart = Rampart::new();
    if !can_guard(&rampart) {
        return;
    }
    let script = "i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i+1)); done; sleep 2; set -- \"$RAMPART_GUARD_STATE\"/*; echo $#";
    let output = run(&rampart, &["--test", "none", "--report", "report.json", "--", "sh", "-c", script]);
    let files: usize = output.out.trim().parse().expect("a number");
    assert!(output.code == Some(0) && files < 12, "{output:?}");
    assert_eq!(report(&rampart)["processes"], 302, "the shell, 300 times true, and sleep");
}

/// The signals that this process ignores, as /proc/PID/status has them.
fn ignored_here() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("/proc is mounted");
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:\t")).expect("the kernel says");
    u64::from_str_radix(ignored, 16).expect("a mask")
}

#[test]
fn signals_reach_the_program_and_the_folder_goes() {
    let rampart = Rampart::new();
    if !can_guard(&rampart) {
        return;
    }
    let temporary = Temporary::new(&rampart);
    let ready = rampart.folder().join("ready");
    let start = |command: &mut Command| {
        let _ = fs::remove_file(&ready);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs");
        while !ready.exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        child
    };
    for (name, number) in [("HUP", 1), ("INT", 2), ("QUIT", 3), ("TERM", 15), ("USR1", 10)] {
        // A shell cannot catch a signal that was ignored when it started.
        if ignored_here() & 1 << (number - 1) != 0 {
            skip(Feature::DefaultSignals, format!("SIG{name} is ignored here, as under nohup"));
            continue;
        }
        let caught = format!("trap 'exit 9' {name}; touch ready; while :; do sleep 0.02; done");
        let child = start(&mut temporary.command(&rampart, &["--", "sh", "-c", &caught]));
        signal(&child, name);
        let output = end(child);
        assert_eq!(output.code, Some(9), "{name}: {}", output.err);
        let child = start(&mut temporary.command(&rampart, &["--", "sh", "-c", "touch ready; exec sleep 60"]));
        // The signal comes more than once, as from an impatient user.
        signal(&child, name);
        signal(&child, name);
        let output = end(child);
        assert_eq!(output.code, Some(128 + number), "{name}: {}", output.err);
        assert!(temporary.is_empty(), "{name}");
    }
    // An ignored signal stays ignored, as under nohup.
    let ignores = "kill -HUP $PPID; kill -HUP $$; sleep 0.1; echo alive";
    let output = temporary.run_below(&rampart, "trap '' HUP; exec \"$@\"", ignores);
    assert_eq!((output.code, output.out.as_str()), (Some(0), "alive\n"), "{}", output.err);
}

#[test]
fn a_report_that_cannot_be_written_is_refused_at_the_start_and_is_never_the_exit_code() {
    let rampart = Rampart::new();
    if !can_guard(&rampart) {
        return;
    }
    let temporary = Temporary::new(&rampart);
    let run = |arguments: &[&str]| {
        CommandOutput::from(temporary.command(&rampart, arguments).output().expect("the binary runs"))
    };
    for option in ["--report", "--trace-access"] {
        let output = run(&[option, "none/report", "--", "touch", "ran"]);
        assert_eq!((output.code, output.err.lines().count()), (Some(2), 1), "{output:?}");
        assert!(output.err.contains("none/report") && !rampart.folder().join("ran").exists(), "{output:?}");
        fs::create_dir(rampart.folder().join("there")).expect("a folder");
        let output = run(&[option, "there/report", "--", "sh", "-c", "rm -r there; exit 7"]);
        assert_eq!(output.code, Some(7), "{output:?}");
        assert_eq!(output.err.matches("cannot write the report to there/report").count(), 1, "{output:?}");
        let output = run(&[option, "/dev/full", "--", "sh", "-c", "exit 7"]);
        assert_eq!(output.code, Some(7), "{output:?}");
    }
    if rampart_skips::root("only root gives a file away") {
        // As another user, in a folder of everybody's, where a link to root's file waits.
        let (link, target) = (rampart.folder().join("report"), rampart.folder().join("target"));
        fs::write(&target, "precious").expect("a file");
        std::os::unix::fs::symlink(&target, &link).expect("a link");
        std::os::unix::fs::lchown(&link, Some(65_534), None).expect("root may");
        let output = run(&["--report", "report", "--", "true"]);
        assert_eq!((output.code, output.err.lines().count()), (Some(2), 1), "{output:?}");
        assert_eq!(fs::read_to_string(&target).expect("it is there"), "precious");
    }
}

#[test]
fn where_nothing_is_guarded_that_is_a_warning_or_refused() {
    let rampart = Rampart::new();
    let Some(program) = built(&rampart, "static", "cc", &["-static"]) else { return };
    if !can_guard(&rampart) {
        return;
    }
    let output = run(&rampart, &["--report", "report.json", "--", &program]);
    assert_eq!((output.code, output.out.as_str()), (Some(0), "ran\n"), "{}", output.err);
    let warning = "rampart: warning: nothing was guarded: it is linked statically\n";
    assert!(output.err.ends_with(warning), "{}", output.err);
    assert_eq!(report(&rampart)["unguarded"], "it is linked statically");
    let output = run(&rampart, &["--require-guard", "--", &program]);
    assert_eq!(output.code, Some(2), "{}", output.err);
    assert!(output.err.contains("--require-guard was given: it is linked statically"), "{}", output.err);
    let output = run(&rampart, &["--require-guard", "--report", "report.json", "--", "sh", "-c", "exit 3"]);
    assert_eq!(output.code, Some(3), "{}", output.err);
    assert!(report(&rampart)["unguarded"].is_null() && !output.err.contains("warning"), "{}", output.err);
}

/// As on a full disk: files can be created, and nothing can be written to them.
#[test]
fn without_room_for_counts_a_program_is_guarded_and_nothing_says_that_it_was_not() {
    let rampart = Rampart::new();
    let temporary = Temporary::new(&rampart);
    for engine in engines(&rampart).filter(|&engine| engine != "minor") {
        let set_up = format!(
            "exec 2>&1; (ulimit -f 0; shift 4; exec {} run --test none --engine {engine} --require-guard \"$@\") | cat",
            env!("CARGO_BIN_EXE_rampart")
        );
        let output = temporary.run_below(&rampart, &set_up, "exit 0");
        assert!(
            output.out.contains("rampart: warning: guarded 1 process, but nothing is known"),
            "{engine}: {}",
            output.out
        );
        assert!(!output.out.contains("nothing was guarded") && temporary.is_empty(), "{engine}: {}", output.out);
    }
}

#[test]
fn what_ends_soon_after_its_program_does_not_run_on() {
    let rampart = Rampart::new();
    if !can_guard(&rampart) {
        return;
    }
    let output = run(&rampart, &["--", "sh", "-c", "sleep 0.15 >/dev/null 2>&1 </dev/null & exit 4"]);
    assert_eq!(output.code, Some(4), "{}", output.err);
    assert!(!output.err.contains("runs on"), "{}", output.err);
}

/// A program that prints that it ran; `None` where it cannot be built or does not run without a guard.
fn built(rampart: &Rampart, name: &str, compiler: &str, options: &[&str]) -> Option<String> {
    let (source, program) = (rampart.folder().join("ran.c"), rampart.folder().join(name));
    let text =
        "#include <stdio.h>\n#include <stdlib.h>\nint main(void) { free(malloc(99)); return puts(\"ran\") < 0; }";
    fs::write(&source, text).expect("a file");
    let done = Command::new(compiler).args(options).arg(&source).arg("-o").arg(&program).output();
    let runs = || Command::new(&program).output().is_ok_and(|output| output.stdout == b"ran\n");
    if done.is_ok_and(|done| done.status.success()) && runs() {
        return Some(program.to_str().expect("a plain name").to_owned());
    }
    let feature = match options {
        [] => Feature::of_program(compiler),
        ["-static"] => Feature::StaticLibc,
        _ => Feature::Sanitizers,
    };
    skip(feature, format!("{compiler} {options:?} builds nothing that runs here"));
    None
}

#[test]
fn programs_that_do_not_bear_the_library_run_without_it() {
    let rampart = Rampart::new();
    let kinds: [(&str, &str, &[&str], &str); 4] = [
        ("musl", "musl-gcc", &[], "its C library is musl"),
        ("address", "cc", &["-fsanitize=address"], "it brings the address sanitizer"),
        ("thread", "cc", &["-fsanitize=thread"], "it brings the thread sanitizer"),
        ("leak", "cc", &["-fsanitize=leak"], "it brings the leak sanitizer"),
    ];
    for engine in engines(&rampart) {
        for (name, compiler, options, why) in kinds {
            let Some(program) = built(&rampart, name, compiler, options) else { continue };
            let guarded = |program: &[&str]| run(&rampart, &[&["--engine", engine, "--"], program].concat());
            let output = guarded(&[&program]);
            assert_eq!((output.code, output.out.as_str()), (Some(0), "ran\n"), "{engine} {name}: {}", output.err);
            assert!(output.err.ends_with(&format!("nothing was guarded: {why}\n")), "{engine} {name}: {}", output.err);
            let script = rampart.folder().join("script");
            fs::write(&script, format!("#!{program}\n")).expect("a file");
            fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).expect("it is ours");
            let script = script.to_str().expect("a plain name");
            let twice = format!("{program}; {script}; PATH={}; {name}", rampart.folder().display());
            let mut parents = vec![vec!["sh", "-c", &twice]];
            let spawned = format!(
                "import os, subprocess, sys; sys.stdout.flush(); subprocess.check_call(['{script}']); \
                 os.waitpid(os.posix_spawn('{program}', ['x'], os.environ), 0); os.execlp('{program}', 'x')"
            );
            if installed("python3") {
                parents.push(vec!["python3", "-c", &spawned]);
            }
            for parent in parents {
                let output = guarded(&parent);
                assert_eq!(
                    (output.code, output.out.as_str()),
                    (Some(0), "ran\nran\nran\n"),
                    "{engine} {parent:?}: {}",
                    output.err
                );
                let line = format!(" is left alone: {why}\n");
                assert_eq!(output.err.matches(&line).count(), 1, "{engine} {parent:?}: {}", output.err);
                assert!(output.err.contains("rampart: guarded "), "{engine} {parent:?}: {}", output.err);
            }
        }
        if let Some(program) = built(&rampart, "undefined", "cc", &["-fsanitize=undefined"]) {
            let output = run(&rampart, &["--engine", engine, "--require-guard", "--", &program]);
            assert_eq!((output.code, output.out.as_str()), (Some(0), "ran\n"), "{engine}: {}", output.err);
        }
    }
}

#[test]
fn memory_of_another_allocator_is_that_allocators() {
    let rampart = Rampart::new();
    let Some(program) = victim(&rampart, "foreign") else { return };
    for engine in engines(&rampart) {
        let output = run(&rampart, &["--engine", engine, "--", &program]);
        assert_eq!((output.code, output.out.as_str()), (Some(0), "right\n"), "{engine}: {}", output.err);
    }
}
