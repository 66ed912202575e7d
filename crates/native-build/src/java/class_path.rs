//! Where the classes of a program are.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use super::JavaProgram;
use crate::error::Error;

/// Folders and jars with classes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClassPath(Vec<PathBuf>);

impl ClassPath {
    /// The main class of a program, and where all its classes are.
    ///
    /// # Errors
    /// If a file is not there, or a jar names no main class.
    pub fn of(program: &JavaProgram) -> Result<(String, Self), Error> {
        match program {
            JavaProgram::Class { path, name } => {
                let mut entries = Vec::new();
                for entry in std::env::split_paths(path) {
                    entries.extend(expand(entry)?);
                }
                // Java leaves out what is not there; somebody who misspells a name learns it here.
                match entries.iter().find(|entry| !entry.exists()) {
                    Some(missing) => Err(Error::unread(missing)(ErrorKind::NotFound.into())),
                    None => Ok((name.clone(), Self(entries))),
                }
            }
            JavaProgram::Jar(jar) => {
                let manifest = read_manifest(jar)?;
                let main = attribute(&manifest, "Main-Class").ok_or_else(|| Error::NoMainClass(jar.clone()))?;
                let beside = jar.parent().unwrap_or(Path::new(""));
                let further = attribute(&manifest, "Class-Path").unwrap_or_default();
                let further = further.split_whitespace().map(|name| beside.join(name)).filter(|path| path.exists());
                Ok((main, Self(std::iter::once(jar.clone()).chain(further).collect())))
            }
        }
    }

    /// The folders and jars, in the order in which they are searched.
    pub fn entries(&self) -> impl Iterator<Item = PathBuf> {
        self.0.iter().cloned()
    }
}

/// `FOLDER/*` stands for all jars of a folder, and an empty entry for the present folder (java(1)).
fn expand(entry: PathBuf) -> Result<Vec<PathBuf>, Error> {
    if entry.as_os_str().is_empty() {
        return Ok(vec![PathBuf::from(".")]);
    }
    let Some(folder) = entry.parent().filter(|_| entry.file_name().is_some_and(|name| name == "*")) else {
        return Ok(vec![entry]);
    };
    let is_jar = |path: &PathBuf| path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("jar"));
    let found = fs::read_dir(folder).map_err(Error::unread(folder))?.filter_map(|found| Some(found.ok()?.path()));
    let mut jars: Vec<PathBuf> = found.filter(is_jar).collect();
    jars.sort();
    Ok(jars)
}

fn read_manifest(jar: &Path) -> Result<String, Error> {
    let file = File::open(jar).map_err(Error::unread(jar))?;
    let broken = |error: zip::result::ZipError| Error::Jar { path: jar.to_owned(), why: error.to_string() };
    let mut archive = zip::ZipArchive::new(io::BufReader::new(file)).map_err(broken)?;
    let mut text = String::new();
    match archive.by_name("META-INF/MANIFEST.MF") {
        Err(zip::result::ZipError::FileNotFound) => {}
        Err(error) => return Err(broken(error)),
        Ok(mut manifest) => drop(manifest.read_to_string(&mut text).map_err(Error::unread(jar))?),
    }
    Ok(text)
}

/// An attribute of the main section of a manifest. A line that begins with a space continues the one before (JAR file
/// specification, "Notes on Manifest and Signature Files").
fn attribute(manifest: &str, name: &str) -> Option<String> {
    let unfolded = manifest.replace("\r\n", "\n").replace('\r', "\n").replace("\n ", "");
    let mut lines = unfolded.lines().take_while(|line| !line.is_empty());
    lines.find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
    })
}

/// A hash of a file, or of all files below a folder and their names.
pub(super) fn hash_files(path: &Path) -> io::Result<u64> {
    let mut hasher = DefaultHasher::new();
    if !path.is_dir() {
        fs::read(path)?.hash(&mut hasher);
        return Ok(hasher.finish());
    }
    let mut inside: Vec<PathBuf> = fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    inside.sort();
    for entry in inside {
        entry.file_name().hash(&mut hasher);
        hash_files(&entry)?.hash(&mut hasher);
    }
    Ok(hasher.finish())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn jar(path: &Path, manifest: &str) {
        let mut archive = zip::ZipWriter::new(File::create(path).unwrap());
        let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
        archive.start_file("META-INF/MANIFEST.MF", options).unwrap();
        archive.write_all(manifest.as_bytes()).unwrap();
        archive.finish().unwrap();
    }

    #[test]
    fn a_jar_names_its_main_class_and_further_jars_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let [main, other] = ["main.jar", "other.jar"].map(|name| folder.path().join(name));
        let text =
            "Manifest-Version: 1.0\r\nClass-Path: none.jar oth\r\n er.jar\r\nmain-class: a.Main \r\n\r\nMain-Class: b";
        jar(&main, text);
        jar(&other, "Manifest-Version: 1.0\n");
        let program = JavaProgram::Jar(main.clone());
        assert_eq!(ClassPath::of(&program).unwrap(), ("a.Main".to_owned(), ClassPath(vec![main, other.clone()])));
        assert!(matches!(ClassPath::of(&JavaProgram::Jar(other)), Err(Error::NoMainClass(_))));
        let text = folder.path().join("text.jar");
        fs::write(&text, "no jar").unwrap();
        assert!(matches!(ClassPath::of(&JavaProgram::Jar(text)), Err(Error::Jar { .. })));
        assert!(matches!(ClassPath::of(&JavaProgram::Jar(folder.path().join("no"))), Err(Error::Unread { .. })));
    }

    #[test]
    fn a_class_path_has_folders_jars_and_all_jars_of_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        ["b.jar", "a.JAR", "c.txt"].iter().for_each(|name| fs::write(at(name), "").unwrap());
        let class = |path: &[PathBuf]| {
            let path = std::env::join_paths(path).unwrap();
            ClassPath::of(&JavaProgram::Class { path, name: "Main".to_owned() })
        };
        let found = class(&[folder.path().to_owned(), at("*"), PathBuf::new()]).unwrap().1;
        assert_eq!(found.0, [folder.path().to_owned(), at("a.JAR"), at("b.jar"), PathBuf::from(".")]);
        assert!(matches!(class(&[at("none")]), Err(Error::Unread { path, .. }) if path == at("none")));
    }

    #[test]
    fn another_name_or_content_has_another_hash() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let hash = || hash_files(folder.path()).unwrap();
        fs::write(inner.join("A.class"), "one").unwrap();
        let first = hash();
        fs::write(inner.join("A.class"), "two").unwrap();
        let second = hash();
        fs::rename(inner.join("A.class"), inner.join("B.class")).unwrap();
        assert!(first != second && second != hash() && hash() == hash());
    }
}
