//! What writes ask for, after parsing, and the names that all statements have.

use datafusion::sql::parser::Statement as SqlStatement;

use crate::query::error::Span;

/// A name with its place in the text; folded to lower case unless it was quoted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    pub value: String,
    pub span: Span,
}

/// `[keyspace.]table`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableName {
    pub keyspace: Option<Name>,
    pub table: Name,
}

/// INSERT, UPDATE or DELETE. `statement` is what DataFusion plans: without USING, without IF and
/// without the columns of a DELETE.
#[derive(Debug, Clone)]
pub struct Write {
    pub kind: WriteKind,
    pub table: TableName,
    pub statement: SqlStatement,
    pub using: Using,
    pub elements: Elements,
    pub condition: Option<If>,
}

/// `IF …`: what must hold of the row for a write to be done.
#[derive(Debug, Clone)]
pub struct If {
    /// Of the word IF.
    pub span: Span,
    pub kind: IfKind,
}

#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "one a statement")]
pub enum IfKind {
    NotExists,
    Exists,
    /// All of these; operands are named by their number.
    Compare {
        comparisons: Vec<IfComparison>,
        operands: Operands,
    },
}

/// `column operator value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IfComparison {
    pub column: Name,
    pub operator: IfOperator,
    /// One; of IN any number.
    pub operands: Vec<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfOperator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
}

/// Changes of single elements of collections and of fields of user types, in the order of the text.
#[derive(Debug, Clone, Default)]
pub struct Elements {
    pub changes: Vec<ElementWrite>,
    /// What stands in the changes as expressions.
    pub operands: Operands,
}

/// Expressions in what SQL does not know, one after another.
#[derive(Debug, Clone, Default)]
pub struct Operands {
    pub list: Vec<Operand>,
    /// The SELECT that gives them; absent where there are none.
    pub select: Option<SqlStatement>,
}

/// One expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operand {
    pub span: Span,
    /// Its number where it is nothing but a parameter.
    pub parameter: Option<usize>,
}

/// A change of one column's elements. Operands are named by their number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElementWrite {
    pub column: Name,
    pub how: ElementHow,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ElementHow {
    /// `c = c + x`
    Add(usize),
    /// `c = x + c`
    Prepend(usize),
    /// `c = c - x`
    Remove(usize),
    /// `c[key] = value`
    Put { key: usize, value: usize },
    /// `c.name = value`
    PutField { name: Name, value: usize },
    /// `DELETE c[key]`
    Delete { key: usize },
    /// `DELETE c.name`
    DeleteField { name: Name },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteKind {
    /// The columns named, in order; empty means all of the table.
    Insert(Vec<Name>),
    /// The columns assigned.
    Update(Vec<Name>),
    /// The columns named; empty means whole rows.
    Delete(Vec<Name>),
}

/// `BEGIN BATCH … APPLY BATCH`: writes with one timestamp, all or nothing.
#[derive(Debug, Clone)]
pub struct Batch {
    /// Of BEGIN.
    pub span: Span,
    /// Whether it is all or nothing over several partitions, too.
    pub is_logged: bool,
    /// Whether it steps counters.
    pub is_counter: bool,
    /// Microseconds.
    pub timestamp: Option<UsingValue>,
    /// One at least.
    pub writes: Vec<Write>,
}

impl Batch {
    /// Most statements of one batch.
    pub const STATEMENTS_MAX: usize = 4096;
}

/// `USING TTL n AND TIMESTAMP n`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Using {
    /// Seconds.
    pub ttl: Option<UsingValue>,
    /// Microseconds.
    pub timestamp: Option<UsingValue>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsingValue {
    Number(i64),
    /// The parameter `$n`.
    Parameter(usize),
}
