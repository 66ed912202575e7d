//! The map: add, show, export, restore, forget.

use rampart_memory::fault_map::{FailedFrame, MapOrigin};
use rampart_memory::{Frame, Timestamp};
use rampart_store::Store;
use serde_json::Value;

use crate::harness::Rampart;

/// Puts frames that lie apart on the map.
fn sparse(rampart: &Rampart, count: u64) {
    let at = Timestamp::from_micros(1);
    let frames = (0..count).map(|n| Frame::new(0x10_0000 + 2 * n).unwrap());
    let failed: Vec<FailedFrame> = frames.map(|frame| FailedFrame::condemned(frame, at)).collect();
    let mut store = Store::open(&rampart.store(), at).unwrap().store;
    store.keep_failures(None, failed.iter().map(|failed| (MapOrigin::Real, failed))).unwrap();
}

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
    assert!(badram.out.contains("GRUB_BADRAM=\"0x100000000,0x7fffffffffffe000\""), "{badram:?}");
    let json: Value = rampart.run(&["map", "export", "--format", "json"]).json();
    assert!(json.to_string().contains("1048576"), "{json}");
}

#[test]
fn a_map_that_is_no_database_is_set_aside_and_said_so() {
    let rampart = Rampart::new();
    std::fs::write(rampart.store(), b"this was a map once").unwrap();
    let output = rampart.run(&["map", "show"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.err.contains("set aside"), "{output:?}");
    let aside: Vec<_> = std::fs::read_dir(rampart.folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().contains("corrupt"))
        .collect();
    assert_eq!(aside.len(), 1);
    assert_eq!(std::fs::read(&aside[0]).unwrap(), b"this was a map once");
}

/// A page that was never written shows the kernel's zero page, or part of the huge one.
#[test]
fn the_kernels_page_of_zeros_does_not_go_on_the_map() {
    use std::os::unix::fs::FileExt;

    let rampart = Rampart::new();
    if !rampart_skips::root("frame numbers are hidden from an ordinary user") {
        return;
    }
    let memory = vec![0_u8; 64 << 20];
    let place = &raw const memory[33 << 20];
    assert_eq!(std::hint::black_box(memory[33 << 20]), 0);
    let mut entry = [0; 8];
    let pagemap = std::fs::File::open("/proc/self/pagemap").expect("/proc is mounted");
    pagemap.read_exact_at(&mut entry, place.addr() as u64 / 4096 * 8).expect("the page has an entry");
    let frame = u64::from_ne_bytes(entry) & ((1 << 55) - 1);
    let output = rampart.run(&["map", "add", &frame.to_string()]);
    assert_eq!((output.code, output.out.as_str(), output.err.lines().count()), (Some(2), "", 1), "{}", output.err);
    assert!(output.err.contains("page of zeros"), "{}", output.err);
    assert_eq!(rampart.json(&["map", "show", "--json"])["frames"].as_array().map(Vec::len), Some(0));
}

#[test]
fn a_list_that_the_next_boot_cannot_hold_is_refused_with_the_count_and_what_to_do() {
    let rampart = Rampart::new();
    sparse(&rampart, 200);
    for (format, what_to_do) in [("badram", "--format memmap"), ("memmap", "rampart map restore")] {
        let refused = rampart.run(&["map", "export", "--format", format]);
        assert_eq!((refused.code, refused.out.as_str()), (Some(2), ""), "{refused:?}");
        assert_eq!(refused.err.lines().count(), 1, "{refused:?}");
        assert!(refused.err.contains("200 ranges") && refused.err.contains(what_to_do), "{refused:?}");
    }
    assert_eq!(rampart.run(&["map", "export", "--format", "memmap", "--ranges", "3"]).code, Some(0));
    let ignored = rampart.run(&["map", "export", "--format", "badram", "--ranges", "3"]);
    assert_eq!((ignored.code, ignored.out.as_str()), (Some(2), ""), "a list is not made coarser, nor the wish ignored");
    let frames = rampart.json(&["map", "export", "--format", "json"])["frames"].as_array().unwrap().len();
    assert_eq!(frames, 200, "programs take any list");
}

#[test]
fn the_map_says_what_is_so_now() {
    let rampart = Rampart::new();
    // No machine has memory at this address.
    rampart.run(&["map", "add", "0xffffffff00"]);
    let shown = rampart.json(&["map", "show", "--json"]);
    let now = shown["frames"][0]["now"].as_str().unwrap().to_owned();
    let status = rampart.json(&["status", "--json"]);
    assert_eq!(status["bad_frames_now"], serde_json::json!({ now.clone(): 1 }));
    // Without privilege, neither is shown.
    let output = rampart.run(&["map", "restore"]);
    if now == "unknown" {
        assert_eq!(output.code, Some(2), "{output:?}");
    } else {
        assert_eq!(now, "beyond-memory");
        assert!(output.out.contains("out of use: beyond this machine's memory"), "{output:?}");
        assert_eq!(output.last_line(), "1 of 1 bad frames are out of use");
        assert_eq!(output.code, Some(0), "{output:?}");
    }
}
