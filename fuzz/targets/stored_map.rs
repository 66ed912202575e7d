//! Any content of the store's columns is a bad frame that is written as it was read, or gives an error that names one
//! of them.
//!
//! The input is a text with a column on each line, so that people can read and write seeds.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rampart_store::FailureRow;

fuzz_target!(|text: &str| {
    let row = row(text);
    match row.decode() {
        Ok(failed) => {
            let written = FailureRow::encode(&failed);
            assert_eq!(written.decode(), Ok(failed));
            assert_eq!((written.frame, written.lines, written.mismatches), (row.frame, row.lines, row.mismatches));
        }
        Err(error) => assert!(error.to_string().starts_with("column `"), "{error}"),
    }
});

fn row(text: &str) -> FailureRow {
    let mut columns = text.lines();
    let mut word = || columns.next().unwrap_or_default().to_owned();
    let (cause, evidence, retirement) = (word(), word(), word());
    let mut number = || columns.next().and_then(|column| column.parse().ok()).unwrap_or_default();
    FailureRow {
        frame: number(),
        lines: number(),
        first_seen: number(),
        last_seen: number(),
        mismatches: number(),
        cause,
        evidence,
        retirement,
    }
}
