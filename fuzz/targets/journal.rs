//! Any bytes are journals whose records are counted, or give a one-line error; an access is written as it was read.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rampart_guard::accesses::UnlockAccess;
use rampart_guard::journal::{HEADER_BYTES, SectionKind, sections};
use rampart_guard::samples::Sample;

fuzz_target!(|bytes: &[u8]| {
    for kind in [SectionKind::Samples, SectionKind::Accesses] {
        let sections = match sections(bytes, kind) {
            Ok(sections) => sections,
            Err(error) => {
                assert_eq!(error.to_string().lines().count(), 1);
                continue;
            }
        };
        let records: usize = sections.iter().map(|section| section.records().len()).sum();
        assert!(sections.len() * HEADER_BYTES + records * kind.words() * 8 <= bytes.len());
        for record in sections.iter().flat_map(|section| section.records()) {
            let words: Vec<u64> = record.collect();
            match kind {
                SectionKind::Samples => {
                    let sample = Sample::from_words(words.iter().copied()).expect("any words are a sample");
                    assert_eq!(sample.to_words()[..], words);
                }
                SectionKind::Accesses => {
                    if let Some(access) = UnlockAccess::from_words(words.iter().copied()) {
                        assert_eq!(access.to_words()[..], words);
                    }
                }
            }
        }
    }
});
