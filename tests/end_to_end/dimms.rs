//! `rampart test --dimm`: a DIMM by its name, and where its frames are known from. Without the kernel module the test
//! itself is refused, once the DIMM is found: what follows needs a machine of its own (`cargo xtask qemu`).

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use rampart_skips::{Feature, skip};

use crate::harness::{CommandOutput, Rampart, is_root};

/// What is said once the frames are known, on a machine without the module.
const FOUND: &str = "the kernel module cannot be used: ";

/// One line and exit code 2, and nothing else.
fn refused(output: &CommandOutput, says: &str) {
    assert_eq!((output.code, output.out.as_str(), output.err.lines().count()), (Some(2), "", 1), "{output:?}");
    assert!(output.err.contains(says), "{says:?}: {output:?}");
}

fn map(rampart: &Rampart, text: &str) -> String {
    let path = rampart.folder().join("dimms.toml");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Whether the module's device is here: then frames would be tested.
fn has_module() -> bool {
    let has = Path::new("/dev/rampart").exists();
    if has {
        skip(Feature::KernelModuleAbsent, "the module is loaded");
    }
    has
}

#[test]
fn a_dimm_of_a_file_is_found_by_its_name_without_case() {
    if has_module() {
        return;
    }
    let rampart = Rampart::new();
    let file = map(&rampart, "A1 = [\"0..0x1000\"]\n\"P0 B/DIMM 0\" = [\"0x1000..0x2000\", \"0x4000..0x5000\"]\n");
    for name in ["A1", "a1", "p0 b/dimm 0"] {
        refused(&rampart.run(&["test", "--dimm", name, "--dimm-map", &file]), FOUND);
    }
    let with = ["test", "--source", "kernel", "--dimm", "A1", "--dimm-map", &file, "--frames", "0..9", "--used"];
    refused(&rampart.run(&with), FOUND);
    let unknown = rampart.run(&["test", "--dimm", "C1", "--dimm-map", &file]);
    assert_eq!(unknown.err, "rampart: there is no DIMM \"C1\" here: name one of A1, P0 B/DIMM 0\n", "{unknown:?}");
    refused(&unknown, "C1");
}

#[test]
fn a_file_that_is_no_map_of_dimms_is_refused_in_one_line_with_its_place() {
    let rampart = Rampart::new();
    let with = |text: &str| rampart.run(&["test", "--dimm", "A1", "--dimm-map", &map(&rampart, text)]);
    refused(&with("A1 = [\"0..9\"]\nB1 = [\"9..0\"]"), "is no map of DIMMs: line 2: \"9..0\" is no range of frames");
    refused(&with("A1"), "is no map of DIMMs: line 1: ");
    refused(&rampart.run(&["test", "--dimm", "A1", "--dimm-map", "/dev/zero"]), "is no map of DIMMs: it is a device");
    refused(&rampart.run(&["test", "--dimm", "A1", "--dimm-map", "/no/file"]), "/no/file is no map of DIMMs: No such");
}

#[test]
fn a_dimm_goes_with_no_option_of_free_memory() {
    let rampart = Rampart::new();
    let with = |options: &[&str]| rampart.run(&[&["test"], options].concat());
    refused(
        &with(&["--dimm", "A1", "--source", "free"]),
        "--dimm and --used choose frames, which --source free cannot",
    );
    refused(&with(&["--dimm", "A1", "--memory", "16MiB"]), "leave --memory and --inject out");
    refused(&with(&["--dimm-map", "file"]), "--dimm <NAME>");
}

/// On the machine as it is, whatever it shows of its DIMMs.
#[test]
fn a_name_that_no_dimm_has_is_refused_with_what_is_known() {
    let output = Rampart::new().run(&["test", "--dimm", "no such DIMM"]);
    let known = output.err.contains("there is no DIMM \"no such DIMM\" here: name one of ");
    refused(&output, if known { "name one of" } else { "list them in a file and name it by --dimm-map" });
}

/// A memory device of 8 TiB, SMBIOS type 17: no machine that runs this has more memory.
fn device(handle: u8, name: &str) -> Vec<u8> {
    let mut formatted = [0; 40];
    formatted[..18].copy_from_slice(&[17, 40, handle, 0, 0, 0x10, 0, 0, 72, 0, 64, 0, 0xff, 0x7f, 9, 0, 1, 0]);
    formatted[28..32].copy_from_slice(&(8_u32 << 20).to_le_bytes());
    [&formatted, name.as_bytes(), &[0, 0]].concat()
}

/// Its addresses, SMBIOS type 20: from the start to the last KiB, in turns with others.
fn mapped(handle: u8, last: u32) -> Vec<u8> {
    let [a, b, c, d] = last.to_le_bytes();
    vec![20, 19, handle, 1, 0, 0, 0, 0, a, b, c, d, handle, 0, 7, 0, 1, 1, 1, 0, 0]
}

/// Runs a test where the firmware has this table; `None` where this process may not mount.
fn run_with_table(rampart: &Rampart, table: &[u8], name: &str) -> Option<CommandOutput> {
    const SCRIPT: &str = "mount -t tmpfs tmpfs /sys/firmware && mkdir -p /sys/firmware/dmi/tables || exit 77; \
                          cp \"$1\" /sys/firmware/dmi/tables/DMI || exit 77; shift; exec \"$@\"";
    let path = rampart.folder().join("DMI");
    fs::write(&path, table).unwrap();
    let command = rampart.command(&["test", "--source", "kernel", "--dimm", name]);
    let mut inside = Command::new("unshare");
    inside.args(["-m", "sh", "-c", SCRIPT, "sh"]).arg(path).arg(command.get_program()).args(command.get_args());
    let output = inside.env("RAMPART_STORE", rampart.store()).stdin(Stdio::null()).output();
    let output = CommandOutput::from(output.expect("unshare runs"));
    let mounted = is_root() && output.code != Some(77) && !output.err.starts_with("unshare: ");
    if !mounted {
        skip(Feature::MountNamespace, "only root mounts, in a namespace of its own");
    }
    mounted.then_some(output)
}

#[test]
fn a_dimm_is_found_in_the_firmware_s_tables() {
    if has_module() {
        return;
    }
    let rampart = Rampart::new();
    // Both have a part of all addresses below 3.75 TiB, so of whatever is online here.
    let devices = [device(1, "DIMM_A1"), device(2, "DIMM_B1")].concat();
    let ranges = [mapped(1, 0xefff_ffff), mapped(2, 0xefff_ffff)].concat();
    let both = [&devices[..], &ranges].concat();
    let says = |table: &[u8], name: &str, says: &str| {
        let Some(output) = run_with_table(&rampart, table, name) else { return };
        refused(&output, says);
    };
    says(&both, "dimm_a1", FOUND);
    says(&both, "A1", "there is no DIMM \"A1\" here: name one of DIMM_A1, DIMM_B1");
    says(&devices, "DIMM_A1", "are unknown: the firmware has no table of them (SMBIOS type 20); list them in a file");
    let one = &[&devices[..], &mapped(1, 4095)].concat();
    says(one, "DIMM_A1", "is in memory that is online and on no DIMM by the firmware's table");
    says(&both[..both.len() - 3], "DIMM_A1", "the firmware's table DMI is left out: ");
    says(&device(1, "DIMM 0"), "dimm 0", FOUND);
}
