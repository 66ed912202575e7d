//! Where a program reads the time-stamp counter of the CPU.
//!
//! **Problem.** It does so by an instruction of two or three bytes, which may also stand in the middle of another one,
//! or among data. **Idea.** The tables for unwinding the stack (`.eh_frame`) say where each function begins. A function
//! that contains such bytes is decoded from its start. **Why this way.** Compilers for x86-64 emit these tables for
//! nearly all functions; bytes that only look like the instruction must not be changed (`mpi/redmpi/time_stamps.h`).

use std::fmt::Write as _;
use std::fs;
use std::ops::Range;
use std::path::Path;

use gimli::{BaseAddresses, CieOrFde, EhFrame, LittleEndian, UnwindSection as _};
use iced_x86::{Code, Decoder, DecoderOptions};
use object::{Architecture, Object as _, ObjectSection as _, SectionKind};

use super::library::NeededLibraries;

/// The two instructions [Intel SDM, volume 2B: RDTSC, RDTSCP].
const RDTSC: [u8; 2] = [0x0f, 0x31];
const RDTSCP: [u8; 3] = [0x0f, 0x01, 0xf9];

/// Beginnings of the names of libraries that read the counter as they wait, so not equally often in all replicas: the
/// C library as it waits for a lock, OpenMP and TBB as they wait for threads.
const WAITING: [&str; 7] = ["ld-linux", "libc.so", "libpthread", "libomp", "libiomp", "libgomp", "libtbb"];

/// A line for each place: the address in its file, and the file, as the loader names it.
pub fn list(libraries: &NeededLibraries) -> String {
    let mut lines = String::new();
    let waits = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        WAITING.iter().any(|known| name.starts_with(known))
    };
    for (name, path) in libraries.files().filter(|(name, path)| name.is_empty() || !waits(path)) {
        for place in readings(path) {
            writeln!(lines, "{place:x} {name}").expect("a string takes all");
        }
    }
    lines
}

/// The addresses of such instructions in a file. None if it is no program for x86-64, or has no tables.
fn readings(path: &Path) -> Vec<u64> {
    let bytes = fs::read(path).unwrap_or_default();
    let Ok(file) = object::File::parse(&*bytes) else { return Vec::new() };
    if file.architecture() != Architecture::X86_64 {
        return Vec::new();
    }
    let functions = functions(&file).unwrap_or_default();
    let text = file.sections().filter(|section| section.kind() == SectionKind::Text);
    text.filter_map(|section| Some((section.address(), section.data().ok()?)))
        .flat_map(|(address, code)| readings_in(address, code, &functions))
        .collect()
}

/// The addresses of all functions.
fn functions(file: &object::File<'_>) -> Option<Vec<Range<u64>>> {
    let section = file.section_by_name(".eh_frame")?;
    let table = EhFrame::new(section.data().ok()?, LittleEndian);
    let bases = BaseAddresses::default().set_eh_frame(section.address());
    let mut entries = table.entries(&bases);
    let mut functions = Vec::new();
    while let Some(entry) = entries.next().ok()? {
        if let CieOrFde::Fde(entry) = entry {
            let entry = entry.parse(EhFrame::cie_from_offset).ok()?;
            functions.push(entry.initial_address()..entry.initial_address().saturating_add(entry.len()));
        }
    }
    Some(functions)
}

/// Those in a section, which begins at `address`.
fn readings_in(address: u64, code: &[u8], functions: &[Range<u64>]) -> Vec<u64> {
    let begins = |bytes: &[u8]| bytes.starts_with(&RDTSC) || bytes.starts_with(&RDTSCP);
    let alike: Vec<u64> =
        (0..code.len()).filter(|&i| code[i] == RDTSC[0] && begins(&code[i..])).map(|i| address + i as u64).collect();
    let has_some = |function: &&Range<u64>| {
        alike.get(alike.partition_point(|&one| one < function.start)).is_some_and(|one| function.contains(one))
    };
    let mut found = Vec::new();
    for function in functions.iter().filter(has_some) {
        let begin = function.start.checked_sub(address).and_then(|offset| usize::try_from(offset).ok());
        if let Some(code) = begin.and_then(|begin| code.get(begin..)) {
            found.extend(decode(function, code));
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Those in a function. Prefixes, which mean nothing here, do not count.
fn decode(function: &Range<u64>, code: &[u8]) -> Vec<u64> {
    let mut decoder = Decoder::with_ip(64, code, function.start, DecoderOptions::NONE);
    let mut found = Vec::new();
    while decoder.can_decode() && decoder.ip() < function.end {
        let instruction = decoder.decode();
        match instruction.code() {
            Code::Rdtsc => found.push(instruction.next_ip() - RDTSC.len() as u64),
            Code::Rdtscp => found.push(instruction.next_ip() - RDTSCP.len() as u64),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_instructions_are_found() {
        let code = [
            0xb8, 0x0f, 0x31, 0x0f, 0x31, // mov eax, 0x310f310f
            0x0f, 0x31, // rdtsc
            0x0f, 0x01, 0xf9, // rdtscp
            0x48, 0x0f, 0x31, // rdtsc with a prefix
            0xc3, // ret
            0x0f, 0x31, // data behind the function
            0x0f, 0x31, // rdtsc in another function
        ];
        let functions = [0x1000..0x100e, 0x1010..0x1012, 0x5000..0x6000];
        assert_eq!(readings_in(0x1000, &code, &functions), [0x1005, 0x1007, 0x100b, 0x1010]);
        assert!(readings_in(0x1000, &code, &[]).is_empty());
    }

    #[test]
    fn libraries_that_read_it_as_they_wait_are_left_alone() {
        let own = std::env::current_exe().unwrap();
        let list = list(&NeededLibraries::of(own.as_os_str()).unwrap());
        assert!(!list.is_empty() && !list.contains("libc.so") && !list.contains("ld-linux"), "{list}");
    }

    #[test]
    fn a_real_program_is_read() {
        let own = std::env::current_exe().unwrap();
        std::hint::black_box(rampart_linux::cpu::Tsc::measured().ok());
        assert!(!readings(&own).is_empty(), "this very program reads the counter");
        assert!(readings(Path::new("/proc/self/status")).is_empty(), "no program at all");
    }
}
