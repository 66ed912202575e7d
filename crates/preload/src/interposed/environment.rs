//! The environment of this process, and those that it passes to the programs that it executes.

#![allow(unsafe_code, reason = "reads and changes the environment")]

use std::ffi::{CStr, c_char};
use std::path::Path;

use crate::preload_list::without;

/// A list of texts that ends in null, as execve(2) takes it.
pub(crate) type Texts = *const *const c_char;

unsafe extern "C" {
    static environ: *const *mut c_char;
}

/// The environment of this process, as execv(3) takes it.
pub(crate) fn environment() -> Texts {
    // SAFETY: the C library's own variable, which a program reads as freely.
    unsafe { environ }.cast()
}

/// The position of a variable.
///
/// # Safety
/// Texts up to a null.
pub(crate) unsafe fn position(texts: Texts, start: &[u8]) -> Option<usize> {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let mut place = 0;
        while !(*texts.add(place)).is_null() {
            if value(*texts.add(place), start).is_some() {
                return Some(place);
            }
            place += 1;
        }
        None
    }
}

/// # Safety
/// A text.
pub(crate) unsafe fn value<'a>(text: *const c_char, start: &[u8]) -> Option<&'a [u8]> {
    // SAFETY: guaranteed by the caller.
    unsafe { CStr::from_ptr(text) }.to_bytes().strip_prefix(start)
}

/// Removes `library` from `LD_PRELOAD`, in place: some programs, such as bash, bring a `setenv` of their own that does
/// not reach the strings from which `main` builds its environment.
///
/// # Safety
/// No other thread reads or changes the environment meanwhile.
pub(crate) unsafe fn leave_alone(library: &Path) {
    // SAFETY: as the caller guarantees the array and its strings stay as they are but for what is done here. The array
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

/// Removes the name of the folder from the environment: everything about the programs that this one executes has been
/// reported.
///
/// # Safety
/// As for [`leave_alone`].
pub(crate) unsafe fn remove_state_folder() {
    const NAME: &[u8] = b"RAMPART_GUARD_STATE=";
    // SAFETY: as the caller guarantees; the text has the name before its final zero.
    unsafe {
        if let Some(place) = position(environment(), NAME) {
            (*environ.add(place)).add(NAME.len()).write(0);
        }
    }
}
