//! The programs of the bench.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;

use rampart_native_build::{JavaKit, JavaProgram};

use crate::error::Error;

/// A program of the list in the kit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BenchProgram {
    pub name: String,
    /// A heap in which it has much room, in KiB.
    pub ample_kib: u32,
    /// Its argument: how often it does its work.
    pub rounds: String,
    /// Its libraries.
    libraries: Vec<String>,
}

/// A program that can be run.
#[derive(Clone, Debug)]
pub struct CompiledProgram {
    pub module: PathBuf,
    /// What it prints on HotSpot.
    pub expected: String,
}

/// The programs of a kit, or those of them that are named.
///
/// # Errors
/// If the list is not there, or has no program of a name.
pub fn programs_of(kit: &JavaKit, named: &[String]) -> Result<Vec<BenchProgram>, Error> {
    let path = kit.programs().join("programs.tsv");
    let text = fs::read_to_string(&path).map_err(|cause| Error::BenchProgram { path, cause })?;
    let mut all: Vec<BenchProgram> = text.lines().filter_map(read_line).collect();
    if let Some(unknown) = named.iter().find(|name| all.iter().all(|program| program.name != **name)) {
        let known: Vec<&str> = all.iter().map(|program| program.name.as_str()).collect();
        return Err(Error::NoSuchProgram { name: unknown.clone(), known: known.join(", ") });
    }
    all.retain(|program| named.is_empty() || named.contains(&program.name));
    Ok(all)
}

/// A line of the list: name, libraries, what leads, heap in MiB and rounds of a check, rounds of the bench. A program
/// that is no part of the bench has no rounds there.
fn read_line(line: &str) -> Option<BenchProgram> {
    let columns: Vec<&str> = line.split('\t').collect();
    let [name, libraries, _led_by, heap, _rounds, rounds] = columns[..] else { return None };
    let ample_kib = heap.parse::<u32>().ok()?.checked_mul(4 * 1024)?;
    (rounds != "-").then(|| BenchProgram {
        name: name.to_owned(),
        ample_kib,
        rounds: rounds.to_owned(),
        libraries: libraries.split_whitespace().filter(|name| *name != "-").map(str::to_owned).collect(),
    })
}

impl BenchProgram {
    /// Compiles it, and asks HotSpot what it prints.
    ///
    /// # Errors
    /// If either fails, or `poll` breaks.
    pub fn compile(
        &self,
        kit: &JavaKit,
        folder: &Path,
        poll: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<CompiledProgram, Error> {
        let folder = folder.join(&self.name);
        fs::create_dir_all(&folder).map_err(|cause| Error::Job { path: folder.clone(), cause })?;
        let libraries = self.libraries.iter().map(|name| kit.library(name));
        let path = std::env::join_paths(std::iter::once(kit.programs()).chain(libraries));
        let path = path.map_err(|_| Error::JavaLaunch("the kit's folder has a `:` in its name".to_owned()))?;
        let program = JavaProgram::Class { path: path.clone(), name: self.name.clone() };
        let module = kit.compile(&program, &folder, poll)?;
        let failed = |cause| Error::Program { name: "java".to_owned(), cause };
        let hotspot = Command::new("java").arg("-cp").arg(path).arg(&self.name).arg(&self.rounds).output();
        let hotspot = hotspot.map_err(failed)?;
        if !hotspot.status.success() {
            return Err(failed(std::io::Error::other(format!("{} fails on HotSpot", self.name))));
        }
        Ok(CompiledProgram { module, expected: String::from_utf8_lossy(&hotspot.stdout).into_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_list_is_read_unless_it_is_of_no_bench() {
        let program = read_line("Archive\txz-1.9\tlarge\t20\t15\t30").unwrap();
        assert_eq!((program.name.as_str(), program.ample_kib, program.rounds.as_str()), ("Archive", 81920, "30"));
        assert_eq!(program.libraries, ["xz-1.9"]);
        assert_eq!(read_line("Trees\t-\tsmall\t16\t14\t-"), None);
        assert_eq!(read_line("# name\tlibraries\twhat leads\theap MiB\trounds\trounds (bench)"), None);
    }
}
