use super::*;
use rampart_linux::{Roots, SmbiosDevice, SmbiosRange};
use std::fs;

/// Frames of a GiB.
const GIB: u64 = 1 << 18;

fn range(first: u64, count: u64) -> FrameRange {
    FrameRange::new(Frame::new(first).unwrap(), count).unwrap()
}

fn device(handle: u16, bank: &str, locator: &str, mib: u64) -> SmbiosDevice {
    let size = Some(Bytes::from_mib(mib));
    SmbiosDevice { handle, locator: locator.to_owned(), bank: bank.to_owned(), size }
}

fn mapped(device: u16, frames: FrameRange, is_interleaved: bool) -> SmbiosRange {
    SmbiosRange { device, frames, is_interleaved, area: 7 }
}

/// A machine of 6 GiB with a hole below 4 GiB, and two DIMMs of 4 and 2 GiB.
fn two_dimms(ranges: &[SmbiosRange]) -> DimmFacts {
    let devices = vec![device(1, "P0 A", "A1", 4096), device(2, "P0 B", "B1", 2048)];
    DimmFacts {
        smbios: Ok(Some(SmbiosMemory { devices, ranges: ranges.to_vec() })),
        edac: Vec::new(),
        total: Bytes::from_mib(6000),
        online: [range(0, 3 * GIB), range(4 * GIB, 3 * GIB)]
            .into_iter()
            .flat_map(|range| range.cut_at_multiples(GIB / 8))
            .collect(),
    }
}

fn edac(dimms: &[(&str, u64)]) -> Vec<EdacDimm> {
    let dimm = |(label, mib): &(&str, u64)| EdacDimm { label: (*label).to_owned(), size: Some(Bytes::from_mib(*mib)) };
    dimms.iter().map(dimm).collect()
}

fn refused(facts: &DimmFacts, name: &str) -> String {
    let refusal = facts.find(name).unwrap_err().to_string();
    assert_eq!(refusal.lines().count(), 1, "{refusal}");
    refusal
}

#[test]
fn the_firmware_s_addresses_are_taken_where_they_cover_what_is_online() {
    let facts = two_dimms(&[
        mapped(1, range(0, 3 * GIB), false),
        mapped(1, range(4 * GIB, GIB), false),
        mapped(2, range(5 * GIB, 2 * GIB), false),
    ]);
    let a1 = facts.find("a1").unwrap();
    assert_eq!(a1.to_string(), "A1, as the firmware says (SMBIOS type 20)");
    assert_eq!((a1.map, a1.percent), (DimmMap::Smbios, 100));
    assert_eq!(a1.ranges, [range(0, 3 * GIB), range(4 * GIB, GIB)]);
    assert_eq!(facts.find("P0 B/B1").unwrap().ranges, [range(5 * GIB, 2 * GIB)]);
    assert_eq!(refused(&facts, "C1"), "there is no DIMM \"C1\" here: name one of A1, B1");
}

#[test]
fn of_interleaved_memory_the_share_and_the_partner_are_said() {
    let facts = two_dimms(&[mapped(1, range(0, 8 * GIB), true), mapped(2, range(0, 8 * GIB), true)]);
    let b1 = facts.find("B1").unwrap();
    assert_eq!((b1.ranges.as_slice(), b1.percent), (&[range(0, 8 * GIB)][..], 50));
    let says = "B1, as the firmware says (SMBIOS type 20): about 50 % of this memory is on it, the rest on A1";
    assert_eq!(b1.to_string(), says);
    let json = serde_json::to_value(&b1).unwrap();
    assert_eq!(
        json,
        serde_json::json!({"name": "B1", "map": "smbios", "percent": 50, "shared_with": ["A1"]}),
        "the ranges are in the report already"
    );
    // One behind the other, and yet in turns.
    let facts = two_dimms(&[mapped(1, range(0, 5 * GIB), true), mapped(2, range(5 * GIB, 3 * GIB), true)]);
    let a1 = facts.find("A1").unwrap();
    assert_eq!((a1.ranges.len(), a1.percent, a1.shared_with), (2, 63, vec!["B1".to_owned()]));
}

#[test]
fn addresses_that_leave_out_memory_or_the_dimm_are_not_believed() {
    let forgets_the_hole = two_dimms(&[mapped(1, range(0, 4 * GIB), false), mapped(2, range(4 * GIB, 2 * GIB), false)]);
    assert_eq!(
        refused(&forgets_the_hole, "A1"),
        "the frames of DIMM \"A1\" are unknown: frame 0x180000 is in memory that is online and on no DIMM by the \
         firmware's table (SMBIOS type 20), which is wrong then; list them in a file and name it by --dimm-map"
    );
    let without_b1 = two_dimms(&[mapped(1, range(0, 8 * GIB), false)]);
    assert!(refused(&without_b1, "B1").contains(": the firmware's table (SMBIOS type 20) has none on it; list them"));
    assert!(without_b1.find("A1").is_ok());
    assert!(refused(&two_dimms(&[]), "A1").contains(": the firmware has no table of them (SMBIOS type 20); list them"));
}

#[test]
fn all_memory_is_on_the_only_dimm_if_it_fits_on_it() {
    let mut facts = two_dimms(&[]);
    let only = |facts: &DimmFacts, name| facts.find(name).map(|dimm| (dimm.map, dimm.ranges.len(), dimm.name));
    facts.smbios = Ok(Some(SmbiosMemory { devices: vec![device(1, "", "DIMM 0", 8192)], ranges: Vec::new() }));
    let found = (DimmMap::OnlyDimm, 0, "DIMM 0".to_owned());
    assert_eq!(only(&facts, "dimm 0").unwrap(), found);
    assert_eq!(facts.find("DIMM 0").unwrap().to_string(), "DIMM 0, the only one of this machine");
    facts.edac = edac(&[("mc#0", 8192)]);
    assert_eq!(only(&facts, "MC#0").unwrap(), found, "EDAC's name of it");
    facts.edac = edac(&[("mc#0", 4096), ("mc#1", 4096)]);
    assert!(refused(&facts, "DIMM 0").contains("no table"), "EDAC sees two");
    facts.edac.clear();
    facts.total = Bytes::from_mib(8193);
    assert!(refused(&facts, "DIMM 0").contains("no table"), "there is more memory than it can hold");
}

#[test]
fn without_the_firmware_edac_names_the_dimms() {
    let mut facts = two_dimms(&[]);
    facts.smbios = Ok(None);
    assert_eq!(
        refused(&facts, "A1"),
        "the frames of DIMM \"A1\" are unknown: the firmware has no table SMBIOS, and no EDAC driver names a DIMM; list \
         them in a file and name it by --dimm-map"
    );
    facts.edac = edac(&[("A1", 4096), ("B1", 4096)]);
    assert!(refused(&facts, "a1").contains("has no table SMBIOS, and EDAC has its name only; list them"));
    assert_eq!(refused(&facts, "C1"), "there is no DIMM \"C1\" here: name one of A1, B1");
    facts.edac = edac(&[("A1", 8192)]);
    assert_eq!(facts.find("a1").unwrap(), DimmChoice::only("A1"));
    facts.edac = edac(&[("A1", 4096)]);
    assert!(facts.find("A1").is_err(), "there is more memory than it can hold");
    facts.smbios = Err(LinuxError::FirmwareTable { name: "DMI", what: "it ends within a structure" });
    assert!(
        refused(&facts, "A1").contains("the firmware's table DMI is left out: it ends within a structure, and EDAC")
    );
    let cause = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
    facts.smbios = Err(LinuxError::Read { path: "/sys/DMI".into(), cause });
    assert!(refused(&facts, "A1").contains("cannot read /sys/DMI: permission denied, and EDAC"));
    facts.smbios = Ok(Some(SmbiosMemory::default()));
    assert!(refused(&facts, "A1").contains("has no memory, and EDAC"));
}

#[test]
fn names_that_only_edac_has_are_answered_with_those_of_the_firmware() {
    let mut facts = two_dimms(&[mapped(1, range(0, 8 * GIB), true), mapped(2, range(0, 8 * GIB), true)]);
    facts.edac = edac(&[("CPU#0Channel#0_DIMM#0", 4096), ("P0 B B1", 2048)]);
    let says = "EDAC has its name only; the firmware's names are A1, B1; list them";
    assert!(refused(&facts, "cpu#0channel#0_dimm#0").contains(says));
    assert_eq!(facts.find("P0 B B1").unwrap().name, "B1", "both have this name");
}

#[test]
fn a_list_of_the_user_needs_no_machine() {
    let list = [("A1", range(0, 8)), ("B1", range(4, 8)), ("A1", range(64, 8))];
    let list = list.map(|(name, range)| (name.to_owned(), range));
    let a1 = DimmChoice::of_list("a1", &list).unwrap();
    assert_eq!((a1.map, a1.ranges.as_slice(), a1.percent), (DimmMap::File, &[range(0, 8), range(64, 8)][..], 75));
    let says = "A1, as the file of --dimm-map says: about 75 % of this memory is on it, the rest on B1";
    assert_eq!(a1.to_string(), says);
    let unknown = DimmChoice::of_list("C1", &list).unwrap_err().to_string();
    assert_eq!(unknown, "there is no DIMM \"C1\" here: name one of A1, B1");
}

/// On a whole machine, with the files of the kernel.
#[test]
fn the_files_of_the_kernel_say_where_a_dimm_is() {
    let folder = tempfile::tempdir().unwrap();
    let roots = Roots::new(folder.path(), folder.path());
    let write = |name: &str, content: &[u8]| {
        let path = roots.sys(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    };
    write("meminfo", b"MemTotal: 200000 kB\nMemFree: 8 kB\n");
    write("devices/system/memory/block_size_bytes", b"8000000\n");
    write("devices/system/memory/memory0/state", b"online\n");
    write("devices/system/memory/memory1/state", b"online\n");
    let find = |name| DimmChoice::of_machine(name, &MachineUnderTest::below(roots.clone()));
    assert!(find("A1").unwrap_err().to_string().contains("the firmware has no table SMBIOS"));
    write("devices/system/edac/mc/mc0/dimm0/dimm_label", b"A1\n");
    write("devices/system/edac/mc/mc0/dimm0/size", b"256\n");
    assert_eq!(find("A1").unwrap(), DimmChoice::only("A1"));
    // Two DIMMs of 128 MiB, one behind the other.
    let mut table = Vec::new();
    for (handle, name) in [(1, b'X'), (2, b'Y')] {
        table.extend([17, 21, handle, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 128, 0, 9, 0, 1, 0, 0, 0, 0, name, 0, 0]);
    }
    for (handle, first, last) in [(1, 0, 1), (2, 2, 3)] {
        table.extend([20, 19, 9, handle, 0, 0, first, 0, 0xff, 0xff, last, 0, handle, 0, 7, 0, 1, 0, 0, 0, 0]);
    }
    write("firmware/dmi/tables/DMI", &table);
    let (x, y) = (find("X").unwrap(), find("Y").unwrap());
    assert_eq!((x.ranges, y.ranges), (vec![range(0, 1 << 15)], vec![range(1 << 15, 1 << 15)]));
}

#[test]
fn the_frames_of_a_block_follow_from_its_number() {
    use rampart_linux::{BlockZones, MemoryBlock};
    use rampart_memory::HotplugBlock;
    let block = |number, state| MemoryBlock {
        number: HotplugBlock(number),
        state,
        zones: BlockZones::In("Normal".to_owned()),
        node: None,
    };
    let (on, off) = (HotplugState::Online, HotplugState::Offline);
    let blocks = vec![block(0, on), block(2, off), block(5, on)];
    let blocks = MemoryBlocks { size: Bytes::from_mib(1), blocks };
    assert_eq!(online(&blocks), [range(0, 256), range(5 * 256, 256)]);
}
