//! Imports inside a crate run one way.
//!
//! A crate is an ordered list of rooms: the modules right below its root, each a file or a folder. A room imports only
//! rooms below it. A folder may have a list of its own. The root, and a folder's own file, may import everything in it.

use super::Violation;
use super::modules::{Import, Modules};
use crate::tree::Tree;

/// The rooms of a folder of sources, from the top down. A folder's own file (`lib.rs`, `main.rs`, `mod.rs`) lies above
/// all rooms; where rooms may import its definitions, it has a place in the list.
const ROOMS: &[(&str, &[&str])] = &[
    (
        "bench/src",
        &[
            "hostile",
            "guard_corruption",
            "guard_flips",
            "guard_suites",
            "guard_figures",
            "guard",
            "banks",
            "codes",
            "march",
            "diagnostic",
            "slowdown",
            "scale",
            "trace",
            "redmpi",
            "turns",
            "soak",
            "arrays",
            "heap_soak",
            "heap",
            "peers",
            "median",
        ],
    ),
    ("bench/src/heap", &["cost", "peers", "sweep", "redirection", "request", "ratios", "runs", "minimum", "builds"]),
    ("bench/heap/src", &["ours", "mmtk_heap", "arguments", "programs", "heap"]),
    (
        "crates/banks/src",
        &[
            "replay",
            "synthetic",
            "simulated_banks",
            "power",
            "live_blocks",
            "recording",
            "page_trace",
            "pools",
            "consolidation",
            "costs",
            "attempts",
            "record",
            "survey",
            "layout",
            "error",
        ],
    ),
    (
        "crates/buddy/src",
        &[
            "adaptive",
            "array_banks",
            "list_banks",
            "banked",
            "fullest",
            "buddy",
            "locked",
            "zone",
            "zone_map",
            "bank_sets",
            "bank",
            "allocator",
            "request",
            "layout",
            "watermarks",
            "mark",
            "migratetype",
            "footprint",
            "storage",
            "steps",
            "error",
        ],
    ),
    (
        "crates/codes/src",
        &["correct", "codec", "kernel", "crc", "gf256", "hsiao", "page_data", "scheme", "bits", "size"],
    ),
    (
        "crates/march/src",
        &["coverage", "execute", "plan", "simulator", "named", "notation", "background", "order", "test"],
    ),
    ("crates/sim/src", &["machine", "allocators", "frames", "workload", "cost", "timing_wheel"]),
    ("crates/diagnostic/src", &["daemon", "once", "testing", "sources", "machine", "control", "error"]),
    ("crates/guard/src", &["page_guard", "transitions", "policy", "settings", "telemetry", "engine", "state"]),
    (
        "crates/heap/src",
        &[
            "wasmtime",
            "shared",
            "verify",
            "snapshot",
            "canaries",
            "heap",
            "stress",
            "pace",
            "collector",
            "leaf_array",
            "native",
            "space",
            "memory",
            "pools",
            "collection",
            "object",
            "region",
            "sync",
            "geometry",
            "wear",
            "error",
        ],
    ),
    ("crates/heap/src/collector", &["parallel", "marker", "slot_queue", "access", "trace", "mod.rs"]),
    ("crates/heap/src/shared", &["mutator", "mod.rs", "safepoint"]),
    (
        "crates/heap/src/space",
        &[
            "failures",
            "allocator",
            "immix_space",
            "recyclable",
            "ranges",
            "blocks",
            "large",
            "free_addresses",
            "lines",
            "free_lines",
            "starts",
            "lost",
        ],
    ),
    (
        "crates/linux/src",
        &[
            "capabilities",
            "usage",
            "cpu",
            "executable",
            "frame_use",
            "iomem",
            "kernel_module",
            "own_memory",
            "placed_pages",
            "process",
            "protect",
            "shared",
            "shared_words",
            "topology",
            "boot_table",
            "memory_tables",
            "hotplug",
            "errors",
            "tracing",
            "retire",
            "reservation",
            "vault",
            "memory_state",
            "program",
            "span",
            "block",
            "memory_loss",
            "loss_notices",
            "mlocking",
            "userfaultfd",
            "pagemap",
            "frame_flags",
            "memory_blocks",
            "page",
            "roots",
            "error",
            "absence",
            "cpu_number",
        ],
    ),
    (
        "crates/memory/src",
        &[
            "erring_nodes",
            "error_tally",
            "fault",
            "fault_map",
            "lifetime",
            "source",
            "block",
            "fidelity",
            "line",
            "memory_error",
            "notation",
            "topology",
            "frame",
            "time",
            "size",
        ],
    ),
    (
        "crates/native-build/src",
        &["java", "kernel_module", "library", "program", "cache", "compiler", "wrappers", "header", "tool", "error"],
    ),
    (
        "crates/preload/src",
        &[
            "lifecycle",
            "interposed",
            // The heap and what it stands on.
            "lib.rs",
            "guarded",
            "threads",
            "engines",
            "frames",
            "reporting",
            "regions",
            "heap",
            "next",
            "convert",
            "preload_list",
            "messages",
            "error",
        ],
    ),
    ("crates/rampart/src", &["cli", "commands", "guards", "inputs", "process", "output", "parsing", "error"]),
    ("crates/scale/src", &["answer", "simulator", "programs", "model", "statistics", "encoding", "error", "time"]),
    (
        "crates/store/src",
        &[
            "fact_writer",
            "rasdaemon",
            "store",
            "damage",
            "reading",
            "location",
            "connection",
            "schema",
            "ages",
            "replica_errors",
            "error",
            "history",
            "sighting",
            "fact",
            "column",
        ],
    ),
    (
        "crates/studies/src",
        &["asteroid", "comet", "runs", "summary", "simulate", "scenario", "rahman", "text", "outcome", "lib.rs"],
    ),
    ("java/copying/src", &["full_heap", "pauses", "weak"]),
    (
        "java/host/src",
        &["report", "program", "imports", "errors", "watching", "state", "js", "weak", "usage", "arguments"],
    ),
    ("tests/freestanding/src", &["drive"]),
    ("tests/qemu/badram/src", &["injector", "effect", "rests", "spec"]),
    ("tests/redmpi/src", &["spare", "succession", "lib.rs"]),
    ("tests/skips/src", &["machine", "record", "feature"]),
    ("tests/trials/src", &["corruption", "hostile", "program", "error"]),
    (
        "xtask/src",
        &[
            "stages",
            "scenarios",
            "bare",
            "mutants",
            "package",
            "aarch64",
            "sanitize",
            "freestanding",
            "skips",
            "fuzz",
            "tidy",
            "tally",
            "tree",
            "process",
            "files",
            "chores",
            "error",
        ],
    ),
];

const OWN_FILES: [&str; 3] = ["lib.rs", "main.rs", "mod.rs"];

/// No room imports one above it, and every module of a folder with a list is in the list.
pub fn check(tree: &Tree) -> Vec<Violation> {
    check_lists(tree, ROOMS)
}

fn check_lists(tree: &Tree, lists: &[(&str, &[&str])]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (folder, _) in tree.crates() {
        let modules = Modules::of(tree, folder);
        let source = format!("{folder}/src");
        if modules.files.len() > 2 && !lists.iter().any(|(listed, _)| *listed == source) {
            let what =
                "the modules of this crate have no order: list them from the top down in xtask/src/tidy/rooms.rs";
            violations.push(Violation::new(&source, what));
        }
        let imports: Vec<Import> = modules.imports().collect();
        for (listed, rooms) in lists {
            let below = listed.strip_prefix(&source).filter(|rest| rest.is_empty() || rest.starts_with('/'));
            let Some(below) = below else { continue };
            let base: Vec<String> = below.split('/').skip(1).map(str::to_owned).collect();
            violations.extend(strays(&modules, listed, &base, rooms));
            violations.extend(imports.iter().filter_map(|import| upward(import, &base, rooms)));
        }
    }
    let absent = lists.iter().filter(|(folder, _)| !tree.folders().contains(folder));
    violations.extend(absent.map(|(folder, _)| Violation::new(*folder, "has a list of rooms and does not exist")));
    violations
}

/// Modules without a place in the list, and places without a module.
fn strays(modules: &Modules, folder: &str, base: &[String], rooms: &[&str]) -> Vec<Violation> {
    let children =
        modules.files.iter().filter(|(module, _)| module.len() == base.len() + 1 && module.starts_with(base));
    let children: Vec<(&str, &str)> =
        children.map(|(module, files)| (module[base.len()].as_str(), files[0].as_str())).collect();
    let placeless = children.iter().filter(|(name, _)| !rooms.contains(name)).map(|(name, file)| {
        let what = format!("`{name}` has no place among the rooms of {folder}: give it one in xtask/src/tidy/rooms.rs");
        Violation::new(*file, what)
    });
    let is_child = |room: &str| OWN_FILES.contains(&room) || children.iter().any(|(name, _)| *name == room);
    let empty = rooms.iter().filter(|room| !is_child(room)).map(|room| {
        Violation::new(folder, format!("lists the room `{room}` in xtask/src/tidy/rooms.rs and has no such module"))
    });
    placeless.chain(empty).collect()
}

/// The problem with an import between two rooms of a list, if there is one.
fn upward(import: &Import, base: &[String], rooms: &[&str]) -> Option<Violation> {
    let from = import.from.strip_prefix(base)?.first()?;
    let to = import.to.strip_prefix(base)?.first();
    let own = |room: &str| OWN_FILES.contains(&room);
    let place = |name: &String| rooms.iter().position(|room| room == name);
    let below = place(from)?;
    let above = match to {
        Some(to) => place(to)?,
        None => match rooms.iter().position(|room| own(room)) {
            Some(place) => place,
            None => return Some(refusal(import, from, "what the folder's own file defines")),
        },
    };
    (above < below).then(|| refusal(import, from, &format!("`{}`", rooms[above])))
}

fn refusal(import: &Import, from: &str, above: &str) -> Violation {
    let what =
        format!("`{from}` names {above}, which is above it: imports run down the list in xtask/src/tidy/rooms.rs");
    Violation::new(format!("{}:{}", import.file, import.line), what)
}

#[cfg(test)]
mod tests {
    use super::super::lines;
    use super::*;

    const LISTS: &[(&str, &[&str])] = &[("c/src", &["top", "middle", "bottom"]), ("c/src/middle", &["high", "low"])];

    /// A crate that fits its lists, except for one file.
    fn with(file: &str, text: &str) -> Tree {
        let files = [
            ("Cargo.toml", ""),
            ("src/lib.rs", "mod bottom;\nmod middle;\nmod top;\npub use top::Top;\npub const N: u8 = 1;"),
            ("src/top.rs", "use crate::bottom::B;\nuse crate::middle::low::L;\npub struct Top;"),
            ("src/middle/mod.rs", "mod high;\npub mod low;\nuse low::L;\npub const M: u8 = 1;"),
            ("src/middle/high.rs", "use super::low::L;"),
            ("src/middle/low.rs", "use crate::bottom::B;"),
            ("src/bottom.rs", "#[cfg(test)]\nmod tests { use crate::Top; }"),
        ];
        Tree::from(files.map(|(path, usual)| (format!("c/{path}"), if path == file { text } else { usual })))
    }

    #[test]
    fn imports_that_run_down_pass() {
        assert_eq!(check_lists(&with("", ""), LISTS), []);
    }

    #[test]
    fn a_room_that_names_one_above_it_fails_however_it_does() {
        for line in ["use crate::top::Top;", "use super::top::Top;", "use crate::Top;", "fn f() { crate::top::g() }"] {
            assert_eq!(
                lines(&check_lists(&with("src/bottom.rs", &format!("\n{line}")), LISTS)),
                ["c/src/bottom.rs:2: `bottom` names `top`, which is above it: imports run down the list in \
                  xtask/src/tidy/rooms.rs"],
                "{line}"
            );
        }
    }

    #[test]
    fn a_folder_with_a_list_has_an_order_of_its_own() {
        let lines = lines(&check_lists(&with("src/middle/low.rs", "use super::high::H;"), LISTS));
        assert_eq!(lines.len(), 1);
        assert!(lines[0].starts_with("c/src/middle/low.rs:1: `low` names `high`"), "{lines:?}");
    }

    #[test]
    fn what_a_folder_s_own_file_defines_is_above_its_rooms_unless_it_has_a_place() {
        let tree = with("src/bottom.rs", "use crate::N;");
        let lines = lines(&check_lists(&tree, LISTS));
        assert_eq!(lines.len(), 1);
        assert!(lines[0].starts_with("c/src/bottom.rs:1: `bottom` names what the folder's own file defines"));
        let placed: &[(&str, &[&str])] = &[("c/src", &["top", "middle", "bottom", "lib.rs"])];
        assert_eq!(check_lists(&tree, placed), []);
    }

    #[test]
    fn a_module_without_a_place_and_a_place_without_a_module_fail() {
        let lists: &[(&str, &[&str])] = &[("c/src", &["top", "middle", "cellar"]), ("c/src/gone", &[])];
        assert_eq!(
            lines(&check_lists(&with("", ""), lists)),
            [
                "c/src/bottom.rs: `bottom` has no place among the rooms of c/src: give it one in xtask/src/tidy/rooms.rs",
                "c/src: lists the room `cellar` in xtask/src/tidy/rooms.rs and has no such module",
                "c/src/gone: has a list of rooms and does not exist",
            ]
        );
    }

    #[test]
    fn a_crate_without_a_list_fails_unless_it_is_known_to_have_none_yet() {
        let lines = lines(&check_lists(&with("", ""), &[]));
        assert_eq!(lines.len(), 1);
        assert!(lines[0].starts_with("c/src: the modules of this crate have no order"), "{lines:?}");
    }
}
