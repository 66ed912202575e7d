//! Whether programs that the program executes are preloaded too: all, unless this library is removed from their list.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A list as the loader reads it, with colons and spaces, without the entries whose file is named as `library` is.
pub(crate) fn without(list: &[u8], library: &Path) -> Vec<u8> {
    let others = list.split(|byte| matches!(byte, b':' | b' ')).filter(|entry| {
        let file = Path::new(OsStr::from_bytes(entry)).file_name();
        !entry.is_empty() && file != library.file_name()
    });
    others.collect::<Vec<_>>().join(&b':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_library_is_taken_from_the_list_of_preloaded_ones() {
        let library = Path::new("/opt/rampart/librampart_preload.so");
        for (list, rest) in [
            ("", ""),
            ("librampart_preload.so", ""),
            ("/opt/rampart/librampart_preload.so", ""),
            ("a.so:/x/librampart_preload.so b.so", "a.so:b.so"),
            ("a.so  b.so", "a.so:b.so"),
            ("/opt/rampart/librampart_preload.so.old", "/opt/rampart/librampart_preload.so.old"),
        ] {
            assert_eq!(without(list.as_bytes(), library), rest.as_bytes(), "{list:?}");
        }
    }
}
