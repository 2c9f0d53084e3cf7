//! Stored values as text: JSON as Cassandra's `toJson` writes it, and plain text for keys.
//!
//! Numbers keep the form that Cassandra gives them (`1.0E10`, `1E+10`); what is no finite number is
//! null. A counter is the sum of its shards. Bytes that are no value of their type are an error in
//! words; the caller knows the place.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::json::quote;
use super::types::{StoredType, UserType};
use crate::hex::Hex;
use crate::schema::Scalar;
use crate::schema::value::format_uuid;
use crate::sstable::format::coding::Input;

/// What is wrong with bytes, in words.
pub(crate) type Rendered<T = ()> = Result<T, String>;

/// Appends the JSON of a value.
pub(super) fn json(ty: &StoredType, bytes: &[u8], out: &mut String) -> Rendered {
    match ty {
        StoredType::Frozen(inner) => return json(inner, bytes, out),
        StoredType::List(element) | StoredType::Set(element) => {
            let items = elements(bytes, 1)?;
            return sequence(out, ('[', ']'), &items, |item, out| optional(element, *item, out));
        }
        StoredType::Map(key, value) => {
            let items = elements(bytes, 2)?;
            let pairs: Vec<_> = items.chunks(2).collect();
            return sequence(out, ('{', '}'), &pairs, |pair, out| {
                let mut text = String::new();
                json(key, pair[0].ok_or("a map with a null key")?, &mut text)?;
                if text.starts_with('"') {
                    out.push_str(&text)
                } else {
                    quote(&text, out)
                }
                out.push_str(": ");
                optional(value, pair[1], out)
            });
        }
        StoredType::Tuple(types) => {
            let values = fields(bytes, types.len())?;
            let pairs: Vec<_> = types.iter().zip(values).collect();
            return sequence(out, ('[', ']'), &pairs, |(ty, value), out| optional(ty, *value, out));
        }
        StoredType::User(user) => return user_json(user, bytes, out),
        StoredType::Vector(element, count) => {
            let items = vector_elements(element, *count, bytes)?;
            return sequence(out, ('[', ']'), &items, |item, out| json(element, item, out));
        }
        _ => {}
    }
    if bytes.is_empty() && !matches!(ty, StoredType::Scalar(Scalar::Blob) | StoredType::Other(_)) {
        out.push_str("\"\"");
        return Ok(());
    }
    match ty {
        StoredType::Scalar(Scalar::Blob) | StoredType::Other(_) => {
            // Writing to a string does not fail.
            let _ = write!(out, "\"0x{}\"", Hex(bytes));
        }
        StoredType::Scalar(Scalar::Float) => match f32::from_be_bytes(fixed(ty, bytes)?) {
            number if number.is_finite() => java_float(&format!("{number:e}"), out),
            _ => out.push_str("null"),
        },
        StoredType::Scalar(Scalar::Double) => match f64::from_be_bytes(fixed(ty, bytes)?) {
            number if number.is_finite() => java_float(&format!("{number:e}"), out),
            _ => out.push_str("null"),
        },
        StoredType::Scalar(
            Scalar::Ascii
            | Scalar::Text
            | Scalar::Date
            | Scalar::Duration
            | Scalar::Inet
            | Scalar::Time
            | Scalar::Timestamp
            | Scalar::TimeUuid
            | Scalar::Uuid,
        ) => {
            let mut text = String::new();
            plain(ty, bytes, &mut text)?;
            quote(&text, out);
        }
        _ => plain(ty, bytes, out)?,
    }
    Ok(())
}

/// The plain text of a value, as in keys and paths; of a collection the JSON.
pub(crate) fn text(ty: &StoredType, bytes: &[u8]) -> Rendered<String> {
    let mut out = String::new();
    match ty.thawed() {
        StoredType::Scalar(Scalar::Blob) | StoredType::Other(_) => out = Hex(bytes).to_string(),
        StoredType::List(_)
        | StoredType::Set(_)
        | StoredType::Map(..)
        | StoredType::Tuple(_)
        | StoredType::User(_)
        | StoredType::Vector(..) => json(ty, bytes, &mut out)?,
        _ if bytes.is_empty() => {}
        // A moment has a T here, and a blank in JSON.
        StoredType::Scalar(Scalar::Timestamp) => {
            plain(ty.thawed(), bytes, &mut out)?;
            out = out.replacen(' ', "T", 1);
        }
        ty => plain(ty, bytes, &mut out)?,
    }
    Ok(out)
}

fn plain(ty: &StoredType, bytes: &[u8], out: &mut String) -> Rendered {
    // Writing to a string does not fail.
    let StoredType::Scalar(scalar) = ty else {
        let _ = write!(out, "{}", Hex(bytes));
        return Ok(());
    };
    let _ = match scalar {
        Scalar::Boolean => write!(out, "{}", fixed::<1>(ty, bytes)?[0] != 0),
        Scalar::TinyInt => write!(out, "{}", i8::from_be_bytes(fixed(ty, bytes)?)),
        Scalar::SmallInt => write!(out, "{}", i16::from_be_bytes(fixed(ty, bytes)?)),
        Scalar::Int => write!(out, "{}", i32::from_be_bytes(fixed(ty, bytes)?)),
        Scalar::BigInt => write!(out, "{}", i64::from_be_bytes(fixed(ty, bytes)?)),
        Scalar::Float => {
            let number = f32::from_be_bytes(fixed(ty, bytes)?);
            java_number(number.is_finite(), &format!("{number:e}"), &number, out);
            Ok(())
        }
        Scalar::Double => {
            let number = f64::from_be_bytes(fixed(ty, bytes)?);
            java_number(number.is_finite(), &format!("{number:e}"), &number, out);
            Ok(())
        }
        Scalar::Decimal => {
            let (scale, unscaled) =
                bytes.split_first_chunk::<4>().ok_or_else(|| wrong(ty, bytes))?;
            decimal(&integer(unscaled), i32::from_be_bytes(*scale), out);
            Ok(())
        }
        Scalar::VarInt => write!(out, "{}", integer(bytes)),
        Scalar::Ascii | Scalar::Text => {
            out.push_str(std::str::from_utf8(bytes).map_err(|_| "bytes that are no UTF-8")?);
            Ok(())
        }
        Scalar::Date => {
            let days = u32::from_be_bytes(fixed(ty, bytes)?);
            write!(out, "{}", civil(i64::from(days) - (1 << 31)))
        }
        Scalar::Time => {
            let ns = i64::from_be_bytes(fixed(ty, bytes)?);
            let (seconds, ns) = (ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000));
            write!(out, "{}.{ns:09}", clock(seconds))
        }
        Scalar::Timestamp => {
            let ms = i64::from_be_bytes(fixed(ty, bytes)?);
            let (day, ms) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000));
            write!(out, "{} {}.{:03}Z", civil(day), clock(ms / 1000), ms % 1000)
        }
        Scalar::Uuid | Scalar::TimeUuid => {
            out.push_str(&format_uuid(&fixed(ty, bytes)?));
            Ok(())
        }
        Scalar::Inet => return inet(ty, bytes, out),
        Scalar::Duration => return duration(bytes, out),
        Scalar::Counter => write!(out, "{}", counter(bytes)?),
        Scalar::Empty => Ok(()),
        Scalar::Blob => write!(out, "{}", Hex(bytes)),
    };
    Ok(())
}

fn inet(ty: &StoredType, bytes: &[u8], out: &mut String) -> Rendered {
    // Writing to a string does not fail.
    let _ = match bytes.len() {
        4 => write!(out, "{}", Ipv4Addr::from(fixed::<4>(ty, bytes)?)),
        16 => {
            let address = Ipv6Addr::from(fixed::<16>(ty, bytes)?);
            if let Some(address) = address.to_ipv4_mapped() {
                // Java has no such IPv6 addresses.
                write!(out, "{address}")
            } else {
                let parts: Vec<String> =
                    address.segments().iter().map(|part| format!("{part:x}")).collect();
                write!(out, "{}", parts.join(":"))
            }
        }
        _ => return Err(wrong(ty, bytes)),
    };
    Ok(())
}

fn java_number(is_finite: bool, scientific: &str, number: &impl ToString, out: &mut String) {
    if is_finite {
        java_float(scientific, out);
        return;
    }
    let text = number.to_string();
    out.push_str(match text.as_str() {
        "inf" => "Infinity",
        "-inf" => "-Infinity",
        _ => "NaN",
    });
}

/// Checks that bytes are a value of the type.
pub(super) fn check(ty: &StoredType, bytes: &[u8]) -> Rendered {
    let mut out = String::new();
    json(ty, bytes, &mut out)
}

fn optional(ty: &StoredType, bytes: Option<&[u8]>, out: &mut String) -> Rendered {
    match bytes {
        Some(bytes) => json(ty, bytes, out),
        None => {
            out.push_str("null");
            Ok(())
        }
    }
}

fn sequence<T>(
    out: &mut String,
    (open, close): (char, char),
    items: &[T],
    mut one: impl FnMut(&T, &mut String) -> Rendered,
) -> Rendered {
    out.push(open);
    for (i, item) in items.iter().enumerate() {
        out.push_str(if i == 0 { "" } else { ", " });
        one(item, out)?;
    }
    out.push(close);
    Ok(())
}

fn user_json(user: &UserType, bytes: &[u8], out: &mut String) -> Rendered {
    let values = fields(bytes, user.fields.len())?;
    let pairs: Vec<_> = user.fields.iter().zip(values).collect();
    sequence(out, ('{', '}'), &pairs, |((name, ty), value), out| {
        if *name == name.to_lowercase() {
            quote(name, out)
        } else {
            quote(&format!("\"{name}\""), out)
        }
        out.push_str(": ");
        optional(ty, *value, out)
    })
}

fn wrong(ty: &StoredType, bytes: &[u8]) -> String {
    format!("{} bytes that are no {ty}", bytes.len())
}

fn fixed<const N: usize>(ty: &StoredType, bytes: &[u8]) -> Rendered<[u8; N]> {
    bytes.try_into().map_err(|_| wrong(ty, bytes))
}

/// One field with a length before it; `None` for a null.
fn field<'a>(input: &mut Input<'a>) -> Rendered<Option<&'a [u8]>> {
    let short = |_| "a value that ends too early".to_owned();
    let length = input.i32().map_err(short)?;
    match u64::try_from(length) {
        Ok(length) => input.take(length).map(Some).map_err(short),
        Err(_) => Ok(None),
    }
}

/// Elements of a frozen collection, `width` values each.
pub(super) fn elements(bytes: &[u8], width: u64) -> Rendered<Vec<Option<&[u8]>>> {
    let mut input = Input::new(bytes);
    let count = input.count32().map_err(|_| "a collection without a count")?;
    let count = count.saturating_mul(width);
    if count.saturating_mul(4) > input.remaining() {
        return Err(format!("{count} elements in {} bytes", bytes.len()));
    }
    let items = (0..count).map(|_| field(&mut input)).collect::<Rendered<_>>()?;
    match input.remaining() {
        0 => Ok(items),
        left => Err(format!("{left} bytes after the last element")),
    }
}

/// Fields of a tuple or user type; the last ones may be missing.
pub(super) fn fields(bytes: &[u8], count: usize) -> Rendered<Vec<Option<&[u8]>>> {
    let mut input = Input::new(bytes);
    let mut values = Vec::with_capacity(count);
    while values.len() < count {
        values.push(if input.remaining() == 0 { None } else { field(&mut input)? });
    }
    match input.remaining() {
        0 => Ok(values),
        left => Err(format!("{left} bytes after {count} fields")),
    }
}

/// Elements of a vector, which has no count of its own.
pub(super) fn vector_elements<'a>(
    element: &StoredType,
    count: usize,
    bytes: &'a [u8],
) -> Rendered<Vec<&'a [u8]>> {
    let mut input = Input::new(bytes);
    let short = |_| "a vector that ends too early".to_owned();
    if count as u64 > input.remaining() {
        return Err(format!("{count} elements in {} bytes", bytes.len()));
    }
    let items: Rendered<Vec<&[u8]>> = (0..count)
        .map(|_| match element.fixed_bytes() {
            Some(length) => input.take(length as u64).map_err(short),
            None => input.vbytes().map_err(short),
        })
        .collect();
    match input.remaining() {
        0 => items,
        left => Err(format!("{left} bytes after the last element")),
    }
}

/// Sum of the shards of a counter.
pub(super) fn counter(bytes: &[u8]) -> Rendered<i64> {
    let short = |_| "a counter that ends too early".to_owned();
    let mut input = Input::new(bytes);
    let headers = input.u16().map_err(short)?;
    input.take(2 * u64::from(headers)).map_err(short)?;
    let mut sum = 0i64;
    while input.remaining() > 0 {
        input.take(24).map_err(short)?;
        sum = sum.wrapping_add(input.i64().map_err(short)?);
    }
    Ok(sum)
}

fn duration(bytes: &[u8], out: &mut String) -> Rendered {
    let mut input = Input::new(bytes);
    let mut numbers = [0i64; 3];
    for number in &mut numbers {
        *number = input.svint().map_err(|_| "a duration that ends too early")?;
    }
    if input.remaining() > 0 {
        return Err(format!("{} bytes after a duration", input.remaining()));
    }
    if numbers.iter().any(|number| *number < 0) {
        out.push('-');
    }
    let [months, days, mut left] = numbers.map(i64::unsigned_abs);
    let mut put = |number: u64, unit: &str| {
        if number > 0 {
            let _ = write!(out, "{number}{unit}");
        }
    };
    put(months / 12, "y");
    put(months % 12, "mo");
    put(days, "d");
    let units = [
        ("h", 3_600_000_000_000),
        ("m", 60_000_000_000),
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
        ("ns", 1),
    ];
    for (unit, ns) in units {
        put(left / ns, unit);
        left %= ns;
    }
    Ok(())
}

/// A number in scientific notation (`-1.5e300`) as Java writes it.
fn java_float(scientific: &str, out: &mut String) {
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, digits) = match mantissa.strip_prefix('-') {
        Some(digits) => ("-", digits.replace('.', "")),
        None => ("", mantissa.replace('.', "")),
    };
    out.push_str(sign);
    // Java has two digits at least, also of the least number of each type.
    let fixed = match (digits.as_str(), exponent) {
        ("0", _) => Some("0.0"),
        ("5", -324) => Some("4.9E-324"),
        ("1", -45) => Some("1.4E-45"),
        _ => None,
    };
    if let Some(text) = fixed {
        out.push_str(text);
        return;
    }
    if !(-3..7).contains(&exponent) {
        let rest = if digits.len() > 1 { &digits[1..] } else { "0" };
        let _ = write!(out, "{}.{rest}E{exponent}", &digits[..1]);
        return;
    }
    if exponent < 0 {
        out.push_str("0.");
        out.extend(std::iter::repeat_n('0', (-exponent - 1) as usize));
        out.push_str(&digits);
        return;
    }
    let whole = exponent as usize + 1;
    for at in 0..whole.max(digits.len()) {
        if at == whole {
            out.push('.');
        }
        out.push_str(digits.get(at..=at).unwrap_or("0"));
    }
    if digits.len() <= whole {
        out.push_str(".0");
    }
}

/// An unscaled number and its scale as Java's `BigDecimal` writes them.
fn decimal(unscaled: &str, scale: i32, out: &mut String) {
    let (sign, digits) = match unscaled.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", unscaled),
    };
    out.push_str(sign);
    let adjusted = digits.len() as i64 - 1 - i64::from(scale);
    if scale >= 0 && adjusted >= -6 {
        let scale = scale as usize;
        if scale == 0 {
            out.push_str(digits);
        } else if digits.len() > scale {
            let (whole, part) = digits.split_at(digits.len() - scale);
            let _ = write!(out, "{whole}.{part}");
        } else {
            let _ = write!(out, "0.{digits:0>scale$}");
        }
        return;
    }
    let _ = match digits.len() {
        1 => write!(out, "{digits}E{adjusted:+}"),
        _ => write!(out, "{}.{}E{adjusted:+}", &digits[..1], &digits[1..]),
    };
}

/// A big-endian two's complement number of any length, in decimal.
pub(super) fn integer(bytes: &[u8]) -> String {
    let is_negative = bytes.first().is_some_and(|byte| *byte >= 0x80);
    let mut magnitude: Vec<u8> = bytes.to_vec();
    if is_negative {
        magnitude.iter_mut().for_each(|byte| *byte = !*byte);
        for byte in magnitude.iter_mut().rev() {
            *byte = byte.wrapping_add(1);
            if *byte != 0 {
                break;
            }
        }
    }
    // Nine digits at a time, least first.
    let mut groups = Vec::new();
    let mut start = 0;
    while start < magnitude.len() {
        let mut rest = 0u64;
        for byte in &mut magnitude[start..] {
            let number = rest << 8 | u64::from(*byte);
            *byte = (number / 1_000_000_000) as u8;
            rest = number % 1_000_000_000;
        }
        groups.push(rest);
        while magnitude.get(start) == Some(&0) {
            start += 1;
        }
    }
    let mut text = if is_negative { "-".to_owned() } else { String::new() };
    let last = groups.pop().unwrap_or(0);
    let _ = write!(text, "{last}");
    for group in groups.iter().rev() {
        let _ = write!(text, "{group:09}");
    }
    text
}

pub(crate) fn clock(seconds: i64) -> String {
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Day since 1970-01-01 as year-month-day (proleptic Gregorian).
pub(crate) fn civil(days: i64) -> String {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = year_of_era + era * 400 + carry;
    let sign = match year {
        ..0 => "-",
        10_000.. => "+",
        _ => "",
    };
    format!("{sign}{:04}-{month:02}-{day:02}", year.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ty: &StoredType, bytes: &[u8]) -> String {
        let mut out = String::new();
        json(ty, bytes, &mut out).unwrap();
        out
    }

    #[test]
    fn numbers_have_javas_form() {
        for (number, text) in [
            (1.5, "1.5"),
            (-0.0, "-0.0"),
            (100.0, "100.0"),
            (1e7, "1.0E7"),
            (123_456.75, "123456.75"),
            (0.001, "0.001"),
            (0.00012, "1.2E-4"),
            (1e300, "1.0E300"),
            (f64::NAN, "null"),
            (f64::NEG_INFINITY, "null"),
        ] {
            assert_eq!(of(&StoredType::Scalar(Scalar::Double), &f64::to_be_bytes(number)), text);
        }
        assert_eq!(of(&StoredType::Scalar(Scalar::Float), &f32::MAX.to_be_bytes()), "3.4028235E38");
        assert_eq!(
            text(&StoredType::Scalar(Scalar::Float), &f32::INFINITY.to_be_bytes()).unwrap(),
            "Infinity"
        );
        for (unscaled, scale, text) in [
            ("1", 20, "1E-20"),
            ("1", -10, "1E+10"),
            ("-1", 5, "-0.00001"),
            ("123456", 3, "123.456"),
            ("1234", -2, "1.234E+5"),
            ("0", 0, "0"),
            ("5", 1, "0.5"),
        ] {
            let mut out = String::new();
            decimal(unscaled, scale, &mut out);
            assert_eq!(out, text);
        }
    }

    #[test]
    fn moments_have_a_blank_in_json_and_none_in_keys() {
        let bytes = (-1000i64).to_be_bytes();
        assert_eq!(
            of(&StoredType::Scalar(Scalar::Timestamp), &bytes),
            "\"1969-12-31 23:59:59.000Z\""
        );
        assert_eq!(
            text(&StoredType::Scalar(Scalar::Timestamp), &bytes).unwrap(),
            "1969-12-31T23:59:59.000Z"
        );
    }

    #[test]
    fn addresses_have_javas_form() {
        let address = |text: &str| {
            of(&StoredType::Scalar(Scalar::Inet), &text.parse::<Ipv6Addr>().unwrap().octets())
        };
        assert_eq!(address("2001:db8::1"), "\"2001:db8:0:0:0:0:0:1\"");
        assert_eq!(address("::ffff:1.2.3.4"), "\"1.2.3.4\"");
        assert_eq!(of(&StoredType::Scalar(Scalar::Inet), &[10, 0, 0, 1]), "\"10.0.0.1\"");
    }

    #[test]
    fn integers_of_any_length_are_decimal() {
        assert_eq!(integer(&[]), "0");
        assert_eq!(integer(&[0x80]), "-128");
        assert_eq!(integer(&[0, 0x80]), "128");
        assert_eq!(integer(&[0xff; 20]), "-1");
        assert_eq!(integer(&i128::MIN.to_be_bytes()), i128::MIN.to_string());
        assert_eq!(integer(&1_000_000_000_000_000_000u64.to_be_bytes()), "1000000000000000000");
        let mut big = vec![1];
        big.extend([0; 16]);
        assert_eq!(integer(&big), "340282366920938463463374607431768211456");
    }

    #[test]
    fn impossible_bytes_are_said_to_be_so() {
        let list = StoredType::List(Box::new(StoredType::Scalar(Scalar::Int)));
        let tuple = StoredType::Tuple(vec![
            StoredType::Scalar(Scalar::Int),
            StoredType::Scalar(Scalar::Text),
        ]);
        for (ty, bytes) in [
            (&StoredType::Scalar(Scalar::Int), &b"abc"[..]),
            (&StoredType::Scalar(Scalar::Text), b"\xff"),
            (&StoredType::Scalar(Scalar::Inet), b"12345"),
            (&StoredType::Scalar(Scalar::Counter), b"\0\x01\0"),
            (&StoredType::Scalar(Scalar::Duration), b"\0"),
            (&list, b"\x7f\xff\xff\xff"),
            (&list, b"\0\0\0\x01\0\0\0\x09a"),
            (&tuple, b"\0\0\0\x04abcd\xff\xff\xff\xff\0"),
        ] {
            assert!(check(ty, bytes).is_err(), "{ty} {bytes:?}");
        }
        assert_eq!(of(&tuple, b"\0\0\0\x04\0\0\0\x07"), "[7, null]");
    }

    /// Their elements take no more than their lengths: the count just fits into the bytes.
    #[test]
    fn collections_of_nothing_but_nulls_and_empty_values_are_whole() {
        let text = || Box::new(StoredType::Scalar(Scalar::Text));
        let (list, map) = (StoredType::List(text()), StoredType::Map(text(), text()));
        for (ty, bytes, wanted) in [
            (&list, &b"\0\0\0\0"[..], "[]"),
            (&list, b"\0\0\0\x01\0\0\0\0", "[\"\"]"),
            (&list, b"\0\0\0\x02\xff\xff\xff\xff\0\0\0\0", "[null, \"\"]"),
            (&map, b"\0\0\0\0", "{}"),
            (&map, b"\0\0\0\x01\0\0\0\0\0\0\0\0", "{\"\": \"\"}"),
            (&map, b"\0\0\0\x01\0\0\0\0\xff\xff\xff\xff", "{\"\": null}"),
        ] {
            assert_eq!(check(ty, bytes), Ok(()), "{ty} {bytes:?}");
            assert_eq!(of(ty, bytes), wanted, "{ty} {bytes:?}");
            // Of one more there is no length.
            let mut more = bytes.to_vec();
            more[3] += 1;
            assert!(check(ty, &more).is_err(), "{ty} {more:?}");
        }
    }
}
