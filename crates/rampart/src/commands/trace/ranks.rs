//! Joins the files of the ranks into one trace.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use rampart_scale::trace::file;

use crate::error::Error;

/// Joins the parts of a trace in a folder; `None` if the program recorded nothing.
pub fn join(folder: &Path) -> Result<Option<Vec<u8>>, Error> {
    let mut ranks = Vec::new();
    loop {
        let path = folder.join(format!("rank-{}", ranks.len()));
        match fs::read(&path) {
            Ok(bytes) => ranks.push(bytes),
            Err(error) if error.kind() == ErrorKind::NotFound => break,
            Err(cause) => return Err(Error::Traced { path, cause }),
        }
    }
    Ok(if ranks.is_empty() { None } else { Some(file::joined(&ranks)) })
}
