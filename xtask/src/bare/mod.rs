//! A newcomer's first minutes: both commands of README's section "Start", on a bare Debian root.
//!
//! **Problem.** On a developer's machine everything is installed, so nobody notices a package that README forgets.
//! **Idea.** debootstrap makes the smallest possible Debian. Add the packages that README names, the Rust toolchain of
//! this machine, and the committed tree; then run the commands exactly as README has them. `.ci/run` does the same in a
//! second root, with the packages that it installs by itself. The package for Debian is installed, used, upgraded and
//! purged. **Why roots and no images.** They need only debootstrap.
//!
//! A root lies in `target/bare` while it is in use. Mounts and processes are in separate namespaces, so nothing remains
//! of them.

mod machine;
mod readme;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::error::Error;
use crate::files::{make, remove, target, write};
use crate::process::{output, run};
use readme::Start;

/// The Debian release on which README is tried.
const SUITE: &str = "bookworm";

/// The folder of the tree in a root.
const TREE: &str = "/rampart";

/// The script that mounts what a root needs, and runs a command in it.
const ENTER: &str = "enter.sh";

/// The script, in the tree, that makes the package and tries it.
const PACKAGE: &str = "xtask/src/bare/package.sh";

/// Certificates that this machine trusts in addition to Debian's.
const OWN_CERTIFICATES: &str = "usr/local/share/ca-certificates";

/// The part of README that is tried.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The first command.
    First,
    /// The first command, and the package that is made of what it built.
    Package,
    /// Both commands, the package, and `.ci/run` without its tests, which the second command runs.
    All,
}

/// Tries README's commands in bare roots.
pub fn try_readme(tree: &Path, extent: Extent) -> Result<(), Error> {
    let text = output(Command::new("git").current_dir(tree).args(["show", "HEAD:README.md"]))?;
    let start = Start::of(&text).ok_or(Error::NoStart)?;
    let bare = Bare::make(tree)?;
    let install =
        format!("apt-get update -qq && apt-get install -y -qq --no-install-recommends {}", start.packages.join(" "));
    let tried = if extent == Extent::All { &start.commands[..] } else { &start.commands[..1] };
    let package = format!("sh {PACKAGE}");
    let packed = (extent != Extent::First).then_some(&package);
    bare.try_in("readme", std::iter::once(&install).chain(tried).chain(packed))?;
    if extent == Extent::All {
        bare.try_in("ci", [&".ci/run check".to_owned()])?;
    }
    println!("bare: passed on {SUITE} with {}", start.packages.join(" "));
    Ok(())
}

/// A folder of roots, removed when dropped.
struct Bare {
    folder: PathBuf,
    toolchain: String,
}

impl Bare {
    /// Makes a root to copy others from, with the tree of the last commit.
    fn make(tree: &Path) -> Result<Self, Error> {
        let target = target(tree);
        let folder = target.join("bare");
        remove(&folder)?;
        make(&folder)?;
        let toolchain = output(Command::new("rustc").args(["--print", "sysroot"]).current_dir(tree))?.trim().to_owned();
        let bare = Self { folder, toolchain };
        write(&bare.folder.join(ENTER), include_str!("enter.sh"))?;
        bare.bootstrap(&target)?;
        let archive = bare.folder.join("tree.tar");
        run(Command::new("git").current_dir(tree).args(["archive", "HEAD", "--output"]).arg(&archive))?;
        let inside = bare.root("base").join(&TREE[1..]);
        make(&inside)?;
        run(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&inside))?;
        Ok(bare)
    }

    fn root(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The smallest Debian, with this machine's ways to the registries.
    fn bootstrap(&self, target: &Path) -> Result<(), Error> {
        let archives = machine::archives(&output(Command::new("apt-get").args(machine::TARGETS))?, SUITE);
        let mirror = machine::mirror(&archives, SUITE).ok_or(Error::NoArchive(SUITE))?;
        let root = self.root("base");
        let packages = target.join("debootstrap");
        make(&packages)?;
        let mut debootstrap = Command::new("unshare");
        debootstrap.args(["--mount", "--propagation", "private", "debootstrap", "--variant=minbase"]);
        run(debootstrap.arg("--cache-dir").arg(&packages).arg(SUITE).arg(&root).arg(mirror))?;
        write(&root.join("etc/apt/sources.list"), &machine::sources(&archives))?;
        let settings = output(Command::new("apt-config").args(["dump", "Acquire"]))?;
        write(&root.join("etc/apt/apt.conf.d/90machine"), &settings)?;
        copy_if_there(Path::new("/etc/hosts"), &root.join("etc/hosts"))?;
        copy_if_there(&Path::new("/").join(OWN_CERTIFICATES), &root.join(OWN_CERTIFICATES))?;
        let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        if let Some(home) = home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo"))) {
            copy_if_there(&home.join("config.toml"), &root.join("root/.cargo/config.toml"))?;
        }
        Ok(())
    }

    /// Runs commands one after the other in a copy of the first root, each in the tree.
    fn try_in<'a>(&self, name: &str, commands: impl IntoIterator<Item = &'a String>) -> Result<(), Error> {
        let root = self.root(name);
        run(Command::new("cp").arg("-a").arg(self.root("base")).arg(&root))?;
        for command in commands {
            let start = Instant::now();
            eprintln!("== bare: {command}");
            run(&mut self.inside(&root, command))?;
            eprintln!("== bare: `{command}` passed in {} s\n", start.elapsed().as_secs());
        }
        remove(&root)
    }

    /// One command in a root.
    fn inside(&self, root: &Path, command: &str) -> Command {
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "--pid", "--fork", "--kill-child", "--propagation", "private", "sh"]);
        unshare.arg(self.folder.join(ENTER)).arg(root).arg(&self.toolchain);
        unshare.args(["sh", "-c", &format!("cd {TREE} && {command}")]);
        unshare
            .env_clear()
            .envs(std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(machine::is_of_registries)));
        unshare.env("PATH", "/opt/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        unshare.env("HOME", "/root").env("DEBIAN_FRONTEND", "noninteractive").stdin(std::process::Stdio::null());
        unshare
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.folder) {
            eprintln!("xtask: {error}");
        }
    }
}

/// Copies a file, or a folder of files.
fn copy_if_there(from: &Path, to: &Path) -> Result<(), Error> {
    if !from.exists() {
        return Ok(());
    }
    let folder = to.parent().expect("it is in a folder");
    make(folder)?;
    run(Command::new("cp").arg("-RTL").arg(from).arg(to))
}
