//! What the firmware says about the parts of memory: the tables MPST and CEDT of ACPI, and the table of SMBIOS.
//!
//! **Problem.** Which addresses lose power together, or are interleaved over several devices, is known to the firmware
//! alone. **Idea.** It may say so in tables, which the kernel shows in `/sys/firmware`. MPST has the ranges that are
//! switched as a whole, CEDT the windows of CXL memory, and SMBIOS the memory devices and their addresses. **Why this
//! way.** Firmware is wrong often enough: a table counts only if its length, its checksum and all its ranges are right,
//! else it is left out, and the reason is kept. Of SMBIOS, the kernel has checked length and checksum: they are in its
//! entry point.
//!
//! PMTT lists sockets, memory controllers and DIMMs, but no addresses (ACPI 6.5, Platform Memory Topology
//! Table). So it is not read.

mod cedt;
mod mpst;
mod smbios;

use std::fs;
use std::io;

use rampart_memory::{FRAME_BYTES, Frame, FrameRange};

use crate::{Error, Roots};

pub use cedt::{CxlWindow, parse_cedt};
pub use mpst::{PowerNode, parse_mpst};
pub use smbios::{SmbiosDevice, SmbiosMemory, SmbiosRange, parse_smbios};

/// The header of all tables of ACPI (`DESCRIPTION_HEADER`, ACPI 6.5, 5.2.6).
const HEADER: usize = 36;

/// The tables of ACPI.
#[derive(Debug, Default)]
pub struct MemoryTables {
    /// The nodes of MPST; none if there is no such table.
    pub nodes: Vec<PowerNode>,
    /// The windows of CEDT; none if there is no such table.
    pub windows: Vec<CxlWindow>,
    /// Why a table that is there is left out.
    pub refused: Vec<Error>,
}

impl MemoryTables {
    /// Reads the tables, which takes root's rights where there are any.
    #[must_use]
    pub fn read(roots: &Roots) -> Self {
        let mut refused = Vec::new();
        let nodes = read(roots, "MPST", parse_mpst, &mut refused);
        let windows = read(roots, "CEDT", parse_cedt, &mut refused);
        Self { nodes, windows, refused }
    }
}

fn read<T>(
    roots: &Roots,
    name: &str,
    parse: impl Fn(&[u8]) -> Result<Vec<T>, Error>,
    refused: &mut Vec<Error>,
) -> Vec<T> {
    let path = roots.sys("firmware/acpi/tables").join(name);
    let parsed = match fs::read(&path) {
        Ok(bytes) => parse(&bytes),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(cause) => Err(Error::Read { path, cause }),
    };
    parsed.unwrap_or_else(|error| {
        refused.push(error);
        Vec::new()
    })
}

/// A table of ACPI whose header has been checked, the table of SMBIOS, or a structure of one.
#[derive(Clone, Copy)]
struct Table<'a> {
    name: &'static str,
    bytes: &'a [u8],
}

impl<'a> Table<'a> {
    /// Checks the signature, the length, and the checksum: the sum of all bytes is 0.
    fn new(name: &'static str, bytes: &'a [u8]) -> Result<Self, Error> {
        let table = Self { name, bytes };
        if !bytes.starts_with(name.as_bytes()) {
            return Err(table.wrong("its signature is another"));
        }
        if bytes.len() < HEADER || usize::try_from(table.u32(4)?) != Ok(bytes.len()) {
            return Err(table.wrong("its length is not that of its header"));
        }
        if bytes.iter().fold(0, |sum: u8, byte| sum.wrapping_add(*byte)) != 0 {
            return Err(table.wrong("its checksum is wrong"));
        }
        Ok(table)
    }

    const fn wrong(self, what: &'static str) -> Error {
        Error::FirmwareTable { name: self.name, what }
    }

    /// Returns so many bytes from an offset on.
    fn at<const N: usize>(self, offset: usize) -> Result<[u8; N], Error> {
        let found = self.bytes.get(offset..).and_then(<[u8]>::first_chunk);
        found.copied().ok_or_else(|| self.wrong("it ends within a structure"))
    }

    fn u8(self, offset: usize) -> Result<u8, Error> {
        self.at(offset).map(u8::from_le_bytes)
    }

    fn u16(self, offset: usize) -> Result<u16, Error> {
        self.at(offset).map(u16::from_le_bytes)
    }

    fn u32(self, offset: usize) -> Result<u32, Error> {
        self.at(offset).map(u32::from_le_bytes)
    }

    fn u64(self, offset: usize) -> Result<u64, Error> {
        self.at(offset).map(u64::from_le_bytes)
    }

    /// Returns the structure of so many bytes at an offset, as a table of its own.
    fn part(self, offset: usize, length: usize) -> Result<Self, Error> {
        let bytes = offset.checked_add(length).and_then(|end| self.bytes.get(offset..end));
        bytes.map(|bytes| Self { bytes, ..self }).ok_or_else(|| self.wrong("it ends within a structure"))
    }

    /// Returns the frames of an address and a length, of which both must be multiples of `unit`.
    fn frames(self, address: u64, length: u64, unit: u64) -> Result<FrameRange, Error> {
        let is_aligned = address.is_multiple_of(unit) && length.is_multiple_of(unit);
        let range = Frame::containing(address).and_then(|start| FrameRange::new(start, length / FRAME_BYTES));
        range
            .filter(|_| is_aligned)
            .ok_or_else(|| self.wrong("a range of addresses is empty, too large or not aligned"))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Puts a header before a body, with the right length and checksum.
    pub fn table(name: &str, body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER];
        bytes[..4].copy_from_slice(name.as_bytes());
        bytes[8] = 1;
        bytes[10..16].copy_from_slice(b"RAMPAR");
        bytes.extend(body);
        let length = u32::try_from(bytes.len()).unwrap();
        bytes[4..8].copy_from_slice(&length.to_le_bytes());
        sealed(bytes)
    }

    /// Makes the checksum right.
    pub fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
        bytes[9] = 0;
        bytes[9] = bytes.iter().fold(0, |sum: u8, byte| sum.wrapping_sub(*byte));
        bytes
    }

    pub fn refusal<T: std::fmt::Debug>(parsed: Result<T, Error>) -> &'static str {
        match parsed.unwrap_err() {
            Error::FirmwareTable { what, .. } => what,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn a_table_counts_only_with_its_signature_length_and_checksum() {
        let good = table("TEST", &[1, 2, 3]);
        assert!(Table::new("TEST", &good).is_ok());
        let refused = |bytes: &[u8]| refusal(Table::new("TEST", bytes).map(|table| table.bytes.len()));
        assert_eq!(refused(&table("TEXT", &[])), "its signature is another");
        for length in [0, 3] {
            assert_eq!(refused(&good[..length]), "its signature is another");
        }
        for length in [4, 8, 35, 38] {
            assert_eq!(refused(&good[..length]), "its length is not that of its header");
        }
        let longer = [&good[..], &[0]].concat();
        assert_eq!(refused(&longer), "its length is not that of its header");
        for place in 8..good.len() {
            let mut bad = good.clone();
            bad[place] ^= 4;
            assert_eq!(refused(&bad), "its checksum is wrong");
        }
    }

    #[test]
    fn a_range_is_whole_units_below_the_last_frame() {
        let table = table("TEST", &[]);
        let table = Table::new("TEST", &table).unwrap();
        let frames = table.frames(0x2000, 0x3000, 4096).unwrap();
        assert_eq!((frames.start().number(), frames.count()), (2, 3));
        assert!(table.frames((1 << 52) - 4096, 4096, 4096).is_ok());
        for (address, length) in
            [(0, 0), (1, 4096), (0, 4097), ((1 << 52) - 4096, 8192), (1 << 52, 4096), (0, u64::MAX), (u64::MAX, 1)]
        {
            let refused = refusal(table.frames(address, length, 4096));
            assert_eq!(refused, "a range of addresses is empty, too large or not aligned", "{address:#x} {length:#x}");
        }
    }

    #[test]
    fn both_tables_are_read_and_what_is_wrong_with_one_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::new(folder.path(), folder.path());
        let absent = MemoryTables::read(&roots);
        assert!(absent.nodes.is_empty() && absent.windows.is_empty() && absent.refused.is_empty());
        let tables = roots.sys("firmware/acpi/tables");
        fs::create_dir_all(tables.join("CEDT")).unwrap();
        fs::write(tables.join("MPST"), mpst::tests::two_nodes()).unwrap();
        let seen = MemoryTables::read(&roots);
        assert_eq!((seen.nodes.len(), seen.windows.len(), seen.refused.len()), (2, 0, 1));
        assert!(seen.refused[0].to_string().starts_with("cannot read "), "a folder is no file");
        fs::remove_dir(tables.join("CEDT")).unwrap();
        fs::write(tables.join("CEDT"), cedt::tests::a_bridge_and_a_window()).unwrap();
        fs::write(tables.join("MPST"), [1]).unwrap();
        let seen = MemoryTables::read(&roots);
        assert_eq!((seen.nodes.len(), seen.windows.len()), (0, 1));
        let refused: Vec<String> = seen.refused.iter().map(ToString::to_string).collect();
        assert_eq!(refused, ["the firmware's table MPST is left out: its signature is another"]);
    }
}
