//! Other errors are not mistaken for damage: the file stays unchanged, and one line says what to do.

mod facts;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use facts::{NOW, at, end, failed, folder, open, start};
use rampart_memory::fault_map::MapOrigin;
use rampart_store::{Durability, Error, FactWriter, Store};
use rusqlite::Connection;

#[test]
fn a_newer_store_and_another_programs_file_are_refused_untouched() {
    let folder = folder();
    let newer = folder.path().join("newer.db");
    drop(open(&newer));
    Connection::open(&newer).unwrap().pragma_update(None, "user_version", 1000).unwrap();
    let foreign = folder.path().join("foreign.db");
    Connection::open(&foreign).unwrap().execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE songs (title)").unwrap();
    let text = folder.path().join("text");
    fs::write(&text, "root:x:0:0").unwrap();
    for path in [newer, foreign, text] {
        let before = fs::read(&path).unwrap();
        let refusal = Store::open(&path, NOW).unwrap_err();
        assert!(matches!(refusal, Error::Newer(_, 1000, 3) | Error::Foreign(_)), "{refusal}");
        assert_eq!(fs::read(&path).unwrap(), before);
    }
}

#[test]
fn a_store_that_may_not_be_written_is_refused() {
    let folder = folder();
    let path = folder.path().join("r.db");
    drop(open(&path));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    let may_write = fs::OpenOptions::new().append(true).open(&path).is_ok();
    match Store::open(&path, NOW) {
        Ok(_) => assert!(may_write, "only root may write a file that is read-only"),
        Err(refusal) => assert!(matches!(refusal, Error::Unwritable(..)) && !may_write, "{refusal}"),
    }
}

#[test]
fn a_busy_store_is_waited_for_and_then_said_to_be_busy() {
    let folder = folder();
    let path = folder.path().join("r.db");
    let (mut writer, begun) = FactWriter::begin(open(&path), start(0));
    assert!(matches!(begun, Durability::Durable));
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    assert!(matches!(writer.keep(MapOrigin::Real, &failed(7, 1), at(1)), Durability::Pending(Error::Busy(_))));
    assert_eq!(writer.pending(), 1);
    other.execute_batch("ROLLBACK").unwrap();
    assert!(matches!(writer.finish(end(2)), Durability::Durable));
    assert_eq!(writer.pending(), 0);
    assert_eq!(open(&path).failures(MapOrigin::Real).unwrap().len(), 1);
}

#[test]
fn a_damaged_store_is_not_replaced_while_another_uses_it() {
    let folder = folder();
    let path = folder.path().join("r.db");
    let mut user = open(&path);
    let test = user.begin_test(&start(0)).unwrap();
    let garble = "UPDATE test SET orders = 'garbage'";
    Connection::open(&path).unwrap().execute(garble, []).unwrap();
    assert!(matches!(Store::open(&path, NOW), Err(Error::DamagedInUse(_))));
    user.keep_failure(Some(test), MapOrigin::Real, &failed(7, 1)).unwrap();
    drop(user);
    let opened = Store::open(&path, NOW).unwrap();
    assert!(opened.set_aside.is_some());
    assert_eq!(opened.store.failures(MapOrigin::Real).unwrap().len(), 1);
}

#[test]
fn a_store_that_goes_while_a_test_runs_has_a_successor() {
    let folder = folder();
    let path = folder.path().join("r.db");
    let (mut writer, _) = FactWriter::begin(open(&path), start(0));
    assert!(matches!(writer.keep(MapOrigin::Real, &failed(7, 1), at(1)), Durability::Durable));
    fs::rename(&path, folder.path().join("moved.db")).unwrap();
    assert!(matches!(writer.keep(MapOrigin::Real, &failed(8, 1), at(2)), Durability::Pending(Error::Moved(_))));
    assert!(matches!(writer.finish(end(3)), Durability::Durable));
    assert_eq!((writer.pending(), writer.set_aside()), (0, &[][..]));

    let both = ["moved.db", "r.db"].map(|name| open(&folder.path().join(name)));
    let [before, after] = both.each_ref().map(|store| store.failures(MapOrigin::Real).unwrap());
    assert_eq!((before.get(facts::frame(7)), after.get(facts::frame(8))), (Some(&failed(7, 1)), Some(&failed(8, 1))));
    let [interrupted, ended] = both.map(|store| store.history(9).unwrap().remove(0));
    assert_eq!((interrupted.id, interrupted.end), (ended.id, None));
    assert_eq!((ended.start, ended.end), (start(0), Some(end(3))));
}

#[test]
fn a_store_that_is_damaged_while_a_test_runs_is_set_aside_and_the_test_goes_on() {
    let folder = folder();
    let path = folder.path().join("r.db");
    let (mut writer, _) = FactWriter::begin(open(&path), start(0));
    let first: Vec<_> = (0..20).map(|number| failed(number, 4)).collect();
    assert!(matches!(
        writer.keep_all(first.iter().map(|failed| (MapOrigin::Real, failed)), at(1)),
        Durability::Durable
    ));
    let mut bytes = fs::read(&path).unwrap();
    let third = bytes.len() / 3;
    bytes[third..].fill(0xa5);
    bytes[27] ^= 1; // The change counter: SQLite must not trust what it has read before.
    fs::write(&path, &bytes).unwrap();

    let last = failed(100, 1);
    let mut outcome = writer.keep(MapOrigin::Real, &last, at(2));
    assert!(matches!(outcome, Durability::Pending(Error::Damaged(..))), "{outcome:?}");
    outcome = writer.finish(end(3));
    assert!(matches!(outcome, Durability::Durable), "{outcome:?}");
    assert_eq!(fs::read(&writer.set_aside()[0].path).unwrap(), bytes);
    drop(writer);
    let store = open(&path);
    assert_eq!(store.failures(MapOrigin::Real).unwrap().get(facts::frame(100)), Some(&last));
    assert_eq!(store.history(9).unwrap()[0].end, Some(end(3)));
}
