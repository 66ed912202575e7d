//! Numbers in as few bytes as they need: LEB128.
//!
//! Seven bits per byte, lowest first; the top bit is set on all but the last byte. Rampart's files of schedules and
//! traces are sequences of these.

/// The most bytes of a number.
pub(crate) const MOST_BYTES: usize = 10;

/// Appends a number.
pub(crate) fn put(out: &mut Vec<u8>, mut number: u64) {
    while number > 127 {
        out.push(number.to_le_bytes()[0] | 128);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

/// Why no number could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoLeb128 {
    /// No more bytes.
    Ended,
    /// The number exceeds 64 bits, or the type that it is read for.
    TooLarge,
}

/// Reads numbers one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Leb128Reader<'a> {
    length: usize,
    rest: &'a [u8],
}

impl<'a> Leb128Reader<'a> {
    /// Starts at the first of these bytes; `before` bytes were read earlier.
    pub fn new(rest: &'a [u8], before: usize) -> Self {
        Self { length: before + rest.len(), rest }
    }

    /// The offset of the next number, in bytes.
    pub fn at(&self) -> usize {
        self.length - self.rest.len()
    }

    /// The bytes not yet read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Reads the next number; the position stays if there is none.
    pub fn number(&mut self) -> Result<u64, NoLeb128> {
        let mut number = 0;
        for (place, shift) in (0..64).step_by(7).enumerate() {
            let byte = *self.rest.get(place).ok_or(NoLeb128::Ended)?;
            let bits = u64::from(byte & 127);
            if bits << shift >> shift != bits {
                return Err(NoLeb128::TooLarge);
            }
            number |= bits << shift;
            if byte < 128 {
                self.rest = &self.rest[place + 1..];
                return Ok(number);
            }
        }
        Err(NoLeb128::TooLarge)
    }

    /// Reads the next number, if it fits the type.
    pub fn small<T: TryFrom<u64>>(&mut self) -> Result<T, NoLeb128> {
        T::try_from(self.number()?).map_err(|_| NoLeb128::TooLarge)
    }

    /// Reads `count` bytes as they are.
    pub fn bytes(&mut self, count: u64) -> Result<&'a [u8], NoLeb128> {
        let count = usize::try_from(count).map_err(|_| NoLeb128::Ended)?;
        let (bytes, rest) = self.rest.split_at_checked(count).ok_or(NoLeb128::Ended)?;
        self.rest = rest;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_number_is_told_from_what_is_cut_off() {
        assert_eq!(Leb128Reader::new(&[128, 128], 0).number(), Err(NoLeb128::Ended));
        assert_eq!(Leb128Reader::new(&[255; 10], 0).number(), Err(NoLeb128::TooLarge));
        assert_eq!(Leb128Reader::new(&[128, 2], 0).small::<u8>(), Err(NoLeb128::TooLarge));
        assert_eq!(Leb128Reader::new(&[1, 2], 0).bytes(3), Err(NoLeb128::Ended));
    }

    proptest! {
        #[test]
        fn numbers_come_back_in_their_order(all: Vec<u64>) {
            let mut bytes = Vec::new();
            all.iter().for_each(|number| put(&mut bytes, *number));
            let mut numbers = Leb128Reader::new(&bytes, 0);
            for number in all {
                prop_assert_eq!(numbers.number(), Ok(number));
            }
            prop_assert!(numbers.rest().is_empty());
        }
    }
}
