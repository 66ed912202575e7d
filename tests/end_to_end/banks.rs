//! `rampart banks` on this machine.

use crate::harness::Rampart;

fn bytes(value: &serde_json::Value) -> u64 {
    value.as_u64().expect("a number of bytes")
}

#[test]
fn the_blocks_of_this_machine_are_shown_and_make_up_its_memory() {
    let rampart = Rampart::new();
    let page = rampart.folder().join("blocks.html");
    let shown = rampart.run(&["banks", "--html", page.to_str().unwrap(), "--json"]);
    if shown.code == Some(2) {
        assert!(shown.err.starts_with("rampart: no memory blocks here: "), "{shown:?}");
        assert_eq!(shown.err.lines().count(), 1, "{shown:?}");
        return;
    }
    let report = shown.json();
    assert_eq!((shown.code, &report["schema"]), (Some(0), &"rampart.banks/1".into()), "{shown:?}");
    let (size, blocks) = (bytes(&report["block"]), report["blocks"].as_array().unwrap());
    assert_eq!(bytes(&report["totals"]["online"]) + bytes(&report["totals"]["offline"]), size * blocks.len() as u64);
    let online = blocks.iter().filter(|block| block["state"] == "online");
    for block in online.clone().filter(|_| report["uses_known"] == true) {
        let uses = ["free", "movable", "unmovable", "retired", "hole"].map(|use_| bytes(&block[use_]));
        assert_eq!(uses.iter().sum::<u64>(), size, "{block}");
        let can_go = block["obstacle"].is_null();
        assert!(!can_go || uses[2] == 0 && uses[4] == 0, "{block}");
    }
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap();
    let kib: u64 = meminfo.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(online.count() as u64 * size >= kib << 10, "MemTotal leaves out what was reserved at boot");
    let page = std::fs::read_to_string(page).unwrap();
    assert_eq!(page.matches("<title>block").count(), blocks.len());
}

#[test]
fn a_bank_that_is_no_power_of_two_is_refused() {
    let rampart = Rampart::new();
    for size in ["0", "300MiB", "1KiB", "lots"] {
        let refused = rampart.run(&["banks", "--bank", size]);
        assert_eq!((refused.code, refused.err.lines().count()), (Some(2), 1), "{refused:?}");
    }
}
