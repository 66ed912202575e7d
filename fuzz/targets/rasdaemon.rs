//! Any file is a database of rasdaemon whose errors are reported once, or gives a one-line error.

#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;
use std::{env, fs, process};

use libfuzzer_sys::fuzz_target;
use rampart_memory::Timestamp;
use rampart_store::rasdaemon::Rasdaemon;

/// Written anew for each input: SQLite reads files.
static FILE: LazyLock<PathBuf> = LazyLock::new(|| env::temp_dir().join(format!("rampart-fuzz-{}.db", process::id())));

fuzz_target!(|bytes: &[u8]| {
    fs::write(&*FILE, bytes).expect("the folder for temporary files can be written to");
    let read = Rasdaemon::open(&FILE, Timestamp::default()).and_then(|mut database| {
        database.poll()?;
        database.poll()
    });
    match read {
        Ok(again) => assert!(again.errors.is_empty(), "an error is told once"),
        Err(error) => assert_eq!(error.to_string().lines().count(), 1, "{error}"),
    }
});
