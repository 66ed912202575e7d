//! The kernel whose frames are tested: this machine's, with its module, or a fake.

use std::sync::Arc;
use std::time::Duration;

use rampart_linux::kernel_module::{
    AgeTable, ClaimCounts, KernelFreeList, KernelMigratetype, LastTest, ModuleDevice, NewMemoryCounts, TestedCount,
    age_clock,
};
use rampart_linux::{FlagTable, HotplugState};
use rampart_memory::{Bytes, FRAME_BYTES, Frame, FrameDemand, FrameRange, Node, TestLifetime, Tested, Timestamp};

use super::block::FrameView;
use crate::error::Error;
use crate::machine::MachineUnderTest;
use crate::sources::step::{ChosenMemory, ChosenRequest, ChosenState, StepMemory};

/// The module's clock counts whole seconds.
const WHOLE_SECOND: Duration = Duration::from_secs(1);

/// What became of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceOutcome {
    /// A tester had it; so many of its frames were in use, and were emptied first.
    Claimed {
        /// Frames.
        moved: u64,
    },
    /// The kernel did not give it.
    Refused,
    /// The kernel gives nothing now: memory is short.
    MemoryShort,
    /// No tester came to it.
    NotTried,
}

/// Frames of a migratetype on a node that were allocated and freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeDemand {
    /// The node.
    pub node: Node,
    /// The migratetype; `None` for those of which no list is claimed.
    pub migratetype: Option<KernelMigratetype>,
    /// Frames.
    pub demand: FrameDemand,
}

impl TypeDemand {
    /// Frames of a list's node and migratetype that have come back without a valid test.
    pub fn returned_expired(demand: &[Self], list: KernelFreeList) -> u64 {
        let own = |row: &&Self| row.node == list.node && row.migratetype == Some(list.migratetype);
        demand.iter().filter(own).map(|row| row.demand.returned_expired).sum()
    }
}

/// The interface between the source and a kernel.
pub trait FrameKernel {
    /// The memory of a step.
    type Region;

    /// The memory that is online, with its nodes, ascending.
    fn online(&self) -> Vec<(Node, FrameRange)>;

    /// Each frame of a range as it is now; nothing where it cannot be read.
    fn look(&self, frames: FrameRange) -> Vec<FrameView>;

    /// The frames that were allocated and freed since the module was loaded [Rahman16, A.1.3].
    fn demand(&self) -> Vec<TypeDemand>;

    /// Has the module count by this lifetime.
    fn set_lifetime(&self, bound: TestLifetime);

    /// The free lists of a node, in the order in which they are best tested.
    fn free_lists(&self, node: Node) -> Vec<KernelFreeList>;

    /// The frames that came online and wait for a test before their first use, by node.
    fn waiting(&self) -> Vec<(Node, u64)>;

    /// What a tester is to claim.
    fn region(&self, request: ChosenRequest) -> Self::Region;

    /// What it was to claim, and what became of it.
    fn outcome(&self, region: &Self::Region) -> (ChosenRequest, PieceOutcome);

    /// The frames of a region.
    fn count(&self, region: &Self::Region) -> u64;

    /// Shows that this process goes on: a claim whose owner does not is ended.
    fn renew(&self);

    /// Memory that is claimed now.
    fn claimed(&self) -> Bytes;
}

/// The kernel of this machine, with its module.
pub struct KernelWithModule<'a> {
    machine: &'a MachineUnderTest,
    device: Arc<ModuleDevice>,
    flags: FlagTable,
    ages: AgeTable,
    /// When the module's clock was at 0: not later, so that no test counts as younger than it is.
    zero: Timestamp,
    warn: &'a (dyn Fn(&str) + Sync),
}

impl<'a> KernelWithModule<'a> {
    /// Looks at the kernel whose module's device this is; `warn` is called for what it refuses.
    ///
    /// # Errors
    /// If what frames are used for, or their ages, cannot be read.
    pub fn open(
        machine: &'a MachineUnderTest,
        device: Arc<ModuleDevice>,
        now: Timestamp,
        warn: &'a (dyn Fn(&str) + Sync),
    ) -> Result<Self, Error> {
        let flags = FlagTable::open(machine.roots())?;
        let ages = AgeTable::open(machine.roots()).map_err(Error::NoModule)?;
        machine.memory_blocks().ok_or(Error::NoMemoryBlocks)?;
        let on = u64::try_from((age_clock() + WHOLE_SECOND).as_micros()).unwrap_or(u64::MAX);
        let zero = Timestamp::from_micros(now.micros().saturating_sub(on));
        Ok(Self { machine, device, flags, ages, zero, warn })
    }
}

impl FrameKernel for KernelWithModule<'_> {
    type Region = StepMemory;

    fn online(&self) -> Vec<(Node, FrameRange)> {
        let Some(blocks) = self.machine.memory_blocks() else { return Vec::new() };
        let size = blocks.frames().get();
        let online = blocks.blocks.iter().filter(|block| block.state == HotplugState::Online);
        let frames = online.filter_map(|block| {
            let first = Frame::new(u64::from(block.number.0) * size)?;
            Some((block.node.unwrap_or(Node(0)), FrameRange::new(first, size)?))
        });
        frames.collect()
    }

    fn look(&self, frames: FrameRange) -> Vec<FrameView> {
        let (Ok(classes), Ok(ages)) = (self.flags.classes(frames), self.ages.read(frames)) else { return Vec::new() };
        let tested = |test| match test {
            LastTest::Never | LastTest::Bad => Tested::NEVER,
            LastTest::Good(since) => Tested::at(self.zero.after(since)),
        };
        let views = classes.into_iter().zip(ages);
        views.map(|(class, age)| FrameView { class: age.class(class), tested: tested(age.last_test()) }).collect()
    }

    fn demand(&self) -> Vec<TypeDemand> {
        let rows = TestedCount::read_all(self.machine.roots()).unwrap_or_default();
        let of_row = |row: TestedCount| {
            let frames = |blocks: u64| blocks << row.order;
            TypeDemand {
                node: Node(row.node),
                migratetype: KernelMigratetype::named(&row.migratetype),
                demand: FrameDemand {
                    allocated_tested: frames(row.allocated_tested),
                    allocated_untested: frames(row.allocated_untested),
                    returned_fresh: frames(row.returned_fresh),
                    returned_expired: frames(row.returned_expired),
                },
            }
        };
        rows.into_iter().map(of_row).collect()
    }

    fn set_lifetime(&self, bound: TestLifetime) {
        if let Err(error) = self.device.set_lifetime(bound) {
            (self.warn)(&format!("the module does not count by this lifetime: {error}"));
        }
    }

    fn free_lists(&self, node: Node) -> Vec<KernelFreeList> {
        KernelFreeList::of_node(node).collect()
    }

    fn waiting(&self) -> Vec<(Node, u64)> {
        let counts = NewMemoryCounts::read(self.machine.roots()).unwrap_or_default();
        counts.waiting.into_iter().map(|(node, frames)| (Node(node), frames)).collect()
    }

    fn region(&self, request: ChosenRequest) -> StepMemory {
        StepMemory::Chosen(ChosenMemory::new(Arc::clone(&self.device), request))
    }

    fn outcome(&self, region: &StepMemory) -> (ChosenRequest, PieceOutcome) {
        let chosen = chosen(region);
        let outcome = match chosen.state() {
            ChosenState::Waits => PieceOutcome::NotTried,
            ChosenState::Claimed => PieceOutcome::Claimed { moved: chosen.moved() },
            ChosenState::Refused => PieceOutcome::Refused,
            ChosenState::MemoryShort => PieceOutcome::MemoryShort,
        };
        (chosen.request().clone(), outcome)
    }

    fn count(&self, region: &StepMemory) -> u64 {
        chosen(region).count()
    }

    fn renew(&self) {
        self.device.renew();
    }

    fn claimed(&self) -> Bytes {
        let held = ClaimCounts::read(self.machine.roots()).map_or(0, |claims| claims.held);
        Bytes::new(held * FRAME_BYTES)
    }
}

fn chosen(region: &StepMemory) -> &ChosenMemory {
    match region {
        StepMemory::Chosen(chosen) => chosen,
        StepMemory::Program(_) => panic!("a step of this source has chosen frames"),
    }
}
