//! Networks by name: a known one, or a measured one in a file.

use std::path::Path;

use rampart_memory::Bytes;
use rampart_scale::network::NETWORKS;
use rampart_scale::{LogGops, PerByte, Time};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::inputs::files;

/// The longest file of a network: a hundred times as long as those of `rampart project calibrate`.
const LONGEST: Bytes = Bytes::new(64 << 10);

/// The longest time per byte, in nanoseconds: 18 s are 2^64 attoseconds.
const MAX_NANOS_PER_BYTE: f64 = 18e9;

/// The LogGOPS parameters in a TOML file of `rampart project calibrate`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkParameters {
    /// L, in nanoseconds.
    pub latency_ns: f64,
    /// o, in nanoseconds.
    pub overhead_ns: f64,
    /// g, in nanoseconds.
    pub gap_ns: f64,
    /// G, in nanoseconds a byte.
    pub gap_ns_per_byte: f64,
    /// O, in nanoseconds a byte.
    pub overhead_ns_per_byte: f64,
    /// S, in bytes.
    pub eager_bytes: u64,
}

impl NetworkParameters {
    /// The network, if all parameters are valid times.
    fn network(&self) -> Option<LogGops> {
        let times = [self.latency_ns, self.overhead_ns, self.gap_ns];
        let per_byte_times = [self.gap_ns_per_byte, self.overhead_ns_per_byte];
        let fits = |max: f64, values: &[f64]| values.iter().all(|value| (0.0..=max).contains(value));
        if !fits(1e12, &times) || !fits(MAX_NANOS_PER_BYTE, &per_byte_times) {
            return None;
        }
        let time = |nanos: f64| Time::from_secs_f64(nanos / 1e9);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of a float saturates")]
        let per_byte = |nanos: f64| PerByte::from_attos((nanos * 1e9).round() as u64);
        Some(LogGops {
            latency: time(self.latency_ns),
            overhead: time(self.overhead_ns),
            gap: time(self.gap_ns),
            gap_per_byte: per_byte(self.gap_ns_per_byte),
            overhead_per_byte: per_byte(self.overhead_ns_per_byte),
            eager: Bytes::new(self.eager_bytes),
        })
    }
}

/// Returns the known network of this name, or reads one from the file of this name.
pub fn named(name: &str) -> Result<LogGops, Error> {
    if let Ok(network) = LogGops::named(name) {
        return Ok(network);
    }
    let path = Path::new(name);
    if !path.exists() {
        let known = NETWORKS.map(|(known, _)| known).join(", ");
        return Err(Error::NoSuchNetwork { name: name.to_owned(), known });
    }
    let refused = |why: String| Error::Network { path: path.to_owned(), why };
    let text = files::read_text(path, LONGEST).map_err(refused)?;
    let parameters: NetworkParameters = toml::from_str(&text).map_err(|error| refused(error.message().to_owned()))?;
    parameters.network().ok_or_else(|| refused("a time is below 0 or above 1000 s, or above 18 s a byte".to_owned()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_network_that_was_measured_is_read_from_its_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let parameters = NetworkParameters {
            latency_ns: 250.5,
            overhead_ns: 100.0,
            gap_ns: 90.0,
            gap_ns_per_byte: 0.04,
            overhead_ns_per_byte: 0.0,
            eager_bytes: 4096,
        };
        fs::write(file.path(), toml::to_string(&parameters).unwrap()).unwrap();
        let network = named(file.path().to_str().unwrap()).unwrap();
        assert_eq!((network.latency, network.eager), (Time::from_picos(250_500), Bytes::new(4096)));
        assert_eq!(network.gap_per_byte, PerByte::from_attos(40_000_000));
        let with = |parameters: &NetworkParameters| {
            fs::write(file.path(), toml::to_string(parameters).unwrap()).unwrap();
            named(file.path().to_str().unwrap()).unwrap_err().to_string()
        };
        assert!(with(&NetworkParameters { gap_ns: -1.0, ..parameters.clone() }).contains("a time is below 0"));
        assert!(with(&NetworkParameters { gap_ns: f64::NAN, ..parameters.clone() }).contains("a time is below 0"));
        assert!(with(&NetworkParameters { gap_ns_per_byte: 18.1e9, ..parameters.clone() }).contains("18 s a byte"));
        assert!(with(&NetworkParameters { overhead_ns_per_byte: 1e12, ..parameters }).contains("18 s a byte"));
        fs::write(file.path(), "#".repeat(70_000)).unwrap();
        assert!(named(file.path().to_str().unwrap()).unwrap_err().to_string().contains("longer than"));
        assert!(named("/dev/zero").unwrap_err().to_string().contains("a device"));
        fs::write(file.path(), "latency_ns = 1").unwrap();
        assert_eq!(named(file.path().to_str().unwrap()).unwrap_err().to_string().lines().count(), 1);
        assert!(named("no such network").unwrap_err().to_string().contains("cray-xc40"));
    }
}
