//! `rampart banks record`: the page allocations of the whole machine, while a program runs.
//!
//! **Problem.** What is recorded is also disturbed: this command allocates pages too, and it must keep up with the
//! kernel on a machine whose CPUs are all busy. **Idea.** One thread empties the buffers of all CPUs, sorts, compresses
//! and writes, in few large steps; between them it sleeps. **Why this way.** Large buffers bridge the sleep, and a
//! write that has to wait for the disk; how many events were lost nevertheless, the kernel says.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rampart_banks::{PageEvent, PageRecording};
use rampart_linux::{FeedCounts, FlagTable, MemoryBlocks, PageEventFeed, Roots};

use super::arguments::RecordArguments;
use super::recorded::{RecordReport, RecordingEnd};
use crate::error::Error;
use crate::output::page_trace::PageTraceFile;
use crate::process::program::ChildProgram;
use crate::process::signals;

/// Between two looks at the buffers. Events wait for the look after the next, in case another CPU is still about to
/// write an older one.
const PAUSE: Duration = Duration::from_millis(50);

/// How often the program is looked after.
const PROGRAM_PAUSE: Duration = Duration::from_millis(100);

/// While the memory in use is read, the events are read after this many frames: a few milliseconds.
const FRAMES_AT_ONCE: u64 = 1 << 16;

/// A trace holds no later time: twelve days.
const LONGEST: Duration = Duration::from_micros(PageEvent::TIME_LIMIT - 1);

/// Records until the program ends, a signal comes or the time is over. Returns 0, or 2 if the trace is not whole.
pub fn run(arguments: &RecordArguments) -> Result<u8, Error> {
    let stop = Stop { interrupted: signals::interruption_flag()?, over: AtomicBool::new(false) };
    let roots = Roots::default();
    let feed = PageEventFeed::open(&roots, arguments.buffer).map_err(Error::NoPageEvents)?;
    let flags = FlagTable::open(&roots)?;
    let file = PageTraceFile::create(&arguments.out).map_err(|cause| unmade(&arguments.out, cause))?;
    let recorded = record(arguments, Recorder::new(feed, file), &flags, &stop);
    if recorded.is_err() {
        // Nothing was recorded, or not all of it was written.
        let _gone = fs::remove_file(&arguments.out);
    }
    let report = recorded?;
    report.print(arguments.json);
    Ok(if report.is_whole() { 0 } else { 2 })
}

fn unmade(path: &Path, cause: io::Error) -> Error {
    let path = path.to_owned();
    if cause.kind() == io::ErrorKind::AlreadyExists { Error::TraceExists(path) } else { Error::Traced { path, cause } }
}

/// What ends a recording.
struct Stop {
    interrupted: signals::Flag,
    /// The program has ended.
    over: AtomicBool,
}

impl Stop {
    fn reason(&self, began: Instant, limit: Duration) -> Option<RecordingEnd> {
        if self.over.load(Ordering::Relaxed) {
            Some(RecordingEnd::Program)
        } else if self.interrupted.load(Ordering::Relaxed) {
            Some(RecordingEnd::Signal)
        } else {
            (began.elapsed() >= limit).then_some(RecordingEnd::Time)
        }
    }
}

fn record(
    arguments: &RecordArguments,
    mut recorder: Recorder,
    flags: &FlagTable,
    stop: &Stop,
) -> Result<RecordReport, Error> {
    recorder.write_memory_in_use(flags)?;
    if stop.interrupted.load(Ordering::Relaxed) {
        return Err(Error::StoppedEarly);
    }
    let limit = arguments.for_.unwrap_or(LONGEST).min(LONGEST);
    let (status, recorded) = thread::scope(|scope| {
        let recorder = scope.spawn(|| recorder.run(stop, limit));
        let status = run_program(&arguments.program);
        stop.over.store(true, Ordering::Relaxed);
        (status, recorder.join().expect("the recorder does not panic"))
    });
    let (status, recorded) = (status?, recorded?);
    let unwritten = |cause| Error::Traced { path: arguments.out.clone(), cause };
    Ok(RecordReport {
        file: arguments.out.clone(),
        bytes: recorded.bytes.map_err(unwritten)?,
        seconds: recorded.seconds,
        ended: recorded.ended,
        trace: recorded.trace,
        missing: recorded.missing,
        status,
    })
}

fn run_program(program: &[std::ffi::OsString]) -> Result<ExitStatus, Error> {
    let (name, rest) = program.split_first().expect("a program is required");
    let mut command = Command::new(name);
    command.args(rest);
    ChildProgram::start(command)?.wait(PROGRAM_PAUSE, || {})
}

/// The feed, and the file into which it goes.
struct Recorder {
    feed: PageEventFeed,
    recording: PageRecording,
    file: PageTraceFile,
    began: Instant,
}

/// What a recorder leaves.
struct Recorded {
    bytes: io::Result<u64>,
    seconds: f64,
    ended: RecordingEnd,
    trace: rampart_banks::RecordedCounts,
    missing: FeedCounts,
}

impl Recorder {
    fn new(feed: PageEventFeed, file: PageTraceFile) -> Self {
        Self { feed, recording: PageRecording::new(PageEventFeed::now()), file, began: Instant::now() }
    }

    /// Writes what is in use, and meanwhile keeps the events that come.
    fn write_memory_in_use(&mut self, flags: &FlagTable) -> Result<(), Error> {
        let Self { feed, recording, file, .. } = self;
        let (mut frames, mut failure) = (0, None);
        // A kernel without memory blocks has all of its memory online.
        let blocks = MemoryBlocks::read(&Roots::default()).ok();
        flags.units(|unit| {
            if blocks.as_ref().is_none_or(|blocks| blocks.is_online(unit.first)) {
                recording.in_use(unit, |event| file.write(event));
            }
            frames += unit.frames;
            if frames >= FRAMES_AT_ONCE {
                frames = 0;
                failure = feed.poll(|event| recording.add(event)).err().or(failure.take());
            }
        })?;
        failure.map_or(Ok(()), |failure| Err(failure.into()))
    }

    fn run(mut self, stop: &Stop, limit: Duration) -> Result<Recorded, Error> {
        let mut settled = 0;
        let ended = loop {
            let ended = stop.reason(self.began, limit);
            let ends = ended.is_some() || self.file.has_failed();
            if ends {
                self.feed.stop().map_err(Error::NoPageEvents)?;
            }
            let now = PageEventFeed::now();
            let Self { feed, recording, file, .. } = &mut self;
            feed.poll(|event| recording.add(event))?;
            recording.write_until(if ends { u64::MAX } else { settled }, |event| file.write(event));
            if ends {
                break ended.unwrap_or(RecordingEnd::Program);
            }
            settled = now;
            thread::sleep(PAUSE);
        };
        Ok(Recorded {
            seconds: self.began.elapsed().as_secs_f64(),
            ended,
            trace: self.recording.counts(),
            missing: self.feed.counts().map_err(Error::NoPageEvents)?,
            bytes: self.file.finish(),
        })
    }
}
