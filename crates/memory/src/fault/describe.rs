//! Faults in words: one line each, in the notation of van de Goor (`<S/F>` for one cell, `<S;F>` for a coupling).

use std::fmt;

use crate::fault::{
    AddressFault, FaultCell, FaultKind, Floating, Idempotent, Persistence, PlacedFault, TransitionDirection, Wired,
};

const fn digit(value: bool) -> u8 {
    value as u8
}

impl fmt::Display for FaultCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} bit {}", self.line.0, self.bit.index())
    }
}

impl fmt::Display for TransitionDirection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Up => "↑",
            Self::Down => "↓",
        })
    }
}

impl fmt::Display for Wired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::And => "wired-AND",
            Self::Or => "wired-OR",
        })
    }
}

impl fmt::Display for Floating {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Zeros => "zeros",
            Self::Ones => "ones",
            Self::LastOnBus(_) => "what was last on the bus",
        })
    }
}

impl fmt::Display for Idempotent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{};{}> from {} to {}", self.on, digit(self.value), self.aggressor, self.victim)
    }
}

impl fmt::Display for AddressFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCell { line, floating } => {
                write!(f, "type A: line {} reaches no cells and reads {floating}", line.0)
            }
            Self::Taken { line, by, floating, wired } => write!(
                f,
                "type B: line {} reaches no cells and reads {floating}; line {} reaches them beside its own ({wired})",
                line.0, by.0
            ),
            Self::Instead { line, other } => {
                write!(f, "type C: line {} reaches the cells of line {} and not its own", line.0, other.0)
            }
            Self::Also { line, other, wired } => {
                write!(f, "type D: line {} reaches the cells of line {} beside its own ({wired})", line.0, other.0)
            }
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StuckAt { cell, value } => write!(f, "stuck-at <∀/{}> at {cell}", digit(*value)),
            Self::Transition { cell, blocked } => {
                write!(f, "transition <{blocked}/{}> at {cell}", digit(blocked.from()))
            }
            Self::Inversion { aggressor, on, victim } => {
                write!(f, "inversion coupling <{on};↕> from {aggressor} to {victim}")
            }
            Self::Idempotent(coupling) => write!(f, "idempotent coupling {coupling}"),
            Self::State { aggressor, holds, victim, reads } => {
                write!(f, "state coupling <{};{}> from {aggressor} to {victim}", digit(*holds), digit(*reads))
            }
            Self::Address(address) => write!(f, "address decoder {address}"),
            Self::StuckOpen { cell, .. } => write!(f, "stuck-open at {cell}"),
            Self::Retention { cell, loses, after } => {
                write!(f, "retention of {} lost after {after:?} at {cell}", digit(*loses))
            }
            Self::Linked { first, second } => write!(f, "linked idempotent couplings {first} and {second}"),
            Self::MultiBit { line, stuck } => write!(f, "multi-bit stuck-at at line {}: {stuck}", line.0),
        }
    }
}

impl fmt::Display for Persistence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Permanent => f.write_str("permanent"),
            Self::Intermittent { probability } => write!(f, "intermittent, probability {}", probability.get()),
            Self::PatternSensitive { neighbourhood } => write!(f, "pattern-sensitive to {neighbourhood}"),
        }
    }
}

impl fmt::Display for PlacedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.kind, self.persistence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::{Campaign, FaultClass, InjectionSpec, LineSpan, WordPattern};
    use crate::{LineBit, RegionLine};

    fn cell(line: u64, bit: u16) -> FaultCell {
        FaultCell { line: RegionLine(line), bit: LineBit::new(bit).unwrap() }
    }

    #[test]
    fn faults_are_told_in_the_notation_of_the_field() {
        let (line, other) = (RegionLine(2), RegionLine(7));
        let span = LineSpan { first: RegionLine(1), last: RegionLine(3) };
        let coupling =
            Idempotent { aggressor: cell(7, 0), on: TransitionDirection::Up, victim: cell(2, 65), value: false };
        let (wired, floating) = (Wired::And, Floating::LastOnBus(span));
        for (kind, text) in [
            (FaultKind::StuckAt { cell: cell(2, 65), value: true }, "stuck-at <∀/1> at line 2 bit 65"),
            (
                FaultKind::Transition { cell: cell(2, 65), blocked: TransitionDirection::Down },
                "transition <↓/1> at line 2 bit 65",
            ),
            (
                FaultKind::Inversion { aggressor: cell(7, 0), on: TransitionDirection::Down, victim: cell(2, 65) },
                "inversion coupling <↓;↕> from line 7 bit 0 to line 2 bit 65",
            ),
            (FaultKind::Idempotent(coupling), "idempotent coupling <↑;0> from line 7 bit 0 to line 2 bit 65"),
            (
                FaultKind::State { aggressor: cell(7, 0), holds: true, victim: cell(2, 65), reads: false },
                "state coupling <1;0> from line 7 bit 0 to line 2 bit 65",
            ),
            (
                FaultKind::Address(AddressFault::Taken { line, by: other, floating, wired }),
                "address decoder type B: line 2 reaches no cells and reads what was last on the bus; \
                 line 7 reaches them beside its own (wired-AND)",
            ),
            (
                FaultKind::Address(AddressFault::Instead { line, other }),
                "address decoder type C: line 2 reaches the cells of line 7 and not its own",
            ),
            (
                FaultKind::MultiBit { line, stuck: WordPattern::new(1, 0b101, 0b100).unwrap() },
                "multi-bit stuck-at at line 2: bit 64 = 0, bit 66 = 1",
            ),
        ] {
            assert_eq!(PlacedFault::permanent(kind).to_string(), format!("{text}, permanent"));
        }
    }

    #[test]
    fn every_fault_is_told_in_one_line_with_its_victims_line() {
        for (name, _) in FaultClass::ALL {
            for acts in ["", ",intermittent=0.5", ",pattern=on"] {
                let spec: InjectionSpec = format!("{name}:16{acts}").parse().unwrap();
                for fault in Campaign::new(&spec, 1000, 1000).unwrap().in_region(0) {
                    let text = fault.to_string();
                    assert!(
                        !text.contains('\n') && text.contains(&format!("line {}", fault.victims()[0].0.0)),
                        "{text}"
                    );
                }
            }
        }
    }
}
