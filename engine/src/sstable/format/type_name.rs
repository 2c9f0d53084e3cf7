//! Names of column types as Cassandra writes them into `Statistics.db`.
//!
//! A column of the table takes a file's column of the same type; digits of decimals, and names and
//! keyspaces of user types, are not looked at, and ASCII is text. Values that are whole and of a
//! type that the table does not name (frozen, `varint`, `duration`, vectors) may also be blobs in
//! it. A column that the table lacks is skipped, whatever its type.

use super::class_name::{ClassName, PACKAGE, text_of_hex};
use crate::hex::Hex;
use crate::schema::{ClusteringOrder, Column, DataType, Scalar, TableSchema, UserType};

/// Name of a type. Types inside a frozen one are not called frozen again.
fn name_of(ty: &DataType, is_inside_frozen: bool) -> String {
    let nested = |ty: &DataType, is_inside_frozen: bool| {
        let name = name_of(ty, is_inside_frozen || ty.is_multi_cell());
        match ty.is_multi_cell() && !is_inside_frozen {
            true => format!("{PACKAGE}FrozenType({name})"),
            false => name,
        }
    };
    let class = match ty {
        DataType::List(element) => format!("ListType({})", nested(element, is_inside_frozen)),
        DataType::Set(element) => format!("SetType({})", nested(element, is_inside_frozen)),
        DataType::Map(key, value) => {
            let (key, value) = (nested(key, is_inside_frozen), nested(value, is_inside_frozen));
            format!("MapType({key},{value})")
        }
        DataType::Tuple(fields) => {
            let fields: Vec<String> = fields.iter().map(|ty| nested(ty, true)).collect();
            format!("TupleType({})", fields.join(","))
        }
        DataType::User(user) => {
            let hex = |text: &str| Hex(text.as_bytes()).to_string();
            let fields: Vec<String> = user
                .fields
                .iter()
                .map(|(name, ty)| format!("{}:{}", hex(name), nested(ty, is_inside_frozen)))
                .collect();
            let (keyspace, name) = (&user.keyspace, hex(&user.name));
            format!("UserType({keyspace},{name},{})", fields.join(","))
        }
        DataType::Frozen(inner) => format!("FrozenType({})", name_of(inner, true)),
        plain => plain.scalar().expect("all others have parameters").class().to_owned(),
    };
    format!("{PACKAGE}{class}")
}

/// Name of a column's type, with the order of a clustering column: what `cql_type` reads.
pub fn marshal_name(column: &Column) -> String {
    let plain = name_of(&column.ty, false);
    match column.clustering_order() {
        ClusteringOrder::Ascending => plain,
        ClusteringOrder::Descending => format!("{PACKAGE}ReversedType({plain})"),
    }
}

/// The type that Cassandra's class name says, and the order of a clustering column of it; `None`
/// for a type that the engine does not have. A decimal is taken as wide as SQL shows one.
pub fn cql_type(name: &str) -> Option<(DataType, ClusteringOrder)> {
    let parsed = ClassName::parse(name)?;
    let (parsed, order) = match (parsed.class, parsed.parameters.as_slice()) {
        ("ReversedType", [inner]) => (inner, ClusteringOrder::Descending),
        _ => (&parsed, ClusteringOrder::Ascending),
    };
    let ty = type_of(parsed)?;
    ty.validate().is_ok().then_some((ty, order))
}

fn type_of(parsed: &ClassName<'_>) -> Option<DataType> {
    let parameters = parsed.parameters.as_slice();
    Some(match (parsed.class, parameters) {
        ("ListType", [element]) => DataType::list_of(type_of(element)?),
        ("SetType", [element]) => DataType::set_of(type_of(element)?),
        ("MapType", [key, value]) => DataType::map_of(type_of(key)?, type_of(value)?),
        ("TupleType", fields) => {
            let fields: Option<Vec<DataType>> = fields.iter().map(type_of).collect();
            DataType::tuple_of(fields?)
        }
        ("UserType", [keyspace, name, fields @ ..]) => {
            let field = |field: &ClassName<'_>| Some((text_of_hex(field.label?)?, type_of(field)?));
            let fields: Option<Vec<(String, DataType)>> = fields.iter().map(field).collect();
            let user = UserType::new(keyspace.class, text_of_hex(name.class)?, fields?);
            DataType::User(Box::new(user))
        }
        ("FrozenType", [inner]) => type_of(inner)?.frozen(),
        (class, []) => DataType::of_scalar(Scalar::of_class(class)?)?,
        _ => return None,
    })
}

/// Whether values of the stored type are values of `ty`, with equal bytes and order.
fn is_same(stored: &DataType, ty: &DataType) -> bool {
    match (stored, ty) {
        (DataType::Decimal { .. }, DataType::Decimal { .. }) => true,
        (DataType::List(a), DataType::List(b))
        | (DataType::Set(a), DataType::Set(b))
        | (DataType::Frozen(a), DataType::Frozen(b)) => is_same(a, b),
        (DataType::Map(ak, av), DataType::Map(bk, bv)) => is_same(ak, bk) && is_same(av, bv),
        (DataType::Tuple(a), DataType::Tuple(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        // Fields are added at the end of a type while its values stay.
        (DataType::User(a), DataType::User(b)) => {
            let mut both = a.fields.iter().zip(&b.fields);
            a.fields.len() <= b.fields.len() && both.all(|(a, b)| a.0 == b.0 && is_same(&a.1, &b.1))
        }
        _ => stored == ty,
    }
}

/// Name of the type of a table's partition key.
pub(super) fn of_partition_key(schema: &TableSchema) -> String {
    let names: Vec<String> = schema.partition_key().map(marshal_name).collect();
    match names.as_slice() {
        [name] => name.clone(),
        _ => format!("{PACKAGE}CompositeType({})", names.join(",")),
    }
}

/// Whether values of the stored type are whole and may stand as blobs. Outside of keys their order
/// does not matter.
fn is_opaque(parsed: &ClassName<'_>) -> bool {
    matches!(
        parsed.class,
        "FrozenType" | "TupleType" | "VectorType" | "IntegerType" | "DurationType"
    )
}

/// Whether the stored type `name` fits `column`.
pub(super) fn fits_column(name: &str, column: &Column) -> bool {
    if let Some((stored, order)) = cql_type(name)
        && order == column.clustering_order()
        && is_same(&stored, &column.ty)
    {
        return true;
    }
    column.ty == DataType::Blob
        && !column.is_key()
        && ClassName::parse(name).is_some_and(|parsed| is_opaque(&parsed))
}

/// The types of the columns of a partition key whose type has this name; `None` where the engine
/// lacks one of them.
pub fn partition_key_types(name: &str) -> Option<Vec<DataType>> {
    let parsed = ClassName::parse(name)?;
    if parsed.class == "CompositeType" {
        return parsed.parameters.iter().map(type_of).collect();
    }
    Some(vec![type_of(&parsed)?])
}

/// Whether the stored type `name` fits the partition key of `schema`.
pub(super) fn fits_partition_key(name: &str, schema: &TableSchema) -> bool {
    let columns: Vec<&Column> = schema.partition_key().collect();
    partition_key_types(name).is_some_and(|stored| {
        stored.len() == columns.len()
            && stored.iter().zip(columns).all(|(stored, column)| is_same(stored, &column.ty))
    })
}

/// How a column's cells are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Length of non-empty values; `None` where a length is written.
    pub(crate) fixed_bytes: Option<usize>,
    /// A row may have many cells of the column, each with a path.
    pub(crate) is_multi_cell: bool,
    /// Values are what nodes have counted.
    pub(super) is_counter: bool,
}

/// The layout of columns of the stored type `name`; `None` when the type is unknown, so that not
/// even skipping is possible.
pub(crate) fn shape(name: &str) -> Option<Shape> {
    shape_of(&ClassName::parse(name)?)
}

fn shape_of(parsed: &ClassName<'_>) -> Option<Shape> {
    let whole = |fixed_bytes| Some(Shape { fixed_bytes, is_multi_cell: false, is_counter: false });
    match (parsed.class, parsed.parameters.as_slice()) {
        ("DateType", _) => whole(Some(8)),
        ("LexicalUUIDType", _) => whole(Some(16)),
        ("TupleType" | "CompositeType" | "DynamicCompositeType", _) => whole(None),
        ("CounterColumnType", _) => {
            Some(Shape { fixed_bytes: None, is_multi_cell: false, is_counter: true })
        }
        ("ListType" | "SetType" | "MapType" | "UserType", _) => {
            Some(Shape { fixed_bytes: None, is_multi_cell: true, is_counter: false })
        }
        // Frozen collections vary in length, frozen scalars are scalars.
        ("FrozenType" | "ReversedType", [inner]) => whole(shape_of(inner)?.fixed_bytes),
        ("VectorType", [element, dimension]) => {
            let dimension: usize = dimension.class.parse().ok()?;
            match shape_of(element)?.fixed_bytes {
                Some(bytes) => whole(Some(bytes.checked_mul(dimension)?)),
                None => whole(None),
            }
        }
        (class, _) => whole(Scalar::of_class(class)?.fixed_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{ColumnKind, TableId, TableOptions};

    fn column(ty: DataType, order: ClusteringOrder) -> Column {
        Column { name: "c".into(), ty, kind: ColumnKind::ClusteringKey { position: 0, order } }
    }

    fn address() -> UserType {
        let tags = DataType::set_of(DataType::Text);
        let fields = [("street", DataType::Text), ("zip", DataType::Int), ("tags", tags)];
        UserType::new("fx", "addr", fields.map(|(name, ty)| (name.to_owned(), ty)))
    }

    #[test]
    fn every_type_reads_the_name_it_writes() {
        let user = DataType::User(Box::new(address()));
        let types = [
            DataType::Boolean,
            DataType::TinyInt,
            DataType::SmallInt,
            DataType::Int,
            DataType::BigInt,
            DataType::Float,
            DataType::Double,
            DataType::DECIMAL_WIDE,
            DataType::Varint,
            DataType::Text,
            DataType::Blob,
            DataType::Date,
            DataType::Time,
            DataType::Timestamp,
            DataType::Duration,
            DataType::Uuid,
            DataType::TimeUuid,
            DataType::Inet,
            DataType::Counter,
            DataType::list_of(DataType::Int),
            DataType::list_of(DataType::Int).frozen(),
            DataType::set_of(user.clone()),
            DataType::map_of(DataType::list_of(DataType::Int), DataType::set_of(DataType::Inet)),
            DataType::tuple_of([DataType::list_of(DataType::Int), user.clone()]),
            user.clone(),
            user.frozen(),
        ];
        for ty in &types {
            for order in [ClusteringOrder::Ascending, ClusteringOrder::Descending] {
                let column = column(ty.clone(), order);
                let name = marshal_name(&column);
                assert_eq!(cql_type(&name), Some((ty.clone(), order)), "{name}");
                assert!(fits_column(&name, &column), "{name}");
                for other in types.iter().filter(|other| *other != ty) {
                    assert!(!fits_column(&name, &Column { ty: other.clone(), ..column.clone() }));
                }
            }
            let ascending = column(ty.clone(), ClusteringOrder::Ascending);
            let stored = shape(&marshal_name(&ascending)).unwrap();
            assert_eq!(stored.fixed_bytes, ty.fixed_bytes());
            assert_eq!(stored.is_multi_cell, ty.is_multi_cell());
            assert_eq!(stored.is_counter, *ty == DataType::Counter);
        }
    }

    #[test]
    fn names_are_cassandras() {
        let name = |ty: DataType| {
            marshal_name(&column(ty, ClusteringOrder::Ascending)).replace(PACKAGE, "")
        };
        let user = DataType::User(Box::new(address()));
        let fields = |tags: &str| {
            format!("UserType(fx,61646472,737472656574:UTF8Type,7a6970:Int32Type,74616773:{tags})")
        };
        assert_eq!(name(user.clone()), fields("FrozenType(SetType(UTF8Type))"));
        let frozen = format!("FrozenType({})", fields("SetType(UTF8Type)"));
        assert_eq!(name(user.clone().frozen()), frozen);
        assert_eq!(name(DataType::list_of(user)), format!("ListType({frozen})"));
        let nested =
            DataType::map_of(DataType::Int, DataType::list_of(DataType::list_of(DataType::Int)));
        assert_eq!(
            name(nested.clone()),
            "MapType(Int32Type,FrozenType(ListType(ListType(Int32Type))))"
        );
        assert_eq!(
            name(nested.frozen()),
            "FrozenType(MapType(Int32Type,ListType(ListType(Int32Type))))"
        );
        let tuple = DataType::tuple_of([DataType::Int, DataType::set_of(DataType::Text)]);
        assert_eq!(name(tuple), "TupleType(Int32Type,SetType(UTF8Type))");
    }

    #[test]
    fn a_partition_key_fits_only_with_all_of_its_types_in_their_order() {
        let schema = |types: &[DataType]| {
            let column = |(position, ty): (u16, &DataType)| {
                let kind = ColumnKind::PartitionKey { position };
                Column { name: format!("p{position}"), ty: ty.clone(), kind }
            };
            TableSchema {
                id: TableId(1),
                keyspace: "ks".into(),
                name: "t".into(),
                columns: (0..).zip(types).map(column).collect(),
                options: TableOptions::default(),
                drops: Vec::new(),
            }
        };
        let (int, text) = (DataType::Int, DataType::Text);
        let keys = [
            vec![int.clone()],
            vec![text.clone()],
            vec![int.clone(), int.clone()],
            vec![int.clone(), text.clone()],
            vec![text.clone(), int.clone()],
            vec![int.clone(), text, int],
        ];
        for stored in &keys {
            let name = of_partition_key(&schema(stored));
            assert_eq!(partition_key_types(&name), Some(stored.clone()), "{name}");
            for own in &keys {
                let fits = fits_partition_key(&name, &schema(own));
                assert_eq!(fits, own == stored, "{name} as {own:?}");
            }
        }
    }

    /// In the other one rows would come in a wrong order, and slices would miss some.
    #[test]
    fn a_clustering_column_fits_only_in_its_order() {
        let orders = [ClusteringOrder::Ascending, ClusteringOrder::Descending];
        let list = DataType::list_of(DataType::Int).frozen();
        for ty in [DataType::Int, DataType::Text, DataType::Blob, DataType::DECIMAL_WIDE, list] {
            for stored in orders {
                let name = marshal_name(&column(ty.clone(), stored));
                for own in orders {
                    let fits = fits_column(&name, &column(ty.clone(), own));
                    assert_eq!(fits, stored == own, "{name}, {own:?}");
                }
                let is_ascending = stored == ClusteringOrder::Ascending;
                let own = column(ty.clone(), ClusteringOrder::Ascending);
                let regular = Column { kind: ColumnKind::Regular, ..own };
                assert_eq!(fits_column(&name, &regular), is_ascending, "{name}");
            }
        }
    }

    #[test]
    fn fields_may_have_been_added_to_a_type_since() {
        let full = DataType::User(Box::new(address())).frozen();
        let mut older = address();
        older.fields.pop();
        older.name = "other".into();
        let of = |ty| column(ty, ClusteringOrder::Ascending);
        let older = DataType::User(Box::new(older)).frozen();
        assert!(fits_column(&marshal_name(&of(older.clone())), &of(full.clone())));
        assert!(!fits_column(&marshal_name(&of(full.clone())), &of(older)));
        let mut renamed = address();
        renamed.fields[0].0 = "road".into();
        let renamed = DataType::User(Box::new(renamed)).frozen();
        assert!(!fits_column(&marshal_name(&of(renamed)), &of(full)));
    }

    #[test]
    fn odd_names_are_read_or_refused_but_never_panic() {
        let text = column(DataType::Text, ClusteringOrder::Ascending);
        assert!(fits_column(" org.apache.cassandra.db.marshal.AsciiType ", &text));
        let deep = "A(".repeat(1000);
        for name in ["", "(", ")", "A(", "A)", "A(,)x", "UTF8Type()x", &deep] {
            assert!(!fits_column(name, &text), "{name}");
        }
        assert_eq!(shape("com.example.CustomType"), None);
        assert_eq!(shape("VectorType(FloatType, 18446744073709551615)"), None);
    }

    #[test]
    fn foreign_types_have_their_layout() {
        let whole = |fixed_bytes| Shape { fixed_bytes, is_multi_cell: false, is_counter: false };
        let many = Shape { is_multi_cell: true, ..whole(None) };
        let counter = Shape { is_counter: true, ..whole(None) };
        let user = "UserType(fx,61646472,737472656574:org.apache.cassandra.db.marshal.UTF8Type,\
                    74616773:FrozenType(SetType(Int32Type)))";
        let cases = [
            ("ListType(Int32Type)", many, false),
            ("MapType(UTF8Type,Int32Type)", many, false),
            (user, many, false),
            (&format!("FrozenType({user})"), whole(None), true),
            ("org.apache.cassandra.db.marshal.FrozenType(SetType(UUIDType))", whole(None), true),
            ("TupleType(Int32Type,UTF8Type)", whole(None), true),
            ("VectorType(FloatType , 3)", whole(Some(12)), true),
            ("VectorType(UTF8Type, 3)", whole(None), true),
            ("IntegerType", whole(None), true),
            ("DurationType", whole(None), true),
            ("CounterColumnType", counter, false),
            ("UTF8Type", whole(None), false),
        ];
        let blob = Column { name: "c".into(), ty: DataType::Blob, kind: ColumnKind::Regular };
        let key = column(DataType::Blob, ClusteringOrder::Ascending);
        for (name, wanted, is_opaque) in cases {
            assert_eq!(shape(name), Some(wanted), "{name}");
            assert_eq!(fits_column(name, &blob), is_opaque, "{name}");
            assert!(!fits_column(name, &key), "{name}");
        }
    }
}
