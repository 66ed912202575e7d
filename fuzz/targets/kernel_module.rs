//! Any bytes are our kernel module, whose release names a folder, or are not; any text of its counters is understood
//! as a whole, or not at all.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rampart_linux::kernel_module::{DemandCount, ModuleFile, parse_demand, parse_missed};

fuzz_target!(|bytes: &[u8]| {
    for prefix in [b"".as_slice(), b"\x7fELF\0name=rampart\0vermagic="] {
        let Some(module) = ModuleFile::parse(&[prefix, bytes].concat()) else { continue };
        let release = module.release();
        assert!(!release.is_empty() && !release.starts_with('.') && !release.contains(['/', ' ', '\0']), "{release:?}");
    }
    let text = String::from_utf8_lossy(bytes);
    if let Some(rows) = parse_demand(&text) {
        assert!(rows.iter().all(|row| row.allocated > 0 || row.freed > 0));
        let line = |row: &DemandCount| {
            format!("{} {} {} {} {}\n", row.node, row.migratetype, row.order, row.allocated, row.freed)
        };
        assert_eq!(parse_demand(&rows.iter().map(line).collect::<String>()), Some(rows));
    }
    if let Some(missed) = parse_missed(&text) {
        let pairs = [(missed.allocated, missed.allocated_seen), (missed.freed, missed.freed_seen)];
        let [allocated, freed] = pairs.map(|(kernel, seen)| format!("{kernel} {seen}"));
        assert_eq!(parse_missed(&format!("allocated {allocated}\nfreed {freed}\n")), Some(missed));
    }
});
