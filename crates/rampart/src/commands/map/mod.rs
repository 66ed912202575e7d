//! `rampart map`: shows and changes the map of bad frames.

pub mod arguments;

use std::fmt::Write as _;
use std::num::NonZero;
use std::path::PathBuf;

use rampart_diagnostic::MachineUnderTest;
use rampart_diagnostic::once::report::BadFrame;
use rampart_linux::FrameUses;
use rampart_memory::FaultMap;
use rampart_memory::Frame;
use rampart_memory::fault_map::export::{BadRam, Document, Memmap, Obstacle};
use rampart_memory::fault_map::{FailedFrame, FrameUse, MapOrigin, Retirement};
use rampart_store::Store;
use serde::Serialize;

use self::arguments::{ExportFormat, MapCommand};
use crate::error::Error;
use crate::inputs::store;
use crate::output::verbosity::Verbosity;
use crate::output::{colour, text};

#[derive(Serialize)]
struct Map {
    schema: &'static str,
    origin: MapOrigin,
    frames: Vec<KnownFrame>,
}

/// A frame of the map, and its present state.
#[derive(Serialize)]
struct KnownFrame {
    #[serde(flatten)]
    bad: BadFrame,
    /// `None` for an emulated frame, which was never bad.
    #[serde(skip_serializing_if = "Option::is_none")]
    now: Option<FrameUse>,
}

impl KnownFrame {
    fn of(bad: BadFrame, uses: &FrameUses) -> Self {
        let now = bad.frame.filter(|_| bad.origin == MapOrigin::Real).map(|frame| uses.of(frame));
        Self { bad, now }
    }

    fn is_out_of_use(&self) -> bool {
        self.now.is_some_and(FrameUse::is_out_of_use)
    }

    fn line(&self) -> String {
        text::known_frame(&self.bad, self.now.unwrap_or(FrameUse::Unknown))
    }
}

/// Runs one of the commands. `show` returns 1 if there are bad frames, `restore` 2 if one is still in use.
pub fn run(command: &MapCommand, path: Option<PathBuf>, verbosity: Verbosity) -> Result<u8, Error> {
    let machine = MachineUnderTest::this();
    let now = machine.clock.now();
    match *command {
        MapCommand::Show { emulated, json } => {
            let origin = if emulated { MapOrigin::Emulated } else { MapOrigin::Real };
            show_map(&store::open_to_read(path, now)?, &machine, origin, format(json, verbosity))
        }
        MapCommand::Export { format, ranges } => {
            export_map(&store::open_to_read(path, now)?, &machine, format, ranges).map(|()| 0)
        }
        MapCommand::Restore { json } => {
            restore(&mut store::open_to_read(path, now)?, &machine, format(json, verbosity))
        }
        MapCommand::Add { frame, json } => add(&mut store::open(path, now)?, &machine, frame, format(json, verbosity)),
        MapCommand::Forget { frame, json } => {
            forget(&mut store::open(path, now)?, &machine, frame, format(json, verbosity))
        }
    }
}

/// How a command prints its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResultFormat {
    Json,
    Text(Verbosity),
}

const fn format(json: bool, verbosity: Verbosity) -> ResultFormat {
    if json { ResultFormat::Json } else { ResultFormat::Text(verbosity) }
}

/// Prints all frames; how many there are, with `--quiet`; all that is known of each, with `--verbose`.
fn show_map(store: &Store, machine: &MachineUnderTest, origin: MapOrigin, format: ResultFormat) -> Result<u8, Error> {
    let (map, uses) = (store.failures(origin)?, machine.frame_uses());
    let frames: Vec<KnownFrame> =
        map.iter().map(|failed| KnownFrame::of(BadFrame::of_frame(origin, failed), &uses)).collect();
    let code = u8::from(!frames.is_empty() && origin == MapOrigin::Real);
    match format {
        ResultFormat::Json => text::print_json(&Map { schema: "rampart.map/1", origin, frames })?,
        ResultFormat::Text(verbosity) => text::print(&shown(&frames, verbosity))?,
    }
    Ok(code)
}

fn shown(frames: &[KnownFrame], verbosity: Verbosity) -> String {
    if frames.is_empty() {
        return "no bad frames are known\n".to_owned();
    }
    if verbosity.is_quiet() {
        let out_of_use = frames.iter().filter(|known| known.is_out_of_use()).count();
        let known =
            if frames.len() == 1 { "1 bad frame is".to_owned() } else { format!("{} bad frames are", frames.len()) };
        return match frames.iter().any(|known| known.bad.origin == MapOrigin::Real) {
            true => format!("{known} known, {out_of_use} of them known to be out of use\n"),
            false => format!("{known} known, all emulated\n"),
        };
    }
    let mut text = String::new();
    for known in frames {
        let _ = writeln!(text, "{}, last seen {}", known.line(), text::moment(known.bad.last_seen));
        if verbosity.is_verbose() {
            let _ = writeln!(text, "    first seen {}", text::moment(known.bad.first_seen));
            known.bad.evidence.iter().for_each(|seen| text.push_str(&format!("    {}\n", text::mismatch(seen))));
        }
    }
    text
}

/// Prints the lines to standard output, and obstacles to standard error.
///
/// # Errors
/// Also if the next boot could not use the whole list.
fn export_map(
    store: &Store,
    machine: &MachineUnderTest,
    format: ExportFormat,
    ranges: Option<NonZero<usize>>,
) -> Result<(), Error> {
    let map = store.failures(MapOrigin::Real)?;
    if ranges.is_some() && format != ExportFormat::Memmap {
        return Err(Error::RangesOfMemmap);
    }
    match format {
        ExportFormat::Memmap => export_memmap(&map, ranges),
        ExportFormat::Badram => {
            let badram = BadRam::new(&map)?;
            badram.check(&rampart_linux::boot_table(machine.roots()))?;
            warn(&badram.obstacles());
            text::print(&lines(&[badram.grub_default()]))
        }
        ExportFormat::Json => text::print_json(&Document::new(&map)?),
    }
}

fn export_memmap(map: &FaultMap, ranges: Option<NonZero<usize>>) -> Result<(), Error> {
    let mut memmap = Memmap::new(map)?;
    if let Some(max) = ranges {
        memmap = memmap.coarser(max);
        eprintln!("rampart: {} good frames are reserved with the bad ones", memmap.sound_frames());
    }
    let running = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
    memmap.check(other_arguments(&running))?;
    warn(&memmap.obstacles());
    if memmap.ranges().is_empty() {
        return Ok(());
    }
    text::print(&lines(&[
        "# for the kernel's command line:".to_owned(),
        memmap.kernel_argument(),
        "# for /etc/default/grub, then update-grub:".to_owned(),
        memmap.grub_default(),
    ]))
}

/// The length of the running kernel's command line, without the ranges that it reserves: the exported ones replace
/// them.
fn other_arguments(running: &str) -> usize {
    let is_kept = |word: &&str| !(word.starts_with("memmap=") && word.contains('$'));
    running.split_whitespace().filter(is_kept).map(|word| word.len() + 1).sum::<usize>().saturating_sub(1)
}

fn warn(obstacles: &[Obstacle]) {
    obstacles.iter().for_each(|obstacle| eprintln!("rampart: {obstacle}"));
}

fn lines(lines: &[String]) -> String {
    lines.iter().filter(|line| !line.is_empty()).map(|line| format!("{line}\n")).collect()
}

/// Retires each frame of the map that is in use again: a kernel forgets retired frames at each boot.
fn restore(store: &mut Store, machine: &MachineUnderTest, format: ResultFormat) -> Result<u8, Error> {
    if let Some(why) = store.read_only() {
        eprintln!("rampart: the results cannot be recorded on the map: {why}");
    }
    let known = store.failures(MapOrigin::Real)?;
    let before = machine.frame_uses();
    let mut restored = Vec::new();
    for failed in known.iter() {
        let frame = failed.frame;
        let tried = if before.of(frame).is_out_of_use() { None } else { Some(machine.retire(frame)) };
        let known = record(store, failed, tried.as_ref())?;
        let mut known = KnownFrame::of(BadFrame::of_frame(MapOrigin::Real, &known), &before);
        match tried {
            // Trusts the kernel if its mark of the frame cannot be read.
            Some(Retirement::Offlined) => known.now = Some(FrameUse::Retired),
            Some(_) => known.now = Some(machine.frame_uses().of(frame)),
            None => {}
        }
        restored.push(known);
    }
    let refused = restored.iter().filter(|known| !known.is_out_of_use()).count();
    match format {
        ResultFormat::Json => {
            text::print_json(&Map { schema: "rampart.map/1", origin: MapOrigin::Real, frames: restored })?;
        }
        ResultFormat::Text(verbosity) => {
            let lines = restored.iter().filter(|_| !verbosity.is_quiet()).map(|known| format!("{}\n", known.line()));
            let mut text: String = lines.collect();
            let end = format!("{} of {} bad frames are out of use", restored.len() - refused, restored.len());
            let _ = writeln!(text, "{}", colour::outcome(&end, refused == 0));
            text::print(&text)?;
        }
    }
    Ok(if refused == 0 { 0 } else { 2 })
}

/// Returns the map's entry of a frame with the result of its retirement, and stores it if the store can be written.
fn record(store: &mut Store, failed: &FailedFrame, tried: Option<&Retirement>) -> Result<FailedFrame, Error> {
    match tried {
        Some(tried) if store.read_only().is_none() => {
            store.keep_retirement(failed.frame, tried)?.ok_or(Error::NotOnTheMap(failed.frame))
        }
        Some(tried) => Ok(FailedFrame { retirement: tried.clone(), ..failed.clone() }),
        None => Ok(failed.clone()),
    }
}

fn add(store: &mut Store, machine: &MachineUnderTest, frame: Frame, format: ResultFormat) -> Result<u8, Error> {
    if machine.is_zero_page(frame) {
        return Err(Error::ZeroPage(frame));
    }
    store.keep_failure(None, MapOrigin::Real, &FailedFrame::condemned(frame, machine.clock.now()))?;
    let known = store.failures(MapOrigin::Real)?;
    let known = BadFrame::of_frame(MapOrigin::Real, known.get(frame).ok_or(Error::NotOnTheMap(frame))?);
    match format {
        ResultFormat::Json => text::print_json(&known)?,
        ResultFormat::Text(Verbosity::Quiet) => {}
        ResultFormat::Text(_) => {
            text::print(&format!("{}\n`rampart map restore` retires it\n", text::bad_frame(&known)))?;
        }
    }
    Ok(0)
}

fn forget(store: &mut Store, machine: &MachineUnderTest, frame: Frame, format: ResultFormat) -> Result<u8, Error> {
    let known = store.forget(frame, machine.clock.now())?.ok_or(Error::NotOnTheMap(frame))?;
    let known = BadFrame::of_frame(MapOrigin::Real, &known);
    let until = match known.retirement {
        Retirement::Offlined => "; the kernel uses it again from the next boot on",
        Retirement::Pending | Retirement::Refused(_) => "",
    };
    match format {
        ResultFormat::Json => text::print_json(&known)?,
        ResultFormat::Text(Verbosity::Quiet) => {}
        ResultFormat::Text(_) => text::print(&format!("frame {frame} is off the map{until}\n"))?,
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_are_reserved_already_take_no_room_from_those_that_replace_them() {
        assert_eq!(other_arguments("quiet memmap=4K$0x1000,4K$0x3000 ro\n"), "quiet ro".len());
        assert_eq!(other_arguments("memmap=exactmap memmap=1G@0 ro"), "memmap=exactmap memmap=1G@0 ro".len());
        assert_eq!(other_arguments(""), 0);
    }
}
