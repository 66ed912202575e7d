//! The CPU, the NIC and the resource queue that an event needs.
//!
//! **Problem.** A rank may name any of 255 CPUs and 255 NICs. A table of every pair for every rank takes half a
//! megabyte per rank, though nearly all ranks use CPU 0 and NIC 0 only. **Idea.** Every rank has CPU 0 and NIC 0, at
//! indices computed from its number. Its other resources are in one sorted list, which is searched. **Why this way.**
//! Memory follows the operations that there are, and the usual rank needs no search.

use crate::model::operation::{Operation, OperationKind, Rank};

/// What an event takes, as indices into the engine's lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Needs {
    /// An index into the list of times at which resources are free.
    pub cpu: usize,
    /// An index into the same list; the CPU once more if the event needs no NIC.
    pub nic: usize,
    /// The resource queue in which it waits for them.
    pub queue: usize,
    /// The cursor of the CPU.
    pub cursor: usize,
}

/// What an event does on its rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Use {
    /// It takes a CPU only.
    Calc,
    /// It takes a CPU and the sending side of a NIC.
    Send,
    /// It takes a CPU and the receiving side of a NIC.
    Arrive,
}

/// Indices of each rank for CPU 0 and NIC 0: one resource, and one resource queue, for each [`Use`].
const USUAL: usize = 3;

/// A use of another CPU or NIC: rank, use, CPU, NIC. This is the sort key.
type Key = (u32, Use, u8, u8);

/// The indices of all ranks.
#[derive(Debug)]
pub(super) struct Resources {
    ranks: usize,
    /// Sorted; the index of a key is its number after the usual resource queues.
    others: Vec<(Key, Needs)>,
    /// The start of each rank in `others`, and the end; empty if `others` is.
    bounds: Vec<usize>,
    /// CPUs besides CPU 0: the rank, and the index into the list of times.
    other_cpus: Vec<(u32, usize)>,
    /// Resources besides the usual ones.
    more: usize,
}

impl Resources {
    /// For this many ranks, and these operations on another CPU or NIC than the first.
    pub fn new(ranks: u32, elsewhere: impl Iterator<Item = (Rank, Operation)>) -> Self {
        let mut keys: Vec<Key> = Vec::new();
        for (rank, operation) in elsewhere {
            let (cpu, nic) = (operation.cpu, operation.nic);
            if operation.kind == OperationKind::Send {
                keys.push((rank.0, Use::Send, cpu, nic));
                keys.push((operation.peer, Use::Arrive, cpu, nic));
            } else if cpu > 0 {
                keys.push((rank.0, Use::Calc, cpu, 0));
            }
        }
        keys.sort_unstable();
        keys.dedup();
        let (ranks, others, bounds, other_cpus) = (ranks as usize, Vec::new(), Vec::new(), Vec::new());
        let mut places = Self { ranks, others, bounds, other_cpus, more: 0 };
        keys.chunk_by(|one, next| one.0 == next.0).for_each(|of_rank| places.add(of_rank));
        if !keys.is_empty() {
            let begin = |rank| keys.partition_point(|key| (key.0 as usize) < rank);
            places.bounds = (0..=ranks).map(begin).collect();
        }
        places
    }

    /// The uses of one rank, sorted.
    fn add(&mut self, keys: &[Key]) {
        let rank = keys[0].0;
        let mut cpus: Vec<u8> = keys.iter().map(|key| key.2).filter(|cpu| *cpu > 0).collect();
        let side = |key: &Key| (key.1 != Use::Calc && key.3 > 0).then_some((key.1, key.3));
        let mut nics: Vec<(Use, u8)> = keys.iter().filter_map(side).collect();
        cpus.sort_unstable();
        cpus.dedup();
        nics.sort_unstable();
        nics.dedup();
        let (first_cpu, first_cursor) = (USUAL * self.ranks + self.more, self.ranks + self.other_cpus.len());
        let first_nic = first_cpu + cpus.len();
        for key in keys {
            let usual = self.usual(rank, key.1);
            let (cpu, cursor) = match cpus.binary_search(&key.2) {
                Ok(place) => (first_cpu + place, first_cursor + place),
                Err(_) => (usual.cpu, usual.cursor),
            };
            let nic = match nics.binary_search(&(key.1, key.3)) {
                Ok(place) => first_nic + place,
                Err(_) if key.1 == Use::Calc => cpu,
                Err(_) => usual.nic,
            };
            let queue = USUAL * self.ranks + self.others.len();
            self.others.push((*key, Needs { cpu, nic, queue, cursor }));
        }
        self.other_cpus.extend((0..cpus.len()).map(|place| (rank, first_cpu + place)));
        self.more += cpus.len() + nics.len();
    }

    /// With CPU 0 and NIC 0.
    #[inline]
    fn usual(&self, rank: u32, used: Use) -> Needs {
        let first = USUAL * rank as usize;
        let place = first + used as usize;
        Needs { cpu: first, nic: place, queue: place, cursor: rank as usize }
    }

    /// The resources of an event.
    #[inline]
    pub fn needs(&self, rank: Rank, used: Use, operation: Operation) -> Needs {
        let nic = if used == Use::Calc { 0 } else { operation.nic };
        if operation.cpu == 0 && nic == 0 {
            self.usual(rank.0, used)
        } else {
            self.other(rank, used, operation.cpu, nic)
        }
    }

    #[cold]
    fn other(&self, rank: Rank, used: Use, cpu: u8, nic: u8) -> Needs {
        let key = (rank.0, used, cpu, nic);
        let of_rank = &self.others[self.bounds[rank.index()]..self.bounds[rank.index() + 1]];
        let place = of_rank.binary_search_by_key(&key, |(key, _)| *key).expect("a schedule names all that it uses");
        of_rank[place].1
    }

    /// The number of resources: CPUs, and NICs by their sides.
    pub fn count(&self) -> usize {
        USUAL * self.ranks + self.more
    }

    /// The number of resource queues.
    pub fn queues(&self) -> usize {
        USUAL * self.ranks + self.others.len()
    }

    /// The rank of each cursor: one cursor for each CPU.
    pub fn cursors(&self) -> impl Iterator<Item = Rank> {
        (0..self.ranks).zip(0..).map(|(_, rank)| Rank(rank)).chain(self.other_cpus.iter().map(|(rank, _)| Rank(*rank)))
    }

    /// All CPUs: the rank, and the index into the list of times.
    pub fn cpus(&self) -> impl Iterator<Item = (usize, usize)> {
        (0..self.ranks)
            .map(|rank| (rank, USUAL * rank))
            .chain(self.other_cpus.iter().map(|(rank, place)| (*rank as usize, *place)))
    }
}

#[cfg(test)]
mod tests {
    use rampart_memory::Bytes;

    use super::*;
    use crate::model::operation::Tag;
    use crate::time::Time;

    fn calc(cpu: u8) -> Operation {
        Operation::calc(Time::ZERO).on(cpu, 0)
    }

    fn send(to: u32, cpu: u8, nic: u8) -> Operation {
        Operation::send(Rank(to), Bytes::new(1), Tag(0)).on(cpu, nic)
    }

    #[test]
    fn a_rank_has_what_it_uses_and_no_more() {
        let uses = [(Rank(1), calc(254)), (Rank(1), calc(254)), (Rank(0), send(2, 7, 254))];
        let places = Resources::new(3, uses.into_iter());
        // CPU 254 of rank 1; CPU 7 and a NIC's side of rank 0 and of rank 2.
        assert_eq!((places.count(), places.queues()), (3 * 3 + 5, 3 * 3 + 3));
        assert_eq!(places.cursors().map(|rank| rank.0).collect::<Vec<_>>(), [0, 1, 2, 0, 1, 2]);
        assert_eq!(Resources::new(3, std::iter::empty()).count(), 9);
    }

    #[test]
    fn uses_share_a_resource_if_they_name_the_same_one() {
        let uses = [(Rank(0), calc(1)), (Rank(0), send(1, 1, 0)), (Rank(0), send(1, 0, 1)), (Rank(0), send(1, 1, 1))];
        let places = Resources::new(2, uses.into_iter());
        let needs = |rank, used, operation| places.needs(Rank(rank), used, operation);
        let [one, two, three, four] =
            [(Use::Calc, calc(1)), (Use::Send, send(1, 1, 0)), (Use::Send, send(1, 0, 1)), (Use::Send, send(1, 1, 1))]
                .map(|(used, operation)| needs(0, used, operation));
        assert_eq!((one.cpu, one.cursor), (two.cpu, two.cursor));
        assert_eq!((two.cpu, three.nic), (four.cpu, four.nic));
        assert_eq!((one.nic, three.cpu, two.nic), (one.cpu, 0, 1));
        let arrive = needs(1, Use::Arrive, send(1, 1, 1));
        assert!(arrive.cpu != four.cpu && arrive.nic != four.nic && arrive.cursor != four.cursor);
        let mut queues: Vec<usize> = places.others.iter().map(|(_, needs)| needs.queue).collect();
        queues.dedup();
        assert_eq!(queues, (6..6 + 7).collect::<Vec<_>>());
    }
}
