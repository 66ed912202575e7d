//! One process that runs a program on a heap, and what it says.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::minimum;

/// A program, how much it does when its time is measured, and when its instructions are counted.
pub struct HeapProgram {
    pub name: &'static str,
    pub size: u64,
    pub small: u64,
}

/// All programs.
pub const CASES: [HeapProgram; 5] = [
    HeapProgram { name: "binary-trees", size: 15, small: 11 },
    HeapProgram { name: "gcbench", size: 14, small: 11 },
    HeapProgram { name: "churn", size: 1_000_000, small: 400_000 },
    HeapProgram { name: "medium", size: 150_000, small: 60_000 },
    HeapProgram { name: "large", size: 100_000, small: 20_000 },
];

/// The exit status of a program that is out of memory.
const OUT_OF_MEMORY: i32 = 3;

/// The bytes of heaps are multiples of a block.
const BLOCK: u64 = 32 << 10;

/// Where the search for the least heap begins.
pub const GUESS: u64 = 4 << 20;

/// No program needs more.
const MOST: u64 = 1 << 30;

/// A process to start.
#[derive(Clone, Copy)]
pub struct HeapRun<'a> {
    pub build: &'a Path,
    pub program: &'static str,
    pub size: u64,
    pub collector: &'a str,
    pub bytes: u64,
    /// Whether our heap's tables come on top of its bytes.
    pub tables_apart: bool,
}

/// What a process says of its last run.
#[derive(Clone, Debug, PartialEq)]
pub struct HeapSample {
    pub hash: String,
    pub seconds: f64,
    /// The processor time of all threads.
    pub processor: f64,
    /// In seconds.
    pub pauses: Vec<f64>,
    /// The most memory, over what there was before the first object.
    pub grown_kib: f64,
}

/// Makes each run so many times, and returns what each said, round by round; nothing of one that is out of memory.
///
/// # Errors
/// If one fails otherwise, or if not all give the same result.
pub fn alternate(runs: &[HeapRun<'_>], rounds: usize) -> Result<Vec<Vec<HeapSample>>, String> {
    let mut samples: Vec<Option<Vec<HeapSample>>> = vec![Some(Vec::new()); runs.len()];
    for round in 0..rounds {
        for turn in 0..runs.len() {
            // Each round begins with another, and every second one goes backwards: what drifts meets all alike.
            let turn = if round % 2 == 0 { turn } else { runs.len() - 1 - turn };
            let which = (turn + round * runs.len() / rounds) % runs.len();
            let Some(of_run) = &mut samples[which] else { continue };
            match runs[which].sample()? {
                Some(sample) => of_run.push(sample),
                None => samples[which] = None,
            }
        }
    }
    let samples: Vec<Vec<HeapSample>> = samples.into_iter().map(Option::unwrap_or_default).collect();
    let mut hashes = samples.iter().flatten().map(|sample| &sample.hash);
    let first = hashes.next();
    if hashes.any(|hash| Some(hash) != first) {
        return Err(format!("{}: not all heaps give the same result", runs[0].program));
    }
    Ok(samples)
}

impl<'a> HeapRun<'a> {
    /// The program as its time is measured, in at least so many bytes, with the heap's tables in them.
    pub fn of(build: &'a Path, program: &HeapProgram, collector: &'a str, bytes: u64) -> Self {
        let bytes = bytes.next_multiple_of(BLOCK);
        Self { build, program: program.name, size: program.size, collector, bytes, tables_apart: false }
    }
}

impl HeapRun<'_> {
    /// The arguments of the program, to run it so many times.
    pub fn arguments(&self, runs: u32) -> Vec<String> {
        let numbers = [self.size.to_string(), self.bytes.to_string(), runs.to_string()];
        let [size, bytes, runs] = numbers;
        let mut arguments = vec![self.program.to_owned(), size, self.collector.to_owned(), bytes, runs];
        arguments.extend(self.tables_apart.then(|| "tables-apart".to_owned()));
        arguments
    }

    fn end(&self, command: &mut Command) -> Result<Output, String> {
        command.stdin(Stdio::null()).output().map_err(|error| format!("{command:?}: {error}"))
    }

    /// Runs the program twice, and returns what the second time took; `None` if it is out of memory.
    ///
    /// # Errors
    /// If it fails otherwise.
    pub fn sample(&self) -> Result<Option<HeapSample>, String> {
        let output = self.end(Command::new(self.build).args(self.arguments(2)))?;
        if output.status.code() == Some(OUT_OF_MEMORY) {
            return Ok(None);
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let sample = HeapSample::read(&text).filter(|_| output.status.success());
        sample.map(Some).ok_or_else(|| {
            let said = String::from_utf8_lossy(&output.stderr);
            format!("{} on {}, {} bytes: {}: {said}", self.program, self.collector, self.bytes, output.status)
        })
    }

    /// The instructions of the program's loops, collections included, as callgrind counts them, and how many
    /// collections the last run had.
    ///
    /// # Errors
    /// If valgrind is not there, or the program fails.
    pub fn instructions(&self) -> Result<(u64, usize), String> {
        let loops = "--toggle-collect=*programs*Program*run*";
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", loops]);
        let output = self.end(valgrind.arg(self.build).args(self.arguments(1)))?;
        let said = String::from_utf8_lossy(&output.stderr);
        let counted = said.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
        let sample = HeapSample::read(&String::from_utf8_lossy(&output.stdout));
        let counted = counted.zip(sample).map(|(counted, sample)| (counted, sample.pauses.len()));
        counted.ok_or_else(|| format!("{} under valgrind: {said}", self.program))
    }

    /// The least bytes that the program runs in, sought from its bytes on.
    ///
    /// # Errors
    /// If it fails otherwise than for lack of memory.
    pub fn minimum(&self) -> Result<u64, String> {
        minimum::least(BLOCK, self.bytes.next_multiple_of(BLOCK), MOST, |bytes| {
            Ok(HeapRun { bytes, ..*self }.sample()?.is_some())
        })
    }
}

impl HeapSample {
    fn read(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text.lines().last()?).ok()?;
        let number = |name: &str| value.get(name)?.as_f64();
        Some(Self {
            hash: value.get("hash")?.as_str()?.to_owned(),
            seconds: number("seconds")?,
            processor: number("processor")?,
            pauses: value.get("pauses")?.as_array()?.iter().filter_map(Value::as_f64).collect(),
            grown_kib: number("peak_kib")? - number("start_kib")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heaps_are_whole_blocks() {
        let bytes = |least| HeapRun::of(Path::new(""), &CASES[0], "sticky", least).bytes;
        assert_eq!((bytes(1), bytes(65_536)), (32_768, 65_536));
    }

    #[test]
    fn what_a_process_says_is_read() {
        let said = r#"{"hash": "ff", "seconds": 0.5, "processor": 0.25, "pauses": [0.001, 2e-6], "peak_kib": 30, "start_kib": 10}"#;
        let read = HeapSample::read(said).unwrap();
        assert_eq!((read.seconds, read.processor, read.grown_kib), (0.5, 0.25, 20.0));
        assert_eq!((read.hash.as_str(), read.pauses), ("ff", vec![0.001, 2e-6]));
        assert_eq!(HeapSample::read("no room"), None);
    }
}
