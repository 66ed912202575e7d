//! The use of every frame of the machine: `/proc/kpageflags`.
//!
//! **Problem.** A test of free memory leaves frames out, and its report must count them by reason. **Idea.** The kernel
//! shows 64 flags for each frame; [`FrameFlags::class`] turns them into a class, and a [`Census`] counts the classes.
//! Some kernels flag only the first frame of a compound page, so the frames after it have its class. **Why this way.**
//! The file is read in chunks, so a census of any machine needs 512 KiB.
//!
//! Source: Linux, Documentation/admin-guide/mm/pagemap.rst and include/uapi/linux/kernel-page-flags.h.

use std::fs::File;
use std::num::NonZero;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use rampart_memory::{Frame, FrameRange};
use serde::Serialize;

use crate::{Error, HotplugState, MemoryBlocks, Roots};

const ENTRY_BYTES: usize = size_of::<u64>();

/// Entries read by one call.
const CHUNK: usize = 64 << 10;

/// Frames that an estimate of a block reads: one per 2 MiB of a block of 128 MiB, as Linux keeps movable and unmovable
/// memory apart by 2 MiB (`pageblock_order` of x86).
const SAMPLES: u64 = 64;

/// The kernel's flags of one frame, as `/proc/kpageflags` numbers them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FrameFlags(u64);

impl FrameFlags {
    const LRU: Self = Self(1 << 5);
    const SLAB: Self = Self(1 << 7);
    const BUDDY: Self = Self(1 << 10);
    const MAPPED: Self = Self(1 << 11);
    const ANONYMOUS: Self = Self(1 << 12);
    const COMPOUND_TAIL: Self = Self(1 << 16);
    const HUGE: Self = Self(1 << 17);
    const POISONED: Self = Self(1 << 19);
    const NO_PAGE: Self = Self(1 << 20);
    const OFFLINE: Self = Self(1 << 23);
    const ZERO_PAGE: Self = Self(1 << 24);
    const PAGE_TABLE: Self = Self(1 << 26);
    const RESERVED: Self = Self(1 << 32);

    /// An entry of `/proc/kpageflags`.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    const fn has(self, flag: Self) -> bool {
        self.0 & flag.0 != 0
    }

    /// Whether the kernel retired the frame (`KPF_HWPOISON`).
    #[must_use]
    pub const fn is_poisoned(self) -> bool {
        self.has(Self::POISONED)
    }

    /// Whether it is a frame of zeros that the kernel shows to all processes (`KPF_ZERO_PAGE`), of 4 KiB or a part of
    /// the huge one.
    #[must_use]
    pub const fn is_zero_page(self) -> bool {
        self.has(Self::ZERO_PAGE)
    }

    /// The use of the frame. Of several flags, the one that most hinders a test decides.
    #[must_use]
    pub const fn class(self) -> FrameClass {
        let by_weight = [
            (Self::NO_PAGE, FrameClass::Absent),
            (Self::POISONED, FrameClass::Poisoned),
            (Self::OFFLINE, FrameClass::Offline),
            (Self::ZERO_PAGE, FrameClass::Kernel),
            (Self::RESERVED, FrameClass::Reserved),
            (Self::BUDDY, FrameClass::Free),
            (Self::SLAB, FrameClass::Slab),
            (Self::PAGE_TABLE, FrameClass::PageTable),
            (Self::HUGE, FrameClass::HugeTlb),
            (Self::ANONYMOUS, FrameClass::Anonymous),
            (Self::LRU, FrameClass::File),
            (Self::MAPPED, FrameClass::File),
        ];
        let mut i = 0;
        while i < by_weight.len() {
            if self.has(by_weight[i].0) {
                return by_weight[i].1;
            }
            i += 1;
        }
        FrameClass::Kernel
    }
}

/// The use of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, displaydoc::Display)]
#[serde(rename_all = "snake_case")]
pub enum FrameClass {
    /// free
    Free,
    /// memory of programs
    Anonymous,
    /// files, cached or mapped
    File,
    /// the pool of huge pages
    HugeTlb,
    /// objects of the kernel
    Slab,
    /// page tables
    PageTable,
    /// other memory of the kernel, and free frames at hand for one CPU unless something else tells these
    Kernel,
    /// reserved at boot, by firmware or the kernel's image
    Reserved,
    /// retired for errors
    Poisoned,
    /// offline: given to a balloon, or about to be removed
    Offline,
    /// no memory at this address
    Absent,
    /// free, and at hand for one CPU
    AtHand,
}

impl FrameClass {
    /// The classes that the kernel's flags tell apart, in the order in which reports name them. The rest,
    /// [`Self::AtHand`], is [`Self::Kernel`] for them.
    pub const ALL: [Self; 11] = [
        Self::Free,
        Self::Anonymous,
        Self::File,
        Self::HugeTlb,
        Self::Slab,
        Self::PageTable,
        Self::Kernel,
        Self::Reserved,
        Self::Poisoned,
        Self::Offline,
        Self::Absent,
    ];
}

/// The number of frames of each class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    counts: [u64; FrameClass::ALL.len()],
}

impl Census {
    /// Frames of one class.
    #[must_use]
    pub fn count(&self, class: FrameClass) -> u64 {
        self.counts[class as usize]
    }

    /// Frames of memory: of all classes but [`FrameClass::Absent`].
    #[must_use]
    pub fn present(&self) -> u64 {
        self.counts.iter().sum::<u64>() - self.count(FrameClass::Absent)
    }

    /// Every class with its count.
    pub fn iter(&self) -> impl Iterator<Item = (FrameClass, u64)> + '_ {
        FrameClass::ALL.into_iter().map(|class| (class, self.count(class)))
    }

    fn add(&mut self, class: FrameClass) {
        self.counts[class as usize] += 1;
    }
}

impl FromIterator<(FrameClass, u64)> for Census {
    /// Sums up counts of frames.
    fn from_iter<T: IntoIterator<Item = (FrameClass, u64)>>(counts: T) -> Self {
        let mut census = Self::default();
        counts.into_iter().for_each(|(class, frames)| census.counts[class as usize] += frames);
        census
    }
}

/// A compound page, which the kernel allocates and frees as a whole, or a frame that is in none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageUnit {
    /// The first frame.
    pub first: Frame,
    /// The number of frames; a power of two, unless the page changed while it was read.
    pub frames: u64,
    /// Its use.
    pub class: FrameClass,
}

/// Gives each frame its class, in ascending order of the frames.
#[derive(Clone, Copy, Debug, Default)]
struct Classifier {
    /// The class of the compound page that may go on.
    head: Option<FrameClass>,
}

impl Classifier {
    fn class(&mut self, flags: FrameFlags) -> FrameClass {
        let own = flags.class();
        match self.head {
            Some(head) if flags.has(FrameFlags::COMPOUND_TAIL) && own == FrameClass::Kernel => head,
            _ => {
                self.head = Some(own);
                own
            }
        }
    }
}

/// The open table of all frames' flags. Needs root.
#[derive(Debug)]
pub struct FlagTable {
    file: File,
    path: PathBuf,
}

impl FlagTable {
    /// Opens it.
    ///
    /// # Errors
    /// [`Error::Read`] where it does not exist or this user may not.
    pub fn open(roots: &Roots) -> Result<Self, Error> {
        let path = roots.proc("kpageflags");
        match File::open(&path) {
            Ok(file) => Ok(Self { file, path }),
            Err(cause) => Err(Error::Read { path, cause }),
        }
    }

    /// The flags of one frame; `None` beyond the machine's last.
    ///
    /// # Errors
    /// [`Error::Read`] if the kernel does not answer.
    pub fn of(&self, frame: Frame) -> Result<Option<FrameFlags>, Error> {
        let mut entry = [0; ENTRY_BYTES];
        let read = self.read(&mut entry, frame.number())?;
        Ok((read == ENTRY_BYTES).then(|| FrameFlags(u64::from_ne_bytes(entry))))
    }

    /// The class of each frame of a range, as far as there are frames.
    ///
    /// # Errors
    /// [`Error::Read`] if the kernel does not answer.
    pub fn classes(&self, frames: FrameRange) -> Result<Vec<FrameClass>, Error> {
        let count = usize::try_from(frames.count()).expect("a range to look at fits memory");
        let mut buffer = vec![0; count * ENTRY_BYTES];
        let read = self.read(&mut buffer, frames.start().number())?;
        let mut classifier = Classifier::default();
        Ok(entries(&buffer[..read]).map(|bits| classifier.class(FrameFlags(bits))).collect())
    }

    /// Counts all frames of the machine, while they change.
    ///
    /// # Errors
    /// [`Error::Read`] if the kernel does not answer.
    pub fn census(&self) -> Result<Census, Error> {
        let (mut census, mut classifier) = (Census::default(), Classifier::default());
        self.scan(|_, flags| census.add(classifier.class(flags)))?;
        Ok(census)
    }

    /// Counts the frames of each block of `frames` frames, from frame 0 on, while they change: the census of block `i`
    /// is number `i`.
    ///
    /// # Errors
    /// [`Error::Read`] if the kernel does not answer.
    pub fn censuses(&self, frames: NonZero<u64>) -> Result<Vec<Census>, Error> {
        let (mut all, mut classifier) = (Vec::new(), Classifier::default());
        self.scan(|frame, flags| {
            let block = usize::try_from(frame.number() / frames).expect("a block of a machine's memory");
            if all.len() <= block {
                all.resize(block + 1, Census::default());
            }
            all[block].add(classifier.class(flags));
        })?;
        Ok(all)
    }

    /// Estimates the census of each block that is online from a few of its frames, in the time of some system calls.
    /// The counts of a block add up to its frames; a use that is rare in it may be missed. The census of block `i` is
    /// number `i`, as those of [`Self::censuses`].
    ///
    /// # Errors
    /// [`Error::Read`] if the kernel does not answer.
    pub fn estimates(&self, blocks: &MemoryBlocks) -> Result<Vec<Census>, Error> {
        let mut all = Vec::new();
        for block in blocks.blocks.iter().filter(|block| block.state == HotplugState::Online) {
            all.resize(block.number.0 as usize, Census::default());
            all.push(self.estimate(u64::from(block.number.0), blocks.frames())?);
        }
        Ok(all)
    }

    fn estimate(&self, block: u64, frames: NonZero<u64>) -> Result<Census, Error> {
        let parts = SAMPLES.min(frames.get());
        let start = |part: u64| frames.get() * part / parts;
        let mut counts = Vec::new();
        for part in 0..parts {
            let length = start(part + 1) - start(part);
            // Huge pages begin where 2 MiB do, so their first frames would be seen too often.
            let frame = Frame::new(block * frames.get() + start(part) + part * part % length);
            let flags = frame.map(|frame| self.of(frame)).transpose()?.flatten();
            counts.push((flags.map_or(FrameClass::Absent, FrameFlags::class), length));
        }
        Ok(counts.into_iter().collect())
    }

    /// Passes each compound page, and each frame that is in none, to `see`, ascending, while they change.
    ///
    /// # Errors
    /// [`Error::Read`] if the kernel does not answer.
    pub fn units(&self, mut see: impl FnMut(PageUnit)) -> Result<(), Error> {
        let (mut classifier, mut last) = (Classifier::default(), None);
        self.scan(|frame, flags| {
            let class = classifier.class(flags);
            match &mut last {
                Some(PageUnit { class: head, frames, .. })
                    if *head == class && flags.has(FrameFlags::COMPOUND_TAIL) =>
                {
                    *frames += 1;
                }
                last => last.replace(PageUnit { first: frame, frames: 1, class }).into_iter().for_each(&mut see),
            }
        })?;
        last.into_iter().for_each(see);
        Ok(())
    }

    /// Passes the flags of every frame to `see`, ascending.
    ///
    /// # Errors
    /// [`Error::Read`] if the kernel does not answer.
    pub fn scan(&self, mut see: impl FnMut(Frame, FrameFlags)) -> Result<(), Error> {
        let mut buffer = vec![0; CHUNK * ENTRY_BYTES];
        let mut next = 0;
        loop {
            let read = self.read(&mut buffer, next)?;
            let flags = entries(&buffer[..read]).map(FrameFlags);
            let frames = (next..).map_while(Frame::new);
            frames.zip(flags).for_each(|(frame, flags)| see(frame, flags));
            if read < ENTRY_BYTES {
                return Ok(());
            }
            next += (read / ENTRY_BYTES) as u64;
        }
    }

    /// Reads entries from frame `number` on; returns the number of bytes, 0 at the end.
    fn read(&self, buffer: &mut [u8], number: u64) -> Result<usize, Error> {
        let offset = number * ENTRY_BYTES as u64;
        self.file.read_at(buffer, offset).map_err(|cause| Error::Read { path: self.path.clone(), cause })
    }
}

/// The 64-bit entries that the kernel wrote to a buffer, in this machine's byte order.
pub(crate) fn entries(buffer: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let (entries, _) = buffer.as_chunks::<ENTRY_BYTES>();
    entries.iter().copied().map(u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BlockZones, MemoryBlock};
    use rampart_memory::{Bytes, HotplugBlock};
    use std::fs;

    fn bits(bits: &[u32]) -> FrameFlags {
        FrameFlags(bits.iter().fold(0, |all, bit| all | 1 << bit))
    }

    fn table(flags: &[FrameFlags]) -> (tempfile::TempDir, FlagTable) {
        let folder = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = flags.iter().flat_map(|flags| flags.0.to_ne_bytes()).collect();
        fs::write(folder.path().join("kpageflags"), bytes).unwrap();
        let table = FlagTable::open(&Roots::new(folder.path(), folder.path())).unwrap();
        (folder, table)
    }

    #[test]
    fn the_flag_that_most_hinders_a_test_decides() {
        for (flags, class) in [
            (bits(&[]), FrameClass::Kernel),
            (bits(&[10]), FrameClass::Free),
            (bits(&[10, 19]), FrameClass::Poisoned),
            (bits(&[2, 5, 11, 12]), FrameClass::Anonymous),
            (bits(&[3, 5]), FrameClass::File),
            (bits(&[12, 22, 15]), FrameClass::Anonymous),
            (bits(&[12, 17]), FrameClass::HugeTlb),
            (bits(&[7]), FrameClass::Slab),
            (bits(&[26]), FrameClass::PageTable),
            (bits(&[32]), FrameClass::Reserved),
            (bits(&[23]), FrameClass::Offline),
            (bits(&[20]), FrameClass::Absent),
            (bits(&[11, 24]), FrameClass::Kernel),
        ] {
            assert_eq!(flags.class(), class, "{flags:?}");
        }
    }

    #[test]
    fn every_class_has_its_own_count() {
        for (place, class) in FrameClass::ALL.into_iter().enumerate() {
            assert_eq!(class as usize, place);
        }
    }

    #[test]
    fn a_census_counts_every_frame_once_across_chunks() {
        let flags: Vec<_> = (0..CHUNK + 100).map(|i| if i % 3 == 0 { bits(&[10]) } else { bits(&[20]) }).collect();
        let (_folder, table) = table(&flags);
        let census = table.census().unwrap();
        let free = flags.len().div_ceil(3) as u64;
        assert_eq!(census.count(FrameClass::Free), free);
        assert_eq!(census.count(FrameClass::Absent), flags.len() as u64 - free);
        assert_eq!(census.present(), free);
        assert_eq!(census.iter().map(|(_, count)| count).sum::<u64>(), flags.len() as u64);
    }

    #[test]
    fn the_frames_of_a_compound_page_have_the_class_of_its_first_one() {
        // A slab and a cached file whose kernel flags the first frame only, a huge page whose kernel flags all, and a
        // compound page of the kernel's.
        let flags = [
            bits(&[7, 15]),
            bits(&[16]),
            bits(&[3, 5, 15]),
            bits(&[16]),
            bits(&[16]),
            bits(&[12, 15, 22]),
            bits(&[12, 16, 22]),
            bits(&[]),
            bits(&[15]),
            bits(&[16]),
        ];
        let (_folder, table) = table(&flags);
        let census = table.census().unwrap();
        let counts = [FrameClass::Slab, FrameClass::File, FrameClass::Anonymous, FrameClass::Kernel];
        assert_eq!(counts.map(|class| census.count(class)), [2, 3, 2, 3]);
    }

    #[test]
    fn a_compound_page_is_one_unit_and_a_frame_that_has_another_use_ends_it() {
        const HEAD: u32 = 15;
        const TAIL: u32 = 16;
        let flags = [
            bits(&[TAIL]),
            bits(&[7, HEAD]),
            bits(&[TAIL]),
            bits(&[]),
            bits(&[12, 22, HEAD]),
            bits(&[12, 22, TAIL]),
            bits(&[19, TAIL]),
            bits(&[12, 22, TAIL]),
            bits(&[10]),
            bits(&[10]),
        ];
        let (_folder, table) = table(&flags);
        let mut units = Vec::new();
        table.units(|unit| units.push((unit.first.number(), unit.frames, unit.class))).unwrap();
        use FrameClass::{Anonymous, Free, Kernel, Poisoned, Slab};
        let expected = [
            (0, 1, Kernel),
            (1, 2, Slab),
            (3, 1, Kernel),
            (4, 2, Anonymous),
            (6, 1, Poisoned),
            (7, 1, Anonymous),
            (8, 1, Free),
            (9, 1, Free),
        ];
        assert_eq!(units, expected);
    }

    #[test]
    fn each_block_has_its_own_census_and_a_compound_page_may_cross_their_border() {
        let flags = [bits(&[10]), bits(&[10]), bits(&[10]), bits(&[7, 15]), bits(&[16]), bits(&[20]), bits(&[19])];
        let (_folder, table) = table(&flags);
        let blocks = table.censuses(NonZero::new(4).unwrap()).unwrap();
        let counts: Vec<_> = blocks
            .iter()
            .map(|block| [FrameClass::Free, FrameClass::Slab, FrameClass::Poisoned].map(|class| block.count(class)))
            .collect();
        assert_eq!(counts, [[3, 1, 0], [0, 1, 1]]);
        assert_eq!(blocks[1].present(), 2);
    }

    #[test]
    fn an_estimate_is_near_the_census_and_counts_each_frame_once() {
        let free = |i: u64| (i / 100).is_multiple_of(4);
        let flags: Vec<_> = (0..60_000).map(|i| bits(&[if free(i) { 10 } else { 12 }])).collect();
        let (_folder, table) = table(&flags);
        for (frames, block) in [(20_000, 0), (20_000, 1), (20_000, 2), (30_000, 1), (64, 0), (3, 5)] {
            let estimate = table.estimate(block, NonZero::new(frames).unwrap()).unwrap();
            let count = |class| estimate.count(class);
            assert_eq!(count(FrameClass::Free) + count(FrameClass::Anonymous), frames);
            let really = (block * frames..(block + 1) * frames).filter(|i| free(*i)).count() as u64;
            assert!(count(FrameClass::Free).abs_diff(really) <= frames / 8, "{frames} {block} {estimate:?} {really}");
        }
        let beyond = table.estimate(2, NonZero::new(30_000).unwrap()).unwrap();
        assert_eq!(beyond.count(FrameClass::Absent), 30_000);
    }

    #[test]
    fn estimates_stand_at_the_numbers_of_their_blocks_and_only_of_blocks_that_are_online() {
        const FRAMES: usize = 1024;
        let flags: Vec<_> = (0..6 * FRAMES).map(|i| bits(&[if i < 4 * FRAMES { 10 } else { 12 }])).collect();
        let (_folder, table) = table(&flags);
        let block = |(number, state)| MemoryBlock {
            number: HotplugBlock(number),
            state,
            zones: BlockZones::Unknown,
            node: None,
        };
        let states = [(1, HotplugState::Online), (3, HotplugState::Offline), (5, HotplugState::Online)];
        let blocks = states.map(block).into();
        let estimates = table.estimates(&MemoryBlocks { size: Bytes::from_mib(4), blocks }).unwrap();
        let counts = |class| estimates.iter().map(|census| census.count(class)).collect::<Vec<_>>();
        assert_eq!(counts(FrameClass::Free), [0, 1024, 0, 0, 0, 0]);
        assert_eq!(counts(FrameClass::Anonymous), [0, 0, 0, 0, 0, 1024]);
    }

    #[test]
    fn one_frame_is_looked_up_by_its_number_and_none_is_beyond_the_last() {
        let (_folder, table) = table(&[bits(&[]), bits(&[19])]);
        let flags = |number| table.of(Frame::new(number).unwrap()).unwrap();
        assert!(!flags(0).unwrap().is_poisoned());
        assert!(flags(1).unwrap().is_poisoned());
        assert_eq!(flags(2), None);
        assert_eq!(flags(Frame::MAX.number()), None);
    }
}
