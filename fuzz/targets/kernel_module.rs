//! Any bytes are our kernel module, whose release names a folder, or are not; any text of its counters is understood
//! as a whole, or not at all.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rampart_linux::kernel_module::{
    DemandCount, ModuleFile, TestedCount, parse_claims, parse_demand, parse_missed, parse_tested,
};

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
    if let Some(rows) = parse_tested(&text) {
        let line = |row: &TestedCount| {
            let numbers = [
                row.allocated_tested,
                row.allocated_untested,
                row.allocated_unfreed,
                row.returned_fresh,
                row.returned_expired,
            ];
            let numbers = numbers.map(|number| number.to_string()).join(" ");
            format!("{} {} {} {numbers}\n", row.node, row.migratetype, row.order)
        };
        assert_eq!(parse_tested(&rows.iter().map(line).collect::<String>()), Some(rows));
    }
    if let Some(claims) = parse_claims(&text) {
        let lines = format!(
            "held {}\ntested {}\nretired {}\nlost_owner {}\nlost_time {}\nlost_pressure {}\nlost_offline {}\n\
             moved_fresh {}\nmoved_expired {}\nmoved_never {}\n",
            claims.held,
            claims.tested,
            claims.retired,
            claims.lost_owner,
            claims.lost_time,
            claims.lost_pressure,
            claims.lost_offline,
            claims.moved_fresh,
            claims.moved_expired,
            claims.moved_never
        );
        assert_eq!(parse_claims(&lines), Some(claims));
    }
    if let Some(missed) = parse_missed(&text) {
        let pairs = [(missed.allocated, missed.allocated_seen), (missed.freed, missed.freed_seen)];
        let [allocated, freed] = pairs.map(|(kernel, seen)| format!("{kernel} {seen}"));
        assert_eq!(parse_missed(&format!("allocated {allocated}\nfreed {freed}\n")), Some(missed));
    }
});
