//! The programs of the bench.

use std::fs;
use std::path::PathBuf;

use rampart_native_build::JavaKit;

use crate::error::Error;

/// A program of the list in the kit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BenchProgram {
    pub name: String,
    /// The size of most of its objects: small, medium or large.
    pub led_by: String,
    /// A heap in which it has much room, in KiB.
    pub ample_kib: u32,
    /// Its argument: how often it does its work.
    pub rounds: String,
    /// The compiled program.
    pub module: PathBuf,
    /// What it prints on HotSpot.
    pub expected: String,
}

/// The programs of a kit, or those of them that are named.
///
/// # Errors
/// If the list is not there, or has no program of a name.
pub fn programs_of(kit: &JavaKit, named: &[String]) -> Result<Vec<BenchProgram>, Error> {
    let folder = kit.programs();
    let list = folder.join("programs.tsv");
    let unread = |path: PathBuf| move |cause| Error::BenchProgram { path, cause };
    let text = fs::read_to_string(&list).map_err(unread(list))?;
    let mut all = Vec::new();
    for mut program in text.lines().filter_map(read_line) {
        let path = folder.join(format!("{}.expected", program.name));
        program.module = folder.join(format!("{}.wasm", program.name));
        program.expected = fs::read_to_string(&path).map_err(unread(path))?;
        all.push(program);
    }
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
    let [name, _libraries, led_by, heap, _rounds, rounds] = columns[..] else { return None };
    let ample_kib = heap.parse::<u32>().ok()?.checked_mul(4 * 1024)?;
    (rounds != "-").then(|| BenchProgram {
        name: name.to_owned(),
        led_by: led_by.to_owned(),
        ample_kib,
        rounds: rounds.to_owned(),
        module: PathBuf::new(),
        expected: String::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_list_is_read_unless_it_is_of_no_bench() {
        let program = read_line("Archive\txz-1.9\tlarge\t20\t15\t30").unwrap();
        assert_eq!((program.name.as_str(), program.ample_kib, program.rounds.as_str()), ("Archive", 81920, "30"));
        assert_eq!(read_line("Trees\t-\tsmall\t16\t14\t-"), None);
        assert_eq!(read_line("# name\tlibraries\twhat leads\theap MiB\trounds\trounds (bench)"), None);
    }
}
