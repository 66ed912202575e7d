//! What a machine may lack that a test needs.

use std::fmt;

macro_rules! features {
    ($($(#[doc = $what:literal])+ $variant:ident = $name:literal,)+) => {
        /// What a test needs of the machine that it runs on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Feature {
            $($(#[doc = $what])+ $variant,)+
        }

        impl Feature {
            /// All.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Its name in lists and reports, which stays.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

features! {
    /// The rights of root.
    Root = "root",
    /// Mounts in a namespace of their own, as by `unshare --mount`.
    MountNamespace = "mount-namespace",
    /// Frame numbers in `/proc/PID/pagemap`: `CAP_SYS_ADMIN`, outside of containers.
    FrameNumbers = "frame-numbers",
    /// The flags of frames in `/proc/kpageflags`, for root only.
    FrameFlags = "frame-flags",
    /// Memory that may be locked beyond `RLIMIT_MEMLOCK`: `CAP_IPC_LOCK`.
    LockedMemory = "locked-memory",
    /// userfaultfd(2) for faults of a program's own code (Linux 5.11).
    Userfaultfd = "userfaultfd",
    /// userfaultfd(2) for faults of system calls too: `CAP_SYS_PTRACE`, a sysctl, or `/dev/userfaultfd`.
    UserfaultfdKernelFaults = "userfaultfd-kernel-faults",
    /// `UFFDIO_MOVE` (Linux 6.8).
    UserfaultfdMove = "userfaultfd-move",
    /// Minor faults of shared memory (Linux 5.14).
    UserfaultfdMinor = "userfaultfd-minor",
    /// Write protection of anonymous memory (Linux 5.7); the asynchronous one came with 6.7.
    UserfaultfdWriteProtect = "userfaultfd-write-protect",
    /// A page of a file that is write-protected when it is mapped (`UFFDIO_CONTINUE_MODE_WP`, Linux 6.4).
    UserfaultfdProtectedContinue = "userfaultfd-protected-continue",
    /// io_uring with registered buffers.
    IoUring = "io-uring",
    /// Transparent huge pages, and free memory in one piece for them.
    TransparentHugePages = "transparent-huge-pages",
    /// Huge pages of 2 MiB in the kernel's pool.
    HugePagePool = "huge-page-pool",
    /// A control group that can be made, with a limit of memory.
    ControlGroup = "control-group",
    /// A file that the kernel may swap to.
    Swap = "swap",
    /// The kernel's trace events.
    Tracefs = "tracefs",
    /// Core dumps into the program's folder.
    CoreDumps = "core-dumps",
    /// Blocks of memory in `/sys/devices/system/memory`.
    MemoryBlocks = "memory-blocks",
    /// Headers of the running kernel, of a version that the kernel module is made for.
    KernelHeaders = "kernel-headers",
    /// The kernel module of Rampart's.
    KernelModule = "kernel-module",
    /// No kernel module of Rampart's: with it, commands do what the test expects to be refused.
    KernelModuleAbsent = "kernel-module-absent",
    /// No firmware that injects memory errors: there, the test would inject one.
    ErrorInjectionAbsent = "error-injection-absent",
    /// A time-stamp counter that goes at one speed.
    TimeStampCounter = "time-stamp-counter",
    /// Instructions of newer CPUs.
    CpuInstructions = "cpu-instructions",
    /// Two CPUs.
    TwoCpus = "two-cpus",
    /// Pages of 4 KiB.
    SmallPages = "small-pages",
    /// So much free memory.
    FreeMemory = "free-memory",
    /// Signals that whoever started the tests has not ignored.
    DefaultSignals = "default-signals",
    /// What a setting of `rampart-trials` is made of.
    HostileSetting = "hostile-setting",
    /// A C compiler.
    CCompiler = "c-compiler",
    /// A C++ compiler.
    CxxCompiler = "cxx-compiler",
    /// A C library to link statically.
    StaticLibc = "static-libc",
    /// The sanitizers of the C compiler.
    Sanitizers = "sanitizers",
    /// The C library musl.
    Musl = "musl",
    /// `addr2line` of the binutils.
    Addr2line = "addr2line",
    /// `bash`.
    Bash = "bash",
    /// `perl`.
    Perl = "perl",
    /// `python3`.
    Python = "python3",
    /// `node`.
    Node = "node",
    /// `sqlite3`.
    Sqlite = "sqlite3",
    /// `setpriv` of util-linux.
    Setpriv = "setpriv",
    /// Any other program.
    Program = "program",
    /// `systemd-analyze`, which judges a unit that is not installed.
    SystemdAnalyze = "systemd-analyze",
    /// Any MPI.
    Mpi = "mpi",
    /// Open MPI of the distribution.
    OpenMpi = "openmpi",
    /// MPICH of the distribution.
    Mpich = "mpich",
    /// Open MPI 5, in `target/openmpi5`.
    OpenMpi5 = "openmpi5",
    /// MPICH 5, in `target/mpich5`.
    Mpich5 = "mpich5",
    /// A Fortran compiler for the MPI.
    Gfortran = "gfortran",
    /// Slurm.
    Slurm = "slurm",
    /// QEMU for x86-64.
    Qemu = "qemu",
    /// The host of Java programs with wasmtime's own collector, which `java/build copying` builds.
    CopyingHost = "copying-host",
    /// The compiler's library for a target without an operating system.
    BareTarget = "bare-target",
    /// cargo-deny, which no registry has as a program.
    CargoDeny = "cargo-deny",
    /// A compiler for aarch64 with the standard library, and a linker.
    Aarch64 = "aarch64",
    /// A processor of x86-64.
    X86 = "x86-64",
}

impl Feature {
    /// The feature with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|feature| feature.name() == name)
    }

    /// What a program of this name is called here.
    #[must_use]
    pub fn of_program(program: &str) -> Self {
        match program.rsplit('/').next().unwrap_or(program) {
            "cc" => Self::CCompiler,
            "c++" => Self::CxxCompiler,
            "musl-gcc" => Self::Musl,
            name => Self::named(name).unwrap_or(Self::Program),
        }
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_plain() {
        for feature in Feature::ALL {
            let name = feature.name();
            assert_eq!(Feature::named(name), Some(*feature), "{name} is there once");
            assert!(name.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-'));
        }
    }

    #[test]
    fn a_program_is_known_by_its_name_or_path() {
        for (program, feature) in [
            ("cc", Feature::CCompiler),
            ("/usr/bin/python3", Feature::Python),
            ("setpriv", Feature::Setpriv),
            ("sort", Feature::Program),
        ] {
            assert_eq!(Feature::of_program(program), feature, "{program}");
        }
    }
}
