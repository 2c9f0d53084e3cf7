//! Values that are the same in SQL, and the combinations of several lists of values.

use tidegate_engine::schema::Value;

/// Most combinations that lists of values may multiply to; one list may have any length.
const PRODUCTS_MAX: usize = 4096;

/// Most digits of a decimal, and most behind its point, that are looked for in keys of other
/// products.
const DIGITS_MAX: u32 = 38;
const SCALE_MAX: i32 = 38;

/// Every prefix followed by every combination of `sets`; `None` when that is too many.
pub(super) fn product(prefixes: Vec<Vec<Value>>, sets: &[Vec<Value>]) -> Option<Vec<Vec<Value>>> {
    let longest = sets.iter().map(Vec::len).chain([prefixes.len()]).max()?;
    let mut all = prefixes;
    for set in sets {
        if all.len().checked_mul(set.len())? > PRODUCTS_MAX.max(longest) {
            return None;
        }
        all = all
            .iter()
            .flat_map(|prefix| {
                set.iter().map(|value| {
                    let mut longer = prefix.clone();
                    longer.push(value.clone());
                    longer
                })
            })
            .collect();
    }
    Some(all)
}

/// All values that are the same as one of these, within lists, sets and maps as well; `same` knows
/// them of a value that holds no others. `None` when that is too many.
pub(super) fn all_of(
    values: Vec<Value>,
    same: &impl Fn(Value) -> Vec<Value>,
) -> Option<Vec<Value>> {
    // Of floats there are two zeros, so a list grows little.
    let most = PRODUCTS_MAX.max(2 * values.len());
    let mut all = Vec::new();
    for value in values {
        all.extend(all_within(value, same)?);
        if all.len() > most {
            return None;
        }
    }
    Some(all)
}

fn all_within(value: Value, same: &impl Fn(Value) -> Vec<Value>) -> Option<Vec<Value>> {
    let products = |values: Vec<Value>| {
        let sets: Option<Vec<_>> =
            values.into_iter().map(|value| all_within(value, same)).collect();
        product(vec![Vec::new()], &sets?)
    };
    Some(match value {
        Value::List(values) => products(values)?.into_iter().map(Value::List).collect(),
        Value::Set(values) => products(values)?.into_iter().map(Value::Set).collect(),
        Value::Map(entries) => {
            let parts = entries.into_iter().flat_map(|(key, value)| [key, value]).collect();
            let map = |parts: Vec<Value>| {
                let mut parts = parts.into_iter();
                let entries = std::iter::from_fn(|| parts.next().zip(parts.next()));
                Value::Map(entries.collect())
            };
            products(parts)?.into_iter().map(map).collect()
        }
        single => same(single),
    })
}

/// The values that SQL takes for equal to this one: there are two zeros among floats.
pub(super) fn equal(value: Value) -> Vec<Value> {
    match value {
        Value::Float(0.0) => vec![Value::Float(-0.0), Value::Float(0.0)],
        Value::Double(0.0) => vec![Value::Double(-0.0), Value::Double(0.0)],
        other => vec![other],
    }
}

/// A decimal in every scale that other products may have kept it with; anything else as it is.
pub(super) fn scales(value: Value) -> Vec<Value> {
    let Value::Decimal { mut unscaled, mut scale } = value else { return vec![value] };
    if unscaled == 0 {
        return (0..=SCALE_MAX).map(|scale| Value::Decimal { unscaled, scale }).collect();
    }
    while unscaled % 10 == 0 {
        (unscaled, scale) = (unscaled / 10, scale - 1);
    }
    let mut all = Vec::new();
    while scale <= SCALE_MAX && unscaled.unsigned_abs() < 10u128.pow(DIGITS_MAX) {
        all.push(Value::Decimal { unscaled, scale });
        let Some(next) = unscaled.checked_mul(10) else { break };
        (unscaled, scale) = (next, scale + 1);
    }
    all
}
