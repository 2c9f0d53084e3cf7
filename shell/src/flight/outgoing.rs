//! Types of results on their way to a client: what drivers read, and what a session asks for.
//!
//! | stored or computed          | sent                                                          |
//! |-----------------------------|---------------------------------------------------------------|
//! | Utf8View, LargeUtf8         | Utf8, also within lists, maps and structs                     |
//! | BinaryView, LargeBinary     | Binary, likewise                                              |
//! | UInt64 (`row_number()`)     | Int64, likewise; what is too large for it is refused          |
//! | dictionaries                | their values                                                  |
//! | timestamps with a zone      | as they are, or without (`result.timestamp`)                  |
//! | varint, decimals of over 38 | Decimal256, or text (`result.varint`)                         |
//! | duration                    | Interval(MonthDayNano), or text (`result.duration`)           |
//!
//! In how many parts they leave, and how they are packed, is asked for in the same way.
//!
//! Invariant: the schema of a FlightInfo and that of its DoGet are the same to the byte.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, RecordBatch, RecordBatchOptions, UInt64Array,
};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, IntervalUnit, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow_ipc::CompressionType;
use tonic::Status;
use tonic::metadata::MetadataMap;

use super::error::invalid;

/// Session options that say how results leave, with the values that each takes.
pub(super) const OPTIONS: [(&str, &[&str]); 5] = [
    (TIMESTAMP, &["zone", "naive"]),
    (VARINT, &["decimal", "text"]),
    (DURATION, &["interval", "text"]),
    (ENDPOINTS, &["auto", "shards", "one"]),
    (COMPRESSION, &["none", "lz4", "zstd"]),
];
const TIMESTAMP: &str = "result.timestamp";
const VARINT: &str = "result.varint";
const DURATION: &str = "result.duration";
const ENDPOINTS: &str = "result.endpoints";
const COMPRESSION: &str = "result.compression";
/// How gRPC for Java names itself. Its JDBC driver has no object for a timestamp with a zone.
const JAVA: &str = "grpc-java";

/// In how many parts a result that has parts leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Endpoints {
    /// One a shard where the table is worth it, else one.
    Auto,
    /// One a shard.
    Shards,
    One,
}

impl Endpoints {
    /// As [`Form::of`].
    pub(super) fn of(
        headers: &MetadataMap,
        of_session: impl Fn(&str) -> Option<String>,
    ) -> Endpoints {
        match asked(headers, of_session, ENDPOINTS).as_deref() {
            Some("shards") => Endpoints::Shards,
            Some("one") => Endpoints::One,
            _ => Endpoints::Auto,
        }
    }
}

/// How the values of a batch are packed on their way; the schema says nothing of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Compression {
    #[default]
    None,
    Lz4,
    Zstd,
}

impl Compression {
    /// As [`Form::of`].
    pub(super) fn of(
        headers: &MetadataMap,
        of_session: impl Fn(&str) -> Option<String>,
    ) -> Compression {
        match asked(headers, of_session, COMPRESSION).as_deref() {
            Some("lz4") => Compression::Lz4,
            Some("zstd") => Compression::Zstd,
            _ => Compression::None,
        }
    }

    /// Its name in Arrow.
    pub(super) fn codec(self) -> Option<CompressionType> {
        match self {
            Compression::None => None,
            Compression::Lz4 => Some(CompressionType::LZ4_FRAME),
            Compression::Zstd => Some(CompressionType::ZSTD),
        }
    }
}

/// Errors: INVALID_ARGUMENT for a header of an option's name whose value the option does not take.
pub(super) fn check(headers: &MetadataMap) -> Result<(), Status> {
    for (name, values) in OPTIONS {
        let Some(value) = headers.get(name) else { continue };
        if !values.iter().any(|known| value == known) {
            let value = String::from_utf8_lossy(value.as_encoded_bytes());
            let known = values.join(", ");
            return Err(invalid(format!("{name} is one of {known}, not '{value}'")));
        }
    }
    Ok(())
}

/// What a call asks for: by a header of the option's name, else by the option of its session.
fn asked(
    headers: &MetadataMap,
    of_session: impl Fn(&str) -> Option<String>,
    name: &str,
) -> Option<String> {
    header(headers, name).map(str::to_owned).or_else(|| of_session(name))
}

fn header<'a>(headers: &'a MetadataMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// How values leave.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub(super) struct Form {
    /// Timestamps lose their zone and keep what a clock there shows; those of columns are UTC.
    #[prost(bool, tag = "1")]
    pub without_zone: bool,
    /// Decimals of 256 bits are text.
    #[prost(bool, tag = "2")]
    pub wide_as_text: bool,
    /// Intervals of months, days and nanoseconds are text.
    #[prost(bool, tag = "3")]
    pub duration_as_text: bool,
}

impl Form {
    /// What a call asks for: by a header of the option's name, else by the option `of_session`,
    /// else what its client reads.
    pub(super) fn of(headers: &MetadataMap, of_session: impl Fn(&str) -> Option<String>) -> Form {
        let agent = header(headers, "user-agent");
        let is_java = agent.is_some_and(|agent| agent.starts_with(JAVA));
        let asked = |name: &str| asked(headers, &of_session, name);
        Form {
            without_zone: asked(TIMESTAMP).map_or(is_java, |value| value == "naive"),
            wide_as_text: asked(VARINT).is_some_and(|value| value == "text"),
            duration_as_text: asked(DURATION).is_some_and(|value| value == "text"),
        }
    }

    /// The schema of a result as it is sent.
    pub(super) fn schema(self, schema: &Schema) -> SchemaRef {
        let fields: Fields = schema.fields().iter().map(|field| self.field(field)).collect();
        Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
    }

    fn field(self, field: &FieldRef) -> FieldRef {
        let ty = self.data_type(field.data_type());
        match ty == *field.data_type() {
            true => Arc::clone(field),
            false => Arc::new(field.as_ref().clone().with_data_type(ty)),
        }
    }

    fn data_type(self, ty: &DataType) -> DataType {
        match ty {
            DataType::Utf8View | DataType::LargeUtf8 => DataType::Utf8,
            DataType::BinaryView | DataType::LargeBinary => DataType::Binary,
            // What JDBC and Go read as a number.
            DataType::UInt64 => DataType::Int64,
            DataType::Dictionary(_, values) => self.data_type(values),
            DataType::Timestamp(unit, Some(_)) if self.without_zone => {
                DataType::Timestamp(*unit, None)
            }
            DataType::Decimal256(..) if self.wide_as_text => DataType::Utf8,
            DataType::Interval(IntervalUnit::MonthDayNano) if self.duration_as_text => {
                DataType::Utf8
            }
            DataType::List(field) | DataType::ListView(field) => DataType::List(self.field(field)),
            DataType::LargeList(field) => DataType::LargeList(self.field(field)),
            DataType::FixedSizeList(field, n) => DataType::FixedSizeList(self.field(field), *n),
            DataType::Struct(fields) => {
                DataType::Struct(fields.iter().map(|field| self.field(field)).collect())
            }
            DataType::Map(entries, sorted) => DataType::Map(self.field(entries), *sorted),
            other => other.clone(),
        }
    }

    /// A batch of a result as it is sent: with the fields of `schema`, whose types are those of
    /// [`Form::schema`].
    ///
    /// Errors: when a column that was promised without nulls has one, and when a number or a text
    /// is too large for the type that is sent.
    pub(super) fn batch(
        self,
        batch: &RecordBatch,
        schema: &SchemaRef,
    ) -> Result<RecordBatch, ArrowError> {
        let columns = batch
            .columns()
            .iter()
            .zip(schema.fields())
            .map(|(column, field)| self.column(column, field.data_type()))
            .collect::<Result<Vec<_>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
    }

    fn column(self, column: &ArrayRef, wanted: &DataType) -> Result<ArrayRef, ArrowError> {
        use DataType as T;
        if column.data_type() == wanted {
            return Ok(Arc::clone(column));
        }
        match (column.data_type(), wanted) {
            (T::List(_), T::List(element)) => {
                let (_, offsets, values, nulls) = column.as_list::<i32>().clone().into_parts();
                let values = self.column(&values, element.data_type())?;
                let lists =
                    arrow::array::ListArray::try_new(Arc::clone(element), offsets, values, nulls)?;
                Ok(Arc::new(lists))
            }
            (T::Struct(_), T::Struct(fields)) => {
                Ok(Arc::new(self.structs(column.as_struct(), fields)?))
            }
            (T::Map(..), T::Map(entries, sorted)) => {
                let (_, offsets, pairs, nulls, _) = column.as_map().clone().into_parts();
                let T::Struct(fields) = entries.data_type() else {
                    return strictly(column, wanted);
                };
                let pairs = self.structs(&pairs, fields)?;
                let maps = arrow::array::MapArray::try_new(
                    Arc::clone(entries),
                    offsets,
                    pairs,
                    nulls,
                    *sorted,
                )?;
                Ok(Arc::new(maps))
            }
            (T::UInt64, T::Int64) => Ok(Arc::new(signed(column.as_primitive())?)),
            _ => strictly(column, wanted),
        }
    }

    fn structs(
        self,
        array: &arrow::array::StructArray,
        fields: &Fields,
    ) -> Result<arrow::array::StructArray, ArrowError> {
        let columns = array.columns().iter().zip(fields);
        let columns = columns.map(|(column, field)| self.column(column, field.data_type()));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        arrow::array::StructArray::try_new(fields.clone(), columns, array.nulls().cloned())
    }
}

/// A cast that makes no null of a value.
///
/// Errors: `CastError` for a value that the other type does not hold.
fn strictly(column: &ArrayRef, wanted: &DataType) -> Result<ArrayRef, ArrowError> {
    cast_with_options(column, wanted, &CastOptions { safe: false, ..CastOptions::default() })
}

/// Errors: `CastError` for a number that is too large.
fn signed(numbers: &UInt64Array) -> Result<Int64Array, ArrowError> {
    numbers.try_unary(|number| {
        i64::try_from(number).map_err(|_| {
            ArrowError::CastError(format!(
                "{number} is more than a bigint holds: cast it to decimal(20, 0) or text"
            ))
        })
    })
}

/// Whether rows of `found` can be sent as rows of `promised`: names and types are the same. Whether
/// a field may be null is not compared; rows themselves show that.
pub(super) fn keeps_promise(promised: &Schema, found: &Schema) -> bool {
    fn same(a: &Field, b: &Field) -> bool {
        a.name() == b.name() && same_type(a.data_type(), b.data_type())
    }
    fn same_type(a: &DataType, b: &DataType) -> bool {
        use DataType as T;
        match (a, b) {
            (T::List(a), T::List(b)) | (T::LargeList(a), T::LargeList(b)) => {
                same_type(a.data_type(), b.data_type())
            }
            (T::Map(a, _), T::Map(b, _)) => same_type(a.data_type(), b.data_type()),
            (T::Struct(a), T::Struct(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
            }
            (a, b) => a == b,
        }
    }
    promised.fields().len() == found.fields().len()
        && promised.fields().iter().zip(found.fields()).all(|(a, b)| same(a, b))
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        Decimal256Array, FixedSizeListArray, IntervalMonthDayNanoArray, LargeListArray,
        LargeStringArray, ListArray, MapArray, StringViewArray, StructArray,
        TimestampMillisecondArray,
    };
    use arrow::buffer::{NullBuffer, OffsetBuffer};
    use arrow::datatypes::{IntervalMonthDayNano, i256};

    use super::*;

    fn rows() -> RecordBatch {
        let views: ArrayRef = Arc::new(StringViewArray::from(vec!["a", "longer than 12 bytes"]));
        let field = Arc::new(Field::new("item", DataType::Utf8View, true));
        let offsets = OffsetBuffer::from_lengths([0, 2]);
        let lists = ListArray::new(field, offsets, Arc::clone(&views), None);
        let wide = Decimal256Array::from(vec![i256::from_i128(7), i256::MINUS_ONE]);
        let wide = wide.with_precision_and_scale(76, 0).unwrap();
        let duration = IntervalMonthDayNano::new(1, 2, 3_000_000_000);
        let columns: [(&str, ArrayRef); 5] = [
            ("view", views),
            ("views", Arc::new(lists)),
            ("at", Arc::new(TimestampMillisecondArray::from(vec![0, 1]).with_timezone("UTC"))),
            ("wide", Arc::new(wide)),
            ("took", Arc::new(IntervalMonthDayNanoArray::from(vec![duration; 2]))),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    fn types(form: Form) -> Vec<String> {
        let rows = rows();
        let schema = form.schema(rows.schema_ref());
        let sent = form.batch(&rows, &schema).unwrap();
        assert_eq!(sent.schema(), schema);
        assert_eq!(sent.num_rows(), 2);
        schema.fields().iter().map(|field| field.data_type().to_string()).collect()
    }

    #[test]
    fn views_leave_as_text_and_the_rest_as_it_is() {
        assert_eq!(
            types(Form::default()),
            [
                "Utf8",
                "List(Utf8)",
                "Timestamp(ms, \"UTC\")",
                "Decimal256(76, 0)",
                "Interval(MonthDayNano)"
            ]
        );
    }

    #[test]
    fn what_is_converted_keeps_its_nulls() {
        let text = || Arc::new(Field::new("a", DataType::Utf8View, true));
        let views = |texts: [Option<&str>; 3]| Arc::new(StringViewArray::from(texts.to_vec()));
        let nulls = || Some(NullBuffer::from(vec![true, false, true]));
        let fields = Fields::from(vec![text()]);
        let inner = views([Some("x"), None, None]);
        let structs = StructArray::new(fields.clone(), vec![inner], nulls());
        let offsets = OffsetBuffer::from_lengths([1, 0, 2]);
        let lists = ListArray::new(text(), offsets, views([Some("x"), None, Some("y")]), nulls());
        let columns: [(&str, ArrayRef); 3] = [
            ("text", views([Some("x"), None, Some("")])),
            ("structs", Arc::new(structs)),
            ("lists", Arc::new(lists)),
        ];
        let rows = RecordBatch::try_from_iter_with_nullable(
            columns.map(|(name, column)| (name, column, true)),
        );
        let rows = rows.unwrap();
        let sent =
            Form::default().batch(&rows, &Form::default().schema(rows.schema_ref())).unwrap();
        for (before, column) in rows.columns().iter().zip(sent.columns()) {
            assert_ne!(before.data_type(), column.data_type(), "it is converted");
            let is_null = |column: &ArrayRef| [0, 1, 2].map(|row| column.is_null(row));
            assert_eq!(is_null(column), [false, true, false], "{}", column.data_type());
        }
        let inner = sent.column(1).as_struct().column(0);
        assert!(inner.is_valid(0) && inner.is_null(2));
    }

    #[test]
    fn what_drivers_do_not_read_leaves_as_what_they_do() {
        let text = || Arc::new(LargeStringArray::from(vec!["a", "b"])) as ArrayRef;
        let numbers = |most| Arc::new(UInt64Array::from(vec![Some(most), None])) as ArrayRef;
        let field = Arc::new(Field::new("item", DataType::UInt64, true));
        let offsets = OffsetBuffer::from_lengths([0, 2]);
        let lists = Arc::new(ListArray::new(field, offsets, numbers(7), None)) as ArrayRef;
        let of = |most| {
            let columns = [("text", text()), ("n", numbers(most)), ("ns", Arc::clone(&lists))];
            let rows = RecordBatch::try_from_iter_with_nullable(
                columns.map(|(name, column)| (name, column, true)),
            )
            .unwrap();
            let schema = Form::default().schema(rows.schema_ref());
            Form::default().batch(&rows, &schema)
        };
        let sent = of(i64::MAX as u64).unwrap();
        let types: Vec<String> =
            sent.schema().fields().iter().map(|field| field.data_type().to_string()).collect();
        assert_eq!(types, ["Utf8", "Int64", "List(Int64)"]);
        assert_eq!(sent.column(0).as_string::<i32>().value(1), "b");
        let numbers = sent.column(1).as_primitive::<arrow::datatypes::Int64Type>();
        assert_eq!((numbers.value(0), numbers.is_null(1)), (i64::MAX, true));
        let error = of(u64::MAX).unwrap_err().to_string();
        assert!(error.contains("18446744073709551615 is more than a bigint holds"), "{error}");
    }

    /// Lists of other kinds are rare, and no number becomes null in them either.
    #[test]
    fn a_number_that_is_too_large_is_refused_within_lists_of_each_kind() {
        let item = || Arc::new(Field::new("item", DataType::UInt64, true));
        for most in [i64::MAX as u64, u64::MAX] {
            let numbers = Arc::new(UInt64Array::from(vec![Some(most), None])) as ArrayRef;
            let list = OffsetBuffer::from_lengths([2]);
            let large = OffsetBuffer::from_lengths([2]);
            let lists: [ArrayRef; 3] = [
                Arc::new(ListArray::new(item(), list, Arc::clone(&numbers), None)),
                Arc::new(LargeListArray::new(item(), large, Arc::clone(&numbers), None)),
                Arc::new(FixedSizeListArray::new(item(), 2, numbers, None)),
            ];
            for column in lists {
                let ty = column.data_type().clone();
                let rows = RecordBatch::try_from_iter([("a", column)]).unwrap();
                let schema = Form::default().schema(rows.schema_ref());
                let sent = Form::default().batch(&rows, &schema);
                assert_eq!(sent.is_ok(), most < u64::MAX, "{ty}: {sent:?}");
            }
        }
    }

    #[test]
    fn a_session_has_text_and_timestamps_without_zone_where_it_wants() {
        let form = Form { without_zone: true, wide_as_text: true, duration_as_text: true };
        assert_eq!(types(form), ["Utf8", "List(Utf8)", "Timestamp(ms)", "Utf8", "Utf8"]);
        let rows = rows();
        let sent = form.batch(&rows, &form.schema(rows.schema_ref())).unwrap();
        let text = |column: usize| sent.column(column).as_string::<i32>().value(0).to_owned();
        assert_eq!(
            (text(3), text(4)),
            ("7".to_owned(), "1 mons 2 days 3.000000000 secs".to_owned())
        );
    }

    #[test]
    fn a_call_a_session_and_a_client_are_asked_in_this_order() {
        let mut headers = MetadataMap::new();
        let none = |_: &str| None;
        assert_eq!(Form::of(&headers, none), Form::default());
        headers.insert("user-agent", "grpc-java-netty/1.71.0".parse().unwrap());
        assert!(Form::of(&headers, none).without_zone);
        let zone = |name: &str| (name == TIMESTAMP).then(|| "zone".to_owned());
        assert!(!Form::of(&headers, zone).without_zone);
        headers.insert(TIMESTAMP, "naive".parse().unwrap());
        assert!(Form::of(&headers, zone).without_zone);
    }

    #[test]
    fn each_option_changes_its_own_part_of_a_form_alone() {
        let plain = Form::default();
        for (option, value, wanted) in [
            (TIMESTAMP, "naive", Form { without_zone: true, ..plain }),
            (TIMESTAMP, "zone", plain),
            (VARINT, "text", Form { wide_as_text: true, ..plain }),
            (VARINT, "decimal", plain),
            (DURATION, "text", Form { duration_as_text: true, ..plain }),
            (DURATION, "interval", plain),
            (ENDPOINTS, "one", plain),
        ] {
            let is_known =
                |(name, values): &(&str, &[&str])| *name == option && values.contains(&value);
            assert!(OPTIONS.iter().any(is_known), "{option} {value}");
            let of_session = |name: &str| (name == option).then(|| value.to_owned());
            assert_eq!(Form::of(&MetadataMap::new(), of_session), wanted, "{option} {value}");
            let mut headers = MetadataMap::new();
            headers.insert(option, value.parse().unwrap());
            assert_eq!(Form::of(&headers, |_: &str| None), wanted, "{option} {value} of a call");
        }
    }

    #[test]
    fn a_result_leaves_in_the_parts_that_its_call_asks_for_or_else_its_session() {
        use Endpoints::{Auto, One, Shards};
        for (of_call, of_session, wanted) in [
            (None, None, Auto),
            (None, Some("auto"), Auto),
            (None, Some("shards"), Shards),
            (None, Some("one"), One),
            (Some("auto"), Some("one"), Auto),
            (Some("shards"), Some("one"), Shards),
            (Some("one"), Some("shards"), One),
            (Some("two"), None, Auto),
        ] {
            let mut headers = MetadataMap::new();
            if let Some(value) = of_call {
                headers.insert(ENDPOINTS, value.parse().unwrap());
            }
            let session = |name: &str| of_session.filter(|_| name == ENDPOINTS).map(str::to_owned);
            let found = Endpoints::of(&headers, session);
            assert_eq!(found, wanted, "{of_call:?}, {of_session:?}");
        }
    }

    #[test]
    fn rows_are_packed_as_their_call_asks_for_or_else_its_session() {
        use Compression::{Lz4, None as Plain, Zstd};
        for (of_call, of_session, wanted) in [
            (None, None, Plain),
            (None, Some("none"), Plain),
            (None, Some("lz4"), Lz4),
            (None, Some("zstd"), Zstd),
            (Some("none"), Some("zstd"), Plain),
            (Some("lz4"), Some("zstd"), Lz4),
            (Some("zstd"), None, Zstd),
        ] {
            let mut headers = MetadataMap::new();
            if let Some(value) = of_call {
                headers.insert(COMPRESSION, value.parse().unwrap());
            }
            let session =
                |name: &str| of_session.filter(|_| name == COMPRESSION).map(str::to_owned);
            let found = Compression::of(&headers, session);
            assert_eq!(found, wanted, "{of_call:?}, {of_session:?}");
        }
    }

    #[test]
    fn a_header_that_an_option_does_not_take_is_refused_with_those_that_it_does() {
        for (name, values) in OPTIONS {
            let of = |value: &str| {
                let mut headers = MetadataMap::new();
                headers.insert(name, value.parse().unwrap());
                check(&headers)
            };
            for value in values {
                assert!(of(value).is_ok(), "{name} {value}");
            }
            for wrong in ["", "gzip", "ZSTD", "none ,lz4"] {
                let refused = of(wrong).unwrap_err();
                assert_eq!(refused.code(), tonic::Code::InvalidArgument);
                let says = format!("{name} is one of {}, not '{wrong}'", values.join(", "));
                assert_eq!(refused.message(), says);
            }
        }
        assert!(check(&MetadataMap::new()).is_ok());
    }

    /// Of whatever holds other values, what it holds is sent as it is by itself.
    #[test]
    fn what_stands_within_other_values_has_the_form_of_what_stands_alone() {
        use DataType as T;
        let unit = arrow::datatypes::TimeUnit::Millisecond;
        let of = |ty: T| Arc::new(Field::new("v", ty, true));
        let key = || Arc::new(Field::new("k", T::Int32, false));
        let map = |fields: Vec<FieldRef>| {
            T::Map(Arc::new(Field::new("entries", T::Struct(fields.into()), false)), true)
        };
        let within: [&dyn Fn(T) -> T; 7] = [
            &|ty| T::List(of(ty)),
            &|ty| T::LargeList(of(ty)),
            &|ty| T::FixedSizeList(of(ty), 3),
            &|ty| T::Struct(Fields::from(vec![key(), of(ty)])),
            &|ty| map(vec![key(), of(ty)]),
            &|ty| map(vec![of(ty), key()]),
            &|ty| T::List(of(T::Struct(Fields::from(vec![of(ty)])))),
        ];
        let zoned = T::Timestamp(unit, Some("UTC".into()));
        let all = Form { without_zone: true, wide_as_text: true, duration_as_text: true };
        assert_eq!(Form::default().data_type(&zoned), zoned);
        assert_eq!(all.data_type(&zoned), T::Timestamp(unit, None));
        for ty in [
            T::Utf8View,
            T::LargeUtf8,
            T::BinaryView,
            T::LargeBinary,
            T::UInt64,
            T::Int64,
            T::Dictionary(Box::new(T::Int32), Box::new(T::LargeUtf8)),
            zoned,
            T::Decimal128(38, 2),
            T::Decimal256(76, 0),
            T::Interval(IntervalUnit::MonthDayNano),
        ] {
            for form in [Form::default(), all] {
                let alone = form.data_type(&ty);
                for holding in within {
                    let found = form.data_type(&holding(ty.clone()));
                    assert_eq!(found, holding(alone.clone()), "{ty} by {form:?}");
                }
            }
        }
    }

    #[test]
    fn keys_and_values_of_a_map_are_converted_and_nulls_stay() {
        let keys: ArrayRef = Arc::new(StringViewArray::from(vec!["a", "b", "c"]));
        let wide = vec![Some(i256::from_i128(7)), None, Some(i256::MINUS_ONE)];
        let wide = Decimal256Array::from(wide).with_precision_and_scale(76, 0).unwrap();
        let wide: ArrayRef = Arc::new(wide);
        let fields = Fields::from(vec![
            Field::new("keys", DataType::Utf8View, false),
            Field::new("values", wide.data_type().clone(), true),
        ]);
        let pairs = StructArray::new(fields.clone(), vec![keys, wide], None);
        let entries = Arc::new(Field::new("entries", DataType::Struct(fields), false));
        let offsets = OffsetBuffer::from_lengths([2, 0, 1]);
        let nulls = Some(NullBuffer::from(vec![true, false, true]));
        let maps: ArrayRef = Arc::new(MapArray::new(entries, offsets, pairs, nulls, false));
        let rows = RecordBatch::try_from_iter_with_nullable([("m", maps, true)]).unwrap();
        let form = Form { wide_as_text: true, ..Form::default() };
        let sent = form.batch(&rows, &form.schema(rows.schema_ref())).unwrap();
        let maps = sent.column(0).as_map();
        assert_eq!([0, 1, 2].map(|row| maps.is_null(row)), [false, true, false]);
        assert_eq!([0, 1, 2].map(|row| maps.value_length(row)), [2, 0, 1]);
        let (keys, values) = (maps.keys().as_string::<i32>(), maps.values().as_string::<i32>());
        assert_eq!(keys.iter().flatten().collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(values.iter().collect::<Vec<_>>(), [Some("7"), None, Some("-1")]);
    }

    #[test]
    fn a_promise_is_kept_by_the_same_names_and_types() {
        let field = |name: &str, ty| Field::new(name, ty, true);
        let schema = |field| Schema::new(vec![field]);
        let promised = schema(field("a", DataType::Int32));
        assert!(keeps_promise(&promised, &schema(Field::new("a", DataType::Int32, false))));
        assert!(!keeps_promise(&promised, &schema(field("a", DataType::Int64))));
        assert!(!keeps_promise(&promised, &schema(field("b", DataType::Int32))));
        assert!(!keeps_promise(&promised, &Schema::empty()));

        let parts = |names: &[&str]| {
            let fields = names.iter().map(|name| field(name, DataType::Int32));
            schema(field("s", DataType::Struct(fields.collect())))
        };
        let promised = parts(&["a", "b"]);
        assert!(keeps_promise(&promised, &promised));
        for found in [&["a"][..], &["a", "b", "c"], &["b", "a"], &[]] {
            assert!(!keeps_promise(&promised, &parts(found)), "{found:?}");
            assert!(!keeps_promise(&parts(found), &promised), "{found:?}");
        }
    }

    /// What a list, a map or a field of a row holds is of the promise.
    #[test]
    fn a_promise_is_kept_within_what_holds_other_values() {
        use DataType as T;
        let of = |ty: T, is_nullable| Arc::new(Field::new("v", ty, is_nullable));
        let text = || Field::new("k", T::Utf8, false);
        let within: [(&str, &dyn Fn(FieldRef) -> T); 5] = [
            ("a list", &T::List),
            ("a large list", &T::LargeList),
            ("a row", &|field| T::Struct(Fields::from(vec![field]))),
            ("values of a map", &|field| {
                let pair = Fields::from(vec![Arc::new(text()), field]);
                T::Map(Arc::new(Field::new("entries", T::Struct(pair), false)), false)
            }),
            ("keys of a map", &|field| {
                let pair = Fields::from(vec![field, Arc::new(text())]);
                T::Map(Arc::new(Field::new("entries", T::Struct(pair), false)), false)
            }),
        ];
        for (what, holding) in within {
            let schema = |ty, is_nullable| {
                Schema::new(vec![Field::new("a", holding(of(ty, is_nullable)), true)])
            };
            let promised = schema(T::Int32, true);
            assert!(keeps_promise(&promised, &schema(T::Int32, false)), "{what}");
            assert!(!keeps_promise(&promised, &schema(T::Int64, true)), "{what}");
            assert!(!keeps_promise(&schema(T::Int64, true), &promised), "{what}");
            for (other, holding) in within.iter().filter(|(other, _)| *other != what) {
                let found = Field::new("a", holding(of(T::Int32, true)), true);
                let is_kept = keeps_promise(&promised, &Schema::new(vec![found]));
                assert!(!is_kept, "{what}, and {other} came");
            }
        }
    }
}
