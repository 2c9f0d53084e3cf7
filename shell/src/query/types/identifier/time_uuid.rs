//! Functions of UUIDs: `minTimeuuid`, `maxTimeuuid`, `toTimestamp`, `currentTimeuuid`, and those
//! that comparisons of UUIDs are made of.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringArray, TimestampMillisecondArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::compute::kernels::cast_utils::Parser;
use datafusion::arrow::datatypes::{
    DataType, FieldRef, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType,
};
use datafusion::common::{DataFusionError, Result, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use tidegate_engine::Database;
use tidegate_engine::schema::value::{format_uuid, parse_uuid};

use super::shape::Kind;
use crate::query::engine::Engine;

/// From 1582-10-15, where version 1 UUIDs begin, to 1970, in their unit of 100 ns.
const UUID_EPOCH: i64 = 0x01b2_1dd2_1381_4000;
/// Units of 100 ns in a millisecond.
const TICKS: i64 = 10_000;
/// Clock sequence and node of the first and of the last UUID of a moment, as Cassandra compares
/// them: byte by byte, with a sign.
const FIRST: [u8; 8] = [0x80; 8];
const LAST: [u8; 8] = [0x7f; 8];

/// What the time UUIDs that a session makes end with, of a random number: no two sessions or starts
/// make the same.
pub fn node(random: u64) -> [u8; 8] {
    let mut node = random.to_be_bytes();
    // The variant of all version 1 UUIDs, and the bit of a node that is no network card.
    node[0] = node[0] & 0x3f | 0x80;
    node[2] |= 1;
    node
}

/// A time UUID of this moment, each another one.
pub fn current(database: &Database, node: [u8; 8]) -> String {
    // Timestamps of writes rise by themselves: no two are the same in one database.
    format_uuid(&uuid_at(database.timestamp_us().wrapping_mul(10), node))
}

/// All functions that statements may call; `node` is what time UUIDs end with.
pub fn functions(database: &Engine, node: [u8; 8]) -> Vec<ScalarUDF> {
    vec![
        ScalarUDF::from(Bound::new(false)),
        ScalarUDF::from(Bound::new(true)),
        ScalarUDF::from(ToTimestamp::new()),
        ScalarUDF::from(CurrentTimeUuid::new(database.clone(), node)),
    ]
}

/// Whether a version 1 UUID has this time and the millisecond that follows: it counts in 60 bits,
/// from 1582 on.
fn has_uuid(ticks: i64) -> bool {
    let time = ticks.checked_add(UUID_EPOCH);
    time.is_some_and(|time| (0..=(1 << 60) - TICKS).contains(&time))
}

/// A version 1 UUID of a time in units of 100 ns since 1970.
fn uuid_at(ticks: i64, rest: [u8; 8]) -> [u8; 16] {
    let time = ticks.wrapping_add(UUID_EPOCH).to_be_bytes();
    let mut uuid = [0; 16];
    uuid[..4].copy_from_slice(&time[4..]);
    uuid[4..6].copy_from_slice(&time[2..4]);
    uuid[6..8].copy_from_slice(&time[..2]);
    uuid[6] = uuid[6] & 0x0f | 0x10;
    uuid[8..].copy_from_slice(&rest);
    uuid
}

/// Milliseconds since 1970 of a version 1 UUID.
fn millis(uuid: &[u8; 16]) -> i64 {
    let u = uuid;
    let time = i64::from_be_bytes([u[6] & 0x0f, u[7], u[4], u[5], u[0], u[1], u[2], u[3]]);
    (time - UUID_EPOCH).div_euclid(TICKS)
}

fn parsed(text: &str) -> Result<[u8; 16]> {
    match parse_uuid(text) {
        Some(uuid) if uuid[6] >> 4 == 1 => Ok(uuid),
        _ => exec_err!("'{text}' is no timeuuid"),
    }
}

/// Applies a function to each text of the first argument.
pub fn map_text<T>(
    args: &ScalarFunctionArgs,
    map: impl Fn(&str) -> Result<T>,
) -> Result<Vec<Option<T>>> {
    let array = args.args[0].to_array(args.number_rows)?;
    let array = cast(&array, &DataType::Utf8)?;
    array.as_string::<i32>().iter().map(|text| text.map(&map).transpose()).collect()
}

/// One value where the argument is one.
pub fn as_given(args: &ScalarFunctionArgs, array: ArrayRef) -> Result<ColumnarValue> {
    match &args.args[0] {
        ColumnarValue::Scalar(_) if array.len() == 1 => {
            let scalar = datafusion::common::ScalarValue::try_from_array(&array, 0)?;
            Ok(ColumnarValue::Scalar(scalar))
        }
        _ => Ok(ColumnarValue::Array(array)),
    }
}

/// A text in the one form of what it names; a text that names nothing stays.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Canonical {
    kind: Kind,
    signature: Signature,
}

impl Canonical {
    pub fn new(kind: Kind) -> Self {
        Canonical { kind, signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Canonical {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Uuid | Kind::TimeUuid => "canonical_uuid",
            Kind::Inet => "canonical_inet",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let canonical =
            |text: &str| Ok(self.kind.canonical(text).unwrap_or_else(|| text.to_owned()));
        let texts = map_text(&args, canonical)?;
        as_given(&args, Arc::new(StringArray::from(texts)))
    }
}

/// `minTimeuuid`, `maxTimeuuid`: the first or last UUID of a timestamp's millisecond, real or not.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Bound {
    is_end: bool,
    aliases: Vec<String>,
    signature: Signature,
}

impl Bound {
    pub fn new(is_end: bool) -> Self {
        let alias = if is_end { "max_timeuuid" } else { "min_timeuuid" };
        let signature = Signature::any(1, Volatility::Immutable);
        Bound { is_end, aliases: vec![alias.to_owned()], signature }
    }
}

impl ScalarUDFImpl for Bound {
    fn name(&self) -> &str {
        if self.is_end { "maxtimeuuid" } else { "mintimeuuid" }
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Kind::TimeUuid.field(self.name()))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let instants = millis_of(&args)?;
        let text = |ms: i64| {
            let Some(first) = ms.checked_mul(TICKS).filter(|ticks| has_uuid(*ticks)) else {
                return exec_err!("{}: no timeuuid is as far away as {ms} ms", self.name());
            };
            let uuid = match self.is_end {
                true => uuid_at(first + TICKS - 1, LAST),
                false => uuid_at(first, FIRST),
            };
            Ok(format_uuid(&uuid))
        };
        let texts: Result<Vec<Option<String>>> =
            instants.iter().map(|ms| ms.map(text).transpose()).collect();
        as_given(&args, Arc::new(StringArray::from(texts?)))
    }
}

/// The first argument, a date, a timestamp or the text of one, in milliseconds.
fn millis_of(args: &ScalarFunctionArgs) -> Result<TimestampMillisecondArray> {
    let array = args.args[0].to_array(args.number_rows)?;
    if array.data_type().is_string() {
        let instant = |text: &str| match TimestampNanosecondType::parse(text.trim()) {
            Some(ns) => Ok(ns.div_euclid(1_000_000)),
            None => exec_err!("'{text}' is no timestamp"),
        };
        return Ok(map_text(args, instant)?.into_iter().collect());
    }
    if !matches!(array.data_type(), DataType::Timestamp(..) | DataType::Date32 | DataType::Date64) {
        return exec_err!("{} is no timestamp", array.data_type());
    }
    let none = || DataFusionError::Internal("a cast gave another type".to_owned());
    // A cast would cut an instant before 1970 towards it, into the next millisecond.
    if let Some(finer) = array.as_primitive_opt::<TimestampMicrosecondType>() {
        return Ok(finer.unary(|us| us.div_euclid(1000)));
    }
    if let Some(finer) = array.as_primitive_opt::<TimestampNanosecondType>() {
        return Ok(finer.unary(|ns| ns.div_euclid(1_000_000)));
    }
    let wanted = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
    let array = cast(&array, &wanted)?;
    let millis = array.as_primitive_opt::<TimestampMillisecondType>().ok_or_else(none)?;
    Ok(millis.clone().with_timezone_opt(None::<&str>))
}

/// `toTimestamp`: when a time UUID was made, or a date begins.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct ToTimestamp {
    aliases: Vec<String>,
    signature: Signature,
}

impl ToTimestamp {
    fn new() -> Self {
        let aliases = vec!["dateof".to_owned()];
        ToTimestamp { aliases, signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for ToTimestamp {
    fn name(&self) -> &str {
        "totimestamp"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_text = args.args[0].data_type().is_string();
        let instants: TimestampMillisecondArray = match is_text {
            true => map_text(&args, |text| Ok(millis(&parsed(text)?)))?.into_iter().collect(),
            false => millis_of(&args)?,
        };
        as_given(&args, Arc::new(instants.with_timezone("UTC")))
    }
}

/// `currentTimeuuid`: a new time UUID for each row, what `now()` is in CQL.
#[derive(Debug)]
pub struct CurrentTimeUuid {
    database: Engine,
    node: [u8; 8],
    aliases: Vec<String>,
    signature: Signature,
}

impl CurrentTimeUuid {
    fn new(database: Engine, node: [u8; 8]) -> Self {
        let aliases = vec!["current_timeuuid".to_owned()];
        let signature = Signature::nullary(Volatility::Volatile);
        CurrentTimeUuid { database, node, aliases, signature }
    }
}

impl PartialEq for CurrentTimeUuid {
    fn eq(&self, other: &Self) -> bool {
        self.node == other.node
    }
}

impl Eq for CurrentTimeUuid {}

impl std::hash::Hash for CurrentTimeUuid {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.node.hash(state);
    }
}

impl ScalarUDFImpl for CurrentTimeUuid {
    fn name(&self) -> &str {
        "currenttimeuuid"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Kind::TimeUuid.field(self.name()))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let texts = (0..args.number_rows).map(|_| Some(current(&self.database, self.node)));
        Ok(ColumnarValue::Array(Arc::new(texts.collect::<StringArray>())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::types::identifier::text_of;

    fn order_of(uuid: &[u8; 16]) -> Vec<u8> {
        crate::query::types::identifier::order_of(Kind::TimeUuid, &format_uuid(uuid)).unwrap()
    }

    #[test]
    fn orders_and_uuids_are_one_to_one_and_times_come_back() {
        let early = uuid_at(0, FIRST);
        let late = uuid_at(1_357_020_000_000 * TICKS + 9_999, LAST);
        for uuid in [early, late] {
            let text = format_uuid(&uuid);
            assert_eq!(text_of(Kind::TimeUuid, &order_of(&uuid)), Some(text));
        }
        assert!(order_of(&early) < order_of(&late));
        assert!(order_of(&uuid_at(5, FIRST)) < order_of(&uuid_at(5, [0xff; 8])));
        assert!(order_of(&uuid_at(5, [0xff; 8])) < order_of(&uuid_at(5, [0; 8])));
        assert!(order_of(&uuid_at(5, [0; 8])) < order_of(&uuid_at(5, LAST)));
        assert_eq!((millis(&early), millis(&late)), (0, 1_357_020_000_000));
        assert_eq!(millis(&uuid_at(-1, FIRST)), -1);
        // As Cassandra's documentation of the functions has it.
        assert_eq!(format_uuid(&uuid_at(0, FIRST)), "13814000-1dd2-11b2-8080-808080808080");
    }
}
