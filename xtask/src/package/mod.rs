//! A package for Debian and its kin: `target/package/rampart_VERSION_ARCHITECTURE.deb`.
//!
//! **Problem.** A binary alone has no unit for systemd, no man page, no completions, and no way to be upgraded or
//! removed. **Idea.** debhelper knows how Debian wants such files; so the optimized binary and what it writes about
//! itself are laid beside `packaging/debian`, and debhelper packs them. **Why not cargo-deb.** Units that are restarted
//! at an upgrade, and removed without a trace, are debhelper's work in both cases.

mod notices;

use std::path::Path;
use std::process::Command;

use crate::error::Error;
use crate::files::{self, copy, read, remove, target, write};
use crate::process::{cargo, output, run};

/// What debhelper does not change.
const AS_THEY_ARE: [&str; 7] =
    ["control", "rules", "rampart.docs", "rampart.install", "rampart.manpages", "rampart.postrm", "copyright"];

/// The units and the configuration, in `packaging/`.
const UNITS: [&str; 2] = ["rampart.service", "rampart-pools.service"];
const CONFIGURATION: &str = "watch.toml";

/// Shells, and the names that their completions must have.
const COMPLETIONS: [(&str, &str); 3] = [("bash", "rampart"), ("zsh", "_rampart"), ("fish", "rampart.fish")];

/// Makes the package. `revision` follows the version, as in `0.1.0+1`: an upgrade for tests.
pub fn make(tree: &Path, revision: Option<&str>) -> Result<(), Error> {
    run(cargo(tree).args(["build", "--release", "--package", "rampart-cli"]))?;
    let target = target(tree);
    let staged = target.join("package/rampart");
    remove(&staged)?;
    let binary = target.join("release/rampart");
    stage(tree, &binary, &staged)?;
    let version = output(Command::new(&binary).arg("--version"))?;
    let version = version.trim().trim_start_matches("rampart ").to_owned() + revision.unwrap_or_default();
    describe(tree, &staged, &version)?;
    // `-d`: nothing is compiled any more, so no compiler is asked for.
    run(Command::new("dpkg-buildpackage").current_dir(&staged).args(["-b", "-d", "-us", "-uc"]))?;
    let architecture = output(Command::new("dpkg").arg("--print-architecture"))?;
    println!("package: {}", target.join(format!("package/rampart_{version}_{}.deb", architecture.trim())).display());
    Ok(())
}

/// Lays the binary and its files into the folder.
fn stage(tree: &Path, binary: &Path, staged: &Path) -> Result<(), Error> {
    for folder in ["debian", "completions", "man"] {
        files::make(&staged.join(folder))?;
    }
    copy(binary, &staged.join("rampart"))?;
    copy(&tree.join("README.md"), &staged.join("README.md"))?;
    let packaging = tree.join("packaging");
    copy(&packaging.join(CONFIGURATION), &staged.join(CONFIGURATION))?;
    for unit in UNITS {
        copy(&packaging.join(unit), &staged.join("debian").join(format!("rampart.{unit}")))?;
    }
    for name in AS_THEY_ARE {
        copy(&packaging.join("debian").join(name), &staged.join("debian").join(name))?;
    }
    run(Command::new(binary).arg("man").arg(staged.join("man")))?;
    for (shell, name) in COMPLETIONS {
        let script = output(Command::new(binary).args(["completions", shell]))?;
        write(&staged.join("completions").join(name), &script)?;
    }
    write(&staged.join("THIRD-PARTY"), &notices::of(tree)?)
}

/// What depends on who packs which version, and when.
fn describe(tree: &Path, staged: &Path, version: &str) -> Result<(), Error> {
    let git = |arguments: &[&str]| output(Command::new("git").current_dir(tree).args(arguments));
    let packer = maintainer(|name| std::env::var(name).ok());
    let date = git(&["log", "-1", "--format=%aD"]).unwrap_or_else(|_| "Thu, 01 Jan 1970 00:00:00 +0000".to_owned());
    let text = format!(
        "rampart ({version}) unstable; urgency=medium\n\n  * CHANGELOG.md says what is new.\n\n -- {packer}  {}\n",
        date.trim()
    );
    let debian = staged.join("debian");
    write(&debian.join("changelog"), &text)?;
    replace(&debian.join("control"), "@MAINTAINER@", &packer)?;
    let licence = read(&tree.join("LICENSE-MIT"))?;
    replace(&debian.join("copyright"), "@MIT@", &indented(&licence))
}

/// As Debian's tools name who packs (debchange(1)).
fn maintainer(variable: impl Fn(&str) -> Option<String>) -> String {
    let or = |name: &str, other: &str| variable(name).filter(|value| !value.is_empty()).unwrap_or(other.to_owned());
    format!("{} <{}>", or("DEBFULLNAME", "Nobody named"), or("DEBEMAIL", "root@localhost.localdomain"))
}

/// A text as the value of a field of `debian/copyright` (its format 1.0, "Formatted text").
fn indented(text: &str) -> String {
    let line = |line: &str| if line.is_empty() { " .".to_owned() } else { format!(" {line}") };
    text.trim_end().lines().map(line).collect::<Vec<_>>().join("\n")
}

fn replace(path: &Path, mark: &str, value: &str) -> Result<(), Error> {
    let text = read(path)?.replace(mark, value);
    write(path, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_licence_is_a_field_without_empty_lines() {
        assert_eq!(indented("One\n\ntwo\n"), " One\n .\n two");
    }

    #[test]
    fn who_packs_is_named_as_debians_tools_do() {
        let of = |name: &str| (name == "DEBEMAIL").then(|| "a@b.org".to_owned());
        assert_eq!(maintainer(of), "Nobody named <a@b.org>");
        assert_eq!(maintainer(|_| Some(String::new())), maintainer(|_| None));
    }
}
