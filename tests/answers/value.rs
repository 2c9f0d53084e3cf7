//! Values, types and what SQL means by comparing and casting them.

use std::cmp::Ordering;

/// Nanoseconds of a day.
pub const DAY_NS: i64 = 86_400_000_000_000;
const SECOND_NS: i64 = 1_000_000_000;

/// The type of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    Bool,
    TinyInt,
    SmallInt,
    Int,
    BigInt,
    Float,
    Double,
    /// Digits, and digits behind the point.
    Decimal(u8, u8),
    Text,
    Blob,
    Date,
    Time,
    Timestamp,
    Uuid,
    /// A frozen set of integers.
    Set,
    /// A frozen map from text to integers.
    Map,
}

impl Type {
    /// As CREATE TABLE and CAST write it.
    pub fn sql(self) -> String {
        match self {
            Type::Bool => "boolean".into(),
            Type::TinyInt => "tinyint".into(),
            Type::SmallInt => "smallint".into(),
            Type::Int => "int".into(),
            Type::BigInt => "bigint".into(),
            Type::Float => "float".into(),
            Type::Double => "double".into(),
            Type::Decimal(precision, scale) => format!("decimal({precision}, {scale})"),
            Type::Text => "text".into(),
            Type::Blob => "blob".into(),
            Type::Date => "date".into(),
            Type::Time => "time".into(),
            Type::Timestamp => "timestamp".into(),
            Type::Uuid => "uuid".into(),
            Type::Set => "frozen<set<int>>".into(),
            Type::Map => "frozen<map<text, int>>".into(),
        }
    }

    /// Whether values hold others. They are only compared, and not grouped or sorted.
    pub fn is_collection(self) -> bool {
        matches!(self, Type::Set | Type::Map)
    }

    pub fn is_integer(self) -> bool {
        matches!(self, Type::TinyInt | Type::SmallInt | Type::Int | Type::BigInt)
    }

    pub fn is_floating(self) -> bool {
        matches!(self, Type::Float | Type::Double)
    }

    /// Least and greatest of an integer type.
    pub fn bounds(self) -> Option<(i128, i128)> {
        Some(match self {
            Type::TinyInt => (i8::MIN.into(), i8::MAX.into()),
            Type::SmallInt => (i16::MIN.into(), i16::MAX.into()),
            Type::Int => (i32::MIN.into(), i32::MAX.into()),
            Type::BigInt => (i64::MIN.into(), i64::MAX.into()),
            _ => return None,
        })
    }
}

/// A value; times are counted from the epoch, in UTC.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    /// Unscaled number and digits behind the point.
    Decimal(i128, u8),
    Text(String),
    Blob(Vec<u8>),
    /// Days.
    Date(i32),
    /// Nanoseconds since midnight.
    Time(i64),
    /// Nanoseconds.
    Timestamp(i64),
    /// In their order, each once.
    Set(Vec<i128>),
    /// In the order of their keys, each once.
    Map(Vec<(String, i128)>),
}

impl Value {
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// What two results have in common that are one: exact but for the type's width, NaN is itself,
    /// and zeros differ by their sign only where `strict_zero`.
    pub fn form(&self, strict_zero: bool) -> String {
        match self {
            Value::Float(v) if v.is_nan() => "NaN".to_owned(),
            Value::Float(v) if *v == 0.0 && !strict_zero => "Float(0.0)".to_owned(),
            Value::Decimal(unscaled, scale) => {
                let (mut unscaled, mut scale) = (*unscaled, *scale);
                while unscaled % 10 == 0 && scale > 0 {
                    (unscaled, scale) = (unscaled / 10, scale - 1);
                }
                format!("{unscaled}e-{scale}")
            }
            other => format!("{other:?}"),
        }
    }
}

/// 10 to the `digits`.
pub fn power(digits: u8) -> i128 {
    10_i128.pow(u32::from(digits))
}

/// The nearest double, by way of text.
pub fn to_double(value: &Value) -> f64 {
    match value {
        Value::Int(int) => *int as f64,
        Value::Float(float) => *float,
        Value::Decimal(..) => text(value).parse().expect("a decimal is a number"),
        other => panic!("{other:?} is no number"),
    }
}

/// How two values that are not null compare; `None` when one is null.
///
/// NaN equals itself and is greater than every number; the zeros are equal.
pub fn compare(a: &Value, b: &Value) -> Option<Ordering> {
    Some(match (a, b) {
        (Value::Null, _) | (_, Value::Null) => return None,
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Text(a), Value::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Value::Blob(a), Value::Blob(b)) => a.cmp(b),
        (Value::Set(a), Value::Set(b)) => a.cmp(b),
        (Value::Map(a), Value::Map(b)) => a.cmp(b),
        (Value::Date(a), Value::Date(b)) => a.cmp(b),
        (Value::Time(a), Value::Time(b)) => a.cmp(b),
        (Value::Timestamp(a), Value::Timestamp(b)) => a.cmp(b),
        (Value::Date(a), Value::Timestamp(b)) => (i64::from(*a) * DAY_NS).cmp(b),
        (Value::Timestamp(a), Value::Date(b)) => a.cmp(&(i64::from(*b) * DAY_NS)),
        (Value::Float(_), _) | (_, Value::Float(_)) => {
            let (a, b) = (to_double(a), to_double(b));
            match (a.is_nan(), b.is_nan()) {
                (false, false) => a.partial_cmp(&b).expect("two numbers compare"),
                (a, b) => a.cmp(&b),
            }
        }
        (Value::Int(_) | Value::Decimal(..), Value::Int(_) | Value::Decimal(..)) => {
            let (a, b) = common_scale(a, b);
            a.cmp(&b)
        }
        (a, b) => panic!("{a:?} and {b:?} do not compare"),
    })
}

/// Integers and decimals as numbers of one scale.
fn common_scale(a: &Value, b: &Value) -> (i128, i128) {
    let parts = |value: &Value| match value {
        Value::Int(int) => (*int, 0),
        Value::Decimal(unscaled, scale) => (*unscaled, *scale),
        other => panic!("{other:?} is not exact"),
    };
    let ((a, a_scale), (b, b_scale)) = (parts(a), parts(b));
    let scale = a_scale.max(b_scale);
    (a * power(scale - a_scale), b * power(scale - b_scale))
}

/// Order of ORDER BY and GROUP BY: nulls are equal to each other and greater than all.
pub fn sort_order(a: &Value, b: &Value) -> Ordering {
    match (a.is_null(), b.is_null()) {
        (false, false) => compare(a, b).expect("neither is null"),
        (a, b) => a.cmp(&b),
    }
}

/// As a cast to text writes it.
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => "NULL".into(),
        Value::Bool(bool) => bool.to_string(),
        Value::Int(int) => int.to_string(),
        Value::Float(float) => float.to_string(),
        Value::Decimal(unscaled, scale) => {
            let (sign, digits) = (if *unscaled < 0 { "-" } else { "" }, unscaled.unsigned_abs());
            if *scale == 0 {
                return format!("{sign}{digits}");
            }
            let power = power(*scale) as u128;
            let width = usize::from(*scale);
            format!("{sign}{}.{:0width$}", digits / power, digits % power)
        }
        Value::Text(text) => text.clone(),
        Value::Blob(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        Value::Date(days) => {
            let (year, month, day) = civil(*days);
            format!("{year:04}-{month:02}-{day:02}")
        }
        Value::Time(ns) => clock(*ns),
        Value::Set(elements) => format!("{elements:?}"),
        Value::Map(entries) => format!("{entries:?}"),
        Value::Timestamp(ns) => {
            let days = ns.div_euclid(DAY_NS);
            let date = text(&Value::Date(i32::try_from(days).expect("a date")));
            format!("{date}T{}", clock(ns.rem_euclid(DAY_NS)))
        }
    }
}

/// `10:20:30`, with as many threes of digits behind it as it takes.
fn clock(ns: i64) -> String {
    let (seconds, rest) = (ns / SECOND_NS, ns % SECOND_NS);
    let whole = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    match rest {
        0 => whole,
        _ if rest % 1_000_000 == 0 => format!("{whole}.{:03}", rest / 1_000_000),
        _ if rest % 1_000 == 0 => format!("{whole}.{:06}", rest / 1_000),
        _ => format!("{whole}.{rest:09}"),
    }
}

/// Year, month and day of a day since the epoch, by counting.
pub fn civil(days: i32) -> (i32, u32, u32) {
    let is_leap = |year: i32| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let year_days = |year| if is_leap(year) { 366 } else { 365 };
    let (mut year, mut left) = (1970, days);
    while left < 0 {
        year -= 1;
        left += year_days(year);
    }
    while left >= year_days(year) {
        left -= year_days(year);
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if left < days {
            break;
        }
        left -= days;
        month += 1;
    }
    (year, month, left as u32 + 1)
}

/// The first day of a month, since the epoch.
pub fn first_of(year: i32, month: u32) -> i32 {
    // No month is further away than this from the day that 365.25 days a year give.
    let guess = (f64::from(year - 1970) * 365.25 + f64::from(month - 1) * 30.4) as i32;
    (guess - 70..guess + 70)
        .find(|days| civil(*days) == (year, month, 1))
        .expect("every month has a first day")
}

/// Nanoseconds by which a time zone is ahead of UTC at an instant.
pub fn zone_offset(zone: &str, ns: i64) -> i64 {
    let hour = 3600 * SECOND_NS;
    match zone {
        "UTC" => 0,
        "+02:00" => 2 * hour,
        "-05:30" => -5 * hour - hour / 2,
        // From 1996 on: summer time from the last Sunday of March to the last one of October.
        "Europe/Berlin" => {
            let day = i32::try_from(ns.div_euclid(DAY_NS)).expect("a date");
            let (year, ..) = civil(day);
            // 1970-01-01 was a Thursday.
            let last_sunday = |next_month| {
                let last = first_of(year, next_month) - 1;
                last - (last + 4).rem_euclid(7)
            };
            let switch = |day: i32| i64::from(day) * DAY_NS + hour;
            let is_summer = (switch(last_sunday(4))..switch(last_sunday(11))).contains(&ns);
            if is_summer { 2 * hour } else { hour }
        }
        other => panic!("the model does not know {other}"),
    }
}
