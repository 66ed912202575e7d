//! Finds the library that is preloaded into a guarded program.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The file name.
const NAME: &str = "librampart_preload.so";

/// The environment variable that names another library.
pub const VARIABLE: &str = "RAMPART_GUARD_LIBRARY";

/// The path of the library: the one in [`VARIABLE`], or else beside this program, where cargo builds it, or where
/// packages install it.
pub fn find() -> Option<PathBuf> {
    if let Some(named) = env::var_os(VARIABLE) {
        return Some(PathBuf::from(named)).filter(|path| path.is_file());
    }
    let own = env::current_exe().ok()?;
    beside(own.parent()?).into_iter().find(|path| path.is_file())
}

/// The library as `LD_PRELOAD` names it. The loader of glibc replaces `$LIB` (ld.so(8)) by a folder a few levels below
/// the root. The loader of musl does not, finds no such file, and continues without the library, which it could not
/// load.
pub fn preloaded(library: &Path) -> OsString {
    /// More levels up than `$LIB` has: the parent of the root is the root.
    const TO_GLIBC_AND_BACK: &str = "/$LIB/../../../..";
    match library.canonicalize() {
        Ok(library) if library.is_absolute() => {
            let mut named = OsString::from(TO_GLIBC_AND_BACK);
            named.push(library);
            named
        }
        _ => library.as_os_str().to_owned(),
    }
}

fn beside(folder: &Path) -> [PathBuf; 3] {
    [folder.join(NAME), folder.join("deps").join(NAME), folder.join("../lib/rampart").join(NAME)]
}
