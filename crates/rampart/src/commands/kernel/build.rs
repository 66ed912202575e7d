//! `rampart kernel build`.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rampart_linux::Roots;
use rampart_linux::kernel_module::{ModuleFile, ModuleRefusal, running_release};
use rampart_native_build::{KernelHeaders, ModuleBuild, ModuleSources};
use serde_json::json;

use super::MODULE;
use super::arguments::KernelBuildArguments;
use crate::error::Error;
use crate::output::progress::WaitProgress;
use crate::output::text;
use crate::process::program::ChildProgram;

/// The pause between two steps of the progress.
const PAUSE: Duration = Duration::from_millis(100);

/// The log of the last build that failed, in the folder of modules.
const LOG: &str = "build.log";

/// The lines of that log that are shown.
const LINES_SHOWN: usize = 10;

/// Builds the module, keeps it, and returns 0.
pub fn run(arguments: &KernelBuildArguments) -> Result<u8, Error> {
    let running = running_release(&Roots::default());
    let wanted = arguments.kernel.as_deref().unwrap_or(&running);
    let headers = match &arguments.headers {
        Some(folder) => KernelHeaders::named(folder)?,
        None => KernelHeaders::of_release(Path::new(KernelHeaders::MODULES), wanted)?,
    };
    let modules = &arguments.folder.modules;
    let unkept = |cause| Error::ModuleFolder { path: modules.clone(), cause };
    fs::create_dir_all(modules).map_err(unkept)?;
    // Beside the modules, so that the new one is moved to its place in one step.
    let folder = tempfile::Builder::new().prefix(".build-").tempdir_in(modules).map_err(unkept)?;
    let sources = arguments.sources.clone().map_or(ModuleSources::Ours, ModuleSources::Folder);
    let log = modules.join(LOG);
    let path = folder.path().canonicalize().map_err(unkept)?;
    let built = build(&sources, &headers, &path, &log)?;
    let unread = |cause| ModuleRefusal::Unread { path: built.clone(), cause };
    let module = ModuleFile::read(&built).map_err(unread)?.ok_or(Error::ForeignModule)?;
    let release = module.release();
    if arguments.headers.is_none() && release != wanted {
        let (folder, found, wanted) = (headers.folder().to_owned(), release.to_owned(), wanted.to_owned());
        return Err(Error::OtherHeaders { folder, found, wanted });
    }
    let kept = keep(&built, &modules.join(release)).map_err(unkept)?;
    // Only a build that failed has a log.
    let _none = fs::remove_file(log);
    report(arguments, &module, &kept, release == running)
}

fn build(sources: &ModuleSources, headers: &KernelHeaders, folder: &Path, log: &Path) -> Result<PathBuf, Error> {
    let build = ModuleBuild::prepare(sources, headers.clone(), folder)?;
    let progress = WaitProgress::new(format!("building the module with {}", headers.folder().display()));
    let status = ChildProgram::start(build.command()?)?.wait(PAUSE, || progress.tick());
    progress.end();
    let status = status?;
    if status.signal().is_some() {
        return Err(Error::BuildStopped);
    }
    build.module(status.success(), log).map_err(|error| {
        if matches!(error, rampart_native_build::Error::Make { .. }) {
            show_end(log);
        }
        error.into()
    })
}

/// Shows the last lines of a log on standard error.
fn show_end(log: &Path) {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines.iter().skip(lines.len().saturating_sub(LINES_SHOWN)).for_each(|line| eprintln!("{line}"));
}

/// Moves the module into the folder of its kernel.
fn keep(built: &Path, folder: &Path) -> std::io::Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let kept = folder.join(MODULE);
    fs::rename(built, &kept)?;
    Ok(kept)
}

fn report(arguments: &KernelBuildArguments, module: &ModuleFile, kept: &Path, is_running: bool) -> Result<u8, Error> {
    if arguments.json {
        text::print_json(&json!({
            "schema": "rampart.kernel-build/1",
            "module": kept,
            "release": module.release(),
            "running": is_running,
            "vermagic": module.vermagic,
            "signed": module.signed,
        }))?;
    } else {
        let next = if is_running { "`rampart kernel load` loads it" } else { "that kernel is not running" };
        text::print(&format!("built       {} for kernel {}; {next}\n", kept.display(), module.release()))?;
    }
    Ok(0)
}
