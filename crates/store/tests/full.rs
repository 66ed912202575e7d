//! A disk that is really full: a small one in memory, mounted in a private namespace. Where that is not permitted, the
//! limit on pages in the tests of `Keeper` replaces it.

mod facts;

use std::env;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;

use facts::{NOW, at, end, failed, open, start};
use rampart_memory::fault_map::MapOrigin;
use rampart_store::{Error, Keeper, Kept, Store};

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
    let Ok(inside) = inside else { return };
    let output = String::from_utf8_lossy(&inside.stdout);
    if output.contains("mounted") {
        assert!(inside.status.success(), "{output}{}", String::from_utf8_lossy(&inside.stderr));
        assert!(output.contains("1 passed"), "{output}");
    }
}

fn on_a_small_disk(disk: &Path) {
    let (path, ballast) = (disk.join("r.db"), disk.join("ballast"));
    let (mut keeper, begun) = Keeper::begin(open(&path), start(0));
    assert!(matches!(begun, Kept::Durable));
    assert!(matches!(keeper.keep(MapOrigin::Real, &failed(1, 2), at(1)), Kept::Durable));

    fill(&ballast);
    for number in 2..50 {
        let kept = keeper.keep(MapOrigin::Real, &failed(number, 2), at(2));
        assert!(matches!(kept, Kept::Pending(Error::Full(_))), "{kept:?}");
    }
    assert_eq!(keeper.pending(), 48);
    assert_eq!(open(&path).failures(MapOrigin::Real).unwrap().len(), 1, "what was kept can be read");
    assert!(matches!(Store::open(&disk.join("new.db"), NOW), Err(Error::Full(_))));
    let damaged = disk.join("damaged.db");
    fs::remove_file(&ballast).unwrap();
    fs::write(&damaged, "garbage").unwrap();
    fill(&ballast);
    assert!(matches!(Store::open(&damaged, NOW), Err(Error::Full(_))));
    assert_eq!(fs::read(&damaged).unwrap(), b"garbage", "it stays in its place until its successor is whole");

    fs::remove_file(&ballast).unwrap();
    assert!(matches!(keeper.finish(end(3)), Kept::Durable));
    assert_eq!(keeper.pending(), 0);
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
