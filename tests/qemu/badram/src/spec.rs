//! The notation of a fault at its place: `stuck-at@0x5000/3/65=1,intermittent=0.1`.
//!
//! It resembles that of `rampart inject`, with the same names of faults. But it names the cell, because a scenario must
//! know what a tester has to find.

use std::time::Duration;

use rampart_memory::fault::{
    AddressFault, FaultCell, FaultKind, Idempotent, InjectionSpec, Persistence, PlacedFault, Probability,
    TransitionDirection,
};
use rampart_memory::{Frame, LINES_PER_FRAME, LineBit, RegionLine};

/// A parsed fault with its options.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// The faults, with lines counted from the start of the RAM. One fault, or one for each line of an aliased frame.
    pub faults: Vec<PlacedFault>,
    /// The time from its addition to its start.
    pub from: Duration,
    /// The time from its addition to its end.
    pub until: Option<Duration>,
}

/// Why a text is no fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum Problem {
    /// write KIND@PLACE..., as in stuck-at@0x5000/3/65=1
    Form,
    /// no such kind; there are stuck-at, transition, coupling-in, coupling-id, address, retention
    Kind,
    /// a cell is FRAME/LINE/BIT, with lines 0 to 63 and bits 0 to 511, as in 0x5000/3/65
    Cell,
    /// an address is FRAME or FRAME/LINE, the same on both sides, and not twice the same
    Address,
    /// a value is 0 or 1
    Value,
    /// a change is up or down
    Change,
    /// options are intermittent=PROBABILITY, retention=TIME, from=TIME, until=TIME
    Option,
    /// this place lies outside the RAM
    Outside,
    /// write FRAME OTHER-FRAME SEED CLASS; a class is named as in docs/corruption.md
    Corruption,
}

impl Spec {
    /// Reads a fault with its options.
    ///
    /// # Errors
    /// A [`Problem`], if anything in the text is wrong.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        let mut items = text.split(',');
        let (kind, place) = items.next().and_then(|item| item.split_once('@')).ok_or(Problem::Form)?;
        let mut options = Options::default();
        items.try_for_each(|item| options.read(item))?;
        let persistence = match options.intermittent {
            Some(probability) => Persistence::Intermittent { probability },
            None => Persistence::Permanent,
        };
        let kinds = kinds(kind, place, options.retention.unwrap_or(InjectionSpec::RETENTION))?;
        let faults = kinds.into_iter().map(|kind| PlacedFault { kind, persistence }).collect();
        Ok(Self { faults, from: options.from, until: options.until })
    }

    /// Whether the fault is active at this age.
    pub fn is_due(&self, age: Duration) -> bool {
        age >= self.from && self.until.is_none_or(|until| age < until)
    }
}

#[derive(Default)]
struct Options {
    intermittent: Option<Probability>,
    retention: Option<Duration>,
    from: Duration,
    until: Option<Duration>,
}

impl Options {
    fn read(&mut self, item: &str) -> Result<(), Problem> {
        let (name, value) = item.split_once('=').ok_or(Problem::Option)?;
        let time = || humantime::parse_duration(value).map_err(|_| Problem::Option);
        match name {
            "intermittent" => {
                let number: f64 = value.parse().map_err(|_| Problem::Option)?;
                self.intermittent = Some(Probability::try_from(number).map_err(|_| Problem::Option)?);
            }
            "retention" => self.retention = Some(time()?),
            "from" => self.from = time()?,
            "until" => self.until = Some(time()?),
            _ => return Err(Problem::Option),
        }
        Ok(())
    }
}

fn kinds(kind: &str, place: &str, after: Duration) -> Result<Vec<FaultKind>, Problem> {
    let one = match kind {
        "stuck-at" => {
            let (cell, value) = valued(place)?;
            FaultKind::StuckAt { cell, value }
        }
        "transition" => {
            let (cell, blocked) = changing(place)?;
            FaultKind::Transition { cell, blocked }
        }
        "coupling-in" => {
            let (aggressor, victim) = pair(place)?;
            let (aggressor, on) = changing(aggressor)?;
            FaultKind::Inversion { aggressor, on, victim: cell(victim)? }
        }
        "coupling-id" => {
            let (aggressor, victim) = pair(place)?;
            let ((aggressor, on), (victim, value)) = (changing(aggressor)?, valued(victim)?);
            FaultKind::Idempotent(Idempotent { aggressor, on, victim, value })
        }
        "address" => return aliases(place),
        "retention" => {
            let (cell, loses) = valued(place)?;
            FaultKind::Retention { cell, loses, after }
        }
        _ => return Err(Problem::Kind),
    };
    Ok(vec![one])
}

fn pair(place: &str) -> Result<(&str, &str), Problem> {
    place.split_once('>').ok_or(Problem::Form)
}

/// A cell with a value: `0x5000/3/65=1`.
fn valued(text: &str) -> Result<(FaultCell, bool), Problem> {
    let (place, value) = text.split_once('=').ok_or(Problem::Form)?;
    let value = match value {
        "0" => false,
        "1" => true,
        _ => return Err(Problem::Value),
    };
    Ok((cell(place)?, value))
}

/// A cell with a change: `0x5000/3/65=up`.
fn changing(text: &str) -> Result<(FaultCell, TransitionDirection), Problem> {
    let (place, change) = text.split_once('=').ok_or(Problem::Form)?;
    let change = match change {
        "up" => TransitionDirection::Up,
        "down" => TransitionDirection::Down,
        _ => return Err(Problem::Change),
    };
    Ok((cell(place)?, change))
}

/// Reads `FRAME/LINE/BIT`.
///
/// # Errors
/// [`Problem::Cell`] if the text has another form.
pub fn cell(text: &str) -> Result<FaultCell, Problem> {
    let (place, bit) = text.rsplit_once('/').ok_or(Problem::Cell)?;
    let (frame, line) = place.split_once('/').ok_or(Problem::Cell)?;
    let bit = bit.parse().ok().and_then(LineBit::new).ok_or(Problem::Cell)?;
    Ok(FaultCell { line: line_of(frame, line).ok_or(Problem::Cell)?, bit })
}

fn line_of(frame: &str, line: &str) -> Option<RegionLine> {
    let frame: Frame = frame.parse().ok()?;
    let line: u64 = line.parse().ok().filter(|line| *line < LINES_PER_FRAME)?;
    Some(RegionLine(frame.number() * LINES_PER_FRAME + line))
}

/// Addresses that reach the cells of other addresses: two lines, or all lines of two frames.
fn aliases(place: &str) -> Result<Vec<FaultKind>, Problem> {
    let (from, to) = pair(place)?;
    let lines = |text: &str| match text.split_once('/') {
        Some((frame, line)) => line_of(frame, line).map(|line| vec![line]),
        None => line_of(text, "0").map(|first| (first.0..first.0 + LINES_PER_FRAME).map(RegionLine).collect()),
    };
    let (from, to) = lines(from).zip(lines(to)).ok_or(Problem::Address)?;
    if from.len() != to.len() || from == to {
        return Err(Problem::Address);
    }
    let alias = |(line, other)| FaultKind::Address(AddressFault::Instead { line, other });
    Ok(from.into_iter().zip(to).map(alias).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(text: &str) -> PlacedFault {
        let spec = Spec::parse(text).unwrap_or_else(|problem| panic!("{text}: {problem}"));
        assert_eq!(spec.faults.len(), 1, "{text}");
        spec.faults[0]
    }

    #[test]
    fn each_kind_is_read_as_it_is_written() {
        // Line 2 of frame 1 is line 66 of the RAM.
        for (text, expected) in [
            ("stuck-at@0x1/2/65=1", "stuck-at <∀/1> at line 66 bit 65, permanent"),
            ("transition@1/2/65=down", "transition <↓/1> at line 66 bit 65, permanent"),
            (
                "coupling-in@1/2/65=up>2/0/0",
                "inversion coupling <↑;↕> from line 66 bit 65 to line 128 bit 0, permanent",
            ),
            (
                "coupling-id@1/2/65=down>2/0/0=1",
                "idempotent coupling <↓;1> from line 66 bit 65 to line 128 bit 0, permanent",
            ),
            (
                "address@1/2>2/63",
                "address decoder type C: line 66 reaches the cells of line 191 and not its own, permanent",
            ),
            ("retention@1/2/65=1,retention=300ms", "retention of 1 lost after 300ms at line 66 bit 65, permanent"),
            ("retention@1/2/65=0", "retention of 0 lost after 64ms at line 66 bit 65, permanent"),
            ("stuck-at@1/2/65=0,intermittent=0.25", "stuck-at <∀/0> at line 66 bit 65, intermittent, probability 0.25"),
        ] {
            assert_eq!(only(text).to_string(), expected);
        }
    }

    #[test]
    fn an_aliased_frame_is_all_of_its_lines() {
        let spec = Spec::parse("address@1>3").unwrap();
        assert_eq!(spec.faults.len(), 64);
        for (place, fault) in spec.faults.iter().enumerate() {
            let place = place as u64;
            let (line, other) = (RegionLine(64 + place), RegionLine(192 + place));
            assert_eq!(fault.kind, FaultKind::Address(AddressFault::Instead { line, other }));
        }
    }

    #[test]
    fn a_fault_is_due_from_its_start_to_its_end() {
        let spec = Spec::parse("stuck-at@1/2/65=1,from=2s,until=10s").unwrap();
        let due = [0, 1999, 2000, 9999, 10_000].map(|millis| spec.is_due(Duration::from_millis(millis)));
        assert_eq!(due, [false, false, true, true, false]);
        let always = Spec::parse("stuck-at@1/2/65=1").unwrap();
        assert!(always.is_due(Duration::ZERO) && always.is_due(Duration::from_secs(1 << 30)));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, problem) in [
            ("", Problem::Form),
            ("stuck-at:1", Problem::Form),
            ("stuck-at@1/2/3", Problem::Form),
            ("coupling-in@1/2/3=up", Problem::Form),
            ("stuckat@1/2/3=1", Problem::Kind),
            ("stuck-at@1/2=1", Problem::Cell),
            ("stuck-at@1/64/3=1", Problem::Cell),
            ("stuck-at@1/2/512=1", Problem::Cell),
            ("stuck-at@x/2/3=1", Problem::Cell),
            ("stuck-at@1/2/3=2", Problem::Value),
            ("transition@1/2/3=1", Problem::Change),
            ("address@1>2/3", Problem::Address),
            ("address@1>1", Problem::Address),
            ("address@1/64>2/3", Problem::Address),
            ("stuck-at@1/2/3=1,often=1", Problem::Option),
            ("stuck-at@1/2/3=1,intermittent=2", Problem::Option),
            ("retention@1/2/3=1,retention=soon", Problem::Option),
        ] {
            assert_eq!(Spec::parse(text), Err(problem), "{text}");
        }
    }
}
