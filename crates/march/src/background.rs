//! Word backgrounds: the data that stands for 0 and, inverted, for 1.
//!
//! **Problem.** A march test distinguishes the cells of different lines by the time of its visits. The bits of one line
//! are written at once, so a fault between two of them shows only if the data distinguishes them. **Idea.** The
//! backgrounds of van de Goor and Tlili, *March tests for word-oriented memories*, DATE 1998: solid, then stripes of
//! period 2, 4, … up to the word. Any two bits differ in some digit of their index, so some stripe gives them different
//! values, solid gives them the same, and the complements give the rest: log2(512) + 1 = 10 backgrounds for a line.
//! **Then** random data: address scrambling and data scrambling hide which bits are neighbours, and random data needs
//! no map.

use std::fmt;

use rampart_memory::{Fidelity, LINE_WORDS, LineData};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

/// The number of backgrounds that distinguish any two bits of a line: log2(512) + 1.
pub const STRUCTURED: u32 = 10;

/// The content of a line where a march test says 0; where the test says 1, the line holds its complement.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Background {
    /// Its name for people: `solid`, `period 16`, `random 3`.
    pub name: String,
    /// The data for 0.
    pub data: LineData,
}

impl Background {
    /// All zeros; its complement is all ones.
    #[must_use]
    pub fn solid() -> Self {
        Self { name: "solid".to_owned(), data: LineData::ZERO }
    }

    /// The content of a line for a value of the test.
    #[must_use]
    pub fn line(&self, value: bool) -> LineData {
        if value { self.data.inverted() } else { self.data }
    }

    /// Stripes: half a period of zeros, then half a period of ones. `power` is the logarithm of the period, 1 to 9.
    fn stripes(power: u32) -> Self {
        assert!((1..STRUCTURED).contains(&power), "a line of 512 bits has stripes of period 2 to 512");
        // Bit i is digit `power - 1` of i. The low six digits count inside a word, the others count words.
        const INSIDE_WORD: [u64; 6] = [
            0xaaaa_aaaa_aaaa_aaaa,
            0xcccc_cccc_cccc_cccc,
            0xf0f0_f0f0_f0f0_f0f0,
            0xff00_ff00_ff00_ff00,
            0xffff_0000_ffff_0000,
            0xffff_ffff_0000_0000,
        ];
        let digit = power as usize - 1;
        let word = |index: usize| match INSIDE_WORD.get(digit) {
            Some(&stripes) => stripes,
            None if index >> (digit - INSIDE_WORD.len()) & 1 == 1 => u64::MAX,
            None => 0,
        };
        Self { name: format!("period {}", 1 << power), data: LineData(std::array::from_fn(word)) }
    }
}

impl fmt::Display for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// The backgrounds of a fidelity: the structured ten first, then random ones from the seed. Those of a lower fidelity
/// come first in those of a higher one.
pub fn backgrounds(fidelity: Fidelity, seed: u64) -> impl Iterator<Item = Background> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..fidelity.backgrounds()).map(move |index| match index {
        0 => Background::solid(),
        1..STRUCTURED => Background::stripes(index),
        _ => {
            let words: [u64; LINE_WORDS] = std::array::from_fn(|_| rng.next_u64());
            Background { name: format!("random {}", index - STRUCTURED + 1), data: LineData(words) }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rampart_memory::LineBit;
    use std::collections::BTreeSet;

    fn structured() -> Vec<Background> {
        backgrounds(Fidelity::new(STRUCTURED).unwrap(), 0).collect()
    }

    /// The reference model: van de Goor and Tlili's definition, bit by bit.
    #[test]
    fn stripes_alternate_every_half_period() {
        for power in 1..STRUCTURED {
            let Background { name, data } = Background::stripes(power);
            let half = 1 << (power - 1);
            for bit in (0..LineBit::COUNT).filter_map(LineBit::new) {
                assert_eq!(data.bit(bit), bit.index() / half % 2 == 1, "{name}, bit {}", bit.index());
            }
        }
    }

    /// The reason why log2(B) + 1 backgrounds suffice for state coupling inside a word (van de Goor and Tlili, DATE
    /// 1998).
    #[test]
    fn the_ten_and_their_complements_show_any_two_bits_in_every_combination() {
        let ten = structured();
        for a in (0..LineBit::COUNT).filter_map(LineBit::new) {
            for b in (0..a.index()).filter_map(LineBit::new) {
                let differ = ten.iter().any(|background| background.data.bit(a) != background.data.bit(b));
                assert!(differ, "bits {} and {} look alike", a.index(), b.index());
            }
        }
        // Equal values: solid shows 00, its complement 11; a background that shows 01 has a complement that shows 10.
        assert_eq!(ten[0].line(false), LineData::ZERO);
        assert_eq!(ten[0].line(true), LineData([u64::MAX; LINE_WORDS]));
    }

    #[test]
    fn a_background_is_shown_by_its_name() {
        let names: Vec<_> =
            backgrounds(Fidelity::new(12).unwrap(), 0).map(|background| background.to_string()).collect();
        assert_eq!(names[..3], ["solid", "period 2", "period 4"]);
        assert_eq!(names[9..], ["period 512", "random 1", "random 2"]);
    }

    #[test]
    fn nine_backgrounds_are_too_few() {
        let nine = &structured()[..9];
        let (a, b) = (LineBit::new(0).unwrap(), LineBit::new(256).unwrap());
        assert!(nine.iter().all(|background| background.data.bit(a) == background.data.bit(b)));
    }

    proptest! {
        #[test]
        fn a_fidelity_has_so_many_different_backgrounds_and_a_lower_one_is_its_start(
            fidelity in 1_u32..=64, less in 1_u32..=64, seed in any::<u64>()
        ) {
            let all: Vec<_> = backgrounds(Fidelity::new(fidelity).unwrap(), seed).collect();
            let patterns: BTreeSet<_> = all.iter().flat_map(|b| [b.line(false), b.line(true)]).collect();
            prop_assert_eq!(u32::try_from(patterns.len()).unwrap(), 2 * fidelity);
            let fewer: Vec<_> = backgrounds(Fidelity::new(less.min(fidelity)).unwrap(), seed).collect();
            prop_assert_eq!(&all[..fewer.len()], fewer);
        }
    }
}
