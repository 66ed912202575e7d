//! What a plan finds, for the report.
//!
//! **Problem.** "Tested" says nothing; people need to know against which faults. **Idea.** Count, over every fault of
//! every kind, those that the passes of this plan find: between lines with the fault simulator, inside a line over all
//! 261,632 ordered pairs of its 512 bits; and say of one given fault whether it will be found ([`guarantees`]). **Why
//! these are lower bounds.** A fault counts only if one pass finds it by itself, from any state; passes that follow one
//! another can only find more.

mod guarantee;

pub use guarantee::guarantees;

use rampart_memory::{LineBit, LineData};
use serde::Serialize;

use crate::simulator::within::{self, BitPair};
use crate::simulator::{Kind, prove_run};
use crate::{AddressSequence, Aim, Pass, Plan};

/// The least share of the faults of a kind that a plan finds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KindCoverage {
    /// The kind.
    pub kind: Kind,
    /// A one-line description for people.
    pub meaning: &'static str,
    /// Whether the cells concerned are one bit of different lines each, or bits of one line.
    pub scope: Aim,
    /// Faults found.
    pub detected: u32,
    /// All faults of the kind; at least 1.
    pub total: u32,
    /// Found faults in percent, 0 to 100.
    pub percent: f64,
    /// What would find more, or what this number assumes.
    pub note: Option<&'static str>,
}

impl KindCoverage {
    fn new(kind: Kind, scope: Aim, detected: u32, total: u32, note: Option<&'static str>) -> Self {
        let percent = 100.0 * f64::from(detected) / f64::from(total);
        Self { kind, meaning: kind.meaning(), scope, detected, total, percent, note }
    }
}

/// What a plan finds, kind by kind: between lines, then inside a line.
#[must_use]
pub fn plan_coverage(plan: &Plan) -> Vec<KindCoverage> {
    let between = Kind::ALL.into_iter().map(|kind| between_lines(plan, kind));
    between.chain(within_line(plan)).collect()
}

fn between_lines(plan: &Plan, kind: Kind) -> KindCoverage {
    let further = plan.passes().iter().find(|pass| pass.aim == Aim::WithinLine);
    let whole: Vec<_> =
        plan.passes().iter().filter(|pass| pass.aim == Aim::BetweenLines).map(|pass| &pass.test).collect();
    let proof = prove_run(&whole, further.map(|pass| &pass.test), kind);
    let [detected, total] = [proof.detected, proof.total].map(|count| u32::try_from(count).expect("below 10,000"));
    KindCoverage::new(kind, Aim::BetweenLines, detected, total, note(plan, kind))
}

fn note(plan: &Plan, kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Retention if plan.rests() > 1 => {
            Some("cells that lose their value before the delayed reads (--retention)")
        }
        Kind::Retention if plan.rests() == 1 && plan.test().delays() == 0 => {
            Some("of the value that the delayed read finds; both values need both orders")
        }
        Kind::Retention if plan.delays() == 0 => Some("needs a delayed read (--retention), or a test with delays"),
        Kind::StuckOpen | Kind::Dynamic | Kind::DynamicDisturb | Kind::DynamicReadCoupling => {
            Some("shows only in an access right after another; a machine that reads ahead puts others in between")
        }
        _ if kind.is_of_one_cell() => None,
        _ if plan.sequences().all(|order| order == AddressSequence::Sequential) => {
            Some("lines that are visited close together need the strided address sequence as well")
        }
        Kind::Address => Some("not an address that repeats the access before it; a machine puts others in between"),
        Kind::LinkedInversion => Some("73 % is the most that a march test in one order can find"),
        Kind::LinkedIdempotent | Kind::LinkedInversionIdempotent | Kind::LinkedStatic => {
            Some("three lines may escape of which some two are visited close together in either order")
        }
        _ => None,
    }
}

/// Which faults between two bits are found: a byte for each of [`within::KINDS`], a bit for each fault.
type Found = [u8; within::KINDS.len()];

/// What a pass finds between two bits, by the values that its background gives them.
struct PassFinds<'a> {
    background: &'a LineData,
    by_values: [[Found; 2]; 2],
}

impl<'a> PassFinds<'a> {
    fn new(pass: &'a Pass) -> Self {
        let finds = |aggressor, victim| {
            within::KINDS.map(|kind| within::found(&pass.test, kind, BitPair { aggressor, victim }))
        };
        let by_values = [false, true].map(|aggressor| [false, true].map(|victim| finds(aggressor, victim)));
        Self { background: &pass.background.data, by_values }
    }

    fn between(&self, aggressor: LineBit, victim: LineBit) -> Found {
        self.by_values[usize::from(self.background.bit(aggressor))][usize::from(self.background.bit(victim))]
    }
}

/// Every pair of bits of a line against every pass.
fn within_line(plan: &Plan) -> Vec<KindCoverage> {
    let passes: Vec<_> = plan.passes().iter().map(PassFinds::new).collect();
    let most = passes.iter().flat_map(|pass| pass.by_values.iter().flatten()).fold(Found::default(), union);
    let mut detected = [0_u32; within::KINDS.len()];
    let bits = || (0..LineBit::COUNT).filter_map(LineBit::new);
    let mut pairs = 0;
    for (aggressor, victim) in bits().flat_map(|a| bits().filter(move |&v| v != a).map(move |v| (a, v))) {
        let mut found = Found::default();
        for pass in &passes {
            found = union(found, &pass.between(aggressor, victim));
            if found == most {
                break;
            }
        }
        pairs += 1;
        for (detected, found) in detected.iter_mut().zip(found) {
            *detected += found.count_ones();
        }
    }
    let coverage = |(kind, detected)| {
        KindCoverage::new(kind, Aim::WithinLine, detected, pairs * within::count(kind), note_within(kind))
    };
    within::KINDS.into_iter().zip(detected).map(coverage).collect()
}

fn union(one: Found, other: &Found) -> Found {
    std::array::from_fn(|kind| one[kind] | other[kind])
}

fn note_within(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Inversion | Kind::Idempotent => Some("if the fault wins over the write that sets it off"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fidelity;
    use crate::named::find;
    use crate::simulator::prove_kind;

    fn plan(name: &str, fidelity: u32, orders: &[AddressSequence]) -> Plan {
        Plan::new(find(name).expect(name).test(), Fidelity::new(fidelity).unwrap(), orders, 3)
    }

    fn within(name: &str, fidelity: u32) -> [f64; 4] {
        let coverage = within_line(&plan(name, fidelity, &[AddressSequence::Sequential]));
        within::KINDS.map(|kind| coverage.iter().find(|c| c.kind == kind).expect("simulated").percent)
    }

    /// The solid background shows 00 and 11 but never 01 and 10: half of the CFst and CFid, and all CFin
    /// (van de Goor and Tlili, DATE 1998).
    #[test]
    fn the_solid_background_alone_finds_half_of_the_faults_inside_a_line() {
        assert_eq!(within("March C-", 1), [50.0, 100.0, 50.0, 0.0]);
    }

    #[test]
    fn ten_backgrounds_find_all_and_nine_do_not() {
        assert_eq!(within("March C-", 10), [100.0, 100.0, 100.0, 0.0]);
        let [state, inversion, idempotent, _] = within("March C-", 9);
        assert!(state < 100.0 && idempotent < 100.0 && inversion == 100.0);
    }

    /// On paper: MATS does not write 0 over 1, so the further backgrounds must find the CFid of falling aggressors. But
    /// 512 of the pairs, those whose indexes are complements, are unequal on every stripe: one of four CFid is left of
    /// each.
    #[test]
    fn a_march_test_without_a_falling_write_leaves_some_falling_faults() {
        let [.., idempotent, _] = within("MATS", 10);
        assert!((idempotent - (100.0 - 100.0 * 512.0 / (4.0 * 512.0 * 511.0))).abs() < 1e-9, "{idempotent}");
    }

    /// On paper: period 2 tells even bits from odd ones, which are 256 / 511 of the pairs; of the others, half is
    /// found.
    #[test]
    fn each_stripe_adds_the_pairs_that_it_tells_apart() {
        let [state, ..] = within("March C-", 2);
        assert!((state - (50.0 + 50.0 * 256.0 / 511.0)).abs() < 1e-9, "{state}");
    }

    #[test]
    fn between_lines_a_plan_finds_what_its_march_test_finds_without_help_of_the_access_before() {
        const HELPED: [Kind; 5] =
            [Kind::Address, Kind::StuckOpen, Kind::Dynamic, Kind::DynamicDisturb, Kind::DynamicReadCoupling];
        let plan = plan("March RAW", 1, &[AddressSequence::Sequential]);
        let coverage = plan_coverage(&plan);
        assert_eq!(coverage.iter().filter(|coverage| coverage.scope == Aim::BetweenLines).count(), Kind::ALL.len());
        assert_eq!(coverage.len(), Kind::ALL.len() + within::KINDS.len());
        for coverage in coverage.iter().filter(|coverage| coverage.scope == Aim::BetweenLines) {
            let proof = prove_kind(plan.test(), coverage.kind);
            let same = (coverage.detected as usize, coverage.total as usize) == (proof.detected, proof.total);
            assert_eq!(same, !HELPED.contains(&coverage.kind), "{}", coverage.kind);
        }
        // On paper: of 120 address faults 4 + 24 repeat what was last on the bus.
        assert_eq!(between_lines(&plan, Kind::Address).detected, 120 - 28);
        for kind in &HELPED[1..] {
            assert_eq!(between_lines(&plan, *kind).detected, 0, "{kind}");
        }
    }

    /// MATS finds 50 % of TF; March X on the further backgrounds finds all, since TF are in one cell.
    #[test]
    fn further_backgrounds_count_for_faults_of_one_cell_and_for_no_others() {
        let [one, two] = [1, 2].map(|fidelity| plan("MATS", fidelity, &[AddressSequence::Sequential]));
        assert_eq!([&one, &two].map(|plan| between_lines(plan, Kind::Transition).percent), [50.0, 100.0]);
        assert_eq!([&one, &two].map(|plan| between_lines(plan, Kind::Inversion).percent), [50.0, 50.0]);
    }

    /// On paper: the read after a rest finds the value that is lost then; two rests with 0 and 1 exchanged find both.
    /// And of transition faults MATS finds one of two, with 0 and 1 exchanged the other.
    #[test]
    fn delayed_reads_find_retention_faults_and_the_exchange_of_values_counts_for_faults_of_one_cell() {
        let orders = [AddressSequence::Sequential, AddressSequence::Strided];
        let percents = |orders: &[AddressSequence], kind| {
            let plan = plan("MATS", 1, orders);
            [&plan, &plan.clone().with_delayed_reads()].map(|plan| between_lines(plan, kind).percent)
        };
        assert_eq!(percents(&orders[..1], Kind::Retention), [0.0, 50.0]);
        assert_eq!(percents(&orders, Kind::Retention), [0.0, 100.0]);
        assert_eq!(percents(&orders, Kind::Transition), [50.0, 100.0]);
        assert_eq!(percents(&orders, Kind::Inversion), [50.0, 50.0]);
    }

    #[test]
    fn notes_say_what_is_missing() {
        let notes = |plan: &Plan, kind| note(plan, kind);
        let sequential = plan("March C-", 10, &[AddressSequence::Sequential]);
        let both = plan("March G", 10, &[AddressSequence::Sequential, AddressSequence::Strided]);
        assert!(notes(&sequential, Kind::Retention).is_some_and(|note| note.contains("delays")));
        let rested = sequential.clone().with_delayed_reads();
        assert!(notes(&rested, Kind::Retention).is_some_and(|note| note.contains("both orders")));
        assert!(notes(&sequential, Kind::Idempotent).is_some_and(|note| note.contains("strided")));
        assert_eq!(notes(&sequential, Kind::StuckAt), None);
        assert_eq!((notes(&both, Kind::Retention), notes(&both, Kind::Idempotent)), (None, None));
        let rested = both.clone().with_delayed_reads();
        for (plan, kind, said) in [
            (&rested, Kind::Retention, "before the delayed reads"),
            (&both, Kind::StuckOpen, "right after another"),
            (&both, Kind::Dynamic, "right after another"),
            (&both, Kind::Address, "repeats the access before it"),
            (&both, Kind::LinkedInversion, "73 %"),
            (&both, Kind::LinkedStatic, "three lines may escape"),
        ] {
            assert!(notes(plan, kind).is_some_and(|note| note.contains(said)), "{kind}: {:?}", notes(plan, kind));
        }
        let inside = within_line(&plan("MATS", 1, &[AddressSequence::Sequential]));
        let assumed: Vec<_> = inside.iter().filter(|coverage| coverage.note.is_some()).collect();
        assert_eq!(
            assumed.iter().map(|coverage| coverage.kind).collect::<Vec<_>>(),
            [Kind::Inversion, Kind::Idempotent]
        );
        assert!(assumed.iter().all(|coverage| coverage.note.is_some_and(|note| note.contains("if the fault wins"))));
    }
}
