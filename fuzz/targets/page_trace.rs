//! Any bytes are a trace of page allocation that is written alike, or give a one-line error; a replay serves any trace.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rampart_banks::{ReplaySettings, read_page_trace, replay};
use rampart_memory::Bytes;

fuzz_target!(|bytes: &[u8]| {
    match read_page_trace(bytes) {
        Ok(events) => {
            let again: Vec<u8> = events.iter().flat_map(|event| event.to_bytes()).collect();
            assert_eq!(read_page_trace(&*again).expect("it was written"), events);
            let settings = ReplaySettings {
                memory: Bytes::from_mib(32),
                bank: Bytes::from_mib(8),
                loops: 2,
                survivors_percent: 50,
                reserve_percent: 5,
                seed: 1,
            };
            let report = replay(&[events], settings).expect("a machine");
            assert!(report.samples.iter().all(|seen| seen.free <= settings.memory && seen.offlinable <= seen.optimum));
        }
        Err(error) => assert_eq!(error.to_string().lines().count(), 1, "{error}"),
    }
});
