//! Trees as SQL. Parentheses stand only where the grammar asks for them, so that precedence is
//! tested as well.

use std::fmt::{self, Display, Formatter};

use super::ast::*;
use super::value::Type;

/// How tightly things bind, loosest first.
const OR: u8 = 1;
const AND: u8 = 2;
const NOT: u8 = 3;
const IS: u8 = 4;
const COMPARE: u8 = 5;
const LIKE: u8 = 6;
const OTHER: u8 = 7;
const SUM: u8 = 8;
const PRODUCT: u8 = 9;
const MINUS: u8 = 10;
const PRIMARY: u8 = 11;

fn binding(expr: &Expr) -> u8 {
    match expr {
        Expr::Unary(Unary::Not, _) => NOT,
        Expr::Unary(Unary::Minus, _) => MINUS,
        Expr::Unary(..) => IS,
        Expr::Binary(binary, ..) => binary_binding(*binary),
        Expr::Row(..) | Expr::Every { .. } => COMPARE,
        Expr::Between { .. }
        | Expr::In { .. }
        | Expr::InRows { .. }
        | Expr::InQuery { .. }
        | Expr::Like { .. } => LIKE,
        _ => PRIMARY,
    }
}

fn binary_binding(binary: Binary) -> u8 {
    match binary {
        Binary::Or => OR,
        Binary::And => AND,
        Binary::IsDistinct | Binary::IsNotDistinct => IS,
        Binary::Add | Binary::Subtract => SUM,
        Binary::Multiply | Binary::Divide | Binary::Remainder => PRODUCT,
        Binary::Append => OTHER,
        _ => COMPARE,
    }
}

fn symbol(binary: Binary) -> &'static str {
    match binary {
        Binary::Or => "OR",
        Binary::And => "AND",
        Binary::Equal => "=",
        Binary::Differs => "<>",
        Binary::Less => "<",
        Binary::LessOrEqual => "<=",
        Binary::Greater => ">",
        Binary::GreaterOrEqual => ">=",
        Binary::IsDistinct => "IS DISTINCT FROM",
        Binary::IsNotDistinct => "IS NOT DISTINCT FROM",
        Binary::Add => "+",
        Binary::Subtract => "-",
        Binary::Multiply => "*",
        Binary::Divide => "/",
        Binary::Remainder => "%",
        Binary::Append => "||",
    }
}

/// An expression as an operand of what binds as tightly as `least`.
struct At<'a>(&'a Expr, u8);

impl Display for At<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if binding(self.0) < self.1 { write!(f, "({})", self.0) } else { write!(f, "{}", self.0) }
    }
}

struct List<'a, T>(&'a [T]);

impl<T: Display> Display for List<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (at, item) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{item}")?;
        }
        Ok(())
    }
}

/// `(a, b)`, but `a` alone without parentheses.
struct RowOf<'a>(&'a [Expr]);

impl Display for RowOf<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            [one] => write!(f, "{}", At(one, OTHER)),
            row => write!(f, "({})", List(row)),
        }
    }
}

fn not(negated: bool) -> &'static str {
    if negated { "NOT " } else { "" }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Expr::Column(table, name) if table.is_empty() => f.write_str(name),
            Expr::Column(table, name) => write!(f, "{table}.{name}"),
            Expr::Literal(literal) => f.write_str(&literal.text),
            Expr::Unary(unary, inner) => {
                let suffix = match unary {
                    Unary::Not => return write!(f, "NOT {}", At(inner, NOT)),
                    // Two signs in a row would begin a comment.
                    Unary::Minus => return write!(f, "-({inner})"),
                    Unary::IsNull => "NULL",
                    Unary::IsNotNull => "NOT NULL",
                    Unary::IsTrue => "TRUE",
                    Unary::IsNotTrue => "NOT TRUE",
                    Unary::IsFalse => "FALSE",
                    Unary::IsNotFalse => "NOT FALSE",
                    Unary::IsUnknown => "UNKNOWN",
                    Unary::IsNotUnknown => "NOT UNKNOWN",
                };
                write!(f, "{} IS {suffix}", At(inner, OTHER))
            }
            Expr::Binary(binary, left, right, _) => {
                let own = binary_binding(*binary);
                // Comparisons do not chain.
                let is_chain = matches!(own, OR | AND) || own >= OTHER;
                let (left_least, right_least) =
                    if is_chain { (own, own + 1) } else { (OTHER, OTHER) };
                let (left, right) = (At(left, left_least), At(right, right_least));
                write!(f, "{left} {} {right}", symbol(*binary))
            }
            Expr::Between { value, low, high, negated } => {
                let (value, low, high) = (At(value, OTHER), At(low, OTHER), At(high, OTHER));
                write!(f, "{value} {}BETWEEN {low} AND {high}", not(*negated))
            }
            Expr::In { value, list, negated } => {
                write!(f, "{} {}IN ({})", At(value, OTHER), not(*negated), List(list))
            }
            Expr::Row(binary, left, right) => {
                write!(f, "({}) {} ({})", List(left), symbol(*binary), List(right))
            }
            Expr::InRows { row, list, negated } => {
                let rows: Vec<RowOf<'_>> = list.iter().map(|row| RowOf(row)).collect();
                write!(f, "{} {}IN ({})", RowOf(row), not(*negated), List(&rows))
            }
            Expr::InQuery { row, query, negated } => {
                write!(f, "{} {}IN ({query})", RowOf(row), not(*negated))
            }
            Expr::Every { value, binary, query, is_all } => {
                let which = if *is_all { "ALL" } else { "ANY" };
                write!(f, "{} {} {which} ({query})", At(value, OTHER), symbol(*binary))
            }
            Expr::Exists(query, negated) => write!(f, "{}EXISTS ({query})", not(*negated)),
            Expr::Scalar(query) => write!(f, "({query})"),
            Expr::Like { value, pattern, negated, ignore_case } => {
                let like = if *ignore_case { "ILIKE" } else { "LIKE" };
                let (value, pattern) = (At(value, OTHER), quoted(pattern));
                write!(f, "{value} {}{like} {pattern}", not(*negated))
            }
            Expr::Case { value, arms, otherwise } => {
                f.write_str("CASE")?;
                if let Some(value) = value {
                    write!(f, " {}", At(value, OTHER))?;
                }
                for (when, then) in arms {
                    write!(f, " WHEN {when} THEN {then}")?;
                }
                if let Some(otherwise) = otherwise {
                    write!(f, " ELSE {otherwise}")?;
                }
                f.write_str(" END")
            }
            Expr::Cast(inner, ty, is_try) => {
                let cast = if *is_try { "TRY_CAST" } else { "CAST" };
                write!(f, "{cast}({inner} AS {})", ty.sql())
            }
            Expr::Call(function, arguments) => call(f, *function, arguments),
            Expr::Part(part, inner, zone) => {
                let part = match part {
                    Part::Year => "year",
                    Part::Month => "month",
                    Part::Day => "day",
                    Part::Hour => "hour",
                    Part::Minute => "minute",
                    Part::DayOfWeek => "dow",
                };
                match *zone {
                    "UTC" => write!(f, "date_part('{part}', {inner})"),
                    zone => {
                        let inner = At(inner, PRIMARY);
                        write!(f, "date_part('{part}', {inner} AT TIME ZONE '{zone}')")
                    }
                }
            }
            Expr::Aggregate(aggregate) => {
                let distinct = if aggregate.distinct { "DISTINCT " } else { "" };
                write!(f, "{}({distinct}", summary(aggregate.summary))?;
                match &aggregate.argument {
                    Some(argument) => write!(f, "{argument})")?,
                    None => f.write_str("*)")?,
                }
                match &aggregate.filter {
                    Some(filter) => write!(f, " FILTER (WHERE {filter})"),
                    None => Ok(()),
                }
            }
            Expr::Window(window) => write!(f, "{window}"),
        }
    }
}

fn call(f: &mut Formatter<'_>, function: Function, arguments: &[Expr]) -> fmt::Result {
    let name = match function {
        Function::Abs => "abs",
        Function::Coalesce => "coalesce",
        Function::NullIf => "nullif",
        Function::Greatest => "greatest",
        Function::Least => "least",
        Function::Upper => "upper",
        Function::Lower => "lower",
        Function::Length => "character_length",
        Function::Substring => "substr",
        Function::Concat => "concat",
        Function::Trim => "btrim",
        Function::Replace => "replace",
        Function::Reverse => "reverse",
        Function::Left => "left",
        Function::Right => "right",
        Function::Position => "strpos",
        Function::StartsWith => "starts_with",
        Function::Floor => "floor",
        Function::Ceil => "ceil",
        Function::Round => "round",
        Function::TruncateToHour => return write!(f, "date_trunc('hour', {})", arguments[0]),
        Function::TruncateToDay => return write!(f, "date_trunc('day', {})", arguments[0]),
        Function::TruncateToMonth => return write!(f, "date_trunc('month', {})", arguments[0]),
    };
    write!(f, "{name}({})", List(arguments))
}

fn summary(summary: Summary) -> &'static str {
    match summary {
        Summary::CountRows | Summary::Count => "count",
        Summary::Sum => "sum",
        Summary::Min => "min",
        Summary::Max => "max",
        Summary::Average => "avg",
        Summary::All => "bool_and",
        Summary::Any => "bool_or",
    }
}

impl Display for Window {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.function {
            WindowFunction::RowNumber => f.write_str("row_number()")?,
            WindowFunction::Rank => f.write_str("rank()")?,
            WindowFunction::DenseRank => f.write_str("dense_rank()")?,
            WindowFunction::Lag(expr, by) => write!(f, "lag({expr}, {by})")?,
            WindowFunction::Lead(expr, by) => write!(f, "lead({expr}, {by})")?,
            WindowFunction::FirstValue(expr) => write!(f, "first_value({expr})")?,
            WindowFunction::LastValue(expr) => write!(f, "last_value({expr})")?,
            WindowFunction::NthValue(expr, n) => write!(f, "nth_value({expr}, {n})")?,
            WindowFunction::Over(function, Some(expr)) => {
                write!(f, "{}({expr})", summary(*function))?;
            }
            WindowFunction::Over(function, None) => write!(f, "{}(*)", summary(*function))?,
        }
        f.write_str(" OVER (")?;
        if !self.partition.is_empty() {
            write!(f, "PARTITION BY {}", List(&self.partition))?;
        }
        if !self.order.is_empty() {
            let space = if self.partition.is_empty() { "" } else { " " };
            write!(f, "{space}ORDER BY {}", List(&self.order))?;
        }
        if let Frame::Rows(before, after) = self.frame {
            let bound = |n: Option<usize>| n.map_or("UNBOUNDED".to_owned(), |n| n.to_string());
            let (before, after) = (bound(before), bound(after));
            write!(f, " ROWS BETWEEN {before} PRECEDING AND {after} FOLLOWING")?;
        }
        f.write_str(")")
    }
}

impl Display for Order {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.expr)?;
        if self.descending {
            f.write_str(" DESC")?;
        }
        match self.nulls_first {
            Some(true) => f.write_str(" NULLS FIRST"),
            Some(false) => f.write_str(" NULLS LAST"),
            None => Ok(()),
        }
    }
}

impl Display for Source {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Source::Table(table, alias) => write!(f, "{table} AS {alias}"),
            Source::Query(query, alias) => write!(f, "({query}) AS {alias}"),
            Source::Join(kind, left, right, on) => {
                let kind = match kind {
                    JoinKind::Inner => "JOIN",
                    JoinKind::Left => "LEFT JOIN",
                    JoinKind::Right => "RIGHT JOIN",
                    JoinKind::Full => "FULL JOIN",
                    JoinKind::Cross => "CROSS JOIN",
                };
                write!(f, "{left} {kind} {right}")?;
                match on {
                    Some(on) => write!(f, " ON {on}"),
                    None => Ok(()),
                }
            }
        }
    }
}

impl Display for Select {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(if self.distinct { "SELECT DISTINCT " } else { "SELECT " })?;
        for (at, (expr, name)) in self.items.iter().enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            match expr {
                Expr::Column(_, column) if column == name => write!(f, "{comma}{expr}")?,
                _ => write!(f, "{comma}{expr} AS {name}")?,
            }
        }
        if let Some(source) = &self.source {
            write!(f, " FROM {source}")?;
        }
        if let Some(condition) = &self.condition {
            write!(f, " WHERE {condition}")?;
        }
        if !self.group.is_empty() {
            write!(f, " GROUP BY {}", List(&self.group))?;
        }
        if let Some(having) = &self.having {
            write!(f, " HAVING {having}")?;
        }
        Ok(())
    }
}

impl Display for Query {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (at, (name, query)) in self.with.iter().enumerate() {
            write!(f, "{}{name} AS ({query})", if at > 0 { ", " } else { "WITH " })?;
        }
        if !self.with.is_empty() {
            f.write_str(" ")?;
        }
        match &self.body {
            Body::Select(select) => write!(f, "{select}")?,
            Body::Set(operation, all, left, right) => {
                let operation = match operation {
                    SetOperation::Union => "UNION",
                    SetOperation::Intersect => "INTERSECT",
                    SetOperation::Except => "EXCEPT",
                };
                let all = if *all { " ALL" } else { "" };
                write!(f, "({left}) {operation}{all} ({right})")?;
            }
        }
        if !self.order.is_empty() {
            write!(f, " ORDER BY {}", List(&self.order))?;
        }
        if let Some(limit) = self.limit {
            write!(f, " LIMIT {limit}")?;
        }
        if self.offset > 0 {
            write!(f, " OFFSET {}", self.offset)?;
        }
        Ok(())
    }
}

/// A literal of a set or a map, its parts in another order than they are kept in.
fn braces(parts: impl DoubleEndedIterator<Item = String>) -> String {
    format!("{{{}}}", parts.rev().collect::<Vec<_>>().join(", "))
}

/// A literal in the plainest way of writing it.
pub fn plain(value: &super::value::Value, ty: Type) -> String {
    use super::value::{Value, text};
    match value {
        Value::Null => "NULL".into(),
        Value::Text(text) => quoted(text),
        Value::Blob(_) => format!("X'{}'", text(value)),
        Value::Float(float) if float.is_finite() && (*float != 0.0 || float.is_sign_positive()) => {
            if ty == Type::Float {
                format!("CAST({float:?} AS float)")
            } else {
                format!("{float:?}")
            }
        }
        Value::Float(float) => {
            let name = match float {
                float if float.is_nan() => "NaN",
                float if *float == f64::INFINITY => "Infinity",
                float if *float == f64::NEG_INFINITY => "-Infinity",
                _ => "-0.0",
            };
            format!("CAST('{name}' AS {})", ty.sql())
        }
        Value::Date(_) => format!("DATE '{}'", text(value)),
        Value::Time(_) => format!("TIME '{}'", text(value)),
        Value::Set(elements) => braces(elements.iter().map(ToString::to_string)),
        Value::Map(entries) => {
            braces(entries.iter().map(|(key, value)| format!("{}: {value}", quoted(key))))
        }
        Value::Timestamp(_) => format!("TIMESTAMP '{}Z'", text(value)),
        _ => text(value),
    }
}
