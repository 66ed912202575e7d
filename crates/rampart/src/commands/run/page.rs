//! The report of a run as a page: one HTML document that contains all its drawings and needs no network.
//!
//! **Problem.** A line shows the totals of a guard; its work over time, and on which memory, needs drawings. **Idea.**
//! A document without scripts: drawings as SVG, whose colours the style sheet replaces for readers who prefer dark.
//! **Why this way.** The page can be kept with the program's results, mailed, and opened in twenty years.
//!
//! All text from outside, such as the program's name and arguments, goes through [`escape`].

use std::fmt::Write as _;

use rampart_guard::{Counter, GuardSettings, OnError, Snapshot};
use rampart_memory::{Bytes, FRAME_BYTES, Timestamp};

use crate::guards::journals::{GuardJournals, Timeline};
use crate::guards::pictures::pictures;
use crate::guards::report::{GuardEvent, RunReport};
use crate::output::chart::Chart;
use crate::output::html::{self, document, escape, figure};
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
    let mut body = format!("<h1>Under guard: <code>{}</code></h1>\n", escape(program));
    let began = text::moment(run.began);
    let _ = writeln!(body, "<p class=soft>{began}, {:.2} s, {}</p>", run.seconds, escape(ended));
    body.push_str(&verdict(report));
    tiles(&mut body, report);
    over_time(&mut body, &journals.timeline);
    pictures(&mut body, &journals.traces);
    events(&mut body, &report.events);
    settings_in_words(&mut body, settings);
    counts(&mut body, &report.counts);
    for line in &journals.unreadable {
        let _ = writeln!(body, "<p class=bad>{}</p>", escape(line));
    }
    body.push_str(ESTIMATE);
    document(program, &body)
}

const ESTIMATE: &str = "<h2>How the overhead is estimated</h2>
<p>The overhead is the time in which the guard served faults, from the notice of a fault until the page was there, and in which it unlocked
all memory before a fork; over the rest of the time, as if the whole program waited. It does not include the microseconds that each fault takes
to reach the guard and its answer to reach the program, or the program's losses because the guard uses caches and memory too. A program whose
other threads continue meanwhile loses less. For an exact figure, time the program without a guard.</p>
";

fn verdict(report: &RunReport) -> String {
    let of = |counter| report.counts.get(counter);
    let (class, text) = match (of(Counter::Uncorrectable), of(Counter::Corrected) + of(Counter::CodesWrong)) {
        _ if report.processes == 0 => ("bad", "Nothing was guarded.".to_owned()),
        (0, 0) => ("good", "No memory error.".to_owned()),
        (0, corrected) => ("good", format!("Memory erred, and every page was corrected: {}.", text::count(corrected))),
        (beyond, _) => ("bad", format!("Memory changed beyond correction in {} pages.", text::count(beyond))),
    };
    format!("<p class={class}>{text}</p>\n")
}

fn tiles(body: &mut String, report: &RunReport) {
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
    html::tiles(body, tiles);
}

fn over_time(body: &mut String, timeline: &Timeline) {
    let Some((first, last)) = timeline.span() else { return };
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
    for (title, measure, max, lines) in drawings {
        if !title.is_empty() {
            let _ = writeln!(body, "<h2>{title}</h2>");
        }
        let names: Vec<_> = lines.iter().map(|(name, _)| *name).collect();
        if lines.iter().all(|(_, values)| values.iter().all(|value| *value == 0.0)) {
            let _ = writeln!(body, "<p class=soft>{} ({measure}): 0 all the time</p>", names.join(", "));
            continue;
        }
        figure(body, &names, &Chart { measure, over: "seconds", length: seconds, max, lines }.svg(), "");
    }
}

fn events(body: &mut String, events: &[GuardEvent]) {
    if events.is_empty() {
        return;
    }
    body.push_str("<h2>Events</h2>\n<div class=table><table>\n<tr><th>time<th>event<th class=number>page<th class=number>offset<th class=number>address<th class=number>frame<th class=number>bits<th>allocated at<th>accessed by\n");
    let cell = |value: Option<String>| format!("<td class=number>{}", value.unwrap_or_else(|| "–".to_owned()));
    for GuardEvent { event, at, page, offset, address, frame, bits, evidence: _, site, thread, code, why } in
        events.iter().take(EVENTS_SHOWN)
    {
        let hexadecimal = |number: &u64| format!("{number:#x}");
        let cells = [
            cell(page.as_ref().map(u64::to_string)),
            cell(offset.as_ref().map(hexadecimal)),
            cell(address.as_ref().map(hexadecimal)),
            cell(frame.as_ref().map(hexadecimal)),
            cell(bits.as_ref().map(u32::to_string)),
        ];
        let when = at.map_or_else(|| "–".to_owned(), |at| text::moment(Timestamp::from_micros(at)));
        let site = site.as_deref().unwrap_or("–");
        let known = [thread.map(|thread| format!("thread {thread}")), code.clone(), why.clone()];
        let known = known.into_iter().flatten().collect::<Vec<_>>().join(", ");
        let _ = writeln!(
            body,
            "<tr><td>{when}<td>{}{}<td>{}<td>{}",
            escape(event),
            cells.concat(),
            escape(site),
            escape(&known)
        );
    }
    body.push_str("</table></div>\n");
    if events.len() > EVENTS_SHOWN {
        let _ = writeln!(body, "<p class=soft>{} more are in the JSON report.</p>", events.len() - EVENTS_SHOWN);
    }
}

fn settings_in_words(body: &mut String, settings: &GuardSettings) {
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
    body.push_str("<h2>Settings</h2>\n");
    html::table(body, &["setting", "#value"], rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]));
}

fn counts(body: &mut String, counts: &Snapshot) {
    body.push_str("<h2>Counts</h2>\n<div class=table><table>\n");
    for counter in Counter::ALL {
        let _ = writeln!(body, "<tr><td>{}<td class=number>{}", counter.name(), text::count(counts.get(counter)));
    }
    body.push_str("</table></div>\n");
}
