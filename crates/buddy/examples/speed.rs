//! Nanoseconds per allocation and free on a simulated machine of 64 GiB:
//! `cargo run --release -p rampart-buddy --example speed`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use rampart_buddy::{Allocated, Buddy, Cpu, End, FreeLists, HeapStorage, Migratetype, Request, Zone, ZoneKind};
use rampart_memory::{BlockOrder, Frame, FrameRange, Node, Tested};

const FRAMES_PER_NODE: u64 = 8 << 20;
const ROUNDS: u32 = 21;
const CPU: Cpu = Cpu(3);

type Held = Vec<Allocated<Tested>>;

fn main() {
    let zone = |node: u32| {
        let start = Frame::new(u64::from(node) * FRAMES_PER_NODE).expect("in range");
        let frames = FrameRange::new(start, FRAMES_PER_NODE).expect("in range");
        Zone { node: Node(node), kind: ZoneKind::Normal, frames }
    };
    let mut buddy = Buddy::new(&[zone(0), zone(1)], 16, Tested::NEVER).expect("a good machine");
    println!("{:44} {:>10} {:>10}", "frames held at once, order, freed", "allocate", "free");
    for (count, order, shuffled) in
        [(100, 0, false), (100_000, 0, false), (100_000, 0, true), (4_000_000, 0, true), (10_000, 3, true)]
    {
        let order = BlockOrder::new(order).expect("small");
        let (allocate, free) = fastest(&mut buddy, count, order, shuffled);
        let how = if shuffled { "in random order" } else { "in order" };
        println!("{:44} {allocate:7.1} ns {free:7.1} ns", format!("{count}, order {order}, {how}"));
    }
}

/// Returns the fastest of many rounds, in nanoseconds per operation: other work on the machine disturbed it least.
fn fastest(
    buddy: &mut Buddy<'static, Tested, HeapStorage>,
    count: usize,
    order: BlockOrder,
    shuffled: bool,
) -> (f64, f64) {
    let request = Request { order, migratetype: Migratetype::Movable, cpu: CPU, node: Node(0), urgent: false };
    let mut held: Held = Vec::with_capacity(count);
    let mut best = (Duration::MAX, Duration::MAX);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        held.extend((0..count).map(|_| buddy.allocate(black_box(request)).expect("there is enough")));
        best.0 = best.0.min(start.elapsed());
        if shuffled {
            shuffle(&mut held);
        }
        let start = Instant::now();
        held.drain(..).for_each(|got| buddy.free(got.block, CPU, got.mark, End::Front));
        best.1 = best.1.min(start.elapsed());
    }
    let each = |time: Duration| time.as_secs_f64() * 1e9 / f64::from(u32::try_from(count).expect("small"));
    (each(best.0), each(best.1))
}

/// Shuffles by Fisher and Yates, with a generator by Marsaglia (xorshift64), which needs no crate.
fn shuffle(held: &mut Held) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for last in (1..held.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let place = usize::try_from(state % (last as u64 + 1)).expect("an index");
        held.swap(last, place);
    }
}
