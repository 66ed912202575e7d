//! Java programs, compiled to WebAssembly with garbage collection.
//!
//! **Problem.** No maintained Java virtual machine takes a collector from outside; wasmtime can be given ours.
//! **Idea.** TeaVM compiles the classes that a program reaches into one module, and binaryen translates the module's
//! exceptions to the standard. Both lie in a folder, the kit, which `java/build` makes. **Why this way.** A compiled
//! program is kept under a key of all that it was compiled from, so the second run starts at once.

mod class_path;

use std::ffi::OsString;
use std::io::{Read as _, Seek as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use self::class_path::{ClassPath, hash_files};
use crate::cache::Cache;
use crate::error::Error;
use crate::tool;

/// The folder with the compiler and the host of Java programs.
#[derive(Clone, Debug)]
pub struct JavaKit(PathBuf);

/// The program to run, as the arguments of `java` name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JavaProgram {
    /// `-jar FILE`: the manifest names the main class, and further jars.
    Jar(PathBuf),
    /// `-cp PATH NAME`: a class by its name, in folders and jars with `:` between them.
    Class {
        /// Where the classes are.
        path: OsString,
        /// The name of the main class.
        name: String,
    },
}

impl JavaKit {
    /// The kit in a folder.
    ///
    /// # Errors
    /// [`Error::NoKit`] if it is not there, or not complete.
    pub fn at(folder: &Path) -> Result<Self, Error> {
        let kit = Self(folder.to_owned());
        let parts = [kit.host(), kit.compiler(), kit.jars(), kit.0.join("library"), kit.translator()];
        if parts.iter().all(|part| part.exists()) { Ok(kit) } else { Err(Error::NoKit(folder.to_owned())) }
    }

    /// The kit of the program at this path: in `lib/rampart/java` beside its folder, or where `java/build` makes it in
    /// the tree that the program was built in.
    ///
    /// # Errors
    /// [`Error::NoKit`] if there is none.
    pub fn of_program(program: &Path) -> Result<Self, Error> {
        let above = |levels: usize| program.ancestors().nth(levels).unwrap_or(Path::new("/"));
        let installed = above(2).join("lib/rampart/java");
        Self::at(&installed).or_else(|missing| Self::at(&above(2).join("java")).map_err(|_| missing))
    }

    /// The kit in a folder, or without one that of this program.
    ///
    /// # Errors
    /// [`Error::NoKit`] if it is not there, or not complete.
    pub fn choose(folder: Option<&Path>) -> Result<Self, Error> {
        match folder {
            Some(folder) => Self::at(folder),
            None => Self::of_program(&std::env::current_exe().unwrap_or_default()),
        }
    }

    /// The folder with the classes and the list of the bench's programs.
    #[must_use]
    pub fn programs(&self) -> PathBuf {
        self.0.join("programs")
    }

    /// The jar of a library that a program of the bench uses, by its name and version.
    #[must_use]
    pub fn library(&self, name: &str) -> PathBuf {
        self.jars().join(format!("{name}.jar"))
    }

    /// What runs a compiled program.
    #[must_use]
    pub fn host(&self) -> PathBuf {
        self.0.join("build/release/rampart-java")
    }

    /// What runs a compiled program on wasmtime's own collector, for the bench.
    ///
    /// # Errors
    /// [`Error::NoCopyingHost`] if it is not there: only `java/build copying` makes it.
    pub fn copying_host(&self) -> Result<PathBuf, Error> {
        let host = self.0.join("build/release/rampart-java-copying");
        if host.exists() { Ok(host) } else { Err(Error::NoCopyingHost(host)) }
    }

    /// The folder in which the host keeps machine code: one for each host, as another may compile differently; `None`
    /// if there is no place for one.
    #[must_use]
    pub fn code_folder(&self) -> Option<PathBuf> {
        code_folder("java-code", &self.host())
    }

    /// The same of what runs programs on wasmtime's own collector.
    #[must_use]
    pub fn copying_code_folder(&self) -> Option<PathBuf> {
        code_folder("java-code-copying", &self.copying_host().ok()?)
    }

    fn compiler(&self) -> PathBuf {
        self.0.join("classes/Compile.class")
    }

    fn jars(&self) -> PathBuf {
        self.0.join("jars")
    }

    fn translator(&self) -> PathBuf {
        self.0.join("npm/node_modules/binaryen/bin/wasm-opt")
    }

    /// Compiles a program, or finds what was compiled before, and puts it into a folder. While it compiles, it polls
    /// ten times a second, and stops if told to break.
    ///
    /// # Errors
    /// If the program is not there, or cannot be compiled; [`Error::Stopped`] if `poll` breaks.
    pub fn compile(&self, program: &JavaProgram, folder: &Path, poll: Poll<'_>) -> Result<PathBuf, Error> {
        let (main, path) = ClassPath::of(program)?;
        let key = self.key(&main, &path)?;
        let cache = Cache::of_user("java");
        if let Some(found) = cache.as_ref().and_then(|cache| cache.fetch(MODULE, key, folder)) {
            return Ok(found);
        }
        for (tool, package) in [("java", "openjdk-17-jre-headless"), ("node", "nodejs")] {
            if !tool::runs(tool.as_ref()) {
                return Err(Error::NoJavaTool { name: tool, package });
            }
        }
        let legacy = self.translate_classes(&main, &path, folder, poll)?;
        let module = folder.join(MODULE);
        self.translate_exceptions(&main, &legacy, &module, poll)?;
        if let Some(cache) = cache {
            cache.keep(&module, MODULE, key);
        }
        Ok(module)
    }

    fn key(&self, main: &str, path: &ClassPath) -> Result<u64, Error> {
        let of_binaryen = self.0.join("npm/node_modules/binaryen/package.json");
        let entries = path
            .entries()
            .chain(["classes", "library"].map(|part| self.0.join(part)))
            .chain([self.jars(), of_binaryen]);
        let files = entries.map(|entry| hash_files(&entry).map_err(Error::unread(&entry)));
        let parts: Vec<String> = files.map(|hash| Ok(hash?.to_string())).collect::<Result<_, Error>>()?;
        Ok(crate::cache::key_of(parts.iter().map(String::as_str).chain([main])))
    }

    fn translate_classes(&self, main: &str, path: &ClassPath, folder: &Path, poll: Poll<'_>) -> Result<PathBuf, Error> {
        let own = std::env::join_paths([self.0.join("classes"), self.jars().join("*")]);
        let own = own.map_err(|_| Error::NoKit(self.0.clone()))?;
        let mut compile = Command::new("java");
        compile.arg("-Xss16m").arg("-cp").arg(own).args(["Compile", main]);
        compile.arg(folder).arg(LEGACY).arg(self.0.join("library")).args(path.entries());
        run(compile, main, poll)?;
        Ok(folder.join(LEGACY))
    }

    /// TeaVM emits the exceptions of the legacy proposal; wasmtime runs those of the standard.
    fn translate_exceptions(&self, main: &str, legacy: &Path, module: &Path, poll: Poll<'_>) -> Result<(), Error> {
        let mut translate = Command::new("node");
        translate.arg(self.translator()).arg(legacy).args(FEATURES).arg("--emit-exnref").arg("-o").arg(module);
        run(translate, main, poll)
    }
}

fn code_folder(name: &str, host: &Path) -> Option<PathBuf> {
    let key = hash_files(host).ok()?;
    Cache::of_user(name).and_then(|cache| cache.sole_folder(key).ok())
}

/// What is called while a tool runs: shows that the work goes on, or breaks it off.
type Poll<'a> = &'a mut dyn FnMut() -> ControlFlow<()>;

/// The time between two polls.
const POLL: Duration = Duration::from_millis(100);

/// The compiled program, and what TeaVM makes of it.
const MODULE: &str = "program.wasm";
const LEGACY: &str = "legacy.wasm";

/// What TeaVM's modules use.
const FEATURES: [&str; 10] = [
    "--enable-gc",
    "--enable-reference-types",
    "--enable-exception-handling",
    "--enable-bulk-memory",
    "--enable-sign-ext",
    "--enable-mutable-globals",
    "--enable-nontrapping-float-to-int",
    "--enable-multivalue",
    "--enable-extended-const",
    "--enable-tail-call",
];

/// Runs a tool to its end; returns what it printed if it refused.
fn run(mut tool: Command, main: &str, poll: Poll<'_>) -> Result<(), Error> {
    let refused = |why| Error::Java { main: main.to_owned(), why };
    let name = tool.get_program().to_owned();
    let failed = |cause| refused(format!("{}: {cause}", name.display()));
    let mut printed = tempfile::tempfile().map_err(failed)?;
    let [out, err] = [printed.try_clone().map_err(failed)?, printed.try_clone().map_err(failed)?];
    let mut child = tool.stdin(Stdio::null()).stdout(out).stderr(err).spawn().map_err(failed)?;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            break status;
        }
        if poll().is_break() {
            // It may have ended by itself.
            let _ = child.kill();
            child.wait().map_err(failed)?;
            return Err(Error::Stopped);
        }
        thread::sleep(POLL);
    };
    if status.success() {
        return Ok(());
    }
    let mut text = Vec::new();
    printed.rewind().and_then(|()| printed.read_to_end(&mut text)).map_err(failed)?;
    Err(refused(first_lines(&String::from_utf8_lossy(&text))))
}

/// The first problems of many, in one line.
fn first_lines(printed: &str) -> String {
    const SHOWN: usize = 3;
    let mut lines: Vec<&str> = printed.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let more = lines.len().saturating_sub(SHOWN);
    lines.truncate(SHOWN);
    let shown = lines.join("; ");
    match more {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_kit_must_be_whole() {
        let folder = tempfile::tempdir().unwrap();
        let kit = folder.path().join("lib/rampart/java");
        let program = folder.path().join("bin/rampart");
        assert!(matches!(JavaKit::of_program(&program), Err(Error::NoKit(path)) if path == kit));
        let parts = ["build/release/rampart-java", "classes/Compile.class", "npm/node_modules/binaryen/bin/wasm-opt"];
        for part in parts {
            fs::create_dir_all(kit.join(part).parent().unwrap()).unwrap();
            fs::write(kit.join(part), "").unwrap();
        }
        assert!(JavaKit::at(&kit).is_err(), "there are no jars");
        fs::create_dir(kit.join("jars")).unwrap();
        fs::create_dir(kit.join("library")).unwrap();
        assert_eq!(JavaKit::of_program(&program).unwrap().host(), kit.join(parts[0]));
        fs::rename(folder.path().join("lib/rampart/java"), folder.path().join("java")).unwrap();
        assert_eq!(JavaKit::of_program(&program).unwrap().host(), folder.path().join("java").join(parts[0]));
    }

    #[test]
    fn of_many_problems_the_first_are_told() {
        assert_eq!(first_lines("one\n\n two \n"), "one; two");
        assert_eq!(first_lines("1\n2\n3\n4\n5\n"), "1; 2; 3; and 2 more");
    }
}
