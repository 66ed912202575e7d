//! Rules of udev that may bring blocks online.

use std::fs;
use std::path::{Path, PathBuf};

use crate::roots::text;

/// Where udev looks for rules (udev(7)).
const FOLDERS: [&str; 4] = ["etc/udev/rules.d", "run/udev/rules.d", "usr/lib/udev/rules.d", "lib/udev/rules.d"];

/// The files of udev's rules below `root` that write the state of memory blocks, such as
/// `SUBSYSTEM=="memory", ACTION=="add", ATTR{state}="online"`.
#[must_use]
pub fn onlining_rules(root: &Path) -> Vec<PathBuf> {
    let folders = FOLDERS.iter().filter_map(|folder| fs::read_dir(root.join(folder)).ok());
    let files = folders.flat_map(Iterator::flatten).filter_map(|entry| entry.path().canonicalize().ok());
    let mut found: Vec<PathBuf> = files.filter(|path| text(path).is_ok_and(|rules| brings_online(&rules))).collect();
    found.sort();
    // /lib is often a link to /usr/lib.
    found.dedup();
    found
}

/// Whether a file has a rule for memory, and assigns a state.
fn brings_online(rules: &str) -> bool {
    let rules: String = rules.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
    let rules: String = rules.split_whitespace().collect();
    let is_for_memory = ["SUBSYSTEM==\"memory\"", "SUBSYSTEM!=\"memory\""].iter().any(|test| rules.contains(test));
    is_for_memory && rules.contains("ATTR{state}=\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_that_brings_memory_online_is_found_and_no_other() {
        let rule = r#"SUBSYSTEM=="memory", ACTION=="add", ATTR{state}=="offline", ATTR{state}="online""#;
        let red_hat = "SUBSYSTEM!=\"memory\", GOTO=\"end\"\nACTION!=\"add\", GOTO=\"end\"\nATTR{state}=\"online\"\n";
        assert!(brings_online(rule) && brings_online(red_hat));
        let others = [
            "",
            "# SUBSYSTEM==\"memory\", ATTR{state}=\"online\"",
            "SUBSYSTEM==\"cpu\", ATTR{online}=\"1\"",
            "SUBSYSTEM==\"memory\", ATTR{state}==\"offline\", TAG+=\"systemd\"",
        ];
        assert!(!others.iter().any(|rules| brings_online(rules)));
    }

    #[test]
    fn the_files_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let rules = folder.path().canonicalize().unwrap().join("etc/udev/rules.d");
        fs::create_dir_all(&rules).unwrap();
        fs::write(rules.join("40-memory.rules"), "SUBSYSTEM==\"memory\", ATTR{state}=\"online\"\n").unwrap();
        fs::write(rules.join("50-cpu.rules"), "SUBSYSTEM==\"cpu\"\n").unwrap();
        assert_eq!(onlining_rules(folder.path()), [rules.join("40-memory.rules")]);
    }
}
