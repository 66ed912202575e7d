//! Decisions that were followed, for their simulation (`mpi/redmpi/succession.h`).

use std::ffi::c_int;

use super::zeros;

/// What a decision is about.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionKind {
    /// So many tests found nothing.
    Nothing,
    /// What a receive takes.
    Resolved,
    /// What a test or a probe found.
    Found,
}

/// A decision as it is sent.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// The kind.
    pub kind: DecisionKind,
    /// The first is the number of tests, or what was found or is taken.
    pub numbers: [i32; 6],
    /// The number of the receive, if it is about one.
    pub receive: u64,
    seconds: f64,
}

impl Decision {
    /// One of this kind.
    #[must_use]
    pub fn new(kind: DecisionKind, number: i32, receive: u64) -> Self {
        Self { kind, numbers: [number, 0, 0, 0, 0, 0], receive, seconds: 0.0 }
    }
}

/// One in a log, and how many were followed with it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Followed {
    decision: Decision,
    count: u64,
}

/// As in C.
const MOST_FOLLOWED: usize = 4096;

#[repr(C)]
struct RawInheritance {
    log: *mut Followed,
    used: c_int,
    count: u64,
    first: u64,
}

unsafe extern "C" {
    fn succession_size() -> usize;
    fn succession_follow(succession: *mut u64, decision: *const Decision);
    fn succession_copy(succession: *const u64, log: *mut Followed) -> RawInheritance;
    #[link_name = "one_ahead"]
    fn first_ahead(others: *const RawInheritance, mask: u32, count: u64) -> c_int;
    fn trim_to_missing(one: *mut Followed, known: u64) -> bool;
    fn next_followed(from: *const RawInheritance, count: u64, decision: *mut Decision) -> bool;
    fn followed_receive(from: *const RawInheritance, number: u64, decision: *mut Decision) -> bool;
}

/// The decisions that a replica has followed.
pub struct Succession {
    room: Box<[u64]>,
}

impl Default for Succession {
    fn default() -> Self {
        // SAFETY: it has no conditions. Zeros are an empty log.
        Self { room: zeros(unsafe { succession_size() }) }
    }
}

impl Succession {
    /// One was followed; of tests in vain, one.
    pub fn follow(&mut self, decision: &Decision) {
        // SAFETY: the structure was made in `default`.
        unsafe { succession_follow(self.room.as_mut_ptr(), decision) };
    }

    /// All of them.
    #[must_use]
    pub fn copy(&self) -> Inheritance {
        let empty = Followed { decision: Decision::new(DecisionKind::Nothing, 0, 0), count: 0 };
        let mut log = vec![empty; MOST_FOLLOWED];
        // SAFETY: there is room for as many as are kept.
        let raw = unsafe { succession_copy(self.room.as_ptr(), log.as_mut_ptr()) };
        log.truncate(usize::try_from(raw.used).expect("a count"));
        Inheritance { log, count: raw.count, first: raw.first }
    }
}

/// What a replica has followed, as it is handed over.
#[derive(Clone, Debug, Default)]
pub struct Inheritance {
    log: Vec<Followed>,
    /// How many it has followed.
    pub count: u64,
    first: u64,
}

impl Inheritance {
    fn raw(&self) -> RawInheritance {
        let used = c_int::try_from(self.log.len()).expect("it is kept");
        RawInheritance { log: self.log.as_ptr().cast_mut(), used, count: self.count, first: self.first }
    }

    /// The next one after so many.
    #[must_use]
    pub fn next(&self, count: u64) -> Option<Decision> {
        let mut decision = Decision::new(DecisionKind::Nothing, 0, 0);
        // SAFETY: the log is only read.
        unsafe { next_followed(&self.raw(), count, &raw mut decision) }.then_some(decision)
    }

    /// What a receive takes.
    #[must_use]
    pub fn receive(&self, number: u64) -> Option<Decision> {
        let mut decision = Decision::new(DecisionKind::Nothing, 0, 0);
        // SAFETY: as above.
        unsafe { followed_receive(&self.raw(), number, &raw mut decision) }.then_some(decision)
    }

    /// What one lacks that has followed so many.
    #[must_use]
    pub fn missing(mut self, known: u64) -> Vec<Decision> {
        // SAFETY: it is an entry of this log.
        self.log.retain_mut(|one| unsafe { trim_to_missing(one, known) });
        self.log.iter().map(|one| one.decision).collect()
    }
}

/// One of those in the mask that has followed more than so many.
#[must_use]
pub fn one_ahead(others: &[Inheritance], mask: u32, count: u64) -> Option<usize> {
    let others: Vec<_> = others.iter().map(Inheritance::raw).collect();
    assert!(32 - mask.leading_zeros() as usize <= others.len());
    // SAFETY: each in the mask is there.
    usize::try_from(unsafe { first_ahead(others.as_ptr(), mask, count) }).ok()
}
