//! What the ranks of a job print.
//!
//! **Problem.** All replicas of a rank print the same, unless an error has hit one of them; which one that is, none of
//! them knows. **Idea.** Each replica prints into a file of its own (`mpi/redmpi/process.c`). What most of them have
//! printed alike is passed on, while the job runs. **Why this way.** The output is that of the majority, also where the
//! replica that was hit never sends a wrong message and so is not noticed otherwise [Fiala15, 3.3.2.2.1].
//!
//! Standard error is treated in the same way, but a difference is not taken for an error: messages of the MPI name
//! processes, of which each replica is another one. Where no majority agrees, that of the first replica is passed on.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// What is looked at at once.
const CHUNK: usize = 64 << 10;

/// So many looks a line that is not complete waits for its end, so that those of several ranks do not mix: about a
/// second.
const PATIENCE: u32 = 20;

/// Standard output or standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    Output,
    Errors,
}

impl StreamKind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Output => "stdout",
            Self::Errors => "stderr",
        }
    }
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobEnd {
    /// As the program wanted: all replicas must have printed the same.
    Complete,
    /// In the middle, since the program wanted it, or a process died: the last words count, even of one replica.
    CutOff,
    /// In the middle, since replicas differed: nothing is right that only a few have printed.
    Stopped,
}

/// A replica that printed something else than most of the others, or `None` if there is no majority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputMismatch {
    pub rank: u32,
    pub wrong: Option<u32>,
    /// The first byte that differs.
    pub offset: u64,
}

/// What is printed where no majority agrees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undecided {
    /// Nothing more.
    Nothing,
    /// What the first replica prints.
    First,
}

/// What all ranks print.
pub struct JobOutput {
    streams: Vec<RankStream>,
    mismatches: Vec<OutputMismatch>,
}

impl JobOutput {
    /// The files of a job's folder.
    pub fn of(folder: &Path, ranks: u32, replicas: u32, undecided: Undecided) -> Self {
        let kinds = [(StreamKind::Output, undecided), (StreamKind::Errors, Undecided::First)];
        let path = |kind: StreamKind, native: u32| folder.join(format!("{}.{native}", kind.name()));
        let stream = |rank, (kind, undecided)| RankStream {
            kind,
            rank,
            replicas,
            undecided,
            sources: (0..replicas).map(|replica| Source::of(replica, path(kind, replica * ranks + rank))).collect(),
            needed: replicas as usize / 2 + 1,
            passed_on: 0,
            waiting: 0,
            looks: 0,
            is_closed: false,
        };
        let streams = (0..ranks).flat_map(|rank| kinds.map(|kind| stream(rank, kind))).collect();
        Self { streams, mismatches: Vec::new() }
    }

    /// Passes on what most replicas have printed. Lines that are not complete wait for a while.
    ///
    /// # Errors
    /// If nobody takes the output, or it cannot be read.
    pub fn pass_on(&mut self) -> io::Result<()> {
        self.streams.iter_mut().try_for_each(|stream| stream.pass_on(Lines::Complete, &mut self.mismatches))
    }

    /// Passes on the rest.
    ///
    /// # Errors
    /// If nobody takes the output, or it cannot be read.
    pub fn finish(&mut self, end: JobEnd) -> io::Result<()> {
        for stream in &mut self.streams {
            stream.pass_on(Lines::All, &mut self.mismatches)?;
            stream.finish(end, &mut self.mismatches)?;
        }
        Ok(())
    }

    /// What these replicas print counts no more.
    pub fn leave_out(&mut self, dropped: &BTreeSet<u32>) {
        self.mismatches.retain(|one| one.wrong.is_none_or(|wrong| !dropped.contains(&wrong)));
        self.streams.iter_mut().for_each(|stream| stream.drop(dropped));
    }

    /// Where replicas differed in standard output.
    pub fn mismatches(&self) -> &[OutputMismatch] {
        &self.mismatches
    }

    /// The first rank whose replicas differ without a majority.
    pub fn undecided(&self) -> Option<u32> {
        self.mismatches.iter().find(|one| one.wrong.is_none()).map(|one| one.rank)
    }
}

/// Which lines are passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lines {
    Complete,
    All,
}

/// What one rank prints.
struct RankStream {
    kind: StreamKind,
    rank: u32,
    replicas: u32,
    undecided: Undecided,
    /// Replicas that have not differed so far.
    sources: Vec<Source>,
    /// How many of the replicas must agree.
    needed: usize,
    passed_on: u64,
    /// Bytes of a line that was not complete at the last look, and the looks since they came.
    waiting: usize,
    looks: u32,
    /// There was no majority: nothing more is passed on.
    is_closed: bool,
}

/// What one replica prints.
struct Source {
    replica: u32,
    path: PathBuf,
    /// Up to here it is what was passed on.
    checked: u64,
}

impl Source {
    const fn of(replica: u32, path: PathBuf) -> Self {
        Self { replica, path, checked: 0 }
    }

    /// What it has printed from a place on; nothing if it has not begun. The file is opened each time, since a job has
    /// more of them than a process may keep open.
    fn read(&self, place: u64) -> io::Result<Vec<u8>> {
        let file = match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            opened => opened?,
        };
        let mut chunk = vec![0; CHUNK];
        let length = file.read_at(&mut chunk, place)?;
        chunk.truncate(length);
        Ok(chunk)
    }
}

impl RankStream {
    /// Fewer replicas are a majority then. One that is followed alone goes on.
    fn drop(&mut self, dropped: &BTreeSet<u32>) {
        self.sources.retain(|one| !dropped.contains(&one.replica));
        if self.needed > 1 {
            self.needed = (self.replicas as usize - dropped.len()) / 2 + 1;
        }
    }

    fn pass_on(&mut self, lines: Lines, mismatches: &mut Vec<OutputMismatch>) -> io::Result<()> {
        while !self.is_closed {
            self.check_late_ones(mismatches)?;
            let votes = self
                .sources
                .iter()
                .map(|one| if one.checked == self.passed_on { one.read(self.passed_on) } else { Ok(Vec::new()) });
            let chunks: Vec<Vec<u8>> = votes.collect::<io::Result<_>>()?;
            let agreed = agreed(&chunks, self.needed);
            let complete = self.complete(agreed, lines);
            if complete.is_empty() {
                if agreed.is_empty() && is_split(&chunks, self.needed) {
                    self.decide(mismatches);
                    continue;
                }
                return Ok(());
            }
            self.print(complete)?;
            self.leave_out_others(&chunks, complete, mismatches);
            self.passed_on += complete.len() as u64;
            if lines == Lines::Complete && agreed.len() < CHUNK {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Those that print later than the majority must print the same.
    fn check_late_ones(&mut self, mismatches: &mut Vec<OutputMismatch>) -> io::Result<()> {
        let Some(example) = self.sources.iter().find(|one| one.checked == self.passed_on) else { return Ok(()) };
        let mut differing = Vec::new();
        let mut progress = Vec::new();
        for source in self.sources.iter().filter(|one| one.checked < self.passed_on) {
            let left = usize::try_from(self.passed_on - source.checked).unwrap_or(usize::MAX);
            let (own, right) = (source.read(source.checked)?, example.read(source.checked)?);
            let length = own.len().min(right.len()).min(left);
            let common = common_prefix(&own[..length], &right);
            progress.push((source.replica, common as u64));
            if common < length {
                differing.push((source.replica, source.checked + common as u64));
            }
        }
        for (replica, more) in progress {
            self.sources.iter_mut().filter(|one| one.replica == replica).for_each(|one| one.checked += more);
        }
        for (replica, offset) in differing {
            self.note(Some(replica), offset, mismatches);
            self.sources.retain(|one| one.replica != replica);
        }
        Ok(())
    }

    /// Whole lines, or all where a piece of one has waited, or is large.
    fn complete<'a>(&mut self, agreed: &'a [u8], lines: Lines) -> &'a [u8] {
        let end = agreed.iter().rposition(|&byte| byte == b'\n').map_or(0, |place| place + 1);
        let is_still = end == 0 && agreed.len() == self.waiting;
        self.looks = if is_still { self.looks + 1 } else { 0 };
        if lines == Lines::All || self.looks == PATIENCE || agreed.len() == CHUNK && end == 0 {
            self.waiting = 0;
            self.looks = 0;
            return agreed;
        }
        self.waiting = agreed.len() - end;
        &agreed[..end]
    }

    fn print(&self, text: &[u8]) -> io::Result<()> {
        match self.kind {
            StreamKind::Output => io::stdout().write_all(text).and_then(|()| io::stdout().flush()),
            StreamKind::Errors => io::stderr().write_all(text),
        }
    }

    fn note(&self, wrong: Option<u32>, offset: u64, mismatches: &mut Vec<OutputMismatch>) {
        if self.kind == StreamKind::Output {
            mismatches.push(OutputMismatch { rank: self.rank, wrong, offset });
        }
    }

    /// Those that have printed something else are no longer asked.
    fn leave_out_others(&mut self, chunks: &[Vec<u8>], printed: &[u8], mismatches: &mut Vec<OutputMismatch>) {
        let (mut kept, before) = (Vec::new(), std::mem::take(&mut self.sources));
        for (mut source, chunk) in before.into_iter().zip(chunks) {
            let common = common_prefix(chunk, printed);
            if common < chunk.len().min(printed.len()) {
                self.note(Some(source.replica), self.passed_on + common as u64, mismatches);
                continue;
            }
            source.checked += common as u64;
            kept.push(source);
        }
        self.sources = kept;
    }

    /// There is no majority any longer.
    fn decide(&mut self, mismatches: &mut Vec<OutputMismatch>) {
        self.note(None, self.passed_on, mismatches);
        match self.undecided {
            Undecided::Nothing => self.is_closed = true,
            Undecided::First => self.follow(0),
        }
    }

    fn follow(&mut self, place: usize) {
        self.sources.swap(0, place);
        self.sources.truncate(1);
        self.needed = 1;
    }

    /// Some have printed more than the majority, or less.
    fn finish(&mut self, end: JobEnd, mismatches: &mut Vec<OutputMismatch>) -> io::Result<()> {
        if self.is_closed || self.kind == StreamKind::Output && end == JobEnd::Stopped {
            return Ok(());
        }
        let rest = |one: &Source| if one.checked == self.passed_on { one.read(self.passed_on) } else { Ok(Vec::new()) };
        let rest = self.sources.iter().map(rest).collect::<io::Result<Vec<_>>>()?;
        let at_end = |(one, rest): (&Source, &Vec<u8>)| one.checked == self.passed_on && rest.is_empty();
        let is_majority_at_end = self.sources.iter().zip(&rest).filter(|&one| at_end(one)).count() >= self.needed;
        if end == JobEnd::Complete && is_majority_at_end {
            for (source, rest) in self.sources.iter().zip(&rest) {
                if !at_end((source, rest)) {
                    self.note(Some(source.replica), source.checked, mismatches);
                }
            }
            return Ok(());
        }
        if end == JobEnd::Complete {
            self.decide(mismatches);
        } else {
            let longest = (0..rest.len()).max_by_key(|&place| (rest[place].len(), rest.len() - place));
            longest.into_iter().for_each(|place| self.follow(place));
        }
        self.pass_on(Lines::All, mismatches)
    }
}

fn common_prefix(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

/// The longest text with which so many of the chunks begin.
fn agreed(chunks: &[Vec<u8>], needed: usize) -> &[u8] {
    let mut longest: &[u8] = &[];
    for chunk in chunks {
        let mut lengths: Vec<usize> = chunks.iter().map(|other| common_prefix(chunk, other)).collect();
        lengths.sort_unstable_by(|one, other| other.cmp(one));
        let length = lengths.get(needed - 1).copied().unwrap_or(0);
        if length > longest.len() {
            longest = &chunk[..length];
        }
    }
    longest
}

/// Whether no majority can agree on the next byte, whatever those print that have not printed it yet.
fn is_split(chunks: &[Vec<u8>], needed: usize) -> bool {
    let undecided = chunks.iter().filter(|chunk| chunk.is_empty()).count();
    let firsts = || chunks.iter().filter_map(|chunk| chunk.first());
    let most = firsts().map(|byte| firsts().filter(|other| *other == byte).count()).max().unwrap_or(0);
    most + undecided < needed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(texts: &[&str]) -> Vec<Vec<u8>> {
        texts.iter().map(|text| text.as_bytes().to_vec()).collect()
    }

    #[test]
    fn the_longest_text_of_a_majority_is_agreed() {
        for (texts, needed, expected) in [
            (&["one\ntwo\n", "one\n", "one\ntwo\nthr"][..], 2, "one\ntwo\n"),
            (&["one\n", "", ""], 2, ""),
            (&["onE\n", "one\n", "one\nt"], 2, "one\n"),
            (&["a1", "b1"], 2, ""),
            (&["a1", "b1"], 1, "a1"),
            (&["ax", "ay", "az", "ay!", "ay?"], 3, "ay"),
        ] {
            assert_eq!(agreed(&chunks(texts), needed), expected.as_bytes(), "{texts:?}");
        }
    }

    /// What is printed begins the text of a majority, and nothing longer does.
    #[test]
    fn agreement_is_as_the_definition_says() {
        let mut seed = 1_u32;
        let mut next = |below: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 16) % below
        };
        for _ in 0..5_000 {
            let replicas = 2 + next(4) as usize;
            let texts: Vec<Vec<u8>> =
                (0..replicas).map(|_| (0..next(6)).map(|_| b'a' + u8::try_from(next(2)).unwrap()).collect()).collect();
            let needed = replicas / 2 + 1;
            let votes = |text: &[u8]| texts.iter().filter(|one| one.starts_with(text)).count();
            let found = agreed(&texts, needed);
            assert!(found.is_empty() || votes(found) >= needed, "{texts:?}");
            let longer = |byte| [found, &[byte]].concat();
            assert!(votes(&longer(b'a')) < needed && votes(&longer(b'b')) < needed, "{texts:?}");
            let could = |byte| votes(&longer(byte)) + texts.iter().filter(|one| one.as_slice() == found).count();
            if found.is_empty() {
                assert_eq!(is_split(&texts, needed), could(b'a') < needed && could(b'b') < needed, "{texts:?}");
            }
        }
    }

    fn written(texts: [&str; 3]) -> (tempfile::TempDir, JobOutput) {
        let folder = tempfile::tempdir().unwrap();
        for (replica, text) in texts.iter().enumerate() {
            std::fs::write(folder.path().join(format!("stdout.{replica}")), text).unwrap();
        }
        let output = JobOutput::of(folder.path(), 1, 3, Undecided::First);
        (folder, output)
    }

    #[test]
    fn who_prints_something_else_is_named_and_where() {
        let (_folder, mut output) = written(["one\ntwo\n", "one\ntWo\n", "one\ntwo\n"]);
        output.pass_on().unwrap();
        output.finish(JobEnd::Complete).unwrap();
        assert_eq!(output.mismatches(), [OutputMismatch { rank: 0, wrong: Some(1), offset: 5 }]);
        assert_eq!((output.undecided(), output.streams[0].passed_on), (None, 8));
    }

    #[test]
    fn who_prints_more_at_the_end_is_named_unless_the_job_was_cut_off() {
        let texts = ["one\n", "one\n", "one\nmore\n"];
        let (_folder, mut output) = written(texts);
        output.finish(JobEnd::Complete).unwrap();
        assert_eq!(output.mismatches(), [OutputMismatch { rank: 0, wrong: Some(2), offset: 4 }]);
        assert_eq!(output.streams[0].passed_on, 4);
        let (_folder, mut output) = written(texts);
        output.finish(JobEnd::CutOff).unwrap();
        assert_eq!((output.mismatches(), output.streams[0].passed_on), (&[][..], 9));
        let (_folder, mut output) = written(texts);
        output.finish(JobEnd::Stopped).unwrap();
        assert_eq!((output.mismatches(), output.streams[0].passed_on), (&[][..], 4));
    }

    #[test]
    fn without_a_majority_the_first_is_followed() {
        let (_folder, mut output) = written(["one\nA\n", "one\nB\n", "one\nC\n"]);
        output.finish(JobEnd::Complete).unwrap();
        assert_eq!(output.undecided(), Some(0));
        assert_eq!((output.mismatches()[0].offset, output.streams[0].passed_on), (4, 6));
    }

    #[test]
    fn without_a_majority_nothing_more_is_printed_if_the_job_is_to_stop() {
        let (folder, _) = written(["one\nA\n", "one\nB\n", "one\nC\n"]);
        let mut output = JobOutput::of(folder.path(), 1, 3, Undecided::Nothing);
        output.finish(JobEnd::CutOff).unwrap();
        assert_eq!((output.undecided(), output.streams[0].passed_on), (Some(0), 4));
    }

    #[test]
    fn who_prints_later_must_print_the_same_and_as_much() {
        let (folder, mut output) = written(["one\ntwo\n", "one\ntwo\n", ""]);
        output.pass_on().unwrap();
        assert_eq!((output.mismatches(), output.streams[0].passed_on), (&[][..], 8));
        let late = folder.path().join("stdout.2");
        std::fs::write(&late, "one\nt").unwrap();
        output.pass_on().unwrap();
        assert_eq!(output.streams[0].sources[2].checked, 5);
        std::fs::write(&late, "one\ntWo\n").unwrap();
        output.pass_on().unwrap();
        assert_eq!(output.mismatches(), [OutputMismatch { rank: 0, wrong: Some(2), offset: 5 }]);
        let (_folder, mut output) = written(["one\ntwo\n", "one\ntwo\n", "one\n"]);
        output.finish(JobEnd::Complete).unwrap();
        assert_eq!(output.mismatches(), [OutputMismatch { rank: 0, wrong: Some(2), offset: 4 }]);
    }

    #[test]
    fn a_line_that_is_not_complete_waits_for_a_while() {
        let (folder, mut output) = written(["one\nTell me: "; 3]);
        output.pass_on().unwrap();
        assert_eq!(output.streams[0].passed_on, 4);
        for replica in 0..3 {
            std::fs::write(folder.path().join(format!("stdout.{replica}")), "one\nTell me: a").unwrap();
        }
        for _ in 0..PATIENCE {
            output.pass_on().unwrap();
            assert_eq!(output.streams[0].passed_on, 4, "it grew a moment ago");
        }
        output.pass_on().unwrap();
        assert_eq!(output.streams[0].passed_on, 14);
    }
}
