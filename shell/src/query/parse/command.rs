//! What a statement asks for, after parsing: our own statements in full, SQL as DataFusion's AST.

use datafusion::sql::parser::Statement as SqlStatement;
use sqlparser::ast;
use tidegate_engine::schema::{ClusteringOrder, TableOptions};
use tidegate_engine::{OnCorruption, OnUnknown};

use super::table_option::TableOption;
use super::type_name::TypeName;
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

/// One parsed statement.
#[derive(Debug, Clone)]
pub enum Command {
    /// SELECT, VALUES, EXPLAIN of those, SET, and what else DataFusion plans without writing.
    Query(SqlStatement),
    Write(Write),
    /// EXPLAIN of a write: shows what it would do.
    ExplainWrite(Write),
    CreateKeyspace {
        name: Name,
        if_not_exists: bool,
    },
    DropKeyspace {
        name: Name,
        if_exists: bool,
    },
    CreateTable(CreateTable),
    /// `ALTER TABLE … WITH`.
    AlterTable {
        name: TableName,
        options: Vec<TableOption>,
    },
    DropTable {
        name: TableName,
        if_exists: bool,
    },
    CreateType(CreateType),
    DropType {
        name: TableName,
        if_exists: bool,
    },
    Use(Name),
    Show(Show),
    Describe(TableName),
    CopyFrom(CopyFrom),
    CopyTo(CopyTo),
    CreatePolicy(CreatePolicy),
    DropPolicy {
        name: Name,
        if_exists: bool,
    },
    /// `ALTER CACHE SET POLICY`.
    SetCachePolicy(SetCachePolicy),
    /// `ROLLBACK POLICY`.
    RollBackPolicy,
    /// `EXPLAIN POLICY`.
    ExplainPolicy(Name),
    /// `ALTER CACHE SET ADMISSION`; `None` keeps all that is read.
    SetAdmissionPolicy(Option<Name>),
    /// `ALTER RATE LIMITER SET POLICY`; `None` is the native policy.
    SetRatePolicy(Option<Name>),
    /// `ALTER READ ADMISSION SET POLICY`; `None` is the native limits.
    SetReadAdmissionPolicy(Option<Name>),
    /// `ALTER LOAD SHEDDING SET POLICY`; `None` sheds nothing.
    SetLoadSheddingPolicy(Option<Name>),
    /// `ALTER CACHE SET CAPACITY`, bytes a shard.
    SetCacheBytes(usize),
    Flush(Option<TableName>),
    /// Forget cached rows: of one table or of all.
    InvalidateCache(Option<TableName>),
    /// `RECORD TRACE 'file'`.
    RecordTrace {
        file: String,
        file_span: Span,
        /// Reads after which it ends by itself.
        reads_max: Option<u64>,
    },
    /// `RECORD TRACE STOP`.
    StopTrace,
    Attach(Attach),
    Detach(TableName),
    Import(ImportSstables),
}

impl Command {
    /// Whether the statement gives rows and changes nothing: neither data nor the session.
    pub fn is_query(&self) -> bool {
        match self {
            Command::Query(sql) => is_query(sql),
            Command::ExplainWrite(_)
            | Command::Show(_)
            | Command::Describe(_)
            | Command::ExplainPolicy(_) => true,
            _ => false,
        }
    }
}

fn is_query(sql: &SqlStatement) -> bool {
    use ast::Statement as Ast;
    match sql {
        SqlStatement::Explain(explain) => is_query(&explain.statement),
        SqlStatement::Statement(inner) => matches!(
            **inner,
            Ast::Query(_)
                | Ast::ShowVariable { .. }
                | Ast::ShowVariables { .. }
                | Ast::ShowTables { .. }
                | Ast::ShowColumns { .. }
                | Ast::ShowFunctions { .. }
        ),
        _ => false,
    }
}

/// ATTACH SSTABLES.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attach {
    pub directory: String,
    pub directory_span: Span,
    pub name: TableName,
    pub on_corruption: OnCorruption,
    pub on_unknown: OnUnknown,
}

/// IMPORT SSTABLES.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportSstables {
    pub directory: String,
    pub directory_span: Span,
    pub table: TableName,
    pub on_corruption: OnCorruption,
    pub on_unknown: OnUnknown,
}

/// What SHOW lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Show {
    Keyspaces,
    Tables,
    Policies,
    PolicyExits,
    Cache,
    Corruption,
    /// The row cache of each table.
    RowCache,
    Stalls,
}

/// INSERT, UPDATE or DELETE. `statement` is what DataFusion plans: without USING and without the
/// columns of a DELETE.
#[derive(Debug, Clone)]
pub struct Write {
    pub kind: WriteKind,
    pub table: TableName,
    pub statement: SqlStatement,
    pub using: Using,
    pub elements: Elements,
}

/// Changes of single elements of collections and of fields of user types, in the order of the text.
#[derive(Debug, Clone, Default)]
pub struct Elements {
    pub changes: Vec<ElementWrite>,
    /// What stands in the changes as expressions, one after another.
    pub operands: Vec<Operand>,
    /// The SELECT that gives the operands; absent where there are none.
    pub select: Option<SqlStatement>,
}

/// An expression of a change.
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateTable {
    pub name: TableName,
    pub if_not_exists: bool,
    pub columns: Vec<ColumnDefinition>,
    pub partition_key: Vec<Name>,
    pub clustering_key: Vec<Name>,
    pub clustering_order: Vec<(Name, ClusteringOrder)>,
    pub options: TableOptions,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateType {
    pub name: TableName,
    pub if_not_exists: bool,
    pub fields: Vec<(Name, TypeName)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnDefinition {
    pub name: Name,
    pub ty: TypeName,
    pub is_static: bool,
}

/// Format of a file of COPY.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Csv,
    Parquet,
}

/// What COPY does with a line that cannot be loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnError {
    Abort,
    Skip,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyOptions {
    pub format: Format,
    pub header: bool,
    /// Text that stands for null.
    pub null: String,
    pub delimiter: u8,
    pub on_error: OnError,
    /// Where rejected lines go; `<file>.rejected` by default.
    pub reject_file: Option<String>,
    /// Seconds that loaded rows live; the table's default where absent, 0 = for ever.
    pub ttl: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyFrom {
    pub table: TableName,
    /// Empty means those of the header, or all of the table.
    pub columns: Vec<Name>,
    pub file: String,
    pub file_span: Span,
    pub options: CopyOptions,
}

#[derive(Debug, Clone)]
pub struct CopyTo {
    pub source: SqlStatement,
    pub file: String,
    pub file_span: Span,
    pub options: CopyOptions,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatePolicy {
    pub name: Name,
    pub if_not_exists: bool,
    pub file: String,
    pub file_span: Span,
    pub sha256: Option<String>,
    /// Parameters handed to the policy, in the order of the text.
    pub parameters: Vec<(String, String)>,
}

/// Which policy decides for the caches, and how it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetCachePolicy {
    /// `None` is the native policy; as a shadow, none at all.
    pub name: Option<Name>,
    pub mode: PolicyMode,
}

/// How a policy begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyMode {
    /// In charge at once, everywhere.
    Active,
    /// In charge on some shards, the others following when it proves better.
    Canary,
    /// Beside the one in charge, with nothing to decide; it sees one key in `sample`.
    Shadow { sample: Option<u32> },
}
