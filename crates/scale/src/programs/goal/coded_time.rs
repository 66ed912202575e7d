//! Times of computations in 32 bits: whole nanoseconds below 1.07 s, picoseconds below 1.07 ms, and others by their
//! place in a list.

const PICOS: u32 = 1 << 30;
const LISTED: u32 = 1 << 31;

/// The code of a time in picoseconds, which may be added to the list; `None` if that is full.
pub(super) fn of(picos: u64, list: &mut Vec<u64>) -> Option<u32> {
    let below = |number: u64| u32::try_from(number).ok().filter(|number| *number < PICOS);
    let nanos = if picos.is_multiple_of(1000) { below(picos / 1000) } else { None };
    if let Some(code) = nanos.or_else(|| Some(PICOS | below(picos)?)) {
        return Some(code);
    }
    let place = u32::try_from(list.len()).ok().filter(|place| *place < LISTED)?;
    list.push(picos);
    Some(LISTED | place)
}

/// The picoseconds of a code.
pub(super) fn picos(code: u32, list: &[u64]) -> u64 {
    match code {
        ..PICOS => 1000 * u64::from(code),
        PICOS..LISTED => u64::from(code - PICOS),
        LISTED.. => list[(code - LISTED) as usize],
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_on_either_side_of_each_limit_come_back() {
        let limits = [0, 1000, u64::from(PICOS), 1000 * u64::from(PICOS), u64::MAX - 1];
        let mut list = Vec::new();
        for time in limits.into_iter().flat_map(|limit| [limit.saturating_sub(1), limit, limit + 1]) {
            let code = of(time, &mut list).unwrap();
            assert_eq!(picos(code, &list), time);
        }
        assert_eq!(list.len(), 8, "only what fits no code is listed");
    }

    proptest! {
        #[test]
        fn any_time_comes_back(times: Vec<u64>, shift in 0..64_u32) {
            let mut list = Vec::new();
            let codes: Vec<u32> = times.iter().map(|time| of(time >> shift, &mut list).unwrap()).collect();
            let back: Vec<u64> = codes.into_iter().map(|code| picos(code, &list)).collect();
            prop_assert_eq!(back, times.iter().map(|time| time >> shift).collect::<Vec<_>>());
        }
    }
}
