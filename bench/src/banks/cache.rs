//! How often the cached bank of `ListBanks` has room, by how full memory is [Panwar15, 4.1.2].
//!
//! Memory is filled to a share with pages of programs and of the kernel, and then stays as full: a random block is
//! freed, and another allocated, again and again. What happens is determined by the seed, not by the machine.

use rampart_buddy::{BankPools, BankSize, Cpu, HeapStorage, ListBanks, Migratetype, PageAllocator, Request, Zone};
use rampart_memory::{BlockOrder, FrameBlock, Node};

use super::loops::next;

/// Allocations for each share.
const OPERATIONS: u64 = 1 << 20;

/// Allocations from one optimal selection to the next.
const INTERVAL: u64 = 4096;

struct Load {
    banks: ListBanks<'static, HeapStorage>,
    held: Vec<FrameBlock>,
    used: u64,
    random: u64,
}

impl Load {
    /// Allocates a block as the random number says: of eight, seven are movable; of sixteen, one has 8 frames; of
    /// 1,024, one has 512.
    fn allocate(&mut self) {
        let draw = next(&mut self.random) >> 20;
        let number = match draw % 1024 {
            0 => 9,
            1..64 => 3,
            _ => 0,
        };
        let migratetype = if (draw >> 10).is_multiple_of(8) { Migratetype::Unmovable } else { Migratetype::Movable };
        let order = BlockOrder::new(number).expect("a good order");
        let request = Request { order, migratetype, cpu: Cpu(0), node: Node(0), urgent: false };
        // Without so large a free block, nothing is allocated: the next one is likely a single frame.
        if let Some(block) = self.banks.allocate(request) {
            self.used += block.count();
            self.held.push(block);
        }
    }

    fn free(&mut self) {
        let place = next(&mut self.random) % self.held.len() as u64;
        let block = self.held.swap_remove(usize::try_from(place).expect("an index"));
        self.used -= block.count();
        self.banks.free(block, Cpu(0));
    }
}

/// Prints the table, of a machine of these zones.
pub fn print(zones: &[Zone], bank: BankSize) {
    let frames: u64 = zones.iter().map(|zone| zone.frames.count()).sum();
    let banks = frames / bank.frames();
    println!(
        "ListBanks, {banks} banks of {} MiB: how often the cached bank had room, of {OPERATIONS}",
        bank.frames() / 256
    );
    println!("allocations between random frees; banks looked at per search: mean, most (at most {}).\n", banks + 1);
    println!("{:>6} {:>9} {:>22} {:>33}", "used", "hit rate", "looked at", "with optimal selection");
    for percent in (10..=90).step_by(10).chain([95, 99]) {
        let [plain, selected] = [false, true].map(|selects| measure(zones, bank, frames * percent / 100, selects));
        let show = |(rate, mean, most): (f64, f64, u64)| format!("{:7.1} %  {mean:12.3}  {most:6}", rate * 100.0);
        println!("{percent:4} % {} {}", show(plain), show(selected));
    }
    println!();
}

/// Returns the hit rate, and the banks looked at per search: the mean and the most.
fn measure(zones: &[Zone], bank: BankSize, target: u64, selects: bool) -> (f64, f64, u64) {
    let banks = ListBanks::new(zones, bank).expect("a good machine");
    let mut load = Load { banks, held: Vec::new(), used: 0, random: 0x9e37_79b9_7f4a_7c15 };
    while load.used < target {
        load.allocate();
    }
    let (cache, before) = (load.banks.cache(), load.banks.searches());
    for number in 0..OPERATIONS {
        while load.used >= target {
            load.free();
        }
        load.allocate();
        if selects && number % INTERVAL == 0 {
            load.banks.put_best_first();
        }
    }
    let after = load.banks.searches();
    let mean = (after.looked_at - before.looked_at) as f64 / (after.searches - before.searches) as f64;
    (load.banks.cache().hit_rate_since(cache).expect("blocks were given"), mean, after.most)
}
