//! A really full disk: a small one in memory, mounted in a private mount namespace. Where that is not permitted, the
//! page limit in the tests of `FactWriter` covers the case.

mod facts;

use std::env;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;

use facts::{NOW, at, end, failed, open, start};
use rampart_memory::fault_map::MapOrigin;
use rampart_skips::{Feature, skip};
use rampart_store::{Durability, Error, FactWriter, Store};

const DISK: &str = "RAMPART_SMALL_DISK";

#[test]
fn a_full_disk_costs_no_fact() {
    if let Some(disk) = env::var_os(DISK) {
        return on_a_small_disk(Path::new(&disk));
    }
    let folder = facts::folder();
    let script = r#"mount -t tmpfs -o size=256k none "$0" || exit 0; echo mounted; exec "$@""#;
    let inside = Command::new("unshare")
        .args(["--mount", "--map-root-user", "sh", "-c", script])
        .arg(folder.path())
        .arg(env::current_exe().unwrap())
        .args(["--exact", "a_full_disk_costs_no_fact", "--nocapture"])
        .env(DISK, folder.path())
        .output();
    let Ok(inside) = inside else { return skip(Feature::MountNamespace, "unshare is not installed") };
    let output = String::from_utf8_lossy(&inside.stdout);
    if !output.contains("mounted") {
        return skip(Feature::MountNamespace, String::from_utf8_lossy(&inside.stderr));
    }
    assert!(inside.status.success(), "{output}{}", String::from_utf8_lossy(&inside.stderr));
    assert!(output.contains("1 passed"), "{output}");
}

fn on_a_small_disk(disk: &Path) {
    let (path, ballast) = (disk.join("r.db"), disk.join("ballast"));
    let (mut writer, begun) = FactWriter::begin(open(&path), start(0));
    assert!(matches!(begun, Durability::Durable));
    assert!(matches!(writer.keep(MapOrigin::Real, &failed(1, 2), at(1)), Durability::Durable));

    fill(&ballast);
    for number in 2..50 {
        let kept = writer.keep(MapOrigin::Real, &failed(number, 2), at(2));
        assert!(matches!(kept, Durability::Pending(Error::Full(_))), "{kept:?}");
    }
    assert_eq!(writer.pending(), 48);
    assert_eq!(open(&path).failures(MapOrigin::Real).unwrap().len(), 1, "facts on the disk can be read");
    assert!(matches!(Store::open(&disk.join("new.db"), NOW), Err(Error::Full(_))));
    let damaged = disk.join("damaged.db");
    fs::remove_file(&ballast).unwrap();
    fs::write(&damaged, "garbage").unwrap();
    fill(&ballast);
    assert!(matches!(Store::open(&damaged, NOW), Err(Error::Full(_))));
    assert_eq!(fs::read(&damaged).unwrap(), b"garbage", "it stays in its place until its successor is whole");

    fs::remove_file(&ballast).unwrap();
    assert!(matches!(writer.finish(end(3)), Durability::Durable));
    assert_eq!(writer.pending(), 0);
    let map = open(&path).failures(MapOrigin::Real).unwrap();
    assert_eq!(map.len(), 49);
    assert!(map.iter().all(|known| *known == failed(known.frame.number(), 2)));
    assert!(Store::open(&damaged, NOW).unwrap().set_aside.is_some());
}

/// Writes until the disk is full.
fn fill(ballast: &Path) {
    let mut file = File::create(ballast).unwrap();
    while file.write_all(&[1; 512]).is_ok() {}
}
