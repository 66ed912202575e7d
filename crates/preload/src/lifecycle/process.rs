//! The life of the process: the constructor, a fork, the end.
//!
//! The loader runs the constructor after those of the libraries that the program needs, and before `main`: here all of
//! the C library works. The first allocation was long before (`Heap::begin`).

#![allow(unsafe_code, reason = "the loader calls it; calls the loader")]

use std::env;
use std::ffi::{CStr, OsStr, c_void};
use std::fs::OpenOptions;
use std::io::Write;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::interposed::{asynchronous, environment, exec, fork, mmap, signals, streams, system_calls};
use crate::messages::say;
use crate::reporting::exit_line::line;
use crate::{BACKING, HEAP};

use super::static_data;

// SAFETY: the loader calls what stands in these two sections once each, in one thread: before `main`, after this
// library was relocated and the libraries that it needs were initialised; and at the end of `exit`.
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = construct;
// SAFETY: as above.
#[used]
#[unsafe(link_section = ".fini_array")]
static DESTRUCTOR: extern "C" fn() = end;

extern "C" fn construct() {
    let mut place = MaybeUninit::<libc::Dl_info>::zeroed();
    let own: extern "C" fn() = construct;
    // SAFETY: the address is of this library, so the loader fills the place in, with a name that ends in zero and stays
    // as long as the library does.
    let library = unsafe {
        let found = libc::dladdr(own as *const c_void, place.as_mut_ptr());
        assert_ne!(found, 0, "the loader knows this library");
        CStr::from_ptr(place.assume_init().dli_fname)
    };
    begin(Path::new(OsStr::from_bytes(library.to_bytes())));
}

/// The constructor's work.
fn begin(library: &'static Path) {
    exec::begin(library);
    if HEAP.is_new() {
        HEAP.begin();
    }
    // SAFETY: the handler is a function without arguments that lives as long as the process: this library is never
    // unloaded.
    let registered =
        unsafe { libc::pthread_atfork(Some(fork::before_fork), Some(fork::in_parent), Some(fork::in_child)) };
    assert_eq!(registered, 0, "the C library has room for a fork handler");
    if BACKING.faults_are_signals() || BACKING.reads_what_may_be_lost() {
        signals::faults::install();
    }
    if BACKING.faults_are_signals() {
        system_calls::find_all();
        streams::bring_outside();
    }
    if BACKING.reads_what_may_be_lost() {
        signals::losses::install();
    }
    if BACKING.hides_what_is_locked() {
        signals::dumps::install();
    }
    if BACKING.misses_devices() {
        asynchronous::refuse();
    }
    fork::find_all();
    system_calls::find_mutex_lock();
    let (data, mappings) = BACKING.protect();
    if let Some(block) = data {
        static_data::bring_in(block);
    }
    BACKING.begin(HEAP.used(), &mmap::left());
    mmap::begin(mappings);
    if BACKING.is_of_another_user() {
        if BACKING.is_live() {
            say(&format!(
                "rampart: process {} is not of the user who runs the program: it is guarded, but what is found there is said here only, and \
                 no frame of it goes on the map\n",
                std::process::id()
            ));
        }
        // SAFETY: as for `leave_alone` below.
        unsafe { environment::remove_state_folder() };
    }
    if env::var_os("RAMPART_GUARD_CHILDREN").is_some_and(|wanted| wanted == "no") {
        // SAFETY: no thread of the program runs before `main`, and none of ours; another library whose constructor
        // started one may not let it read the environment while constructors run, because they may change it.
        unsafe { environment::leave_alone(library) };
    }
}

/// The last report: one line of JSON, added to the file that RAMPART_GUARD_REPORT names, with one write.
extern "C" fn end() {
    BACKING.end();
    let Some(path) = env::var_os("RAMPART_GUARD_REPORT") else { return };
    let line = line(&HEAP.usage());
    let written = OpenOptions::new().append(true).create(true).open(&path);
    if let Err(why) = written.and_then(|mut file| file.write_all(line.as_bytes())) {
        say(&format!("rampart: cannot write the report to {}: {why}\n", Path::new(&path).display()));
    }
}
