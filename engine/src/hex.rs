//! Bytes as pairs of lower-case hex digits, and back.

use std::fmt;

/// Bytes that are shown as hex digits.
#[derive(Debug, Clone, Copy)]
pub struct Hex<'a>(pub &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The bytes that hex digits say; `None` where they say none.
pub fn unhex(digits: &str) -> Option<Vec<u8>> {
    // A sign is no digit, though numbers may begin with one.
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    if !digits.len().is_multiple_of(2) || !is_hex {
        return None;
    }
    let pairs = (0..digits.len()).step_by(2).map(|at| &digits[at..at + 2]);
    pairs.map(|pair| u8::from_str_radix(pair, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_bytes_and_bytes_are_digits() {
        assert_eq!(Hex(&[0, 0x0a, 0xff]).to_string(), "000aff");
        assert_eq!(unhex("000aFF"), Some(vec![0, 0x0a, 0xff]));
        assert_eq!(unhex(""), Some(Vec::new()));
        for wrong in ["0", "0g", "é", "aé", "+f", "-0", "+f+f"] {
            assert_eq!(unhex(wrong), None, "{wrong}");
        }
    }
}
