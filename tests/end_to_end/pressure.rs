//! A guarded program whose memory does not all fit: pages that the kernel swaps out, locked or not, come back intact.
//!
//! The limit is that of the test's own control group, and the swap is its own file, so the rest of the machine lacks
//! nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rampart_skips::{Feature, skip};

use crate::control_group::ControlGroup;
use crate::guarded::{engines, library, victim_with};
use crate::harness::{CommandOutput, Rampart};

/// The number of further attempts where the kernel kills a process instead of swapping.
const TURNS: usize = 5;

/// A file that the kernel swaps to, until this is dropped.
struct Swap(PathBuf);

impl Swap {
    fn on(folder: &Path) -> Option<Self> {
        let file = folder.join("swap");
        fs::write(&file, vec![0; 256 << 20]).expect("room for a file");
        let done = |program: &str| {
            let mut command = Command::new(program);
            let status = command.arg(&file).stdout(Stdio::null()).stderr(Stdio::null()).status();
            status.is_ok_and(|status| status.success())
        };
        (done("mkswap") && done("swapon")).then_some(Self(file))
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        let _ = Command::new("swapoff").arg(&self.0).status();
    }
}

/// The number of pages that were ever swapped out.
fn swapped_out() -> u64 {
    let text = fs::read_to_string("/proc/vmstat").expect("/proc is mounted");
    let line = text.lines().find_map(|line| line.strip_prefix("pswpout "));
    line.and_then(|count| count.parse().ok()).expect("the kernel counts")
}

#[test]
fn what_is_swapped_out_comes_back_as_it_was_locked_or_not() {
    let rampart = Rampart::new();
    let Some(traps) = victim_with(&rampart, "traps", &[]) else { return };
    if !rampart_skips::root("only root adds swap") {
        return;
    }
    let Some(_swap) = Swap::on(rampart.folder()) else { return skip(Feature::Swap, "mkswap or swapon fails") };
    let Some(group) = ControlGroup::new(60 << 20) else { return };
    for engine in engines(&rampart) {
        let is_swapped = |memory: &str| {
            let before = swapped_out();
            let mut command = Command::new("sh");
            command.args(["-c", &format!("{}; exec \"$@\"", group.enter()), "sh"]);
            command.arg(env!("CARGO_BIN_EXE_rampart")).args(["run", "--engine", engine, "--test", "none"]);
            command.args([
                "--block",
                "64KiB",
                "--cap",
                "4MiB",
                "--protect",
                "heap,bss,mmap",
                "--",
                &traps,
                "waits",
                memory,
            ]);
            command.env("RAMPART_STORE", rampart.store()).env("RAMPART_GUARD_LIBRARY", library());
            let output = CommandOutput::from(command.current_dir(rampart.folder()).output().expect("sh runs"));
            let right = (output.code, output.out.as_str()) == (Some(0), "16384 pages are right\n");
            // The kernel may kill a process that allocates faster than it can swap.
            assert!(right || output.code == Some(128 + 9), "{engine} {memory}: {:?} {}", output.code, output.err);
            right && swapped_out() > before
        };
        let swapped = ["heap", "mmap", "bss"].map(is_swapped);
        // On a busy machine the kernel may have killed all three.
        let was_swapped = swapped.contains(&true) || (0..TURNS).any(|_| is_swapped("heap"));
        assert!(was_swapped, "{engine}: 64 MiB did not fit into 60, and were swapped");
    }
}
