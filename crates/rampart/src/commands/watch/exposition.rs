//! The two formats in which metrics are exposed, and which one a client gets.
//!
//! `prometheus-client` writes OpenMetrics alone. Other tools read the older text format, so it is what a client gets
//! that asks for nothing. It is made from OpenMetrics line by line: the names of counters end in `_total` in all
//! lines, and it knows neither units, nor `info`, nor a mark of the end.
//!
//! Sources: <https://prometheus.io/docs/instrumenting/exposition_formats/>, OpenMetrics 1.0, RFC 9110 12.5.1.

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

/// A format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposition {
    /// Prometheus' text format 0.0.4.
    Text,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Exposition {
    /// The format for a client with this header `Accept`: OpenMetrics if it asks for that by name, and does not prefer
    /// text.
    pub fn accepted(header: &str) -> Self {
        let header = header.to_ascii_lowercase();
        let ranges: Vec<MediaRange<'_>> = header.split(',').map(MediaRange::parse).collect();
        let weight = |kind: &str, version: &str| {
            let fits = |range: &&MediaRange<'_>| range.kind == kind && range.version.is_none_or(|has| has == version);
            ranges.iter().filter(fits).map(|range| range.weight).reduce(f64::max)
        };
        let text = ["text/plain", "text/*", "*/*"].into_iter().find_map(|kind| weight(kind, "0.0.4")).unwrap_or(0.0);
        match weight("application/openmetrics-text", "1.0.0") {
            Some(open) if open > 0.0 && open >= text => Self::OpenMetrics,
            _ => Self::Text,
        }
    }

    /// The header `Content-Type`.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// All metrics of a registry. There are no exemplars and no timestamps among them.
    pub fn of(self, registry: &Registry) -> String {
        let mut open = String::new();
        encode(&mut open, registry).expect("a string takes everything");
        match self {
            Self::Text => text_of(&open),
            Self::OpenMetrics => open,
        }
    }
}

/// One of the kinds of answers that a client accepts.
struct MediaRange<'a> {
    kind: &'a str,
    version: Option<&'a str>,
    /// 0 to 1; 0 is a refusal.
    weight: f64,
}

impl<'a> MediaRange<'a> {
    fn parse(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let mut range = Self { kind: parts.next().unwrap_or_default(), version: None, weight: 1.0 };
        for (key, value) in parts.filter_map(|part| part.split_once('=')) {
            match (key.trim_end(), value.trim_start().trim_matches('"')) {
                ("version", version) => range.version = Some(version),
                // What cannot be read is no refusal.
                ("q", weight) => range.weight = weight.parse().unwrap_or(1.0),
                _ => {}
            }
        }
        range
    }
}

/// Metrics in the text format, made from OpenMetrics.
fn text_of(open: &str) -> String {
    let mut text = String::new();
    let mut help = None;
    for line in open.lines() {
        let (mark, rest) = line.split_at(line.find(' ').map_or(0, |space| space + 1));
        match (mark, rest.split_once(' ')) {
            // The name depends on the type, which comes next.
            ("# ", Some(("HELP", described))) => help = described.split_once(' '),
            ("# ", Some(("TYPE", typed))) => {
                let Some((name, kind)) = typed.split_once(' ') else { continue };
                let (suffix, kind) = in_text(kind);
                if let Some((_, help)) = help.take().filter(|(described, _)| *described == name) {
                    // A quotation mark is escaped only in OpenMetrics.
                    text += &format!("# HELP {name}{suffix} {}\n", help.replace("\\\"", "\""));
                }
                text += &format!("# TYPE {name}{suffix} {kind}\n");
            }
            ("# ", _) => {}
            _ => text += &format!("{line}\n"),
        }
    }
    text
}

/// What the text format adds to the name of a metric of this type of OpenMetrics, and how it calls the type.
fn in_text(kind: &str) -> (&'static str, &str) {
    match kind {
        "counter" => ("_total", kind),
        "info" => ("_info", "gauge"),
        "stateset" => ("", "gauge"),
        "unknown" => ("", "untyped"),
        kind => ("", kind),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use prometheus_client::metrics::counter::ConstCounter;
    use prometheus_client::metrics::gauge::ConstGauge;
    use prometheus_client::metrics::info::Info;
    use prometheus_client::registry::Unit;

    fn registry() -> Registry {
        let mut registry = Registry::with_prefix("a");
        registry.register_with_unit("work", "Work that was done", Unit::Seconds, ConstCounter::new(1.5));
        registry.register_with_unit("size", "Size now", Unit::Bytes, ConstGauge::new(7_i64));
        registry.register("build", "What was built", Info::new([("version", "1 # 2")]));
        registry
    }

    #[test]
    fn the_text_format_names_counters_in_full_and_has_no_units_and_no_end() {
        let text = "# HELP a_work_seconds_total Work that was done.\n# TYPE a_work_seconds_total counter\n\
                    a_work_seconds_total 1.5\n\
                    # HELP a_size_bytes Size now.\n# TYPE a_size_bytes gauge\na_size_bytes 7\n\
                    # HELP a_build_info What was built.\n# TYPE a_build_info gauge\n\
                    a_build_info{version=\"1 # 2\"} 1\n";
        assert_eq!(Exposition::Text.of(&registry()), text);
        let unknown = "# HELP b A \\\"b\\\" \\\\ c.\n# TYPE b unknown\nb 1\n# EOF\n";
        assert_eq!(text_of(unknown), "# HELP b A \"b\" \\\\ c.\n# TYPE b untyped\nb 1\n");
    }

    #[test]
    fn openmetrics_is_what_the_library_writes() {
        let open = Exposition::OpenMetrics.of(&registry());
        assert!(
            open.starts_with("# HELP a_work_seconds Work that was done.\n# TYPE a_work_seconds counter\n"),
            "{open}"
        );
        assert!(open.contains("# UNIT a_work_seconds seconds\na_work_seconds_total 1.5\n"), "{open}");
        assert!(open.contains("# TYPE a_build info\n") && open.ends_with("# EOF\n"), "{open}");
    }

    #[test]
    fn a_client_gets_text_unless_it_asks_for_openmetrics() {
        use Exposition::{OpenMetrics, Text};
        let prometheus_2 = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;\
                            q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let prometheus_3 = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/\
                            openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;\
                            q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (header, expected) in [
            ("", Text),
            ("*/*", Text),
            ("text/plain", Text),
            ("application/json", Text),
            ("text/html, application/xhtml+xml, */*;q=0.8", Text),
            ("application/openmetrics-text", OpenMetrics),
            ("text/plain, application/openmetrics-text", OpenMetrics),
            ("Application/OpenMetrics-Text; Version=\"1.0.0\" ; Q = 0.5", OpenMetrics),
            (prometheus_2, OpenMetrics),
            (prometheus_3, OpenMetrics),
            ("application/openmetrics-text; version=0.0.1", Text),
            ("application/openmetrics-text; q=0", Text),
            ("application/openmetrics-text; q=0.3, text/plain; q=0.7", Text),
            ("application/openmetrics-text; q=0.3, */*; q=0.7", Text),
            ("application/openmetrics-text; q=0.3, text/plain; q=0.1, */*", OpenMetrics),
            (";;=,q=,", Text),
        ] {
            assert_eq!(Exposition::accepted(header), expected, "{header}");
        }
    }
}
