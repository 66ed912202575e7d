//! End-to-end tests: the built binary on real memory, used as a stranger would.
//!
//! Each test has its own store. No test asserts how long anything takes.

mod banks;
mod children;
mod corruption;
mod dimms;
mod dumps;
mod emulated;
mod errors;
mod evidence;
mod examples;
mod given_up;
mod guard;
mod guarded;
mod harmless;
mod harness;
mod hostile;
mod interrupted;
mod kernel;
mod kill;
mod launch_refusals;
mod limits;
mod manual;
mod map;
mod march;
mod memory_calls;
mod metrics;
mod mlocks;
mod mpirun;
mod noise;
mod page_recording;
mod pressure;
mod project;
mod protect;
mod read_only;
mod refusals;
mod served;
mod simulate;
mod strange_schedules;
mod stuck;
mod trace;
mod unit;
mod verdict;
mod watch;
mod words;
mod yielding;
