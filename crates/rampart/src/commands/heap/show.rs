//! `rampart heap show`: the blocks and lines of a small heap, before and after a collection.
//!
//! A program from a seed fills a heap of 2 MiB: it makes objects of 16 B to 12 KiB, and keeps one in eight for a while.
//! What it allocates shows up as used lines; the collection keeps those on which something can still be reached.

use std::fs;

use maud::{Markup, PreEscaped, html};
use rampart_heap::wear::{ClusterBytes, Clustering, draw_failures};
use rampart_heap::{
    BlockSnapshot, Collection, HeapSettings, LineState, LocalAllocator, ManagedHeap, NativeModel, Shape,
};
use serde::Serialize;

use super::arguments::ShowArguments;
use crate::error::Error;
use crate::output::{html as pages, text};

/// The usable size of the heap, in pages.
const PAGES: usize = 512;

/// The states of a line that a drawing shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Free,
    Used,
    Marked,
    Failed,
    NoPage,
}

/// A heap at a moment.
struct Moment {
    title: &'static str,
    blocks: Vec<(usize, Vec<Shown>)>,
    large_pages: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct LineCount {
    free: usize,
    used: usize,
    marked: usize,
    failed: usize,
}

/// Shows the heap.
pub fn run(arguments: &ShowArguments) -> Result<u8, Error> {
    let moments = moments(arguments)?;
    if let Some(path) = &arguments.html {
        let page = page(arguments, &moments);
        fs::write(path, page).map_err(|cause| Error::Report { path: path.clone(), cause })?;
    }
    if arguments.json {
        let of = |moment: &Moment| {
            serde_json::json!({
                "moment": moment.title, "blocks": moment.blocks.len(), "lines": moment.count(),
                "pages_of_large_objects": moment.large_pages,
            })
        };
        let all: Vec<_> = moments.iter().map(of).collect();
        text::print_json(&serde_json::json!({"schema": "rampart.heap-show/1", "moments": all}))?;
    } else if arguments.html.is_none() {
        let line = |moment: &Moment| {
            let LineCount { free, used, marked, failed } = moment.count();
            let (title, blocks, large) = (moment.title, moment.blocks.len(), moment.large_pages);
            format!(
                "{title:<25} {blocks:>3} blocks: {free:>6} lines free, {used:>6} used, {marked:>6} marked, {failed:>6} \
                 failed; {large} pages of large objects\n"
            )
        };
        text::print(&moments.iter().map(line).collect::<String>())?;
    }
    Ok(0)
}

/// The program: what it keeps, and what it has made since the last collection.
struct Program {
    heap: ManagedHeap<NativeModel>,
    local: LocalAllocator,
    kept: Vec<u32>,
    made: Vec<(u32, u32)>,
    state: u64,
}

fn moments(arguments: &ShowArguments) -> Result<Vec<Moment>, Error> {
    let share = arguments.holes.share();
    let pages = share.compensated(PAGES).unwrap_or(PAGES);
    let drawn = draw_failures(pages, share, ClusterBytes::LINE, arguments.seed);
    let heap = ManagedHeap::new(NativeModel, HeapSettings::default(), arguments.cluster.addresses(drawn))?;
    let mut program =
        Program { heap, local: LocalAllocator::default(), kept: vec![0; 600], made: Vec::new(), state: arguments.seed };
    program.fill();
    program.collect(Collection::Full);
    program.fill();
    let before = program.moment("before the collection");
    program.collect(Collection::Nursery);
    let nursery = program.moment("after young objects");
    program.collect(Collection::Full);
    Ok(vec![before, nursery, program.moment("after all objects")])
}

impl Program {
    fn random(&mut self, below: u64) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) % below
    }

    /// Allocates until there is no room.
    fn fill(&mut self) {
        loop {
            let bytes = match self.random(100) {
                0..90 => 8 + self.random(120),
                90..99 => 300 + self.random(3000),
                _ => 9000 + self.random(4000),
            };
            let shape = u32::try_from(bytes).ok().and_then(|bytes| Shape::new(1, bytes)).expect("a small object");
            let Some(at) = self.heap.allocate(&mut self.local, shape.size()) else { return };
            let object = NativeModel::initialize(self.heap.region(), at, shape);
            self.made.push((object.offset(), shape.size()));
            if self.random(8) == 0 {
                let place = self.random(self.kept.len() as u64);
                self.kept[usize::try_from(place).expect("a place of the list")] = object.offset();
            }
        }
    }

    fn collect(&mut self, kind: Collection) {
        self.heap.collect(kind, &mut [&mut self.local], &mut self.kept, &mut |_| {});
        self.made.clear();
    }

    fn moment(&self, title: &'static str) -> Moment {
        let mut blocks: Vec<(usize, Vec<Shown>)> = self.heap.snapshot().iter().map(shown).collect();
        for &(at, bytes) in &self.made {
            for line in at / 64..=(at + bytes - 1) / 64 {
                let block = (line / 512) as usize;
                if let Some((_, lines)) = blocks.iter_mut().find(|(number, _)| *number == block) {
                    lines[(line % 512) as usize] = Shown::Used;
                }
            }
        }
        Moment { title, blocks, large_pages: self.heap.large_pages() }
    }
}

fn shown(block: &BlockSnapshot) -> (usize, Vec<Shown>) {
    let of = |line: &LineState| match line {
        LineState::NoPage => Shown::NoPage,
        LineState::Failed => Shown::Failed,
        LineState::Marked => Shown::Marked,
        LineState::Free => Shown::Free,
    };
    (block.block.number(), block.lines.iter().map(of).collect())
}

impl Moment {
    fn count(&self) -> LineCount {
        let count = |wanted| self.blocks.iter().flat_map(|(_, lines)| lines).filter(|line| **line == wanted).count();
        LineCount {
            free: count(Shown::Free),
            used: count(Shown::Used),
            marked: count(Shown::Marked),
            failed: count(Shown::Failed),
        }
    }

    /// A row for each block, in which a line has a pixel or two.
    fn svg(&self) -> String {
        use std::fmt::Write as _;
        const ROW: usize = 9;
        let height = ROW * self.blocks.len();
        let mut svg = format!("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 1024 {height}\">");
        for (row, (_, lines)) in self.blocks.iter().enumerate() {
            let mut start = 0;
            for run in lines.chunk_by(|a, b| a == b) {
                let (x, width, y) = (2 * start, 2 * run.len(), ROW * row);
                let _ = write!(
                    svg,
                    "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{}\" fill=\"{}\"/>",
                    ROW - 2,
                    run[0].colour()
                );
                start += run.len();
            }
        }
        svg.push_str("</svg>");
        svg
    }
}

impl Shown {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Free, "free"),
        (Self::Used, "used since the last collection"),
        (Self::Marked, "marked: found live by the last collection"),
        (Self::Failed, "failed"),
        (Self::NoPage, "no page"),
    ];

    const fn colour(self) -> &'static str {
        match self {
            Self::Free => "#d8dee6",
            Self::Used => "#0072b2",
            Self::Marked => "#009e73",
            Self::Failed => "#d55e00",
            Self::NoPage => "#8a8f98",
        }
    }
}

fn page(arguments: &ShowArguments, moments: &[Moment]) -> String {
    let key = |(shown, name): &(Shown, &str)| -> Markup {
        html! { span style={ "display:inline-block;width:1em;height:1em;margin:0 .4em 0 1em;background:" (shown.colour()) } {} (name) }
    };
    let body = html! {
        h1 { "A heap with failed lines" }
        p {
            "Each row is a block of 32 KiB, and each step in it a line of 64 B. " (arguments.holes.get()) " % of the lines
            have failed" @if let Clustering::Regions(size) = arguments.cluster { ", gathered in regions of " (size.pages()) " pages" } "."
        }
        p { @for entry in &Shown::ALL { (key(entry)) } }
        @for moment in moments {
            h2 { (moment.title) }
            @let LineCount { free, used, marked, failed } = moment.count();
            p {
                (moment.blocks.len()) " blocks: " (free) " lines free, " (used) " used, " (marked) " marked, " (failed) " failed; "
                (moment.large_pages) " pages of large objects."
            }
            figure { (PreEscaped(moment.svg())) }
        }
    };
    pages::document("heap", &body)
}

#[cfg(test)]
mod tests {
    use rampart_heap::wear::RegionPages;

    use super::*;

    fn arguments(holes: &str, cluster: Clustering) -> ShowArguments {
        ShowArguments { html: None, holes: holes.parse().unwrap(), cluster, seed: 3, json: false }
    }

    #[test]
    fn a_collection_frees_lines_and_uses_none_that_has_failed() {
        let moments = moments(&arguments("25%", Clustering::Off)).unwrap();
        let [before, nursery, after] = &moments[..] else { panic!("three moments") };
        let (before, nursery, after) = (before.count(), nursery.count(), after.count());
        assert!(before.used > 1000 && nursery.used == 0, "{before:?} {nursery:?}");
        assert!(nursery.free > before.free && after.marked < nursery.marked, "{nursery:?} {after:?}");
        assert!(before.failed > 1000 && after.failed > 1000);
    }

    #[test]
    fn the_page_says_what_was_drawn() {
        let arguments = arguments("10%", Clustering::Regions(RegionPages::Two));
        let page = page(&arguments, &moments(&arguments).unwrap());
        assert!(page.contains("10 % of the lines") && page.contains("regions of 2 pages"));
        assert_eq!(page.matches("<svg").count(), 3);
    }
}
