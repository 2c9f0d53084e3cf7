//! The order of UUIDs and addresses, which is that of keys as Cassandra has it.
//!
//! Time UUIDs sort by their time, then byte by byte with a sign. Other UUIDs sort by their version:
//! those of version 1 by time, all others byte by byte. Addresses sort byte by byte, so `9.0.0.1`
//! is before `10.0.0.1`. The engine's form of a key sorts like that. So sorts, comparisons,
//! extremes and slices agree: all go by that form.

use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, StringArray};
use datafusion::arrow::datatypes::{DataType as ArrowType, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use tidegate_engine::hex::{Hex, unhex};
use tidegate_engine::schema::order::{decode_component, encode_component};
use tidegate_engine::schema::value::format_uuid;
use tidegate_engine::schema::{ClusteringOrder, Value};

use super::shape::Kind;
use super::time_uuid::{as_given, map_text};
use crate::query::types::literal;

/// What stands before a text that names nothing: it sorts behind all that do.
const NAMELESS: char = 'g';

/// Bytes that sort as what a text names; `None` where it names nothing of the kind.
pub fn order_of(kind: Kind, text: &str) -> Option<Vec<u8>> {
    let ty = kind.data_type();
    let stored = literal::parse(&ty, text).ok()?.to_bytes();
    let mut order = Vec::new();
    encode_component(&ty, ClusteringOrder::Ascending, &stored, &mut order).ok()?;
    Some(order)
}

/// The value that sorts as such bytes.
fn value_of(kind: Kind, order: &[u8]) -> Option<Value> {
    let (ty, mut stored) = (kind.data_type(), Vec::new());
    decode_component(&ty, ClusteringOrder::Ascending, order, &mut stored).ok()?;
    Value::decode(&ty, &stored).ok()
}

/// The text in its one form that sorts as such bytes.
pub fn text_of(kind: Kind, order: &[u8]) -> Option<String> {
    match value_of(kind, order)? {
        Value::Uuid(uuid) | Value::TimeUuid(uuid) => Some(format_uuid(&uuid)),
        Value::Inet(address) => Some(address.to_string()),
        _ => None,
    }
}

/// The value of which [`Order`] gives `text`.
pub fn value_of_order(kind: Kind, text: &str) -> Option<Value> {
    value_of(kind, &unhex(text)?)
}

/// What the function of that name orders; `None` for another function.
pub fn ordered_by(function: &str) -> Option<Kind> {
    Kind::ALL.into_iter().find(|kind| name(*kind) == function)
}

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Uuid => "uuid_order",
        Kind::TimeUuid => "timeuuid_order",
        Kind::Inet => "inet_order",
    }
}

/// What values of a kind are ordered and compared by: the bytes that sort, as text, because frames
/// of windows take no bytes.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Order {
    kind: Kind,
    signature: Signature,
}

impl Order {
    pub fn function(kind: Kind) -> ScalarUDF {
        let signature = Signature::any(1, Volatility::Immutable);
        ScalarUDF::from(Order { kind, signature })
    }
}

impl ScalarUDFImpl for Order {
    fn name(&self) -> &str {
        name(self.kind)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[ArrowType]) -> Result<ArrowType> {
        Ok(ArrowType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let orders = map_text(&args, |text| {
            Ok(match order_of(self.kind, text) {
                Some(order) => Hex(&order).to_string(),
                None => format!("{NAMELESS}{text}"),
            })
        })?;
        as_given(&args, Arc::new(StringArray::from(orders)))
    }
}

/// `greatest` and `least` of such values.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Best {
    kind: Kind,
    is_greatest: bool,
    signature: Signature,
}

impl Best {
    pub fn function(kind: Kind, is_greatest: bool) -> ScalarUDF {
        let signature = Signature::variadic_any(Volatility::Immutable);
        ScalarUDF::from(Best { kind, is_greatest, signature })
    }
}

impl ScalarUDFImpl for Best {
    fn name(&self) -> &str {
        if self.is_greatest { "greatest_by_order" } else { "least_by_order" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[ArrowType]) -> Result<ArrowType> {
        Ok(ArrowType::Utf8)
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(self.kind.field(self.name()))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let columns = args.args.iter().map(|value| {
            let array = value.to_array(args.number_rows)?;
            datafusion::arrow::compute::cast(&array, &ArrowType::Utf8).map_err(Into::into)
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let best = (0..args.number_rows).map(|row| {
            let texts = columns.iter().map(|column| column.as_string::<i32>());
            let texts = texts.filter(|texts| texts.is_valid(row)).map(|texts| texts.value(row));
            // A text that names nothing is behind all that do, as in a sort.
            let ordered = texts.map(|text| {
                let order = order_of(self.kind, text);
                ((order.is_none(), order, text), text)
            });
            let best = match self.is_greatest {
                true => ordered.max_by(|(a, _), (b, _)| a.cmp(b)),
                false => ordered.min_by(|(a, _), (b, _)| a.cmp(b)),
            };
            best.map(|(_, text)| text)
        });
        Ok(ColumnarValue::Array(Arc::new(best.collect::<StringArray>())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_those_of_keys_and_come_back() {
        let sorted = |kind, texts: &[&str]| {
            for pair in texts.windows(2) {
                let orders = [order_of(kind, pair[0]), order_of(kind, pair[1])];
                assert!(orders[0].is_some() && orders[0] < orders[1], "{pair:?}");
            }
            for text in texts {
                let order = order_of(kind, text).unwrap();
                assert_eq!(text_of(kind, &order).as_deref(), Some(*text));
                assert!(value_of_order(kind, &Hex(&order).to_string()).is_some(), "{text}");
            }
        };
        sorted(
            Kind::TimeUuid,
            &[
                "00000000-0000-1000-8080-808080808080",
                "00000000-0000-1000-ff80-808080808080",
                "00000000-0000-1000-0080-808080808080",
                "ffffffff-0000-1000-7f7f-7f7f7f7f7f7f",
                "00000000-0001-1000-8080-808080808080",
            ],
        );
        sorted(
            Kind::Uuid,
            &[
                "ffffffff-0000-1000-0080-808080808080",
                "ffffffff-0000-1000-8080-808080808080",
                "00000000-0001-1000-8080-808080808080",
                "00000000-0000-4000-8000-000000000000",
                "ffffffff-0000-4000-8000-000000000000",
            ],
        );
        sorted(Kind::Inet, &["0.0.0.0", "9.0.0.1", "909:909::", "10.0.0.1", "255.255.255.255"]);
        assert_eq!(order_of(Kind::TimeUuid, "00000000-0000-4000-8000-000000000000"), None);
        assert_eq!(order_of(Kind::Inet, "x"), None);
    }
}
