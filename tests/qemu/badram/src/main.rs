//! Makes the RAM of an emulated machine bad, from outside.
//!
//! **Problem.** A tester that emulates faults itself has only faults that its authors thought of, where its own code
//! looks for them. **Idea.** A guest's RAM is a file that two processes map: the emulator, and this program, which
//! forces wrong values into it as fast as it can poll. A file offset is a physical address of the guest (below 2 GiB),
//! less the address at which its RAM begins.
//! **Why from outside.** Nothing in the guest takes part, neither kernel nor Rampart. Each fault that acts is counted,
//! so a scenario can distinguish a missed fault from one that never acted.
//!
//! | module | owns |
//! |---|---|
//! | [`spec`] | the notation of a fault at its place |
//! | [`effect`] | the effect of a fault on the words that it watches |
//! | [`injector`] | all faults: which are active, how often each acted, the commands of a scenario |
//! | [`rests`] | when to leave the CPU to others for a moment |
//!
//! Libraries: `humantime` (times), `rand` and `rand_chacha` (intermittent faults, the same from one seed), `displaydoc`
//! and `thiserror` (an error's doc comment is its message).

#![forbid(unsafe_code)]

mod effect;
#[cfg(test)]
mod fake;
mod injector;
mod rests;
mod spec;

use std::io::{self, BufRead, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use rampart_linux::SharedWords;

use crate::injector::{Base, GuestRam, Injector};
use crate::rests::Rests;

const USAGE: &str = "usage: badram --ram FILE [--base ADDRESS] [FAULT...]

Makes the RAM in FILE, which begins at ADDRESS [0x0], bad until standard input ends. A FAULT is
  stuck-at@CELL=VALUE            transition@CELL=up|down     (the change that fails)
  coupling-in@CELL=up|down>CELL  coupling-id@CELL=up|down>CELL=VALUE
  address@PLACE>PLACE            (the first reads and writes the second; lines, or whole frames)
  retention@CELL=VALUE           (the value that is lost)
and options behind commas: intermittent=0.1, retention=300ms, from=2s, until=10s. A CELL is FRAME/LINE/BIT, as 0x5000/3/65.
Lines on standard input are commands, each answered by one line:
  add FAULT...    clear    sleep [N]    wake [N]    acted    bit CELL    find WORD
  corrupt FRAME OTHER-FRAME SEED CLASS    (once; the classes of docs/corruption.md, as \"a line of zeros\")";

/// The time limit for the emulator to create the file.
const PATIENCE: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let asked = match words.as_slice() {
        ["--ram", file, "--base", base, faults @ ..] => Base::parse(base).map(|base| (file, base, faults)),
        ["--ram", file, faults @ ..] => Some((file, Base::default(), faults)),
        _ => None,
    };
    let Some((file, base, faults)) = asked else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match perform(Path::new(file), base, faults) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("badram: {error}");
            ExitCode::from(2)
        }
    }
}

/// Why the RAM stays unchanged.
#[derive(Debug, displaydoc::Display, thiserror::Error)]
enum Error {
    /// {0}
    Map(rampart_linux::Error),
    /// {0}: {1}
    Fault(String, spec::Problem),
}

fn perform(file: &Path, base: Base, faults: &[&str]) -> Result<(), Error> {
    let start = Instant::now();
    let file = open(file).map_err(Error::Map)?;
    let mut injector = Injector::new(GuestRam { file, base });
    for fault in faults {
        injector.add(fault, start.elapsed()).map_err(|problem| Error::Fault((*fault).to_owned(), problem))?;
    }
    serve(&mut injector, &commands(), start);
    injector.report(start.elapsed()).iter().for_each(|line| eprintln!("badram: {line}"));
    Ok(())
}

/// Waits for the emulator to create the file.
fn open(file: &Path) -> Result<SharedWords, rampart_linux::Error> {
    let start = Instant::now();
    loop {
        match SharedWords::open(file) {
            Err(_) if start.elapsed() < PATIENCE => thread::sleep(Duration::from_millis(20)),
            other => return other,
        }
    }
}

/// The lines of standard input, read while polling goes on.
fn commands() -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let lines = io::stdin().lock().lines().map_while(Result::ok);
        for line in lines {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Polls with few rests while a fault is active, until the commands end.
fn serve(injector: &mut Injector<GuestRam>, commands: &Receiver<String>, start: Instant) {
    let mut rests = Rests::default();
    loop {
        let now = start.elapsed();
        let is_busy = injector.poll(now);
        let command = if is_busy {
            if rests.is_due(now) {
                thread::sleep(Rests::LENGTH);
            }
            commands.try_recv().map_err(|error| error == TryRecvError::Disconnected)
        } else {
            let pause = Duration::from_millis(1);
            commands.recv_timeout(pause).map_err(|error| error == RecvTimeoutError::Disconnected)
        };
        match command {
            Ok(line) => {
                println!("{}", injector.obey(line.trim(), start.elapsed()));
                // The scenario waits for the answer; if it is gone, it needs none.
                let _ = io::stdout().flush();
            }
            Err(true) => return,
            Err(false) => {}
        }
    }
}
