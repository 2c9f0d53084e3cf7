//! Errors of SQL text: what is wrong, where in the text, and what would help.
//!
//! Invariant: `message` is one sentence without a position; the position is `span`, counted in the
//! text that was handed to `split`. Not here: what the engine calls an error (`tidegate_engine`).

use std::fmt;
use std::time::Duration;

use datafusion::arrow::error::ArrowError;
use datafusion::common::{DataFusionError, SchemaError};
use sqlparser::parser::ParserError;
use sqlparser::tokenizer::TokenizerError;
use tidegate_engine::error::Error as EngineError;

use crate::cluster::error::is_of_node_down;
use crate::text::masked_in_place;
pub use crate::text::nearest;
use crate::text::width::{char_width, head_bytes, width, wrapped};

/// Result of everything in `query`.
pub type Result<T, E = QueryError> = std::result::Result<T, E>;

/// A place in the text of a statement. Lines and columns count from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub line: u64,
    pub column: u64,
    /// Characters to underline, at least 1.
    pub length: u64,
}

/// What the caller can do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The text is no statement.
    Syntax,
    /// The statement is wrong: types, values, missing keys.
    Invalid,
    /// A table, column, keyspace or policy does not exist.
    NotFound,
    /// It exists already.
    Exists,
    /// The statement is right but not offered here.
    Unsupported,
    /// Whoever asks may not do this.
    Denied,
    /// Too much work is queued, or memory ran out: retry later.
    Overloaded,
    Timeout,
    /// The database is closed or refuses writes.
    Unavailable,
    /// Bytes on disk are damaged.
    Corrupt,
    /// The operating system refused a file operation.
    Io,
    /// A bug.
    Internal,
}

/// Why a statement failed.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryError {
    pub kind: ErrorKind,
    pub message: String,
    pub span: Option<Span>,
    /// A sentence that tells what to do instead.
    pub help: Option<String>,
    /// After how long the same statement may succeed, where somebody knows.
    pub retry_after: Option<Duration>,
}

impl QueryError {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        QueryError { kind, message: message.into(), span: None, help: None, retry_after: None }
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        QueryError::new(ErrorKind::Invalid, message)
    }

    pub fn unsupported(message: impl Into<String>) -> Self {
        QueryError::new(ErrorKind::Unsupported, message)
    }

    /// A named thing that does not exist, with the nearest of `known` names as help.
    pub fn not_found<'a>(kind: &str, name: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        let error = QueryError::new(ErrorKind::NotFound, format!("{kind} '{name}' does not exist"));
        match nearest(name, known) {
            Some(near) => error.with_help(format!("did you mean '{near}'?")),
            None => error,
        }
    }

    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub fn at(mut self, span: Span) -> Self {
        self.span = Some(span);
        self
    }

    /// Whether the same statement may succeed later without a change.
    pub fn is_retryable(&self) -> bool {
        matches!(self.kind, ErrorKind::Overloaded | ErrorKind::Timeout)
    }

    /// The error as a person reads it; `source_text` is the text that was given to `split`.
    ///
    /// ```text
    /// error: column 'tmep' does not exist
    ///   --> line 1, column 8
    ///    |
    ///  1 | SELECT tmep FROM weather
    ///    |        ^^^^
    /// help: did you mean 'temp'?
    /// ```
    pub fn render(&self, source_text: &str) -> String {
        self.render_within(source_text, None)
    }

    /// As `render`, for a screen of so many `columns`: no line is longer, and of a long line of the
    /// text the part around the place is shown.
    pub fn render_within(&self, source_text: &str, columns: Option<usize>) -> String {
        let room = columns.unwrap_or(usize::MAX);
        let mut out = format!("{}\n", wrapped(&format!("error: {}", self.message), room, "  "));
        if let Some(span) = self.span {
            out.push_str(&format!("  --> line {}, column {}\n", span.line, span.column));
            let line = usize::try_from(span.line).unwrap_or(usize::MAX);
            let source_text = masked_in_place(source_text);
            if let Some(text) = source_text.lines().nth(line.saturating_sub(1)) {
                let number = span.line.to_string();
                let gutter = " ".repeat(number.len());
                let room = room.saturating_sub(number.len() + 4);
                let Marked { line, before, carets } = Marked::new(text, &span, room);
                out.push_str(&format!(" {gutter} |\n {number} | {line}\n"));
                out.push_str(&format!(" {gutter} | {before}{carets}\n"));
            }
        }
        if let Some(help) = &self.help {
            out.push_str(&format!("{}\n", wrapped(&format!("help: {help}"), room, "  ")));
        }
        out
    }
}

/// A line of a text with carets under a place of it.
struct Marked {
    line: String,
    /// What stands under the line before the carets.
    before: String,
    carets: String,
}

impl Marked {
    /// Of a line with more than `columns` the part around the place.
    fn new(text: &str, span: &Span, columns: usize) -> Self {
        // Tabs become spaces: how wide a tab is depends on what stands before it on the screen.
        let text = text.replace('\t', " ");
        let at = |characters: u64| {
            let characters = usize::try_from(characters).unwrap_or(usize::MAX);
            text.char_indices().nth(characters).map_or(text.len(), |(at, _)| at)
        };
        let start = at(span.column.saturating_sub(1));
        let end = at(span.column.saturating_sub(1).saturating_add(span.length)).max(start);
        let (mut from, mut head) = (0, "");
        if width(&text) > columns && width(&text[..end]) > columns {
            // What is marked stands at a third of the line, so that its surroundings are seen.
            let wanted = columns / 3;
            let mut kept = 0;
            let before = text[..start].char_indices().rev();
            let first = before.take_while(|(_, c)| {
                kept += char_width(*c);
                kept <= wanted
            });
            (from, head) = (first.last().map_or(start, |(at, _)| at), "…");
        }
        let room = columns.saturating_sub(width(head));
        let rest = &text[from..];
        let (to, tail) = match head_bytes(rest, room) {
            all if all == rest.len() => (text.len(), ""),
            _ => (from + head_bytes(rest, room.saturating_sub(1)), "…"),
        };
        let before = " ".repeat(width(head) + width(&text[from..start.min(to)]));
        let carets = "^".repeat(width(&text[start.min(to)..end.min(to)]).max(1));
        Marked { line: format!("{head}{}{tail}", &text[from..to]), before, carets }
    }
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(span) = self.span {
            write!(f, " (line {}, column {})", span.line, span.column)?;
        }
        if let Some(help) = &self.help {
            write!(f, "; {help}")?;
        }
        Ok(())
    }
}

impl std::error::Error for QueryError {}

impl From<EngineError> for QueryError {
    fn from(error: EngineError) -> Self {
        let kind = match &error {
            EngineError::Invalid(_) | EngineError::Policy { .. } => ErrorKind::Invalid,
            EngineError::NotFound { .. } => ErrorKind::NotFound,
            EngineError::Exists { .. } => ErrorKind::Exists,
            EngineError::Corrupt(_) => ErrorKind::Corrupt,
            EngineError::Io { .. } if error.is_shortage() => ErrorKind::Overloaded,
            EngineError::Io { .. } => ErrorKind::Io,
            EngineError::Overloaded(_) | EngineError::RateLimited { .. } => ErrorKind::Overloaded,
            EngineError::Timeout { .. } => ErrorKind::Timeout,
            EngineError::Unavailable(_) | EngineError::Poisoned { .. } | EngineError::Closed => {
                ErrorKind::Unavailable
            }
        };
        let retry_after = error.retry_after();
        QueryError { retry_after, ..QueryError::new(kind, error.to_string()) }
    }
}

impl From<TokenizerError> for QueryError {
    fn from(error: TokenizerError) -> Self {
        QueryError::new(ErrorKind::Syntax, error.message).at(Span {
            line: error.location.line,
            column: error.location.column,
            length: 1,
        })
    }
}

impl From<ParserError> for QueryError {
    fn from(error: ParserError) -> Self {
        match error {
            ParserError::TokenizerError(text) | ParserError::ParserError(text) => {
                // The parser only hands out text; its position is a suffix of fixed form.
                let (message, span) = split_location(&text);
                let error = QueryError::new(ErrorKind::Syntax, message);
                span.map_or(error.clone(), |span| error.at(span))
            }
            ParserError::RecursionLimitExceeded => {
                QueryError::new(ErrorKind::Syntax, "the statement is nested too deeply")
            }
        }
    }
}

impl From<DataFusionError> for QueryError {
    fn from(error: DataFusionError) -> Self {
        let span = error.diagnostic().and_then(|diagnostic| diagnostic.span).map(|span| Span {
            line: span.start.line,
            column: span.start.column,
            length: if span.end.line == span.start.line {
                span.end.column.saturating_sub(span.start.column).max(1)
            } else {
                1
            },
        });
        let mut mapped = map_datafusion(&error);
        if mapped.span.is_none() {
            mapped.span = span;
        }
        mapped
    }
}

fn map_datafusion(error: &DataFusionError) -> QueryError {
    match error {
        DataFusionError::External(inner) => {
            if let Some(ours) = inner.downcast_ref::<QueryError>() {
                return ours.clone();
            }
            if let Some(engine) = inner.downcast_ref::<EngineError>() {
                return engine.clone().into();
            }
            let text = inner.to_string();
            // Another node has said it, and of an error of the engine only the text comes along.
            let kind = match is_of_node_down(&text) {
                true => ErrorKind::Unavailable,
                false => ErrorKind::Internal,
            };
            QueryError::new(kind, text)
        }
        DataFusionError::Diagnostic(_, inner) | DataFusionError::Context(_, inner) => {
            map_datafusion(inner)
        }
        DataFusionError::Shared(inner) => map_datafusion(inner),
        DataFusionError::Collection(errors) if !errors.is_empty() => map_datafusion(&errors[0]),
        DataFusionError::SQL(parser, _) => (**parser).clone().into(),
        DataFusionError::SchemaError(schema, _) => match &**schema {
            SchemaError::FieldNotFound { field, valid_fields } => QueryError::not_found(
                "column",
                &field.name,
                valid_fields.iter().map(|column| column.name.as_str()),
            ),
            SchemaError::DuplicateUnqualifiedField { name } => {
                QueryError::invalid(format!("column '{name}' is named twice"))
            }
            other => QueryError::invalid(other.to_string()),
        },
        DataFusionError::Plan(message) if message.starts_with(MISPLACED_QUERY) => misplaced_query(),
        DataFusionError::Plan(message) => {
            no_such_function(message).unwrap_or_else(|| QueryError::invalid(message.clone()))
        }
        DataFusionError::Configuration(message) => QueryError::invalid(message.clone()),
        DataFusionError::Execution(message) => QueryError::invalid(message.clone()),
        DataFusionError::NotImplemented(message) => not_offered(message),
        DataFusionError::ResourcesExhausted(message) => {
            let error = QueryError::new(
                ErrorKind::Overloaded,
                format!("queries have no more memory: {message}"),
            );
            error.with_help(
                "give the program more (--query-memory, or --memory of which that is a part), or ask for \
                 fewer rows or columns at once",
            )
        }
        DataFusionError::ArrowError(arrow, _) => match &**arrow {
            ArrowError::DivideByZero => QueryError::invalid("division by zero"),
            other => QueryError::invalid(other.to_string()),
        },
        DataFusionError::IoError(io) => QueryError::new(ErrorKind::Io, io.to_string()),
        other => QueryError::new(ErrorKind::Internal, other.strip_backtrace()),
    }
}

/// What no operator does; of a query that is left in an expression, not the whole plan of it.
fn not_offered(message: &str) -> QueryError {
    let queries = ["InSubquery(", "Exists("];
    let found = message.strip_prefix("Physical plan does not support logical expression ");
    if found.is_some_and(|found| queries.iter().any(|query| found.starts_with(query))) {
        return misplaced_query();
    }
    if found.is_some_and(|found| found.starts_with("ScalarSubquery(")) {
        let message = "a query that is a value may name the query around it beside = only";
        let help = "join with the tables of the query around, and GROUP BY its key";
        return QueryError::unsupported(message).with_help(help);
    }
    QueryError::unsupported(message)
}

/// How the planner begins where IN or EXISTS of a query stands in ORDER BY or the like.
const MISPLACED_QUERY: &str = "In/Exist/SetComparison subquery can only be used";

fn misplaced_query() -> QueryError {
    let message = "IN and EXISTS of a query are not offered here";
    let help = "write it in WHERE, HAVING or the select list, or join with the query";
    QueryError::unsupported(message).with_help(help)
}

/// DataFusion's page about a call that no signature fits, as one sentence and what would fit.
fn no_such_function(message: &str) -> Option<QueryError> {
    let (_, rest) =
        message.split_once("No function matches the given name and argument types '")?;
    let (call, rest) = rest.split_once('\'')?;
    let (name, arguments) = call.split_once('(')?;
    let error = QueryError::invalid(format!("no function '{name}' takes ({arguments}"));
    let (_, candidates) = rest.split_once("Candidate functions:")?;
    let candidates: Vec<&str> =
        candidates.lines().map(str::trim).filter(|line| !line.is_empty()).take(6).collect();
    Some(error.with_help(format!("it is called as {}", candidates.join(", "))))
}

/// Takes ` at Line: 1, Column: 8` off the end of a parser message.
fn split_location(text: &str) -> (String, Option<Span>) {
    let parsed = text.rsplit_once(" at Line: ").and_then(|(message, place)| {
        let (line, column) = place.split_once(", Column: ")?;
        let span = Span { line: line.parse().ok()?, column: column.parse().ok()?, length: 1 };
        Some((message, span))
    });
    match parsed {
        // Line 0 stands for "no position".
        Some((message, span)) if span.line > 0 => (message.to_owned(), Some(span)),
        Some((message, _)) => (message.to_owned(), None),
        None => (text.to_owned(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_memory_says_what_to_raise() {
        let error = QueryError::from(DataFusionError::ResourcesExhausted("a sort".to_owned()));
        assert_eq!(error.kind, ErrorKind::Overloaded);
        assert_eq!(error.message, "queries have no more memory: a sort");
        assert!(error.help.unwrap().contains("--query-memory"));
    }

    #[test]
    fn an_error_points_at_its_place() {
        let error = QueryError::not_found("column", "tmep", ["temp"]).at(Span {
            line: 2,
            column: 8,
            length: 4,
        });
        assert_eq!(
            error.render("-- first\nSELECT tmep FROM w"),
            "error: column 'tmep' does not exist\n  --> line 2, column 8\n   |\n 2 | SELECT tmep FROM w\n   \
             |        ^^^^\nhelp: did you mean 'temp'?\n"
        );
    }

    #[test]
    fn positions_leave_parser_messages() {
        let error = QueryError::from(ParserError::ParserError(
            "Expected: an expression, found: FROM at Line: 3, Column: 12".into(),
        ));
        assert_eq!(error.message, "Expected: an expression, found: FROM");
        assert_eq!(error.span, Some(Span { line: 3, column: 12, length: 1 }));
    }

    #[test]
    fn carets_stand_under_wide_letters_and_long_lines_are_cut_around_the_place() {
        let carets = |text: &str, column, length, columns| {
            let error = QueryError::invalid("m").at(Span { line: 1, column, length });
            let shown = error.render_within(text, columns);
            let mut lines = shown.lines().skip(3).map(str::to_owned);
            (lines.next().unwrap(), lines.next().unwrap())
        };
        let (text, marks) = carets("SELECT '日本', nope", 14, 4, None);
        assert_eq!(
            (text.as_str(), marks.as_str()),
            (" 1 | SELECT '日本', nope", "   |                ^^^^")
        );
        let long = format!("SELECT {}, nope, {}", "a".repeat(200), "b".repeat(200));
        let (text, marks) = carets(&long, 210, 4, Some(40));
        assert!(width(&text) <= 40 && width(&marks) <= 40, "{text}");
        let at = marks.find('^').unwrap();
        let under: String = text.chars().skip(at).take(4).collect();
        assert_eq!(under, "nope", "{text}\n{marks}");
        // A place behind the end, as of an unfinished statement.
        let (_, marks) = carets("SELECT", 7, 1, Some(40));
        assert_eq!(marks, "   |       ^");
    }

    /// Errors of the engine, and what they are to whoever asked.
    fn of_engine() -> Vec<(EngineError, ErrorKind)> {
        let io = |code| EngineError::Io {
            operation: "write",
            path: "/data/file".into(),
            code,
            message: "it failed".to_owned(),
        };
        let timeout =
            EngineError::Timeout { what: "rows were to come", within: Duration::from_secs(1) };
        let limited =
            EngineError::RateLimited { table: "ks.t".into(), operation: "read", limit: 5 };
        let (name, message) = ("p".to_owned(), "it has no such export".to_owned());
        let (kind, table) = ("table", || "t".to_owned());
        vec![
            (EngineError::invalid("a key is empty"), ErrorKind::Invalid),
            (EngineError::Policy { name, message }, ErrorKind::Invalid),
            (EngineError::NotFound { kind, name: table() }, ErrorKind::NotFound),
            (EngineError::Exists { kind, name: table() }, ErrorKind::Exists),
            (EngineError::corrupt("/data/file", 7, "a checksum", "another"), ErrorKind::Corrupt),
            (io(None), ErrorKind::Io),
            (io(Some(2)), ErrorKind::Io),
            (io(Some(5)), ErrorKind::Io),
            // No descriptor, no room, no quota.
            (io(Some(23)), ErrorKind::Overloaded),
            (io(Some(24)), ErrorKind::Overloaded),
            (io(Some(28)), ErrorKind::Overloaded),
            (io(Some(122)), ErrorKind::Overloaded),
            (EngineError::short("there is no room for a task"), ErrorKind::Overloaded),
            (limited, ErrorKind::Overloaded),
            (timeout, ErrorKind::Timeout),
            (EngineError::Unavailable("its format is newer".to_owned()), ErrorKind::Unavailable),
            (EngineError::Poisoned { shard: 1, reason: "a sync".into() }, ErrorKind::Unavailable),
            (EngineError::Closed, ErrorKind::Unavailable),
        ]
    }

    /// As it is, and as operators of a plan hand it on.
    #[test]
    fn an_error_of_the_engine_keeps_its_kind_its_words_and_its_wait_on_every_way() {
        for (error, kind) in of_engine() {
            let external = || DataFusionError::External(Box::new(error.clone()));
            let other = DataFusionError::External("another one".into());
            let ours = QueryError::from(error.clone());
            for found in [
                ours.clone(),
                external().into(),
                DataFusionError::External(Box::new(ours.clone())).into(),
                external().context("while it was planned").into(),
                external().context("once").context("and twice").into(),
                DataFusionError::Shared(std::sync::Arc::new(external())).into(),
                DataFusionError::Collection(vec![external(), other]).into(),
            ] {
                assert_eq!(found.kind, kind, "{error}");
                assert_eq!(found.message, error.to_string());
                assert_eq!(found.retry_after, error.retry_after(), "{error}");
                assert_eq!(found.is_retryable(), error.is_retryable(), "{error}");
                assert_eq!((found.span, found.help), (None, None), "{error}");
            }
        }
    }

    #[test]
    fn an_error_of_a_plan_is_the_fault_of_whoever_can_mend_it() {
        let text = || "what is wrong".to_owned();
        let arrow = |error| DataFusionError::ArrowError(Box::new(error), None);
        let io = std::io::Error::other("what is wrong");
        for (error, kind, message) in [
            (DataFusionError::Plan(text()), ErrorKind::Invalid, "what is wrong"),
            (DataFusionError::Configuration(text()), ErrorKind::Invalid, "what is wrong"),
            (DataFusionError::Execution(text()), ErrorKind::Invalid, "what is wrong"),
            (DataFusionError::NotImplemented(text()), ErrorKind::Unsupported, "what is wrong"),
            (DataFusionError::IoError(io), ErrorKind::Io, "what is wrong"),
            (arrow(ArrowError::DivideByZero), ErrorKind::Invalid, "division by zero"),
            (arrow(ArrowError::CastError(text())), ErrorKind::Invalid, "what is wrong"),
            (DataFusionError::Internal(text()), ErrorKind::Internal, "what is wrong"),
            (DataFusionError::External(text().into()), ErrorKind::Internal, "what is wrong"),
        ] {
            let found = QueryError::from(error);
            assert_eq!(found.kind, kind, "{found}");
            assert!(found.message.contains(message), "{found}");
            assert_eq!(found.retry_after, None, "{found}");
        }
        let several = DataFusionError::Collection(vec![
            DataFusionError::Plan("the first".to_owned()),
            DataFusionError::Internal("the second".to_owned()),
        ]);
        let found = QueryError::from(several);
        assert_eq!((found.kind, &*found.message), (ErrorKind::Invalid, "the first"));
    }

    #[test]
    fn what_the_planner_says_at_length_is_one_sentence_with_help() {
        for (said, message) in [
            ("InSubquery(InSubquery { .. })", "IN and EXISTS of a query are not offered here"),
            ("Exists(Exists { .. })", "IN and EXISTS of a query are not offered here"),
            ("ScalarSubquery(<subquery>)", "a query that is a value may name the query around it"),
        ] {
            let said = format!("Physical plan does not support logical expression {said}");
            let found = QueryError::from(DataFusionError::NotImplemented(said));
            assert_eq!(found.kind, ErrorKind::Unsupported);
            assert!(found.message.starts_with(message) && found.help.is_some(), "{found}");
        }
        let other = "Physical plan does not support logical expression Wildcard";
        let found = QueryError::from(DataFusionError::NotImplemented(other.to_owned()));
        assert_eq!((found.kind, &*found.message), (ErrorKind::Unsupported, other));
        let misplaced = format!("{MISPLACED_QUERY} in projection");
        let found = QueryError::from(DataFusionError::Plan(misplaced));
        assert_eq!(found.kind, ErrorKind::Unsupported);
        // Of many ways to call a function the first six are told.
        for (count, last) in [(1, "f(1)"), (6, "f(6)"), (7, "f(6)")] {
            let ways: String = (1..=count).map(|n| format!("\n\tf({n})")).collect();
            let said = format!(
                "No function matches the given name and argument types 'f(Int64, Utf8)'. \
                 You might need to add explicit type casts.\n\tCandidate functions:{ways}"
            );
            let found = QueryError::from(DataFusionError::Plan(format!("Error: {said}")));
            assert_eq!(found.message, "no function 'f' takes (Int64, Utf8)");
            assert_eq!(found.kind, ErrorKind::Invalid);
            let help = found.help.unwrap();
            assert!(help.starts_with("it is called as f(1)") && help.ends_with(last), "{help}");
        }
    }

    #[test]
    fn a_parser_that_knows_no_place_names_none() {
        let span = |line, column| Some(Span { line, column, length: 1 });
        for (text, message, wanted) in [
            ("Expected: x at Line: 1, Column: 1", "Expected: x", span(1, 1)),
            ("Expected: x at Line: 0, Column: 0", "Expected: x", None),
            ("Expected: x", "Expected: x", None),
            ("found at Line: 2 at Line: 7, Column: 3", "found at Line: 2", span(7, 3)),
            ("x at Line: seven, Column: 3", "x at Line: seven, Column: 3", None),
        ] {
            let found = QueryError::from(ParserError::ParserError(text.to_owned()));
            assert_eq!((&*found.message, found.span), (message, wanted), "{text}");
            assert_eq!(found.kind, ErrorKind::Syntax, "{text}");
        }
        let deep = QueryError::from(ParserError::RecursionLimitExceeded);
        assert_eq!((deep.kind, deep.span), (ErrorKind::Syntax, None));
    }

    #[test]
    fn a_line_of_text_tells_the_place_and_the_help_and_no_password_is_shown() {
        let error = QueryError::invalid("it is wrong");
        assert_eq!(error.to_string(), "it is wrong");
        let placed = error.clone().at(Span { line: 2, column: 5, length: 3 });
        assert_eq!(placed.to_string(), "it is wrong (line 2, column 5)");
        let helped = placed.clone().with_help("mend it");
        assert_eq!(helped.to_string(), "it is wrong (line 2, column 5); mend it");
        assert_eq!(error.with_help("mend it").to_string(), "it is wrong; mend it");
        let text = "CREATE ROLE ann WITH\nPASSWORD = 'secret' LOGIN";
        let shown = placed.render(text);
        assert!(shown.contains("PASSWORD") && !shown.contains("secret"), "{shown}");
        // A line that is not there is left out.
        let behind = QueryError::invalid("m").at(Span { line: 9, column: 1, length: 1 });
        assert_eq!(behind.render(text), "error: m\n  --> line 9, column 1\n");
        for kind in [ErrorKind::Overloaded, ErrorKind::Timeout] {
            assert!(QueryError::new(kind, "m").is_retryable(), "{kind:?}");
        }
        for kind in [ErrorKind::Unavailable, ErrorKind::Io, ErrorKind::Denied, ErrorKind::Internal]
        {
            assert!(!QueryError::new(kind, "m").is_retryable(), "{kind:?}");
        }
    }
}
