//! Stored values as text: each form at the border to the next, and values within values.

use crate::inspect::types::{StoredType, UserType};
use crate::inspect::value::{check, json, text};
use crate::schema::Scalar;
use crate::schema::vint::put_svint;

fn of(ty: &StoredType, bytes: &[u8]) -> String {
    let mut out = String::new();
    json(ty, bytes, &mut out).unwrap();
    out
}

#[test]
fn durations_have_a_sign_and_only_the_units_that_they_need() {
    let hour = 3_600_000_000_000_i64;
    for (parts, wanted) in [
        ([0, 0, 0], ""),
        ([-1, 0, 0], "-1mo"),
        ([0, -3, 0], "-3d"),
        ([0, 0, -1], "-1ns"),
        ([12, 0, 0], "1y"),
        ([11, 0, 0], "11mo"),
        ([-25, -40, 0], "-2y1mo40d"),
        ([0, 0, 25 * hour], "25h"),
        ([0, 0, 59 * 60_000_000_000], "59m"),
        ([0, 0, 61_001_001_001], "1m1s1ms1us1ns"),
        ([14, 3, hour + 999_999_999], "1y2mo3d1h999ms999us999ns"),
        ([0, 0, i64::MIN], "-2562047h47m16s854ms775us808ns"),
    ] {
        let mut bytes = Vec::new();
        parts.iter().for_each(|part| put_svint(&mut bytes, *part));
        let ty = StoredType::Scalar(Scalar::Duration);
        assert_eq!(text(&ty, &bytes).as_deref(), Ok(wanted), "{parts:?}");
        assert_eq!(of(&ty, &bytes), format!("\"{wanted}\""), "{parts:?}");
        bytes.push(0);
        assert!(check(&ty, &bytes).is_err(), "{parts:?} and a byte more");
    }
}

#[test]
fn days_and_times_are_those_of_the_calendar_before_and_after_the_epoch() {
    let ms_of_day = 86_400_000_i64;
    for (ms, wanted) in [
        (-1, "1969-12-31T23:59:59.999Z"),
        (0, "1970-01-01T00:00:00.000Z"),
        (61_001, "1970-01-01T00:01:01.001Z"),
        (-ms_of_day, "1969-12-31T00:00:00.000Z"),
        (-ms_of_day - 1, "1969-12-30T23:59:59.999Z"),
        (ms_of_day - 1, "1970-01-01T23:59:59.999Z"),
    ] {
        let ty = StoredType::Scalar(Scalar::Timestamp);
        assert_eq!(text(&ty, &i64::to_be_bytes(ms)).as_deref(), Ok(wanted));
        let in_json = format!("\"{}\"", wanted.replace('T', " "));
        assert_eq!(of(&ty, &i64::to_be_bytes(ms)), in_json);
    }
    for (days, wanted) in [
        (-1, "1969-12-31"),
        (0, "1970-01-01"),
        (58, "1970-02-28"),
        (59, "1970-03-01"),
        (11_016, "2000-02-29"),
        (11_017, "2000-03-01"),
        (-25_509, "1900-02-28"),
        (-25_508, "1900-03-01"),
        (-719_528, "0000-01-01"),
        (-719_529, "-0001-12-31"),
        (2_932_896, "9999-12-31"),
        (2_932_897, "+10000-01-01"),
    ] {
        let bytes = ((days + (1_i64 << 31)) as u32).to_be_bytes();
        let ty = StoredType::Scalar(Scalar::Date);
        assert_eq!(text(&ty, &bytes).as_deref(), Ok(wanted), "{days}");
    }
    for (ns, wanted) in [
        (0, "00:00:00.000000000"),
        (1, "00:00:00.000000001"),
        (86_399_999_999_999, "23:59:59.999999999"),
        (3_723_000_000_004, "01:02:03.000000004"),
    ] {
        let ty = StoredType::Scalar(Scalar::Time);
        assert_eq!(text(&ty, &i64::to_be_bytes(ns)).as_deref(), Ok(wanted));
    }
}

#[test]
fn numbers_change_their_form_where_those_of_java_do() {
    let double = StoredType::Scalar(Scalar::Double);
    for (number, wanted) in [
        (9_999_999.0, "9999999.0"),
        (-1e7, "-1.0E7"),
        (12_345_678.5, "1.23456785E7"),
        (-0.001, "-0.001"),
        (0.00099, "9.9E-4"),
        (0.0125, "0.0125"),
        (f64::from_bits(1), "4.9E-324"),
        (-f64::from_bits(1), "-4.9E-324"),
    ] {
        assert_eq!(of(&double, &f64::to_be_bytes(number)), wanted);
    }
    let float = StoredType::Scalar(Scalar::Float);
    assert_eq!(of(&float, &f32::from_bits(1).to_be_bytes()), "1.4E-45");
    for (number, told) in
        [(f64::NAN, "NaN"), (f64::INFINITY, "Infinity"), (f64::NEG_INFINITY, "-Infinity")]
    {
        assert_eq!(text(&double, &number.to_be_bytes()).as_deref(), Ok(told));
        assert_eq!(text(&float, &(number as f32).to_be_bytes()).as_deref(), Ok(told));
        assert_eq!(of(&float, &(number as f32).to_be_bytes()), "null");
    }
    for (unscaled, scale, wanted) in [
        (1, 6, "0.000001"),
        (1, 7, "1E-7"),
        (12, 7, "0.0000012"),
        (12, 8, "1.2E-7"),
        (-123, 2, "-1.23"),
        (-123, 3, "-0.123"),
        (100, 2, "1.00"),
        (0, -2, "0E+2"),
        (-7, 0, "-7"),
        (-12, -1, "-1.2E+2"),
    ] {
        let bytes = [i32::to_be_bytes(scale), i32::to_be_bytes(unscaled)].concat();
        let found = of(&StoredType::Scalar(Scalar::Decimal), &bytes);
        assert_eq!(found, wanted, "{unscaled} of scale {scale}");
    }
}

#[test]
fn values_within_values_are_whole_and_their_names_and_keys_are_quoted() {
    let scalar = StoredType::Scalar;
    let field = |name: &str, ty| (name.to_owned(), ty);
    let user = StoredType::User(UserType {
        keyspace: "ks".to_owned(),
        name: "u".to_owned(),
        fields: vec![field("low", scalar(Scalar::Int)), field("High", scalar(Scalar::Text))],
    });
    let of_int = StoredType::Map(Box::new(scalar(Scalar::Int)), Box::new(scalar(Scalar::Boolean)));
    let of_text = StoredType::Map(
        Box::new(scalar(Scalar::Text)),
        Box::new(StoredType::Frozen(Box::new(StoredType::Set(Box::new(scalar(Scalar::Int)))))),
    );
    let floats = StoredType::Vector(Box::new(scalar(Scalar::Float)), 2);
    let texts = StoredType::Vector(Box::new(scalar(Scalar::Text)), 2);
    for (ty, bytes, wanted) in [
        (&user, &b"\0\0\0\x04\0\0\0\x07\0\0\0\x01x"[..], r#"{"low": 7, "\"High\"": "x"}"#),
        (&user, b"\xff\xff\xff\xff", r#"{"low": null, "\"High\"": null}"#),
        (&user, b"", r#"{"low": null, "\"High\"": null}"#),
        (&of_int, b"\0\0\0\x01\0\0\0\x04\0\0\0\x07\0\0\0\x01\x01", r#"{"7": true}"#),
        (
            &of_text,
            b"\0\0\0\x01\0\0\0\x01\"\0\0\0\x0c\0\0\0\x01\0\0\0\x04\0\0\0\x09",
            r#"{"\"": [9]}"#,
        ),
        (&floats, b"\x3f\x80\0\0\xc0\0\0\0", "[1.0, -2.0]"),
        (&texts, b"\x01a\x02bc", r#"["a", "bc"]"#),
        (&scalar(Scalar::Blob), b"\x0a\xff", "\"0x0aff\""),
        (&scalar(Scalar::Blob), b"", "\"0x\""),
        (&scalar(Scalar::Int), b"", "\"\""),
    ] {
        assert_eq!(of(ty, bytes), wanted, "{ty} {bytes:?}");
        // In a key it stands in no quotes of its own.
        let in_key = match ty {
            StoredType::Scalar(_) => wanted.trim_matches('"').trim_start_matches("0x"),
            _ => wanted,
        };
        assert_eq!(text(ty, bytes).as_deref(), Ok(in_key), "{ty} {bytes:?}");
        let frozen = StoredType::Frozen(Box::new(ty.clone()));
        assert_eq!(text(&frozen, bytes).as_deref(), Ok(in_key), "{frozen} {bytes:?}");
    }
    for (ty, bytes) in [
        (&floats, &b"\x3f\x80\0\0\xc0\0\0"[..]),
        (&floats, b"\x3f\x80\0\0\xc0\0\0\0\0"),
        (&texts, b"\x01a\x03bc"),
        (&texts, b"\x01a\x02bcd"),
        (&user, b"\0\0\0\x04\0\0\0\x07\0\0\0\x01xy"),
    ] {
        assert!(check(ty, bytes).is_err(), "{ty} {bytes:?}");
    }
}

/// A counter is a count of headers, those, and of each shard id, clock and count.
#[test]
fn a_counter_is_the_sum_of_all_its_shards() {
    let ty = StoredType::Scalar(Scalar::Counter);
    for (headers, counts) in
        [(0_u16, &[][..]), (1, &[5]), (2, &[5, -7]), (0, &[1, 2, 3]), (2, &[i64::MIN, -1])]
    {
        let mut bytes = headers.to_be_bytes().to_vec();
        bytes.extend((0..2 * headers).map(|_| 0x80));
        for count in counts {
            bytes.extend([0xaa; 24]);
            bytes.extend(i64::to_be_bytes(*count));
        }
        let sum = counts.iter().fold(0_i64, |sum, count| sum.wrapping_add(*count));
        assert_eq!(of(&ty, &bytes), sum.to_string(), "{headers} {counts:?}");
        bytes.push(0);
        assert!(check(&ty, &bytes).is_err(), "{headers} {counts:?} and a byte more");
    }
}
