//! Order-preserving form of clustering values: byte order of the encoding equals column order.
//!
//! ```text
//! component := 0x00 0x01                  null (sorts first): rows of old tables may lack values
//!            | 0x01                       empty value
//!            | 0x02 payload               any other value
//! payload   := fixed-width transform      numbers, times, uuids
//!            | escaped bytes 00 00        text, blob, inet (00 in the data becomes 00 ff)
//!            | component* 00              frozen list, set; frozen map (keys and values in turn)
//!            | (00 | component)*          tuple, frozen user type: 00 is a null field
//! ```
//! A descending column has every byte of its component inverted. Components end by themselves, so a
//! key prefix is a byte prefix, and the encoding decodes back to the stored value. Losses: decimals
//! that compare equal (1.0, 1.00) are one key and decode without trailing zeros, integers of any
//! length decode in their shortest form, and fields that a tuple lacks at its end decode as null.

use super::frozen;
use super::table_schema::ClusteringOrder;
use super::types::DataType;
use super::varint::{minimal_twos_complement, sign_extended};
use crate::error::{Error, Result};

/// Ends a collection; stands for a field that is null.
const END: u8 = 0x00;
const EMPTY: u8 = 0x01;
const PRESENT: u8 = 0x02;
/// Two bytes, so that a component never consists of 0xff alone when it is inverted.
const NULL: [u8; 2] = [0x00, 0x01];

/// Appends the ordered form of the serialised value `stored` of type `ty`.
///
/// Errors: `Invalid` when `stored` is no value of the type.
pub fn encode_component(
    ty: &DataType,
    order: ClusteringOrder,
    stored: &[u8],
    out: &mut Vec<u8>,
) -> Result<()> {
    let start = out.len();
    encode_value(ty, stored, out)?;
    if order == ClusteringOrder::Descending {
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
    Ok(())
}

/// Appends the ordered form of a missing value.
pub fn encode_null(order: ClusteringOrder, out: &mut Vec<u8>) {
    let flip = if order == ClusteringOrder::Descending { 0xff } else { 0 };
    out.extend(NULL.map(|byte| byte ^ flip));
}

/// Whether the component at the front of `encoded` is a missing value.
#[inline]
pub fn is_null(order: ClusteringOrder, encoded: &[u8]) -> bool {
    let flip = if order == ClusteringOrder::Descending { 0xff } else { 0 };
    encoded.first().is_some_and(|byte| byte ^ flip == NULL[0])
}

/// Reads one component from the front of `encoded`, appends its stored form to `out` and returns
/// how many bytes of `encoded` it took. Of a missing value nothing is appended: [`is_null`] tells
/// it from an empty one.
///
/// Errors: `Invalid` when the bytes are no encoding of the type.
pub fn decode_component(
    ty: &DataType,
    order: ClusteringOrder,
    encoded: &[u8],
    out: &mut Vec<u8>,
) -> Result<usize> {
    let flip = if order == ClusteringOrder::Descending { 0xff } else { 0 };
    if encoded.first_chunk() == Some(&NULL.map(|byte| byte ^ flip)) {
        return Ok(NULL.len());
    }
    decode_value(ty, flip, encoded, out)
        .ok_or_else(|| Error::invalid(format!("bytes are no ordered form of {}", ty.sql_name())))
}

/// How values of a type come back from their ordered form where that has the same bytes but for
/// their sign and the order.
#[derive(Debug, Clone, Copy)]
pub struct Plain {
    width: usize,
    mark: u8,
    /// Which bits of the value are the other way round.
    flipped: [u8; 8],
}

impl Plain {
    /// `None` where the type has no such form.
    pub fn of(ty: &DataType, order: ClusteringOrder) -> Option<Self> {
        let is_plain = matches!(
            ty,
            DataType::Boolean
                | DataType::TinyInt
                | DataType::SmallInt
                | DataType::Date
                | DataType::Int
                | DataType::BigInt
                | DataType::Timestamp
                | DataType::Time
        );
        let flip = if order == ClusteringOrder::Descending { 0xff } else { 0 };
        let mut flipped = [flip; 8];
        flipped[0] ^= if is_signed(ty) { 0x80 } else { 0 };
        is_plain.then_some(Plain { width: ordered_width(ty), mark: PRESENT ^ flip, flipped })
    }

    /// As `decode_component`: the stored form, in `room`, and how many bytes of `encoded` it took.
    /// `None` where the value is empty, or the bytes are no encoding of the type.
    #[inline]
    pub fn decode<'r>(&self, encoded: &[u8], room: &'r mut [u8; 8]) -> Option<(&'r [u8], usize)> {
        let (mark, payload) = encoded.split_first()?;
        if *mark != self.mark {
            return None;
        }
        let payload = payload.get(..self.width)?;
        // Most numbers are of these lengths, and such a copy is one load.
        match payload.len() {
            8 => room.copy_from_slice(payload),
            4 => room[..4].copy_from_slice(payload),
            width => room[..width].copy_from_slice(payload),
        }
        *room = (u64::from_ne_bytes(*room) ^ u64::from_ne_bytes(self.flipped)).to_ne_bytes();
        Some((&room[..self.width], 1 + self.width))
    }
}

fn encode_value(ty: &DataType, stored: &[u8], out: &mut Vec<u8>) -> Result<()> {
    if stored.is_empty() {
        out.push(EMPTY);
        return Ok(());
    }
    out.push(PRESENT);
    encode_payload(ty, stored, out)
}

fn decode_value(ty: &DataType, flip: u8, encoded: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    match encoded.first()? ^ flip {
        EMPTY => Some(1),
        PRESENT => Some(1 + decode_payload(ty, flip, &encoded[1..], out)?),
        _ => None,
    }
}

/// Elements of types that take turns, up to the end mark.
fn encode_elements(
    ty: &DataType,
    types: &[&DataType],
    stored: &[u8],
    out: &mut Vec<u8>,
) -> Result<()> {
    let wrong = || Error::invalid(format!("bytes are no {}", ty.sql_name()));
    let elements = frozen::elements(stored, types.len()).ok_or_else(wrong)?;
    for (element, ty) in elements.into_iter().zip(types.iter().cycle()) {
        encode_value(ty, element.ok_or_else(wrong)?, out)?;
    }
    out.push(END);
    Ok(())
}

fn decode_elements(
    types: &[&DataType],
    flip: u8,
    encoded: &[u8],
    out: &mut Vec<u8>,
) -> Option<usize> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    let (mut at, mut count) = (0, 0usize);
    while *encoded.get(at)? ^ flip != END {
        at += decode_part(types[count % types.len()], flip, &encoded[at..], out)?;
        count += 1;
    }
    if !count.is_multiple_of(types.len()) {
        return None;
    }
    let count = u32::try_from(count / types.len()).ok()?;
    out[start..start + 4].copy_from_slice(&count.to_be_bytes());
    Some(at + 1)
}

/// Decodes an element or field with its length before it.
fn decode_part(ty: &DataType, flip: u8, encoded: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    let taken = decode_value(ty, flip, encoded, out)?;
    let length = u32::try_from(out.len() - start - 4).ok()?;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    Some(taken)
}

fn encode_fields<'a>(
    ty: &DataType,
    types: impl ExactSizeIterator<Item = &'a DataType>,
    stored: &[u8],
    out: &mut Vec<u8>,
) -> Result<()> {
    let wrong = || Error::invalid(format!("bytes are no {}", ty.sql_name()));
    let fields = frozen::fields(stored, types.len()).ok_or_else(wrong)?;
    for (field, ty) in fields.into_iter().zip(types) {
        match field {
            Some(field) => encode_value(ty, field, out)?,
            None => out.push(END),
        }
    }
    Ok(())
}

fn decode_fields<'a>(
    types: impl Iterator<Item = &'a DataType>,
    flip: u8,
    encoded: &[u8],
    out: &mut Vec<u8>,
) -> Option<usize> {
    let mut at = 0;
    for ty in types {
        if *encoded.get(at)? ^ flip == END {
            frozen::put(None, out);
            at += 1;
        } else {
            at += decode_part(ty, flip, &encoded[at..], out)?;
        }
    }
    Some(at)
}

fn encode_payload(ty: &DataType, stored: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let start = out.len();
    let expect = |bytes: usize| {
        if stored.len() == bytes {
            Ok(())
        } else {
            Err(Error::invalid(format!("{} bytes are no {}", stored.len(), ty.sql_name())))
        }
    };
    match ty {
        DataType::Text | DataType::Blob | DataType::Inet => encode_bytes(stored, out),
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
        DataType::Varint => encode_varint(stored, out),
        DataType::Frozen(inner) => encode_payload(inner, stored, out)?,
        DataType::List(element) | DataType::Set(element) => {
            encode_elements(ty, &[element], stored, out)?;
        }
        DataType::Map(key, value) => encode_elements(ty, &[key, value], stored, out)?,
        DataType::Tuple(fields) => encode_fields(ty, fields.iter(), stored, out)?,
        DataType::User(user) => {
            encode_fields(ty, user.fields.iter().map(|(_, ty)| ty), stored, out)?;
        }
        DataType::Duration | DataType::Counter => {
            return Err(Error::invalid(format!("values of {} have no order", ty.sql_name())));
        }
    }
    Ok(())
}

fn decode_payload(ty: &DataType, flip: u8, encoded: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let start = out.len();
    let width = ordered_width(ty);
    let take = |bytes: usize, out: &mut Vec<u8>| {
        let payload = encoded.get(..bytes)?;
        out.extend(payload.iter().map(|byte| byte ^ flip));
        Some(bytes)
    };
    match ty {
        DataType::Text | DataType::Blob | DataType::Inet => decode_bytes(flip, encoded, out),
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
        DataType::Varint => decode_varint(flip, encoded, out),
        DataType::Frozen(inner) => decode_payload(inner, flip, encoded, out),
        DataType::List(element) | DataType::Set(element) => {
            decode_elements(&[element], flip, encoded, out)
        }
        DataType::Map(key, value) => decode_elements(&[key, value], flip, encoded, out),
        DataType::Tuple(fields) => decode_fields(fields.iter(), flip, encoded, out),
        DataType::User(user) => {
            decode_fields(user.fields.iter().map(|(_, ty)| ty), flip, encoded, out)
        }
        DataType::Duration | DataType::Counter => None,
    }
}

/// Bytes of any number, which end with two zeros; a zero among them is escaped.
fn encode_bytes(stored: &[u8], out: &mut Vec<u8>) {
    for &byte in stored {
        out.push(byte);
        if byte == 0 {
            out.push(0xff);
        }
    }
    out.extend_from_slice(&[0, 0]);
}

fn decode_bytes(flip: u8, encoded: &[u8], out: &mut Vec<u8>) -> Option<usize> {
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

/// Bytes of the ordered payload of a fixed-width type.
fn ordered_width(ty: &DataType) -> usize {
    match ty {
        DataType::Boolean | DataType::TinyInt => 1,
        DataType::SmallInt => 2,
        DataType::Int | DataType::Float | DataType::Date => 4,
        _ => 8,
    }
}

fn is_signed(ty: &DataType) -> bool {
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

/// sign (0 negative, 1 not), then the length (inverted where negative, for the longer is the less)
/// and the bytes.
fn encode_varint(stored: &[u8], out: &mut Vec<u8>) {
    let bytes = minimal_twos_complement(stored);
    let is_negative = bytes[0] >= 0x80;
    let length = bytes.len() as u32;
    out.push(u8::from(!is_negative));
    out.extend_from_slice(&if is_negative { !length } else { length }.to_be_bytes());
    out.extend_from_slice(bytes);
}

fn decode_varint(flip: u8, encoded: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let (front, rest) = encoded.split_first_chunk::<5>()?;
    let front = front.map(|byte| byte ^ flip);
    let length = u32::from_be_bytes([front[1], front[2], front[3], front[4]]);
    let length = match front[0] {
        0 => !length,
        1 => length,
        _ => return None,
    };
    let bytes = rest.get(..length as usize).filter(|bytes| !bytes.is_empty())?;
    out.extend(bytes.iter().map(|byte| byte ^ flip));
    Some(5 + bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::value::Value;

    const DECIMAL: DataType = DataType::Decimal { precision: 38, scale: 0 };

    fn ordered(ty: &DataType, order: ClusteringOrder, value: &Value) -> Vec<u8> {
        let mut out = Vec::new();
        encode_component(ty, order, &value.to_bytes(), &mut out).unwrap();
        out
    }

    /// Values of each type in their order, edges included.
    fn ladders() -> Vec<(DataType, Vec<Value>)> {
        [ladders_of_scalars(), ladders_of_collections()].concat()
    }

    fn ladders_of_scalars() -> Vec<(DataType, Vec<Value>)> {
        let int = |v| Value::Int(v);
        let dec = |unscaled, scale| Value::Decimal { unscaled, scale };
        // Of one time the other bytes decide, as signed ones.
        let time_uuid = |time, rest: i8| {
            let mut bytes = [0; 16];
            (bytes[3], bytes[6], bytes[8]) = (time, 0x10, rest as u8);
            Value::TimeUuid(bytes)
        };
        vec![
            (
                DataType::TimeUuid,
                [(1, -128), (1, -1), (1, 0), (1, 127), (2, -128)]
                    .map(|(time, rest)| time_uuid(time, rest))
                    .to_vec(),
            ),
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
            (
                DataType::Varint,
                [
                    &[0x80, 0, 0][..],
                    &[0xff, 0x7f],
                    &[0x80],
                    &[0xff],
                    &[0],
                    &[1],
                    &[0, 0x80],
                    &[1, 0],
                ]
                .into_iter()
                .map(|bytes| Value::Varint(bytes.to_vec()))
                .collect(),
            ),
        ]
    }

    fn ladders_of_collections() -> Vec<(DataType, Vec<Value>)> {
        let int = |v| Value::Int(v);
        vec![
            (
                DataType::list_of(DataType::Int).frozen(),
                [&[][..], &[-1], &[-1, -1], &[1], &[1, -5], &[1, 2], &[2]]
                    .into_iter()
                    .map(|ints: &[i32]| Value::List(ints.iter().copied().map(int).collect()))
                    .collect(),
            ),
            (
                DataType::map_of(DataType::Text, DataType::Int).frozen(),
                [&[][..], &[("", 9)], &[("a", 1)], &[("a", 1), ("b", 0)], &[("a", 2)], &[("b", 0)]]
                    .into_iter()
                    .map(|entries: &[(&str, i32)]| {
                        let entry =
                            |(key, value): &(&str, i32)| (Value::Text((*key).into()), int(*value));
                        Value::Map(entries.iter().map(entry).collect())
                    })
                    .collect(),
            ),
            (
                DataType::tuple_of([DataType::Int, DataType::list_of(DataType::Text)]),
                [
                    (None, None),
                    (None, Some(&[][..])),
                    (None, Some(&["b"])),
                    (Some(-1), Some(&["z"])),
                    (Some(1), None),
                    (Some(1), Some(&[])),
                    (Some(1), Some(&["", ""])),
                    (Some(1), Some(&["\0"])),
                ]
                .into_iter()
                .map(|(a, b): (Option<i32>, Option<&[&str]>)| {
                    let list = b.map(|texts| {
                        Value::List(texts.iter().map(|text| Value::Text((*text).into())).collect())
                    });
                    Value::Tuple(vec![a.map(int), list])
                })
                .collect(),
            ),
        ]
    }

    #[test]
    fn byte_order_equals_value_order_in_both_directions() {
        for (ty, ladder) in ladders() {
            for pair in ladder.windows(2) {
                let asc = |v: &Value| ordered(&ty, ClusteringOrder::Ascending, v);
                let desc = |v: &Value| ordered(&ty, ClusteringOrder::Descending, v);
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
                    let mut encoded = ordered(&ty, order, &value);
                    let length = encoded.len();
                    encoded.extend_from_slice(b"next component");
                    let mut stored = Vec::new();
                    let taken = decode_component(&ty, order, &encoded, &mut stored).unwrap();
                    assert_eq!(taken, length, "{value:?}");
                    let (mut room, of_type) = ([0; 8], Plain::of(&ty, order));
                    let plain = of_type.and_then(|plain| plain.decode(&encoded, &mut room));
                    assert_eq!(plain.is_some(), of_type.is_some() && !stored.is_empty());
                    assert!(plain.is_none_or(|plain| plain == (&*stored, length)), "{value:?}");
                    if ty == DECIMAL {
                        assert_eq!(
                            ordered(&ty, order, &Value::decode(&ty, &stored).unwrap()),
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
    fn a_missing_value_stands_before_an_empty_one() {
        for (ty, ladder) in ladders() {
            for order in [ClusteringOrder::Ascending, ClusteringOrder::Descending] {
                let (mut null, mut empty) = (Vec::new(), Vec::new());
                encode_null(order, &mut null);
                encode_component(&ty, order, &[], &mut empty).unwrap();
                assert!(is_null(order, &null) && !is_null(order, &empty) && !is_null(order, &[]));
                let rest = ordered(&ty, order, &ladder[0]);
                assert!(!is_null(order, &rest));
                let is_ascending = order == ClusteringOrder::Ascending;
                assert!((null < empty) == is_ascending && (empty < rest) == is_ascending);
                let (mut out, length) = (Vec::new(), null.len());
                null.extend_from_slice(&rest);
                assert_eq!(decode_component(&ty, order, &null, &mut out).unwrap(), length);
                assert!(out.is_empty());
                assert!(decode_component(&ty, order, &null[..1], &mut out).is_err());
            }
        }
    }

    #[test]
    fn equal_decimals_are_one_key() {
        let (a, b) =
            (Value::Decimal { unscaled: 10, scale: 1 }, Value::Decimal { unscaled: 100, scale: 2 });
        let asc = ClusteringOrder::Ascending;
        assert_eq!(ordered(&DECIMAL, asc, &a), ordered(&DECIMAL, asc, &b));
    }

    #[test]
    fn fields_that_are_missing_are_null() {
        let ty = DataType::tuple_of([DataType::Int, DataType::Int]);
        let whole = Value::Tuple(vec![Some(Value::Int(1)), None]).to_bytes();
        let asc = ClusteringOrder::Ascending;
        let (mut a, mut b, mut stored) = (Vec::new(), Vec::new(), Vec::new());
        encode_component(&ty, asc, &whole, &mut a).unwrap();
        encode_component(&ty, asc, &whole[..8], &mut b).unwrap();
        assert_eq!(a, b);
        decode_component(&ty, asc, &a, &mut stored).unwrap();
        assert_eq!(stored, whole);
        let list = DataType::list_of(DataType::Int);
        let with_null = [0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff];
        assert!(encode_component(&list, asc, &with_null, &mut a).is_err());
        assert!(encode_component(&DataType::Duration, asc, &[0, 0, 0], &mut a).is_err());
    }

    #[test]
    fn uuids_order_by_version_then_time() {
        let uuid = |text| Value::Uuid(crate::schema::value::parse_uuid(text).unwrap());
        let asc = ClusteringOrder::Ascending;
        let early = uuid("ffffffff-0000-1000-8000-000000000000");
        let late = uuid("00000000-0001-1000-8000-000000000000");
        let random = uuid("00000000-0000-4000-8000-000000000000");
        let rank = |v: &Value| ordered(&DataType::Uuid, asc, v);
        assert!(rank(&early) < rank(&late) && rank(&late) < rank(&random));
        for value in [early, late, random] {
            let mut stored = Vec::new();
            decode_component(&DataType::Uuid, asc, &rank(&value), &mut stored).unwrap();
            assert_eq!(stored, value.to_bytes());
        }
    }

    #[test]
    fn damaged_encodings_are_errors() {
        let mut out = Vec::new();
        for bytes in [&b""[..], b"\x02", b"\x02ab", b"\x02a\0\x07", b"\x05"] {
            assert!(
                decode_component(&DataType::Text, ClusteringOrder::Ascending, bytes, &mut out)
                    .is_err()
            );
        }
        let plain = Plain::of(&DataType::Int, ClusteringOrder::Ascending).unwrap();
        for bytes in [&b""[..], b"\x02", b"\x02\x80\0\0", b"\x03\x80\0\0\0", b"\xfd\x7f\0\0\0"] {
            assert_eq!(plain.decode(bytes, &mut [0; 8]), None, "{bytes:?}");
        }
    }
}
