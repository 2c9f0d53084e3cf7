//! Order-preserving form of clustering values: byte order of the encoding equals column order.
//!
//! ```text
//! component := 0x01                       empty value (sorts first)
//!            | 0x02 payload               any other value
//! payload   := fixed-width transform      numbers, times, uuids
//!            | escaped bytes 00 00        text, blob, inet (00 in the data becomes 00 ff)
//! ```
//! A descending column has every byte of its component inverted. Components end by themselves,
//! so a key prefix is a byte prefix, and the encoding decodes back to the stored value. One loss:
//! decimals that compare equal (1.0, 1.00) are one key and decode without trailing zeros.

use super::table_schema::ClusteringOrder;
use super::types::DataType;
use crate::error::{Error, Result};
use crate::schema::value::{minimal_twos_complement, sign_extended};

const EMPTY: u8 = 0x01;
const PRESENT: u8 = 0x02;

/// Appends the ordered form of the serialised value `stored` of type `ty`.
///
/// Errors: `Invalid` when `stored` is no value of the type.
pub fn encode_component(
    ty: DataType,
    order: ClusteringOrder,
    stored: &[u8],
    out: &mut Vec<u8>,
) -> Result<()> {
    let start = out.len();
    if stored.is_empty() {
        out.push(EMPTY);
    } else {
        out.push(PRESENT);
        encode_payload(ty, stored, out)?;
    }
    if order == ClusteringOrder::Descending {
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
    Ok(())
}

/// Reads one component from the front of `encoded`, appends its stored form to `out` and returns
/// how many bytes of `encoded` it took.
///
/// Errors: `Invalid` when the bytes are no encoding of the type.
pub fn decode_component(
    ty: DataType,
    order: ClusteringOrder,
    encoded: &[u8],
    out: &mut Vec<u8>,
) -> Result<usize> {
    let flip = if order == ClusteringOrder::Descending { 0xff } else { 0 };
    let wrong = || Error::invalid(format!("bytes are no ordered form of {}", ty.sql_name()));
    match encoded.first().map(|byte| byte ^ flip) {
        Some(EMPTY) => Ok(1),
        Some(PRESENT) => Ok(1 + decode_payload(ty, flip, &encoded[1..], out).ok_or_else(wrong)?),
        _ => Err(wrong()),
    }
}

fn encode_payload(ty: DataType, stored: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let start = out.len();
    let expect = |bytes: usize| {
        if stored.len() == bytes {
            Ok(())
        } else {
            Err(Error::invalid(format!("{} bytes are no {}", stored.len(), ty.sql_name())))
        }
    };
    match ty {
        DataType::Text | DataType::Blob | DataType::Inet => {
            for &byte in stored {
                out.push(byte);
                if byte == 0 {
                    out.push(0xff);
                }
            }
            out.extend_from_slice(&[0, 0]);
        }
        DataType::Boolean
        | DataType::TinyInt
        | DataType::SmallInt
        | DataType::Date
        | DataType::Int
        | DataType::BigInt
        | DataType::Timestamp
        | DataType::Time => {
            expect(ordered_width(ty))?;
            out.extend_from_slice(stored);
            if is_signed(ty) {
                out[start] ^= 0x80;
            }
        }
        DataType::Float | DataType::Double => {
            expect(ordered_width(ty))?;
            out.extend_from_slice(stored);
            flip_float(&mut out[start..]);
        }
        DataType::Uuid => {
            expect(16)?;
            let uuid: &[u8; 16] = stored.try_into().expect("length was checked");
            out.push(uuid[6] >> 4);
            if uuid[6] >> 4 == 1 {
                out.extend_from_slice(&time_of(uuid));
                out.extend_from_slice(&uuid[8..]);
            } else {
                out.extend_from_slice(uuid);
            }
        }
        DataType::TimeUuid => {
            expect(16)?;
            let uuid: &[u8; 16] = stored.try_into().expect("length was checked");
            out.extend_from_slice(&time_of(uuid));
            out.extend(uuid[8..].iter().map(|byte| byte ^ 0x80));
        }
        DataType::Decimal { .. } => encode_decimal(stored, out)?,
    }
    Ok(())
}

fn decode_payload(ty: DataType, flip: u8, encoded: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let start = out.len();
    let width = ordered_width(ty);
    let take = |bytes: usize, out: &mut Vec<u8>| {
        let payload = encoded.get(..bytes)?;
        out.extend(payload.iter().map(|byte| byte ^ flip));
        Some(bytes)
    };
    match ty {
        DataType::Text | DataType::Blob | DataType::Inet => {
            let mut at = 0;
            loop {
                let byte = *encoded.get(at)? ^ flip;
                if byte != 0 {
                    out.push(byte);
                    at += 1;
                    continue;
                }
                match *encoded.get(at + 1)? ^ flip {
                    0 => return Some(at + 2),
                    0xff => out.push(0),
                    _ => return None,
                }
                at += 2;
            }
        }
        DataType::Boolean
        | DataType::TinyInt
        | DataType::SmallInt
        | DataType::Date
        | DataType::Int
        | DataType::BigInt
        | DataType::Timestamp
        | DataType::Time => {
            let taken = take(width, out)?;
            if is_signed(ty) {
                out[start] ^= 0x80;
            }
            Some(taken)
        }
        DataType::Float | DataType::Double => {
            let taken = take(width, out)?;
            unflip_float(&mut out[start..]);
            Some(taken)
        }
        DataType::Uuid => {
            let version = *encoded.first()? ^ flip;
            let payload: Vec<u8> = encoded.get(1..17)?.iter().map(|byte| byte ^ flip).collect();
            if version == 1 {
                out.extend_from_slice(&uuid_of_time(&payload[..8]));
                out.extend_from_slice(&payload[8..]);
            } else {
                out.extend_from_slice(&payload);
            }
            Some(17)
        }
        DataType::TimeUuid => {
            let payload: Vec<u8> = encoded.get(..16)?.iter().map(|byte| byte ^ flip).collect();
            out.extend_from_slice(&uuid_of_time(&payload[..8]));
            out.extend(payload[8..].iter().map(|byte| byte ^ 0x80));
            Some(16)
        }
        DataType::Decimal { .. } => decode_decimal(flip, encoded, out),
    }
}

/// Bytes of the ordered payload of a fixed-width type.
fn ordered_width(ty: DataType) -> usize {
    match ty {
        DataType::Boolean | DataType::TinyInt => 1,
        DataType::SmallInt => 2,
        DataType::Int | DataType::Float | DataType::Date => 4,
        _ => 8,
    }
}

fn is_signed(ty: DataType) -> bool {
    matches!(
        ty,
        DataType::TinyInt
            | DataType::SmallInt
            | DataType::Int
            | DataType::BigInt
            | DataType::Timestamp
    )
}

/// IEEE bits to memcmp order: -inf < .. < -0.0 < 0.0 < .. < inf < NaN.
fn flip_float(bytes: &mut [u8]) {
    if bytes[0] & 0x80 != 0 {
        bytes.iter_mut().for_each(|byte| *byte = !*byte);
    } else {
        bytes[0] ^= 0x80;
    }
}

fn unflip_float(bytes: &mut [u8]) {
    if bytes[0] & 0x80 != 0 {
        bytes[0] ^= 0x80;
    } else {
        bytes.iter_mut().for_each(|byte| *byte = !*byte);
    }
}

/// The 60-bit timestamp of a version 1 UUID with its version nibble on top, most significant first.
fn time_of(uuid: &[u8; 16]) -> [u8; 8] {
    [uuid[6], uuid[7], uuid[4], uuid[5], uuid[0], uuid[1], uuid[2], uuid[3]]
}

fn uuid_of_time(time: &[u8]) -> [u8; 8] {
    [time[4], time[5], time[6], time[7], time[2], time[3], time[0], time[1]]
}

/// sign (0 negative, 1 zero, 2 positive), then exponent (i32, biased) and decimal digits + 1 ended
/// by 0; a negative number has exponent and digits inverted.
fn encode_decimal(stored: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let wrong = || Error::invalid("bytes are no decimal of at most 38 digits");
    let (scale, unscaled) = stored.split_first_chunk::<4>().ok_or_else(wrong)?;
    let unscaled = sign_extended(unscaled).ok_or_else(wrong)?;
    if unscaled == 0 {
        out.push(1);
        return Ok(());
    }
    let digits = unscaled.unsigned_abs().to_string();
    let exponent =
        i64::try_from(digits.len()).map_err(|_| wrong())? - i64::from(i32::from_be_bytes(*scale));
    let biased = (exponent + (1 << 33)) as u64;
    let invert = if unscaled < 0 { 0xff } else { 0 };
    out.push(if unscaled < 0 { 0 } else { 2 });
    out.extend(biased.to_be_bytes()[3..].iter().map(|byte| byte ^ invert));
    out.extend(digits.trim_end_matches('0').bytes().map(|digit| (digit - b'0' + 1) ^ invert));
    out.push(invert);
    Ok(())
}

fn decode_decimal(flip: u8, encoded: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let sign = *encoded.first()? ^ flip;
    if sign == 1 {
        out.extend_from_slice(&[0; 5]);
        return Some(1);
    }
    let invert = flip ^ if sign == 0 { 0xff } else { 0 };
    let mut biased = [0; 8];
    for (byte, encoded) in biased[3..].iter_mut().zip(encoded.get(1..6)?) {
        *byte = encoded ^ invert;
    }
    let exponent = i64::try_from(u64::from_be_bytes(biased)).ok()? - (1 << 33);
    let (mut unscaled, mut digits, mut at) = (0i128, 0i64, 6);
    loop {
        let digit = *encoded.get(at)? ^ invert;
        at += 1;
        if digit == 0 {
            break;
        }
        unscaled = unscaled.checked_mul(10)?.checked_add(i128::from(digit - 1))?;
        digits += 1;
    }
    let scale = i32::try_from(digits - exponent).ok()?;
    let unscaled = if sign == 0 { -unscaled } else { unscaled };
    out.extend_from_slice(&scale.to_be_bytes());
    out.extend_from_slice(minimal_twos_complement(&unscaled.to_be_bytes()));
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::value::Value;

    const DECIMAL: DataType = DataType::Decimal { precision: 38, scale: 0 };

    fn ordered(ty: DataType, order: ClusteringOrder, value: &Value) -> Vec<u8> {
        let mut out = Vec::new();
        encode_component(ty, order, &value.to_bytes(), &mut out).unwrap();
        out
    }

    /// Values of each type in their order, edges included.
    fn ladders() -> Vec<(DataType, Vec<Value>)> {
        let int = |v| Value::Int(v);
        let dec = |unscaled, scale| Value::Decimal { unscaled, scale };
        vec![
            (DataType::Boolean, vec![Value::Boolean(false), Value::Boolean(true)]),
            (DataType::Int, vec![int(i32::MIN), int(-1), int(0), int(1), int(i32::MAX)]),
            (DataType::TinyInt, vec![Value::TinyInt(-128), Value::TinyInt(0), Value::TinyInt(1)]),
            (DataType::Timestamp, vec![Value::Timestamp(-5), Value::Timestamp(7)]),
            (DataType::Date, vec![Value::Date(-1), Value::Date(0), Value::Date(40_000)]),
            (
                DataType::Double,
                [f64::NEG_INFINITY, -1.5, -0.0, 0.0, 1e-300, 2.0, f64::INFINITY, f64::NAN]
                    .into_iter()
                    .map(Value::Double)
                    .collect(),
            ),
            (
                DataType::Text,
                ["\0", "\0a", "a", "a\0", "a\0b", "aa", "b", "ä"]
                    .into_iter()
                    .map(|s| Value::Text(s.into()))
                    .collect(),
            ),
            (
                DECIMAL,
                vec![
                    dec(-12, 0),
                    dec(-11, 0),
                    dec(-2, 1),
                    dec(-1, 9),
                    dec(0, 0),
                    dec(1, 9),
                    dec(5, 1),
                    dec(51, 2),
                    dec(1, 0),
                    dec(99, 1),
                    dec(10, 0),
                    dec(1, -30),
                ],
            ),
        ]
    }

    #[test]
    fn byte_order_equals_value_order_in_both_directions() {
        for (ty, ladder) in ladders() {
            for pair in ladder.windows(2) {
                let asc = |v: &Value| ordered(ty, ClusteringOrder::Ascending, v);
                let desc = |v: &Value| ordered(ty, ClusteringOrder::Descending, v);
                assert!(asc(&pair[0]) < asc(&pair[1]), "{pair:?}");
                assert!(desc(&pair[0]) > desc(&pair[1]), "{pair:?}");
            }
        }
    }

    #[test]
    fn the_encoding_decodes_back() {
        for (ty, ladder) in ladders() {
            for value in ladder {
                for order in [ClusteringOrder::Ascending, ClusteringOrder::Descending] {
                    let mut encoded = ordered(ty, order, &value);
                    let length = encoded.len();
                    encoded.extend_from_slice(b"next component");
                    let mut stored = Vec::new();
                    let taken = decode_component(ty, order, &encoded, &mut stored).unwrap();
                    assert_eq!(taken, length, "{value:?}");
                    if ty == DECIMAL {
                        assert_eq!(
                            ordered(ty, order, &Value::decode(ty, &stored).unwrap()),
                            encoded[..length]
                        );
                    } else {
                        assert_eq!(stored, value.to_bytes(), "{value:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn equal_decimals_are_one_key() {
        let (a, b) =
            (Value::Decimal { unscaled: 10, scale: 1 }, Value::Decimal { unscaled: 100, scale: 2 });
        let asc = ClusteringOrder::Ascending;
        assert_eq!(ordered(DECIMAL, asc, &a), ordered(DECIMAL, asc, &b));
    }

    #[test]
    fn uuids_order_by_version_then_time() {
        let uuid = |text| Value::Uuid(crate::schema::value::parse_uuid(text).unwrap());
        let asc = ClusteringOrder::Ascending;
        let early = uuid("ffffffff-0000-1000-8000-000000000000");
        let late = uuid("00000000-0001-1000-8000-000000000000");
        let random = uuid("00000000-0000-4000-8000-000000000000");
        let rank = |v: &Value| ordered(DataType::Uuid, asc, v);
        assert!(rank(&early) < rank(&late) && rank(&late) < rank(&random));
        for value in [early, late, random] {
            let mut stored = Vec::new();
            decode_component(DataType::Uuid, asc, &rank(&value), &mut stored).unwrap();
            assert_eq!(stored, value.to_bytes());
        }
    }

    #[test]
    fn damaged_encodings_are_errors() {
        let mut out = Vec::new();
        for bytes in [&b""[..], b"\x02", b"\x02ab", b"\x02a\0\x07", b"\x05"] {
            assert!(
                decode_component(DataType::Text, ClusteringOrder::Ascending, bytes, &mut out)
                    .is_err()
            );
        }
    }
}
