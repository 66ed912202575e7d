//! The map: add, show, export, restore, forget.

use serde_json::Value;

use crate::harness::Rampart;

fn frames(rampart: &Rampart) -> Vec<u64> {
    let map = rampart.json(&["map", "show", "--json"]);
    map["frames"].as_array().unwrap().iter().map(|frame| frame["frame"].as_u64().unwrap()).collect()
}

#[test]
fn a_frame_stays_on_the_map_until_it_is_forgotten() {
    let rampart = Rampart::new();
    assert_eq!(frames(&rampart), [] as [u64; 0]);
    for frame in ["0x100000", "0x100001", "0x180000"] {
        assert_eq!(rampart.run(&["map", "add", frame]).code, Some(0));
        assert!(rampart.run(&["map", "show"]).out.contains("put on the map by hand"));
    }
    assert_eq!(frames(&rampart), [0x10_0000, 0x10_0001, 0x18_0000]);
    assert_eq!(rampart.run(&["map", "forget", "0x180000"]).code, Some(0));
    assert_eq!(frames(&rampart), [0x10_0000, 0x10_0001]);
    assert_eq!(rampart.run(&["map", "show"]).code, Some(1), "bad frames are what it looks for");
}

#[test]
fn neighbours_are_exported_as_one_item_with_the_right_mask() {
    let rampart = Rampart::new();
    for frame in ["0x100000", "0x100001"] {
        rampart.run(&["map", "add", frame]);
    }
    let memmap = rampart.run(&["map", "export", "--format", "memmap"]);
    assert!(memmap.out.contains("memmap=8K$0x100000000"), "{memmap:?}");
    let badram = rampart.run(&["map", "export", "--format", "badram"]);
    assert!(badram.out.contains("GRUB_BADRAM=\"0x100000000,0xffffffffffffe000\""), "{badram:?}");
    let json: Value = rampart.run(&["map", "export", "--format", "json"]).json();
    assert!(json.to_string().contains("1048576"), "{json}");
}

#[test]
fn a_map_that_is_no_database_is_set_aside_and_said_so() {
    let rampart = Rampart::new();
    std::fs::write(rampart.store(), b"this was a map once").unwrap();
    let said = rampart.run(&["map", "show"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.err.contains("set aside"), "{said:?}");
    let aside: Vec<_> = std::fs::read_dir(rampart.folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().contains("corrupt"))
        .collect();
    assert_eq!(aside.len(), 1);
    assert_eq!(std::fs::read(&aside[0]).unwrap(), b"this was a map once");
}
