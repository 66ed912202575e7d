//! `rampart banks record` on this machine's kernel.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use rampart_banks::{PageChange, PageEvent, read_page_trace, warm_start};
use rampart_skips::{Feature, is_root, skip};
use serde_json::Value;

use crate::harness::{CommandOutput, Rampart, end, signal};

/// What mounts tracefs, if it is not mounted, for one command only.
const WITH_TRACEFS: &str = "test -e /sys/kernel/tracing/events || mount -t tracefs tracefs /sys/kernel/tracing \
                            || exit 77; exec \"$@\"";

/// This command, where it sees tracefs.
fn with_tracefs(command: &Command) -> Command {
    let mut inside = Command::new("unshare");
    inside.args(["-m", "sh", "-c", WITH_TRACEFS, "sh"]).arg(command.get_program()).args(command.get_args());
    inside.stdin(Stdio::null());
    inside
}

/// Whether this machine can trace.
fn can_trace() -> bool {
    let can = rampart_skips::root("only root traces")
        && with_tracefs(&Command::new("true")).status().is_ok_and(|status| status.success());
    if !can && is_root() {
        skip(Feature::Tracefs, "tracefs is neither mounted nor can it be");
    }
    can
}

/// Records a script of the shell; the trace is in the file.
fn record(rampart: &Rampart, file: &Path, options: &[&str], script: &str) -> CommandOutput {
    let recorded =
        [&["banks", "record", "--json", "--out", file.to_str().unwrap()], options, &["--", "sh", "-c", script]];
    CommandOutput::from(with_tracefs(&rampart.command(&recorded.concat())).output().expect("it runs"))
}

/// The report on standard error, where the program's messages are too.
fn report(output: &CommandOutput) -> Value {
    let begin = output.err.find('{').unwrap_or_else(|| panic!("no report: {output:?}"));
    serde_json::from_str(&output.err[begin..]).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn trace(file: &Path) -> Vec<PageEvent> {
    read_page_trace(&*std::fs::read(file).expect("it was written")).expect("a trace")
}

/// Instances of processes of ours, as tracefs names them.
fn instances() -> String {
    let mut list = Command::new("ls");
    list.arg("/sys/kernel/tracing/instances");
    String::from_utf8(with_tracefs(&list).output().expect("ls runs").stdout).unwrap()
}

/// Whether processes have the numbers here that they have in a trace: not so in a container (`PROC_PID_INIT_INO`,
/// include/linux/proc_ns.h).
fn numbers_are_the_machine_s() -> bool {
    std::fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link == Path::new("pid:[4026531836]"))
}

fn allocates_most<'a>(events: impl Iterator<Item = &'a PageEvent>) -> u32 {
    let mut frames: HashMap<u32, u64> = HashMap::new();
    events.for_each(|event| *frames.entry(event.process).or_default() += event.order.frames());
    frames.into_iter().max_by_key(|(_, frames)| *frames).expect("a program allocates").0
}

const MIB: u64 = 256;

#[test]
fn what_a_program_allocates_is_in_the_trace_of_the_machine_and_can_be_replayed() {
    if !can_trace() {
        return;
    }
    let rampart = Rampart::new();
    let file = rampart.folder().join("pages");
    let script = "echo $$; exec dd if=/dev/zero of=/dev/null bs=64M count=2";
    let recorded = record(&rampart, &file, &[], script);
    let (seen, events) = (report(&recorded), trace(&file));
    assert_eq!((recorded.code, &seen["schema"], &seen["whole"]), (Some(0), &"rampart.record/1".into(), &true.into()));
    assert_eq!((&seen["events"], &seen["program"]["exit_code"]), (&events.len().into(), &0.into()));
    assert!(events.is_sorted_by_key(|event| event.micros), "by time");

    let is_its = |event: &&PageEvent| {
        // Movable: the third half byte from the top of the first word, as docs/banks.md has it.
        let is_movable = event.to_bytes()[5] >> 4 & 7 == 1;
        is_movable && event.process != PageEvent::BEFORE && matches!(event.change, PageChange::Allocated(_))
    };
    let itself: u32 = recorded.out.trim().parse().expect("its output is its own");
    // In a container, it does not know its number in the trace: there, it is who allocates most.
    let program = if numbers_are_the_machine_s() { itself } else { allocates_most(events.iter().filter(is_its)) };
    let (mut frames, mut allocated, mut freed) = (HashSet::new(), 0, 0);
    for event in &events {
        let block = event.frame.number()..event.frame.number() + event.order.frames();
        match event.change {
            PageChange::Allocated(_) if event.process == program && is_its(&event) => {
                block.for_each(|frame| allocated += u64::from(frames.insert(frame)));
            }
            PageChange::Allocated(_) => {}
            PageChange::Freed => block.for_each(|frame| freed += u64::from(frames.remove(&frame))),
        }
    }
    // The kernel may keep a few pages for a moment after the last program has let go of them.
    assert!(allocated >= 64 * MIB && freed >= 63 * MIB, "{allocated} {freed}");

    let in_use: u64 = warm_start(&events).iter().map(|event| event.order.frames() * 4096).sum();
    assert_eq!(&seen["memory_in_use"], in_use);
    assert!(in_use > 16 << 20, "{in_use}");
    let name = file.to_str().unwrap();
    let replayed = rampart.run(&["banks", "replay", name, "--loops", "2", "--bank", "256MiB", "--json"]).json();
    assert_eq!(replayed["refused"], 0);
    let memory = replayed["settings"]["memory"].as_u64().unwrap();
    assert!(memory >= 4 << 30 && memory / 4 * 3 >= in_use, "{memory}");
    assert_eq!(replayed["samples"].as_array().unwrap().len(), 80);
    let small = rampart.run(&["banks", "replay", name, "--bank", "4MiB", "--memory", "16MiB"]);
    assert_eq!((small.code, small.err.lines().count()), (Some(2), 1), "{small:?}");
    assert!(small.err.contains("give it more memory"), "{small:?}");
}

#[test]
fn events_that_the_kernel_lost_are_counted_and_the_trace_is_not_called_whole() {
    if !can_trace() {
        return;
    }
    let rampart = Rampart::new();
    let file = rampart.folder().join("pages");
    // The recorder stands still meanwhile.
    let script = "kill -STOP $PPID; dd if=/dev/zero of=/dev/null bs=64M count=1 2>/dev/null; kill -CONT $PPID";
    let recorded = record(&rampart, &file, &["--buffer", "64KiB"], script);
    let seen = report(&recorded);
    assert_eq!((recorded.code, &seen["whole"]), (Some(2), &false.into()), "{recorded:?}");
    assert!(seen["lost"].as_u64().unwrap() > 10 * MIB, "{seen}");
    assert_eq!(seen["events"], trace(&file).len());
}

/// A recording whose program runs until it gets a signal.
struct Running {
    rampart: Child,
    out: BufReader<ChildStdout>,
    instance: String,
}

impl Running {
    fn start(rampart: &Rampart, file: &Path) -> Self {
        let script =
            "trap 'echo told; exit 5' TERM; echo rampart-$PPID; while kill -0 $PPID 2>/dev/null; do sleep 0.1; done";
        let arguments = ["banks", "record", "--json", "--out", file.to_str().unwrap(), "--", "sh", "-c", script];
        let mut command = with_tracefs(&rampart.command(&arguments));
        let mut rampart = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
        let (mut out, mut instance) = (BufReader::new(rampart.stdout.take().unwrap()), String::new());
        out.read_line(&mut instance).unwrap();
        Self { rampart, out, instance: instance.trim().to_owned() }
    }
}

#[test]
fn a_signal_ends_the_recording_and_reaches_the_program() {
    if !can_trace() {
        return;
    }
    let rampart = Rampart::new();
    let file = rampart.folder().join("pages");
    let mut running = Running::start(&rampart, &file);
    assert!(instances().contains(&running.instance), "{}", running.instance);
    signal(&running.rampart, "TERM");
    let mut out = String::new();
    running.out.read_to_string(&mut out).unwrap();
    let ended = end(running.rampart);
    let seen = report(&ended);
    assert_eq!((out.as_str(), ended.code), ("told\n", Some(0)), "{ended:?}");
    assert_eq!((&seen["program"]["exit_code"], &seen["whole"]), (&5.into(), &true.into()));
    assert_eq!(seen["events"], trace(&file).len());
    assert!(!instances().contains(&running.instance));
}

#[test]
fn what_a_killed_recorder_leaves_is_removed_by_the_next() {
    if !can_trace() {
        return;
    }
    let rampart = Rampart::new();
    let mut running = Running::start(&rampart, &rampart.folder().join("first"));
    signal(&running.rampart, "KILL");
    running.rampart.wait().unwrap();
    assert!(instances().contains(&running.instance), "it cannot remove it");
    let next = record(&rampart, &rampart.folder().join("second"), &[], "exit 3");
    assert_eq!((next.code, &report(&next)["program"]["exit_code"]), (Some(0), &3.into()), "{next:?}");
    assert!(!instances().contains(&running.instance));
}

#[test]
fn a_recording_ends_after_its_time_and_the_program_does_not() {
    if !can_trace() {
        return;
    }
    let rampart = Rampart::new();
    let file = rampart.folder().join("pages.zst");
    let recorded = record(&rampart, &file, &["--for", "1ms"], "sleep 0.5; echo end");
    let seen = report(&recorded);
    assert_eq!((recorded.out.as_str(), &seen["ended"], recorded.code), ("end\n", &"time".into(), Some(0)));
    assert!(std::fs::read(&file).unwrap().starts_with(&[0x28, 0xb5, 0x2f, 0xfd]), "compressed, as its name says");
}

#[test]
fn a_recording_that_cannot_begin_leaves_no_file_and_overwrites_none() {
    let rampart = Rampart::new();
    let file = rampart.folder().join("pages");
    let name = file.to_str().unwrap();
    let refused = |output: CommandOutput, because: &str| {
        assert_eq!((output.code, output.err.lines().count()), (Some(2), 1), "{output:?}");
        assert!(output.err.contains(because), "{output:?}");
    };
    for wrong in [&["--buffer", "1KiB", "--", "true"][..], &["--for", "soon", "--", "true"], &[]] {
        refused(rampart.run(&[&["banks", "record", "--out", name], wrong].concat()), "");
    }
    refused(rampart.run_unprivileged(&["banks", "record", "--out", name, "--", "true"]), "root");
    assert!(!file.exists());
    if !can_trace() {
        return;
    }
    let run = |arguments: &[&str]| {
        let command = rampart.command(&[&["banks", "record", "--out", name, "--"], arguments].concat());
        CommandOutput::from(with_tracefs(&command).output().expect("it runs"))
    };
    refused(run(&["/nowhere/program"]), "/nowhere/program");
    assert!(!file.exists());
    std::fs::write(&file, "mine").unwrap();
    refused(run(&["true"]), "exists already");
    assert_eq!(std::fs::read_to_string(PathBuf::from(&file)).unwrap(), "mine");
}
