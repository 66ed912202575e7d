//! Where the library is that a guarded program is preloaded with.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What it is called.
const NAME: &str = "librampart_preload.so";

/// Names another place for it.
pub const VARIABLE: &str = "RAMPART_GUARD_LIBRARY";

/// The library: where [`VARIABLE`] says, or else beside this program, where cargo builds it, or where packages install
/// it.
pub fn find() -> Option<PathBuf> {
    if let Some(named) = env::var_os(VARIABLE) {
        return Some(PathBuf::from(named)).filter(|path| path.is_file());
    }
    let own = env::current_exe().ok()?;
    beside(own.parent()?).into_iter().find(|path| path.is_file())
}

/// The library as `LD_PRELOAD` names it. The loader of glibc knows what `$LIB` is (ld.so(8)), a folder a few steps
/// below the root; that of musl does not, finds no such file, and goes on without: it could not load the library.
pub fn preloaded(library: &Path) -> OsString {
    /// More steps up than there are down: above the root is the root.
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
