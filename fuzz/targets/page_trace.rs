//! Any bytes are a trace of page allocation that is written alike, or give a one-line error; a replay serves any trace.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rampart_banks::{AllocatorName, HOLE_END, MachineSettings, ReplayLength, ReplaySettings, read_page_trace, replay};
use rampart_memory::Bytes;

fuzz_target!(|bytes: &[u8]| {
    match read_page_trace(bytes) {
        Ok(events) => {
            let again: Vec<u8> = events.iter().flat_map(|event| event.to_bytes()).collect();
            assert_eq!(read_page_trace(&*again).expect("it was written"), events);
            for allocator in [
                AllocatorName::Buddy,
                AllocatorName::Array,
                AllocatorName::List,
                AllocatorName::Adaptive,
                AllocatorName::Fullest,
            ] {
                let machine = MachineSettings {
                    allocator,
                    memory: Bytes::from_mib(32),
                    low_memory: HOLE_END,
                    bank: Bytes::from_mib(8),
                    nodes: 1,
                    ways: 1,
                    reserve_percent: 5,
                    migrates: true,
                    patience_micros: 0,
                };
                let settings =
                    ReplaySettings { machine, length: ReplayLength::Loops(2), survivors_percent: 50, seed: 1 };
                let report = replay(std::slice::from_ref(&events), settings).expect("a machine");
                let mut samples = report.samples.iter();
                assert!(samples.all(|seen| seen.free <= machine.memory && seen.offlinable <= seen.optimum));
            }
        }
        Err(error) => assert_eq!(error.to_string().lines().count(), 1, "{error}"),
    }
});
