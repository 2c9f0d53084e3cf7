//! Errors of SQL text: what is wrong, where in the text, and what would help.
//!
//! Invariant: `message` is one sentence without a position; the position is `span`, counted in the
//! text that was handed to `split`. Not here: what the engine calls an error (`tidegate_engine`).

use std::fmt;

use datafusion::common::{DataFusionError, SchemaError};
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::TokenizerError;
use tidegate_engine::error::Error as EngineError;

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
}

impl QueryError {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        QueryError { kind, message: message.into(), span: None, help: None }
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
        let mut out = format!("error: {}\n", self.message);
        if let Some(span) = self.span {
            out.push_str(&format!("  --> line {}, column {}\n", span.line, span.column));
            let line = usize::try_from(span.line).unwrap_or(usize::MAX);
            if let Some(text) = source_text.lines().nth(line.saturating_sub(1)) {
                let number = span.line.to_string();
                let gutter = " ".repeat(number.len());
                // Tabs stay tabs under the line, so the caret stands where the eye expects it.
                let before: String = text
                    .chars()
                    .take(usize::try_from(span.column).unwrap_or(usize::MAX).saturating_sub(1))
                    .map(|c| if c == '\t' { '\t' } else { ' ' })
                    .collect();
                let room = text.chars().count().saturating_sub(before.chars().count()).max(1);
                let carets =
                    "^".repeat(usize::try_from(span.length).unwrap_or(usize::MAX).clamp(1, room));
                out.push_str(&format!(" {gutter} |\n {number} | {text}\n"));
                out.push_str(&format!(" {gutter} | {before}{carets}\n"));
            }
        }
        if let Some(help) = &self.help {
            out.push_str(&format!("help: {help}\n"));
        }
        out
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
            EngineError::Timeout(_) => ErrorKind::Timeout,
            EngineError::Unavailable(_) | EngineError::Poisoned { .. } | EngineError::Closed => {
                ErrorKind::Unavailable
            }
        };
        QueryError::new(kind, error.to_string())
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
            QueryError::new(ErrorKind::Internal, inner.to_string())
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
            other => QueryError::invalid(other.to_string()),
        },
        DataFusionError::Plan(message) => QueryError::invalid(message.clone()),
        DataFusionError::Configuration(message) => QueryError::invalid(message.clone()),
        DataFusionError::Execution(message) => QueryError::invalid(message.clone()),
        DataFusionError::NotImplemented(message) => QueryError::unsupported(message.clone()),
        DataFusionError::ResourcesExhausted(message) => {
            QueryError::new(ErrorKind::Overloaded, message.clone())
        }
        DataFusionError::ArrowError(arrow, _) => QueryError::invalid(arrow.to_string()),
        DataFusionError::IoError(io) => QueryError::new(ErrorKind::Io, io.to_string()),
        other => QueryError::new(ErrorKind::Internal, other.strip_backtrace()),
    }
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

/// The known name at most two edits away, the nearest first.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    known
        .into_iter()
        .map(|candidate| (edit_distance(&name, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= 2 && *distance < candidate.chars().count())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, a_char) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b_char) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(a_char != *b_char);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        let known = ["temp", "dewp", "origin", "id"];
        assert_eq!(nearest("tmep", known), Some("temp"));
        assert_eq!(nearest("ORIGN", known), Some("origin"));
        assert_eq!(nearest("pressure", known), None);
        assert_eq!(nearest("xy", known), None);
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
}
