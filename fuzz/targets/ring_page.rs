//! Any bytes are a page of a ring buffer whose records lie in it, and any text describes fields or none.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rampart_linux::tracing::{RingLayout, fields};

/// As Linux has it on machines of 64 bits.
const LAYOUT: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

fuzz_target!(|bytes: &[u8]| {
    let layout = RingLayout::parse(LAYOUT).expect("a layout");
    let (mut records, mut length) = (0, 0);
    let _ = layout.read(bytes, |_, record| {
        records += 1;
        length += record.len();
    });
    // Each record has a header of four bytes.
    assert!(records * 4 + length <= bytes.len().saturating_sub(16));
    if let Ok(text) = std::str::from_utf8(bytes) {
        fields(text).for_each(|(name, place)| {
            assert!(text.contains(name));
            let _ = place.number(bytes);
        });
        let _ = RingLayout::parse(text);
    }
});
