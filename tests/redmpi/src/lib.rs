//! The agreement of replicas on a message (`mpi/redmpi/agreement.h`), and the comparison behind the program
//! (`comparison.h`), the vote on paths (`paths.h`), what is known of a path (`history.h`), decisions that are
//! handed over (`succession.h`), and the end of a job (`ending.h`), for their simulations; and the heap of a process
//! that has crashed (`spare_heap.h`).
//!
//! **Problem.** The protocols are C, since they run inside MPI programs, and must hold for every order in which notices
//! arrive. **Idea.** The same C runs here without MPI and without sockets: a simulation passes on notices in any order,
//! from a seed. **Why this way.** What decides is pure, so the code under test is the code that runs.

mod spare;
mod succession;

use std::ffi::c_int;

pub use spare::SparePiece;
pub use succession::{Decision, DecisionKind, Inheritance, Succession, one_ahead};

/// What is compared of a message.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    /// Its length.
    pub bytes: u64,
    /// The lower half of its hash.
    pub low: u64,
    /// The upper half.
    pub high: u64,
}

/// What replicas tell each other.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notice {
    kind: c_int,
    number: u64,
    digest: Digest,
}

/// How far a replica is with its present message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgreementState {
    /// It waits for others.
    Waits,
    /// The program may have the message.
    Accepted,
    /// The program must not have it.
    Stopped,
}

unsafe extern "C" {
    fn agreement_size() -> usize;
    fn agreement_state_of(agreement: *const u64) -> c_int;
    fn agreement_is_replaced(agreement: *const u64) -> c_int;
    fn compared_teams(replicas: c_int) -> c_int;
    fn agreement_begin(agreement: *mut u64, replicas: c_int, own: c_int, remembered: *mut Digest, memory: u64);
    fn agreement_compare(
        agreement: *mut u64,
        mine: *const Digest,
        others: *const Digest,
        of: *const c_int,
        count: c_int,
    );
    fn agreement_hand_over(agreement: *mut u64);
    fn agreement_hear(agreement: *mut u64, from: c_int, notice: *const Notice);
    fn agreement_lose(agreement: *mut u64, replica: c_int);
    fn agreement_say(agreement: *mut u64, to: *mut c_int, notice: *mut Notice) -> bool;
    fn agreement_wrong(agreement: *const u64) -> u32;
    fn comparison_size() -> usize;
    fn comparison_compared(comparison: *const u64) -> u64;
    fn comparison_begin(comparison: *mut u64, replicas: c_int, marks: *mut Mark, places: u64);
    fn comparison_take(comparison: *mut u64, replica: c_int, marks: *const Mark, count: u64) -> bool;
    fn comparison_lose(comparison: *mut u64, replica: c_int);
    fn expect_decision(of: c_int, kind: c_int);
    fn record_decision();
    fn history_waits(decisions: *mut u64, hash_after: *mut u64) -> bool;
    fn ending_size() -> usize;
    fn ending_is_over(ending: *const u64) -> bool;
    fn ending_come(ending: *mut u64);
    fn ending_meet(ending: *mut u64);
    fn ending_hear(ending: *mut u64, from: c_int);
    fn ending_hear_over(ending: *mut u64) -> bool;
    fn ending_leave(ending: *mut u64, path: u64);
    fn ending_hear_leaving(ending: *mut u64, from: c_int, path: u64);
    fn ending_may_leave(ending: *const u64, others: u32) -> bool;
    fn ending_own_path(ending: *const u64) -> u64;
    fn ending_says(ending: *mut u64) -> c_int;
    fn ending_may_meet(ending: *const u64, others: u32, is_voting: bool) -> bool;
    fn paths_size() -> usize;
    fn paths_are_stopped(paths: *const u64) -> bool;
    fn paths_are_open(paths: *const u64) -> bool;
    fn paths_begin(paths: *mut u64, replicas: c_int, own: c_int);
    fn paths_leave_out(paths: *mut u64, out: u32) -> u32;
    fn paths_say(paths: *mut u64, to: *mut c_int, notice: *mut Notice) -> bool;
    fn paths_step(
        paths: *mut u64,
        from: c_int,
        notice: *const Notice,
        hashes: *const u64,
        decided: *const u64,
        steps: u64,
        decisions: u64,
        waits_for: c_int,
        hash_after: u64,
    ) -> u32;
    fn comparison_go_on(comparison: *mut u64, wrong: *mut u32) -> c_int;
}

/// The number of [`Notice`]s that come with the message itself.
const MESSAGE: c_int = 5;

/// One replica's side of the agreement.
pub struct Agreement {
    room: Box<[u64]>,
    /// The room has its address.
    _remembered: Box<[Digest]>,
}

impl Notice {
    /// Whether the message itself comes with it.
    #[must_use]
    pub const fn has_message(&self) -> bool {
        self.kind == MESSAGE
    }

    /// The notice with the digest of the message that came with it.
    #[must_use]
    pub const fn with(self, digest: Digest) -> Self {
        Self { digest, ..self }
    }
}

/// Room for a structure of so many bytes, of which no member is larger than a word.
fn zeros(bytes: usize) -> Box<[u64]> {
    vec![0; bytes.div_ceil(size_of::<u64>())].into_boxed_slice()
}

/// From how many teams before its own a replica gets digests.
#[must_use]
pub fn teams_compared(replicas: u8) -> u8 {
    // SAFETY: a function of a number.
    u8::try_from(unsafe { compared_teams(c_int::from(replicas)) }).expect("no more than replicas")
}

impl Agreement {
    /// A replica that has not received anything, and remembers so many digests.
    #[must_use]
    pub fn new(replicas: u8, own: u8, memory: u8) -> Self {
        let mut remembered = vec![Digest::default(); memory.into()].into_boxed_slice();
        // SAFETY: it has no conditions.
        let mut room = zeros(unsafe { agreement_size() });
        let (replicas, own) = (c_int::from(replicas), c_int::from(own));
        // SAFETY: there is room for the structure, aligned as its largest member, and for so many digests, and nobody
        // else has either. The digests live as long as the structure.
        unsafe { agreement_begin(room.as_mut_ptr(), replicas, own, remembered.as_mut_ptr(), memory.into()) };
        Self { room, _remembered: remembered }
    }

    /// How far it is.
    #[must_use]
    pub fn state(&self) -> AgreementState {
        // SAFETY: it was begun in `new`.
        match unsafe { agreement_state_of(self.room.as_ptr()) } {
            0 => AgreementState::Waits,
            1 => AgreementState::Accepted,
            _ => AgreementState::Stopped,
        }
    }

    /// Whether the present message was replaced by that of another replica.
    #[must_use]
    pub fn is_replaced(&self) -> bool {
        // SAFETY: it was begun in `new`.
        unsafe { agreement_is_replaced(self.room.as_ptr()) != 0 }
    }

    /// The next message has come, with digests of other teams.
    pub fn compare(&mut self, mine: Digest, others: &[(u8, Digest)]) {
        let count = c_int::try_from(others.len()).expect("no more than replicas");
        let (of, others): (Vec<c_int>, Vec<Digest>) =
            others.iter().map(|(team, one)| (c_int::from(*team), *one)).unzip();
        // SAFETY: it was begun in `new`, and there are so many digests and teams, each of them a replica.
        unsafe {
            agreement_compare(self.room.as_mut_ptr(), &raw const mine, others.as_ptr(), of.as_ptr(), count);
        }
    }

    /// The program gets the message.
    pub fn hand_over(&mut self) {
        // SAFETY: it was begun in `new`.
        unsafe { agreement_hand_over(self.room.as_mut_ptr()) }
    }

    /// A notice has come.
    pub fn hear(&mut self, from: u8, notice: Notice) {
        // SAFETY: it was begun in `new`.
        unsafe { agreement_hear(self.room.as_mut_ptr(), c_int::from(from), &raw const notice) }
    }

    /// A replica does not count any more.
    pub fn lose(&mut self, replica: u8) {
        // SAFETY: it was begun in `new`.
        unsafe { agreement_lose(self.room.as_mut_ptr(), c_int::from(replica)) }
    }

    /// The next notice to send.
    pub fn say(&mut self) -> Option<(u8, Notice)> {
        let (mut to, mut notice) = (0, Notice::default());
        // SAFETY: it was begun in `new`; both are written if there is one.
        let is_there = unsafe { agreement_say(self.room.as_mut_ptr(), &raw mut to, &raw mut notice) };
        is_there.then(|| (u8::try_from(to).expect("a replica"), notice))
    }

    /// A mask of the replicas that are not of the majority.
    #[must_use]
    pub fn wrong(&self) -> u32 {
        // SAFETY: it was begun in `new`.
        unsafe { agreement_wrong(self.room.as_ptr()) }
    }
}

/// What a replica has done and received.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// A hash of what it has done.
    pub path: u64,
    /// A hash of what it has received.
    pub content: u64,
}

/// What came of a comparison, with a mask of the replicas that are not of the majority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComparisonResult {
    /// It waits for marks.
    Waits,
    /// The contents of the last marks that were compared differ.
    Differs(u32),
    /// So do their paths.
    Parted(u32),
}

/// The comparison of all replicas of a rank.
pub struct Comparison {
    room: Box<[u64]>,
    /// The room has its address.
    _marks: Box<[Mark]>,
}

impl Comparison {
    /// Nothing has come; there are so many places for the marks of each replica.
    #[must_use]
    pub fn new(replicas: u8, places: u64) -> Self {
        let count = usize::from(replicas) * usize::try_from(places).expect("few");
        let mut marks = vec![Mark::default(); count].into_boxed_slice();
        // SAFETY: it has no conditions.
        let mut room = zeros(unsafe { comparison_size() });
        // SAFETY: there is room for the structure, aligned as its largest member, and for so many marks, and nobody
        // else has either. The marks live as long as the structure.
        unsafe { comparison_begin(room.as_mut_ptr(), replicas.into(), marks.as_mut_ptr(), places) };
        Self { room, _marks: marks }
    }

    /// The last number that was compared.
    #[must_use]
    pub fn compared(&self) -> u64 {
        // SAFETY: it was begun in `new`.
        unsafe { comparison_compared(self.room.as_ptr()) }
    }

    /// Marks of a replica have come; false if there is no room for them.
    #[must_use]
    pub fn take(&mut self, replica: u8, marks: &[Mark]) -> bool {
        // SAFETY: it was begun in `new`, and there are so many marks.
        unsafe { comparison_take(self.room.as_mut_ptr(), replica.into(), marks.as_ptr(), marks.len() as u64) }
    }

    /// A replica has died.
    pub fn lose(&mut self, replica: u8) {
        // SAFETY: it was begun in `new`.
        unsafe { comparison_lose(self.room.as_mut_ptr(), replica.into()) }
    }

    /// Compares what has come of all.
    pub fn go_on(&mut self) -> ComparisonResult {
        let mut wrong = 0;
        // SAFETY: it was begun in `new`; the mask is written if replicas differ.
        match unsafe { comparison_go_on(self.room.as_mut_ptr(), &raw mut wrong) } {
            0 => ComparisonResult::Waits,
            1 => ComparisonResult::Differs(wrong),
            _ => ComparisonResult::Parted(wrong),
        }
    }
}

/// What a replica has done.
#[derive(Clone, Debug, Default)]
pub struct Course {
    /// The hash of each number of steps, from 0.
    pub hashes: Vec<u64>,
    /// Decisions before each of them.
    pub decided: Vec<u64>,
    /// All decisions.
    pub decisions: u64,
    /// The replica of which it wants a decision, and the hash of the next step if that is the decision.
    pub waits: Option<(u8, u64)>,
}

/// One replica's side of the vote on paths.
pub struct Paths {
    room: Box<[u64]>,
}

impl Paths {
    /// Nothing was heard.
    #[must_use]
    pub fn new(replicas: u8, own: u8) -> Self {
        // SAFETY: it has no conditions.
        let mut room = zeros(unsafe { paths_size() });
        // SAFETY: there is room for the structure, aligned as its largest member.
        unsafe { paths_begin(room.as_mut_ptr(), replicas.into(), own.into()) };
        Self { room }
    }

    /// A notice has come, or time has passed. Returns a mask of those that are out since.
    pub fn step(&mut self, heard: Option<(u8, Notice)>, course: &Course) -> u32 {
        let (from, notice) = heard.map_or((-1, Notice::default()), |(from, notice)| (from.into(), notice));
        let (waits, after) = course.waits.map_or((-1, 0), |(of, hash)| (c_int::from(of), hash));
        assert_eq!(course.hashes.len(), course.decided.len());
        let (hashes, decided) = (course.hashes.as_ptr(), course.decided.as_ptr());
        let (steps, decisions) = (course.hashes.len() as u64 - 1, course.decisions);
        // SAFETY: it was begun in `new`; the lists have so many numbers, and are not used after the call.
        unsafe {
            paths_step(self.room.as_mut_ptr(), from, &raw const notice, hashes, decided, steps, decisions, waits, after)
        }
    }

    /// These are out.
    pub fn leave_out(&mut self, out: u32) -> u32 {
        // SAFETY: it was begun in `new`.
        unsafe { paths_leave_out(self.room.as_mut_ptr(), out) }
    }

    /// Whether there is no majority.
    #[must_use]
    pub fn are_stopped(&self) -> bool {
        // SAFETY: it was begun in `new`.
        unsafe { paths_are_stopped(self.room.as_ptr()) }
    }

    /// Whether a vote goes on.
    #[must_use]
    pub fn are_open(&self) -> bool {
        // SAFETY: it was begun in `new`.
        unsafe { paths_are_open(self.room.as_ptr()) }
    }

    /// The next notice to send.
    pub fn say(&mut self) -> Option<(u8, Notice)> {
        let (mut to, mut notice) = (0, Notice::default());
        // SAFETY: it was begun in `new`; both are written if there is one.
        let is_there = unsafe { paths_say(self.room.as_mut_ptr(), &raw mut to, &raw mut notice) };
        is_there.then(|| (u8::try_from(to).expect("a replica"), notice))
    }
}

/// What a replica has to say at the end of its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastWord {
    /// It has come to the end: to the other replicas of its rank.
    AtEnd,
    /// It is about to leave before the end, after a path of this hash: to them.
    Leaves(u64),
    /// The job is over: to them, and to its neighbours in the team.
    Over,
}

/// One replica's end of its job.
pub struct Ending {
    room: Box<[u64]>,
}

impl Default for Ending {
    fn default() -> Self {
        // SAFETY: it has no conditions. Zeros are a program that goes on.
        Self { room: zeros(unsafe { ending_size() }) }
    }
}

impl Ending {
    /// It has come to the end.
    pub fn come(&mut self) {
        // SAFETY: the structure was made in `default`.
        unsafe { ending_come(self.room.as_mut_ptr()) };
    }

    /// Its team has met.
    pub fn meet(&mut self) {
        // SAFETY: the structure was made in `default`.
        unsafe { ending_meet(self.room.as_mut_ptr()) };
    }

    /// Another process has said this. Returns whether it is to be passed on.
    pub fn hear(&mut self, from: u8, word: LastWord) -> bool {
        // SAFETY: the structure was made in `default`.
        unsafe {
            match word {
                LastWord::AtEnd => ending_hear(self.room.as_mut_ptr(), from.into()),
                LastWord::Leaves(path) => ending_hear_leaving(self.room.as_mut_ptr(), from.into(), path),
                LastWord::Over => return ending_hear_over(self.room.as_mut_ptr()),
            }
        }
        false
    }

    /// It is about to leave before the end, after such a path.
    pub fn leave(&mut self, path: u64) {
        // SAFETY: the structure was made in `default`.
        unsafe { ending_leave(self.room.as_mut_ptr(), path) };
    }

    /// Whether it may leave, if these others are left.
    #[must_use]
    pub fn may_leave(&self, others: u32) -> bool {
        // SAFETY: the structure was made in `default`.
        unsafe { ending_may_leave(self.room.as_ptr(), others) }
    }

    /// What it has to say.
    pub fn say(&mut self) -> Option<LastWord> {
        // SAFETY: the structure was made in `default`.
        match unsafe { ending_says(self.room.as_mut_ptr()) } {
            0 => None,
            1 => Some(LastWord::AtEnd),
            // SAFETY: the structure was made in `default`.
            2 => Some(LastWord::Leaves(unsafe { ending_own_path(self.room.as_ptr()) })),
            _ => Some(LastWord::Over),
        }
    }

    /// Whether its team may meet, if these others are left, and it waits for votes or not.
    #[must_use]
    pub fn may_meet(&self, others: u32, is_voting: bool) -> bool {
        // SAFETY: the structure was made in `default`.
        unsafe { ending_may_meet(self.room.as_ptr(), others, is_voting) }
    }

    /// Whether it knows that the job is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        // SAFETY: the structure was made in `default`.
        unsafe { ending_is_over(self.room.as_ptr()) }
    }
}

/// The path of this process, of which there is one. One thread writes it, any may look.
pub struct History;

impl History {
    /// It waits for a decision of that kind of the first replica.
    pub fn expect(kind: u8) {
        // SAFETY: it has no conditions but one thread that writes.
        unsafe { expect_decision(0, kind.into()) };
    }

    /// It has a decision.
    pub fn decide() {
        // SAFETY: as above.
        unsafe {
            expect_decision(-1, 0);
            record_decision();
        }
    }

    /// The number of decisions, and the hash after the next, if it waits for one.
    #[must_use]
    pub fn waits() -> Option<(u64, u64)> {
        let (mut decisions, mut hash) = (0, 0);
        // SAFETY: both are written.
        unsafe { history_waits(&raw mut decisions, &raw mut hash) }.then_some((decisions, hash))
    }
}
