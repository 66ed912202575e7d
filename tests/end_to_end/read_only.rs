//! A store on a read-only file system, as early at boot, for root and for others.

use std::path::Path;
use std::process::{Command, Stdio};

use rampart_skips::{Feature, skip};

use crate::harness::{CommandOutput, Rampart, copy_of_the_binary};

/// Runs a command of the binary with the store's folder mounted read-only, as root or as nobody; `None` where this
/// process may not mount.
fn run_read_only(rampart: &Rampart, arguments: &str, as_root: bool) -> Option<CommandOutput> {
    if !rampart_skips::root("only root mounts") || !may_mount() {
        return None;
    }
    // Other users may have no access to the binary's folder.
    let binary = rampart.folder().join("rampart");
    copy_of_the_binary(&binary);
    let user = if as_root { "" } else { "setpriv --reuid 65534 --regid 65534 --clear-groups" };
    let script = format!(
        "mount --bind {folder} {folder} && mount -o remount,bind,ro {folder} || exit 99
         ! touch {folder}/probe 2>/dev/null || exit 98
         exec {user} {binary} {arguments}",
        folder = rampart.folder().display(),
        binary = binary.display()
    );
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script]).env("RAMPART_STORE", rampart.store()).stdin(Stdio::null());
    let output = CommandOutput::from(command.output().expect("unshare runs"));
    assert!(!matches!(output.code, Some(98 | 99)), "the folder is read-only: {output:?}");
    Some(output)
}

fn may_mount() -> bool {
    let may = Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|status| status.success());
    if !may {
        skip(Feature::MountNamespace, "unshare -m is refused");
    }
    may
}

fn with_a_frame() -> Rampart {
    let rampart = Rampart::new();
    // No machine has memory at this address.
    assert_eq!(rampart.run(&["map", "add", "0xffffffff00"]).code, Some(0));
    open_to_all(rampart.folder());
    rampart
}

fn open_to_all(folder: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_store_on_a_read_only_file_system_is_read_by_root_and_others() {
    let rampart = with_a_frame();
    for as_root in [true, false] {
        for (arguments, code, part) in [
            ("map show", 1, "frame 0xffffffff00"),
            ("map export --format badram", 0, "GRUB_BADRAM=\"0xffffffff00000,0x7ffffffffffff000\""),
            ("status", 0, "bad frames  1 "),
        ] {
            let Some(output) = run_read_only(&rampart, arguments, as_root) else { return };
            assert_eq!(output.code, Some(code), "{output:?}");
            assert!(output.out.contains(part), "{output:?}");
        }
    }
    let refused = run_read_only(&rampart, "map add 7", true).unwrap();
    assert_eq!((refused.code, refused.err.lines().count()), (Some(2), 1), "{refused:?}");
}

#[test]
fn restore_works_on_a_read_only_store_and_says_that_nothing_is_recorded() {
    let rampart = with_a_frame();
    let Some(output) = run_read_only(&rampart, "map restore", true) else { return };
    assert!(
        output.err.contains("the results cannot be recorded on the map") && output.err.lines().count() == 1,
        "{output:?}"
    );
    assert!(output.out.contains("frame 0xffffffff00"), "{output:?}");
}

#[test]
fn where_no_store_is_and_none_can_be_made_no_map_counts_as_empty() {
    let rampart = Rampart::new();
    let Some(output) = run_read_only(&rampart, "map show", true) else { return };
    assert_eq!((output.code, output.out.as_str()), (Some(2), ""), "{output:?}");
}
