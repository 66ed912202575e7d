//! The report of a run as a page: one HTML document that contains all its drawings and needs no network.
//!
//! **Problem.** A line shows the totals of a guard; its work over time, and on which memory, needs drawings. **Idea.**
//! A document without scripts: drawings as SVG, whose colours the style sheet replaces for readers who prefer dark.
//! **Why this way.** The page can be kept with the program's results, mailed, and opened in twenty years.
//!
//! All text from outside, such as the program's name and arguments, is escaped (`output::html`).

use maud::{Markup, html};
use rampart_guard::{Counter, GuardSettings, OnError, Snapshot};
use rampart_memory::{Bytes, FRAME_BYTES, Timestamp};

use crate::guards::journals::{GuardJournals, Timeline};
use crate::guards::pictures::pictures;
use crate::guards::report::{GuardEvent, RunReport};
use crate::output::chart::Chart;
use crate::output::html::{self, document, figure};
use crate::output::text;

/// The number of points of each line.
const PARTS: usize = 180;

/// The most events in the table; the JSON has all.
const EVENTS_SHOWN: usize = 200;

/// A run that has ended.
pub struct EndedRun<'a> {
    /// The program and its arguments.
    pub program: String,
    /// How it ended.
    pub ended: String,
    /// The guard's settings.
    pub settings: &'a GuardSettings,
    /// When it began.
    pub began: Timestamp,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// The counts and events of its guards.
    pub report: &'a RunReport,
    /// The journals of its guards.
    pub journals: &'a GuardJournals,
}

/// The page of a run.
pub fn of_run(run: &EndedRun<'_>) -> String {
    let EndedRun { program, ended, settings, report, journals, .. } = run;
    let body = html! {
        h1 { "Under guard: " code { (program) } }
        p.soft { (text::moment(run.began)) ", " (format!("{:.2}", run.seconds)) " s, " (ended) }
        (verdict(report))
        (tiles(report))
        (over_time(&journals.timeline))
        (pictures(&journals.traces))
        (events(&report.events))
        (settings_in_words(settings))
        (counts(&report.counts))
        @for line in &journals.unreadable {
            p.bad { (line) }
        }
        h2 { "How the overhead is estimated" }
        p { (ESTIMATE) }
    };
    document(program, &body)
}

const ESTIMATE: &str = "The overhead is the time in which the guard served faults, from the notice of a fault until the page was there, \
     and in which it unlocked all memory before a fork; over the rest of the time, as if the whole program waited. It \
     does not include the microseconds that each fault takes to reach the guard and its answer to reach the program, or \
     the program's losses because the guard uses caches and memory too. A program whose other threads continue \
     meanwhile loses less. For an exact figure, time the program without a guard.";

fn verdict(report: &RunReport) -> Markup {
    let of = |counter| report.counts.get(counter);
    let (class, text) = match (of(Counter::Uncorrectable), of(Counter::Corrected) + of(Counter::CodesWrong)) {
        _ if report.processes == 0 => ("bad", "Nothing was guarded.".to_owned()),
        (0, 0) => ("good", "No memory error.".to_owned()),
        (0, corrected) => ("good", format!("Memory erred, and every page was corrected: {}.", text::count(corrected))),
        (beyond, _) => ("bad", format!("Memory changed beyond correction in {} pages.", text::count(beyond))),
    };
    html! { p class=(class) { (text) } }
}

fn tiles(report: &RunReport) -> Markup {
    let of = |counter| report.counts.get(counter);
    let percent = |share: Option<f64>| share.map_or_else(|| "–".to_owned(), |share| format!("{:.1} %", 100.0 * share));
    let pages = |counter| Bytes::new(of(counter).saturating_mul(FRAME_BYTES)).to_string();
    let tiles = [
        (percent(report.overhead), "overhead, estimated"),
        (percent(report.locked_share), "of the heap locked, on average"),
        (pages(Counter::MostPages), "of heap guarded"),
        (pages(Counter::Verified), "verified"),
        (text::count(of(Counter::Faults)), "faults"),
        (text::count(of(Counter::Corrected)), "pages corrected"),
        (text::count(of(Counter::Uncorrectable)), "beyond correction"),
        (text::count(report.processes as u64), "processes"),
    ];
    html::tiles(tiles)
}

fn over_time(timeline: &Timeline) -> Markup {
    let Some((first, last)) = timeline.span() else { return html! {} };
    let seconds = last.since(first).as_secs_f64();
    let part = seconds / PARTS as f64;
    let of = |counter| timeline.growth(counter, PARTS);
    let ratio = |over: &[f64], under: &[f64]| -> Vec<f64> {
        over.iter().zip(under).map(|(over, under)| if *under > 0.0 { 100.0 * over / under } else { 0.0 }).collect()
    };
    let scaled = |values: &[f64], by: f64| -> Vec<f64> { values.iter().map(|value| value * by).collect() };
    let (pages, unlocked) = (of(Counter::PageMicros), of(Counter::UnlockedMicros));
    let locked: Vec<f64> = ratio(&unlocked, &pages).iter().map(|unlocked| 100.0 - unlocked).collect();
    let mebibytes = FRAME_BYTES as f64 / f64::from(1 << 20) / (part * 1e6);
    let gigabytes = FRAME_BYTES as f64 / 1e9 / part;
    let guarded = timeline.guarded_micros(PARTS);
    // What took long is counted when it ends, perhaps in a later part: no part has more than all of its time.
    let part_of_time = |counter| -> Vec<f64> {
        ratio(&scaled(&of(counter), 1e-3), &guarded).into_iter().map(|share| share.min(100.0)).collect()
    };
    let drawings = [
        ("The heap over time", "% of the heap locked", Some(100.0), vec![("locked", locked)]),
        ("", "MiB", None, vec![("in use", scaled(&pages, mebibytes)), ("unlocked", scaled(&unlocked, mebibytes))]),
        (
            "The overhead",
            "% of the time",
            None,
            vec![
                ("the guard served faults", part_of_time(Counter::ServeNanos)),
                ("the program was interrupted", part_of_time(Counter::InterruptNanos)),
            ],
        ),
        (
            "",
            "per second",
            None,
            vec![
                ("faults", scaled(&of(Counter::Faults), 1.0 / part)),
                ("blocks verified ahead", scaled(&of(Counter::Prefetched), 1.0 / part)),
            ],
        ),
        (
            "",
            "GB per second",
            None,
            vec![
                ("verified", scaled(&of(Counter::Verified), gigabytes)),
                ("codes made", scaled(&of(Counter::Encoded), gigabytes)),
            ],
        ),
    ];
    html! {
        @for (title, measure, max, lines) in drawings {
            @if !title.is_empty() {
                h2 { (title) }
            }
            (lines_over_time(measure, seconds, max, lines))
        }
    }
}

fn lines_over_time(measure: &str, seconds: f64, max: Option<f64>, lines: Vec<(&str, Vec<f64>)>) -> Markup {
    let names: Vec<_> = lines.iter().map(|(name, _)| *name).collect();
    if lines.iter().all(|(_, values)| values.iter().all(|value| *value == 0.0)) {
        return html! { p.soft { (names.join(", ")) " (" (measure) "): 0 all the time" } };
    }
    figure(&names, Chart { measure, over: "seconds", length: seconds, max, lines }.svg(), "")
}

fn events(events: &[GuardEvent]) -> Markup {
    if events.is_empty() {
        return html! {};
    }
    let heads = ["time", "event", "#page", "#offset", "#address", "#frame", "#bits", "allocated at", "accessed by"];
    html! {
        h2 { "Events" }
        (html::table(&heads, events.iter().take(EVENTS_SHOWN).map(cells)))
        @if events.len() > EVENTS_SHOWN {
            p.soft { (events.len() - EVENTS_SHOWN) " more are in the JSON report." }
        }
    }
}

fn cells(event: &GuardEvent) -> Vec<String> {
    let GuardEvent { event, at, page, offset, address, frame, bits, evidence: _, site, thread, code, why } = event;
    let known = |value: Option<String>| value.unwrap_or_else(|| "–".to_owned());
    let hexadecimal = |number: &u64| format!("{number:#x}");
    let access = [thread.map(|thread| format!("thread {thread}")), code.clone(), why.clone()];
    vec![
        known(at.map(|at| text::moment(Timestamp::from_micros(at)))),
        event.clone(),
        known(page.as_ref().map(u64::to_string)),
        known(offset.as_ref().map(hexadecimal)),
        known(address.as_ref().map(hexadecimal)),
        known(frame.as_ref().map(hexadecimal)),
        known(bits.as_ref().map(u32::to_string)),
        known(site.clone()),
        access.into_iter().flatten().collect::<Vec<_>>().join(", "),
    ]
}

fn settings_in_words(settings: &GuardSettings) -> Markup {
    let GuardSettings { method, scheme, block_pages, unit_pages, interval, cap, prefetch, overhead, on_error, protect } =
        settings;
    let pages = |pages: u32| Bytes::new(u64::from(pages) * FRAME_BYTES).to_string();
    let action = match on_error {
        OnError::Stop => "stop the program",
        OnError::Continue => "let the program continue",
        OnError::Checkpoint => "run the command for a checkpoint, then stop the program",
    };
    let mut rows = vec![
        ("memory that is guarded", protect.to_string()),
        ("engine, which makes pages inaccessible", method.name().to_owned()),
        ("codes of each page", scheme.to_string()),
        ("memory that is locked at once, at most", pages(*block_pages)),
        ("memory that is unlocked at once, at least", pages(*unit_pages)),
        ("blocks that are verified before a stream reaches them, at most", prefetch.to_string()),
        ("a page that cannot be corrected", action.to_owned()),
    ];
    match overhead {
        Some(percent) => rows.push(("overhead that decides how much is unlocked", format!("{percent} %"))),
        None => rows.push(("memory that is unlocked, at most", cap.to_string())),
    }
    if let Some(interval) = interval {
        rows.push(("locked again after", text::duration(interval.as_secs_f64())));
    }
    html! {
        h2 { "Settings" }
        (html::table(&["setting", "#value"], rows.into_iter().map(|(name, value)| vec![name.to_owned(), value])))
    }
}

fn counts(counts: &Snapshot) -> Markup {
    html! {
        h2 { "Counts" }
        div.table {
            table {
                @for counter in Counter::ALL {
                    tr { td { (counter.name()) } td.number { (text::count(counts.get(counter))) } }
                }
            }
        }
    }
}
