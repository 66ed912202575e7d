//! What is left of a run that was cut off.
//!
//! **Problem.** A program was killed, and each rank's file ends elsewhere: one sent what another's file does not show as received, and
//! some are in a collective where others are not. **Idea.** The calls are gone through without times, each rank as far as it comes with
//! what the others did; there it ends. **Why this way.** What is left is a program that runs to its end.

use std::collections::HashMap;

use super::{Call, Communicator, Request};
use crate::operation::{Kind, Operation, Rank};

/// Messages of one rank to another by one tag: they come in order.
type Line = (u32, u32, u32);

/// Shortens the calls of all ranks to what they did together. `communicators` are those after [`Communicator::WORLD`].
pub(super) fn cut(ranks: &mut [Vec<Call>], communicators: &[Vec<Rank>]) {
    let mut lines = Lines::default();
    let mut arrived: HashMap<(Communicator, u64), usize> = HashMap::new();
    let mut walkers: Vec<Walker> = (0..).zip(ranks.iter()).map(|(rank, calls)| Walker::new(rank, calls)).collect();
    let all = ranks.len();
    let count = |communicator: Communicator| match communicator {
        Communicator::WORLD => all,
        Communicator(number) => communicators[number as usize - 1].len(),
    };
    while walkers.iter_mut().fold(false, |went, walker| walker.go_on(&mut lines, &mut arrived, &count) | went) {}
    let ends: Vec<usize> = walkers.iter().map(|walker| walker.next).collect();
    for (calls, end) in ranks.iter_mut().zip(ends) {
        calls.truncate(end);
    }
    leave_out_unmatched(ranks);
}

/// How many messages were sent and asked for.
#[derive(Default)]
struct Lines {
    sent: HashMap<Line, u64>,
    asked: HashMap<Line, u64>,
}

impl Lines {
    fn send(&mut self, line: Line) {
        *self.sent.entry(line).or_default() += 1;
    }

    fn ask(&mut self, line: Line) -> (Line, u64) {
        let asked = self.asked.entry(line).or_default();
        *asked += 1;
        (line, *asked)
    }

    fn is_there(&self, (line, number): (Line, u64)) -> bool {
        self.sent.get(&line).is_some_and(|sent| *sent >= number)
    }
}

fn line(rank: u32, operation: Operation) -> Line {
    match operation.kind {
        Kind::Send => (rank, operation.peer, operation.tag),
        _ => (operation.peer, rank, operation.tag),
    }
}

/// How far one rank is.
struct Walker<'a> {
    rank: u32,
    calls: &'a [Call],
    next: usize,
    /// It has told that it came to the next call, and waits there.
    waits: Option<(Line, u64)>,
    came: bool,
    receives: HashMap<Request, (Line, u64)>,
    collectives: HashMap<Communicator, u64>,
}

impl<'a> Walker<'a> {
    fn new(rank: u32, calls: &'a [Call]) -> Self {
        Self { rank, calls, next: 0, waits: None, came: false, receives: HashMap::new(), collectives: HashMap::new() }
    }

    /// Goes as far as it can; whether it went at all.
    fn go_on(
        &mut self,
        lines: &mut Lines,
        arrived: &mut HashMap<(Communicator, u64), usize>,
        count: &impl Fn(Communicator) -> usize,
    ) -> bool {
        let before = (self.next, self.came);
        while let Some(call) = self.calls.get(self.next) {
            let first = !self.came;
            self.came = true;
            let goes = match *call {
                Call::Blocking(operation) if operation.kind == Kind::Recv => {
                    if first {
                        self.waits = Some(lines.ask(line(self.rank, operation)));
                    }
                    self.waits.is_some_and(|asked| lines.is_there(asked))
                }
                Call::Blocking(operation) | Call::Begin(operation, _) if operation.kind == Kind::Send => {
                    lines.send(line(self.rank, operation));
                    true
                }
                Call::Begin(operation, request) => {
                    self.receives.insert(request, lines.ask(line(self.rank, operation)));
                    true
                }
                Call::Blocking(_) => true,
                Call::Wait(request) => self.receives.get(&request).is_none_or(|asked| lines.is_there(*asked)),
                Call::Collective(_, _, communicator) => {
                    let number = *self.collectives.entry(communicator).or_default();
                    let here = arrived.entry((communicator, number)).or_default();
                    *here += usize::from(first);
                    *here == count(communicator)
                }
            };
            if !goes {
                break;
            }
            if let Call::Collective(_, _, communicator) = call {
                *self.collectives.entry(*communicator).or_default() += 1;
            }
            (self.next, self.came, self.waits) = (self.next + 1, false, None);
        }
        before != (self.next, self.came)
    }
}

/// Leaves out messages that nobody takes any more, and receives that nothing comes for.
fn leave_out_unmatched(ranks: &mut [Vec<Call>]) {
    let mut counts: HashMap<Line, (u64, u64)> = HashMap::new();
    for (rank, calls) in (0..).zip(ranks.iter()) {
        for operation in calls.iter().filter_map(message) {
            let (sent, asked) = counts.entry(line(rank, operation)).or_default();
            *if operation.kind == Kind::Send { sent } else { asked } += 1;
        }
    }
    let mut seen: HashMap<(Line, Kind), u64> = HashMap::new();
    for (rank, calls) in (0..).zip(ranks) {
        calls.retain(|call| {
            let Some(operation) = message(call) else { return true };
            let line = line(rank, operation);
            let (sent, asked) = counts[&line];
            let number = seen.entry((line, operation.kind)).or_default();
            *number += 1;
            *number <= sent.min(asked)
        });
    }
}

fn message(call: &Call) -> Option<Operation> {
    match call {
        Call::Blocking(operation) | Call::Begin(operation, _) => Some(*operation).filter(|it| it.kind != Kind::Calc),
        Call::Wait(_) | Call::Collective(..) => None,
    }
}
