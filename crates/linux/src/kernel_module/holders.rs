//! Whether the module is loaded, and who keeps it from being unloaded.

use std::fs;
use std::path::Path;

use serde::Serialize;

use super::{DEVICE, NAME};
use crate::Roots;
use crate::roots::{numbered, text};

/// The module while it is loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LoadedModule {
    /// References to it; it can be unloaded if there are none.
    pub references: u64,
    /// Other modules that use it.
    pub modules: Vec<String>,
    /// Processes that have its device open, as far as this process sees them.
    pub processes: Vec<DeviceHolder>,
}

/// A process that has the module's device open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, displaydoc::Display)]
#[displaydoc("process {pid} ({name})")]
pub struct DeviceHolder {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
}

impl LoadedModule {
    /// The module, if it is loaded: its line in `/proc/modules`, which is `name size references users state address`.
    #[must_use]
    pub fn find(roots: &Roots) -> Option<Self> {
        let lines = text(&roots.proc("modules")).ok()?;
        let words = lines.lines().map(|line| line.split(' ').collect::<Vec<_>>()).find(|words| words[0] == NAME)?;
        let references = words.get(2).and_then(|word| word.parse().ok()).unwrap_or(0);
        let users = words.get(3).copied().unwrap_or("-").split(',');
        let modules = users.filter(|user| !["-", "", "[permanent]"].contains(user)).map(str::to_owned).collect();
        Some(Self { references, modules, processes: processes(roots) })
    }

    /// Who uses it, in one line.
    #[must_use]
    pub fn users(&self) -> String {
        let modules = self.modules.iter().map(|name| format!("module {name}"));
        let all: Vec<String> = self.processes.iter().map(DeviceHolder::to_string).chain(modules).collect();
        match (all.is_empty(), self.references) {
            (false, _) => all.join(", "),
            (true, 0) => "nobody".to_owned(),
            (true, references) => format!("{references} users whom this process cannot see"),
        }
    }
}

/// The processes that have the device open, by their number.
fn processes(roots: &Roots) -> Vec<DeviceHolder> {
    let all = numbered(&roots.proc(""), "").into_iter().filter(|(_, folder)| has_device_open(folder));
    let name =
        |folder: &Path| text(&folder.join("comm")).map_or_else(|_| "?".to_owned(), |name| name.trim().to_owned());
    all.map(|(pid, folder)| DeviceHolder { pid, name: name(&folder) }).collect()
}

fn has_device_open(process: &Path) -> bool {
    let Ok(files) = fs::read_dir(process.join("fd")) else { return false };
    files.flatten().any(|file| fs::read_link(file.path()).is_ok_and(|target| target == Path::new(DEVICE)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn machine(modules: &str) -> (tempfile::TempDir, Roots) {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("modules"), modules).unwrap();
        let roots = Roots::new(folder.path(), folder.path());
        (folder, roots)
    }

    #[test]
    fn the_module_is_loaded_if_the_kernel_lists_it() {
        let (_folder, roots) = machine("rampartish 1 0 - Live 0x0\nloop 1 0 rampart, Live 0x0\n");
        assert_eq!(LoadedModule::find(&roots), None);
        let (_folder, roots) = machine("loop 1 0 - Live 0x0\nrampart 32768 0 - Live 0xffffffffc0a (OE)\n");
        let loaded = LoadedModule::find(&roots).unwrap();
        assert_eq!((loaded.references, loaded.modules.len(), loaded.users().as_str()), (0, 0, "nobody"));
    }

    #[test]
    fn who_uses_it_is_named() {
        let (folder, roots) = machine("rampart 32768 3 other,more, Live 0x0 (OE)\n");
        for (pid, target) in [("7", DEVICE), ("8", "/dev/null"), ("12", DEVICE)] {
            let process = folder.path().join(pid);
            fs::create_dir_all(process.join("fd")).unwrap();
            fs::write(process.join("comm"), format!("program{pid}\n")).unwrap();
            symlink("/dev/null", process.join("fd/0")).unwrap();
            symlink(target, process.join("fd/3")).unwrap();
        }
        let loaded = LoadedModule::find(&roots).unwrap();
        assert_eq!(loaded.users(), "process 7 (program7), process 12 (program12), module other, module more");
        let (_folder, roots) = machine("rampart 32768 2 - Live 0x0 (OE)\n");
        assert_eq!(LoadedModule::find(&roots).unwrap().users(), "2 users whom this process cannot see");
    }
}
