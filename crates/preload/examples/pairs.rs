//! The cost of `malloc` and `free` with this library preloaded, beside other allocators, in one run.
//!
//! `cargo run --release -p rampart-preload --example pairs [LIBRARY...]`: starts itself once with glibc's allocator,
//! once with ours, and once with each named shared library, such as those of jemalloc and mimalloc, three rounds each
//! in turn; prints the best of each. The unit is nanoseconds for one `malloc` and its `free`, on one thread.

#![allow(unsafe_code, reason = "calls malloc")]

use std::env;
use std::hint::black_box;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

/// The measured cases: a size, and the number of blocks alive at once.
const CASES: [(usize, usize); 6] = [(16, 1), (64, 1000), (1000, 1), (1000, 1000), (20_000, 100), (1 << 20, 1)];

const ROUNDS: usize = 3;

fn main() {
    if env::var_os("PAIRS_CHILD").is_some() {
        let costs = CASES.map(|(size, alive)| format!("{:.2}", nanoseconds(size, alive)));
        println!("{}", costs.join(" "));
        return;
    }
    let example = env::current_exe().expect("we run");
    let profile = example.ancestors().nth(2).expect("examples are in a folder of the profile's");
    let own = profile.join("deps/librampart_preload.so");
    let libraries: Vec<Option<PathBuf>> =
        [None, Some(own)].into_iter().chain(env::args().skip(1).map(|library| Some(library.into()))).collect();
    let mut best = vec![[f64::INFINITY; CASES.len()]; libraries.len()];
    for _ in 0..ROUNDS {
        for (library, best) in libraries.iter().zip(&mut best) {
            for (best, cost) in best.iter_mut().zip(run(library.as_ref())) {
                *best = best.min(cost);
            }
        }
    }
    println!(
        "{:>44} {}",
        "bytes x alive:",
        CASES.map(|(size, alive)| format!("{:>13}", format!("{size}x{alive}"))).concat()
    );
    for (library, best) in libraries.iter().zip(best) {
        let name =
            library.as_ref().and_then(|path| path.file_name()).map_or("glibc".into(), |name| name.to_string_lossy());
        println!("{name:>44} {}", best.map(|cost| format!("{cost:>13.2}")).concat());
    }
}

/// The costs of all cases, in a process of its own with this library.
fn run(library: Option<&PathBuf>) -> Vec<f64> {
    let mut child = Command::new(env::current_exe().expect("we run"));
    child.env("PAIRS_CHILD", "1").env_remove("LD_PRELOAD");
    if let Some(library) = library {
        assert!(library.exists(), "there is no {}: build it first", library.display());
        child.env("LD_PRELOAD", library);
    }
    let said = child.output().expect("it starts").stdout;
    String::from_utf8_lossy(&said).split_whitespace().map(|cost| cost.parse().expect("a number")).collect()
}

fn nanoseconds(size: usize, alive: usize) -> f64 {
    let rounds = 4_000_000 / alive;
    let mut blocks = vec![std::ptr::null_mut(); alive];
    let begin = Instant::now();
    for _ in 0..rounds {
        for block in &mut blocks {
            // SAFETY: any size may be asked for.
            *block = black_box(unsafe { libc::malloc(black_box(size)) });
        }
        for &block in &blocks {
            // SAFETY: it was allocated just before and is not used again.
            unsafe { libc::free(block) };
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "a few millions")]
    let pairs = (rounds * alive) as f64;
    begin.elapsed().as_secs_f64() * 1e9 / pairs
}
