//! The field of 256 elements modulo x^8 + x^4 + x^3 + x^2 + 1 (0x11d), in which 2 is primitive: its first 255 powers
//! are all elements but 0. It is the field of RAID 6 (Anvin, "The mathematics of RAID-6").

/// The polynomial without x^8.
pub(crate) const POLYNOMIAL: u8 = 0x1d;

/// The product with 2.
pub(crate) const fn double(element: u8) -> u8 {
    element << 1 ^ if element >> 7 == 1 { POLYNOMIAL } else { 0 }
}

/// The product with 2 to the power of `exponent`.
pub(crate) const fn times_power(mut element: u8, exponent: usize) -> u8 {
    let mut done = 0;
    while done < exponent {
        element = double(element);
        done += 1;
    }
    element
}

/// The exponent of 2 that gives each element, 0 to 254. The entry of 0 has no meaning.
const EXPONENTS: [u8; 256] = {
    let mut exponents = [0; 256];
    let (mut power, mut exponent) = (1, 0);
    while exponent < 255 {
        exponents[power as usize] = exponent;
        power = double(power);
        exponent += 1;
    }
    exponents
};

/// The exponent of 2 by which `element` must be multiplied to give `product`, 0 to 254; `None` if one of them is 0.
pub(crate) const fn exponent_between(element: u8, product: u8) -> Option<usize> {
    if element == 0 || product == 0 {
        return None;
    }
    let (from, to) = (EXPONENTS[element as usize] as usize, EXPONENTS[product as usize] as usize);
    Some((to + 255 - from) % 255)
}

/// The products with 2^4: of the 16 elements with a high half of 0, and of the 16 with a low half of 0.
pub(crate) const TIMES_16: [[u8; 16]; 2] = {
    let mut tables = [[0; 16]; 2];
    let mut nibble = 0_u8;
    while nibble < 16 {
        tables[0][nibble as usize] = times_power(nibble, 4);
        tables[1][nibble as usize] = times_power(nibble << 4, 4);
        nibble += 1;
    }
    tables
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference_model;

    #[test]
    fn products_with_powers_of_2_are_those_of_the_schoolbook() {
        let mut power = 1;
        for exponent in 0..255 {
            for element in 0..=u8::MAX {
                let product = reference_model::product(element, power);
                assert_eq!(times_power(element, exponent), product, "{element} times 2^{exponent}");
                let found = (element != 0).then_some(exponent);
                assert_eq!(exponent_between(element, product), found, "{element} to {product}");
            }
            power = reference_model::product(power, 2);
        }
        assert_eq!(power, 1, "2 is primitive");
        assert_eq!([exponent_between(0, 7), exponent_between(7, 0), exponent_between(0, 0)], [None; 3]);
    }

    #[test]
    fn a_product_with_16_is_the_sum_of_those_of_its_halves() {
        for element in 0..=u8::MAX {
            let [low, high] = TIMES_16;
            let sum = low[usize::from(element & 15)] ^ high[usize::from(element >> 4)];
            assert_eq!(sum, times_power(element, 4));
        }
    }
}
