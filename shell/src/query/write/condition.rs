//! `IF …` of a write as the engine's condition, by the table's columns.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType as ArrowType, Field, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use tidegate_engine::batch::{arrow_schema, arrow_type};
use tidegate_engine::{
    Column, ColumnId, ColumnKind, Comparator, Comparison, Condition, DataType, TableSchema, Value,
};

use super::column::{find_column, scalar_value};
use crate::query::error::{QueryError, Result, Span};
use crate::query::parse::{If, IfComparison, IfKind, IfOperator, Name, Operand};
use crate::query::scan::pushdown::is_single;
use crate::query::types::literal;

/// The column that says whether a conditional write was done.
pub const APPLIED: &str = "[applied]";

/// What must hold; `operands` has one row, a column an operand.
///
/// Errors: `NotFound`, `Invalid` and `Unsupported` at the column or the operand.
pub fn resolve(
    table: &TableSchema,
    condition: &If,
    operands: Option<&RecordBatch>,
) -> Result<Condition> {
    let (comparisons, list) = match &condition.kind {
        IfKind::NotExists => return Ok(Condition::NotExists),
        IfKind::Exists => return Ok(Condition::Exists),
        IfKind::Compare { comparisons, operands } => (comparisons, &operands.list),
    };
    let value_of = |number: usize, column: &Column| {
        let batch = operands.expect("comparisons with values have a SELECT");
        let scalar = ScalarValue::try_from_array(batch.column(number), 0)?;
        let value = scalar_value(&scalar, &column.ty).map_err(|error| {
            let message = format!("column '{}': {}", column.name, error.message);
            QueryError { message, ..error }.at(list[number].span)
        })?;
        Ok::<_, QueryError>((value, list[number].span))
    };
    let all = comparisons.iter().map(|comparison| {
        let (id, column) = compared_column(table, &comparison.column)?;
        let values = comparison.operands.iter().map(|number| value_of(*number, column));
        let values = values.collect::<Result<Vec<_>>>()?;
        let span = values.first().map_or(comparison.column.span, |(_, span)| *span);
        let values = values.into_iter().map(|(value, _)| value).collect();
        let comparator = comparator(comparison.operator, values).ok_or_else(|| unordered(span))?;
        Ok(Comparison { column: id, comparator })
    });
    Ok(Condition::All(all.collect::<Result<_>>()?))
}

/// What a value of a column is asked; `None` where null would have to be less or greater, and where
/// no value is given.
pub fn comparator(operator: IfOperator, mut values: Vec<Option<Value>>) -> Option<Comparator> {
    if operator == IfOperator::In {
        return Some(Comparator::In(values));
    }
    let value = values.pop()?;
    let order = match operator {
        IfOperator::Equal => return Some(Comparator::Equal(value)),
        IfOperator::NotEqual => return Some(Comparator::NotEqual(value)),
        IfOperator::Less => Comparator::Less,
        IfOperator::LessOrEqual => Comparator::LessOrEqual,
        IfOperator::Greater => Comparator::Greater,
        IfOperator::GreaterOrEqual => Comparator::GreaterOrEqual,
        IfOperator::In => unreachable!("a list was looked at above"),
    };
    value.map(order)
}

fn unordered(span: Span) -> QueryError {
    let error = QueryError::invalid("null is neither less nor greater than a value").at(span);
    error.with_help("IF column = null asks whether there is no value, != null whether there is")
}

/// Whether IF may compare a column that is not part of the key.
pub fn is_comparable(column: &Column) -> bool {
    is_single(&column.ty) && !matches!(column.ty, DataType::Counter | DataType::Duration)
}

/// A column that IF may compare.
fn compared_column<'a>(table: &'a TableSchema, name: &Name) -> Result<(ColumnId, &'a Column)> {
    let (id, column) = find_column(table, name)?;
    if column.is_key() {
        return Err(QueryError::invalid(format!("'{}' is part of the key", name.value))
            .at(name.span)
            .with_help("WHERE names the row by its key; IF compares other columns"));
    }
    if !is_comparable(column) {
        let message =
            format!("IF does not compare '{}', which is {}", name.value, column.ty.sql_name());
        return Err(QueryError::unsupported(message).at(name.span).with_help(
            "compare a column of one value, such as a number of the version that each write raises",
        ));
    }
    Ok((id, column))
}

/// Whether the condition is about static columns alone: then the partition is enough of a key.
pub fn is_static_alone(table: &TableSchema, condition: &Condition) -> bool {
    match condition {
        Condition::NotExists | Condition::Exists => true,
        Condition::All(comparisons) => comparisons
            .iter()
            .all(|comparison| table.column(comparison.column).kind == ColumnKind::Static),
    }
}

/// Types of the operands that are nothing but a parameter, by the parameter's number.
///
/// Errors: as [`resolve`].
pub fn parameters(table: &TableSchema, condition: &If) -> Result<Vec<(usize, ArrowType)>> {
    let IfKind::Compare { comparisons, operands } = &condition.kind else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for IfComparison { column, operands: numbers, .. } in comparisons {
        let (_, column) = compared_column(table, column)?;
        let parameter = |operand: &Operand| Some((operand.parameter?, arrow_type(&column.ty)));
        found.extend(numbers.iter().filter_map(|number| parameter(&operands.list[*number])));
    }
    Ok(found)
}

/// The columns whose values an answer shows: all where rows must not exist, those that are
/// compared, and none where a row must exist, for there is none where it does not.
pub fn shown_columns(table: &TableSchema, condition: &If) -> Result<Vec<ColumnId>> {
    Ok(match &condition.kind {
        IfKind::NotExists => table.ids().collect(),
        IfKind::Exists => Vec::new(),
        IfKind::Compare { comparisons, .. } => {
            let columns = comparisons.iter().map(|one| compared_column(table, &one.column));
            let ids = columns.map(|column| column.map(|(id, _)| id)).collect::<Result<Vec<_>>>()?;
            distinct(ids)
        }
    })
}

/// As [`shown_columns`], of a condition whose columns are known.
pub fn shown_of(table: &TableSchema, condition: &Condition) -> Vec<ColumnId> {
    match condition {
        Condition::NotExists => table.ids().collect(),
        Condition::Exists => Vec::new(),
        Condition::All(comparisons) => distinct(comparisons.iter().map(|one| one.column)),
    }
}

/// Columns, each where it comes first.
pub fn distinct(columns: impl IntoIterator<Item = ColumnId>) -> Vec<ColumnId> {
    let mut all = Vec::new();
    for id in columns {
        if !all.contains(&id) {
            all.push(id);
        }
    }
    all
}

/// The schema of the answer that shows these columns.
pub fn answer_schema(table: &TableSchema, columns: &[ColumnId]) -> SchemaRef {
    let shown = arrow_schema(table, columns);
    let shown = shown.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
    let applied = Field::new(APPLIED, ArrowType::Boolean, false);
    Arc::new(Schema::new(std::iter::once(applied).chain(shown).collect::<Vec<_>>()))
}

/// What a condition asks for, for EXPLAIN.
pub fn explain(condition: &Condition, table: &TableSchema) -> String {
    let Condition::All(comparisons) = condition else {
        return match condition {
            Condition::NotExists => "not exists".to_owned(),
            _ => "exists".to_owned(),
        };
    };
    let text = |value: &Option<Value>| value.as_ref().map_or("null".to_owned(), literal::text);
    let shown = comparisons.iter().map(|Comparison { column, comparator }| {
        let name = &table.column(*column).name;
        match comparator {
            Comparator::Equal(value) => format!("{name} = {}", text(value)),
            Comparator::NotEqual(value) => format!("{name} != {}", text(value)),
            Comparator::Less(value) => format!("{name} < {}", literal::text(value)),
            Comparator::LessOrEqual(value) => format!("{name} <= {}", literal::text(value)),
            Comparator::Greater(value) => format!("{name} > {}", literal::text(value)),
            Comparator::GreaterOrEqual(value) => format!("{name} >= {}", literal::text(value)),
            Comparator::In(values) => {
                let values: Vec<String> = values.iter().map(text).collect();
                format!("{name} IN ({})", values.join(", "))
            }
        }
    });
    shown.collect::<Vec<_>>().join(" and ")
}
