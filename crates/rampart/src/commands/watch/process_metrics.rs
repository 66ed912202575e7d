//! The process and its version as metrics, under the names that all programs use
//! (<https://prometheus.io/docs/instrumenting/writing_clientlibs/#process-metrics>).

use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use rampart_linux::ProcessUsage;
use rampart_memory::Bytes;

/// Registers the metrics of a process; none, if the kernel does not show what it uses.
#[expect(clippy::cast_precision_loss, reason = "counts that are shown")]
pub fn register(registry: &mut Registry, usage: Option<&ProcessUsage>) {
    let Some(usage) = usage else { return };
    let process = registry.sub_registry_with_prefix("process");
    let cpu = ConstCounter::new(usage.cpu.as_secs_f64());
    process.register_with_unit("cpu", "CPU time of the daemon, of user and system", Unit::Seconds, cpu);
    let started = ConstGauge::new(usage.started.micros() as f64 / 1e6);
    process.register_with_unit("start_time", "When the daemon started, since 1970", Unit::Seconds, started);
    let bytes = |bytes: Bytes| ConstGauge::new(bytes.get() as f64);
    let (resident, mapped) = (bytes(usage.memory.resident), bytes(usage.memory.mapped));
    process.register_with_unit(
        "resident_memory",
        "Memory of the daemon in frames, claimed memory included",
        Unit::Bytes,
        resident,
    );
    process.register_with_unit("virtual_memory", "All addresses of the daemon", Unit::Bytes, mapped);
    process.register("open_fds", "Open files of the daemon", ConstGauge::new(usage.open_files as f64));
    if let Some(most) = usage.max_files {
        process.register("max_fds", "Files that the daemon may open", ConstGauge::new(most as f64));
    }
}

/// Registers the version of Rampart.
pub fn register_build(registry: &mut Registry) {
    let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
    registry.sub_registry_with_prefix("rampart").register("build", "The version of Rampart", build);
}

#[cfg(test)]
pub mod tests {
    use super::*;

    use std::time::Duration;

    use rampart_linux::MemoryUsage;
    use rampart_memory::Timestamp;

    use crate::commands::watch::exposition::Exposition;

    /// A process that has run for 2.5 s on CPUs.
    pub fn usage() -> ProcessUsage {
        ProcessUsage {
            cpu: Duration::from_millis(2500),
            memory: MemoryUsage {
                mapped: Bytes::from_mib(64),
                resident: Bytes::from_mib(16),
                swapped: Bytes::from_mib(1),
            },
            open_files: 9,
            max_files: Some(1024),
            started: Timestamp::from_micros(1_700_000_000_250_000),
        }
    }

    #[test]
    fn the_process_and_its_version_have_the_names_that_all_programs_use() {
        let text = |usage: Option<&ProcessUsage>| {
            let mut registry = Registry::default();
            register(&mut registry, usage);
            register_build(&mut registry);
            Exposition::Text.of(&registry)
        };
        let shown = text(Some(&usage()));
        for line in [
            "# TYPE process_cpu_seconds_total counter",
            "process_cpu_seconds_total 2.5",
            "process_start_time_seconds 1700000000.25",
            "process_resident_memory_bytes 16777216.0",
            "process_virtual_memory_bytes 67108864.0",
            "process_open_fds 9.0",
            "process_max_fds 1024.0",
            "# TYPE rampart_build_info gauge",
            concat!("rampart_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1"),
        ] {
            assert!(shown.lines().any(|served| served == line), "{line} is not in\n{shown}");
        }
        assert!(!text(Some(&ProcessUsage { max_files: None, ..usage() })).contains("max_fds"));
        assert!(!text(None).contains("process_") && text(None).contains("rampart_build_info"));
    }
}
