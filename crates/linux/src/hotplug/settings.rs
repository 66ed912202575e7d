//! Settings of the kernel by which memory comes online without a request of ours, or in a zone that we did not choose.

use std::path::PathBuf;

use serde::Serialize;

use crate::Roots;
use crate::roots::text;

/// Files below `/sys`, each with the value that lets memory blocks be: any other brings some online.
///
/// `auto_online_blocks` says whether memory that is added while the kernel runs, by a hypervisor or as a module, comes
/// online at once; `online_policy` lets the kernel choose the zone of blocks that come online for any use.
const FILES: [(&str, &str); 2] = [
    ("devices/system/memory/auto_online_blocks", "offline"),
    ("module/memory_hotplug/parameters/online_policy", "contig-zones"),
];

/// A setting that may undo what was done to memory blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OnliningSetting {
    /// Its file.
    pub file: PathBuf,
    /// Its value.
    pub value: String,
}

/// The settings of this kernel that may bring memory blocks online. A kernel without such a file does not do so.
#[must_use]
pub fn onlining_settings(roots: &Roots) -> Vec<OnliningSetting> {
    let setting = |(name, harmless): (&str, &str)| {
        let file = roots.sys(name);
        let value = text(&file).ok()?.trim().to_owned();
        (value != harmless && !value.is_empty()).then_some(OnliningSetting { file, value })
    };
    FILES.into_iter().filter_map(setting).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_setting_is_found_if_it_brings_memory_online() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::new(folder.path(), folder.path());
        assert_eq!(onlining_settings(&roots), []);
        let files = FILES.map(|(name, harmless)| (roots.sys(name), harmless));
        for (file, harmless) in &files {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, format!("{harmless}\n")).unwrap();
        }
        assert_eq!(onlining_settings(&roots), []);
        for ((file, _), value) in files.iter().zip(["online_kernel", "auto-movable"]) {
            fs::write(file, format!("{value}\n")).unwrap();
        }
        let found: Vec<_> = onlining_settings(&roots).into_iter().map(|found| (found.file, found.value)).collect();
        let [auto, policy] = files.map(|(file, _)| file);
        assert_eq!(found, [(auto, "online_kernel".to_owned()), (policy, "auto-movable".to_owned())]);
    }
}
