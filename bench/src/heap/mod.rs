//! Our heap beside MMTk's collectors, and beside itself without the state *failed*.
//!
//! **Problem.** What a heap costs depends on its bytes, and each collector needs others. **Idea.** The same loops run
//! on all of them, compiled in one unit (`bench/heap`). Each heap has twice the least bytes that the program runs in on
//! it, found by bisection; then all have the same bytes; then the same multiples of the least heap of one. Each process
//! runs the program twice, and the second time counts. Processes alternate, round by round. **Why this way.** What
//! slows the machine for longer than a round slows all.
//!
//! MMTk's bytes include its tables, so ours do, too; those of a semi-space include both halves. Without the state
//! *failed*, tables are smaller; for that comparison heaps have the same pages, and tables do not count.

mod builds;
mod cost;
mod minimum;
mod peers;
mod ratios;
mod redirection;
mod request;
mod runs;
mod sweep;

use request::HeapRequest;

/// Measures what was asked for, and prints it.
///
/// # Errors
/// If a program does not build or run, or a word is unknown.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let request = HeapRequest::parse(arguments)?;
    if request.cost {
        cost::run(&request)?;
    }
    if request.peers {
        peers::run(&request)?;
    }
    if request.sweep {
        sweep::run(&request)?;
    }
    if request.redirection {
        redirection::run(&request)?;
    }
    Ok(())
}
