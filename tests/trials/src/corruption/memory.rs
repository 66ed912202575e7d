//! Another process' memory, as `/proc` shows it to root: its mappings, which pages are present, and their content.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use super::content::PAGE_BYTES;

/// Pages per read.
const CHUNK_PAGES: usize = 256;

/// Pages per look-up of present pages.
const WINDOW_PAGES: u64 = 1 << 16;

/// A mapping of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Its addresses.
    pub addresses: Range<u64>,
    /// Its protection, such as `rw-p`.
    pub protection: String,
    /// The name of the mapped file; empty without one.
    pub name: String,
}

/// The memory of a process.
#[derive(Debug)]
pub struct Memory {
    pid: u32,
    mem: File,
    pagemap: File,
}

impl Memory {
    /// Opens the memory of this process.
    pub fn of(pid: u32) -> io::Result<Self> {
        let mem = OpenOptions::new().read(true).write(true).open(format!("/proc/{pid}/mem"))?;
        Ok(Self { pid, mem, pagemap: File::open(format!("/proc/{pid}/pagemap"))? })
    }

    /// The present mappings.
    pub fn mappings(&self) -> io::Result<Vec<Mapping>> {
        Ok(fs::read_to_string(format!("/proc/{}/maps", self.pid))?.lines().filter_map(mapping).collect())
    }

    /// The mapping of an address.
    pub fn mapping_of(&self, address: u64) -> io::Result<Option<Mapping>> {
        Ok(self.mappings()?.into_iter().find(|mapping| mapping.addresses.contains(&address)))
    }

    /// Whether the page of an address is in memory there.
    pub fn is_present(&self, address: u64) -> io::Result<bool> {
        Ok(self.present(address / PAGE_BYTES as u64, 1)?[0])
    }

    fn present(&self, first: u64, pages: u64) -> io::Result<Vec<bool>> {
        let mut entries = vec![0; 8 * size(pages)];
        self.pagemap.read_exact_at(&mut entries, 8 * first)?;
        Ok(entries.chunks_exact(8).map(is_present).collect())
    }

    /// Reads bytes.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.mem.read_exact_at(bytes, address)
    }

    /// Writes bytes, even where the process itself may not.
    pub fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.mem.write_all_at(bytes, address)
    }

    /// Whether a page of a window is in memory. Most windows are empty: a mapping may be a thousand times as large as
    /// its content.
    pub fn is_populated(&self, window: &Range<u64>) -> io::Result<bool> {
        let mut entries = vec![0; 8 * size(window.end - window.start)];
        self.pagemap.read_exact_at(&mut entries, 8 * window.start)?;
        // All entries of an empty window are equal.
        Ok(is_present(&entries) || entries[8..] != entries[..entries.len() - 8])
    }

    /// Visits the present pages of a window, a chunk at a time, with the chunk's address and its bytes. Pages that
    /// cannot be read, or disappear meanwhile, are skipped.
    pub fn each_chunk(&self, window: &Range<u64>, mut visit: impl FnMut(u64, &[u8])) -> io::Result<()> {
        let mut bytes = vec![0; CHUNK_PAGES * PAGE_BYTES];
        for run in runs(&self.present(window.start, window.end - window.start)?) {
            let length = run.len() * PAGE_BYTES;
            let address = (window.start + run.start as u64) * PAGE_BYTES as u64;
            if self.read(address, &mut bytes[..length]).is_ok() {
                visit(address, &bytes[..length]);
            }
        }
        Ok(())
    }
}

/// The size of present memory.
fn size(number: u64) -> usize {
    usize::try_from(number).expect("a process of 64 bits")
}

/// Whether an entry of a pagemap belongs to a page in memory: bit 63.
fn is_present(entry: &[u8]) -> bool {
    entry[7] & 0x80 != 0
}

/// The windows of mappings, by page numbers: the first of each, then the second of each, and so on, because mappings
/// are used from their starts.
pub fn windows(mappings: &[Mapping]) -> Vec<Range<u64>> {
    let page = PAGE_BYTES as u64;
    let mut windows: Vec<(usize, Range<u64>)> = Vec::new();
    for Mapping { addresses, .. } in mappings {
        let end = addresses.end / page;
        let starts = (addresses.start / page..end).step_by(size(WINDOW_PAGES));
        windows.extend(starts.map(|start| start..end.min(start + WINDOW_PAGES)).enumerate());
    }
    windows.sort_by_key(|(turn, _)| *turn);
    windows.into_iter().map(|(_, window)| window).collect()
}

/// Runs of present pages, none longer than a chunk.
fn runs(present: &[bool]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for index in (0..present.len()).filter(|&index| present[index]) {
        match runs.last_mut() {
            Some(run) if run.end == index && run.len() < CHUNK_PAGES => run.end = index + 1,
            _ => runs.push(index..index + 1),
        }
    }
    runs
}

/// A line of `/proc/PID/maps`: `ADDRESS-ADDRESS RIGHTS OFFSET DEVICE INODE [NAME]`.
fn mapping(line: &str) -> Option<Mapping> {
    let mut words = line.split_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let address = |text| u64::from_str_radix(text, 16).ok();
    let protection = words.next()?.to_owned();
    let name = words.skip(3).collect::<Vec<_>>().join(" ");
    Some(Mapping { addresses: address(start)?..address(end)?, protection, name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_maps_is_read() {
        let line = "7f0000000000-7f0000200000 ---p 00000000 00:01 1234                       /memfd:a name (deleted)";
        let read = mapping(line).unwrap();
        assert_eq!(read.addresses, 0x7f00_0000_0000..0x7f00_0020_0000);
        assert_eq!((read.protection.as_str(), read.name.as_str()), ("---p", "/memfd:a name (deleted)"));
        assert_eq!(mapping("7f00-7f01 rw-p 0 00:00 0").unwrap().name, "");
        assert_eq!(mapping("nothing of the kind"), None);
    }

    #[test]
    fn windows_are_those_of_all_mappings_the_first_of_each_first() {
        let of = |start: u64, pages: u64| Mapping {
            addresses: start * 4096..(start + pages) * 4096,
            protection: String::new(),
            name: String::new(),
        };
        let found = windows(&[of(10, WINDOW_PAGES + 1), of(1 << 30, 2)]);
        assert_eq!(found, [10..10 + WINDOW_PAGES, 1 << 30..(1 << 30) + 2, 10 + WINDOW_PAGES..11 + WINDOW_PAGES]);
    }

    #[test]
    fn runs_of_pages_are_found_and_cut() {
        let mut present = vec![true; 300];
        present[10] = false;
        assert_eq!(runs(&present), [0..10, 11..267, 267..300]);
        assert_eq!(runs(&[false; 3]), []);
    }

    #[test]
    fn our_own_memory_is_found_by_its_content_and_written() {
        let (text, memory) = (vec![0x5a_u8; 3 * PAGE_BYTES], Memory::of(std::process::id()).unwrap());
        let address = text.as_ptr() as u64;
        let mapping = memory.mapping_of(address).unwrap().unwrap();
        let mut found = false;
        for window in windows(&[mapping]) {
            let find = |start: u64, bytes: &[u8]| {
                let offset = size(address.wrapping_sub(start));
                found |= offset < bytes.len() - 16 && bytes[offset..].starts_with(&[0x5a; 16]);
            };
            memory.each_chunk(&window, find).unwrap();
        }
        assert!(found && memory.is_present(address).unwrap());
        let before = std::hint::black_box(&text)[5];
        memory.write(address + 5, &[before]).unwrap();
        let mut read = [0];
        memory.read(address + 5, &mut read).unwrap();
        assert_eq!(read, [before]);
    }
}
