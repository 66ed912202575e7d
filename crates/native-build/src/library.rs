//! Libraries that are preloaded into MPI programs and interpose their MPI functions.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use crate::cache::{Cache, key_of};
use crate::compiler::Compiler;
use crate::error::Error;
use crate::wrappers::{counting, recording, replicating};

const TRACE_CALLS: &str = include_str!("../../../mpi/trace/calls.h");
const COLLECTIVES: &str = include_str!("../../../mpi/redmpi/collectives.h");
const FUNCTIONS: &str = include_str!("../../../mpi/redmpi/functions.txt");

/// The file that says which functions of a library others can call.
const EXPORTED: &str = "exported.map";

/// The compiler's options.
const OPTIONS: [&str; 9] =
    ["-std=gnu11", "-D_GNU_SOURCE", "-O2", "-g0", "-fno-lto", "-fPIC", "-shared", "-pthread", "-Wl,-z,lazy"];

/// What the library that counts the calls of one function needs.
const COUNTER: (&str, &str) = ("timesteps.h", include_str!("../../../mpi/redmpi/timesteps.h"));

/// The names of Fortran's functions, its calls with requests, and what a library shows, for all libraries.
const SHARED: [(&str, &str); 4] = [
    (EXPORTED, include_str!("../../../mpi/exported.map")),
    ("fortran.h", include_str!("../../../mpi/fortran/fortran.h")),
    ("standard_abi.h", include_str!("../../../mpi/fortran/standard_abi.h")),
    ("requests_fortran.c", include_str!("../../../mpi/fortran/requests_fortran.c")),
];

/// A library of wrappers around functions of MPI (the profiling interface, PMPI).
#[derive(Clone, Copy, Debug)]
pub struct Library {
    /// Its description, for messages.
    what: &'static str,
    /// The name of its file.
    file: &'static str,
    /// Generates its wrappers from a preprocessed `mpi.h`.
    wrappers: fn(&str) -> String,
    /// Its C sources and headers, by name.
    sources: &'static [(&'static str, &'static str)],
}

impl Library {
    /// Records the calls of each rank into the folder that `RAMPART_TRACE` names.
    pub const TRACE: Self = Self {
        what: "the library that records",
        file: "librampart-trace.so",
        wrappers: |header| recording::generate(header, TRACE_CALLS),
        sources: &[
            ("calls.h", TRACE_CALLS),
            ("calls.c", include_str!("../../../mpi/trace/calls.c")),
            ("life.h", include_str!("../../../mpi/trace/life.h")),
            ("life.c", include_str!("../../../mpi/trace/life.c")),
            ("record.h", include_str!("../../../mpi/trace/record.h")),
            ("record.c", include_str!("../../../mpi/trace/record.c")),
            ("requests.c", include_str!("../../../mpi/trace/requests.c")),
        ],
    };

    /// Runs replicas of each rank and compares what they receive [Fiala15, chapter 3]. `RAMPART_REPLICAS` says how
    /// many, and `RAMPART_REDMPI` names the folder for its reports.
    pub const REDMPI: Self = Self {
        what: "the library that compares replicas",
        file: "librampart-redmpi.so",
        wrappers: |header| replicating::generate(header, FUNCTIONS, COLLECTIVES),
        sources: &[
            ("agreement.c", include_str!("../../../mpi/redmpi/agreement.c")),
            ("agreement.h", include_str!("../../../mpi/redmpi/agreement.h")),
            ("atomics.c", include_str!("../../../mpi/redmpi/atomics.c")),
            ("bindings.c", include_str!("../../../mpi/redmpi/bindings.c")),
            ("bindings.h", include_str!("../../../mpi/redmpi/bindings.h")),
            ("callers.c", include_str!("../../../mpi/redmpi/callers.c")),
            ("callers.h", include_str!("../../../mpi/redmpi/callers.h")),
            ("clocks.c", include_str!("../../../mpi/redmpi/clocks.c")),
            ("clocks.h", include_str!("../../../mpi/redmpi/clocks.h")),
            ("collectives.c", include_str!("../../../mpi/redmpi/collectives.c")),
            ("collectives.h", COLLECTIVES),
            ("commons.c", include_str!("../../../mpi/redmpi/commons.c")),
            ("communicators.c", include_str!("../../../mpi/redmpi/communicators.c")),
            ("commons.h", include_str!("../../../mpi/redmpi/commons.h")),
            ("communicators.h", include_str!("../../../mpi/redmpi/communicators.h")),
            ("compare.c", include_str!("../../../mpi/redmpi/compare.c")),
            ("compare.h", include_str!("../../../mpi/redmpi/compare.h")),
            ("comparison.c", include_str!("../../../mpi/redmpi/comparison.c")),
            ("comparison.h", include_str!("../../../mpi/redmpi/comparison.h")),
            ("completion.c", include_str!("../../../mpi/redmpi/completion.c")),
            ("connections.c", include_str!("../../../mpi/redmpi/connections.c")),
            ("connections.h", include_str!("../../../mpi/redmpi/connections.h")),
            ("deaths.c", include_str!("../../../mpi/redmpi/deaths.c")),
            ("deaths.h", include_str!("../../../mpi/redmpi/deaths.h")),
            ("decisions.c", include_str!("../../../mpi/redmpi/decisions.c")),
            ("decisions.h", include_str!("../../../mpi/redmpi/decisions.h")),
            ("digest.c", include_str!("../../../mpi/redmpi/digest.c")),
            ("digest.h", include_str!("../../../mpi/redmpi/digest.h")),
            ("drops.c", include_str!("../../../mpi/redmpi/drops.c")),
            ("drops.h", include_str!("../../../mpi/redmpi/drops.h")),
            ("duplicates.c", include_str!("../../../mpi/redmpi/duplicates.c")),
            ("duplicates.h", include_str!("../../../mpi/redmpi/duplicates.h")),
            ("early.c", include_str!("../../../mpi/redmpi/early.c")),
            ("early.h", include_str!("../../../mpi/redmpi/early.h")),
            ("ending.c", include_str!("../../../mpi/redmpi/ending.c")),
            ("ending.h", include_str!("../../../mpi/redmpi/ending.h")),
            ("envelopes.c", include_str!("../../../mpi/redmpi/envelopes.c")),
            ("envelopes.h", include_str!("../../../mpi/redmpi/envelopes.h")),
            ("events.c", include_str!("../../../mpi/redmpi/events.c")),
            ("events.h", include_str!("../../../mpi/redmpi/events.h")),
            ("exchanges.c", include_str!("../../../mpi/redmpi/exchanges.c")),
            ("exchanges.h", include_str!("../../../mpi/redmpi/exchanges.h")),
            ("files.c", include_str!("../../../mpi/redmpi/files.c")),
            ("files.h", include_str!("../../../mpi/redmpi/files.h")),
            ("files_changes.c", include_str!("../../../mpi/redmpi/files_changes.c")),
            ("files_looks.c", include_str!("../../../mpi/redmpi/files_looks.c")),
            ("generalized.c", include_str!("../../../mpi/redmpi/generalized.c")),
            ("generalized.h", include_str!("../../../mpi/redmpi/generalized.h")),
            ("hand_over.c", include_str!("../../../mpi/redmpi/hand_over.c")),
            ("hand_over.h", include_str!("../../../mpi/redmpi/hand_over.h")),
            ("handlers.c", include_str!("../../../mpi/redmpi/handlers.c")),
            ("handlers.h", include_str!("../../../mpi/redmpi/handlers.h")),
            ("hash.c", include_str!("../../../mpi/redmpi/hash.c")),
            ("hash.h", include_str!("../../../mpi/redmpi/hash.h")),
            ("hash_avx2.c", include_str!("../../../mpi/redmpi/hash_avx2.c")),
            ("hash_avx512.c", include_str!("../../../mpi/redmpi/hash_avx512.c")),
            ("hash_wide.h", include_str!("../../../mpi/redmpi/hash_wide.h")),
            ("heap.c", include_str!("../../../mpi/redmpi/heap.c")),
            ("heap.h", include_str!("../../../mpi/redmpi/heap.h")),
            ("history.c", include_str!("../../../mpi/redmpi/history.c")),
            ("history.h", include_str!("../../../mpi/redmpi/history.h")),
            ("identity.c", include_str!("../../../mpi/redmpi/identity.c")),
            ("identity.h", include_str!("../../../mpi/redmpi/identity.h")),
            ("injector.c", include_str!("../../../mpi/redmpi/injector.c")),
            ("injector.h", include_str!("../../../mpi/redmpi/injector.h")),
            ("io.c", include_str!("../../../mpi/redmpi/io.c")),
            ("leaving.c", include_str!("../../../mpi/redmpi/leaving.c")),
            ("leaving.h", include_str!("../../../mpi/redmpi/leaving.h")),
            ("life.c", include_str!("../../../mpi/redmpi/life.c")),
            ("life.h", include_str!("../../../mpi/redmpi/life.h")),
            ("life_fortran.c", include_str!("../../../mpi/redmpi/life_fortran.c")),
            ("log.c", include_str!("../../../mpi/redmpi/log.c")),
            ("log.h", include_str!("../../../mpi/redmpi/log.h")),
            ("map.c", include_str!("../../../mpi/redmpi/map.c")),
            ("map.h", include_str!("../../../mpi/redmpi/map.h")),
            ("marks.c", include_str!("../../../mpi/redmpi/marks.c")),
            ("marks.h", include_str!("../../../mpi/redmpi/marks.h")),
            ("matched.c", include_str!("../../../mpi/redmpi/matched.c")),
            ("memory.c", include_str!("../../../mpi/redmpi/memory.c")),
            ("messages.c", include_str!("../../../mpi/redmpi/messages.c")),
            ("messages.h", include_str!("../../../mpi/redmpi/messages.h")),
            ("neighbors.c", include_str!("../../../mpi/redmpi/neighbors.c")),
            ("neighbors.h", include_str!("../../../mpi/redmpi/neighbors.h")),
            ("partitions.c", include_str!("../../../mpi/redmpi/partitions.c")),
            ("partitions.h", include_str!("../../../mpi/redmpi/partitions.h")),
            ("paths.c", include_str!("../../../mpi/redmpi/paths.c")),
            ("paths.h", include_str!("../../../mpi/redmpi/paths.h")),
            ("probes.c", include_str!("../../../mpi/redmpi/probes.c")),
            ("probes.h", include_str!("../../../mpi/redmpi/probes.h")),
            ("process.c", include_str!("../../../mpi/redmpi/process.c")),
            ("progress.c", include_str!("../../../mpi/redmpi/progress.c")),
            ("progress.h", include_str!("../../../mpi/redmpi/progress.h")),
            ("protocol.c", include_str!("../../../mpi/redmpi/protocol.c")),
            ("protocol.h", include_str!("../../../mpi/redmpi/protocol.h")),
            ("randomness.c", include_str!("../../../mpi/redmpi/randomness.c")),
            ("randomness.h", include_str!("../../../mpi/redmpi/randomness.h")),
            ("receives.c", include_str!("../../../mpi/redmpi/receives.c")),
            ("receives.h", include_str!("../../../mpi/redmpi/receives.h")),
            ("remote.c", include_str!("../../../mpi/redmpi/remote.c")),
            ("requests.c", include_str!("../../../mpi/redmpi/requests.c")),
            ("requests.h", include_str!("../../../mpi/redmpi/requests.h")),
            ("shared_pointers.c", include_str!("../../../mpi/redmpi/shared_pointers.c")),
            ("shared_pointers.h", include_str!("../../../mpi/redmpi/shared_pointers.h")),
            ("sockets.c", include_str!("../../../mpi/redmpi/sockets.c")),
            ("sockets.h", include_str!("../../../mpi/redmpi/sockets.h")),
            ("spare_heap.c", include_str!("../../../mpi/redmpi/spare_heap.c")),
            ("spare_heap.h", include_str!("../../../mpi/redmpi/spare_heap.h")),
            ("succession.c", include_str!("../../../mpi/redmpi/succession.c")),
            ("succession.h", include_str!("../../../mpi/redmpi/succession.h")),
            ("teams.c", include_str!("../../../mpi/redmpi/teams.c")),
            ("teams.h", include_str!("../../../mpi/redmpi/teams.h")),
            ("temporary.c", include_str!("../../../mpi/redmpi/temporary.c")),
            ("time_stamps.c", include_str!("../../../mpi/redmpi/time_stamps.c")),
            ("time_stamps.h", include_str!("../../../mpi/redmpi/time_stamps.h")),
            ("timesteps.c", include_str!("../../../mpi/redmpi/timesteps.c")),
            ("timesteps.h", include_str!("../../../mpi/redmpi/timesteps.h")),
            ("tickets.c", include_str!("../../../mpi/redmpi/tickets.c")),
            ("tickets.h", include_str!("../../../mpi/redmpi/tickets.h")),
            ("vote.c", include_str!("../../../mpi/redmpi/vote.c")),
            ("vote.h", include_str!("../../../mpi/redmpi/vote.h")),
            ("waits.c", include_str!("../../../mpi/redmpi/waits.c")),
            ("waits.h", include_str!("../../../mpi/redmpi/waits.h")),
            ("windows.c", include_str!("../../../mpi/redmpi/windows.c")),
            ("windows.h", include_str!("../../../mpi/redmpi/windows.h")),
            ("xxhash.h", include_str!(env!("RAMPART_XXHASH"))),
        ],
    };

    /// Builds the library that counts the calls of a function as steps of the program, to be preloaded before
    /// [`Library::REDMPI`].
    ///
    /// # Errors
    /// [`Error::NoFunction`] if `mpi.h` has no such function, [`Error::Sources`] if the folder cannot be written to,
    /// [`Error::Compiler`] if the compiler refuses the sources.
    pub fn build_counter(compiler: &Compiler, folder: &Path, function: &str) -> Result<PathBuf, Error> {
        const WHAT: &str = "the library that counts steps";
        let unwritten = Error::unwritten(folder);
        let declared = declared_by(compiler, folder, WHAT)?;
        let wrapper = counting::generate(&declared, function).ok_or_else(|| Error::NoFunction(function.to_owned()))?;
        let (source, library) = (folder.join("counter.c"), folder.join("librampart-timesteps.so"));
        fs::write(&source, wrapper).map_err(&unwritten)?;
        fs::write(folder.join(COUNTER.0), COUNTER.1).map_err(&unwritten)?;
        let mut words: Vec<&OsStr> = OPTIONS.map(OsStr::new).to_vec();
        words.extend(["-I".as_ref(), folder.as_os_str(), "-o".as_ref(), library.as_ref(), source.as_ref()]);
        compiler.run(WHAT, &words)?;
        Ok(library)
    }

    fn all_sources(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.sources.iter().copied().chain(SHARED)
    }

    /// Builds the library in a folder, or copies it there if the same was built before.
    ///
    /// # Errors
    /// [`Error::Sources`] if the folder cannot be written to, [`Error::Compiler`] if the compiler refuses the sources.
    pub fn build(&self, compiler: &Compiler, folder: &Path) -> Result<PathBuf, Error> {
        let declared = declared_by(compiler, folder, self.what)?;
        let wrappers = (self.wrappers)(&declared);
        let Some(cache) = Cache::of_user("built") else { return self.compile(compiler, folder, &wrappers) };
        let key = self.key(compiler, &declared, &wrappers)?;
        if let Some(library) = cache.fetch(self.file, key, folder) {
            return Ok(library);
        }
        let library = self.compile(compiler, folder, &wrappers)?;
        cache.keep(&library, self.file, key);
        Ok(library)
    }

    /// Of all that the library is built from. Macros are those of `mpi.h`, and the compiler's version.
    fn key(&self, compiler: &Compiler, declared: &str, wrappers: &str) -> Result<u64, Error> {
        let ask = ["-E", "-dM", "-include", "mpi.h", "-x", "c", "/dev/null"];
        let macros = compiler.run(self.what, &ask.map(OsStr::new))?;
        let name = compiler.name().to_string_lossy();
        // Lines that name files name the folder of this job.
        let declared = declared.lines().filter(|line| !line.starts_with('#'));
        let sources = self.all_sources().flat_map(|(name, text)| [name, text]);
        let rest = [wrappers, &macros, &name];
        Ok(key_of(OPTIONS.into_iter().chain(rest).chain(sources).chain(declared)))
    }

    fn compile(&self, compiler: &Compiler, folder: &Path, wrappers: &str) -> Result<PathBuf, Error> {
        let unwritten = Error::unwritten(folder);
        fs::write(folder.join("wrappers.c"), wrappers).map_err(&unwritten)?;
        for (name, text) in self.all_sources() {
            fs::write(folder.join(name), text).map_err(&unwritten)?;
        }
        let library = folder.join(self.file);
        let names = self.all_sources().map(|(name, _)| name).chain(["wrappers.c"]);
        let sources = names.filter(|name| name.ends_with(".c"));
        let sources: Vec<OsString> = sources.map(|name| folder.join(name).into_os_string()).collect();
        let mut words: Vec<&OsStr> = OPTIONS.map(OsStr::new).to_vec();
        let mut exported = OsString::from("-Wl,--version-script=");
        exported.push(folder.join(EXPORTED));
        words.extend([exported.as_os_str(), "-I".as_ref(), folder.as_os_str(), "-o".as_ref(), library.as_ref()]);
        words.extend(sources.iter().map(OsString::as_os_str));
        compiler.run(self.what, &words)?;
        Ok(library)
    }
}

/// Returns what `mpi.h` declares.
fn declared_by(compiler: &Compiler, folder: &Path, what: &'static str) -> Result<String, Error> {
    let header = folder.join("header.c");
    fs::write(&header, "#include <mpi.h>\n").map_err(Error::unwritten(folder))?;
    compiler.run(what, &["-E".as_ref(), header.as_ref()])
}
