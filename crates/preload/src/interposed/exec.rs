//! Programs that cannot have this library are executed without it.
//!
//! **Problem.** `LD_PRELOAD` reaches every program that a program executes, and some would not start: the runtimes of
//! sanitizers refuse to run behind another `malloc`. **Idea.** The executable is inspected
//! ([`rampart_linux::executable`]), and such a program gets a list without us. **Why this way.** The executing program
//! is preloaded, so it can do this; nothing else sees both the file and its environment.
//!
//! Programs of musl differ from glibc's by their loaders, which read the list differently: they find no library where
//! `rampart run` names it. Functions with a variable number of arguments (`execl`) and a program's own system calls are
//! not seen.

#![allow(unsafe_code, reason = "the C interface")]

use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::OnceLock;

use rampart_linux::executable::{LeftAlone, left_alone};
use rustix::fs::{Access, access};

use crate::preload_list::without;
use crate::reporting::folder;

use super::environment::{Texts, environment, position, value};

/// The loader's name of this library.
static LIBRARY: OnceLock<&'static Path> = OnceLock::new();

/// Set by the constructor.
pub(crate) fn begin(library: &'static Path) {
    let _ = LIBRARY.set(library);
}

/// An environment without this library.
pub(crate) struct Environment {
    texts: Vec<*const c_char>,
    _list: Vec<u8>,
}

impl Environment {
    /// As execve(2) takes it.
    pub(crate) fn texts(&self) -> Texts {
        self.texts.as_ptr()
    }
}

/// How a program is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// By its file.
    File,
    /// By a name that is searched in the folders of `PATH`, unless it has a slash.
    Program,
}

/// The environment for a program instead of `environment`; `None`: that one. Prints the reason once.
///
/// # Safety
/// As for execve(2).
pub(crate) unsafe fn fitting(name: *const c_char, named: Named, environment: Texts) -> Option<Environment> {
    // SAFETY: guaranteed by the caller: texts that end in zero, in a list that ends in null.
    unsafe {
        let library = LIBRARY.get()?;
        if name.is_null() || environment.is_null() {
            return None;
        }
        let place = position(environment, b"LD_PRELOAD=")?;
        let list = value(*environment.add(place), b"LD_PRELOAD=")?;
        let own = library.file_name()?.as_bytes();
        // Nothing is allocated until such a program is found: a child made by `_Fork` may not.
        if !list.windows(own.len()).any(|part| part == own) {
            return None;
        }
        let mut found = [0; libc::PATH_MAX as usize];
        let name = CStr::from_ptr(name);
        let path =
            if named == Named::File || name.to_bytes().contains(&b'/') { name } else { search(name, &mut found)? };
        let why = left_alone(path).filter(|why| why.is_harmed() || *why == LeftAlone::Musl)?;
        say(path, why);
        why.is_harmed().then(|| replaced(environment, place, &without(list, library)))
    }
}

/// # Safety
/// Texts up to a null.
unsafe fn replaced(environment: Texts, place: usize, rest: &[u8]) -> Environment {
    let list = [b"LD_PRELOAD=", rest, b"\0"].concat();
    let mut texts = Vec::new();
    // SAFETY: guaranteed by the caller.
    unsafe {
        while !(*environment.add(texts.len())).is_null() {
            texts.push(*environment.add(texts.len()));
        }
    }
    texts[place] = list.as_ptr().cast();
    texts.push(std::ptr::null());
    Environment { texts, _list: list }
}

/// The first file of this name in the folders of `PATH` that can be executed.
fn search<'a>(name: &CStr, found: &'a mut [u8; libc::PATH_MAX as usize]) -> Option<&'a CStr> {
    let own = environment();
    // SAFETY: the environment, which a program that executes another does not change meanwhile. Not by `getenv`: some
    // programs bring one of their own.
    let folders = unsafe { value(*own.add(position(own, b"PATH=")?), b"PATH=") }?;
    let mut length = 0;
    let is_there = folders.split(|&byte| byte == b':').any(|folder| {
        let parts = [if folder.is_empty() { b"." } else { folder }, b"/", name.to_bytes_with_nul()];
        length = 0;
        for byte in parts.into_iter().flatten() {
            let Some(place) = found.get_mut(length) else { return false };
            *place = *byte;
            length += 1;
        }
        CStr::from_bytes_with_nul(&found[..length]).is_ok_and(|path| access(path, Access::EXEC_OK).is_ok())
    });
    if is_there { CStr::from_bytes_with_nul(&found[..length]).ok() } else { None }
}

/// Once for each reason.
fn say(path: &CStr, why: LeftAlone) {
    let name = match why {
        LeftAlone::Musl => "said-musl",
        LeftAlone::Architecture => "said-architecture",
        _ => "said-sanitizer",
    };
    let path = Path::new(OsStr::from_bytes(path.to_bytes()));
    folder::say_once(name, &format!("rampart: {} is left alone: {why}\n", path.display()));
}
