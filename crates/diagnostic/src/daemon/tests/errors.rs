//! Memory errors that the hardware reported.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;
use crate::daemon::errors::ErrorWatch;

/// A file of errors, and the daemon that reads it.
struct Listening {
    fixture: Fixture,
    folder: tempfile::TempDir,
}

impl Listening {
    fn new(content: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let errors = folder.path().join("errors");
        fs::write(&errors, content).unwrap();
        Self { fixture: Fixture::new(WatchRequest { errors: Some(errors), ..plain() }), folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("errors")
    }

    fn settings(&self, error_threshold: u64, error_window: Duration) -> DaemonSettings {
        DaemonSettings { error_threshold, error_window, ..self.fixture.request.settings }
    }

    /// Reports, what was lost, and places above the threshold, of each event since the last call.
    fn counts(&self) -> Vec<[u64; 3]> {
        let of = |event: &serde_json::Value| ["reports", "lost", "erring"].map(|key| event[key].as_u64().unwrap());
        self.fixture.told.take_events().iter().map(of).collect()
    }
}

/// A line with errors of a frame, at second 1000.
fn line(count: u64, frame: u64) -> String {
    format!("{{\"at\":1000000000,\"severity\":\"corrected\",\"count\":{count},\"frame\":{frame}}}\n")
}

fn at(seconds: f64) -> Timestamp {
    Timestamp::from_micros(1_000_000_000).after(Duration::from_secs_f64(seconds))
}

fn append(path: &Path, text: &str) {
    fs::write(path, fs::read_to_string(path).unwrap_or_default() + text).unwrap();
}

const MINUTE: Duration = Duration::from_mins(1);

#[test]
fn frames_with_more_errors_than_the_threshold_are_tested_first_and_reports_are_counted() {
    let listening = Listening::new(&format!("{}garbage\n{}", line(6, 700), line(6, 701)));
    listening.fixture.with(|shared| {
        let mut watch = ErrorWatch::listen(shared, listening.settings(5, MINUTE));
        let region = FrameRange::new(frame(512), 512).unwrap();
        let erring = [FrameRange::new(frame(700), 1).unwrap(), FrameRange::new(frame(701), 1).unwrap(), region];
        assert_eq!(watch.poll(shared, at(0.0)), Some(erring.to_vec()));
        assert_eq!((watch.reports(), listening.counts()), (2, vec![[2, 1, 3]]));

        append(&listening.path(), &line(1, 9));
        assert_eq!(watch.poll(shared, at(0.499)), None, "polled twice a second");
        assert_eq!(watch.poll(shared, at(0.5)), Some(erring.to_vec()));
        assert_eq!((watch.reports(), listening.counts()), (3, vec![[1, 0, 3]]));
        append(&listening.path(), "garbage\n");
        assert!(watch.poll(shared, at(1.0)).is_some());
        assert_eq!((watch.reports(), listening.counts()), (3, vec![[0, 1, 3]]));
        assert!(watch.poll(shared, at(9.0)).is_some());
        assert_eq!(listening.counts(), [[0; 3]; 0], "nothing is new");
        assert_eq!(watch.poll(shared, at(120.0)), Some(Vec::new()), "they were a minute ago");
        assert_eq!(listening.fixture.told.of_tests.take_lines(), [""; 0]);
    });
}

#[test]
fn a_new_threshold_holds_for_errors_so_far_and_a_new_window_begins_to_count() {
    let listening = Listening::new(&line(6, 700));
    listening.fixture.with(|shared| {
        let mut watch = ErrorWatch::listen(shared, listening.settings(6, MINUTE));
        let mut erring = |seconds, threshold, window| {
            watch.change(listening.settings(threshold, window));
            watch.poll(shared, at(seconds)).unwrap().len()
        };
        assert_eq!(erring(0.0, 6, MINUTE), 0, "no more than the threshold");
        assert_eq!(erring(1.0, 5, MINUTE), 2, "the frame and its region");
        assert_eq!(erring(2.0, 5, 2 * MINUTE), 0);
    });
}

#[test]
fn trouble_with_the_file_is_said_once_each_time_that_it_begins() {
    let listening = Listening::new("");
    listening.fixture.with(|shared| {
        let mut watch = ErrorWatch::listen(shared, listening.settings(0, MINUTE));
        let path = listening.path();
        for (begin, frame) in [(0.0, 700), (10.0, 800)] {
            // A name that leads nowhere.
            fs::remove_file(&path).unwrap();
            std::os::unix::fs::symlink(&path, &path).unwrap();
            assert_eq!(watch.poll(shared, at(begin)), None);
            let warned = listening.fixture.told.of_tests.take_lines();
            assert_eq!(warned.len(), 1, "{warned:?}");
            assert!(warned[0].ends_with("polled again twice a second"), "{warned:?}");
            assert_eq!(watch.poll(shared, at(begin + 1.0)), None);
            assert_eq!(listening.fixture.told.of_tests.take_lines(), [""; 0], "it goes on");
            fs::remove_file(&path).unwrap();
            fs::write(&path, line(1, frame)).unwrap();
            assert!(watch.poll(shared, at(begin + 2.0)).is_some_and(|erring| !erring.is_empty()));
        }
        assert_eq!(watch.reports(), 2);
    });
}

#[test]
fn a_file_that_begins_as_a_database_is_read_as_one() {
    let listening = Listening::new("SQLite format 3\0, and then no table of errors");
    listening.fixture.with(|shared| {
        let mut watch = ErrorWatch::listen(shared, listening.settings(0, MINUTE));
        let warned = listening.fixture.told.of_tests.take_lines();
        assert_eq!(warned.len(), 1, "{warned:?}");
        assert!(warned[0].contains("database"), "{warned:?}");
        assert_eq!(watch.poll(shared, at(0.0)), None);
    });
}
