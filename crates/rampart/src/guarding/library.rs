//! Where the library is that a guarded program is preloaded with.

use std::env;
use std::path::{Path, PathBuf};

/// What it is called.
const NAME: &str = "librampart_preload.so";

/// Names another place for it.
pub const VARIABLE: &str = "RAMPART_GUARD_LIBRARY";

/// The library: where [`VARIABLE`] says, or else beside this program, where cargo builds it, or where packages install it.
pub fn find() -> Option<PathBuf> {
    if let Some(named) = env::var_os(VARIABLE) {
        return Some(PathBuf::from(named)).filter(|path| path.is_file());
    }
    let own = env::current_exe().ok()?;
    beside(own.parent()?).into_iter().find(|path| path.is_file())
}

fn beside(folder: &Path) -> [PathBuf; 3] {
    [folder.join(NAME), folder.join("deps").join(NAME), folder.join("../lib/rampart").join(NAME)]
}
