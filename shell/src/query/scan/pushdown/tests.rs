//! Conditions, and what is read for them.

use datafusion::common::ScalarValue;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use datafusion::prelude::{col, lit};
use tidegate_engine::batch::arrow_type;
use tidegate_engine::schema::{ClusteringKey, ClusteringOrder, ColumnId, TableSchema, Value};
use tidegate_engine::{
    Column, ColumnKind, Comparator, Comparison, DataType, PartitionKey, TableId, TableOptions,
};

use super::*;

/// `pk int, qk text | a int, b int desc | v int`
fn table() -> TableSchema {
    let column = |name: &str, ty, kind| Column { name: name.into(), ty, kind };
    let clustering = |position, order| ColumnKind::ClusteringKey { position, order };
    TableSchema {
        id: TableId(1),
        keyspace: "ks".into(),
        name: "t".into(),
        columns: vec![
            column("pk", DataType::Int, ColumnKind::PartitionKey { position: 0 }),
            column("qk", DataType::Text, ColumnKind::PartitionKey { position: 1 }),
            column("a", DataType::Int, clustering(0, ClusteringOrder::Ascending)),
            column("b", DataType::Int, clustering(1, ClusteringOrder::Descending)),
            column("v", DataType::Int, ColumnKind::Regular),
        ],
        options: TableOptions::default(),
        drops: Vec::new(),
    }
}

/// Keys found, ranges as text, conditions left.
fn decided(filters: &[Expr]) -> (Option<usize>, String, usize) {
    let table = table();
    let access = decide(&table, filters);
    let ranges = crate::query::scan::slices_text(&table, &access.ranges);
    (access.keys.map(|keys| keys.len()), ranges, access.residual.len())
}

#[test]
fn conditions_become_keys_and_slices() {
    let pk = || col("pk").eq(lit(1)).and(col("qk").eq(lit("x")));
    let none = "[..]".to_owned();
    let cases = [
        (vec![], None, none.clone(), 0),
        (vec![col("pk").eq(lit(1))], None, none.clone(), 1),
        (vec![pk()], Some(1), none.clone(), 0),
        (vec![pk(), col("v").eq(lit(1))], Some(1), none.clone(), 1),
        (vec![pk(), col("a").eq(lit(5))], Some(1), "[5]".into(), 0),
        (vec![pk(), col("a").eq(lit(5)), col("b").eq(lit(6))], Some(1), "[5, 6]".into(), 0),
        (vec![pk(), col("a").gt(lit(5))], Some(1), "(5..]".into(), 0),
        (vec![pk(), lit(5).gt(col("a"))], Some(1), "[..5)".into(), 0),
        (vec![pk(), col("a").gt_eq(lit(5)), col("a").lt(lit(9))], Some(1), "[5..9)".into(), 0),
        // A tighter bound wins, whatever the order.
        (vec![pk(), col("a").gt(lit(1)), col("a").gt(lit(5))], Some(1), "(5..]".into(), 0),
        (vec![pk(), col("a").gt(lit(5)), col("a").gt(lit(1))], Some(1), "(5..]".into(), 0),
        (vec![pk(), col("a").gt(lit(5)), col("a").gt_eq(lit(5))], Some(1), "(5..]".into(), 0),
        (vec![pk(), col("a").gt_eq(lit(5)), col("a").gt_eq(lit(1))], Some(1), "[5..]".into(), 0),
        (vec![pk(), col("a").lt(lit(5)), col("a").lt(lit(9))], Some(1), "[..5)".into(), 0),
        (vec![pk(), col("a").lt(lit(5)), col("a").lt_eq(lit(5))], Some(1), "[..5)".into(), 0),
        (vec![pk(), col("a").lt_eq(lit(5)), col("a").lt_eq(lit(9))], Some(1), "[..5]".into(), 0),
        // A value of a partition key decides nothing about a bound beside it.
        (vec![pk(), col("pk").gt(lit(5))], Some(1), none.clone(), 1),
        // In a descending column the greater value is the start.
        (vec![pk(), col("a").eq(lit(5)), col("b").gt(lit(6))], Some(1), "[5..5, 6)".into(), 0),
        (vec![pk(), col("a").eq(lit(5)), col("b").lt_eq(lit(6))], Some(1), "[5, 6..5]".into(), 0),
        // A gap in the prefix leaves the rest to the scan.
        (vec![pk(), col("b").eq(lit(6))], Some(1), none.clone(), 1),
        (vec![pk(), col("a").gt(lit(5)), col("b").eq(lit(6))], Some(1), "(5..]".into(), 1),
        (vec![pk(), col("a").in_list(vec![lit(7), lit(2)], false)], Some(1), "[2] [7]".into(), 0),
        (vec![pk(), col("a").eq(lit(7)).or(col("a").eq(lit(2)))], Some(1), "[2] [7]".into(), 0),
        (vec![pk(), col("a").eq(lit(7)).or(col("b").eq(lit(2)))], Some(1), none.clone(), 1),
        (vec![pk(), col("a").in_list(vec![lit(7)], true)], Some(1), none.clone(), 1),
        // A literal of another type is compared row by row.
        (vec![pk(), col("a").eq(lit(7i64))], Some(1), none.clone(), 1),
        (
            vec![col("pk").in_list(vec![lit(1), lit(2), lit(1)], false), col("qk").eq(lit("x"))],
            Some(2),
            none,
            0,
        ),
    ];
    for (filters, keys, ranges, residual) in cases {
        assert_eq!(decided(&filters), (keys, ranges, residual), "{filters:?}");
    }
}

#[test]
fn a_widened_float_is_found_by_values_that_it_holds() {
    let mut table = table();
    table.columns[2].ty = DataType::Float;
    let pk = || col("pk").eq(lit(1)).and(col("qk").eq(lit("x")));
    let wide = || datafusion::prelude::cast(col("a"), arrow_type(&DataType::Double));
    for (condition, residual) in
        [(wide().eq(lit(1.5)), 0), (wide().gt(lit(-0.25)), 0), (wide().gt(lit(0.1)), 1)]
    {
        let access = decide(&table, &[pk(), condition.clone()]);
        assert_eq!(access.residual.len(), residual, "{condition}");
    }
}

#[test]
fn both_zeros_stand_on_the_same_side_of_a_bound() {
    for order in [ClusteringOrder::Ascending, ClusteringOrder::Descending] {
        for ty in [DataType::Double, DataType::Float] {
            check_zeros(order, &ty);
        }
    }
}

fn check_zeros(order: ClusteringOrder, ty: &DataType) {
    let mut table = table();
    let kind = ColumnKind::ClusteringKey { position: 0, order };
    table.columns[2] = Column { name: "a".into(), ty: ty.clone(), kind };
    let key = |zero: f64| {
        let value = match ty {
            DataType::Float => Value::Float(zero as f32),
            _ => Value::Double(zero),
        };
        ClusteringKey::from_values(&table, &[value]).unwrap()
    };
    let pk = || col("pk").eq(lit(1)).and(col("qk").eq(lit("x")));
    for (operator, holds) in [
        (Operator::Lt, false),
        (Operator::LtEq, true),
        (Operator::Gt, false),
        (Operator::GtEq, true),
        (Operator::Eq, true),
    ] {
        for (bound, zero) in [(0.0, 0.0), (0.0, -0.0), (-0.0, 0.0), (-0.0, -0.0)] {
            let literal = match ty {
                DataType::Float => lit(bound as f32),
                _ => lit(bound),
            };
            let (left, right) = (Box::new(col("a")), Box::new(literal));
            let bounded = Expr::BinaryExpr(BinaryExpr::new(left, operator, right));
            let access = decide(&table, &[pk(), bounded]);
            assert!(access.residual.is_empty(), "{operator}");
            let is_read = access.ranges.iter().any(|range| range.contains(&key(zero)));
            assert_eq!(is_read, holds, "{zero} {operator} {bound}, {ty:?} {order:?}");
        }
    }
}

/// Beside a wider integer a column is read where a value of its own can be meant.
#[test]
fn integers_end_at_the_ends_of_their_column() {
    let ends = [
        (DataType::TinyInt, i64::from(i8::MIN), i64::from(i8::MAX)),
        (DataType::SmallInt, i64::from(i16::MIN), i64::from(i16::MAX)),
        (DataType::Int, i64::from(i32::MIN), i64::from(i32::MAX)),
    ];
    for (ty, min, max) in ends {
        let mut table = table();
        table.columns[2].ty = ty.clone();
        let key = |number: i64| {
            let value = match ty {
                DataType::TinyInt => Value::TinyInt(number as i8),
                DataType::SmallInt => Value::SmallInt(number as i16),
                _ => Value::Int(number as i32),
            };
            ClusteringKey::from_values(&table, &[value]).unwrap()
        };
        let pk = || col("pk").eq(lit(1)).and(col("qk").eq(lit("x")));
        let wide = || datafusion::prelude::cast(col("a"), arrow_type(&DataType::BigInt));
        for bound in [min - 1, min, min + 1, max - 1, max, max + 1] {
            for (operator, holds) in [
                (Operator::Lt, (|a, b| a < b) as fn(i64, i64) -> bool),
                (Operator::LtEq, |a, b| a <= b),
                (Operator::Eq, |a, b| a == b),
                (Operator::GtEq, |a, b| a >= b),
                (Operator::Gt, |a, b| a > b),
            ] {
                let (left, right) = (Box::new(wide()), Box::new(lit(bound)));
                let bounded = Expr::BinaryExpr(BinaryExpr::new(left, operator, right));
                let access = decide(&table, &[pk(), bounded]);
                let always = [min, max].iter().all(|number| holds(*number, bound));
                for number in [min, min + 1, max - 1, max] {
                    let is_read = access.ranges.iter().any(|range| range.contains(&key(number)));
                    let what = format!("{ty:?} {number} {operator} {bound}");
                    assert_eq!(is_read, holds(number, bound), "{what}");
                }
                let is_beyond = bound < min || bound > max;
                assert_eq!(access.residual.len(), usize::from(always && is_beyond), "{bound}");
            }
        }
    }
}

#[test]
fn a_pattern_is_a_slice_as_far_as_it_says_how_a_text_begins() {
    let mut table = table();
    table.columns[2].ty = DataType::Text;
    let pk = || col("pk").eq(lit(1)).and(col("qk").eq(lit("x")));
    let key = |text: &str| ClusteringKey::from_values(&table, &[Value::Text(text.into())]).unwrap();
    for (condition, read, left_out, residual) in [
        (col("a").like(lit("x%")), &["x", "xa"][..], &["w", "y"][..], 0),
        (col("a").like(lit("x_")), &["x", "xa"], &["w", "y"], 1),
        (col("a").like(lit("xy%a")), &["xy", "xya"], &["x", "xz"], 1),
        // What is behind a backslash is no sign, and the backslash no part of the text.
        (col("a").like(lit(r"x\%%")), &["x%", "x%a"], &[], 1),
        (col("a").like(lit(r"\_x%")), &["_x", "_xa"], &[], 1),
        (col("a").like(lit(r"x\\y%")), &[r"x\y", r"x\ya"], &[], 1),
        // These say nothing of the beginning, or not how it is compared.
        (col("a").like(lit("%x")), &["x", "ax"], &[], 1),
        (col("a").like(lit("_x%")), &["x", "ax"], &[], 1),
        (col("a").not_like(lit("x%")), &["x", "a"], &[], 1),
        (col("a").ilike(lit("x%")), &["X", "x"], &[], 1),
    ] {
        let access = decide(&table, &[pk(), condition.clone()]);
        let is_read = |text: &str| access.ranges.iter().any(|range| range.contains(&key(text)));
        assert!(read.iter().all(|text| is_read(text)), "{condition}");
        assert!(!left_out.iter().any(|text| is_read(text)), "{condition}");
        assert_eq!(access.residual.len(), residual, "{condition}");
    }
}

#[test]
fn a_pattern_is_no_slice_of_what_is_text_in_sql_alone() {
    for ty in [DataType::Uuid, DataType::TimeUuid, DataType::Inet] {
        let mut table = table();
        table.columns[2].ty = ty.clone();
        let pattern = col("a").like(lit("1%"));
        let filters = [col("pk").eq(lit(1)), col("qk").eq(lit("x")), pattern.clone()];
        let access = decide(&table, &filters);
        let ranges = crate::query::scan::slices_text(&table, &access.ranges);
        assert_eq!((ranges.as_str(), access.residual), ("[..]", vec![pattern]), "{ty:?}");
    }
}

#[test]
fn texts_behind_all_with_a_prefix_are_the_next_ones() {
    for (prefix, next) in [
        ("a", Some("b")),
        ("az", Some("a{")),
        ("a\u{10ffff}", Some("b")),
        ("a\u{d7ff}", Some("a\u{e000}")),
        ("\u{7f}", Some("\u{80}")),
        ("\u{10ffff}\u{10ffff}", None),
        ("", None),
    ] {
        assert_eq!(condition::after_all_with(prefix).as_deref(), next, "{prefix:?}");
    }
}

#[test]
fn all_forms_of_a_value_are_looked_for() {
    let decimal = |unscaled, scale| Value::Decimal { unscaled, scale };
    let scales = |unscaled, scale| values::scales(decimal(unscaled, scale));
    let all = scales(150, 2);
    assert_eq!((all.len(), &all[0]), (37, &decimal(15, 1)));
    assert!(all.contains(&decimal(150, 2)) && all.contains(&decimal(15 * 10i128.pow(36), 37)));
    // From the shortest form on, as far as there are digits and places.
    let all = scales(-700, 0);
    assert_eq!((&all[0], all.last()), (&decimal(-7, -2), Some(&decimal(-7 * 10i128.pow(37), 35))));
    let all = scales(1, 36);
    assert_eq!(all, [decimal(1, 36), decimal(10, 37), decimal(100, 38)]);
    let zeros = scales(0, 5);
    assert_eq!((zeros.len(), &zeros[0], &zeros[38]), (39, &decimal(0, 0), &decimal(0, 38)));
    assert_eq!(values::scales(Value::Int(7)), [Value::Int(7)]);

    let float = |number| Value::Float(number);
    let forms = |value| values::all_of(vec![value], &values::equal).unwrap().len();
    assert_eq!(forms(float(-0.0)), 2);
    assert_eq!(forms(Value::List(vec![float(0.0), float(1.0), float(-0.0)])), 4);
    assert_eq!(forms(Value::Set(vec![Value::Double(0.0)])), 2);
    assert_eq!(
        forms(Value::Map(vec![(Value::Int(0), float(0.0)), (Value::Int(1), float(0.0))])),
        4
    );
    let many = |count| Value::List(vec![float(0.0); count]);
    assert_eq!(forms(many(12)), 4096);
    assert!(values::all_of(vec![many(13)], &values::equal).is_none(), "these are too many");
}

#[test]
fn as_many_combinations_are_read_as_they_may_be() {
    let many = |n: i32| (0..n).map(lit).collect::<Vec<_>>();
    let of = |a: i32, b: i32| {
        let filters = [
            col("pk").eq(lit(1)),
            col("qk").eq(lit("x")),
            col("a").in_list(many(a), false),
            col("b").in_list(many(b), false),
        ];
        let access = decide(&table(), &filters);
        (access.ranges.len(), access.residual.len())
    };
    assert_eq!(of(64, 64), (4096, 0));
    assert_eq!(of(63, 66), (63, 1), "4158 are too many");
    assert_eq!(of(5000, 1), (5000, 0), "one list may have any length");
}

#[test]
fn partitions_with_slices_of_their_own_have_rows_of_their_own() {
    let branch = |pk: i32, a: i32, b: i32| {
        let key = col("pk").eq(lit(pk)).and(col("qk").eq(lit("x")));
        key.and(col("a").eq(lit(a))).and(col("b").eq(lit(b)))
    };
    let table = table();
    let of = |condition: Expr| decide_apart(&table, &[condition], Keys::Own);
    let access = of(branch(1, 1, 1).or(branch(2, 2, 2)).or(branch(2, 3, 3)));
    assert_eq!(access.rows, None, "rows are those of no partition");
    let parts = access.apart.as_ref().unwrap();
    let mut counts: Vec<usize> =
        parts.iter().map(|part| part.rows.as_ref().unwrap().len()).collect();
    counts.sort_unstable();
    assert_eq!((counts, access.keys.map(|keys| keys.len())), (vec![1, 2], Some(2)));
    // With one slice for all there is nothing apart.
    let access = of(branch(1, 1, 1).or(branch(2, 1, 1)));
    assert_eq!((access.apart, access.rows.map(|rows| rows.len())), (None, Some(1)));
}

#[test]
fn contradictions_read_nothing() {
    let pk = || col("pk").eq(lit(1)).and(col("qk").eq(lit("x")));
    for filters in [
        vec![pk(), col("pk").eq(lit(2))],
        vec![pk(), col("a").eq(lit(1)), col("a").eq(lit(2))],
        vec![pk(), col("a").gt(lit(5)), col("a").lt(lit(5))],
        vec![lit(false)],
    ] {
        assert!(decide(&table(), &filters).is_empty(), "{filters:?}");
    }
}

#[test]
fn full_keys_are_rows_and_fixed_columns_are_constant() {
    let filters = [
        col("pk").eq(lit(1)),
        col("qk").eq(lit("x")),
        col("a").in_list(vec![lit(1), lit(2)], false),
        col("b").eq(lit(3)),
    ];
    let access = decide(&table(), &filters);
    assert_eq!(access.rows.map(|rows| rows.len()), Some(2));
    assert_eq!(access.fixed, [ColumnId(0), ColumnId(1), ColumnId(3)]);
    assert!(decide(&table(), &filters[..3]).rows.is_none());
}

#[test]
fn bounds_of_columns_that_rows_may_lack_are_checked_again() {
    let mut table = table();
    let filters =
        [col("pk").eq(lit(1)), col("qk").eq(lit("x")), col("a").eq(lit(1)), col("b").lt(lit(5))];
    assert_eq!(decide(&table, &filters).residual.len(), 0);
    let ranges = decide(&table, &filters).ranges;
    table.options.has_partial_keys = true;
    let access = decide(&table, &filters);
    assert_eq!((access.residual, access.ranges), (filters[3..].to_vec(), ranges));
    // The first column is always there.
    assert_eq!(decide(&table, &[col("a").lt(lit(5))]).residual.len(), 0);
}

#[test]
fn too_many_combinations_are_left_to_the_scan() {
    let many = |n: i32| (0..n).map(lit).collect::<Vec<_>>();
    let filters = [
        col("pk").eq(lit(1)),
        col("qk").eq(lit("x")),
        col("a").in_list(many(100), false),
        col("b").in_list(many(100), false),
    ];
    let access = decide(&table(), &filters);
    assert_eq!((access.ranges.len(), access.residual.len()), (100, 1));
}

#[test]
fn lists_of_one_column_share_values_and_bounds_take_values_off_them() {
    let pk = || col("pk").eq(lit(1)).and(col("qk").eq(lit("x")));
    let among = |name: &str, values: &[i32]| {
        col(name).in_list(values.iter().map(|value| lit(*value)).collect(), false)
    };
    for (filters, ranges, rows) in [
        (vec![among("a", &[1, 2, 3]), among("a", &[4, 3, 2])], "[2] [3]", None),
        (vec![among("a", &[1, 2]), among("a", &[2, 3]), among("a", &[3, 1])], "", None),
        (vec![among("a", &[2, 2, 1, 2])], "[1] [2]", None),
        (vec![among("a", &[1, 5, 9]), col("a").gt(lit(5))], "[9]", None),
        (vec![col("a").gt_eq(lit(5)), among("a", &[1, 5, 9])], "[5] [9]", None),
        (vec![among("a", &[1, 5, 9]), col("a").lt(lit(5))], "[1]", None),
        (vec![among("a", &[1, 5, 9]), col("a").lt_eq(lit(5))], "[1] [5]", None),
        (vec![among("a", &[1, 5]), lit(5).lt_eq(col("a")), col("b").eq(lit(7))], "[5, 7]", Some(1)),
        (
            vec![among("a", &[1, 5]), among("b", &[6, 7]), col("b").gt(lit(6))],
            "[1, 7] [5, 7]",
            Some(2),
        ),
        (vec![among("a", &[1, 5]), col("b").lt(lit(6)), col("a").gt(lit(1))], "(5, 6..5]", None),
    ] {
        let access = decide(&table(), &[vec![pk()], filters.clone()].concat());
        let found = crate::query::scan::slices_text(&table(), &access.ranges);
        assert_eq!(found, ranges, "{filters:?}");
        assert!(access.residual.is_empty(), "{filters:?} leave {:?}", access.residual);
        if !ranges.is_empty() {
            assert_eq!(access.rows.map(|rows| rows.len()), rows, "{filters:?}");
        }
    }
    // So do those of partition keys.
    let keys = [among("pk", &[1, 2, 3]), among("pk", &[5, 3, 2]), col("qk").eq(lit("x"))];
    assert_eq!(decided(&keys), (Some(2), "[..]".to_owned(), 0));
}

#[test]
fn what_always_holds_says_nothing_and_what_never_does_leaves_nothing() {
    let none = || lit(ScalarValue::Boolean(None));
    let pk = || col("pk").eq(lit(1)).and(col("qk").eq(lit("x")));
    let five = || col("a").eq(lit(5));
    for (filter, ranges) in [
        (five().and(lit(true)), "[5]"),
        (lit(true).and(five()), "[5]"),
        // An alternative that never holds adds nothing, on either side.
        (five().or(lit(false)), "[5]"),
        (lit(false).or(five()), "[5]"),
        (five().or(none()), "[5]"),
        (none().or(five()), "[5]"),
        (five().or(none()).or(col("a").eq(lit(2))), "[2] [5]"),
    ] {
        let (keys, found, residual) = decided(&[pk(), filter.clone()]);
        assert_eq!((keys, found.as_str(), residual), (Some(1), ranges, 0), "{filter}");
    }
    for filter in [lit(false), none(), col("a").eq(lit(ScalarValue::Int32(None)))] {
        for filters in
            [vec![pk(), filter.clone()], vec![filter.clone(), pk()], vec![filter.clone()]]
        {
            let access = decide(&table(), &filters);
            assert!(access.is_empty() && access.rows == Some(Vec::new()), "{filters:?}");
        }
    }
    for operator in [Operator::Lt, Operator::LtEq, Operator::Gt, Operator::GtEq] {
        let null = Box::new(lit(ScalarValue::Int32(None)));
        let bounded = Expr::BinaryExpr(BinaryExpr::new(Box::new(col("a")), operator, null));
        assert!(decide(&table(), &[pk(), bounded]).is_empty(), "{operator}");
    }
    // All alternatives of which none holds, and one that always does.
    assert_eq!(decided(&[pk(), five().or(lit(true))]), (Some(1), "[..]".to_owned(), 1));
}

#[test]
fn partitions_are_looked_for_under_each_key_that_whoever_wrote_them_may_have_given() {
    let partition = |ty: DataType| {
        let mut table = table();
        table.columns.remove(1);
        table.columns[0].ty = ty;
        table
    };
    let count = |table: &TableSchema, value: ScalarValue, whose: Keys| {
        let access = decide_for(table, &[col("pk").eq(lit(value))], whose);
        assert!(access.residual.is_empty(), "{whose:?}");
        access.keys.map(|keys| keys.len())
    };
    let decimal = partition(DataType::Decimal { precision: 9, scale: 2 });
    for (unscaled, foreign) in [(150, 37), (123, 36), (0, 39)] {
        let value = || ScalarValue::Decimal128(Some(unscaled), 9, 2);
        assert_eq!(count(&decimal, value(), Keys::Own), Some(1), "{unscaled}");
        assert_eq!(count(&decimal, value(), Keys::Named), Some(1), "{unscaled}");
        assert_eq!(count(&decimal, value(), Keys::Foreign), Some(foreign), "{unscaled}");
    }
    for (ty, zero, one) in [
        (DataType::Double, ScalarValue::Float64(Some(-0.0)), ScalarValue::Float64(Some(1.0))),
        (DataType::Float, ScalarValue::Float32(Some(0.0)), ScalarValue::Float32(Some(1.0))),
    ] {
        let table = partition(ty);
        for (whose, zeros) in [(Keys::Own, 2), (Keys::Foreign, 2), (Keys::Named, 1)] {
            assert_eq!(count(&table, zero.clone(), whose), Some(zeros), "{whose:?}");
            assert_eq!(count(&table, one.clone(), whose), Some(1), "{whose:?}");
        }
        let named = [col("pk").eq(lit(zero.clone()))];
        let access = decide_for(&table, &named, Keys::Named);
        let value = match zero {
            ScalarValue::Float32(_) => Value::Float(0.0),
            _ => Value::Double(-0.0),
        };
        let key = PartitionKey::from_values(&table, &[value]).unwrap();
        assert_eq!(access.keys, Some(vec![key]), "it is the one that is named");
    }
}

#[test]
fn conditions_on_regular_columns_are_told_to_shards_as_they_are_meant() {
    let table = table();
    let v = table.find("v").unwrap().0;
    let seven = || Value::Int(7);
    for (operator, comparator, turned) in [
        (Operator::Eq, Comparator::Equal(Some(seven())), Comparator::Equal(Some(seven()))),
        (Operator::Lt, Comparator::Less(seven()), Comparator::Greater(seven())),
        (Operator::LtEq, Comparator::LessOrEqual(seven()), Comparator::GreaterOrEqual(seven())),
        (Operator::Gt, Comparator::Greater(seven()), Comparator::Less(seven())),
        (Operator::GtEq, Comparator::GreaterOrEqual(seven()), Comparator::LessOrEqual(seven())),
    ] {
        let compare = |left: Expr, right: Expr| {
            let condition = BinaryExpr::new(Box::new(left), operator, Box::new(right));
            comparisons(&table, &[Expr::BinaryExpr(condition)])
        };
        let wanted = [Comparison { column: v, comparator }];
        assert_eq!(compare(col("v"), lit(7)), wanted, "{operator}");
        let wanted = [Comparison { column: v, comparator: turned }];
        assert_eq!(compare(lit(7), col("v")), wanted, "{operator}");
        // Keys are told otherwise, and what is of another type or of two columns nobody judges.
        assert!(compare(col("a"), lit(7)).is_empty() && compare(col("pk"), lit(7)).is_empty());
        assert!(compare(col("v"), lit(7_i64)).is_empty() && compare(col("v"), col("a")).is_empty());
        assert!(compare(lit(7), lit(7)).is_empty(), "{operator}");
    }
    let two = col("v").gt(lit(1)).and(col("v").lt(lit(9)).and(col("b").eq(col("v"))));
    let found: Vec<Comparator> =
        comparisons(&table, &[two]).into_iter().map(|one| one.comparator).collect();
    assert_eq!(found, [Comparator::Greater(Value::Int(1)), Comparator::Less(Value::Int(9))]);
    let either = col("v").gt(lit(1)).or(col("v").lt(lit(0)));
    assert!(comparisons(&table, &[either, col("v").not_eq(lit(1))]).is_empty());
}
