//! Operators, functions and casts on single values.

use std::cmp::Ordering;

use super::ast::{Binary, Function, Part, Unary};
use super::evaluate::Outcome;
use super::value::{
    DAY_NS, Type, Value, civil, compare, first_of, power, sort_order, text, to_double, zone_offset,
};

const HOUR_NS: i64 = 3_600_000_000_000;

pub fn unary(unary: Unary, value: &Value) -> Outcome<Value> {
    let is = |wanted: Value| Value::Bool(*value == wanted);
    let is_not = |wanted: Value| Value::Bool(*value != wanted);
    Ok(match (unary, value) {
        (Unary::IsNull | Unary::IsUnknown, _) => is(Value::Null),
        (Unary::IsNotNull | Unary::IsNotUnknown, _) => is_not(Value::Null),
        (Unary::IsTrue, _) => is(Value::Bool(true)),
        (Unary::IsNotTrue, _) => is_not(Value::Bool(true)),
        (Unary::IsFalse, _) => is(Value::Bool(false)),
        (Unary::IsNotFalse, _) => is_not(Value::Bool(false)),
        (_, Value::Null) => Value::Null,
        (Unary::Not, Value::Bool(bool)) => Value::Bool(!bool),
        (Unary::Minus, Value::Int(int)) => Value::Int(-int),
        (Unary::Minus, Value::Float(float)) => Value::Float(-float),
        (Unary::Minus, Value::Decimal(unscaled, scale)) => Value::Decimal(-unscaled, *scale),
        (unary, value) => panic!("{unary:?} of {value:?}"),
    })
}

/// Whether a comparison holds of what compares like this.
pub fn is_met(binary: Binary, order: Ordering) -> bool {
    match binary {
        Binary::Equal => order.is_eq(),
        Binary::Differs => order.is_ne(),
        Binary::Less => order.is_lt(),
        Binary::LessOrEqual => order.is_le(),
        Binary::Greater => order.is_gt(),
        Binary::GreaterOrEqual => order.is_ge(),
        other => panic!("{other:?} is no comparison"),
    }
}

/// Any operator but AND and OR; `ty` is what arithmetic gives.
pub fn binary(binary: Binary, left: &Value, right: &Value, ty: Type) -> Outcome<Value> {
    match binary {
        Binary::IsDistinct => return Ok(Value::Bool(sort_order(left, right).is_ne())),
        Binary::IsNotDistinct => return Ok(Value::Bool(sort_order(left, right).is_eq())),
        _ if left.is_null() || right.is_null() => return Ok(Value::Null),
        Binary::Append => return Ok(Value::Text(text(left) + &text(right))),
        _ if !binary.is_arithmetic() => {
            let order = compare(left, right).expect("neither is null");
            return Ok(Value::Bool(is_met(binary, order)));
        }
        _ => {}
    }
    match ty {
        Type::Float | Type::Double => {
            let (a, b) = (to_double(left), to_double(right));
            let result = match binary {
                Binary::Add => a + b,
                Binary::Subtract => a - b,
                Binary::Multiply => a * b,
                Binary::Divide => a / b,
                _ => a % b,
            };
            Ok(Value::Float(if ty == Type::Float { f64::from(result as f32) } else { result }))
        }
        Type::Decimal(..) => Ok(decimal_arithmetic(binary, left, right)),
        _ => {
            let (Value::Int(a), Value::Int(b)) = (left, right) else {
                panic!("{left:?} {binary:?} {right:?}");
            };
            let result = match binary {
                Binary::Add => a + b,
                Binary::Subtract => a - b,
                Binary::Multiply => a * b,
                _ if *b == 0 => return Err("division by zero".into()),
                Binary::Divide => a / b,
                _ => a % b,
            };
            within(result, ty)
        }
    }
}

/// An integer of a type.
fn within(int: i128, ty: Type) -> Outcome<Value> {
    let (least, greatest) = ty.bounds().expect("an integer type");
    if (least..=greatest).contains(&int) {
        Ok(Value::Int(int))
    } else {
        Err(format!("{int} is no {}", ty.sql()))
    }
}

fn decimal_arithmetic(binary: Binary, left: &Value, right: &Value) -> Value {
    let parts = |value: &Value| match value {
        Value::Int(int) => (*int, 0),
        Value::Decimal(unscaled, scale) => (*unscaled, *scale),
        other => panic!("{other:?} is not exact"),
    };
    let ((a, a_scale), (b, b_scale)) = (parts(left), parts(right));
    let scale = a_scale.max(b_scale);
    let (wide_a, wide_b) = (a * power(scale - a_scale), b * power(scale - b_scale));
    match binary {
        Binary::Add => Value::Decimal(wide_a + wide_b, scale),
        Binary::Subtract => Value::Decimal(wide_a - wide_b, scale),
        Binary::Multiply => Value::Decimal(a * b, a_scale + b_scale),
        other => panic!("the model has no {other:?} of decimals"),
    }
}

/// LIKE by trying every place for what a `%` takes.
pub fn like(value: &Value, pattern: &str, ignore_case: bool) -> Option<bool> {
    let Value::Text(text) = value else { return None };
    let fold = |text: &str| if ignore_case { text.to_lowercase() } else { text.to_owned() };
    let chars = |text: &str| fold(text).chars().collect::<Vec<char>>();
    fn matches(text: &[char], pattern: &[char]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some(('%', rest)) => (0..=text.len()).any(|from| matches(&text[from..], rest)),
            Some((wanted, rest)) => match text.split_first() {
                Some((found, text)) => (*wanted == '_' || wanted == found) && matches(text, rest),
                None => false,
            },
        }
    }
    Some(matches(&chars(text), &chars(pattern)))
}

/// A value as one of another type.
///
/// Errors: when it is none.
pub fn cast(value: &Value, ty: Type) -> Outcome<Value> {
    let wrong = || format!("{value:?} is no {}", ty.sql());
    Ok(match (value, ty) {
        (Value::Null, _) => Value::Null,
        (Value::Float(float), Type::Text) => Value::Text(format!("{float:?}")),
        (Value::Timestamp(_), Type::Text) => Value::Text(text(value) + "Z"),
        (_, Type::Text) => Value::Text(text(value)),
        (Value::Text(text), Type::Bool) => Value::Bool(match text.as_str() {
            "true" => true,
            "false" => false,
            _ => return Err(wrong()),
        }),
        (Value::Text(text), ty) if ty.is_integer() => {
            within(text.parse().map_err(|_| wrong())?, ty)?
        }
        (Value::Text(text), Type::Double) => Value::Float(text.parse().map_err(|_| wrong())?),
        (Value::Text(_), Type::Date | Type::Timestamp) => return Err(wrong()),
        (Value::Bool(bool), ty) if ty.is_integer() => Value::Int(i128::from(*bool)),
        (Value::Int(int), Type::Bool) => Value::Bool(*int != 0),
        (Value::Int(int), ty) if ty.is_integer() => within(*int, ty)?,
        (Value::Decimal(unscaled, scale), ty) if ty.is_integer() => {
            within(unscaled / power(*scale), ty)?
        }
        (Value::Float(float), ty) if ty.is_integer() => {
            let (least, greatest) = ty.bounds().expect("an integer type");
            let whole = float.trunc();
            // A double is never just beyond the greatest: the next one is its power of two.
            if float.is_nan() || whole < least as f64 || whole >= (greatest + 1) as f64 {
                return Err(wrong());
            }
            Value::Int(whole as i128)
        }
        (Value::Int(_) | Value::Decimal(..) | Value::Float(_), Type::Double) => {
            Value::Float(to_double(value))
        }
        (Value::Int(int), Type::Float) => Value::Float(f64::from(*int as f32)),
        (Value::Decimal(..) | Value::Float(_), Type::Float) => {
            Value::Float(f64::from(to_double(value) as f32))
        }
        (Value::Decimal(unscaled, scale), Type::Decimal(_, wanted)) if *scale <= wanted => {
            Value::Decimal(unscaled * power(wanted - scale), wanted)
        }
        (Value::Int(int), Type::Decimal(precision, scale)) => {
            let unscaled = int * power(scale);
            if unscaled.abs() >= power(precision) {
                return Err(wrong());
            }
            Value::Decimal(unscaled, scale)
        }
        (Value::Date(_), Type::Date) | (Value::Timestamp(_), Type::Timestamp) => value.clone(),
        (Value::Timestamp(ns), Type::Date) => {
            Value::Date(i32::try_from(ns.div_euclid(DAY_NS)).map_err(|_| wrong())?)
        }
        (Value::Date(days), Type::Timestamp) => Value::Timestamp(i64::from(*days) * DAY_NS),
        (value, ty) => panic!("the model does not cast {value:?} to {}", ty.sql()),
    })
}

/// What the clock or the calendar shows in a zone.
pub fn part(part: Part, value: &Value, zone: &str) -> Value {
    let ns = match value {
        Value::Null => return Value::Null,
        Value::Timestamp(ns) => ns + zone_offset(zone, *ns),
        Value::Date(days) => i64::from(*days) * DAY_NS,
        other => panic!("{other:?} has no clock"),
    };
    let days = i32::try_from(ns.div_euclid(DAY_NS)).expect("a date");
    let (year, month, day) = civil(days);
    let since_midnight = ns.rem_euclid(DAY_NS);
    Value::Int(match part {
        Part::Year => year.into(),
        Part::Month => month.into(),
        Part::Day => day.into(),
        Part::Hour => (since_midnight / HOUR_NS).into(),
        Part::Minute => (since_midnight / (HOUR_NS / 60) % 60).into(),
        // 1970-01-01 was a Thursday.
        Part::DayOfWeek => (days + 4).rem_euclid(7).into(),
    })
}

pub fn call(function: Function, arguments: &[Value]) -> Outcome<Value> {
    match function {
        Function::Coalesce => {
            let found = arguments.iter().find(|value| !value.is_null());
            return Ok(found.cloned().unwrap_or(Value::Null));
        }
        Function::NullIf => {
            let is_equal = compare(&arguments[0], &arguments[1]) == Some(Ordering::Equal);
            return Ok(if is_equal { Value::Null } else { arguments[0].clone() });
        }
        Function::Greatest | Function::Least => {
            let mut values: Vec<Value> =
                arguments.iter().filter(|value| !value.is_null()).cloned().collect();
            values.sort_by(sort_order);
            let best = if function == Function::Greatest { values.last() } else { values.first() };
            return Ok(best.cloned().unwrap_or(Value::Null));
        }
        Function::Concat => {
            let texts = arguments.iter().filter(|value| !value.is_null()).map(text);
            return Ok(Value::Text(texts.collect()));
        }
        _ if arguments.iter().any(Value::is_null) => return Ok(Value::Null),
        _ => {}
    }
    Ok(match &arguments[0] {
        Value::Text(text) => of_text(function, text, &arguments[1..]),
        Value::Timestamp(ns) => Value::Timestamp(match function {
            Function::TruncateToHour => ns.div_euclid(HOUR_NS) * HOUR_NS,
            Function::TruncateToDay => ns.div_euclid(DAY_NS) * DAY_NS,
            _ => {
                let day = i32::try_from(ns.div_euclid(DAY_NS)).expect("a date");
                let (year, month, _) = civil(day);
                i64::from(first_of(year, month)) * DAY_NS
            }
        }),
        number => of_number(function, number),
    })
}

fn of_number(function: Function, number: &Value) -> Value {
    match (function, number) {
        (Function::Abs, Value::Int(int)) => Value::Int(int.abs()),
        (Function::Abs, Value::Decimal(unscaled, scale)) => Value::Decimal(unscaled.abs(), *scale),
        (Function::Abs, Value::Float(float)) => Value::Float(float.abs()),
        (Function::Floor, Value::Float(float)) => Value::Float(float.floor()),
        (Function::Ceil, Value::Float(float)) => Value::Float(float.ceil()),
        (Function::Round, Value::Float(float)) => Value::Float(float.round()),
        (function, number) => panic!("{function:?} of {number:?}"),
    }
}

fn of_text(function: Function, text: &str, rest: &[Value]) -> Value {
    let chars: Vec<char> = text.chars().collect();
    let int = |at: usize| match &rest[at] {
        Value::Int(int) => *int,
        other => panic!("{other:?} is no number"),
    };
    let other = |at: usize| match &rest[at] {
        Value::Text(text) => text.as_str(),
        other => panic!("{other:?} is no text"),
    };
    // Characters from..to, as far as there are any.
    let between = |from: i128, to: i128| -> String {
        let is_in = |(at, _): &(usize, char)| (from..to).contains(&(*at as i128));
        chars.iter().copied().enumerate().filter(is_in).map(|(_, c)| c).collect()
    };
    let length = chars.len() as i128;
    Value::Text(match function {
        Function::Upper => text.to_uppercase(),
        Function::Lower => text.to_lowercase(),
        Function::Trim => text.trim_matches(' ').to_owned(),
        Function::Reverse => chars.iter().rev().collect(),
        Function::Substring => between(int(0) - 1, int(0) - 1 + int(1)),
        // A negative count leaves out so many at the other end.
        Function::Left if int(0) < 0 => between(0, length + int(0)),
        Function::Left => between(0, int(0)),
        Function::Right if int(0) < 0 => between(-int(0), length),
        Function::Right => between(length - int(0), length),
        Function::Replace if other(0).is_empty() => text.to_owned(),
        Function::Replace => text.replace(other(0), other(1)),
        Function::Length => return Value::Int(length),
        Function::StartsWith => return Value::Bool(text.starts_with(other(0))),
        Function::Position => {
            let before = text.find(other(0)).map(|at| text[..at].chars().count());
            return Value::Int(before.map_or(0, |before| before as i128 + 1));
        }
        function => panic!("{function:?} of text"),
    })
}
