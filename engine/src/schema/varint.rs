//! Integers of any length: big-endian two's complement, as stored, and decimal digits.

/// The decimal digits of an integer in big-endian two's complement.
pub fn format_varint(bytes: &[u8]) -> String {
    let is_negative = bytes.first().is_some_and(|first| *first >= 0x80);
    let mut magnitude: Vec<u8> = bytes.to_vec();
    if is_negative {
        negate(&mut magnitude);
    }
    let mut digits = Vec::new();
    while magnitude.iter().any(|byte| *byte != 0) {
        let mut rest = 0u32;
        for byte in &mut magnitude {
            let part = rest << 8 | u32::from(*byte);
            *byte = (part / 10) as u8;
            rest = part % 10;
        }
        digits.push(char::from(b'0' + rest as u8));
    }
    if digits.is_empty() {
        digits.push('0');
    }
    if is_negative {
        digits.push('-');
    }
    digits.into_iter().rev().collect()
}

/// The shortest big-endian two's complement of an integer in decimal digits.
pub fn parse_varint(text: &str) -> Option<Vec<u8>> {
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    // Ten bits take three digits; one byte more holds the sign.
    let mut bytes = vec![0u8; digits.len() * 10 / 24 + 2];
    for digit in digits.bytes() {
        let mut carry = u32::from(digit - b'0');
        for byte in bytes.iter_mut().rev() {
            carry += u32::from(*byte) * 10;
            *byte = carry as u8;
            carry >>= 8;
        }
    }
    if is_negative {
        negate(&mut bytes);
    }
    Some(minimal_twos_complement(&bytes).to_vec())
}

fn negate(bytes: &mut [u8]) {
    let mut carry = true;
    for byte in bytes.iter_mut().rev() {
        let (value, over) = (!*byte).overflowing_add(u8::from(carry));
        *byte = value;
        carry = over;
    }
}

/// The shortest two's complement form that keeps the sign.
pub(crate) fn minimal_twos_complement(bytes: &[u8]) -> &[u8] {
    let mut start = 0;
    while start + 1 < bytes.len() {
        let redundant = (bytes[start] == 0 && bytes[start + 1] < 0x80)
            || (bytes[start] == 0xff && bytes[start + 1] >= 0x80);
        if !redundant {
            break;
        }
        start += 1;
    }
    &bytes[start..]
}

/// Big-endian two's complement of 1 to 16 bytes.
#[inline]
pub(crate) fn sign_extended(bytes: &[u8]) -> Option<i128> {
    if bytes.is_empty() || bytes.len() > 16 {
        return None;
    }
    // Most numbers are short, and those take no copy.
    if bytes.len() <= 4 {
        let first = if bytes[0] >= 0x80 { -1i32 } else { 0 };
        let number = bytes.iter().fold(first, |number, byte| number << 8 | i32::from(*byte));
        return Some(i128::from(number));
    }
    let mut wide = [if bytes[0] >= 0x80 { 0xff } else { 0 }; 16];
    wide[16 - bytes.len()..].copy_from_slice(bytes);
    Some(i128::from_be_bytes(wide))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_length_are_sign_extended() {
        for shift in 0..127 {
            let power = 1i128 << shift;
            for number in [power - 1, power, power + 1, -power - 1, -power, 1 - power] {
                let all = number.to_be_bytes();
                let shortest = minimal_twos_complement(&all);
                assert_eq!(sign_extended(shortest), Some(number), "{shortest:?}");
                assert_eq!(sign_extended(&all), Some(number));
            }
        }
        assert_eq!((sign_extended(&[]), sign_extended(&[0; 17])), (None, None));
    }

    #[test]
    fn varints_of_any_length_read_and_write_their_digits() {
        let long = "-123456789012345678901234567890123456789012345678901234567890";
        for text in ["0", "-1", "127", "128", "-128", "-129", "255", "65536", long, &long[1..]] {
            let bytes = parse_varint(text).unwrap();
            assert_eq!(format_varint(&bytes), text);
            assert_eq!(minimal_twos_complement(&bytes), bytes);
        }
        assert_eq!(parse_varint("128"), Some(vec![0, 0x80]));
        assert_eq!(parse_varint("-128"), Some(vec![0x80]));
        assert_eq!(parse_varint("+007"), Some(vec![7]));
        for wrong in ["", "-", "1.5", "x"] {
            assert_eq!(parse_varint(wrong), None);
        }
    }
}
