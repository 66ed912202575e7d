//! The least heap that a program runs in.

/// How far the least heap may be from the one that is found, as a share of it: one in this many.
const ACCURACY: u64 = 100;

/// The least number of bytes that fits, up to 1 % more, among multiples of a granule. `guess` is such a multiple,
/// and one that is near saves tries. Less fits only if more fits.
///
/// # Errors
/// That of `fits`, or if nothing up to `most` fits.
pub fn least(
    granule: u64,
    guess: u64,
    most: u64,
    mut fits: impl FnMut(u64) -> Result<bool, String>,
) -> Result<u64, String> {
    let (mut low, mut high) = (0, guess);
    while !fits(high)? {
        low = high;
        high *= 2;
        if high > most {
            return Err(format!("nothing up to {most} bytes is enough"));
        }
    }
    while high - low > granule.max(high / ACCURACY) {
        let middle = low + (high - low) / 2 / granule * granule;
        if middle == low {
            break;
        }
        if fits(middle)? {
            high = middle;
        } else {
            low = middle;
        }
    }
    Ok(high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_least_that_fits_up_to_a_hundredth() {
        for exact in [1, 64, 65, 1000, 4096, 123_456, 10_000_000] {
            let mut tries = 0;
            let found = least(64, 64, 1 << 30, |bytes| {
                tries += 1;
                assert!(bytes.is_multiple_of(64), "{bytes}");
                Ok(bytes >= exact)
            });
            let found = found.unwrap();
            assert!(found >= exact && found - exact < (found / 100).max(64), "{exact}: {found}");
            assert!(tries < 40, "{exact}: {tries} tries");
        }
    }

    #[test]
    fn what_fits_nowhere_or_fails_is_told() {
        assert!(least(64, 64, 1 << 20, |_| Ok(false)).unwrap_err().contains("1048576"));
        assert_eq!(least(64, 64, 1 << 20, |_| Err("gone".into())).unwrap_err(), "gone");
    }
}
