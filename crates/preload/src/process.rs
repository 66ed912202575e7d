//! The life of the process: the constructor, a fork, the end.
//!
//! The loader runs the constructor after those of the libraries that the program needs, and before `main`: here
//! everything of the C library works. The first allocation was long before (see [`crate::start`]).

#![allow(unsafe_code, reason = "the loader calls it; calls the loader")]

use std::env;
use std::ffi::{CStr, OsStr, c_char, c_void};
use std::fs::OpenOptions;
use std::io::Write;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::children::without;
use crate::report::line;
use crate::start::{say, start};
use crate::{GROUND, HEAP};
use crate::{calls, data, executing, forks, late, mapping, private, signals, streams};

unsafe extern "C" {
    static environ: *const *mut c_char;
}

// SAFETY: the loader calls what stands in these two sections once each, in one thread: before `main`, after this
// library was relocated and the libraries that it needs were initialised; and at the end of `exit`.
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = construct;
// SAFETY: as above.
#[used]
#[unsafe(link_section = ".fini_array")]
static DESTRUCTOR: extern "C" fn() = end;

/// The environment of this process, as execv(3) takes it.
pub(crate) fn environment() -> *const *const c_char {
    // SAFETY: the C library's own variable, which a program reads as freely.
    unsafe { environ }.cast()
}

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
    executing::begin(library);
    if HEAP.is_new() {
        start(&HEAP);
    }
    // SAFETY: the handler is a function without arguments that lives as long as the process: this library is never
    // unloaded.
    let registered = unsafe { libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) };
    assert_eq!(registered, 0, "the C library has room for a fork handler");
    if GROUND.faults_are_signals() || GROUND.reads_what_may_be_lost() {
        signals::faults::install();
    }
    if GROUND.faults_are_signals() {
        calls::find_all();
        streams::bring_outside();
    }
    if GROUND.reads_what_may_be_lost() {
        signals::losses::install();
    }
    if GROUND.hides_what_is_locked() {
        signals::dumps::install();
    }
    if GROUND.misses_devices() {
        late::refuse();
    }
    forks::find_all();
    let (data, mappings) = GROUND.protect();
    if let Some(block) = data {
        data::bring_in(&HEAP, &GROUND, block);
    }
    GROUND.begin(HEAP.used(), &mapping::left());
    mapping::begin(mappings);
    if GROUND.is_of_another_user() {
        if GROUND.is_live() {
            say(&format!(
                "rampart: process {} is not of the user who runs the program: it is guarded, but what is found there is said here only, and \
                 no frame of it goes on the map\n",
                std::process::id()
            ));
        }
        // SAFETY: as for `leave_alone` below.
        unsafe { tell_children_nothing() };
    }
    if env::var_os("RAMPART_GUARD_CHILDREN").is_some_and(|wanted| wanted == "no") {
        // SAFETY: no thread of the program runs before `main`, and none of ours; another library whose constructor
        // started one may not let it read the environment while constructors run, because they may change it.
        unsafe { leave_alone(library) };
    }
}

/// Takes the name of the folder out of the environment: what there is to say of all programs that this one executes was said.
///
/// # Safety
/// As of [`leave_alone`].
unsafe fn tell_children_nothing() {
    const NAME: &[u8] = b"RAMPART_GUARD_STATE=";
    // SAFETY: by the caller's promise; the text has the name before its final zero.
    unsafe {
        if let Some(place) = executing::position(environment(), NAME) {
            (*environ.add(place)).add(NAME.len()).write(0);
        }
    }
}

/// Takes `library` out of `LD_PRELOAD`, in place: some programs, such as bash, bring a `setenv` of their own that does
/// not reach the strings from which `main` builds its environment.
///
/// # Safety
/// No other thread reads or changes the environment meanwhile.
unsafe fn leave_alone(library: &Path) {
    // SAFETY: by the caller's promise the array and its strings stay as they are but for what is done here. The array
    // ends in null, each string in zero (environ(7)); the list and its final zero are written where a list at least as
    // long was.
    unsafe {
        let mut entry = environ;
        while !entry.is_null() && !(*entry).is_null() {
            if let Some(list) = CStr::from_ptr(*entry).to_bytes().strip_prefix(b"LD_PRELOAD=") {
                let start = (*entry).add(b"LD_PRELOAD=".len()).cast::<u8>();
                let (before, rest) = (list.len(), without(list, library));
                assert!(rest.len() <= before, "a list gets shorter when entries are left out");
                start.copy_from_nonoverlapping(rest.as_ptr(), rest.len());
                start.add(rest.len()).write(0);
            }
            entry = entry.add(1);
        }
    }
}

/// jemalloc has handlers of its own for its locks, registered before this one; ours are words.
extern "C" fn in_child() {
    private::forget_other_threads();
    GROUND.after_fork_in_child(HEAP.used(), &mapping::left_while_forking());
    mapping::after_fork();
}

/// A child that was made without the handlers of a fork: it goes on without a guard, on ordinary memory.
pub(crate) fn in_child_alone() {
    private::forget_other_threads();
    GROUND.stay_alone_in_child(&mapping::left_while_forking());
    mapping::after_fork();
}

pub(crate) extern "C" fn before_fork() {
    mapping::before_fork();
    GROUND.before_fork(&mapping::left_while_forking());
}

pub(crate) extern "C" fn in_parent() {
    GROUND.after_fork_in_parent(&mapping::left_while_forking());
    mapping::after_fork();
}

/// The last word: one line of JSON, added to the file that RAMPART_GUARD_REPORT names, with one write.
extern "C" fn end() {
    GROUND.end();
    let Some(path) = env::var_os("RAMPART_GUARD_REPORT") else { return };
    let line = line(&HEAP.usage());
    let written = OpenOptions::new().append(true).create(true).open(&path);
    if let Err(why) = written.and_then(|mut file| file.write_all(line.as_bytes())) {
        say(&format!("rampart: cannot write the report to {}: {why}\n", Path::new(&path).display()));
    }
}
