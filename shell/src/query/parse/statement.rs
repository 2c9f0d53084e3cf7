//! Splitting text into statements, with positions that stay those of the whole text. What all
//! statements may say of their own run is taken out here (`said.rs`).
//!
//! Invariant: a statement has at least one token, none of them white space or comment. Only a batch
//! has `;` among them.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use sqlparser::dialect::Dialect;
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer, TokenizerError};

use super::dialect::TideDialect;
use super::said::{self, Said};
pub(in crate::query) use super::token::{is_value, is_word, span_of};
use crate::query::error::{QueryError, Result, Span};
use crate::text::{BatchWords, TokenKind, lex, masked};

/// The dialect of every statement.
pub(in crate::query) static DIALECT: TideDialect = TideDialect::new();

/// Most parameters of a statement, those included that it leaves out: each has a column where rows
/// are bound. So many PostgreSQL takes as well.
const PARAMETERS_MAX: usize = 65_535;

/// One statement: its text and its tokens. A clone shares them.
#[derive(Clone)]
pub struct Statement {
    text: Arc<str>,
    /// The same with its passwords.
    whole: Arc<str>,
    tokens: Arc<[TokenWithSpan]>,
    /// How many parameters the text has.
    parameter_count: usize,
    said: Said,
}

impl fmt::Debug for Statement {
    /// Without passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Statement").field(&self.text).finish()
    }
}

impl Statement {
    /// The statement as it was written, without the `;` and without passwords.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The same, for who keeps it.
    pub(in crate::query) fn shared_text(&self) -> &Arc<str> {
        &self.text
    }

    /// The statement as it was written, without the `;`: for who runs it again, here or at a
    /// service, and for nobody who keeps it.
    pub(crate) fn with_passwords(&self) -> &str {
        &self.whole
    }

    /// What it says of its own run; that is not among the tokens.
    pub fn said(&self) -> &Said {
        &self.said
    }

    /// Parameters `?` or `$n` in the text.
    pub fn parameter_count(&self) -> usize {
        self.parameter_count
    }

    /// Whether it writes rows.
    pub fn is_write(&self) -> bool {
        ["insert", "update", "delete"].iter().any(|word| self.begins_with(&[word]))
    }

    /// Whether it writes rows, alone or with others in a batch: what is begun is not given up.
    pub(in crate::query) fn is_write_or_batch(&self) -> bool {
        self.is_write() || self.begins_with(&["begin"])
    }

    /// Whether these are the first words, in lower case.
    pub(in crate::query) fn begins_with(&self, words: &[&str]) -> bool {
        self.tokens.len() >= words.len()
            && self.tokens.iter().zip(words).all(|(token, word)| is_word(&token.token, word))
    }

    pub(in crate::query) fn tokens(&self) -> &[TokenWithSpan] {
        &self.tokens
    }

    /// Where the identifier `name` first stands in the text, or else the string `'name'`.
    pub(in crate::query) fn find_named(&self, name: &str) -> Option<Span> {
        let find = |is_named: &dyn Fn(&Token) -> bool| {
            let found = self.tokens.iter().find(|token| is_named(&token.token));
            found.map(|token| span_of(&token.span))
        };
        let identifier = |token: &Token| match token {
            Token::Word(word) if word.quote_style.is_some() => word.value == name,
            Token::Word(word) => word.value.eq_ignore_ascii_case(name),
            _ => false,
        };
        let string = |token: &Token| matches!(token, Token::SingleQuotedString(s) if s == name);
        find(&identifier).or_else(|| find(&string))
    }

    /// Widens a span of one character to the token that begins there.
    pub(in crate::query) fn widen(&self, error: QueryError) -> QueryError {
        let Some(span) = error.span else { return error };
        let token = self
            .tokens
            .iter()
            .map(|token| span_of(&token.span))
            .find(|token| token.line == span.line && token.column == span.column);
        match token {
            Some(token) if token.length > span.length => error.at(token),
            _ => error,
        }
    }
}

/// A word without quotes, as it is written.
fn bare_word(token: &Token) -> Option<&str> {
    match token {
        Token::Word(word) if word.quote_style.is_none() => Some(&word.value),
        _ => None,
    }
}

fn tokens_of(text: &str) -> std::result::Result<Vec<TokenWithSpan>, TokenizerError> {
    Tokenizer::new(&DIALECT as &dyn Dialect, text).tokenize_with_location()
}

/// The same text where comments of CQL, which begin with `//`, begin with `--`. Each character
/// keeps its place.
fn of_sql(text: &str) -> Cow<'_, str> {
    if !text.contains("//") {
        return Cow::Borrowed(text);
    }
    let mut own = text.to_owned();
    for token in lex(text).filter(|token| token.kind == TokenKind::Comment) {
        let start = token.range.start;
        if text[start..].starts_with("//") {
            own.replace_range(start..start + 2, "--");
        }
    }
    Cow::Owned(own)
}

/// Splits text at its semicolons. Empty statements are left out. `?` becomes `$1`, `$2`, … in the
/// order of the text.
///
/// Errors: `Syntax` for an unterminated string or comment, or a mix of `?` and `$n`.
pub fn split(text: &str) -> Result<Vec<Statement>> {
    let tokens = tokens_of(&of_sql(text))?;
    let mut statements = Vec::new();
    let mut part: Vec<TokenWithSpan> = Vec::new();
    let mut words = BatchWords::default();
    let mut end = |tokens: Vec<TokenWithSpan>| -> Result<()> {
        let mut tokens = tokens;
        let (Some(first), Some(last)) = (tokens.first(), tokens.last()) else { return Ok(()) };
        let whole: Arc<str> = slice(text, first.span.start, last.span.end).into();
        let text = match masked(&whole) {
            Cow::Borrowed(_) => Arc::clone(&whole),
            Cow::Owned(masked) => masked.into(),
        };
        let parameter_count = number_parameters(&mut tokens)?;
        let said = said::take(&mut tokens)?;
        let tokens = tokens.into();
        statements.push(Statement { text, whole, tokens, parameter_count, said });
        Ok(())
    };
    for token in tokens {
        match token.token {
            Token::SemiColon if !words.is_within() => {
                words = BatchWords::default();
                end(std::mem::take(&mut part))?;
            }
            Token::Whitespace(_) | Token::EOF => {}
            _ => {
                words.take(bare_word(&token.token).unwrap_or_default());
                part.push(token);
            }
        }
    }
    end(part)?;
    Ok(statements)
}

/// Tokens of text that we made ourselves.
pub(in crate::query) fn synthetic(text: &str) -> Result<Vec<TokenWithSpan>> {
    Ok(tokens_of(text)?
        .into_iter()
        .filter(|token| !matches!(token.token, Token::Whitespace(_)))
        .collect())
}

/// Whether a line editor should run `text` rather than ask for another line: it ends with `;`,
/// holds nothing, or cannot become right by adding lines.
pub fn is_complete(text: &str) -> bool {
    let text = &*of_sql(text);
    match tokens_of(text) {
        Ok(tokens) => {
            let is_said = |token: &&Token| !matches!(token, Token::Whitespace(_) | Token::EOF);
            let mut words = BatchWords::default();
            let mut is_over = true;
            for token in tokens.iter().map(|token| &token.token).filter(is_said) {
                is_over = *token == Token::SemiColon && !words.is_within();
                match is_over {
                    true => words = BatchWords::default(),
                    false => words.take(bare_word(token).unwrap_or_default()),
                }
            }
            is_over
        }
        // A string or comment that is still open goes on in the next line.
        Err(_) => lex(text).last().is_none_or(|last| last.closed),
    }
}

/// Turns every `?` into `$n` and returns the number of parameters.
fn number_parameters(tokens: &mut [TokenWithSpan]) -> Result<usize> {
    let (mut asked, mut numbered) = (0, 0);
    for token in tokens {
        let Token::Placeholder(name) = &mut token.token else { continue };
        if name == "?" {
            asked += 1;
            *name = format!("${asked}");
        } else {
            let number = name.strip_prefix('$').and_then(|digits| digits.parse::<usize>().ok());
            let number = number.filter(|number| *number > 0).ok_or_else(|| {
                QueryError::new(
                    crate::query::ErrorKind::Syntax,
                    format!("'{name}' is no parameter"),
                )
                .at(span_of(&token.span))
                .with_help("parameters are written ? or $1, $2, …")
            })?;
            numbered = numbered.max(number);
        }
        if asked.max(numbered) > PARAMETERS_MAX {
            return Err(QueryError::invalid(format!(
                "'{name}' is one parameter too many: a statement has at most {PARAMETERS_MAX}"
            ))
            .at(span_of(&token.span))
            .with_help("send the rows as several rows of parameters, or ingest them"));
        }
        if asked > 0 && numbered > 0 {
            return Err(QueryError::new(
                crate::query::ErrorKind::Syntax,
                "a statement has either ? or $n parameters, not both",
            )
            .at(span_of(&token.span)));
        }
    }
    Ok(asked.max(numbered))
}

/// The part of `text` between two places of the tokenizer.
fn slice(text: &str, start: Location, end: Location) -> &str {
    let (mut line, mut column) = (1, 1);
    let (mut from, mut to) = (text.len(), text.len());
    for (offset, c) in text.char_indices() {
        if (line, column) == (start.line, start.column) {
            from = offset;
        }
        if (line, column) == (end.line, end.column) {
            to = offset;
            break;
        }
        if c == '\n' {
            line += 1;
            column = 1;
        } else {
            column += 1;
        }
    }
    &text[from.min(to)..to]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_split_at_semicolons_outside_of_strings() {
        let text = "SELECT ';' ; -- a; b\n\n;SELECT\n 'ä' /* ; */ AS \"x;y\"  ";
        let parts = split(text).unwrap();
        let texts: Vec<&str> = parts.iter().map(Statement::text).collect();
        assert_eq!(texts, ["SELECT ';'", "SELECT\n 'ä' /* ; */ AS \"x;y\""]);
        assert_eq!(parts[1].tokens()[0].span.start.line, 3);
        let text = "BEGIN BATCH INSERT ?; DELETE ?; APPLY BATCH; SELECT 1";
        let parts = split(text).unwrap();
        assert_eq!((parts.len(), parts[0].parameter_count()), (2, 2));
    }

    #[test]
    fn parameters_are_numbered() {
        let parts = split("SELECT ? + ?; SELECT $2; SELECT '?'").unwrap();
        let counts: Vec<usize> = parts.iter().map(Statement::parameter_count).collect();
        assert_eq!(counts, [2, 2, 0]);
        assert!(parts[0].tokens().iter().any(|t| t.token == Token::Placeholder("$2".into())));
        assert!(split("SELECT ? + $1").is_err());
        assert_eq!(split("SELECT $x").unwrap_err().span.unwrap().column, 8);
    }

    /// Each is a column of memory where the statement is planned, also one that is left out.
    #[test]
    fn a_statement_has_no_more_parameters_than_there_is_room_for() {
        let most = split("SELECT $65535").unwrap();
        assert_eq!(most[0].parameter_count(), PARAMETERS_MAX);
        let error = split("SELECT $65536").unwrap_err();
        assert!(error.to_string().contains("at most 65535"), "{error}");
        assert_eq!(error.span.unwrap().column, 8);
        let asked = format!("SELECT {}", "?, ".repeat(PARAMETERS_MAX));
        assert!(split(&format!("{asked}?")).is_err());
        assert_eq!(
            split(asked.trim_end_matches(", ")).unwrap()[0].parameter_count(),
            PARAMETERS_MAX
        );
    }

    #[test]
    fn a_statement_is_complete_at_its_semicolon() {
        for (text, complete) in [
            ("", true),
            ("  -- note", true),
            ("SELECT 1", false),
            ("SELECT 1;", true),
            ("SELECT 1; -- done", true),
            ("SELECT 'a;", false),
            ("SELECT 'a''b';", true),
            ("SELECT /* ; ", false),
            ("SELECT \"a;", false),
            ("BEGIN BATCH DELETE;", false),
            ("BEGIN BATCH DELETE; APPLY BATCH;", true),
        ] {
            assert_eq!(is_complete(text), complete, "{text}");
        }
    }
}
