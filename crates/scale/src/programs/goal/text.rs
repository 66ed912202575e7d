//! GOAL as text.
//!
//! ```text
//! num_ranks 2
//! rank 0 {
//!   l1: calc 100                                  // nanoseconds; up to three decimals
//!   l2: send 8b to 1 tag 3 cpu 0 nic 0            // tag, CPU and NIC default to 0
//!   l3: recv 8b from -1 tag -1                    // from any rank, with any tag
//!   l2 requires l1                                // l2 starts when l1 is done
//!   l3 irequires l2                               // l3 starts when l2 has started
//! }
//! ```
//!
//! A statement ends with its line or with `;`. Comments are `// …` and `/* … */`. Rampart reads everything that
//! LogGOPSim reads. In addition a label may be used before its operation, and ranks may come in any order.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::BufRead;

use rampart_memory::Bytes;

use super::graph::{After, Builder, RankGraph};
use super::segments::Segments;
use super::words::{TextCursor, Token};
use super::{GoalBuilder, GoalGraph};
use crate::error::Error;
use crate::model::operation::{ANY, Action, OpId, Operation, Rank, Tag};
use crate::programs::schedule::Schedule as _;
use crate::time::Time;

/// Reads a schedule.
///
/// # Errors
/// If the text is not GOAL, with the line; or if the schedule cannot run.
pub fn read(text: &str) -> Result<GoalGraph, Error> {
    read_from(text.as_bytes())
}

/// Reads a schedule, rank by rank.
///
/// # Errors
/// Those of [`read`]; and if the source cannot be read, or is not UTF-8.
pub fn read_from(source: impl BufRead) -> Result<GoalGraph, Error> {
    let mut segments = Segments::new(source);
    let mut words = TextCursor::new(segments.next()?.unwrap_or_default(), 1);
    words.skip_ends();
    words.expect(&Token::Word("num_ranks"), "num_ranks")?;
    let ranks = words.number::<u32>("the number of ranks")?;
    let mut goal = GoalBuilder::new(ranks)?;
    loop {
        words.skip_ends();
        if words.peek() != &Token::Nothing {
            read_rank(&mut words, &mut goal)?;
            continue;
        }
        let line = words.next_line();
        let Some(segment) = segments.next()? else { break };
        words = TextCursor::new(segment, line);
    }
    // Each rank must be present: otherwise one line of text could ask for gigabytes.
    goal.finish()
}

fn read_rank(words: &mut TextCursor, goal: &mut GoalBuilder) -> Result<(), Error> {
    words.expect(&Token::Word("rank"), "rank")?;
    let (rank, ranks) = (words.number("the number of a rank")?, goal.ranks());
    if rank >= ranks {
        return Err(Error::NoSuchRank { rank, ranks });
    }
    goal.add(Rank(rank), &read_graph(words, Rank(rank))?)
}

/// An edge as in the text: the waiting label, the event, the other label, and the line.
type Edge<'a> = (&'a str, After, &'a str, usize);

fn read_graph(words: &mut TextCursor, rank: Rank) -> Result<RankGraph, Error> {
    words.expect(&Token::Sign('{'), "{")?;
    let mut builder = Builder::default();
    let mut labels = HashMap::new();
    let mut edges: Vec<Edge> = Vec::new();
    loop {
        words.skip_ends();
        match words.next() {
            Token::Sign('}') => break,
            Token::Word(kind @ ("calc" | "send" | "recv")) => drop(builder.add(read_operation(words, kind)?)),
            Token::Word(label) => match words.next() {
                Token::Sign(':') => {
                    let line = words.line();
                    let kind = words.word("calc, send or recv")?;
                    let id = builder.add(read_operation(words, kind)?);
                    if labels.insert(label, id).is_some() {
                        return Err(Error::DefinedTwice { line, label: label.to_owned() });
                    }
                }
                Token::Word("requires") => edges.push((label, After::End, words.word("a label")?, words.line())),
                Token::Word("irequires") => edges.push((label, After::Start, words.word("a label")?, words.line())),
                other => return Err(words.refuse(":, requires or irequires", &other)),
            },
            other => return Err(words.refuse("an operation, a label or }", &other)),
        }
        words.expect_end()?;
    }
    for (waiting, after, other, line) in edges {
        let named = |label: &str| labels.get(label).copied().ok_or(Error::Undefined { line, label: label.to_owned() });
        builder.wait(named(waiting)?, after, named(other)?);
    }
    builder.finish(rank)
}

fn read_operation(words: &mut TextCursor, kind: &str) -> Result<Operation, Error> {
    let operation = match kind {
        "calc" => Operation::calc(words.time()?),
        "send" => {
            let bytes = read_bytes(words, "to")?;
            let to = Rank(words.number("a rank")?);
            let (tag, cpu, nic) = read_rest(words)?;
            let Some(tag) = tag else { return Err(words.refuse("a tag that is not -1", &Token::Word("-1"))) };
            return Ok(Operation::send(to, bytes, tag).on(cpu, nic));
        }
        "recv" => {
            let bytes = read_bytes(words, "from")?;
            let from = words.number_or_any("a rank")?.map(Rank);
            let (tag, cpu, nic) = read_rest(words)?;
            return Ok(Operation::recv(from, bytes, tag).on(cpu, nic));
        }
        other => return Err(words.refuse("calc, send or recv", &Token::Word(other))),
    };
    let (_, cpu, nic) = read_rest(words)?;
    Ok(operation.on(cpu, nic))
}

fn read_bytes(words: &mut TextCursor, preposition: &'static str) -> Result<Bytes, Error> {
    let bytes = words.number("a number of bytes")?;
    words.expect(&Token::Word("b"), "b, for bytes,")?;
    words.expect(&Token::Word(preposition), preposition)?;
    Ok(Bytes::new(bytes))
}

/// Tag, CPU and NIC.
fn read_rest(words: &mut TextCursor) -> Result<(Option<Tag>, u8, u8), Error> {
    let (mut tag, mut cpu, mut nic) = (Some(Tag(0)), 0, 0);
    loop {
        match words.peek() {
            Token::Word("tag") => {
                words.next();
                tag = words.number_or_any("a tag")?.map(Tag);
            }
            Token::Word("cpu") => {
                words.next();
                cpu = words.number("a CPU below 255")?;
            }
            Token::Word("nic") => {
                words.next();
                nic = words.number("a NIC below 255")?;
            }
            _ => return Ok((tag, cpu, nic)),
        }
    }
}

/// Writes a schedule.
#[must_use]
pub fn write(goal: &GoalGraph) -> String {
    let mut out = format!("num_ranks {}\n", goal.ranks());
    for (rank, graph) in goal.graphs().enumerate() {
        write_rank(&mut out, rank, &graph).expect("a string takes all");
    }
    out
}

fn write_rank(out: &mut String, rank: usize, graph: &RankGraph) -> std::fmt::Result {
    writeln!(out, "\nrank {rank} {{")?;
    for operation in graph.operations() {
        write!(out, "l{}: ", operation.id.0)?;
        write_operation(out, *operation)?;
    }
    for OpId(other) in graph.operations().iter().map(|operation| operation.id) {
        graph.after_start(OpId(other)).iter().try_for_each(|waiting| writeln!(out, "l{waiting} irequires l{other}"))?;
        graph.after_end(OpId(other)).iter().try_for_each(|waiting| writeln!(out, "l{waiting} requires l{other}"))?;
    }
    writeln!(out, "}}")
}

fn write_operation(out: &mut String, operation: Operation) -> std::fmt::Result {
    match operation.action() {
        Action::Calc(time) => write_nanos(out, time)?,
        Action::Send { to, bytes, .. } => write!(out, "send {}b to {}", bytes.get(), to.0)?,
        Action::Recv { from: Some(from), bytes, .. } => write!(out, "recv {}b from {}", bytes.get(), from.0)?,
        Action::Recv { from: None, bytes, .. } => write!(out, "recv {}b from -1", bytes.get())?,
    }
    match operation.tag {
        0 => {}
        ANY => write!(out, " tag -1")?,
        tag => write!(out, " tag {tag}")?,
    }
    if operation.cpu > 0 {
        write!(out, " cpu {}", operation.cpu)?;
    }
    if operation.nic > 0 {
        write!(out, " nic {}", operation.nic)?;
    }
    writeln!(out)
}

fn write_nanos(out: &mut String, time: Time) -> std::fmt::Result {
    match time.picos() % 1000 {
        0 => write!(out, "calc {}", time.nanos()),
        picos => write!(out, "calc {}.{picos:03}", time.nanos()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Any schedule of four ranks.
    pub fn any_goal() -> impl Strategy<Value = GoalGraph> {
        any_graphs().prop_map(|graphs| GoalGraph::new(graphs).unwrap())
    }

    /// Any graphs of four ranks; edges lead forwards, so there is no circle.
    pub fn any_graphs() -> impl Strategy<Value = Vec<RankGraph>> {
        let operation =
            (0..3_u8, any::<u64>(), 0..4_u32, prop_oneof![Just(None), (0..5_u32).prop_map(Some)], 0..3_u8, 0..2_u8);
        let edges = proptest::collection::vec((0..8_u32, any::<bool>(), 0..8_u32), 0..12);
        let rank = (proptest::collection::vec(operation, 0..8), edges);
        let graphs = |ranks: Vec<_>| ranks.into_iter().map(|(operations, edges)| graph(operations, edges)).collect();
        proptest::collection::vec(rank, 4).prop_map(graphs)
    }

    type Described = (u8, u64, u32, Option<u32>, u8, u8);

    fn graph(operations: Vec<Described>, edges: Vec<(u32, bool, u32)>) -> RankGraph {
        let mut builder = Builder::default();
        let count = u32::try_from(operations.len()).unwrap();
        for (kind, size, peer, tag, cpu, nic) in operations {
            let bytes = Bytes::new(size);
            let operation = match kind {
                0 => Operation::send(Rank(peer), bytes, Tag(tag.unwrap_or(9))),
                1 => Operation::recv(tag.map(|_| Rank(peer)), bytes, tag.map(Tag)),
                _ => Operation::calc(Time::from_picos(size)),
            };
            builder.add(operation.on(cpu, nic));
        }
        for (one, start, other) in edges {
            if one < other && other < count {
                builder.wait(OpId(other), if start { After::Start } else { After::End }, OpId(one));
            }
        }
        builder.finish(Rank(0)).unwrap()
    }

    #[test]
    fn what_loggopsim_reads_is_read() {
        let text = "num_ranks 2\n\nrank 0 {\nl1: calc 100 cpu 1\nl2: send 10b to 1 tag 3 cpu 0 nic 1\nl2 requires l1\n}\n\n\
            rank 1 { // a comment\r\n/* another\n */ l1: recv 10b from -1 tag -1\nl2: calc 7; l2 irequires l1 }\n";
        let goal = read(text).unwrap();
        let [first, second] = [0, 1].map(|rank| goal.graph(Rank(rank)));
        let actions: Vec<Action> = first.operations().iter().map(|operation| operation.action()).collect();
        assert_eq!(
            actions,
            [Action::Calc(Time::from_nanos(100)), Action::Send { to: Rank(1), bytes: Bytes::new(10), tag: Tag(3) }]
        );
        assert_eq!(first.after_end(OpId(0)), [1]);
        let received = second.operations()[0].action();
        assert_eq!(received, Action::Recv { from: None, bytes: Bytes::new(10), tag: None });
        assert_eq!(second.after_start(OpId(0)), [1]);
    }

    #[test]
    fn what_is_wrong_with_a_text_is_said_in_one_line_with_its_number() {
        for (text, said) in [
            ("", "line 1: num_ranks was expected and the end found"),
            ("num_ranks 1\nrank 0 {\ncalc x\n}", "line 3: a time in nanoseconds was expected and \"x\" found"),
            ("num_ranks 1\nrank 0 {\nsend 8b from 0\n}", "line 3: to was expected and \"from\" found"),
            (
                "num_ranks 1\nrank 0 {\ncalc 8 calc 9\n}",
                "line 3: the end of the statement was expected and \"calc\" found",
            ),
            ("num_ranks 1\nrank 0 {\ncalc 8", "line 3: the end of the statement was expected and the end found"),
            ("num_ranks 1\nrank 0 {\nl1 requires l2\n}", "line 3: no operation of its rank is labelled \"l1\""),
            ("num_ranks 1\nrank 0 {\nl: calc 1\nl: calc 2\n}", "line 4: label \"l\" is defined twice in its rank"),
            ("num_ranks 1\nrank 1 {\n}", "rank 1 is named and there are 1"),
            ("num_ranks 1\nrank 0 {\nsend 1b to 7\n}", "rank 7 is named and there are 1"),
            ("num_ranks 1\nrank 0 {\n}\nrank 0 {\n}", "rank 0 has two schedules"),
            (
                "num_ranks 1\nrank 0 {\na: calc 1\nb: calc 1\na requires b\nb requires a\n}",
                "operation 0 of rank 0 waits for itself",
            ),
            ("num_ranks 2\nrank 1 {\n}", "rank 0 has no schedule"),
            ("num_ranks 4000000000", "a schedule of 4000000000 ranks is too large"),
            ("num_ranks 1\nrank 0 {\ncalc 1 /* never ends", "line 3: the end of the statement was expected"),
            ("num_ranks 1\nrank 0 {\ncalc 99999999999999999999\n}", "line 3: a time in nanoseconds was expected"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.starts_with(said), "{text:?}: {error}");
            assert_eq!(error.lines().count(), 1);
        }
    }

    proptest! {
        #[test]
        fn a_schedule_comes_back_from_text(goal in any_goal()) {
            prop_assert_eq!(read(&write(&goal)), Ok(goal));
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in "(num_ranks [0-9] )?(rank|calc|send|recv|[0-9]b?|to|from|l[0-9]|[:;{}\n -]){0,40}") {
            if let Err(error) = read(&text) {
                prop_assert_eq!(error.to_string().lines().count(), 1);
            }
        }
    }
}
