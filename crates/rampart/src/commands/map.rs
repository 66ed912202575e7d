//! `rampart map`: the bad frames that are known.

use std::fmt::Write as _;
use std::num::NonZero;
use std::path::PathBuf;

use rampart_diagnostic::Machine;
use rampart_diagnostic::report::BadFrame;
use rampart_memory::FaultMap;
use rampart_memory::Frame;
use rampart_memory::fault_map::export::{BadRam, Document, Memmap, Obstacle};
use rampart_memory::fault_map::{FailedFrame, Origin, Retirement};
use rampart_store::Store;
use serde::Serialize;

use crate::args::{ExportFormat, MapCommand};
use crate::error::Error;
use crate::{show, store};

#[derive(Serialize)]
struct Map {
    schema: &'static str,
    origin: Origin,
    frames: Vec<BadFrame>,
}

/// Does one of its commands. `show` is 1 if there are bad frames, `restore` 2 if one could not be retired.
pub fn run(command: &MapCommand, path: Option<PathBuf>) -> Result<u8, Error> {
    let machine = Machine::this();
    let mut store = store::open(path, machine.clock.now())?;
    match *command {
        MapCommand::Show { emulated, json } => {
            show_map(&store, if emulated { Origin::Emulated } else { Origin::Real }, json)
        }
        MapCommand::Export { format, ranges } => export_map(&store, format, ranges).map(|()| 0),
        MapCommand::Restore { json } => restore(&mut store, &machine, json),
        MapCommand::Add { frame, json } => add(&mut store, &machine, frame, json),
        MapCommand::Forget { frame, json } => forget(&mut store, &machine, frame, json),
    }
}

fn show_map(store: &Store, origin: Origin, json: bool) -> Result<u8, Error> {
    let map = store.failures(origin)?;
    let frames: Vec<BadFrame> = map.iter().map(|failed| BadFrame::of_frame(origin, failed)).collect();
    let code = u8::from(!frames.is_empty() && origin == Origin::Real);
    if json {
        show::print_json(&Map { schema: "rampart.map/1", origin, frames })?;
        return Ok(code);
    }
    let mut text = String::new();
    if frames.is_empty() {
        text.push_str("no bad frames are known\n");
    }
    for bad in &frames {
        let _ = writeln!(text, "{}, last seen {}", show::bad_frame(bad), show::moment(bad.last_seen));
    }
    show::print(&text)?;
    Ok(code)
}

/// The lines themselves on standard output, what stands in their way on standard error.
fn export_map(store: &Store, format: ExportFormat, ranges: Option<NonZero<usize>>) -> Result<(), Error> {
    let map = store.failures(Origin::Real)?;
    match format {
        ExportFormat::Memmap => export_memmap(&map, ranges),
        ExportFormat::Badram => {
            let badram = BadRam::new(&map)?;
            warn(&badram.obstacles());
            show::print(&lines(&[badram.grub_default()]))
        }
        ExportFormat::Json => show::print_json(&Document::new(&map)?),
    }
}

fn export_memmap(map: &FaultMap, ranges: Option<NonZero<usize>>) -> Result<(), Error> {
    let mut memmap = Memmap::new(map)?;
    if let Some(most) = ranges {
        memmap = memmap.coarser(most);
        eprintln!("rampart: {} frames that did not fail are given up with the others", memmap.sound_frames());
    }
    let running = std::fs::read("/proc/cmdline").map_or(0, |line| line.len());
    warn(&memmap.obstacles(running));
    if memmap.ranges().is_empty() {
        return Ok(());
    }
    show::print(&lines(&[
        "# for the kernel's command line:".to_owned(),
        memmap.kernel_argument(),
        "# for /etc/default/grub, then update-grub:".to_owned(),
        memmap.grub_default(),
    ]))
}

fn warn(obstacles: &[Obstacle]) {
    obstacles.iter().for_each(|obstacle| eprintln!("rampart: {obstacle}"));
}

fn lines(lines: &[String]) -> String {
    lines.iter().filter(|line| !line.is_empty()).map(|line| format!("{line}\n")).collect()
}

/// Retires every frame of the map again: a kernel forgets at each boot.
fn restore(store: &mut Store, machine: &Machine, json: bool) -> Result<u8, Error> {
    let frames: Vec<Frame> = store.failures(Origin::Real)?.iter().map(|failed| failed.frame).collect();
    let mut restored = Vec::new();
    for frame in frames {
        restored.push(retire(store, machine, frame)?);
    }
    let refused = restored.iter().filter(|bad| bad.retirement != Retirement::Offlined).count();
    if json {
        show::print_json(&Map { schema: "rampart.map/1", origin: Origin::Real, frames: restored })?;
    } else {
        let mut text: String = restored.iter().map(|bad| format!("{}\n", show::bad_frame(bad))).collect();
        let _ = writeln!(text, "{} of {} bad frames retired", restored.len() - refused, restored.len());
        show::print(&text)?;
    }
    Ok(if refused == 0 { 0 } else { 2 })
}

fn retire(store: &mut Store, machine: &Machine, frame: Frame) -> Result<BadFrame, Error> {
    let known = store.keep_retirement(frame, &machine.retire(frame))?;
    let known = known.ok_or(Error::NotOnTheMap(frame))?;
    Ok(BadFrame::of_frame(Origin::Real, &known))
}

fn add(store: &mut Store, machine: &Machine, frame: Frame, json: bool) -> Result<u8, Error> {
    if machine.is_zero_page(frame) {
        return Err(Error::ZeroPage(frame));
    }
    store.keep_failure(None, Origin::Real, &FailedFrame::condemned(frame, machine.clock.now()))?;
    let known = store.failures(Origin::Real)?;
    let known = BadFrame::of_frame(Origin::Real, known.get(frame).ok_or(Error::NotOnTheMap(frame))?);
    if json {
        show::print_json(&known)?;
    } else {
        show::print(&format!("{}\n`rampart map restore` retires it\n", show::bad_frame(&known)))?;
    }
    Ok(0)
}

fn forget(store: &mut Store, machine: &Machine, frame: Frame, json: bool) -> Result<u8, Error> {
    let known = store.forget(frame, machine.clock.now())?.ok_or(Error::NotOnTheMap(frame))?;
    let known = BadFrame::of_frame(Origin::Real, &known);
    if json {
        show::print_json(&known)?;
    } else {
        let until = match known.retirement {
            Retirement::Offlined => "; the kernel uses it again from the next boot on",
            Retirement::Pending | Retirement::Refused(_) => "",
        };
        show::print(&format!("frame {frame} is off the map{until}\n"))?;
    }
    Ok(0)
}
