//! Decimals and integers of more digits than 128 bits hold.

use arrow::datatypes::i256;

use crate::schema::varint::minimal_twos_complement;

/// Big-endian two's complement as a number; `None` where it has over 32 bytes or none.
pub(super) fn from_bytes(bytes: &[u8]) -> Option<i256> {
    let first = *bytes.first()?;
    let mut wide = [if first >= 0x80 { 0xff } else { 0 }; 32];
    let start = 32usize.checked_sub(bytes.len())?;
    wide[start..].copy_from_slice(bytes);
    Some(i256::from_be_bytes(wide))
}

/// The shortest big-endian two's complement.
pub(super) fn to_bytes(number: i256) -> Vec<u8> {
    minimal_twos_complement(&number.to_be_bytes()).to_vec()
}

fn power_of_ten(exponent: u64) -> Option<i256> {
    i256::from_i128(10).checked_pow(u32::try_from(exponent).ok()?)
}

/// Multiplies by 10^shift without loss.
pub(super) fn rescale(number: i256, shift: i64) -> Option<i256> {
    if number == i256::ZERO {
        return Some(number);
    }
    let power = power_of_ten(shift.unsigned_abs())?;
    if shift >= 0 {
        number.checked_mul(power)
    } else {
        (number.checked_rem(power)? == i256::ZERO).then(|| number.wrapping_div(power))
    }
}

/// Whether a number has no more than `digits` digits.
pub(super) fn has_digits(number: i256, digits: u8) -> bool {
    let Some(bound) = power_of_ten(u64::from(digits)) else { return true };
    number < bound && number > bound.wrapping_neg()
}

/// `number` x 10^-`scale` with fewer digits where these are zeros: behind the point all of them,
/// before it as many as 128 bits ask for. `None` where more digits count.
pub(super) fn narrow(number: i256, scale: i32) -> Option<(i128, i32)> {
    let ten = i256::from_i128(10);
    let (mut number, mut scale) = (number, scale);
    if number == i256::ZERO {
        return Some((0, 0));
    }
    while scale > 0 || number.to_i128().is_none() {
        if number.checked_rem(ten)? != i256::ZERO {
            break;
        }
        number = number.wrapping_div(ten);
        scale -= 1;
    }
    Some((number.to_i128()?, scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_every_digit_or_are_none() {
        let big = from_bytes(&[0x7f; 32]).unwrap();
        assert_eq!(to_bytes(big), [0x7f; 32]);
        assert_eq!(from_bytes(&[0xff; 33]), None);
        assert_eq!(from_bytes(&[]), None);
        assert_eq!(to_bytes(from_bytes(&[0xff, 0xff, 0x80]).unwrap()), [0x80]);
        let one = i256::ONE;
        let wide = rescale(one, 58).unwrap();
        assert_eq!(narrow(wide, 38), Some((10i128.pow(20), 0)));
        let widest = rescale(i256::from_i128(2), 76).unwrap();
        assert_eq!(narrow(widest, 38), Some((2 * 10i128.pow(37), -1)));
        assert_eq!(narrow(rescale(i256::from_i128(15), 37).unwrap(), 38), Some((15, 1)));
        assert_eq!(narrow(rescale(i256::from_i128(200), 38).unwrap(), 38), Some((200, 0)));
        assert_eq!(rescale(one, 77), None);
        assert_eq!(rescale(i256::from_i128(15), -1), None);
        assert_eq!(rescale(i256::ZERO, -500), Some(i256::ZERO));
        assert!(has_digits(wide, 59) && !has_digits(wide, 58));
    }

    /// Up to the widest column that there is.
    #[test]
    fn digits_are_counted_alike_on_both_sides_of_zero() {
        for digits in [1, 2, 38, 39, 57, 75, 76] {
            let bound = rescale(i256::ONE, i64::from(digits)).unwrap();
            for (number, fits) in [(bound.wrapping_sub(i256::ONE), true), (bound, false)] {
                for number in [number, number.wrapping_neg()] {
                    assert_eq!(has_digits(number, digits), fits, "{number} in {digits} digits");
                }
            }
        }
        for number in [i256::MIN, i256::MAX] {
            assert!(!has_digits(number, 76), "{number}");
        }
    }

    #[test]
    fn numbers_keep_their_sign_when_they_lose_zeros() {
        for sign in [1, -1] {
            let number = |unsigned: i128| i256::from_i128(sign * unsigned);
            assert_eq!(rescale(number(1500), -2), Some(number(15)));
            assert_eq!(rescale(number(1501), -2), None);
            assert_eq!(narrow(rescale(number(15), 37).unwrap(), 38), Some((sign * 15, 1)));
            let wide = rescale(number(1), 58).unwrap();
            assert_eq!(narrow(wide, 38), Some((sign * 10i128.pow(20), 0)));
            assert_eq!(from_bytes(&to_bytes(wide)), Some(wide));
        }
    }
}
