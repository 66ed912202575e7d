//! Any text is a list of addresses or none: each block has an origin, and a text without virtio-mem has no block of it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rampart_linux::{MemoryOrigin, MemoryOrigins};
use rampart_memory::{Bytes, HotplugBlock};

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let origins = MemoryOrigins::parse(&text);
    for block in [0, 1, 32, u32::MAX] {
        let origin = origins.of(HotplugBlock(block), Bytes::from_mib(128));
        let is_named = text.to_ascii_lowercase().contains("system ram (virtio_mem)");
        assert!(is_named || origin != MemoryOrigin::VirtioMem, "{text}");
    }
});
