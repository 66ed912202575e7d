//! A set of frames, one bit each: 32 MiB for each TiB of memory.

use rampart_memory::Frame;

/// The frames that were seen.
#[derive(Clone, Debug, Default)]
pub struct FrameSet {
    words: Vec<u64>,
    count: u64,
}

impl FrameSet {
    /// Adds a frame.
    pub fn insert(&mut self, frame: Frame) {
        let word = usize::try_from(frame.number() / 64).expect("a frame's number fits a usize");
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let bit = 1 << (frame.number() % 64);
        self.count += u64::from(self.words[word] & bit == 0);
        self.words[word] |= bit;
    }

    /// Whether a frame is in the set.
    pub fn contains(&self, frame: Frame) -> bool {
        let word = usize::try_from(frame.number() / 64).ok().and_then(|word| self.words.get(word));
        word.is_some_and(|word| word >> (frame.number() % 64) & 1 == 1)
    }

    /// How many different frames there are.
    pub const fn len(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_counts_like_a_set(numbers in proptest::collection::vec(0_u64..5000, 0..300)) {
            let mut seen = FrameSet::default();
            numbers.iter().for_each(|&number| seen.insert(Frame::new(number).unwrap()));
            let model: std::collections::BTreeSet<_> = numbers.into_iter().collect();
            prop_assert_eq!(seen.len(), model.len() as u64);
            prop_assert!((0..5000).all(|n| seen.contains(Frame::new(n).unwrap()) == model.contains(&n)));
        }
    }
}
