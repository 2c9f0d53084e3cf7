//! Statements as trees.

use super::value::{Type, Value};

/// An expression; where its meaning depends on its type, that stands in it.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// Alias of the table, and name.
    Column(String, String),
    Literal(Literal),
    Unary(Unary, Box<Expr>),
    /// The type is that of the result.
    Binary(Binary, Box<Expr>, Box<Expr>, Type),
    Between {
        value: Box<Expr>,
        low: Box<Expr>,
        high: Box<Expr>,
        negated: bool,
    },
    In {
        value: Box<Expr>,
        list: Vec<Expr>,
        negated: bool,
    },
    /// Rows compare by their first fields that differ.
    Row(Binary, Vec<Expr>, Vec<Expr>),
    InRows {
        row: Vec<Expr>,
        list: Vec<Vec<Expr>>,
        negated: bool,
    },
    InQuery {
        row: Vec<Expr>,
        query: Box<Query>,
        negated: bool,
    },
    /// A value compared with ANY row of a query, or with ALL.
    Every {
        value: Box<Expr>,
        binary: Binary,
        query: Box<Query>,
        is_all: bool,
    },
    Exists(Box<Query>, bool),
    /// The one value of a query, or null.
    Scalar(Box<Query>),
    /// `_` and `%` in a pattern; without regard to case where the flag says so.
    Like {
        value: Box<Expr>,
        pattern: String,
        negated: bool,
        ignore_case: bool,
    },
    Case {
        value: Option<Box<Expr>>,
        arms: Vec<(Expr, Expr)>,
        otherwise: Option<Box<Expr>>,
    },
    /// The flag: TRY_CAST, which gives null for what cannot be cast.
    Cast(Box<Expr>, Type, bool),
    Call(Function, Vec<Expr>),
    /// What a timestamp's clock shows in a zone.
    Part(Part, Box<Expr>, &'static str),
    Aggregate(Aggregate),
    Window(Window),
}

/// A constant and how it is written.
#[derive(Debug, Clone, PartialEq)]
pub struct Literal {
    pub value: Value,
    pub ty: Type,
    /// As SQL writes it.
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unary {
    Not,
    Minus,
    IsNull,
    IsNotNull,
    IsTrue,
    IsNotTrue,
    IsFalse,
    IsNotFalse,
    IsUnknown,
    IsNotUnknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binary {
    Or,
    And,
    Equal,
    Differs,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    IsDistinct,
    IsNotDistinct,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Append,
}

impl Binary {
    pub fn is_arithmetic(self) -> bool {
        matches!(
            self,
            Binary::Add | Binary::Subtract | Binary::Multiply | Binary::Divide | Binary::Remainder
        )
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    Abs,
    Coalesce,
    NullIf,
    Greatest,
    Least,
    Upper,
    Lower,
    Length,
    Substring,
    Concat,
    Trim,
    Replace,
    Reverse,
    Left,
    Right,
    Position,
    StartsWith,
    Floor,
    Ceil,
    Round,
    TruncateToHour,
    TruncateToDay,
    TruncateToMonth,
}

/// Parts of a timestamp or date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    DayOfWeek,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Summary {
    CountRows,
    Count,
    Sum,
    Min,
    Max,
    Average,
    All,
    Any,
}

/// An aggregate over the rows of a group.
#[derive(Debug, Clone, PartialEq)]
pub struct Aggregate {
    pub summary: Summary,
    pub distinct: bool,
    pub argument: Option<Box<Expr>>,
    pub filter: Option<Box<Expr>>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum WindowFunction {
    RowNumber,
    Rank,
    DenseRank,
    /// By so many rows.
    Lag(Box<Expr>, usize),
    Lead(Box<Expr>, usize),
    FirstValue(Box<Expr>),
    LastValue(Box<Expr>),
    NthValue(Box<Expr>, usize),
    Over(Summary, Option<Box<Expr>>),
}

/// The rows around one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame {
    /// From the first row to the last that sorts like this one; without an order, all.
    Default,
    /// ROWS BETWEEN so many before and so many after; `None` is all.
    Rows(Option<usize>, Option<usize>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    pub function: WindowFunction,
    pub partition: Vec<Expr>,
    pub order: Vec<Order>,
    pub frame: Frame,
}

/// A key of ORDER BY.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    pub expr: Expr,
    pub descending: bool,
    /// NULLS FIRST or LAST; by default nulls are the greatest.
    pub nulls_first: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinKind {
    Inner,
    Left,
    Right,
    Full,
    Cross,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// Table and alias.
    Table(String, String),
    /// Query and alias.
    Query(Box<Query>, String),
    Join(JoinKind, Box<Source>, Box<Source>, Option<Expr>),
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Select {
    pub distinct: bool,
    /// Each with its name.
    pub items: Vec<(Expr, String)>,
    pub source: Option<Source>,
    pub condition: Option<Expr>,
    pub group: Vec<Expr>,
    /// Also true of a query with aggregates and no GROUP BY.
    pub is_grouped: bool,
    pub having: Option<Expr>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetOperation {
    Union,
    Intersect,
    Except,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    Select(Box<Select>),
    /// The flag: ALL.
    Set(SetOperation, bool, Box<Query>, Box<Query>),
}

/// A query: `order` is over the rows of the source for a SELECT, over columns by name else.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// WITH: name and query.
    pub with: Vec<(String, Query)>,
    pub body: Body,
    pub order: Vec<Order>,
    pub limit: Option<usize>,
    pub offset: usize,
}

impl Query {
    pub fn of(select: Select) -> Query {
        Query {
            with: Vec::new(),
            body: Body::Select(Box::new(select)),
            order: Vec::new(),
            limit: None,
            offset: 0,
        }
    }

    /// Names of the columns.
    pub fn names(&self) -> Vec<String> {
        match &self.body {
            Body::Select(select) => select.items.iter().map(|(_, name)| name.clone()).collect(),
            Body::Set(_, _, left, _) => left.names(),
        }
    }
}
