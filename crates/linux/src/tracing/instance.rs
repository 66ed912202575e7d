//! A trace of our own.
//!
//! **Problem.** A trace has one reader: emptying the kernel's main one takes the events from rasdaemon and from a
//! person who debugs. **Idea.** A trace instance of our own, in which only our events are switched on; it is removed at
//! our end. **Why this way.** A killed process leaves its instance behind, under its own number; so the next process
//! that makes one removes those of processes that are gone.
//!
//! Source: Linux, Documentation/trace/ftrace.rst, "Instances".

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::{Absence, Roots, roots};

/// The prefix of our instances' names; the process' number follows.
const PREFIX: &str = "rampart-";

/// Bytes that are read at once: more than any file of text in tracefs has that is read here.
const AT_ONCE: usize = 64 << 10;

/// The folder of tracefs; where it is not mounted, the one in which it should be.
pub fn folder(roots: &Roots) -> PathBuf {
    let usual = roots.sys("kernel/tracing");
    // Where an older system, or a person, has mounted only debugfs.
    let older = roots.sys("kernel/debug/tracing");
    if !usual.join("events").exists() && older.join("events").exists() { older } else { usual }
}

/// A trace instance, removed when dropped. All files in it must be closed before.
#[derive(Debug)]
pub struct TraceInstance {
    folder: PathBuf,
    /// The options of a kernel that has what is traced.
    kernel: &'static str,
}

impl Drop for TraceInstance {
    fn drop(&mut self) {
        // Nobody can be informed; the next process that makes an instance tries again.
        let _ = fs::remove_dir(&self.folder);
    }
}

impl TraceInstance {
    /// Makes an instance. `make` makes the folder, which the kernel then fills; `kernel` names the options of a kernel
    /// that has the events.
    ///
    /// # Errors
    /// Why there can be none, or not for this user.
    pub fn create(
        roots: &Roots,
        kernel: &'static str,
        make: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Result<Self, Absence> {
        let instances = folder(roots).join("instances");
        remove_left_behind(roots, &instances);
        let folder = instances.join(format!("{PREFIX}{}", std::process::id()));
        make(&folder).map_err(|cause| in_use_or_absent(&folder, &cause, kernel))?;
        Ok(Self { folder, kernel })
    }

    /// The path of a file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Reads a file of text.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn read(&self, name: &str) -> Result<String, Absence> {
        let path = self.path(name);
        whole(&path).map_err(|cause| Absence::of_file(&path, &cause, self.kernel))
    }

    /// Writes a file.
    ///
    /// # Errors
    /// Why it cannot be written.
    pub fn write(&self, name: &str, value: &str) -> Result<(), Absence> {
        let path = self.path(name);
        let written = OpenOptions::new().write(true).open(&path).and_then(|mut file| file.write_all(value.as_bytes()));
        written.map_err(|cause| Absence::of_file(&path, &cause, self.kernel))
    }

    /// Opens a pipe of events, so that reading does not wait for them.
    ///
    /// # Errors
    /// Why it cannot be opened.
    pub fn open(&self, name: &str) -> Result<File, Absence> {
        let path = self.path(name);
        let opened = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(&path);
        opened.map_err(|cause| Absence::of_file(&path, &cause, self.kernel))
    }
}

/// The text of a file. Of some files of tracefs, such as `header_page`, only the first read gets anything, so that a
/// reader that begins with a small buffer, as those of the standard library do, would see the beginning only.
fn whole(path: &Path) -> io::Result<String> {
    let (mut file, mut text, mut buffer) = (File::open(path)?, Vec::new(), vec![0; AT_ONCE]);
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(String::from_utf8_lossy(&text).into_owned()),
            Ok(read) => text.extend_from_slice(&buffer[..read]),
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(cause),
        }
    }
}

/// Removes our instances whose process is gone, and one of a process that had our number.
///
/// The kernel itself keeps an instance that is being read, such as one of a process in another container.
fn remove_left_behind(roots: &Roots, instances: &Path) {
    for (process, folder) in roots::numbered(instances, PREFIX) {
        if process == std::process::id() || !roots.proc(process.to_string()).exists() {
            let _ = fs::remove_dir(folder);
        }
    }
}

fn in_use_or_absent(folder: &Path, cause: &io::Error, kernel: &str) -> Absence {
    let path = folder.display();
    match cause.kind() {
        io::ErrorKind::AlreadyExists => {
            Absence::new(format!("{path} is in use"), "end the other rampart that reads trace events")
        }
        _ => Absence::of_file(folder, cause, kernel),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(mounted: &[&str]) -> (tempfile::TempDir, Roots) {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::new(folder.path(), folder.path());
        for place in mounted {
            fs::create_dir_all(roots.sys(place).join("events")).unwrap();
            fs::create_dir(roots.sys(place).join("instances")).unwrap();
        }
        (folder, roots)
    }

    #[test]
    fn the_older_place_of_tracefs_is_used_only_where_the_usual_one_is_empty() {
        const USUAL: &str = "kernel/tracing";
        const OLDER: &str = "kernel/debug/tracing";
        for (mounted, expected) in [(&[USUAL, OLDER][..], USUAL), (&[USUAL], USUAL), (&[OLDER], OLDER), (&[], USUAL)] {
            let (_folder, roots) = machine(mounted);
            assert_eq!(folder(&roots), roots.sys(expected), "{mounted:?}");
        }
    }

    #[test]
    fn instances_of_dead_processes_are_removed_and_others_are_left() {
        let (_folder, roots) = machine(&["kernel/tracing"]);
        let instances = folder(&roots).join("instances");
        fs::create_dir(roots.proc("41")).unwrap();
        let own = format!("rampart-{}", std::process::id());
        for name in ["rampart-41", "rampart-42", "rampart-x", "someone-42", &own] {
            fs::create_dir(instances.join(name)).unwrap();
        }
        let instance = TraceInstance::create(&roots, "CONFIG_X", |folder| fs::create_dir(folder)).unwrap();
        let left = |name: &str| instances.join(name).exists();
        assert!(!left("rampart-42"), "no process has this number");
        assert!(left("rampart-41") && left("rampart-x") && left("someone-42") && left(&own));
        drop(instance);
        assert!(!left(&own));
    }

    #[test]
    fn an_instance_that_another_reads_is_left_to_it() {
        let (_folder, roots) = machine(&["kernel/tracing"]);
        let busy = |folder: &Path| fs::create_dir(folder).and_then(|()| fs::create_dir(folder));
        let absence = TraceInstance::create(&roots, "CONFIG_X", busy).unwrap_err();
        assert!(absence.reason.contains("in use"), "{absence}");
        assert!(folder(&roots).join(format!("instances/rampart-{}", std::process::id())).exists());
    }
}
