//! Any bytes are a CXL early discovery table whose ranges ascend and do not overlap, or give a one-line error; so is
//! any body behind a right header.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rampart_linux::memory_tables::parse_cedt;

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    let mut table = [b"CEDT".as_slice(), &[0; 32], bytes].concat();
    let length = u32::try_from(table.len()).expect("an input is short");
    table[4..8].copy_from_slice(&length.to_le_bytes());
    table[9] = table.iter().fold(0, |sum: u8, byte| sum.wrapping_sub(*byte));
    check(&table);
});

fn check(bytes: &[u8]) {
    match parse_cedt(bytes) {
        Ok(parts) => {
            assert!(parts.windows(2).all(|pair| pair[0].frames.last() < pair[1].frames.start()), "{parts:?}");
        }
        Err(error) => assert_eq!(error.to_string().lines().count(), 1, "{error}"),
    }
}
