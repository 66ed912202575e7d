//! `rampart kernel` on this machine. No test loads a module: that needs a machine of its own (`cargo xtask qemu`).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rampart_skips::{Feature, skip};

use crate::harness::{CommandOutput, Rampart, end, signal, wait_until_it_catches_interrupts};

/// A recipe that checks what the kernel's makefiles would get, and makes what is looked at of a module.
const BUILDS: &str = "test -f $(M)/Kbuild && test -f $(M)/rampart_main.c && echo noise && \
                      printf '\\177ELF\\000name=rampart\\000vermagic=6.1.0-test SMP \\000' > $(M)/rampart.ko";

/// Headers whose makefile builds modules by a recipe.
fn headers(rampart: &Rampart, recipe: &str) -> String {
    let folder = rampart.folder().join("headers");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("Makefile"), format!("modules:\n\t@{recipe}\n")).unwrap();
    folder.to_str().unwrap().to_owned()
}

fn modules(rampart: &Rampart) -> PathBuf {
    rampart.folder().join("modules")
}

/// Runs a command, with modules in a folder of the test's own.
fn run(rampart: &Rampart, words: &[&str]) -> CommandOutput {
    let folder = modules(rampart);
    rampart.run(&[&["kernel"], words, &["--modules", folder.to_str().unwrap()]].concat())
}

/// Whatever is refused is refused in one line, and leaves no module and no folder of a build.
fn refused(rampart: &Rampart, output: &CommandOutput, says: &str) {
    assert_eq!((output.code, output.out.as_str(), output.err.lines().count()), (Some(2), "", 1), "{output:?}");
    assert!(output.err.contains(says), "{says:?}: {output:?}");
    assert_eq!(folders(&modules(rampart)), [""; 0], "{output:?}");
}

fn folders(parent: &Path) -> Vec<String> {
    let entries = fs::read_dir(parent).into_iter().flatten().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_dir()).map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect()
}

fn running_release() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease").unwrap().trim().to_owned()
}

#[test]
fn a_module_is_built_from_the_sources_in_the_binary_and_kept_for_its_kernel() {
    let rampart = Rampart::new();
    let headers = headers(&rampart, BUILDS);
    let built = run(&rampart, &["build", "--headers", &headers, "--json"]);
    let kept = modules(&rampart).join("6.1.0-test/rampart.ko");
    let report = built.json();
    assert_eq!((built.code, built.err.as_str()), (Some(0), ""), "quiet in a pipe: {built:?}");
    assert_eq!((&report["schema"], &report["release"]), (&"rampart.kernel-build/1".into(), &"6.1.0-test".into()));
    assert_eq!((&report["module"], &report["running"]), (&kept.to_str().unwrap().into(), &false.into()), "{report}");
    assert_eq!(folders(&modules(&rampart)), ["6.1.0-test"]);
    let again = run(&rampart, &["build", "--headers", &headers]);
    assert!(
        again.code == Some(0) && again.out.contains("for kernel 6.1.0-test; that kernel is not running"),
        "{again:?}"
    );
    let status = run(&rampart, &["status", "--json"]).json();
    assert_eq!(status["built"][0]["release"], "6.1.0-test", "{status}");
    let text = run(&rampart, &["status"]);
    let line = "built       for 6.1.0-test, not for the running one: `rampart kernel build`\n";
    assert!(text.code == Some(0) && text.out.contains(line), "{text:?}");
}

#[test]
fn what_a_build_lacks_is_said_in_one_line() {
    let rampart = Rampart::new();
    let lacks = |words: &[&str], says: &str| refused(&rampart, &run(&rampart, words), says);
    lacks(&["build", "--kernel", "0.0.0-none"], "install linux-headers-0.0.0-none (Debian");
    lacks(&["build", "--headers", "/none/such"], "/none/such has no headers of a kernel");
    lacks(&["build", "--headers", "a", "--kernel", "b"], "cannot be used with");
    let good = headers(&rampart, BUILDS);
    lacks(&["build", "--headers", &good, "--sources", "/none/such"], "/none/such has no sources of the module");
    let with = |recipe: &str| headers(&rampart, recipe);
    lacks(&["build", "--headers", &with("no-such-gcc -c main.c")], "needs \"no-such-gcc\", which is not here: install");
    lacks(&["build", "--headers", &with("echo text > $(M)/rampart.ko")], "what was built is not Rampart's kernel");
    let file = rampart.folder().join("file");
    fs::write(&file, "").unwrap();
    let within = file.join("modules");
    let kept = rampart.run(&["kernel", "build", "--headers", &with(BUILDS), "--modules", within.to_str().unwrap()]);
    refused(&rampart, &kept, "cannot be kept in");
}

#[test]
fn a_make_that_is_missing_is_named() {
    let rampart = Rampart::new();
    let headers = headers(&rampart, BUILDS);
    let folder = modules(&rampart);
    let mut command = rampart.command(&["kernel", "build", "--headers", &headers, "--modules"]);
    let output = command.arg(&folder).env("PATH", rampart.folder()).output().unwrap();
    refused(&rampart, &output.into(), "needs \"make\", which is not here: install it (Debian");
}

#[test]
fn a_build_that_fails_shows_the_end_of_its_log_and_where_the_log_is() {
    let rampart = Rampart::new();
    let headers = headers(&rampart, "for i in $$(seq 30); do echo line $$i; done; echo 'a.c:1: error: no'; false");
    let failed = run(&rampart, &["build", "--headers", &headers]);
    assert_eq!((failed.code, failed.out.as_str(), failed.err.lines().count()), (Some(2), "", 11), "{failed:?}");
    assert!(failed.err.contains("line 30\n") && !failed.err.contains("line 3\n"), "{failed:?}");
    let last = failed.err.lines().last().unwrap();
    let says = "rampart: the module cannot be built: a.c:1: error: no; the whole log is in ";
    let log = last.strip_prefix(says).unwrap_or_else(|| panic!("{failed:?}"));
    assert!(fs::read_to_string(log).unwrap().contains("line 3\n"));
    assert_eq!(folders(&modules(&rampart)), [""; 0]);
    let none = run(&rampart, &["build", "--headers", &self::headers(&rampart, "true")]);
    assert!(none.code == Some(2) && none.err.contains("make built no rampart.ko; the whole log is in "), "{none:?}");
    let good = self::headers(&rampart, BUILDS);
    assert_eq!(run(&rampart, &["build", "--headers", &good]).code, Some(0));
    assert!(!Path::new(log).exists(), "the log of an earlier build is gone");
}

#[test]
fn a_build_that_is_stopped_leaves_nothing() {
    let rampart = Rampart::new();
    let headers = headers(&rampart, "touch $(M)/../began; sleep 600");
    let folder = modules(&rampart);
    let child = rampart.start(&["kernel", "build", "--headers", &headers, "--modules", folder.to_str().unwrap()]);
    while !folder.join("began").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    wait_until_it_catches_interrupts(&child);
    signal(&child, "TERM");
    refused(&rampart, &end(child), "stopped: no module was built");
}

/// On a kernel without modules that is said first, whatever else is missing.
#[test]
fn what_cannot_be_loaded_is_refused_in_one_line() {
    let rampart = Rampart::new();
    let has_modules = Path::new("/proc/modules").exists();
    let says = |why: &'static str| if has_modules { why } else { "this kernel cannot load modules (there is no " };
    refused(&rampart, &run(&rampart, &["load"]), says("no module was built for kernel "));
    let folder = modules(&rampart).join(running_release());
    fs::create_dir_all(&folder).unwrap();
    let module = format!("\x7fELF\0name=rampart\0vermagic={} SMP \0", running_release());
    let load = |module: &str| {
        fs::write(folder.join("rampart.ko"), module).unwrap();
        let path = modules(&rampart);
        let output = rampart.run_unprivileged(&["kernel", "load", "--modules", path.to_str().unwrap()]);
        assert_eq!((output.code, output.err.lines().count()), (Some(2), 1), "{output:?}");
        output.err
    };
    let denied = load(&module);
    assert!(denied.contains(says("only root may load and unload modules: run as root")), "{denied}");
    let other = load(&module.replace("vermagic=", "vermagic=9"));
    assert!(other.contains(says("is running: `rampart kernel build`")), "{other}");
    assert!(load("no module").contains(says("is not Rampart's kernel module")));
}

#[test]
fn unloading_what_is_not_loaded_is_no_failure() {
    let rampart = Rampart::new();
    let listed = fs::read_to_string("/proc/modules");
    if listed.as_ref().is_ok_and(|modules| modules.lines().any(|line| line.starts_with("rampart "))) {
        return skip(Feature::KernelModuleAbsent, "the module is loaded");
    }
    let unloaded = rampart.run(&["kernel", "unload", "--json"]);
    match listed {
        Ok(_) => assert_eq!((unloaded.code, &unloaded.json()["was_loaded"]), (Some(0), &false.into()), "{unloaded:?}"),
        Err(_) => refused(&rampart, &unloaded, "this kernel cannot load modules"),
    }
}

#[test]
fn the_status_says_what_this_kernel_demands() {
    let rampart = Rampart::new();
    let status = run(&rampart, &["status", "--json"]);
    let report = status.json();
    assert_eq!((status.code, &report["schema"]), (Some(0), &"rampart.kernel/1".into()), "{status:?}");
    assert_eq!((&report["running"], &report["built"]), (&running_release().into(), &serde_json::json!([])), "{report}");
    assert_eq!(report["rules"]["has_modules"], Path::new("/proc/modules").exists(), "{report}");
    assert_ne!(report["headers"].is_null(), report["headers_absent"].is_null(), "{report}");
    let text = run(&rampart, &["status"]);
    assert!(text.out.lines().all(|line| line.len() > 12 && !line.contains('\n')), "{text:?}");
}

/// Linux 6.1 to 6.12 (kernel/compat.h).
fn is_made_for(release: &str) -> bool {
    let mut numbers = release.split('.').map_while(|number| number.parse::<u32>().ok());
    numbers.next() == Some(6) && numbers.next().is_some_and(|minor| (1..=12).contains(&minor))
}

/// With the headers of the running kernel, where they are installed.
#[test]
fn the_module_is_built_for_the_running_kernel() {
    let rampart = Rampart::new();
    if !Path::new("/lib/modules").join(running_release()).join("build/Makefile").exists() {
        return skip(Feature::KernelHeaders, "no headers of the running kernel are installed");
    }
    let built = run(&rampart, &["build", "--json"]);
    if !is_made_for(&running_release()) {
        assert!(built.err.contains("rampart.ko is for Linux"), "{built:?}");
        return skip(Feature::KernelHeaders, "the module is not made for this kernel");
    }
    assert_eq!((built.code, &built.json()["running"]), (Some(0), &true.into()), "{built:?}");
    let module = modules(&rampart).join(running_release()).join("rampart.ko");
    let mode = fs::metadata(module).unwrap().permissions().mode();
    assert_eq!(mode & 0o022, 0, "nobody else may change what root loads: {mode:o}");
}
