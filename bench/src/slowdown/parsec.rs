//! `parsec`: what programs with threads lose while `rampart watch` runs, as in [Rahman16, fig. 13, 18 and 19].
//!
//! **Problem.** [Rahman16, 4.2.7] runs five programs of PARSEC on their *native* inputs. PARSEC's site is offline;
//! copies of the sources still exist, but not of the inputs. **Idea.** Four of the programs read only numbers, which
//! this bench generates in the sizes of PARSEC's smaller inputs. Ferret needs a collection of images and is left out.
//! **Why short runs.** Runs without and with the daemon alternate, as in `watch`, so that slow drift affects both
//! alike.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::programs::quiet;
use super::{Program, Watch, compare, print_heads};
use crate::soak;

/// Rounds per program and number of threads.
const ROUNDS: usize = 10;

/// The numbers of threads [Rahman16, 4.2.7].
const THREADS: [u32; 4] = [1, 2, 4, 8];

/// A program of PARSEC: its name, what writes its input, and its arguments after the path of that input.
struct Parsec {
    name: &'static str,
    input: fn() -> Vec<u8>,
    arguments: fn(threads: &str, input: &str) -> Vec<String>,
    /// What [Rahman16, 4.2.7] says of it with four threads.
    published: &'static str,
}

const PROGRAMS: [Parsec; 4] = [
    Parsec {
        name: "blackscholes",
        input: options,
        arguments: |threads, input| words(&[threads, input, "/dev/null"]),
        published: "below 1.02",
    },
    Parsec {
        name: "canneal",
        input: netlist,
        arguments: |threads, input| words(&[threads, "10000", "2000", input, "32"]),
        published: "nearly 1.08; 1.087 if pages move each 30 s",
    },
    Parsec {
        name: "fluidanimate",
        input: particles,
        arguments: |threads, input| words(&[threads, "5", input]),
        published: "-",
    },
    Parsec {
        name: "streamcluster",
        input: Vec::new,
        arguments: |threads, _| words(&["10", "20", "64", "8192", "8192", "1000", "none", "/dev/null", threads]),
        published: "less than canneal",
    },
];

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// Runs the bench with the folder of the programs, the daemon's lifetime (default 30m) and further options of it.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let folder = arguments.first().map(PathBuf::from).ok_or("name the folder with PARSEC's programs")?;
    let lifetime = arguments.get(1).map_or("30m", String::as_str);
    let options = arguments.get(2..).unwrap_or_default();
    let own = tempfile::tempdir().map_err(|error| error.to_string())?;
    let rampart = soak::build_rampart()?;
    print_heads(lifetime, options, ROUNDS);
    let watch = Watch::start(&rampart, own.path(), lifetime, options)?;
    for program in &PROGRAMS {
        for threads in THREADS {
            let name = format!("{}, {threads}", program.name);
            match Threads::prepare(program, threads, &folder, own.path())
                .and_then(|mut once| compare(&watch, &mut once, ROUNDS))
            {
                Ok(compared) => println!("{name:<22}{compared}"),
                Err(why) => println!("{name:<22}not run: {why}"),
            }
        }
        println!("{:<22}Rahman16, 4 threads on 4 cores: {}", "", program.published);
    }
    println!("{:<22}Rahman16, 4 threads on 4 cores, five programs: 1.038", "mean");
    watch.stop()
}

/// A program with so many threads.
struct Threads {
    binary: PathBuf,
    arguments: Vec<String>,
}

impl Threads {
    fn prepare(program: &Parsec, threads: u32, folder: &Path, own: &Path) -> Result<Self, String> {
        let binary = folder.join(program.name);
        if !binary.is_file() {
            return Err(format!("{} is not there: docs/performance.md says how it is built", binary.display()));
        }
        let input = own.join(program.name);
        if !input.exists() {
            fs::write(&input, (program.input)()).map_err(|error| format!("{}: {error}", input.display()))?;
        }
        let arguments = (program.arguments)(&threads.to_string(), &input.to_string_lossy());
        Ok(Self { binary, arguments })
    }
}

impl Program for Threads {
    fn once(&mut self) -> Result<(), String> {
        quiet(Command::new(&self.binary).args(&self.arguments))
    }
}

fn chance() -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(1)
}

/// 65,536 options: price, strike, rate, dividends, volatility, time, kind, and two fields that are not used.
fn options() -> Vec<u8> {
    const COUNT: usize = 65_536;
    let mut chance = chance();
    let mut text = format!("{COUNT}\n");
    for option in 0..COUNT {
        let (price, strike): (f64, f64) = (chance.random_range(20.0..120.0), chance.random_range(20.0..120.0));
        let (rate, volatility): (f64, f64) = (chance.random_range(0.02..0.1), chance.random_range(0.1..0.65));
        let (time, kind): (f64, char) = (chance.random_range(0.1..1.0), if option % 2 == 0 { 'C' } else { 'P' });
        let _ = writeln!(text, "{price:.2} {strike:.2} {rate:.4} 0.00 {volatility:.2} {time:.2} {kind} 0.00 0.00");
    }
    text.into_bytes()
}

/// 100,000 elements, each with five others at its inputs.
fn netlist() -> Vec<u8> {
    const ELEMENTS: u32 = 100_000;
    const SIDE: u32 = 400;
    let mut chance = chance();
    let mut text = format!("{ELEMENTS} {SIDE} {SIDE}\n");
    for element in 0..ELEMENTS {
        let _ = write!(text, "e{element}\t1\t");
        for _ in 0..5 {
            let _ = write!(text, "e{}\t", chance.random_range(0..ELEMENTS));
        }
        text.push_str("END\n");
    }
    text.into_bytes()
}

/// A block of liquid in the lower part of the program's basin, 0.13 by 0.18 by 0.13 m: particles per metre, their
/// number, and of each its place and two velocities of zero.
fn particles() -> Vec<u8> {
    const PER_METRE: f32 = 180.0;
    const LOW: [f32; 3] = [-0.06, -0.075, -0.06];
    const COUNTS: [u16; 3] = [21, 18, 21];
    let number: i32 = COUNTS.iter().copied().map(i32::from).product();
    let mut bytes = [PER_METRE.to_le_bytes(), number.to_le_bytes()].concat();
    for x in 0..COUNTS[0] {
        for y in 0..COUNTS[1] {
            for z in 0..COUNTS[2] {
                let place = |at: usize, count: u16| LOW[at] + f32::from(count) / PER_METRE;
                let fields = [place(0, x), place(1, y), place(2, z), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
                bytes.extend(fields.into_iter().flat_map(f32::to_le_bytes));
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_have_the_numbers_that_they_announce() {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let options = text(options());
        assert_eq!((options.lines().next(), options.lines().count()), (Some("65536"), 65_537));
        assert!(options.lines().skip(1).all(|line| line.split(' ').count() == 9), "nine fields");
        let nets = text(netlist());
        assert_eq!((nets.lines().next(), nets.lines().count()), (Some("100000 400 400"), 100_001));
        assert!(nets.lines().skip(1).all(|line| line.split('\t').count() == 8 && line.ends_with("\tEND")));
        let particles = particles();
        let number = i32::from_le_bytes(particles[4..8].try_into().unwrap());
        assert_eq!(particles.len(), 8 + 36 * usize::try_from(number).unwrap());
    }
}
