//! `rampart kernel status`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rampart_diagnostic::{FrameGroup, GroupReach, reach};
use rampart_linux::Roots;
use rampart_linux::kernel_module::{
    ClaimCounts, DemandCount, KernelModuleView, LoadedModule, Lockdown, MissedFrames, ModuleFile, ModuleRules,
    NewMemoryCounts, NewMemoryPolicy, OnDemandCounts, OnlineDriver, PageReporter, TestedCount, running_release,
};
use rampart_memory::{Bytes, FRAME_BYTES};
use rampart_native_build::KernelHeaders;
use serde::Serialize;

use super::MODULE;
use super::arguments::KernelStatusArguments;
use crate::error::Error;
use crate::output::text;

/// So many ways to untested blocks are shown; JSON has all.
const MOST_WAYS: usize = 5;

#[derive(Debug, Serialize)]
struct KernelStatus {
    schema: &'static str,
    /// The release that runs.
    running: String,
    /// The modules that were built, by release.
    built: Vec<BuiltModule>,
    /// Why it is unknown which were.
    built_unknown: Option<String>,
    /// The module while it is loaded.
    loaded: Option<LoadedModule>,
    /// What the loaded module shows.
    view: Option<KernelModuleView>,
    /// Why a loaded module is not read.
    view_absent: Option<String>,
    /// The headers of the running kernel.
    headers: Option<PathBuf>,
    /// Why there are none.
    headers_absent: Option<String>,
    /// What decides whether this kernel loads the module.
    rules: ModuleRules,
    /// Another driver to which the kernel reports free pages.
    page_reporter: Option<PageReporter>,
    /// Another driver that decides when memory that comes online is used.
    online_driver: Option<OnlineDriver>,
    /// How far tests reach, and how old they are, if that was asked for.
    reach: Option<Vec<GroupReach>>,
    /// Why that is unknown.
    reach_absent: Option<String>,
}

#[derive(Debug, Serialize)]
struct BuiltModule {
    release: String,
    path: PathBuf,
    signed: bool,
}

/// Shows the status. Returns 0.
pub fn run(arguments: &KernelStatusArguments) -> Result<u8, Error> {
    let roots = Roots::default();
    let running = running_release(&roots);
    let loaded = LoadedModule::find(&roots);
    let view = loaded.as_ref().map(|_| KernelModuleView::read(&roots)).transpose();
    let headers = KernelHeaders::of_release(Path::new(KernelHeaders::MODULES), &running);
    let built = built(&arguments.folder.modules);
    let reach = arguments.reach.then(|| reach(&roots)).transpose();
    let status = KernelStatus {
        schema: "rampart.kernel/1",
        built_unknown: built.as_ref().err().map(ToString::to_string),
        built: built.unwrap_or_default(),
        loaded,
        view_absent: view.as_ref().err().map(ToString::to_string),
        view: view.ok().flatten(),
        headers_absent: headers.as_ref().err().map(ToString::to_string),
        headers: headers.ok().map(|headers| headers.folder().to_owned()),
        rules: ModuleRules::read(&roots),
        page_reporter: PageReporter::find(&roots),
        online_driver: OnlineDriver::find(&roots),
        reach_absent: reach.as_ref().err().map(ToString::to_string),
        reach: reach.ok().flatten(),
        running,
    };
    if arguments.json {
        text::print_json(&status)?;
    } else {
        text::print(&text(&status))?;
    }
    Ok(0)
}

/// The modules in the folder of modules, by their kernel. One that cannot be read is none.
fn built(modules: &Path) -> io::Result<Vec<BuiltModule>> {
    let folders = match fs::read_dir(modules) {
        Ok(folders) => folders.flatten(),
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(other) => return Err(other),
    };
    let module = |folder: PathBuf| {
        let path = folder.join(MODULE);
        let file = ModuleFile::read(&path).ok().flatten()?;
        // A build that was killed leaves its folder.
        let is_in_place = folder.file_name().is_some_and(|name| name == file.release());
        is_in_place.then(|| BuiltModule { release: file.release().to_owned(), path, signed: file.signed })
    };
    let mut built: Vec<_> = folders.filter_map(|folder| module(folder.path())).collect();
    built.sort_by(|one, other| one.release.cmp(&other.release));
    Ok(built)
}

fn text(status: &KernelStatus) -> String {
    let mut text = String::new();
    let mut line = |label: &str, value: String| {
        let _ = writeln!(text, "{label:<11} {value}");
    };
    line("kernel", status.running.clone());
    line("built", built_for(status));
    line("loaded", loaded(status));
    if let Some(view) = &status.view {
        line("owner", owner(view, status.loaded.as_ref()));
        match &view.demand {
            Some(demand) => by_order(demand).into_iter().for_each(|(label, value)| line(&label, value)),
            None => line("demand", "only root may read it".to_owned()),
        }
        if let Some(missed) = view.missed {
            line("missed", missed_text(missed));
        }
        if let Some(tested) = &view.tested {
            line("tested", tested_text(tested));
        }
        if let Some(claims) = view.claims {
            line("claims", claims_text(claims));
        }
        if let Some(new_memory) = &view.new_memory {
            line("new memory", new_memory_text(new_memory, status.online_driver));
        }
        if let Some(on_demand) = &view.on_demand {
            line("on demand", on_demand_text(on_demand));
            for (blocks, way) in on_demand.untested_by.iter().take(MOST_WAYS) {
                line("", format!("{:>9} untested by {way}", text::count(*blocks)));
            }
        }
    }
    for (index, group) in status.reach.iter().flatten().enumerate() {
        line(if index == 0 { "reach" } else { "" }, group_text(group));
    }
    if let Some(why) = &status.reach_absent {
        line("reach", format!("unknown: {why}"));
    }
    let found = status.headers.as_ref().map(|folder| folder.display().to_string());
    line("headers", found.or_else(|| status.headers_absent.clone()).unwrap_or_default());
    line("modules", admitted(&status.rules));
    line("lockdown", lockdown(&status.rules));
    line("reporting", reporting(status.page_reporter));
    text
}

fn built_for(status: &KernelStatus) -> String {
    let name = |module: &BuiltModule| {
        let running = if module.release == status.running { " (running)" } else { "" };
        format!("{}{running}", module.release)
    };
    if let Some(why) = &status.built_unknown {
        return format!("unknown: {why}");
    }
    let names: Vec<String> = status.built.iter().map(name).collect();
    let is_for_running = status.built.iter().any(|module| module.release == status.running);
    match (names.is_empty(), is_for_running) {
        (true, _) => "for no kernel: `rampart kernel build`".to_owned(),
        (false, true) => format!("for {}", names.join(", ")),
        (false, false) => format!("for {}, not for the running one: `rampart kernel build`", names.join(", ")),
    }
}

fn loaded(status: &KernelStatus) -> String {
    match (&status.loaded, &status.view, &status.view_absent) {
        (None, ..) if !status.rules.has_modules => "no".to_owned(),
        (None, ..) => "no: `rampart kernel load`".to_owned(),
        (Some(loaded), Some(view), _) => format!("ABI {}; in use by {}", view.abi, loaded.users()),
        (Some(_), None, absent) => absent.clone().unwrap_or_default(),
    }
}

/// The owner of the device, with its name if this process sees it.
fn owner(view: &KernelModuleView, loaded: Option<&LoadedModule>) -> String {
    let Some(pid) = view.owner else { return "none".to_owned() };
    let seen = loaded.and_then(|loaded| loaded.processes.iter().find(|holder| holder.pid == pid));
    seen.map_or_else(|| format!("process {pid}"), ToString::to_string)
}

/// Labels and lines: blocks of each order, of all nodes and migratetypes together.
fn by_order(demand: &[DemandCount]) -> Vec<(String, String)> {
    let mut orders: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for row in demand {
        let (allocated, freed) = orders.entry(row.order).or_default();
        *allocated = allocated.saturating_add(row.allocated);
        *freed = freed.saturating_add(row.freed);
    }
    if orders.is_empty() {
        return vec![("demand".to_owned(), "none since it was loaded".to_owned())];
    }
    let value = |(order, (allocated, freed)): (u32, (u64, u64))| {
        format!("order {order:<2} {:>16} blocks allocated {:>16} freed", text::count(allocated), text::count(freed))
    };
    let labels = std::iter::once("demand").chain(std::iter::repeat(""));
    labels.map(str::to_owned).zip(orders.into_iter().map(value)).collect()
}

fn missed_text(missed: MissedFrames) -> String {
    let share = |all: u64, seen: u64| {
        #[expect(clippy::cast_precision_loss, reason = "a share in percent")]
        let share = all.saturating_sub(seen) as f64 / all.max(1) as f64;
        text::percent(share)
    };
    format!(
        "{} of the allocated frames and {} of the freed ones passed by the tracepoints",
        share(missed.allocated, missed.allocated_seen),
        share(missed.freed, missed.freed_seen)
    )
}

/// The share of tested blocks in those that were allocated, by order.
fn tested_text(rows: &[TestedCount]) -> String {
    let mut orders: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for row in rows {
        let (tested, allocated) = orders.entry(row.order).or_default();
        *tested = tested.saturating_add(row.allocated_tested);
        *allocated = allocated.saturating_add(row.allocated_tested).saturating_add(row.allocated_untested);
    }
    let share = |(order, (tested, allocated)): (u32, (u64, u64))| {
        #[expect(clippy::cast_precision_loss, reason = "a share in percent")]
        let share = tested as f64 / allocated as f64;
        (allocated > 0).then(|| format!("{} of order {order}", text::percent(share)))
    };
    let shares: Vec<String> = orders.into_iter().filter_map(share).collect();
    if shares.is_empty() {
        "nothing was allocated".to_owned()
    } else {
        format!("of the allocated blocks: {}", shares.join(", "))
    }
}

fn claims_text(claims: ClaimCounts) -> String {
    let lost = [claims.lost_owner, claims.lost_time, claims.lost_pressure, claims.lost_offline];
    let lost = lost.into_iter().fold(0, u64::saturating_add);
    let moved = [claims.moved_fresh, claims.moved_expired, claims.moved_never];
    let moved = match moved.into_iter().fold(0, u64::saturating_add) {
        0 => String::new(),
        all => format!("; {} moved, {} of them to tested frames", text::count(all), text::count(claims.moved_fresh)),
    };
    format!(
        "{} frames held now; {} given back as tested, {} retired, {} taken back{moved}",
        text::count(claims.held),
        text::count(claims.tested),
        text::count(claims.retired),
        text::count(lost)
    )
}

/// What becomes of memory that comes online.
fn new_memory_text(counts: &NewMemoryCounts, driver: Option<OnlineDriver>) -> String {
    let fate = match (counts.policy, driver) {
        (NewMemoryPolicy::Use, _) => "is used untested (new_memory=use)".to_owned(),
        (NewMemoryPolicy::Test, _) => "is tested before its first use while `rampart watch` runs".to_owned(),
        (NewMemoryPolicy::Withhold, _) => "is withheld until it was tested".to_owned(),
        (NewMemoryPolicy::Taken, Some(driver)) => format!("is used untested: {driver} hands it out"),
        (NewMemoryPolicy::Taken, None) => "is used untested: another driver hands it out".to_owned(),
    };
    let counts = [(counts.tested, "tested"), (counts.untested, "untested"), (counts.waiting.values().sum(), "waiting")];
    let counts = counts.into_iter().filter(|(frames, _)| *frames > 0);
    let counts: Vec<String> = counts.map(|(frames, what)| format!("{} {what}", text::count(frames))).collect();
    if counts.is_empty() { fate } else { format!("{fate}; frames so far: {}", counts.join(", ")) }
}

/// What became of blocks that were asked for without a valid test.
fn on_demand_text(counts: &OnDemandCounts) -> String {
    let untested = [
        (counts.atomic, "since they could not wait"),
        (counts.no_tester, "since nobody tested"),
        (counts.owner, "to the tester itself"),
        (counts.late, "since the tester was late"),
    ];
    let why = untested.iter().filter(|(blocks, _)| *blocks > 0);
    let why: Vec<String> = why.map(|(blocks, why)| format!("{} {why}", text::count(*blocks))).collect();
    format!(
        "of the blocks without a valid test, {} were tested and {} of these kept as bad; handed out untested: {}",
        text::count(counts.good.saturating_add(counts.bad)),
        text::count(counts.bad),
        if why.is_empty() { "none".to_owned() } else { why.join(", ") }
    )
}

fn group_text(reach: &GroupReach) -> String {
    let group = match reach.group {
        FrameGroup::Free => "free, and can be tested",
        FrameGroup::Movable => "in use, and can be moved and tested",
        FrameGroup::Beside => "free or movable, in 2 MiB with a page that cannot be moved",
        FrameGroup::Unmovable => "in use, and cannot be moved",
    };
    let bytes = |frames| Bytes::new(frames * FRAME_BYTES);
    let oldest = reach.oldest_seconds.map_or_else(String::new, |seconds| {
        format!(", the oldest {} ago", humantime::format_duration(Duration::from_secs(seconds)))
    });
    format!("{:>9} {group}: {} tested{oldest}", bytes(reach.frames).to_string(), bytes(reach.tested))
}

fn admitted(rules: &ModuleRules) -> String {
    match rules {
        ModuleRules { has_modules: false, .. } => "cannot be loaded: this kernel has none".to_owned(),
        ModuleRules { switched_off: true, .. } => "cannot be loaded until the next boot: switched off".to_owned(),
        ModuleRules { signed_only: true, .. } => format!("must be signed: {}", rules.why_signed()),
        ModuleRules { .. } => "can be loaded".to_owned(),
    }
}

/// The module opens its device under no lockdown.
fn lockdown(rules: &ModuleRules) -> String {
    let device = match rules.lockdown {
        Lockdown::Integrity | Lockdown::Confidentiality => ": the module's device cannot be opened",
        Lockdown::None | Lockdown::Unknown => "",
    };
    format!("{}{device}; Secure Boot {}", rules.lockdown, rules.secure_boot)
}

fn reporting(reporter: Option<PageReporter>) -> String {
    match reporter {
        Some(reporter) => format!("free pages are reported to {reporter}, which has the only place"),
        None => "no reporter of free pages is seen".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampart_linux::kernel_module::{DeviceHolder, SecureBoot};

    fn status() -> KernelStatus {
        KernelStatus {
            schema: "",
            running: "6.1.0-9".to_owned(),
            built: Vec::new(),
            built_unknown: None,
            loaded: None,
            view: None,
            view_absent: None,
            headers: None,
            headers_absent: Some("no headers".to_owned()),
            rules: ModuleRules {
                has_modules: true,
                switched_off: false,
                signed_only: false,
                lockdown: Lockdown::None,
                secure_boot: SecureBoot::Off,
            },
            page_reporter: None,
            online_driver: None,
            reach: None,
            reach_absent: None,
        }
    }

    #[test]
    fn a_machine_without_the_module_is_told_what_to_do() {
        let expected = "kernel      6.1.0-9\n\
                        built       for no kernel: `rampart kernel build`\n\
                        loaded      no: `rampart kernel load`\n\
                        headers     no headers\n\
                        modules     can be loaded\n\
                        lockdown    none; Secure Boot off\n\
                        reporting   no reporter of free pages is seen\n";
        assert_eq!(text(&status()), expected);
    }

    #[test]
    fn a_loaded_module_shows_its_owner_and_what_it_counted() {
        let mut status = status();
        let row = |node, order, allocated, freed| DemandCount {
            node,
            migratetype: "Movable".to_owned(),
            order,
            allocated,
            freed,
        };
        let missed = MissedFrames { allocated: 1000, allocated_seen: 750, freed: 0, freed_seen: 3 };
        let demand = vec![row(0, 0, 1000, 1), row(1, 0, 234, 1), row(0, 9, 7, 0)];
        let tested = |node, order, allocated_tested, allocated_untested| TestedCount {
            node,
            migratetype: "Movable".to_owned(),
            order,
            allocated_tested,
            allocated_untested,
            allocated_unfreed: 0,
            returned_fresh: 9,
            returned_expired: 9,
        };
        let tested = vec![tested(0, 0, 900, 100), tested(1, 0, 0, 234), tested(0, 3, 0, 0), tested(0, 9, 7, 0)];
        let claims = ClaimCounts {
            held: 4096,
            tested: 81_920,
            retired: 2,
            lost_time: 3,
            lost_pressure: 4,
            moved_fresh: 90,
            moved_never: 10,
            ..Default::default()
        };
        status.view = Some(KernelModuleView {
            abi: 1,
            owner: Some(8),
            demand: Some(demand),
            missed: Some(missed),
            tested: Some(tested),
            claims: Some(claims),
            new_memory: Some(NewMemoryCounts { policy: NewMemoryPolicy::Taken, untested: 1024, ..Default::default() }),
            on_demand: Some(OnDemandCounts {
                good: 4000,
                bad: 2,
                atomic: 30,
                late: 1,
                untested_by: vec![(31, "a<b".to_owned())],
                ..Default::default()
            }),
        });
        status.online_driver = Some(OnlineDriver::VirtioMem);
        let group = |group, frames, tested, oldest_seconds| GroupReach { group, frames, tested, oldest_seconds };
        status.reach =
            Some(vec![group(FrameGroup::Free, 4096, 2048, Some(90)), group(FrameGroup::Unmovable, 1024, 0, None)]);
        let holder = DeviceHolder { pid: 8, name: "rampart".to_owned() };
        status.loaded = Some(LoadedModule { references: 1, modules: Vec::new(), processes: vec![holder] });
        let text = text(&status);
        for line in [
            "loaded      ABI 1; in use by process 8 (rampart)\n",
            "owner       process 8 (rampart)\n",
            "demand      order 0             1,234 blocks allocated                2 freed\n",
            "            order 9                 7 blocks allocated                0 freed\n",
            "tested      of the allocated blocks: 72.9 % of order 0, 100 % of order 9\n",
            "claims      4,096 frames held now; 81,920 given back as tested, 2 retired, 7 taken back; \
             100 moved, 90 of them to tested frames\n",
            "new memory  is used untested: virtio-mem hands it out; frames so far: 1,024 untested\n",
            "on demand   of the blocks without a valid test, 4,002 were tested and 2 of these kept as bad; handed out \
             untested: 30 since they could not wait, 1 since the tester was late\n",
            "                   31 untested by a<b\n",
            "reach          16 MiB free, and can be tested: 8 MiB tested, the oldest 1m 30s ago\n",
            "                4 MiB in use, and cannot be moved: 0 B tested\n",
            "missed      25.0 % of the allocated frames and 0 % of the freed ones passed by the tracepoints\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
    }

    #[test]
    fn a_loaded_module_that_is_not_read_says_why() {
        let mut status = status();
        status.loaded = Some(LoadedModule { references: 0, modules: Vec::new(), processes: Vec::new() });
        status.view_absent = Some("ABI 2".to_owned());
        assert!(text(&status).contains("loaded      ABI 2\n"));
        let view = KernelModuleView { abi: 1, ..Default::default() };
        (status.view, status.view_absent) = (Some(view), None);
        let text = text(&status);
        assert!(text.contains("owner       none\ndemand      only root may read it\n"), "{text}");
    }

    #[test]
    fn what_this_kernel_demands_is_shown() {
        let shown = |change: fn(&mut KernelStatus)| {
            let mut status = status();
            change(&mut status);
            text(&status)
        };
        let locked = shown(|status| {
            (status.rules.lockdown, status.rules.signed_only) = (Lockdown::Integrity, true);
            status.rules.secure_boot = SecureBoot::On;
        });
        assert!(
            locked.contains("modules     must be signed: lockdown integrity, since Secure Boot is on\n"),
            "{locked}"
        );
        assert!(locked.contains("lockdown    integrity: the module's device cannot be opened; Secure Boot on\n"));
        let none = shown(|status| status.rules.has_modules = false);
        assert!(
            none.contains("loaded      no\n") && none.contains("cannot be loaded: this kernel has none\n"),
            "{none}"
        );
        assert!(shown(|status| status.rules.switched_off = true).contains("until the next boot"));
        let reporter = shown(|status| status.page_reporter = Some(PageReporter::VirtioBalloon));
        assert!(reporter.contains("reporting   free pages are reported to virtio-balloon, which has the only place\n"));
    }

    #[test]
    fn modules_in_the_folder_of_their_kernel_are_listed() {
        let modules = tempfile::tempdir().unwrap();
        let module = |release: &str| format!("\x7fELF\0name=rampart\0vermagic={release} SMP \0");
        for (folder, content) in [
            ("6.1.0-9", module("6.1.0-9")),
            ("6.12.1", module("6.12.1")),
            ("6.5.0", module("6.1.0-9")),
            (".build-x", module("6.1.0-9")),
            ("empty", String::new()),
        ] {
            fs::create_dir(modules.path().join(folder)).unwrap();
            fs::write(modules.path().join(folder).join(MODULE), content).unwrap();
        }
        let mut status = status();
        status.built = built(modules.path()).unwrap();
        assert_eq!(built_for(&status), "for 6.1.0-9 (running), 6.12.1");
        status.built.remove(0);
        assert_eq!(built_for(&status), "for 6.12.1, not for the running one: `rampart kernel build`");
        assert!(built(Path::new("/none/such")).unwrap().is_empty());
        status.built_unknown = Some(built(&modules.path().join("empty").join(MODULE)).unwrap_err().to_string());
        assert!(built_for(&status).starts_with("unknown: "), "{}", built_for(&status));
    }
}
