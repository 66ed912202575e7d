//! `rampart banks` on this machine.

use std::fs;

use rampart_skips::{Feature, granted};

use crate::harness::Rampart;

fn bytes(value: &serde_json::Value) -> u64 {
    value.as_u64().expect("a number of bytes")
}

#[test]
fn the_blocks_of_this_machine_are_shown_and_make_up_its_memory() {
    let rampart = Rampart::new();
    let page = rampart.folder().join("blocks.html");
    let shown = rampart.run(&["banks", "--html", page.to_str().unwrap(), "--json"]);
    let blocks = if shown.code == Some(2) { Err(&shown.err) } else { Ok(()) };
    if granted(&[Feature::MemoryBlocks], blocks).is_none() {
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
        assert_eq!(bytes(&block["used"]), uses[1] + uses[2], "{block}");
        let can_go = block["obstacle"].is_null();
        assert!(!can_go || uses[2] == 0 && uses[4] == 0, "{block}");
    }
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap();
    let kib: u64 = meminfo.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(online.count() as u64 * size >= kib << 10, "MemTotal leaves out what was reserved at boot");
    let page = fs::read_to_string(page).unwrap();
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

/// The state and zones of each block, as the kernel says.
fn states() -> Vec<(std::path::PathBuf, String)> {
    let Ok(folder) = fs::read_dir("/sys/devices/system/memory") else { return Vec::new() };
    let files = folder.flatten().flat_map(|block| ["state", "valid_zones"].map(|name| block.path().join(name)));
    let mut states: Vec<_> = files.filter_map(|file| fs::read_to_string(&file).ok().map(|text| (file, text))).collect();
    states.sort();
    states
}

#[test]
fn a_dry_run_names_the_blocks_that_would_go_and_changes_nothing() {
    let rampart = Rampart::new();
    let before = states();
    let planned = rampart.run(&[
        "banks",
        "consolidate",
        "--target",
        "1B",
        "--reserve",
        "0%",
        "--pressure-limit",
        "100%",
        "--json",
    ]);
    assert_eq!(states(), before);
    let begun = if planned.out.is_empty() { Err(&planned.err) } else { Ok(()) };
    if granted(&[Feature::MemoryBlocks, Feature::Root, Feature::FrameFlags], begun).is_none() {
        assert_eq!((planned.code, planned.err.lines().count()), (Some(2), 1), "{planned:?}");
        return;
    }
    let report = planned.json();
    assert_eq!((&report["schema"], &report["applied"]), (&"rampart.consolidation/1".into(), &false.into()));
    assert!(report["banks"]["source"].is_string(), "{report}");
    let pressure = &report["pressure"];
    assert_eq!(pressure["limit_percent"], 100, "{report}");
    assert_ne!(pressure["most_percent"].is_null(), pressure["unknown_because"].is_null(), "{report}");
    let (attempts, ended) = (report["attempts"].as_array().unwrap(), report["ended"].as_str().unwrap());
    let offline = bytes(&report["offline_after"]) - bytes(&report["offline_before"]);
    match planned.code {
        Some(0) => assert!(ended == "target_reached" && bytes(&report["offline_after"]) > 0, "{report}"),
        _ => assert!(ended == "no_candidate" || ended == "reserve", "{report}"),
    }
    assert_eq!(attempts.is_empty(), offline == 0, "{report}");
    let planned = |attempt: &serde_json::Value| attempt["refusal"].is_null() && attempt["seconds"].is_null();
    assert!(attempts.iter().all(planned), "{report}");
    let text = rampart.run(&["banks", "consolidate", "--target", "0%"]);
    assert!(text.code == Some(0) && text.out.contains("dry run     nothing was changed"), "{text:?}");
}

#[test]
fn what_a_consolidation_cannot_use_is_refused_before_anything_happens() {
    let rampart = Rampart::new();
    for wrong in [
        &["--target", "130%"][..],
        &["--target", "half"],
        &["--target", "30%", "--apply", "--dry-run"],
        &["--target", "30%", "--reserve", "2GiB"],
        &["--target", "30%", "--deadline", "soon"],
        &["--target", "30%", "--pressure-limit", "101%"],
        &["--target", "30%", "--pressure-limit", "0.5"],
        &["--apply"],
    ] {
        let refused = rampart.run(&[&["banks", "consolidate"], wrong].concat());
        assert_eq!((refused.code, refused.err.lines().count()), (Some(2), 1), "{refused:?}");
    }
}

#[test]
fn a_dry_run_shows_the_pools_and_changes_nothing() {
    let rampart = Rampart::new();
    let before = states();
    let planned = rampart.run(&["banks", "pools", "--json"]);
    assert_eq!(states(), before);
    let begun = if planned.out.is_empty() { Err(&planned.err) } else { Ok(()) };
    if granted(&[Feature::MemoryBlocks, Feature::Root, Feature::FrameFlags], begun).is_none() {
        assert_eq!((planned.code, planned.err.lines().count()), (Some(2), 1), "{planned:?}");
        return;
    }
    let events: Vec<serde_json::Value> =
        planned.out.lines().map(|line| serde_json::from_str(line).expect("one object a line")).collect();
    let (rest, before_rest) = events.split_last().expect("the sizes come last");
    let (first, others) = before_rest.split_first().expect("the banks come first");
    assert!(first["event"] == "banks" && first["banks"]["source"].is_string(), "{planned:?}");
    let (notes, moves): (Vec<_>, Vec<_>) = others.iter().partition(|event| event["event"] == "overcommit");
    let overcommit = fs::read_to_string("/proc/sys/vm/overcommit_memory").unwrap();
    assert_eq!(notes.len(), usize::from(overcommit.trim() != "1"), "{planned:?}");
    assert!(events.iter().all(|event| event["schema"] == "rampart.pools/1"), "{planned:?}");
    assert!(moves.iter().all(|event| event["event"] == "block" && event["refusal"].is_null()), "{planned:?}");
    assert_eq!(rest["event"], "rest");
    let blocks = rampart.run(&["banks", "--json"]).json();
    let sizes: u64 = ["kernel", "user", "offline"].map(|pool| bytes(&rest[pool])).iter().sum();
    assert_eq!(sizes, bytes(&blocks["block"]) * blocks["blocks"].as_array().unwrap().len() as u64);
}

/// A trace of so many blocks of order 9, alternately of a program and of the kernel.
fn trace(blocks: u64) -> Vec<u8> {
    let event = |block: u64| {
        let (order, migratetype) = (9_u64, block % 2);
        let words = [block | order << 40 | migratetype << 44 | 1 << 47, block * 512];
        words.into_iter().flat_map(u64::to_le_bytes).collect::<Vec<_>>()
    };
    (0..blocks).flat_map(event).collect()
}

#[test]
fn a_trace_is_replayed_alike_from_one_seed() {
    let rampart = Rampart::new();
    let path = rampart.folder().join("trace");
    fs::write(&path, trace(40)).unwrap();
    let arguments =
        ["banks", "replay", path.to_str().unwrap(), "--memory", "256MiB", "--bank", "32MiB", "--loops", "2", "--json"];
    let (first, second) = (rampart.run(&arguments), rampart.run(&arguments));
    let report = first.json();
    assert_eq!((first.code, &report["schema"]), (Some(0), &"rampart.replay/1".into()));
    assert_eq!((&report["requests"], &report["banks"]), (&80.into(), &8.into()));
    assert_eq!(first.out, second.out);
    let last = report["samples"].as_array().unwrap().last().unwrap();
    assert!(bytes(&last["removable"]) >= 4 && bytes(&last["removable"]) < 8, "{last}");
}

#[test]
fn a_made_up_load_runs_on_every_allocator() {
    let rampart = Rampart::new();
    let machine = ["--load", "medium", "--for", "5m", "--memory", "256MiB", "--bank", "8MiB", "--nodes", "2"];
    for allocator in ["buddy", "array", "list", "adaptive", "adaptive-arbitrary", "fullest"] {
        let arguments = [&["banks", "replay", "--json", "--allocator", allocator], &machine[..]].concat();
        let report = rampart.run(&arguments).json();
        assert_eq!((&report["allocator"], &report["settings"]["load"]), (&allocator.into(), &"medium".into()));
        assert_eq!((&report["micros"], report["samples"].as_array().unwrap().len()), (&300_000_000.into(), 30));
        assert_eq!(report["average"]["offline"].is_null(), allocator == "buddy", "{allocator}");
    }
    let text = rampart.run(&[&["banks", "replay", "--allocator", "fullest"], &machine[..]].concat());
    assert_eq!((text.code, text.out.lines().count()), (Some(0), 18), "{text:?}");
    assert!(text.out.contains("fullest bank first") && text.out.contains("\noffline "), "{text:?}");
    for line in ["tainted", "touched", "large", "steps", "at the end"] {
        assert!(text.out.contains(&format!("\n{line}  ")), "{line}: {text:?}");
    }
    let mut from_its_head = text.out.lines().skip_while(|line| !line.starts_with("at the end"));
    let footprint = from_its_head.nth(1).unwrap().trim();
    assert!(footprint.len() == 2 && footprint.chars().all(|sign| "#o.".contains(sign)), "{text:?}");
    let both = rampart.run(&["banks", "replay", "trace", "--load", "light"]);
    assert_eq!((both.code, both.err.lines().count()), (Some(2), 1), "{both:?}");
}

#[test]
fn banks_can_be_interleaved_and_the_kernel_can_have_much_memory() {
    let rampart = Rampart::new();
    let machine = ["banks", "replay", "--json", "--for", "10m", "--memory", "512MiB", "--bank", "8MiB"];
    let run = |options: &[&str]| rampart.run(&[&machine, options].concat());
    let load = ["--load", "kernel-heavy", "--allocator", "adaptive", "--interleave", "2", "--patience", "0s"];
    let report = run(&load).json();
    let settings = &report["settings"];
    assert_eq!((&settings["interleave"], &settings["load"]), (&2.into(), &"kernel-heavy".into()));
    assert_eq!((&settings["for_micros"], &settings["patience_micros"]), (&600_000_000.into(), &0.into()));
    let samples = report["samples"].as_array().unwrap();
    assert!(
        samples.iter().all(|sample| ["optimum", "offline"].iter().all(|key| bytes(&sample[*key]).is_multiple_of(2)))
    );
    let last = samples.last().unwrap();
    assert_eq!((&last["order_10"]["requests"], &last["tainted_gib"]), (&10.into(), &1.into()));
    let of_use: u64 = report["by_use"].as_array().unwrap().iter().map(|uses| bytes(&uses["samples"])).sum();
    assert_eq!(of_use, 60);
    let kernel: u64 = report["footprint"]["kernel"].as_array().unwrap().iter().map(bytes).sum();
    assert!(kernel > 10 << 20, "{kernel}");
    assert_eq!(report["migration"]["moved_twice_in_a_pass"], 0);
    for wrong in [["--allocator", "list"], ["--interleave", "3"], ["--interleave", "0"], ["--patience", "soon"]] {
        let refused = run(&[&["--load", "light", "--interleave", "2"], &wrong[..]].concat());
        assert_eq!((refused.code, refused.err.lines().count()), (Some(2), 1), "{refused:?}");
    }
}

#[test]
fn traces_are_replayed_for_a_time() {
    let rampart = Rampart::new();
    let path = rampart.folder().join("trace");
    fs::write(&path, trace(40)).unwrap();
    let run = |options: &[&str]| {
        rampart.run(&[&["banks", "replay", path.to_str().unwrap(), "--memory", "256MiB", "--json"], options].concat())
    };
    // A replay of the trace takes 39 µs.
    let report = run(&["--for", "1ms"]).json();
    assert_eq!((&report["micros"], &report["settings"]["loops"]), (&(26 * 39).into(), &serde_json::Value::Null));
    let both = run(&["--for", "1ms", "--loops", "2"]);
    assert_eq!((both.code, both.err.lines().count()), (Some(2), 1), "{both:?}");
}

fn number(value: &serde_json::Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

#[test]
fn a_replay_says_which_share_of_the_energy_is_left_and_what_is_assumed() {
    let rampart = Rampart::new();
    let run = |options: &[&str]| {
        // Under this load a page moves.
        let machine = ["banks", "replay", "--load", "medium", "--for", "20m", "--memory", "512MiB", "--bank", "64MiB"];
        rampart.run(&[&machine, options].concat())
    };
    let energy = |options: &[&str]| run(&[&["--json"], options].concat()).json()["energy"].clone();
    let buddy = energy(&["--watts-per-gib", "2"]);
    assert_eq!((number(&buddy["share"]), &buddy["change_count"]), (1.0, &0.into()), "all banks stay on");
    // 1200 s, half a GiB, 63 % of 2 W per GiB.
    let all_on = 1200.0 * 0.5 * 0.63 * 2.0;
    assert!(
        (number(&buddy["joules"]["all_on"]) - all_on).abs() < 1e-6
            && buddy["joules"]["used"] == buddy["joules"]["all_on"]
    );
    let [deep, refresh, none] = ["deep-power-down", "self-refresh", "unpowered"].map(|state| {
        let energy = energy(&["--allocator", "fullest", "--off-state", state]);
        assert_eq!(energy["off_state"], state);
        assert!(energy["changes"].is_null() && energy["migration"].is_null() && energy["joules"].is_null(), "{energy}");
        assert_eq!(energy["assumed"].as_array().unwrap().len(), 5);
        number(&energy["share"])
    });
    // The same banks are off in all three: the share of their time is (1 - share) / (1 - off / 63).
    let off = |share: f64, percent: f64| (1.0 - share) / (1.0 - percent / 63.0);
    assert!((off(deep, 1.0) - off(none, 0.0)).abs() < 1e-9 && (off(refresh, 7.0) - off(none, 0.0)).abs() < 1e-9);
    assert!(none < deep && deep < refresh && refresh < 1.0);
    let costs = ["--allocator", "fullest", "--change-time", "1s", "--bandwidth", "1MiB"];
    let costly = energy(&costs);
    let parts = ["states", "changes", "migration"].map(|part| number(&costly[part]));
    assert!(parts[1] > 0.0 && parts[2] > 0.0 && (parts[0] - deep).abs() < 1e-9, "{costly}");
    assert!((number(&costly["share"]) - parts.iter().sum::<f64>()).abs() < 1e-9, "{costly}");
    let text = run(&costs).out;
    assert!(
        text.contains("\nenergy      ") && text.contains("\nbreak-even  ") && text.matches("\nassumed ").count() == 5
    );
    for wrong in [["--watts-per-gib", "0"], ["--bandwidth", "0"], ["--change-time", "0s"], ["--off-state", "idle"]] {
        let refused = run(&wrong);
        assert_eq!((refused.code, refused.err.lines().count()), (Some(2), 1), "{refused:?}");
    }
}

#[test]
fn what_is_no_trace_of_page_allocation_is_refused_in_one_line() {
    let rampart = Rampart::new();
    let path = rampart.folder().join("trace");
    let name = path.to_str().unwrap();
    for (content, options) in [
        (vec![], &[][..]),
        (trace(1)[..9].to_vec(), &[]),
        (vec![0xff; 32], &[]),
        (vec![0x28, 0xb5, 0x2f, 0xfd, 0], &[]),
        (trace(2), &["--memory", "100MiB", "--bank", "64MiB"]),
        (trace(2), &["--bank", "1MiB"]),
        (trace(2), &["--loops", "0"]),
    ] {
        fs::write(&path, content).unwrap();
        let refused = rampart.run(&[&["banks", "replay", name], options].concat());
        assert_eq!((refused.code, refused.err.lines().count()), (Some(2), 1), "{refused:?}");
    }
    let nothing = rampart.run(&["banks", "replay", "/nowhere/trace"]);
    assert_eq!((nothing.code, nothing.err.lines().count()), (Some(2), 1), "{nothing:?}");
}
