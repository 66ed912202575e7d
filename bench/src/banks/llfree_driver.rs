//! Measures LLFree with the loops of `loops.rs`. It is built by `cargo xtask bench banks FOLDER`.

mod loops;

use llfree::{Alloc, Classing, FrameId, Init, LLFree, MetaData, Request};
use loops::Pages;

struct Peer<'a, F: Fn(usize, usize) -> Request + Sync>(LLFree<'a>, F);

impl<F: Fn(usize, usize) -> Request + Sync> Pages for Peer<'_, F> {
    fn get(&self, order: u8, cpu: u32) -> Option<u64> {
        let (frame, _) = self.0.get(None, (self.1)(order as usize, cpu as usize)).ok()?;
        Some(frame.0 as u64)
    }

    fn put(&self, first: u64, order: u8, cpu: u32) {
        let request = (self.1)(order as usize, cpu as usize);
        self.0.put(FrameId(first as usize), request).expect("it is held");
    }
}

fn pin(cpu: u32) {
    // SAFETY: the set is initialised to zero, which is a set of no CPU, and lives during the call.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu as usize, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}

fn main() {
    let arguments: Vec<usize> = std::env::args().skip(1).map(|number| number.parse().expect("a number")).collect();
    let [frames, order, threads] = arguments[..] else { panic!("frames, an order, and a number of threads") };
    let (classing, request) = Classing::simple(2);
    let memory = MetaData::alloc(&LLFree::metadata_size(&classing, frames));
    let peer = Peer(LLFree::new(frames, Init::FreeAll, &classing, memory).expect("a good machine"), request);
    let times = loops::measure(&peer, frames, (order as u8, threads as u32), pin);
    println!("{}", times.numbers().map(|number| number.to_string()).join(" "));
}
