//! The configuration file: TOML, with every parameter of [Rahman16, tab. 1 and 6]; `docs/configuration.md` lists them.
//!
//! The command line overrides the file, and the file overrides the defaults. A file with one bad line changes nothing:
//! it is read and checked as a whole before it takes effect.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rampart_diagnostic::control::{ControlSettings, Error as SettingsError, PolicyLimits, PolicyName};
use rampart_diagnostic::daemon::{DaemonSettings, Share, Shares};
use rampart_march::Fidelity;
use rampart_memory::{Bytes, FRAME_BYTES, TestConfig, TestLifetime};
use serde::{Deserialize, Deserializer};

use super::arguments::{Outlet, WatchArguments, parse_events, parse_metrics, parse_policy, parse_share};
use crate::parsing::{parse_memory, parse_time};

/// Why a configuration is refused.
#[derive(Debug, displaydoc::Display, thiserror::Error)]
pub enum Error {
    /// the configuration {0} cannot be read ({1}): name another, or leave --config out
    Read(PathBuf, String),
    /// the configuration {0} is invalid: {1}
    Malformed(PathBuf, String),
    /// delta {delta:?} leaves nothing of the lifetime {lifetime:?}: shorten delta or lengthen the lifetime
    Delta {
        /// The reserve of time.
        delta: Duration,
        /// The vulnerability window.
        lifetime: Duration,
    },
    /// {0}
    Settings(#[from] SettingsError),
    /// max-cores is {0}, but the process may use only {1} CPUs: give at most {1}
    MoreCores(u32, u32),
}

impl From<Error> for crate::error::Error {
    fn from(error: Error) -> Self {
        Self::Configuration(error.to_string())
    }
}

/// The keys of a file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct File {
    #[serde(deserialize_with = "time")]
    lifetime: Option<Duration>,
    #[serde(deserialize_with = "time")]
    delta: Option<Duration>,
    #[serde(deserialize_with = "time")]
    monitoring: Option<Duration>,
    #[serde(deserialize_with = "time")]
    epoch: Option<Duration>,
    alpha: Option<f64>,
    alarm: Option<f64>,
    emergency_fidelity: Option<Fidelity>,
    emergency_cores: Option<u32>,
    #[serde(deserialize_with = "enough")]
    enough: Option<Enough>,
    #[serde(deserialize_with = "policy")]
    policy: Option<PolicyName>,
    min_fidelity: Option<Fidelity>,
    max_fidelity: Option<Fidelity>,
    fidelity_step: Option<u32>,
    max_cores: Option<u32>,
    #[serde(deserialize_with = "share")]
    max_share: Option<Share>,
    #[serde(deserialize_with = "share")]
    busy_share: Option<Share>,
    node_local: Option<bool>,
    error_threshold: Option<u64>,
    #[serde(deserialize_with = "time")]
    error_window: Option<Duration>,
    #[serde(deserialize_with = "metrics")]
    metrics: Option<Outlet<SocketAddr>>,
    #[serde(deserialize_with = "events")]
    events: Option<Outlet<PathBuf>>,
}

/// All that the command line and its configuration file say.
#[derive(Clone, Debug, PartialEq)]
pub struct Configuration {
    /// The settings of the daemon.
    pub settings: DaemonSettings,
    /// Where metrics are served.
    pub metrics: Option<SocketAddr>,
    /// The event log.
    pub events: Option<PathBuf>,
}

/// How much free memory is kept tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Enough {
    All,
    Memory(Bytes),
}

/// The configuration by the command line and its file, for a process that may use so many `cpus`.
pub fn configuration(arguments: &WatchArguments, cpus: u32) -> Result<Configuration, Error> {
    let configuration = combined(arguments)?;
    let cores = configuration.settings.control.limits.max_cores;
    if cores > cpus { Err(Error::MoreCores(cores, cpus)) } else { Ok(configuration) }
}

/// Command line, file and defaults, combined.
fn combined(arguments: &WatchArguments) -> Result<Configuration, Error> {
    let mut file = arguments.config.as_deref().map_or_else(|| Ok(File::default()), read)?;
    let (metrics, events) = (arguments.metrics.or(file.metrics), file.events.take());
    let events = arguments.events.clone().or(events);
    Ok(Configuration {
        settings: settings(arguments, &file)?,
        metrics: metrics.and_then(Outlet::into_option),
        events: events.and_then(Outlet::into_option),
    })
}

fn settings(arguments: &WatchArguments, file: &File) -> Result<DaemonSettings, Error> {
    let lifetime = arguments.lifetime.or(file.lifetime).unwrap_or(Duration::from_secs(30 * 60));
    // δ of [Rahman16, tab. 1], or a tenth of the lifetime if that is shorter.
    let delta = file.delta.unwrap_or_else(|| Duration::from_secs(10).min(lifetime / 10));
    let lifetime = TestLifetime::new(lifetime, delta).ok_or(Error::Delta { delta, lifetime })?;
    let published = ControlSettings::rahman16();
    let limits = PolicyLimits {
        min_fidelity: arguments.min_fidelity.or(file.min_fidelity).unwrap_or(published.limits.min_fidelity),
        max_fidelity: arguments.max_fidelity.or(file.max_fidelity).unwrap_or(published.limits.max_fidelity),
        fidelity_step: file.fidelity_step.unwrap_or(published.limits.fidelity_step),
        max_cores: arguments.max_cores.or(file.max_cores).unwrap_or(1),
    };
    let settings = ControlSettings {
        lifetime,
        monitoring: file.monitoring.unwrap_or(published.monitoring),
        epoch: file.epoch.unwrap_or(published.epoch),
        alpha: file.alpha.unwrap_or(published.alpha),
        alarm: file.alarm.unwrap_or(published.alarm),
        emergency: Some(TestConfig {
            fidelity: file.emergency_fidelity.unwrap_or(limits.min_fidelity),
            threads: file.emergency_cores.unwrap_or(limits.max_cores),
        }),
        enough: match file.enough {
            None | Some(Enough::All) => None,
            Some(Enough::Memory(bytes)) => Some(bytes.get() / FRAME_BYTES),
        },
        limits,
        node_local: file.node_local.unwrap_or(published.node_local),
        ..published
    };
    Ok(DaemonSettings {
        control: settings.checked()?,
        policy: arguments.policy.or(file.policy).unwrap_or(PolicyName::Adaptive),
        shares: Shares {
            maximum: arguments.max_share.or(file.max_share).unwrap_or(Share::new(0.5).expect("a half")),
            beside_programs: arguments.busy_share.or(file.busy_share).unwrap_or(Share::new(0.05).expect("a twentieth")),
        },
        error_threshold: file.error_threshold.unwrap_or(10),
        error_window: file.error_window.unwrap_or(Duration::from_secs(86_400)),
    })
}

fn read(path: &Path) -> Result<File, Error> {
    let text = std::fs::read_to_string(path).map_err(|error| Error::Read(path.to_owned(), error.to_string()))?;
    parse(&text).map_err(|why| Error::Malformed(path.to_owned(), why))
}

/// Parses a file. An error is one line: the line number, and the parser's message.
fn parse(text: &str) -> Result<File, String> {
    toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| 1 + text[..span.start.min(text.len())].matches('\n').count());
        format!("line {line}: {}", error.message().replace('\n', " "))
    })
}

fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    parsed(from, parse_time)
}

fn enough<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Enough>, D::Error> {
    parsed(from, parse_enough)
}

/// Parses how much free memory is kept tested: `all`, or a size.
fn parse_enough(text: &str) -> Result<Enough, String> {
    if text == "all" { Ok(Enough::All) } else { parse_memory(text).map(Enough::Memory) }
}

fn share<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Share>, D::Error> {
    parsed(from, parse_share)
}

fn policy<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PolicyName>, D::Error> {
    parsed(from, parse_policy)
}

fn metrics<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Outlet<SocketAddr>>, D::Error> {
    parsed(from, parse_metrics)
}

fn events<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Outlet<PathBuf>>, D::Error> {
    parsed(from, |text| match text {
        "" => Err("events is empty: name a file, or write off".to_owned()),
        text => Ok(parse_events(text.into())),
    })
}

fn parsed<'de, D: Deserializer<'de>, T>(
    from: D,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<T>, D::Error> {
    let text = String::deserialize(from)?;
    parse(&text).map(Some).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    use clap::Parser;

    use crate::cli::{Arguments, Command};

    const PACKAGED: &str = include_str!("../../../../../packaging/watch.toml");

    fn arguments(line: &[&str]) -> WatchArguments {
        let line = ["rampart", "watch"].iter().chain(line);
        match Arguments::try_parse_from(line).unwrap().command {
            Command::Watch(watch) => *watch,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_knob_in_the_documentation_is_read_and_has_the_default_that_it_says() {
        let text = include_str!("../../../../../docs/configuration.md");
        let example = text.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("watch.toml");
        std::fs::write(&path, example).unwrap();
        let documented = combined(&arguments(&["--config", path.to_str().unwrap()])).unwrap();
        assert_eq!(documented, combined(&arguments(&[])).unwrap());
    }

    /// The keys of [`File`], as serde lists them for an unknown key.
    fn keys() -> Vec<String> {
        let error = parse("no-such-key = 1\n").unwrap_err();
        let expected = error.split("expected one of").nth(1).expect("serde lists the keys");
        expected.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }

    /// The parameters of [Rahman16, tab. 1 and 6] and their keys; measured parameters have no key, and the
    /// documentation says so.
    #[test]
    fn every_knob_of_tables_1_and_6_has_a_key_and_every_key_is_documented() {
        let parameters = [
            ("test_lifetime", Some("lifetime")),
            ("δ", Some("delta")),
            ("replenish-δ", Some("monitoring")),
            ("α", Some("alpha")),
            ("mem_util", None),
            ("test_res", Some("max-share")),
            ("test_latency", None),
            ("Minimum test rate", None),
            ("MAX-CORES", Some("max-cores")),
            ("MIN-FIDELITY", Some("min-fidelity")),
            ("MAX-FIDELITY", Some("max-fidelity")),
            ("Alarm Condition", Some("alarm")),
            ("e_testconfig", Some("emergency-fidelity")),
            ("e_testconfig", Some("emergency-cores")),
            ("Policy Timer", Some("epoch")),
            ("Monitoring Timer", Some("monitoring")),
        ];
        let text = include_str!("../../../../../docs/configuration.md");
        let example = text.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
        let documented: Vec<&str> =
            example.lines().filter_map(|line| line.split_once(" = ")).map(|(key, _)| key.trim()).collect();
        assert_eq!(documented.len(), keys().len(), "{documented:?} and {:?}", keys());
        assert!(keys().iter().all(|key| documented.contains(&key.as_str())), "{documented:?} and {:?}", keys());
        for (parameter, key) in parameters {
            match key {
                Some(key) => assert!(documented.contains(&key), "{parameter} has no key {key}"),
                None => assert!(text.contains(&format!("`{parameter}`")), "{parameter} is not documented"),
            }
        }
    }

    #[test]
    fn enough_is_all_or_a_size() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("watch.toml");
        let enough = |text: &str| {
            std::fs::write(&path, format!("enough = {text:?}\n")).unwrap();
            combined(&arguments(&["--config", path.to_str().unwrap()])).map(|all| all.settings.control.enough)
        };
        assert_eq!(enough("all").unwrap(), None);
        assert_eq!(enough("1GiB").unwrap(), Some(262_144));
        assert!(enough("much").unwrap_err().to_string().contains("line 1"));
    }

    #[test]
    fn the_command_line_beats_the_file_and_the_file_the_defaults() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("watch.toml");
        std::fs::write(&path, "lifetime = \"10m\"\nmax-cores = 3\nmax-share = \"20%\"\n").unwrap();
        let path = path.to_str().unwrap();
        let combined_settings = combined(&arguments(&["--config", path, "--max-cores", "2"])).unwrap().settings;
        assert_eq!(combined_settings.control.lifetime.lifetime(), Duration::from_secs(600));
        assert_eq!(combined_settings.control.limits.max_cores, 2);
        assert_eq!((combined_settings.shares.maximum.get(), combined_settings.policy), (0.2, PolicyName::Adaptive));
        assert!(matches!(configuration(&arguments(&["--config", path]), 2), Err(Error::MoreCores(3, 2))));
    }

    #[test]
    fn metrics_and_events_go_where_the_file_says_unless_a_flag_says_otherwise() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("watch.toml");
        std::fs::write(&path, "metrics = \"[::1]:9437\"\nevents = \"log/events\"\n").unwrap();
        let outlets = |flags: &[&str]| {
            let all = combined(&arguments(&[&["--config", path.to_str().unwrap()], flags].concat())).unwrap();
            (all.metrics.map(|address| address.to_string()), all.events)
        };
        let (metrics, events) = (Some("[::1]:9437".to_owned()), Some(PathBuf::from("log/events")));
        assert_eq!(outlets(&[]), (metrics.clone(), events.clone()));
        assert_eq!(outlets(&["--events", "off"]), (metrics, None));
        assert_eq!(outlets(&["--metrics", "off"]), (None, events.clone()));
        assert_eq!(outlets(&["--metrics", "127.0.0.1:1"]), (Some("127.0.0.1:1".to_owned()), events));
        assert_eq!(outlets(&["--events", "./off"]).1, Some(PathBuf::from("./off")), "a file of that name");
        std::fs::write(&path, "metrics = \"off\"\nevents = \"off\"\n").unwrap();
        assert_eq!(outlets(&[]), (None, None));
        assert_eq!(outlets(&["--metrics", "127.0.0.1:1"]).0, Some("127.0.0.1:1".to_owned()));
    }

    /// The unit gives no flag but the file's name, so that the file alone says what is served.
    #[test]
    fn the_packaged_unit_serves_metrics_and_logs_events_by_its_configuration() {
        let unit = include_str!("../../../../../packaging/rampart.service");
        let path = "/etc/rampart/watch.toml";
        assert!(unit.lines().any(|line| line == format!("ExecStart=/usr/bin/rampart watch --config {path}")), "{unit}");
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("watch.toml");
        std::fs::write(&copy, PACKAGED).unwrap();
        let packaged = combined(&arguments(&["--config", copy.to_str().unwrap()])).unwrap();
        let defaults = combined(&arguments(&[])).unwrap();
        assert_eq!(packaged.settings, defaults.settings, "all else are defaults");
        assert_eq!(packaged.metrics, Some("127.0.0.1:9437".parse().unwrap()));
        assert_eq!(packaged.events, Some(PathBuf::from("/var/log/rampart/events.jsonl")));
        assert!(unit.contains("\nLogsDirectory=rampart\n"), "the folder of the events is the unit's");
    }

    #[test]
    fn a_bad_file_is_one_line_that_names_the_line() {
        for (text, line, word) in [
            ("lifetime = \"soon\"\n", 1, "write a time"),
            ("alpha = 2.0\ncolour = \"red\"\n", 2, "unknown field `colour`"),
            ("\n\nmax-share = \"200%\"\n", 3, "0.1% to 100%"),
            ("policy = \"on-demand\"\n", 1, "give another policy"),
            ("min-fidelity = 0\n", 1, "fidelity"),
            ("\nmetrics = \"0.0.0.0:9437\"\n", 2, "reached from elsewhere"),
            ("metrics = 9437\n", 1, "expected a string"),
            ("metrics = \"9437\"\n", 1, "write 127.0.0.1:9437, or off"),
            ("events = \"\"\n", 1, "name a file"),
            ("alpha = \n", 1, ""),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(&format!("line {line}: ")), "{error}");
            assert!(error.contains(word) && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn knobs_that_make_no_sense_together_are_refused() {
        assert!(matches!(
            combined(&arguments(&["--min-fidelity", "9", "--max-fidelity", "3"])),
            Err(Error::Settings(_))
        ));
        assert!(matches!(combined(&arguments(&["--max-cores", "0"])), Err(Error::Settings(_))));
        let short = combined(&arguments(&["--lifetime", "10s"])).unwrap();
        assert_eq!(short.settings.control.lifetime.delta(), Duration::from_secs(1));
    }
}
