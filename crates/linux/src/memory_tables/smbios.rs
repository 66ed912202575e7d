//! The table of SMBIOS, the system management BIOS: the memory devices of the machine, and which addresses are on each.
//!
//! Source: DMTF DSP0134, System Management BIOS Reference Specification. The table is a row of structures, each of
//! which begins with its type (1 byte), the length of its formatted part (1 byte) and its handle (2 bytes). The
//! formatted part is followed by its texts, each with a zero behind it, and a further zero; a field of a text holds its
//! number, from 1. A structure of type 127 ends the table. Read are
//!
//! | type | offset | bytes | field |
//! |---|---|---|---|
//! | 16, physical memory array | 5 | 1 | what the memory is for: 4 to 7 are video, flash, NVRAM and cache |
//! | 17, memory device | 4 | 2 | the handle of its array |
//! | | 12 | 2 | its size in MiB, or KiB with bit 15; 0: none is there; 0xffff: unknown; 0x7fff: see 28 |
//! | | 16 | 1 | the text of its device locator |
//! | | 17 | 1 | the text of its bank locator |
//! | | 28 | 4 | its size in MiB, from version 2.7 |
//! | 20, memory device mapped address | 4 | 4 | the first KiB; 0xffffffff: see 19 |
//! | | 8 | 4 | the last KiB |
//! | | 12 | 2 | the handle of its memory device |
//! | | 14 | 2 | the handle of the mapped address of its array |
//! | | 17 | 1 | its place in an interleave; 0: it is in none; 0xff: unknown |
//! | | 19 | 8 | the first byte, from version 2.7 |
//! | | 27 | 8 | the last byte, from version 2.7 |
//!
//! The partition row position (16) is not read: devices side by side in a row have the same addresses, which shows. Nor
//! is the interleaved data depth (18), which firmware sets to anything.

use std::collections::BTreeSet;
use std::fs;
use std::io;

use rampart_memory::{Bytes, FRAME_BYTES, FrameRange};

use super::Table;
use crate::{Error, Roots};

const NAME: &str = "DMI";

const ARRAY: u8 = 16;
const DEVICE: u8 = 17;
const MAPPED: u8 = 20;
const END: u8 = 127;

/// The length of the beginning of a structure.
const BEGINNING: usize = 4;

/// The memory devices of this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SmbiosMemory {
    /// All devices of the main memory that are there, in the order of the table.
    pub devices: Vec<SmbiosDevice>,
    /// The addresses on each, in the order of the table; none if the firmware does not say.
    pub ranges: Vec<SmbiosRange>,
}

/// A memory device: a DIMM, or soldered memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmbiosDevice {
    /// The firmware's number of its structure.
    pub handle: u16,
    /// The name of its socket; empty if it has none.
    pub locator: String,
    /// The name of its bank; empty if it has none.
    pub bank: String,
    /// Its size, if the firmware knows it.
    pub size: Option<Bytes>,
}

/// Addresses on a memory device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmbiosRange {
    /// The handle of one of [`SmbiosMemory::devices`].
    pub device: u16,
    /// The addresses.
    pub frames: FrameRange,
    /// Whether the device is one of several among which these addresses take turns, or that is unknown.
    pub is_interleaved: bool,
    /// The handle of the larger range that this is a part of.
    pub area: u16,
}

impl SmbiosMemory {
    /// Reads the table, which takes root's rights. `None` if the firmware has none.
    ///
    /// # Errors
    /// [`Error::Read`], or what [`parse_smbios`] returns.
    pub fn read(roots: &Roots) -> Result<Option<Self>, Error> {
        let path = roots.sys("firmware/dmi/tables/DMI");
        match fs::read(&path) {
            Ok(bytes) => parse_smbios(&bytes).map(Some),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(Error::Read { path, cause }),
        }
    }
}

/// Reads a table of SMBIOS as the kernel shows it, without its entry point.
///
/// # Errors
/// [`Error::FirmwareTable`].
pub fn parse_smbios(bytes: &[u8]) -> Result<SmbiosMemory, Error> {
    let structures = structures(Table { name: NAME, bytes })?;
    let of = |kind: u8| structures.iter().filter(move |structure| structure.kind == kind);
    let mut other_arrays = BTreeSet::new();
    for array in of(ARRAY) {
        if matches!(array.fields.u8(5)?, 4..=7) {
            other_arrays.insert(array.handle);
        }
    }
    let (mut devices, mut absent, mut handles) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for structure in of(DEVICE) {
        if !handles.insert(structure.handle) {
            return Err(structure.fields.wrong("two memory devices have one handle"));
        }
        match structure.device()? {
            Some(device) if !other_arrays.contains(&structure.fields.u16(4)?) => devices.push(device),
            _ => {
                absent.insert(structure.handle);
            }
        }
    }
    let mut ranges = Vec::new();
    for structure in of(MAPPED) {
        let device = structure.fields.u16(12)?;
        if devices.iter().any(|known: &SmbiosDevice| known.handle == device) {
            ranges.push(structure.range(device)?);
        } else if !absent.contains(&device) {
            return Err(structure.fields.wrong("a range of addresses is on no memory device"));
        }
    }
    Ok(SmbiosMemory { devices, ranges })
}

/// A structure of the table.
struct Structure<'a> {
    kind: u8,
    handle: u16,
    /// Its formatted part.
    fields: Table<'a>,
    /// Its texts, with a zero between them.
    texts: &'a [u8],
}

/// Cuts the table into structures.
fn structures(table: Table<'_>) -> Result<Vec<Structure<'_>>, Error> {
    let mut offset = 0;
    let mut structures = Vec::new();
    while offset + BEGINNING <= table.bytes.len() {
        let (kind, length) = (table.u8(offset)?, usize::from(table.u8(offset + 1)?));
        if length < BEGINNING {
            return Err(table.wrong("a structure is shorter than its beginning"));
        }
        if kind == END {
            break;
        }
        let fields = table.part(offset, length)?;
        let behind = &table.bytes[offset + length..];
        let end = behind.windows(2).position(|pair| pair == [0, 0]);
        let end = end.ok_or_else(|| table.wrong("the texts of a structure have no end"))?;
        structures.push(Structure { kind, handle: table.u16(offset + 2)?, fields, texts: &behind[..end] });
        offset += length + end + 2;
    }
    Ok(structures)
}

impl Structure<'_> {
    /// The text whose number is in a field; empty if there is none. A person must be able to read it in one line.
    fn text(&self, offset: usize) -> Result<String, Error> {
        let Some(index) = usize::from(self.fields.u8(offset)?).checked_sub(1) else { return Ok(String::new()) };
        let text = self.texts.split(|&byte| byte == 0).nth(index).unwrap_or_default();
        let readable = |letter: char| if letter.is_control() { '?' } else { letter };
        Ok(String::from_utf8_lossy(text).trim().chars().map(readable).collect())
    }

    /// The device of a structure of type 17, if it is there.
    fn device(&self) -> Result<Option<SmbiosDevice>, Error> {
        let size = match self.fields.u16(12)? {
            0 => return Ok(None),
            0xffff => None,
            // Bit 31 is reserved.
            0x7fff if self.fields.bytes.len() >= 32 => Some(u64::from(self.fields.u32(28)? & 0x7fff_ffff) << 20),
            kib @ 0x8000.. => Some(u64::from(kib & 0x7fff) << 10),
            mib => Some(u64::from(mib) << 20),
        };
        let (locator, bank) = (self.text(16)?, self.text(17)?);
        Ok(Some(SmbiosDevice { handle: self.handle, locator, bank, size: size.map(Bytes::new) }))
    }

    /// The range of a structure of type 20.
    fn range(&self, device: u16) -> Result<SmbiosRange, Error> {
        let table = self.fields;
        let (first, end) = match table.u32(4)? {
            u32::MAX => (table.u64(19)?, table.u64(27)?.checked_add(1)),
            kib => (u64::from(kib) << 10, Some((u64::from(table.u32(8)?) + 1) << 10)),
        };
        let length = end.and_then(|end| end.checked_sub(first)).unwrap_or(0);
        let frames = table.frames(first, length, FRAME_BYTES)?;
        Ok(SmbiosRange { device, frames, is_interleaved: table.u8(17)? != 0, area: table.u16(14)? })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::tests::refusal;
    use super::*;
    use proptest::prelude::*;

    const GIB: u64 = 1 << 30;

    /// The end of a table.
    const LAST: [u8; 6] = [127, 4, 0xff, 0xfe, 0, 0];

    /// Two DIMMs of 4 GiB and an empty socket in the main memory's array, and a flash chip in one of its own. A1 is at
    /// 0 to 2 GiB in turns with B1, and alone at 4 to 6 GiB, as its extended addresses say; byte by byte.
    #[rustfmt::skip]
    pub fn two_dimms() -> Vec<u8> {
        let mut bytes = vec![
            // The vendor, which is not read.
            0, 5, 0, 0,  1,  b'V', 0, 0,
            // Arrays: system memory, flash.
            16, 15, 0x00, 0x10,  3, 3, 6,  0, 0, 0, 0x80,  0xfe, 0xff,  3, 0,  0, 0,
            16, 15, 0x01, 0x10,  3, 5, 3,  0, 0, 0, 0x80,  0xfe, 0xff,  1, 0,  0, 0,
            // A1, of version 2.8, with its size in the extended field.
            17, 40, 0x00, 0x11,  0x00, 0x10,  0xfe, 0xff,  72, 0,  64, 0,  0xff, 0x7f,  9,  0,  1,  2,
            26,  0x80, 0,  0, 0,  0, 0, 0, 0,  0,  0x00, 0x10, 0, 0,  0, 0,  0, 0,  0, 0,  0, 0,
            b'D', b'I', b'M', b'M', b'_', b'A', b'1', 0,  b'P', b'0', 0, 0,
            // B1, of version 2.1.
            17, 21, 0x01, 0x11,  0x00, 0x10,  0xfe, 0xff,  72, 0,  64, 0,  0x00, 0x10,  9,  0,  1,  0,  26,  0x80, 0,
            b'D', b'I', b'M', b'M', b'_', b'B', b'1', 0, 0,
            // An empty socket, and the flash chip of 8192 KiB.
            17, 21, 0x02, 0x11,  0x00, 0x10,  0xfe, 0xff,  0, 0,  0, 0,  0, 0,  9,  0,  1,  0,  2,  4, 0,
            b'C', b'1', 0, 0,
            17, 21, 0x03, 0x11,  0x01, 0x10,  0xfe, 0xff,  8, 0,  8, 0,  0x00, 0xa0,  5,  0,  1,  0,  9,  4, 0,
            b'B', b'I', b'O', b'S', 0, 0,
            // The addresses of A1, twice, of B1, and of the empty socket, as many firmwares have them.
            20, 19, 0x00, 0x14,  0, 0, 0, 0,  0xff, 0xff, 0x1f, 0,  0x00, 0x11,  0x00, 0x13,  1,  1,  2,  0, 0,
            20, 35, 0x01, 0x14,  0xff, 0xff, 0xff, 0xff,  0xff, 0xff, 0xff, 0xff,  0x00, 0x11,  0x01, 0x13,  1,  0,  0,
            0, 0, 0, 0, 1, 0, 0, 0,  0xff, 0xff, 0xff, 0x7f, 1, 0, 0, 0,  0, 0,
            20, 19, 0x02, 0x14,  0, 0, 0, 0,  0xff, 0xff, 0x1f, 0,  0x01, 0x11,  0x00, 0x13,  1,  2,  2,  0, 0,
            20, 19, 0x03, 0x14,  0, 0, 0, 0,  0, 0, 0, 0,  0x02, 0x11,  0x00, 0x13,  1,  0,  1,  0, 0,
        ];
        bytes.extend(LAST);
        bytes
    }

    /// A memory device of so many MiB.
    fn device(handle: u16, mib: u16, texts: &[u8]) -> Vec<u8> {
        let mut bytes = vec![17, 21, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 2, 0, 0, 0];
        bytes[2..4].copy_from_slice(&handle.to_le_bytes());
        bytes[12..14].copy_from_slice(&mib.to_le_bytes());
        [&bytes, texts, &[0, 0]].concat()
    }

    /// A range of KiB of it.
    fn mapped(handle: u16, first: u32, last: u32) -> Vec<u8> {
        let mut bytes = vec![20, 19, 0, 0x14];
        bytes.extend(first.to_le_bytes());
        bytes.extend(last.to_le_bytes());
        bytes.extend(handle.to_le_bytes());
        bytes.extend([0; 7]);
        bytes
    }

    fn parse(structures: &[Vec<u8>]) -> Result<SmbiosMemory, Error> {
        parse_smbios(&structures.concat())
    }

    #[test]
    fn devices_and_their_addresses_are_read_byte_by_byte_among_other_structures() {
        let memory = parse_smbios(&two_dimms()).unwrap();
        let device = |handle, locator: &str, bank: &str| {
            let size = Some(Bytes::new(4 * GIB));
            SmbiosDevice { handle, locator: locator.to_owned(), bank: bank.to_owned(), size }
        };
        assert_eq!(memory.devices, [device(0x1100, "DIMM_A1", "P0"), device(0x1101, "DIMM_B1", "")]);
        let plain = |range: &SmbiosRange| {
            let (start, bytes) = (range.frames.start().address(), range.frames.bytes().get());
            (range.device, start, bytes, range.is_interleaved, range.area)
        };
        let ranges: Vec<_> = memory.ranges.iter().map(plain).collect();
        let (a1, b1) = (0x1100, 0x1101);
        assert_eq!(
            ranges,
            [(a1, 0, 2 * GIB, true, 0x1300), (a1, 4 * GIB, 2 * GIB, false, 0x1301), (b1, 0, 2 * GIB, true, 0x1300)]
        );
        assert_eq!(parse(&[]).unwrap(), SmbiosMemory::default());
    }

    #[test]
    fn a_size_is_in_mib_or_kib_or_unknown() {
        let size = |mib| parse(&[device(1, mib, b"A")]).unwrap().devices.first().map(|device| device.size);
        assert_eq!(size(0), None, "an empty socket");
        assert_eq!(size(0xffff), Some(None));
        assert_eq!(size(512), Some(Some(Bytes::from_mib(512))));
        assert_eq!(size(0x8040), Some(Some(Bytes::new(64 << 10))));
        assert_eq!(size(0x7fff), Some(Some(Bytes::from_mib(0x7fff))), "before version 2.7 it is a size");
    }

    #[test]
    fn names_are_one_line_whatever_the_firmware_writes() {
        let names = |texts: &[u8]| {
            let device = parse(&[device(1, 1, texts)]).unwrap().devices.remove(0);
            (device.locator, device.bank)
        };
        let named = |locator: &str, bank: &str| (locator.to_owned(), bank.to_owned());
        assert_eq!(names(b"  DIMM 0 \0CHANNEL\nA"), named("DIMM 0", "CHANNEL?A"));
        assert_eq!(names(b"A1"), named("A1", ""));
        assert_eq!(names(b""), named("", ""));
        assert_eq!(names(b"\xff\0B"), named("\u{fffd}", "B"));
    }

    #[test]
    fn a_table_ends_at_its_last_structure_or_where_no_other_fits() {
        let a1 = device(1, 1, b"A1");
        for behind in [&LAST[..], &[127, 4, 0, 0, 0, 0, 17, 0, 1], &[127, 4, 0, 0], &[], &[0, 0, 0]] {
            assert_eq!(parse(&[a1.clone(), behind.to_vec()]).unwrap().devices.len(), 1, "{behind:?}");
        }
    }

    #[test]
    fn what_is_cut_off_or_says_nothing_is_refused() {
        let a1 = device(1, 1, b"A1");
        let refused = |structures: &[Vec<u8>]| refusal(parse(structures));
        assert_eq!(refused(&[vec![17, 3, 0, 0, 0, 0]]), "a structure is shorter than its beginning");
        assert_eq!(refused(&[vec![17, 21, 0, 0, 0, 0]]), "it ends within a structure");
        assert_eq!(refused(&[vec![17, 5, 0, 0, 0, 0, 0]]), "it ends within a structure");
        assert_eq!(refused(&[vec![16, 5, 0, 0, 0, 0, 0]]), "it ends within a structure");
        assert_eq!(refused(&[a1[..a1.len() - 1].to_vec()]), "the texts of a structure have no end");
        assert_eq!(refused(&[a1.clone(), a1.clone()]), "two memory devices have one handle");
        assert_eq!(refused(&[a1.clone(), mapped(2, 0, 3)]), "a range of addresses is on no memory device");
        let wrong = "a range of addresses is empty, too large or not aligned";
        for (first, last) in [(0, 0), (0, 4), (1, 4), (8, 7), (8, 3)] {
            assert_eq!(refused(&[a1.clone(), mapped(1, first, last)]), wrong, "{first} {last}");
        }
        let mut extended = mapped(1, u32::MAX, u32::MAX);
        assert_eq!(refused(&[a1.clone(), extended.clone()]), "it ends within a structure");
        extended[1] = 35;
        extended.truncate(19);
        extended.extend([0; 8].into_iter().chain([0xff; 8]).chain([0; 2]));
        assert_eq!(refused(&[a1.clone(), extended]), wrong);
        assert!(parse(&[mapped(1, 0, 3), a1]).is_ok(), "a range may come before its device");
    }

    #[test]
    fn a_firmware_without_a_table_is_no_error_and_a_damaged_one_is() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::new(folder.path(), folder.path());
        assert_eq!(SmbiosMemory::read(&roots).unwrap(), None);
        let path = roots.sys("firmware/dmi/tables/DMI");
        fs::create_dir_all(&path).unwrap();
        assert!(matches!(SmbiosMemory::read(&roots), Err(Error::Read { .. })));
        fs::remove_dir(&path).unwrap();
        fs::write(&path, two_dimms()).unwrap();
        assert_eq!(SmbiosMemory::read(&roots).unwrap().unwrap().devices.len(), 2);
        fs::write(&path, &two_dimms()[..100]).unwrap();
        let error = SmbiosMemory::read(&roots).unwrap_err().to_string();
        assert_eq!(error, "the firmware's table DMI is left out: it ends within a structure");
    }

    proptest! {
        #[test]
        fn no_table_is_too_strange(body: Vec<u8>) {
            let _ = parse_smbios(&body);
        }

        /// A damaged byte never makes a range of a device that is not listed, nor a name of several lines.
        #[test]
        fn a_damaged_table_gives_devices_and_their_ranges_or_an_error(place in 0_usize..300, byte: u8) {
            let mut bytes = two_dimms();
            let place = place % bytes.len();
            bytes[place] = byte;
            if let Ok(memory) = parse_smbios(&bytes) {
                let known = |range: &SmbiosRange| memory.devices.iter().any(|device| device.handle == range.device);
                prop_assert!(memory.ranges.iter().all(known));
                let names = memory.devices.iter().flat_map(|device| [&device.locator, &device.bank]);
                prop_assert!(names.into_iter().all(|name| !name.contains(char::is_control)));
            }
        }

        /// What is written as structures is read as it was meant.
        #[test]
        fn devices_and_ranges_come_back(
            devices in proptest::collection::vec(("[A-Z0-9]{0,9}", 1_u16..0x7fff), 0..9),
            ranges in proptest::collection::vec((0_usize..9, 0_u32..9999, 1_u32..9999), 0..9),
        ) {
            let ranges: Vec<_> = ranges.into_iter().filter(|(device, ..)| *device < devices.len()).collect();
            let handle = |index: usize| u16::try_from(index).unwrap() + 100;
            let mut structures: Vec<_> =
                devices.iter().enumerate().map(|(index, (name, mib))| device(handle(index), *mib, name.as_bytes())).collect();
            structures.extend(ranges.iter().map(|(index, at, count)| mapped(handle(*index), at * 4, (at + count) * 4 - 1)));
            let memory = parse(&structures).unwrap();
            let names = memory.devices.iter().map(|device| (device.locator.clone(), device.size));
            let meant = devices.into_iter().map(|(name, mib)| (name, Some(Bytes::from_mib(mib.into()))));
            prop_assert_eq!(names.collect::<Vec<_>>(), meant.collect::<Vec<_>>());
            let read = memory.ranges.iter().map(|range| (range.device, range.frames.start().number(), range.frames.count()));
            let meant = ranges.into_iter().map(|(index, at, count)| (handle(index), u64::from(at), u64::from(count)));
            prop_assert_eq!(read.collect::<Vec<_>>(), meant.collect::<Vec<_>>());
        }
    }
}
