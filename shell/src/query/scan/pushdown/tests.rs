//! Conditions, and what is read for them.

use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use datafusion::prelude::{col, lit};
use tidegate_engine::batch::arrow_type;
use tidegate_engine::schema::{ClusteringKey, ClusteringOrder, ColumnId, TableSchema, Value};
use tidegate_engine::{Column, ColumnKind, DataType, TableId, TableOptions};

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
        let mut table = table();
        let kind = ColumnKind::ClusteringKey { position: 0, order };
        table.columns[2] = Column { name: "a".into(), ty: DataType::Double, kind };
        let key = |zero| ClusteringKey::from_values(&table, &[Value::Double(zero)]).unwrap();
        for (operator, holds) in [
            (Operator::Lt, false),
            (Operator::LtEq, true),
            (Operator::Gt, false),
            (Operator::GtEq, true),
        ] {
            for (bound, zero) in [(0.0, 0.0), (0.0, -0.0), (-0.0, 0.0), (-0.0, -0.0)] {
                let pk = || col("pk").eq(lit(1)).and(col("qk").eq(lit("x")));
                let (left, right) = (Box::new(col("a")), Box::new(lit(bound)));
                let bounded = Expr::BinaryExpr(BinaryExpr::new(left, operator, right));
                let access = decide(&table, &[pk(), bounded]);
                assert!(access.residual.is_empty(), "{operator}");
                let is_read = access.ranges.iter().any(|range| range.contains(&key(zero)));
                assert_eq!(is_read, holds, "{zero} {operator} {bound}, {order:?}");
            }
        }
    }
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
