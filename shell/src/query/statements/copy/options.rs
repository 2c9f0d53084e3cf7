//! What COPY copies, and the options that say how.

use datafusion::sql::parser::Statement as SqlStatement;
use sqlparser::tokenizer::Token;

use crate::query::error::{QueryError, Result, Span};
use crate::query::parse::{Cursor, Name, TableName};

const OPTIONS: [&str; 7] =
    ["format", "header", "null", "delimiter", "on_error", "reject_file", "ttl"];

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

/// How COPY reads and writes a file.
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

/// COPY … FROM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyFrom {
    pub table: TableName,
    /// Empty means those of the header, or all of the table.
    pub columns: Vec<Name>,
    pub file: String,
    pub file_span: Span,
    pub options: CopyOptions,
}

/// COPY … TO.
#[derive(Debug, Clone)]
pub struct CopyTo {
    pub source: SqlStatement,
    pub file: String,
    pub file_span: Span,
    pub options: CopyOptions,
}

/// Options that tune cqlsh itself, and say nothing of the file.
const TUNING_OF_CQLSH: [&str; 12] = [
    "chunksize",
    "ingestrate",
    "maxattempts",
    "maxbatchsize",
    "maxrequests",
    "minbatchsize",
    "numprocesses",
    "pagesize",
    "pagetimeout",
    "ratefile",
    "reportfrequency",
    "configfile",
];

/// `[WITH] (NAME value, NAME = value, …)`, or `WITH NAME = value AND NAME = value …` as in cqlsh;
/// the format follows the file's name by default.
pub(super) fn options(cursor: &mut Cursor<'_>, file: &str) -> Result<CopyOptions> {
    let is_parquet = file.to_lowercase().ends_with(".parquet");
    let mut options = CopyOptions {
        format: if is_parquet { Format::Parquet } else { Format::Csv },
        header: true,
        null: String::new(),
        delimiter: b',',
        on_error: OnError::Abort,
        reject_file: None,
        ttl: None,
    };
    let with = cursor.take_word("with");
    let is_list = cursor.peek() == Some(&Token::LParen);
    if is_list || (with && !matches!(cursor.peek(), Some(Token::Word(_)))) {
        cursor.parenthesised(|cursor| option(cursor, &mut options))?;
    } else if with {
        option(cursor, &mut options)?;
        while cursor.take_word("and") {
            option(cursor, &mut options)?;
        }
    }
    let parts_fields =
        |c: char| c == char::from(options.delimiter) || matches!(c, '"' | '\r' | '\n');
    if options.format == Format::Csv && options.null.contains(parts_fields) {
        return Err(QueryError::invalid(format!(
            "the text of NULL, '{}', holds the delimiter, a quote or a line end: a file with it \
             could not be read back",
            options.null
        )));
    }
    Ok(options)
}

fn option(cursor: &mut Cursor<'_>, options: &mut CopyOptions) -> Result<()> {
    let name = cursor.name("an option")?;
    let has_sign = cursor.take(&Token::Eq);
    let span = cursor.span();
    let stands_alone = match cursor.peek() {
        None | Some(Token::Comma | Token::RParen) => true,
        Some(Token::Word(word)) => word.value.eq_ignore_ascii_case("and"),
        Some(_) => false,
    };
    // HEADER alone means HEADER true.
    let value = match name.value == "header" && !has_sign && stands_alone {
        true => "true".to_owned(),
        false => cursor.option_value()?,
    };
    let wrong = |wanted: &str| {
        QueryError::invalid(format!("option {} takes {wanted}, not '{value}'", name.value)).at(span)
    };
    let word = value.to_lowercase();
    match name.value.as_str() {
        "format" => {
            options.format = match word.as_str() {
                "csv" => Format::Csv,
                "parquet" => Format::Parquet,
                _ => return Err(wrong("csv or parquet")),
            }
        }
        "header" => {
            options.header = match word.as_str() {
                "true" | "on" => true,
                "false" | "off" => false,
                _ => return Err(wrong("true or false")),
            }
        }
        "null" => options.null = value,
        "delimiter" => {
            options.delimiter = match value.as_bytes() {
                [b'"' | b'\r' | b'\n'] => {
                    return Err(wrong("a character that is no quote and ends no line"));
                }
                [byte] => *byte,
                b"\\t" => b'\t',
                _ => return Err(wrong("one character")),
            }
        }
        "on_error" => {
            options.on_error = match word.as_str() {
                "abort" => OnError::Abort,
                "skip" => OnError::Skip,
                _ => return Err(wrong("abort or skip")),
            }
        }
        "reject_file" | "errfile" => options.reject_file = Some(value),
        "ttl" => options.ttl = Some(value.parse().map_err(|_| wrong("a number of seconds"))?),
        unknown if TUNING_OF_CQLSH.contains(&unknown) => {
            let message = format!("COPY has no option {}", unknown.to_uppercase());
            return Err(QueryError::unsupported(message)
                .at(name.span)
                .with_help("leave it out: it tunes cqlsh itself, and says nothing of the file"));
        }
        unknown => {
            let error = QueryError::not_found("option", unknown, OPTIONS).at(name.span);
            let help = format!("options are {}", OPTIONS.join(", ").to_uppercase());
            return Err(if error.help.is_some() { error } else { error.with_help(help) });
        }
    }
    Ok(())
}
