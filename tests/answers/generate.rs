//! Random values and constants, and the many ways of writing them.

use tidegate_engine::clock::Random;

use super::ast::{Expr, Literal};
use super::print::plain;
use super::value::{DAY_NS, Type, Value, text};

/// 2024-03-31T00:00:00Z: an hour before summer time begins in Berlin.
const START_NS: i64 = 19_813 * DAY_NS;
const HOUR_NS: i64 = 3_600_000_000_000;

/// A column in reach of an expression.
#[derive(Debug, Clone)]
pub struct Field {
    pub table: String,
    pub name: String,
    pub ty: Type,
}

/// What may be drawn: all but what `TIDEGATE_ANSWERS_WITHOUT` names.
#[derive(Debug, Clone, Copy)]
pub struct Features {
    /// `(a, b) < (1, 2)` and `(a, b) IN ((1, 2), (3, 4))`.
    pub rows: bool,
    /// Timestamps finer than a millisecond.
    pub fine_timestamps: bool,
    /// UUIDs in capitals.
    pub uuid_case: bool,
    pub is_distinct: bool,
    /// Lists of numbers of several types, and zeros with a sign.
    pub mixed_numbers: bool,
    pub limits: bool,
    pub decimal_averages: bool,
    pub odd_floats: bool,
    /// Integers that doubles do not hold, up to the ends of bigint.
    pub wide_integers: bool,
    /// Sets and maps.
    pub collections: bool,
}

impl Features {
    fn draw() -> Self {
        let without = std::env::var("TIDEGATE_ANSWERS_WITHOUT").unwrap_or_default();
        let is_on = |name: &str| !without.split(',').any(|other| other == name);
        Features {
            rows: is_on("rows"),
            fine_timestamps: is_on("fine_timestamps"),
            uuid_case: is_on("uuid_case"),
            is_distinct: is_on("is_distinct"),
            mixed_numbers: is_on("mixed_numbers"),
            limits: is_on("limits"),
            decimal_averages: is_on("decimal_averages"),
            odd_floats: is_on("odd_floats"),
            wide_integers: is_on("wide_integers"),
            collections: is_on("collections"),
        }
    }
}

/// Draws everything.
pub struct Generator {
    pub random: Random,
    pub features: Features,
    /// To give names to subqueries.
    pub aliases: usize,
}

impl Generator {
    pub fn new(seed: u64) -> Self {
        Generator { random: Random::new(seed), features: Features::draw(), aliases: 0 }
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }

    /// True in `percent` of all draws.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.random.below(100) < percent
    }

    pub fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    /// A value that a column of the type may hold. Few, so that they meet in joins and groups; sums
    /// of the numbers are exact in any order.
    pub fn value(&mut self, ty: Type, is_key: bool) -> Value {
        match ty {
            Type::Bool => Value::Bool(self.chance(50)),
            Type::BigInt if self.features.wide_integers && self.chance(4) => {
                let greatest = i128::from(i64::MAX);
                let wide = [greatest, -greatest, 1 << 62, -(1 << 53) - 1, (1 << 53) + 1, 1 << 53];
                Value::Int(self.pick(&wide))
            }
            Type::TinyInt | Type::SmallInt | Type::Int | Type::BigInt => {
                Value::Int(self.below(10) as i128 - 2)
            }
            Type::Set | Type::Map => self.collection(ty),
            Type::Float | Type::Double => {
                let odd: &[f64] = &[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0];
                Value::Float(match self.below(8) {
                    // As keys the two zeros are two rows, which SQL takes for equal.
                    0 if !self.features.odd_floats => 0.5,
                    0 if is_key => odd[self.below(3)],
                    0 => odd[self.below(odd.len())],
                    // An UPDATE of the row 0.0 is one of the row -0.0 as well.
                    _ if is_key => self.below(12) as f64 * 0.25 + 0.25,
                    _ => self.below(13) as f64 * 0.25 - 1.0,
                })
            }
            Type::Decimal(_, scale) => {
                let unscaled = self.below(13) as i128 * 25 - 100;
                let digits = if scale >= 2 { 10_i128.pow(u32::from(scale) - 2) } else { 1 };
                Value::Decimal(unscaled * digits, scale)
            }
            Type::Text => {
                let texts =
                    ["a", "A", "b", "ab", "abc", "é", "Zz", "a%b", "x_y", "  b ", "10", "B"];
                match self.below(14) {
                    12 if !is_key => Value::Text(String::new()),
                    13 if !is_key => Value::Text("it's".into()),
                    at => Value::Text(texts[at % texts.len()].into()),
                }
            }
            Type::Blob => {
                let blobs: [&[u8]; 5] = [b"\0", b"a", b"ab", b"\xff\0", b"\x80"];
                Value::Blob(self.pick(&blobs).to_vec())
            }
            Type::Date => {
                let days = [19_813, 19_814, 19_850, 20_000, -1, 0, 365, 11_016];
                Value::Date(self.pick(&days))
            }
            Type::Time => {
                let times = [0, HOUR_NS, HOUR_NS * 13 + 1_000_000, DAY_NS - 1_000, 1_000];
                Value::Time(self.pick(&times))
            }
            Type::Timestamp => {
                let ms = 1_000_000;
                let times = [0, 1, 500, 999].map(|n| START_NS + HOUR_NS + n * ms);
                let more = [START_NS, START_NS - ms, START_NS + 30 * DAY_NS, -ms, 0, ms, -DAY_NS];
                match self.below(3) {
                    0 => Value::Timestamp(self.pick(&times)),
                    1 => Value::Timestamp(self.pick(&more)),
                    _ => Value::Timestamp(START_NS + HOUR_NS * self.below(6) as i64),
                }
            }
            Type::Uuid => {
                let first = self.pick(&["0a", "1b", "9c", "ab", "ff"]);
                let text = format!("{first}e8400-e29b-41d4-a716-446655440000");
                Value::Text(format!("0{text}"))
            }
        }
    }

    /// A set or a map, perhaps an empty one.
    fn collection(&mut self, ty: Type) -> Value {
        if ty == Type::Set {
            return Value::Set((0..4).filter(|_| self.chance(40)).collect());
        }
        let keys: Vec<&str> = ["a", "b", "c"].into_iter().filter(|_| self.chance(40)).collect();
        let entry = |key: &str| (key.to_owned(), self.below(3) as i128);
        Value::Map(keys.into_iter().map(entry).collect())
    }

    /// A constant that is compared with, or stands beside, values of a type.
    pub fn literal(&mut self, ty: Type) -> Expr {
        if self.chance(3) {
            return literal(Value::Null, ty, "NULL".into());
        }
        let value = self.value(ty, false);
        match (ty, &value) {
            (_, Value::Int(int)) => self.integer(*int, ty),
            (Type::Float | Type::Double, Value::Float(float)) => self.floating(*float),
            (Type::Decimal(..), Value::Decimal(..)) => self.decimal(value),
            (Type::Timestamp, Value::Timestamp(ns)) => self.timestamp(*ns),
            (Type::Date, Value::Date(days)) => match self.below(6) {
                0 => literal(value.clone(), ty, format!("'{}'", text(&value))),
                1 => {
                    let ns = i64::from(*days) * DAY_NS + HOUR_NS * self.below(2) as i64;
                    let value = Value::Timestamp(ns);
                    literal(value.clone(), Type::Timestamp, plain(&value, Type::Timestamp))
                }
                _ => literal(value.clone(), ty, plain(&value, ty)),
            },
            (Type::Set, Value::Set(elements)) if !elements.is_empty() && self.chance(40) => {
                // One of them twice.
                let (first, rest) = (elements[0], plain(&value, ty));
                literal(value.clone(), ty, format!("{{{first}, {}", &rest[1..]))
            }
            (Type::Time, _) if self.chance(30) => {
                literal(value.clone(), ty, format!("'{}'", text(&value)))
            }
            (Type::Uuid, Value::Text(uuid)) if self.features.uuid_case && self.chance(20) => {
                literal(value.clone(), ty, format!("'{}'", uuid.to_uppercase()))
            }
            _ => literal(value.clone(), ty, plain(&value, ty)),
        }
    }

    fn integer(&mut self, int: i128, ty: Type) -> Expr {
        let (least, greatest) = ty.bounds().expect("an integer type");
        if !self.features.mixed_numbers {
            return literal(Value::Int(int), Type::BigInt, int.to_string());
        }
        match self.below(16) {
            0 => {
                // One beyond what the column can hold.
                let beyond = if self.chance(50) { greatest + 1 } else { least - 1 };
                let is_bigint =
                    Type::BigInt.bounds().is_some_and(|(a, b)| (a..=b).contains(&beyond));
                let edge = if is_bigint { beyond } else { greatest };
                literal(Value::Int(edge), Type::BigInt, edge.to_string())
            }
            1 => literal(Value::Decimal(int * 10, 1), Type::Decimal(12, 1), format!("{int}.0")),
            2 => {
                let value = Value::Decimal(int * 10 + 5, 1);
                literal(value.clone(), Type::Decimal(12, 1), text(&value))
            }
            3 => literal(Value::Float(int as f64), Type::Double, format!("{int}e0")),
            4 => literal(Value::Int(int), ty, format!("CAST({int} AS {})", ty.sql())),
            5 => literal(Value::Int(int), ty, format!("CAST('{int}' AS {})", ty.sql())),
            _ => literal(Value::Int(int), Type::BigInt, int.to_string()),
        }
    }

    fn floating(&mut self, float: f64) -> Expr {
        if !float.is_finite() || (float == 0.0 && float.is_sign_negative() && self.chance(50)) {
            let value = Value::Float(float);
            return literal(value.clone(), Type::Double, plain(&value, Type::Double));
        }
        if !self.features.mixed_numbers {
            return constant(Value::Float(float), Type::Double);
        }
        match self.below(5) {
            0 => literal(Value::Float(float), Type::Double, format!("{float:?}e0")),
            1 if float.fract() == 0.0 && float != 0.0 => {
                literal(Value::Float(float), Type::Double, format!("{float}"))
            }
            2 => literal(Value::Float(0.1), Type::Double, "0.1".into()),
            _ => literal(Value::Float(float), Type::Double, format!("{float:?}")),
        }
    }

    fn decimal(&mut self, value: Value) -> Expr {
        let Value::Decimal(unscaled, scale) = value else { panic!("no decimal: {value:?}") };
        let finer = Value::Decimal(unscaled * 10 + 5, scale + 1);
        let of = |value: Value, digits: u8| {
            literal(value.clone(), Type::Decimal(12, digits), text(&value))
        };
        if !self.features.mixed_numbers {
            return constant(Value::Decimal(unscaled, scale), Type::Decimal(12, scale));
        }
        match self.below(6) {
            0 => of(finer, scale + 1),
            1 => of(Value::Decimal(unscaled * 100, scale + 2), scale + 2),
            2 => literal(Value::Int(2), Type::BigInt, "2".into()),
            3 => {
                let float = unscaled as f64 / 10_f64.powi(i32::from(scale));
                literal(Value::Float(float), Type::Double, format!("{float:?}::double"))
            }
            _ => of(Value::Decimal(unscaled, scale), scale),
        }
    }

    /// A timestamp written in one of its ways, sometimes finer than columns are.
    fn timestamp(&mut self, ns: i64) -> Expr {
        let ns = if self.features.fine_timestamps && self.chance(12) { ns + 500_000 } else { ns };
        let value = Value::Timestamp(ns);
        let written = text(&value);
        let in_zone = |zone: &str, hours: i64| {
            format!("{}{zone}", text(&Value::Timestamp(ns + hours * HOUR_NS)))
        };
        let text = match self.below(8) {
            0 => format!("'{written}Z'"),
            1 => format!("'{}'", in_zone("+02:00", 2)),
            2 => format!("TIMESTAMP '{}'", in_zone("-03:00", -3)),
            3 => format!("TIMESTAMP '{}'", written.replace('T', " ")),
            4 => format!("CAST('{written}Z' AS timestamp)"),
            _ => format!("TIMESTAMP '{written}Z'"),
        };
        if ns % 1_000_000 != 0 && text.starts_with("CAST") {
            return literal(value, Type::Timestamp, format!("TIMESTAMP '{written}Z'"));
        }
        literal(value, Type::Timestamp, text)
    }
}

/// A constant that is written like this.
pub fn literal(value: Value, ty: Type, text: String) -> Expr {
    Expr::Literal(Literal { value, ty, text })
}

/// A constant in its plain form.
pub fn constant(value: Value, ty: Type) -> Expr {
    let text = plain(&value, ty);
    literal(value, ty, text)
}
