//! A program under guard that another process can corrupt: its orders, its answers, and the real place of its pages.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::ops::Range;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::class::Class;
use super::content::{PAGE_BYTES, Page, crc32c, p, page};
use super::memory::{Mapping, Memory, windows};
use crate::error::Error;
use crate::program::Programs;

/// Pages of the victim: 8 MiB.
pub const PAGES: usize = 2048;

/// Seconds after which a victim and its guard are killed, in case they hang.
const LIMIT: &str = "600";

/// The time limit for a page to be locked.
const PATIENCE: Duration = Duration::from_secs(120);

/// Blocks are locked again soon, because each page must be hit while it is locked. Re-placement is off: between its
/// copy and its exchange, our change would go with the old frame, uncounted.
const OPTIONS: [&str; 8] = ["--cap", "1MiB", "--block", "64KiB", "--interval", "20ms", "--test", "none"];

/// The frames of this machine are good. Without this capability, root can neither retire one nor read its number.
const WITHOUT_RETIREMENT: [&str; 5] =
    ["setpriv", "--inh-caps=-sys_admin", "--bounding-set=-sys_admin", "timeout", "-sKILL"];

/// The victim under guard.
pub struct Victim {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    memory: Memory,
    address: u64,
    generations: Vec<u64>,
    is_mprotect: bool,
    report: PathBuf,
    /// The ranges of pages that the victim does not know of, by page numbers, as last seen.
    windows: RefCell<Vec<Range<u64>>>,
}

/// The victim's answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// The page has the expected content.
    Right,
    /// The page has other content.
    Wrong(String),
    /// The victim ended instead, with this code; `None` if a signal ended it.
    Ended(Option<i32>),
}

impl Victim {
    /// Starts a victim, with further options for `rampart run`.
    pub fn start(programs: &Programs, engine: &str, options: &[&str]) -> Result<Self, Error> {
        let victim = programs.victim("pages", &[])?;
        let report = programs.folder().join("corruption.json");
        let stderr = File::create(programs.folder().join("corruption.err")).map_err(Error::io("make a file"))?;
        let mut command = Command::new(WITHOUT_RETIREMENT[0]);
        command.args(&WITHOUT_RETIREMENT[1..]).arg(LIMIT).arg(programs.rampart());
        command.args(["run", "--engine", engine]).args(OPTIONS).args(options).arg("--report").arg(&report);
        command.arg("--").arg(victim).arg(PAGES.to_string());
        programs.prepare(&mut command);
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr).spawn();
        let mut child = spawned.map_err(Error::io("start `setpriv`"))?;
        let (orders, answers) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let mut answers = BufReader::new(answers);
        let mut line = String::new();
        answers.read_line(&mut line).map_err(Error::io("read the victim's answer"))?;
        let (pid, address) = ready(&line).ok_or_else(|| Error::Said(line.clone()))?;
        let memory = Memory::of(pid).map_err(Error::io("open the victim's memory"))?;
        let (generations, is_mprotect) = (vec![0; PAGES], engine == "mprotect");
        Ok(Self {
            child,
            orders,
            answers,
            memory,
            address,
            generations,
            is_mprotect,
            report,
            windows: RefCell::default(),
        })
    }

    /// The expected content of a page.
    pub fn content(&self, number: usize) -> Page {
        page(number as u64, self.generations[number])
    }

    /// Makes the victim write new content to a page.
    pub fn write(&mut self, number: usize) -> Result<(), Error> {
        self.generations[number] += 1;
        let order = format!("write {number} {}", self.generations[number]);
        match self.order(&order)? {
            Ok(line) if line == "written" => Ok(()),
            Ok(line) => Err(Error::Said(line)),
            Err(ended) => Err(Error::Said(format!("nothing and ended with {ended:?}"))),
        }
    }

    /// Makes the victim check a page.
    pub fn check(&mut self, number: usize) -> Result<Answer, Error> {
        self.asked(&format!("check {number}"))
    }

    /// Makes the victim check all pages.
    pub fn check_all(&mut self) -> Result<Answer, Error> {
        self.asked("check-all")
    }

    fn asked(&mut self, order: &str) -> Result<Answer, Error> {
        Ok(match self.order(order)? {
            Ok(line) if line == "right" => Answer::Right,
            Ok(line) => Answer::Wrong(line),
            Err(code) => Answer::Ended(code),
        })
    }

    /// The answer to an order, or the exit code of a victim that ends instead.
    fn order(&mut self, order: &str) -> Result<Result<String, Option<i32>>, Error> {
        let mut line = String::new();
        let is_sent = writeln!(self.orders, "{order}").and_then(|()| self.orders.flush()).is_ok();
        if is_sent && self.answers.read_line(&mut line).map_err(Error::io("read the victim's answer"))? > 0 {
            return Ok(Ok(line.trim_end().to_owned()));
        }
        Ok(Err(self.child.wait().map_err(Error::io("wait for the victim"))?.code()))
    }

    /// Corrupts a locked page where it lies: writes these bytes, of which the victim may see all or none.
    pub fn corrupt(&self, number: usize, corrupt: &Page) -> Result<(), Error> {
        let good = self.content(number);
        self.hit(number, || {
            // A page without codes is not locked yet: a change until then goes unseen.
            if self.codes(number, &good)?.is_empty() {
                return Ok(Vec::new());
            }
            let places = self.hidden(number, &good)?;
            for &place in &places {
                self.memory.write(place, corrupt)?;
            }
            Ok(places.into_iter().map(|place| (place, corrupt.to_vec())).collect())
        })
    }

    /// Corrupts the codes of a locked page.
    pub fn corrupt_codes(&self, number: usize, class: Class) -> Result<(), Error> {
        let good = self.content(number);
        self.hit(number, || {
            let mut written = Vec::new();
            for (place, codes) in self.codes(number, &good)? {
                let hit = hit_codes(class, &codes);
                self.memory.write(place, &hit)?;
                written.push((place, hit));
            }
            Ok(written)
        })
    }

    /// Waits until a page is locked, and writes. If it is still locked afterwards, the page was hit while it was
    /// locked.
    fn hit(&self, number: usize, write: impl Fn() -> io::Result<Vec<(u64, Vec<u8>)>>) -> Result<(), Error> {
        let end = Instant::now() + PATIENCE;
        let mut was_locked = false;
        while Instant::now() < end {
            if self.is_locked(number).map_err(Error::io("look at the victim's page"))? {
                let written = write().map_err(Error::io("write to the victim's memory"))?;
                was_locked |= !written.is_empty();
                let holds = |(place, bytes): &(u64, Vec<u8>)| {
                    let mut read = vec![0; bytes.len()];
                    self.memory.read(*place, &mut read).is_ok() && read == *bytes
                };
                let is_locked = self.is_locked(number).map_err(Error::io("look at the victim's page"))?;
                if !written.is_empty() && is_locked && written.iter().all(holds) {
                    return Ok(());
                }
            }
            sleep(Duration::from_millis(5));
        }
        Err(if was_locked {
            Error::NeverCorrupted(number)
        } else {
            Error::NeverLocked { page: number, seconds: PATIENCE.as_secs() }
        })
    }

    fn address(&self, number: usize) -> u64 {
        self.address + (number * PAGE_BYTES) as u64
    }

    /// Whether the page is locked for the victim: it has no page there, or no permission.
    fn is_locked(&self, number: usize) -> io::Result<bool> {
        let address = self.address(number);
        if self.is_mprotect {
            let mapping = self.memory.mapping_of(address)?;
            return Ok(mapping.is_some_and(|mapping| mapping.protection.starts_with("---")));
        }
        Ok(!self.memory.is_present(address)?)
    }

    /// The real addresses of this content of a page.
    fn hidden(&self, number: usize, content: &Page) -> io::Result<Vec<u64>> {
        if self.is_mprotect {
            return Ok(vec![self.address(number)]);
        }
        self.search(|start, bytes| {
            let pages = (start..).step_by(PAGE_BYTES).zip(bytes.chunks_exact(PAGE_BYTES));
            let equal = pages.filter(|(_, bytes)| *bytes == content).map(|(address, _)| address);
            equal.filter(|&address| self.has_neighbour(number, address, PAGE_BYTES, |page| page.to_vec())).collect()
        })
    }

    /// The addresses and values of the codes `crc+pq` of this content of a page: the CRC, P, Q, and the CRC again.
    fn codes(&self, number: usize, content: &Page) -> io::Result<Vec<(u64, Vec<u8>)>> {
        let start = first_codes(content);
        self.search(|address, bytes| {
            let is_there = |offset: &usize| bytes[*offset..].starts_with(&start);
            let offsets = (0..bytes.len().saturating_sub(CODE_BYTES)).step_by(8).filter(is_there);
            let codes = offsets.map(|offset| (address + offset as u64, bytes[offset..offset + CODE_BYTES].to_vec()));
            codes.filter(|(address, _)| self.has_neighbour(number, *address, CODE_BYTES, first_codes)).collect()
        })
    }

    /// Whether the codes of the previous or next page lie beside. This distinguishes the place from a copy that a guard
    /// made once, to correct the page, and left behind.
    fn has_neighbour(&self, number: usize, address: u64, size: usize, of: impl Fn(&Page) -> Vec<u8>) -> bool {
        let holds = |neighbour: usize, address: u64| {
            let wanted = of(&self.content(neighbour));
            let mut found = vec![0; wanted.len()];
            self.memory.read(address, &mut found).is_ok() && found == wanted
        };
        let size = size as u64;
        number > 0 && holds(number - 1, address - size) || number + 1 < PAGES && holds(number + 1, address + size)
    }

    /// The first match in memory that the victim does not know of. The search begins where something was found before.
    fn search<T>(&self, find: impl Fn(u64, &[u8]) -> Vec<T>) -> io::Result<Vec<T>> {
        for window in self.windows.borrow().iter() {
            let found = self.find_in(window, &find)?;
            if !found.is_empty() {
                return Ok(found);
            }
        }
        for window in windows(&self.others()?) {
            if !self.memory.is_populated(&window)? {
                continue;
            }
            let found = self.find_in(&window, &find)?;
            if !found.is_empty() {
                self.windows.borrow_mut().push(window);
                return Ok(found);
            }
        }
        Ok(Vec::new())
    }

    fn find_in<T>(&self, window: &Range<u64>, find: impl Fn(u64, &[u8]) -> Vec<T>) -> io::Result<Vec<T>> {
        let mut found = Vec::new();
        self.memory.each_chunk(window, |address, bytes| found.extend(find(address, bytes)))?;
        Ok(found)
    }

    /// All writable mappings except the one that the victim knows: reading that one would unlock it.
    fn others(&self) -> io::Result<Vec<Mapping>> {
        let known = self.address(0)..self.address(PAGES);
        let mut mappings = self.memory.mappings()?;
        mappings.retain(|mapping| {
            let addresses = &mapping.addresses;
            let is_known = addresses.start < known.end && known.start < addresses.end;
            !is_known && mapping.protection.starts_with("rw") && !mapping.name.starts_with("/dev")
        });
        Ok(mappings)
    }

    /// Ends the victim; returns its exit code and its guard's counts.
    pub fn end(self) -> Result<(Option<i32>, Value), Error> {
        let Self { mut child, orders, report, .. } = self;
        drop(orders);
        let status = child.wait().map_err(Error::io("wait for the victim"))?;
        let text = std::fs::read_to_string(report).map_err(Error::io("read the report of `rampart run`"))?;
        Ok((status.code(), serde_json::from_str(&text).map_err(|_| Error::NoCount("JSON"))?))
    }
}

/// Bytes of `crc+pq`: a CRC, P, Q, and the CRC again.
const CODE_BYTES: usize = 4 + 64 + 64 + 4;

/// The first bytes of a page's codes: its CRC and P.
fn first_codes(content: &Page) -> Vec<u8> {
    [&crc32c(content).to_le_bytes()[..], &p(content)].concat()
}

/// The codes after a hit.
fn hit_codes(class: Class, codes: &[u8]) -> Vec<u8> {
    let mut hit = codes.to_vec();
    let bytes: &[usize] = match class {
        Class::P => &[20],
        Class::BothCrcs => &[1, CODE_BYTES - 2],
        _ => &[1],
    };
    bytes.iter().for_each(|&byte| hit[byte] ^= 0x10);
    hit
}

/// Parses the victim's line after it filled its pages: `ready PID ADDRESS`.
fn ready(line: &str) -> Option<(u32, u64)> {
    let (pid, address) = line.strip_prefix("ready ")?.trim_end().split_once(" 0x")?;
    Some((pid.parse().ok()?, u64::from_str_radix(address, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_victims_first_line_is_read() {
        assert_eq!(ready("ready 12 0x7f00\n"), Some((12, 0x7f00)));
        assert_eq!(ready("ready\n"), None);
    }
}
