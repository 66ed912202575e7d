//! What clustering costs in accesses to the memory array, for several sizes of the cache of redirection maps [Gao13,
//! 3.1.2].
//!
//! **Problem.** An access to a redirected line takes three, or two if the map is in the module's cache; how many such
//! accesses there are depends on what gets past the processor's caches. **Idea.** valgrind traces the loads and stores
//! of the programs of this bench; a model of a last-level cache says which of them reach memory; these go to the lines
//! of clustered regions that work: the program's pages, in the order of their first use, fill them one after the
//! other. **Why this way.** [Gao13, 3.1.2] gives no figure: this is ours, for the first 67 million loads and stores of
//! each program.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::process::{ChildStderr, Command, Stdio};

use rampart_heap::wear::{
    ClusterBytes, ClusterLine, ClusteredRegion, FailedLines, FailureShare, RedirectionCache, RegionPages, draw_failures,
};

use super::builds::HeapBuild;
use super::request::HeapRequest;
use super::runs::{GUESS, HeapRun};

const LINE: usize = 64;
const LINES_PER_PAGE: usize = 64;

/// A cache of 1 MiB in 16 ways, as a core may have.
const SETS: usize = 1024;
const WAYS: usize = 16;

/// How many loads and stores of a program are looked at.
const MOST: usize = 1 << 26;

const SHARES: [f64; 3] = [0.1, 0.25, 0.5];
const REGIONS: [RegionPages; 2] = [RegionPages::One, RegionPages::Two];
const CACHES: [usize; 4] = [0, 16, 128, 1024];

/// The seed of the failed lines.
const SEED: u64 = 1;

/// Prints a table for each program.
///
/// # Errors
/// If a program does not build, or valgrind is not there.
pub fn run(request: &HeapRequest) -> Result<(), String> {
    let build = HeapBuild::Ours.build()?;
    println!("accesses of the memory array for each one of the program, and those that are redirected");
    for program in &request.programs {
        let run_in = |bytes| HeapRun { size: program.small, ..HeapRun::of(&build, program, "sticky", bytes) };
        let accesses = reaching_memory(&run_in(2 * run_in(GUESS).minimum()?))?;
        println!("{}: {} of its accesses reach memory", program.name, accesses.len());
        println!("  failed lines | pages in a region | redirected, % | without a cache | with 16 maps | 128 | 1024");
        for share in SHARES {
            for pages in REGIONS {
                print_row(&accesses, share, pages);
            }
        }
    }
    Ok(())
}

fn print_row(accesses: &[usize], share: f64, pages: RegionPages) {
    let memory = ClusteredMemory::new(accesses.iter().max().map_or(0, |last| last + 1), share, pages);
    let counts = CACHES.map(|maps| {
        let mut cache = RedirectionCache::new(maps);
        for access in accesses {
            let (region, address) = memory.working[*access];
            cache.access(region, &memory.regions[region], address);
        }
        cache.counts()
    });
    let all = accesses.len().max(1) as f64;
    let redirected = 100.0 * counts[0].redirected as f64 / all;
    let each = counts.map(|counts| format!("{:.3}", counts.of_the_array() as f64 / all));
    println!("  {:.0} % | {} | {redirected:.1} | {}", 100.0 * share, pages.pages(), each.join(" | "));
}

/// Regions with failed lines, and their addresses that work.
struct ClusteredMemory {
    regions: Vec<ClusteredRegion>,
    working: Vec<(usize, ClusterLine)>,
}

impl ClusteredMemory {
    /// Memory of which so many lines work.
    fn new(lines: usize, share: f64, size: RegionPages) -> Self {
        let mut memory = Self { regions: Vec::new(), working: Vec::new() };
        let share = FailureShare::new(share).expect("a share from 0 to 1");
        // Maps take lines, too: never more than one in 32 here.
        let pages = share.compensated(lines.div_ceil(LINES_PER_PAGE) * 33 / 32 + 8).expect("not all lines have failed");
        let failed = draw_failures(pages.next_multiple_of(size.pages()), share, ClusterBytes::LINE, SEED);
        for (number, pages) in failed.chunks(size.pages()).enumerate() {
            memory.add(ClusteredRegion::new(number, size), pages, size);
        }
        memory
    }

    fn add(&mut self, mut region: ClusteredRegion, failed: &[FailedLines], size: RegionPages) {
        let lines = || (0..size.lines()).filter_map(|place| ClusterLine::new(place, size));
        let has_failed = |line: &ClusterLine| {
            let place = usize::from(line.place());
            failed[place / LINES_PER_PAGE].contains(u32::from(line.place()) % FailedLines::ALL.count())
        };
        lines().filter(has_failed).for_each(|line| _ = region.fail(line));
        let number = self.regions.len();
        self.working.extend(lines().filter(|line| region.serves(*line).is_some()).map(|works| (number, works)));
        self.regions.push(region);
    }
}

/// The lines that a program reads from memory and writes back, by numbers in the order of their pages' first use.
fn reaching_memory(run: &HeapRun<'_>) -> Result<Vec<usize>, String> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=lackey", "--trace-mem=yes"]).arg(run.build).args(run.arguments(1));
    valgrind.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = valgrind.spawn().map_err(|error| format!("valgrind: {error}"))?;
    let trace = child.stderr.take().expect("it is a pipe");
    let (mut cache, mut numbers, mut reaching) = (LastCache::default(), HashMap::new(), Vec::new());
    for (line, is_store) in lines_accessed(trace).take(MOST) {
        cache.access(line, is_store, |line| {
            let pages = numbers.len();
            let page = *numbers.entry(line / LINES_PER_PAGE).or_insert(pages);
            reaching.push(page * LINES_PER_PAGE + line % LINES_PER_PAGE);
        });
    }
    // It may have been stopped in the middle.
    _ = child.kill();
    child.wait().map_err(|error| format!("valgrind: {error}"))?;
    if reaching.is_empty() { Err(format!("{}: valgrind shows no access", run.program)) } else { Ok(reaching) }
}

/// The lines that loads and stores access, and whether they are stores.
fn lines_accessed(trace: ChildStderr) -> impl Iterator<Item = (usize, bool)> {
    BufReader::new(trace).lines().map_while(Result::ok).filter_map(|text| {
        let (kind, rest) = (text.get(..3)?, text.get(3..)?);
        let is_store = match kind {
            " L " => false,
            " S " | " M " => true,
            _ => return None,
        };
        let (address, _) = rest.split_once(',')?;
        Some((usize::from_str_radix(address, 16).ok()? / LINE, is_store))
    })
}

/// The last cache before memory, which writes back what it replaces, the least recently used first.
struct LastCache {
    /// The lines of each set, and whether they were written; the one used last is the last.
    sets: Vec<Vec<(usize, bool)>>,
}

impl Default for LastCache {
    fn default() -> Self {
        Self { sets: vec![Vec::new(); SETS] }
    }
}

impl LastCache {
    /// An access to a line; `reach` is called for each line that is read from memory or written back to it.
    fn access(&mut self, line: usize, is_store: bool, mut reach: impl FnMut(usize)) {
        let set = &mut self.sets[line % SETS];
        let was_written = match set.iter().position(|(there, _)| *there == line) {
            Some(place) => set.remove(place).1,
            None => {
                if set.len() == WAYS {
                    let (replaced, was_written) = set.remove(0);
                    if was_written {
                        reach(replaced);
                    }
                }
                reach(line);
                false
            }
        };
        set.push((line, was_written || is_store));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_reads_what_it_lacks_and_writes_back_what_was_written_the_oldest_first() {
        let (mut cache, mut reached) = (LastCache::default(), Vec::new());
        // All of one set.
        let line = |number: usize| number * SETS;
        for number in 0..WAYS {
            cache.access(line(number), number == 1, |line| reached.push(line));
        }
        cache.access(line(0), false, |_| panic!("it is there"));
        cache.access(line(100), false, |line| reached.push(line));
        cache.access(line(101), false, |line| reached.push(line));
        let first = (0..WAYS).map(line);
        // Line 1 goes first, and is written back; then line 2, which is not.
        assert_eq!(reached, first.chain([line(1), line(100), line(101)]).collect::<Vec<_>>());
    }

    #[test]
    fn a_memory_has_as_many_working_addresses_as_asked_for_each_served_by_a_line() {
        for (share, size) in [(0.1, RegionPages::One), (0.5, RegionPages::Two)] {
            let memory = ClusteredMemory::new(10_000, share, size);
            assert!(memory.working.len() >= 10_000);
            for (region, address) in &memory.working {
                assert!(memory.regions[*region].serves(*address).is_some());
            }
        }
    }
}
