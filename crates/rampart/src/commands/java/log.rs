//! What the collections of a program did, for people.

use std::fmt::Write as _;

use crate::inputs::host_report::{HostReport, ReportedFailures, ReportedFrames};
use crate::output::text::count;

/// The kinds of collections, as the host names them, and what they collect.
const KINDS: [(&str, &str); 3] =
    [("nursery", "young objects"), ("full", "all objects"), ("compacting", "all objects, to make whole pages free")];

impl HostReport {
    /// A line for each kind of collections, and three for what was moved, remembered and borrowed.
    pub fn text(&self) -> String {
        let mut text = self.frames.as_ref().map_or_else(String::new, |frames| frames.line(self.pages_changed));
        let _ = writeln!(
            text,
            "rampart: {:<11} {:>7} {:>9} {:>9} {:>9} {:>9}",
            "collections", "", "p50 ms", "p99 ms", "max ms", "sum ms"
        );
        for (kind, what) in KINDS {
            let of_kind = self.collections.iter().filter(|collection| collection.kind == kind);
            let pauses: Vec<u64> = of_kind.map(|collection| collection.pause_ns).collect();
            let Some([median, late, longest]) = quantiles(pauses.clone()) else { continue };
            let sum = milliseconds(pauses.iter().sum());
            let of = pauses.len();
            let _ =
                writeln!(text, "rampart: {kind:<11} {of:>7} {median:>9} {late:>9} {longest:>9} {sum:>9}  of {what}");
        }
        let _ = writeln!(
            text,
            "rampart: {} objects moved ({} bytes); {} KiB of tables",
            count(self.objects_moved),
            count(self.bytes_moved),
            count(self.table_bytes / 1024)
        );
        let _ = writeln!(
            text,
            "rampart: {} cards of old objects searched for references to young ones",
            count(self.cards_found_dirty)
        );
        let _ = writeln!(
            text,
            "rampart: {} perfect pages asked for, {} of them borrowed, at most {} at a time",
            count(self.perfect_pages_requested),
            count(self.perfect_pages_borrowed),
            count(self.most_pages_borrowed_at_once)
        );
        if let Some(failures) = &self.failures {
            text += &failures.text();
        }
        text
    }
}

impl ReportedFailures {
    fn text(&self) -> String {
        let Self { raised, free, young, old, large, .. } = self;
        let [raised, free, young, old, large] = [*raised, *free, *young, *old, *large].map(count);
        let mut text = format!(
            "rampart: {raised} lines failed meanwhile: {free} free, {young} with young objects, {old} with old ones, \
             {large} in large objects\n"
        );
        let times = [
            ("to deal with a failure", &self.up_call_ns),
            ("until nothing is on its line", &self.vacated_ns),
            ("collections that move objects", &self.evacuating_ns),
        ];
        let _ = writeln!(text, "rampart: {:<29} {:>7} {:>9} {:>9} {:>9}", "times", "", "p50 ms", "p99 ms", "max ms");
        for (what, times) in times {
            let Some([median, late, longest]) = quantiles(times.clone()) else { continue };
            let _ = writeln!(text, "rampart: {what:<29} {:>7} {median:>9} {late:>9} {longest:>9}", times.len());
        }
        text
    }
}

impl ReportedFrames {
    fn line(&self, changed: u64) -> String {
        let Self { pages, imperfect_pages, failed_lines, .. } = self;
        let [pages, imperfect, lines] = [*pages, *imperfect_pages, *failed_lines].map(count);
        let pinned = match (self.are_pinned, count(changed)) {
            (true, _) => "they are pinned".to_owned(),
            (false, changed) => format!("they are locked and not pinned: {changed} got other frames"),
        };
        format!("rampart: {pages} pages, {imperfect} of them on frames with failed lines ({lines} lines); {pinned}\n")
    }
}

/// The median, the 99th percentile and the longest of some times, in milliseconds; `None` if there are none.
fn quantiles(mut times: Vec<u64>) -> Option<[String; 3]> {
    times.sort_unstable();
    (!times.is_empty()).then(|| [50, 99, 100].map(|percent| milliseconds(percentile(&times, percent))))
}

/// The value that so many per cent of the sorted ones do not exceed (nearest rank).
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    sorted[(sorted.len() * percent).div_ceil(100).saturating_sub(1)]
}

fn milliseconds(nanoseconds: u64) -> String {
    let micros = nanoseconds / 1000;
    format!("{}.{:03}", micros / 1000, micros % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_told_by_kind() {
        let pauses = (1..=200).map(|pause| format!(r#"{{"kind":"nursery","pause_ns":{}}}"#, pause * 1000));
        let full = [r#"{"kind":"full","pause_ns":12345678}"#.to_owned()];
        let collections: Vec<String> = pauses.chain(full).collect();
        let document = format!(
            r#"{{"collections":[{}],"objects_moved":1234,"bytes_moved":5678,"perfect_pages_requested":9,
            "perfect_pages_borrowed":8,"most_pages_borrowed_at_once":7,"table_bytes":4096,"cards_found_dirty":1030,"more":1}}"#,
            collections.join(",")
        );
        let report: HostReport = serde_json::from_str(&document).unwrap();
        let expected = "\
rampart: collections            p50 ms    p99 ms    max ms    sum ms
rampart: nursery         200     0.100     0.198     0.200    20.100  of young objects
rampart: full              1    12.345    12.345    12.345    12.345  of all objects
rampart: 1,234 objects moved (5,678 bytes); 4 KiB of tables
rampart: 1,030 cards of old objects searched for references to young ones
rampart: 9 perfect pages asked for, 8 of them borrowed, at most 7 at a time
";
        assert_eq!(report.text(), expected);
        let failures = r#""failures":{"raised":5,"free":1,"young":1,"old":1,"large":1,"up_call_ns":[1000,9000],
            "vacated_ns":[2000000],"evacuating_ns":[]},"more""#;
        let report: HostReport = serde_json::from_str(&document.replace(r#""more""#, failures)).unwrap();
        let lines = "\
rampart: 5 lines failed meanwhile: 1 free, 1 with young objects, 1 with old ones, 1 in large objects
rampart: times                                    p50 ms    p99 ms    max ms
rampart: to deal with a failure              2     0.001     0.009     0.009
rampart: until nothing is on its line        1     2.000     2.000     2.000
";
        assert_eq!(report.text(), format!("{expected}{lines}"));
        let frames = r#""frames":{"pages":16384,"imperfect_pages":12,"failed_lines":40,"are_pinned":false},"more""#;
        let report: HostReport = serde_json::from_str(&document.replace(r#""more""#, frames)).unwrap();
        let line = "rampart: 16,384 pages, 12 of them on frames with failed lines (40 lines); they are locked and not \
                    pinned: 0 got other frames\n";
        assert_eq!(report.text(), format!("{line}{expected}"));
    }
}
