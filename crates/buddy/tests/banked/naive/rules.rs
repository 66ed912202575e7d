//! What the allocators differ in: which bank a request gets a block of, and which pool a bank is in.

use std::collections::BTreeMap;

use rampart_buddy::{BankPool, Migratetype, StealRule};
use rampart_memory::BlockOrder;

use super::{FreeBlock, Naive, NaivePart};

/// An allocator under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Adaptive(StealRule),
    Array,
    List,
}

/// What a model knows besides, by its kind.
pub enum Rule {
    Adaptive(StealRule),
    Array,
    List {
        /// All parts, those that come first on their lists first: of any two, the one that joined its list last.
        recent: Vec<usize>,
        /// The part that served each zone and pool last.
        cached: BTreeMap<(usize, BankPool), usize>,
    },
}

impl Rule {
    pub fn new(kind: Kind, parts: &[NaivePart]) -> Self {
        match kind {
            Kind::Adaptive(steal) => Self::Adaptive(steal),
            Kind::Array => Self::Array,
            Kind::List => Self::List { recent: (0..parts.len()).collect(), cached: BTreeMap::new() },
        }
    }
}

/// The pools in which a request looks for a block, in turn.
fn pools(own: Migratetype) -> [BankPool; 3] {
    match own {
        Migratetype::Movable => [BankPool::User, BankPool::Offline, BankPool::Kernel],
        _ => [BankPool::Kernel, BankPool::Offline, BankPool::User],
    }
}

impl Naive {
    /// Returns the pools in which a request looks together: in all zones of a node in the first, then in the second.
    pub(super) fn reaches(&self, own: Migratetype) -> [Vec<BankPool>; 3] {
        let pools = pools(own);
        if matches!(self.rule, Rule::Adaptive(_)) {
            pools.map(|pool| vec![pool])
        } else {
            [pools.to_vec(), Vec::new(), Vec::new()]
        }
    }

    /// Returns the large enough free blocks of a zone that a request may come from, with the pool that has them, one of
    /// these; they are the smallest ones of the pool (Adaptive-Buddy) or of one bank (the others).
    pub(super) fn candidates(
        &self,
        zone: usize,
        (order, own): (BlockOrder, Migratetype),
        pools: &[BankPool],
    ) -> Option<(BankPool, Vec<FreeBlock>)> {
        let is_here = |&part: &usize| self.parts[part].zone == zone && !self.is_isolated(self.parts[part].set);
        let has_room = |&part: &usize| !self.large_enough(part, order).is_empty();
        let is_within = |&part: &usize| pools.contains(&self.pools[&self.parts[part].set]);
        let here: Vec<usize> = (0..self.parts.len()).filter(is_here).filter(is_within).filter(has_room).collect();
        let chosen = match &self.rule {
            Rule::Adaptive(steal) => self.pool_of_adaptive(&here, own, *steal)?,
            Rule::Array if own == Migratetype::Movable => vec![*here.last()?],
            Rule::Array => vec![*here.first()?],
            Rule::List { recent, cached } => vec![self.bank_of_lists(&here, own, recent, cached)?],
        };
        let pool = self.pools[&self.parts[chosen[0]].set];
        let blocks: Vec<_> = chosen.into_iter().flat_map(|part| self.large_enough(part, order)).collect();
        let smallest = blocks.iter().map(|(_, size)| *size).min()?;
        Some((pool, blocks.into_iter().filter(|(_, size)| *size == smallest).collect()))
    }

    fn large_enough(&self, part: usize, order: BlockOrder) -> Vec<FreeBlock> {
        let mut blocks = self.blocks(&self.parts[part].frames);
        blocks.retain(|(_, size)| *size >= order);
        blocks
    }

    fn in_pool(&self, here: &[usize], pool: BankPool) -> Vec<usize> {
        here.iter().copied().filter(|&part| self.pools[&self.parts[part].set] == pool).collect()
    }

    /// Returns the banks that the kernel steals one of: those with most free frames, the lowest first.
    fn with_most_free(&self, parts: &[usize]) -> Option<usize> {
        let free = |part: usize| self.free_of_set(self.parts[part].set);
        let most = parts.iter().map(|&part| free(part)).max()?;
        parts.iter().copied().find(|&part| free(part) == most)
    }

    fn pool_of_adaptive(&self, here: &[usize], own: Migratetype, steal: StealRule) -> Option<Vec<usize>> {
        let (pool, parts) =
            pools(own).into_iter().map(|pool| (pool, self.in_pool(here, pool))).find(|(_, parts)| !parts.is_empty())?;
        if pool != BankPool::User || own == Migratetype::Movable {
            return Some(parts);
        }
        let stolen = match steal {
            StealRule::MostFree => self.with_most_free(&parts)?,
            StealRule::Lowest => parts[0],
        };
        let set = self.parts[stolen].set;
        Some(parts.into_iter().filter(|&part| self.parts[part].set == set).collect())
    }

    fn bank_of_lists(
        &self,
        here: &[usize],
        own: Migratetype,
        recent: &[usize],
        cached: &BTreeMap<(usize, BankPool), usize>,
    ) -> Option<usize> {
        let lists = pools(own);
        let served_last = cached.get(&(self.parts[*here.first()?].zone, lists[0]));
        if let Some(part) = served_last.filter(|part| self.in_pool(here, lists[0]).contains(part)) {
            return Some(*part);
        }
        let (list, banks) =
            lists.into_iter().map(|list| (list, self.in_pool(here, list))).find(|(_, banks)| !banks.is_empty())?;
        if list == BankPool::User && own != Migratetype::Movable {
            return self.with_most_free(&banks);
        }
        recent.iter().copied().find(|part| banks.contains(part))
    }

    /// Puts a set in a pool.
    fn join(&mut self, part: usize, pool: BankPool) {
        let set = self.parts[part].set;
        self.pools.insert(set, pool);
        self.put_first(set);
    }

    /// Puts the parts of a set at the heads of their lists.
    fn put_first(&mut self, set: u64) {
        if let Rule::List { recent, .. } = &mut self.rule {
            let (mut first, rest): (Vec<_>, Vec<_>) =
                recent.iter().copied().partition(|&part| self.parts[part].set == set);
            first.extend(rest);
            *recent = first;
        }
    }

    /// A block in a part was given out.
    pub(super) fn given(&mut self, part: usize, own: Option<Migratetype>) {
        let set = self.parts[part].set;
        let pool = self.pools[&set];
        let is_movable = own.is_none_or(|own| own == Migratetype::Movable);
        let wanted = if is_movable { BankPool::User } else { BankPool::Kernel };
        if pool == BankPool::Offline || (pool == BankPool::User && !is_movable) {
            if pool == BankPool::User && !matches!(self.rule, Rule::Array) {
                self.stolen_banks += self.of_set(set).count() as u64;
            }
            self.join(part, wanted);
        }
        if let Rule::List { cached, .. } = &mut self.rule
            && own.is_some()
            && self.pools[&set] == wanted
        {
            cached.insert((self.parts[part].zone, wanted), part);
        }
    }

    /// A block in a part came back: a set without a held block goes offline, unless a part of it is partial.
    pub(super) fn came_back(&mut self, part: usize) {
        let set = self.parts[part].set;
        if self.of_set(set).any(|part| part.is_partial) {
            return;
        }
        let inside = |first: u64| self.of_set(set).any(|part| part.frames.contains(&first));
        let held = self.held.iter().filter(|(block, _)| inside(block.first().number()));
        let held: Vec<bool> = held.map(|(_, own)| own.is_none_or(|own| own == Migratetype::Movable)).collect();
        if held.is_empty() {
            self.join(part, BankPool::Offline);
            self.parts.iter_mut().filter(|part| part.set == set).for_each(|part| part.isolated = false);
        } else if matches!(self.rule, Rule::Array) && held.iter().all(|is_movable| *is_movable) {
            self.join(part, BankPool::User);
        }
    }

    /// The isolation of a part has ended.
    pub(super) fn rejoined(&mut self, part: usize) {
        let set = self.parts[part].set;
        if !self.is_isolated(set) {
            self.put_first(set);
        }
    }

    /// The bank with most free frames goes to the head of its list.
    pub fn put_best_first(&mut self) {
        if !matches!(self.rule, Rule::List { .. }) {
            return;
        }
        for zone in 0..self.zones.len() {
            for pool in [BankPool::Kernel, BankPool::User] {
                let is_there = |&part: &usize| {
                    let NaivePart { zone: own, set, .. } = self.parts[part];
                    own == zone && self.pools[&set] == pool && !self.is_isolated(set)
                };
                let free = |part: usize| self.free_in(&self.parts[part].frames);
                let there: Vec<usize> = (0..self.parts.len()).filter(is_there).filter(|&part| free(part) > 0).collect();
                let most = there.iter().map(|&part| free(part)).max();
                if let Some(best) = there.into_iter().find(|&part| Some(free(part)) == most)
                    && let Rule::List { recent, .. } = &mut self.rule
                {
                    recent.retain(|&part| part != best);
                    recent.insert(0, best);
                }
            }
        }
    }
}
