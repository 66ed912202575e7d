//! All frames of this machine that the kernel module can take, as a source: each is to be tested again before its last
//! test expires, those in use as well as free ones.
//!
//! **Problem.** Memory that a program holds for longer than a lifetime is out of reach of a test that claims free
//! memory; and what is free changes from one moment to the next. **Idea.** The module shows what each frame is used for
//! and when it was tested. Memory is looked at in stretches of 16 MiB (`stretch`), those first whose tests expire
//! first (`queue`); what is due there is handed to testers, which claim it, test it and give it back. **Why this
//! way.** The module remembers the ages, by frame, whoever has the frame: so the daemon can be stopped and started at
//! any time. No frame is claimed while it waits for a tester.
//!
//! Rahman's terms and their counterparts [Rahman16, 3.2, 4.1.2 and A.1]:
//!
//! | Rahman | here |
//! |---|---|
//! | free list | the frames of a node |
//! | allocation demand | the module's counters of allocated frames, and the frames that must be tested so that no test expires |
//! | migration of frames about to expire | a block with such frames is emptied and tested when a quarter of the window is left |
//! | deadline miss | a frame in use that can be moved, whose test has expired |

mod at_hand;
mod beside;
mod block;
mod first_use;
mod kernel;
mod lists;
mod node;
mod queue;
mod round;
mod stretch;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::Duration;

use rampart_linux::FrameClass;
use rampart_memory::{
    BlockOrder, BlockVerdict, Bytes, Frame, FrameDemand, FrameRange, FrameSource, FreeList, Node, RePlacementCounts,
    TestLifetime, Tested, Timestamp,
};

use self::at_hand::HandSweep;
use self::block::ChosenPiece;
pub use self::kernel::{FrameKernel, KernelWithModule, PieceOutcome};
use self::lists::ListSweep;
use self::node::NodeFrames;
use self::round::Round;
pub use self::stretch::STRETCH;
use self::stretch::{Stretch, StretchNeeds};
use super::free_memory::{Ages, PoolNews};
use super::step::{ChosenRequest, Step, StepMemory};
use super::{DaemonSource, GuaranteeState};

/// How often the module's counters are read.
const READ_EVERY: Duration = Duration::from_millis(250);

/// The pause after memory was too short for a claim.
const PAUSE: Duration = Duration::from_secs(1);

/// The most stretches that are looked at in a call: more would keep the main loop from its other work.
const MOST_LOOKS: usize = 16;

/// The frames of a machine.
pub struct KernelFrames<K: FrameKernel> {
    kernel: K,
    bound: TestLifetime,
    /// When each frame was tested, as the last look at it showed.
    ages: Ages,
    /// By their frames, ascending.
    stretches: Vec<Stretch>,
    nodes: Vec<NodeFrames>,
    lists: Vec<ListSweep>,
    at_hand: Vec<HandSweep>,
    bad: BTreeSet<Frame>,
    /// Frames that are tested if their last test was before that time.
    preferred: (Vec<FrameRange>, Timestamp),
    round: Round,
    read_at: Timestamp,
    /// No claims before this time: memory was short.
    short_until: Timestamp,
    re_placed: RePlacementCounts,
    moved: u64,
    news: Vec<PoolNews>,
}

impl<K: FrameKernel> KernelFrames<K> {
    /// All frames of a kernel, with the frames that are known to be bad.
    pub fn new(kernel: K, bound: TestLifetime, bad: impl IntoIterator<Item = Frame>, now: Timestamp) -> Self {
        kernel.set_lifetime(bound);
        let mut frames = Self {
            ages: Ages::new(now),
            stretches: Vec::new(),
            nodes: Vec::new(),
            lists: Vec::new(),
            at_hand: Vec::new(),
            bad: bad.into_iter().collect(),
            preferred: (Vec::new(), now),
            round: Round::new(now),
            read_at: now,
            short_until: now,
            re_placed: RePlacementCounts::default(),
            moved: 0,
            news: vec![PoolNews::SweepBegan],
            kernel,
            bound,
        };
        frames.find_memory(now);
        frames
    }

    /// How frames in use are kept tested.
    pub fn guarantee_now(&self) -> GuaranteeState {
        let sum = |of: fn(&Stretch) -> u64| self.stretches.iter().map(of).sum();
        GuaranteeState { moved: self.moved, missed: sum(Stretch::missed), refused: sum(Stretch::refused_frames) }
    }

    /// Whether tests have expired before they were repeated, or free memory had no test for too long.
    pub fn is_late(&self, now: Timestamp) -> bool {
        self.nodes.iter().any(|node| node.queue.is_overdue(now))
    }

    /// Adds the memory that has come online.
    fn find_memory(&mut self, now: Timestamp) {
        for (node, online) in self.kernel.online() {
            if !self.nodes.iter().any(|known| known.node == node) {
                self.nodes.push(NodeFrames::new(node, now));
                let lists = self.kernel.free_lists(node);
                self.at_hand.extend(HandSweep::of_lists(&lists));
                self.lists.extend(lists.into_iter().map(ListSweep::new));
            }
            for frames in online.cut_at_multiples(STRETCH) {
                if self.place_of(frames.start()).is_none() {
                    self.stretches.push(Stretch::new(frames, node, self.bound, now));
                }
            }
            self.stretches.sort_unstable_by_key(|stretch| stretch.frames().start());
        }
        let demand = self.kernel.demand();
        self.nodes.iter_mut().for_each(|node| node.begin(&demand));
        self.queue_all();
        self.round.begin(self.stretches.len(), now);
    }

    /// Has all memory that is in nobody's hands wait for its look.
    fn queue_all(&mut self) {
        for node in &mut self.nodes {
            node.queue.clear();
            let own = self.stretches.iter().enumerate().filter(|(_, stretch)| stretch.node() == node.node);
            own.filter(|(_, stretch)| !stretch.is_out()).for_each(|(place, stretch)| node.queue.add(place, stretch));
        }
    }

    fn hurry_all(&mut self, now: Timestamp) {
        self.stretches.iter_mut().for_each(|stretch| stretch.hurry(now));
        self.queue_all();
    }

    fn step(&self, request: ChosenRequest, node: Node) -> Step<K::Region> {
        Step::new(self.kernel.region(request), Vec::new(), node)
    }

    fn place_of(&self, frame: Frame) -> Option<usize> {
        let behind = self.stretches.partition_point(|stretch| stretch.frames().start() <= frame);
        let place = behind.checked_sub(1)?;
        self.stretches[place].frames().contains(frame).then_some(place)
    }

    fn node(&mut self, node: Node) -> Option<&mut NodeFrames> {
        self.nodes.iter_mut().find(|known| known.node == node)
    }

    /// Reads the module's counters and finds the rate that is needed, if that is due.
    fn read(&mut self, now: Timestamp) {
        if now.since(self.read_at) < READ_EVERY {
            return;
        }
        self.read_at = now;
        let demand = self.kernel.demand();
        self.lists.iter_mut().for_each(|sweep| sweep.see(&demand));
        self.at_hand.iter_mut().for_each(|sweep| sweep.see(&demand));
        let waiting = self.kernel.waiting();
        for node in &mut self.nodes {
            node.see(&demand);
            node.new_memory.see(waiting.iter().filter(|(on, _)| *on == node.node).map(|(_, frames)| frames).sum());
            node.rate = node.queue.rate(&self.stretches, now) + node.new_memory.rate();
        }
    }

    /// What is to be tested in a stretch now; it waits for its next look if that is nothing.
    fn look(&mut self, place: usize, now: Timestamp) -> StretchNeeds {
        let (ranges, since) = &self.preferred;
        let preferred = |frame: Frame, tested: Tested| {
            tested < Tested::at(*since) && ranges.iter().any(|range| range.contains(frame))
        };
        let stretch = &mut self.stretches[place];
        let frames = stretch.frames();
        let mut views = self.kernel.look(frames);
        let is_there = |offset: usize| views.get(offset).is_some_and(|view| view.class != FrameClass::Absent);
        let gone = frames.frames().enumerate().filter(|(offset, _)| !is_there(*offset));
        gone.for_each(|(_, frame)| self.ages.remove(frame));
        for (frame, view) in frames.frames().zip(&mut views) {
            if view.tested > Tested::at(now) {
                view.tested = Tested::NEVER;
            }
            if view.may_be_tested() && !self.bad.contains(&frame) {
                self.ages.set(frame, view.tested);
            }
        }
        let needs = stretch.look(&views, &preferred, self.bound, now);
        if needs.is_empty() {
            self.wait(place);
            if !needs.has_untested
                && let Some(took) = self.round.done(place, now)
            {
                self.news.extend([PoolNews::SweepEnded(took), PoolNews::SweepBegan]);
                self.round.begin(self.stretches.len(), now);
            }
        }
        needs
    }

    /// Has a stretch that is in nobody's hands wait for its next look.
    fn wait(&mut self, place: usize) {
        let stretch = &self.stretches[place];
        let node = self.nodes.iter_mut().find(|known| known.node == stretch.node());
        node.expect("each stretch is of a node").queue.add(place, stretch);
    }

    /// What a request has come to, whatever it was for.
    fn settle(&mut self, outcome: PieceOutcome, verdict: &BlockVerdict, now: Timestamp) {
        match outcome {
            PieceOutcome::Claimed { moved } => {
                self.re_placed.migrated += moved;
                self.moved += moved;
                // It was taken away: whoever needs memory comes first.
                if *verdict == BlockVerdict::NotTested {
                    self.short_until = now.after(PAUSE);
                }
            }
            PieceOutcome::MemoryShort => self.short_until = now.after(PAUSE),
            PieceOutcome::Refused | PieceOutcome::NotTried => {}
        }
    }

    /// A piece of a stretch has come back.
    fn came_back(&mut self, piece: ChosenPiece, outcome: PieceOutcome, now: Timestamp) {
        let Some(place) = self.place_of(piece.frames.start()) else { return };
        if outcome == PieceOutcome::Refused {
            self.stretches[place].refused(piece, self.bound, now);
        }
        self.end_part(place);
    }

    /// Pages of a block of a stretch have come back, or were not to be had.
    fn pages_came_back(&mut self, pages: &[Frame], outcome: PieceOutcome, now: Timestamp) {
        let Some((first, place)) = pages.first().and_then(|&first| Some((first, self.place_of(first)?))) else {
            return;
        };
        if matches!(outcome, PieceOutcome::Claimed { .. } | PieceOutcome::Refused) {
            self.stretches[place].took_pages(first, self.bound, now);
        }
        self.end_part(place);
    }

    /// A tester is done with a part of a stretch.
    fn end_part(&mut self, place: usize) {
        let stretch = &mut self.stretches[place];
        stretch.came_back();
        if !stretch.is_out() {
            self.wait(place);
        }
    }
}

impl<K: FrameKernel> FrameSource for KernelFrames<K> {
    type Block = Step<K::Region>;

    fn lists(&self) -> Vec<FreeList> {
        self.nodes.iter().map(|node| FreeList { node: node.node, order: BlockOrder::ZERO }).collect()
    }

    /// The module's counters, and the frames whose tests expire if nothing is tested: they count as allocated untested.
    fn demand(&self, list: FreeList) -> FrameDemand {
        self.nodes.iter().find(|node| node.node == list.node).map_or_else(FrameDemand::default, NodeFrames::demand)
    }

    /// Counts frames in use too.
    fn tested_free(&self, now: Timestamp) -> u64 {
        self.ages.fresh(self.bound, now)
    }

    /// Hands out all that is due in a stretch: the last may exceed the requested number of frames, and later calls hand
    /// out fewer in return.
    fn take(&mut self, list: FreeList, max_frames: u64, now: Timestamp) -> Vec<Self::Block> {
        self.read(now);
        let Some(known) = self.node(list.node) else { return Vec::new() };
        known.show(now);
        known.credit = known.credit.saturating_add_unsigned(max_frames).min(NodeFrames::MOST_CREDIT);
        let mut credit = known.credit;
        let new = known.new_memory.begin();
        let mut steps: Vec<_> = (0..new).map(|_| self.step(ChosenRequest::New(list.node), list.node)).collect();
        // Whatever was requested: a list has few frames, and those that the kernel uses next.
        if now >= self.short_until {
            let due = lists::begin(&mut self.lists, list.node, self.bound, now);
            steps.extend(due.into_iter().map(|due| self.step(ChosenRequest::List(due), list.node)));
            let due = at_hand::begin(&mut self.at_hand, list.node, self.bound, now);
            let look = |(due, older)| self.step(ChosenRequest::AtHand(due, older), list.node);
            steps.extend(due.into_iter().map(look));
        }
        let mut looks = 0;
        while credit > 0 && looks < MOST_LOOKS && now >= self.short_until {
            let node = self.nodes.iter_mut().find(|known| known.node == list.node).expect("it was found above");
            let Some(place) = node.queue.take(&self.stretches, now) else { break };
            looks += 1;
            let needs = self.look(place, now);
            self.stretches[place].hand_out(needs.pieces.len() + needs.pages.len());
            let pieces = needs.pieces.into_iter().map(|piece| ChosenRequest::Frames(piece.frames, piece.way));
            for request in pieces.chain(needs.pages.into_iter().map(ChosenRequest::Pages)) {
                let step = self.step(request, list.node);
                credit = credit.saturating_sub_unsigned(self.kernel.count(&step.region));
                steps.push(step);
            }
        }
        self.node(list.node).expect("it was found above").credit = credit;
        steps
    }

    fn shape(&self, block: &Self::Block) -> (Node, u64) {
        (block.node, self.kernel.count(&block.region))
    }

    fn is_urgent(&self, block: &Self::Block) -> bool {
        matches!(self.kernel.outcome(&block.region).0, ChosenRequest::AtHand(..))
    }

    fn give_back(&mut self, block: Self::Block, verdict: BlockVerdict, now: Timestamp) {
        if let BlockVerdict::Failed(bad) = &verdict {
            self.bad.extend(bad);
        }
        if verdict != BlockVerdict::NotTested {
            let tested = block.frames.iter().flatten().filter(|frame| !self.bad.contains(frame));
            tested.for_each(|frame| self.ages.set(*frame, Tested::at(now)));
        }
        let (request, outcome) = self.kernel.outcome(&block.region);
        self.settle(outcome, &verdict, now);
        match request {
            ChosenRequest::Frames(frames, way) => self.came_back(ChosenPiece { frames, way }, outcome, now),
            ChosenRequest::Pages(pages) => self.pages_came_back(&pages, outcome, now),
            ChosenRequest::List(list) => lists::end(&mut self.lists, list),
            ChosenRequest::AtHand(list, _) => at_hand::end(&mut self.at_hand, list),
            ChosenRequest::New(node) => self.node(node).expect("each request is of a node").new_memory.end(),
            ChosenRequest::Demanded(_) => {}
        }
    }

    /// Returns what testers have moved, which is in time without this call: a stretch is due before its tests expire.
    fn re_place_expiring(&mut self, _now: Timestamp, _until: Timestamp) -> RePlacementCounts {
        std::mem::take(&mut self.re_placed)
    }

    fn prefer(&mut self, frames: &[FrameRange]) {
        let now = self.read_at;
        self.preferred = (frames.to_vec(), now);
        for stretch in &mut self.stretches {
            let own = stretch.frames();
            if frames.iter().any(|range| range.start() <= own.last() && own.start() <= range.last()) {
                stretch.hurry(now);
            }
        }
        self.queue_all();
    }

    /// The module counts by a clock that does not go back: what it says is looked at again.
    fn forget(&mut self) {
        self.ages.forget();
        self.hurry_all(Timestamp::from_micros(0));
    }
}

impl<K: FrameKernel<Region = StepMemory>> DaemonSource for KernelFrames<K> {
    fn ages(&self) -> &Ages {
        &self.ages
    }

    fn claimed(&self) -> Bytes {
        self.kernel.claimed()
    }

    /// The kernel counts the frames of a device's mapping for nobody.
    fn in_use(&self) -> Bytes {
        Bytes::ZERO
    }

    fn rate(&self) -> f64 {
        self.nodes.iter().map(|node| node.rate).sum()
    }

    fn is_overdue(&self, now: Timestamp) -> bool {
        self.is_late(now)
    }

    /// None: the module gives back what programs need without being asked.
    fn missing(&self) -> Bytes {
        Bytes::ZERO
    }

    fn is_sweeping(&self) -> bool {
        self.nodes.iter().any(|node| node.queue.has_work()) || self.stretches.iter().any(Stretch::is_out)
    }

    fn guarantee(&self) -> Option<GuaranteeState> {
        Some(self.guarantee_now())
    }

    fn take_news(&mut self) -> Vec<PoolNews> {
        std::mem::take(&mut self.news)
    }

    fn rebound(&mut self, bound: TestLifetime, now: Timestamp) {
        self.kernel.set_lifetime(bound);
        self.bound = bound;
        self.hurry_all(now);
    }

    fn hurry(&mut self, now: Timestamp) {
        self.find_memory(now);
        self.hurry_all(now);
    }

    /// The module relieves programs without being asked; it only has to know that the daemon goes on.
    fn relieve(&mut self) {
        self.kernel.renew();
    }

    fn let_go(&mut self) {}
}
