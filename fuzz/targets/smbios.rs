//! Any bytes are a table of SMBIOS whose ranges are on its devices, which have names of one line, or give a one-line
//! error.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rampart_linux::memory_tables::parse_smbios;

fuzz_target!(|bytes: &[u8]| match parse_smbios(bytes) {
    Ok(memory) => {
        let is_known = |handle| memory.devices.iter().filter(|device| device.handle == handle).count() == 1;
        assert!(memory.ranges.iter().all(|range| is_known(range.device)), "{memory:?}");
        let mut names = memory.devices.iter().flat_map(|device| [&device.locator, &device.bank]);
        assert!(names.all(|name| !name.contains(char::is_control) && name.trim() == name), "{memory:?}");
    }
    Err(error) => assert_eq!(error.to_string().lines().count(), 1, "{error}"),
});
