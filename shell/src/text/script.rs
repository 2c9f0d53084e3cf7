//! A text cut into what is run one after the other: statements and shell commands.
//!
//! Invariant: pieces stand in order and do not overlap; between them is only space, comments and
//! semicolons.

use std::ops::Range;

use super::batch::BatchWords;
use super::lexer::{TokenKind, lex};

/// One thing to run; the range is in bytes of the whole text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// A SQL statement without its semicolon; a batch with those in it.
    Statement(Range<usize>),
    /// A line for the shell itself: `\d`, `.help`, without the line break.
    Command(Range<usize>),
}

/// Words that are commands of the shell when they stand alone on a line where a statement may
/// start.
pub const BARE_WORDS: &[&str] = &["clear", "exit", "help", "quit"];

/// Cuts `text` into statements and commands. A last statement needs no semicolon.
pub fn split(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut offset = 0;
    while offset < text.len() {
        let next = next_piece(&text[offset..]);
        pieces.extend(next.piece.map(|piece| match piece {
            Piece::Statement(r) => Piece::Statement(r.start + offset..r.end + offset),
            Piece::Command(r) => Piece::Command(r.start + offset..r.end + offset),
        }));
        offset += next.used_bytes;
    }
    pieces
}

/// Whether an editor may hand `text` over: nothing, a command line, or statements of which the
/// last one ends in a semicolon.
pub fn is_complete(text: &str) -> bool {
    complete_bytes(text) == text.len()
}

/// Bytes at the head of `text`, which ends with a line, that can be run before more comes.
pub fn complete_bytes(text: &str) -> usize {
    let mut offset = 0;
    while offset < text.len() {
        let next = next_piece(&text[offset..]);
        if next.is_open {
            break;
        }
        offset += next.used_bytes;
    }
    offset
}

struct Next {
    /// None when only space and comments were left.
    piece: Option<Piece>,
    /// Bytes up to where the next piece may start.
    used_bytes: usize,
    /// The text ended before this piece did.
    is_open: bool,
}

fn next_piece(text: &str) -> Next {
    if let Some(start) = command_start(text) {
        let used_bytes = text[start..].find('\n').map_or(text.len(), |offset| start + offset);
        let end = start + text[start..used_bytes].trim_end().len();
        return Next { piece: Some(Piece::Command(start..end)), used_bytes, is_open: false };
    }
    let mut statement: Option<Range<usize>> = None;
    let mut closed = true;
    let mut words = BatchWords::default();
    for token in lex(text) {
        let used_bytes = token.range.end;
        closed = token.closed;
        match token.kind {
            TokenKind::Space | TokenKind::Comment => {}
            TokenKind::Semicolon if !words.is_within() => {
                return Next { piece: statement.map(Piece::Statement), used_bytes, is_open: false };
            }
            _ => {
                words.take(&text[token.range.clone()]);
                let start = statement.map_or(token.range.start, |s| s.start);
                statement = Some(start..used_bytes);
            }
        }
        // A command line may follow a comment at the head of the text.
        if statement.is_none()
            && token.kind == TokenKind::Comment
            && command_start(&text[used_bytes..]).is_some()
        {
            return Next { piece: None, used_bytes, is_open: false };
        }
    }
    let is_open = statement.is_some() || !closed;
    Next { piece: statement.map(Piece::Statement), used_bytes: text.len(), is_open }
}

/// Where a command starts, when the first visible character of `text` starts one.
fn command_start(text: &str) -> Option<usize> {
    let start = text.find(|c: char| !c.is_whitespace())?;
    let rest = &text[start..];
    let mut chars = rest.chars();
    match (chars.next(), chars.next()) {
        (Some('\\'), _) => Some(start),
        (Some('.'), Some(c)) if c.is_ascii_alphabetic() => Some(start),
        _ => is_bare_word(rest).then_some(start),
    }
}

/// Whether the first line of `text` is one of [`BARE_WORDS`], perhaps with a semicolon.
fn is_bare_word(text: &str) -> bool {
    let line = text.lines().next().unwrap_or("").trim_end();
    let word = line.trim_end_matches(';').trim_end();
    BARE_WORDS.iter().any(|bare| word.eq_ignore_ascii_case(bare))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str) -> Vec<String> {
        split(text)
            .into_iter()
            .map(|piece| match piece {
                Piece::Statement(range) => format!("S {}", &text[range]),
                Piece::Command(range) => format!("C {}", &text[range]),
            })
            .collect()
    }

    #[test]
    fn statements_and_commands_come_out_in_order() {
        assert_eq!(
            pieces("-- head\nSELECT ';';\n\\d t\nSELECT\n2 -- end\n;;\n.tables  \nSELECT 3"),
            ["S SELECT ';'", "C \\d t", "S SELECT\n2", "C .tables", "S SELECT 3"]
        );
        assert_eq!(pieces(" ; -- nothing\n"), Vec::<String>::new());
        assert_eq!(pieces("-- c\n\\q"), ["C \\q"]);
        assert_eq!(pieces("SELECT .5;"), ["S SELECT .5"]);
        assert_eq!(pieces("help\nQUIT;\nhelp me"), ["C help", "C QUIT;", "S help me"]);
        assert_eq!(pieces("SELECT\nexit\nFROM t"), ["S SELECT\nexit\nFROM t"]);
        let batch = "BEGIN /* ; */ UNLOGGED BATCH\nINSERT ';';\n\nDELETE;\nAPPLY BATCH";
        assert_eq!(pieces(&format!("{batch};\nSELECT 1;")), [&*format!("S {batch}"), "S SELECT 1"]);
        assert_eq!(pieces("BEGIN; BATCH; x"), ["S BEGIN", "S BATCH", "S x"]);
    }

    #[test]
    fn what_is_complete_can_run_before_the_rest_comes() {
        for (text, rest) in [
            ("SELECT 1;\nSELECT\n", "\nSELECT\n"),
            ("SELECT ';\n", "SELECT ';\n"),
            ("\\d t\n/* ;\n", "\n/* ;\n"),
            ("SELECT 1;\n", ""),
        ] {
            assert_eq!(&text[complete_bytes(text)..], rest, "{text}");
        }
    }

    #[test]
    fn a_statement_is_complete_when_it_ends_in_a_semicolon() {
        for complete in [
            "",
            "  ",
            "SELECT 1;",
            "SELECT ';' ; ",
            "\\d t",
            ".help",
            "-- c",
            "SELECT 1; -- tail",
            "SELECT 1; \\q",
            "BEGIN BATCH\nDELETE;\nAPPLY BATCH;",
            "BEGIN;",
            "help",
            "exit ;",
        ] {
            assert!(is_complete(complete), "{complete}");
        }
        for open in [
            "SELECT",
            "BEGIN BATCH DELETE;",
            "begin batch\nx;\napply batch",
            "SELECT ';",
            "SELECT 1 -- ;",
            "/* ;",
            "SELECT 1; SELECT",
            "SELECT $$;",
        ] {
            assert!(!is_complete(open), "{open}");
        }
    }

    #[test]
    fn lines_may_end_as_those_of_windows() {
        assert_eq!(
            pieces("\\d t\r\nSELECT 1;\r\nquit\r\n-- c\r\n.tables \r\nSELECT\r\n2;\r\nHelp ;\r\n"),
            ["C \\d t", "S SELECT 1", "C quit", "C .tables", "S SELECT\r\n2", "C Help ;"]
        );
        for (text, rest) in [
            ("SELECT 1;\r\nSELECT\r\n", "\r\nSELECT\r\n"),
            ("exit\r\n", ""),
            ("SELECT 1 -- ;\r\n", "SELECT 1 -- ;\r\n"),
        ] {
            assert_eq!(&text[complete_bytes(text)..], rest, "{text}");
        }
    }

    /// A word of the shell that stands elsewhere is one of SQL.
    #[test]
    fn a_bare_word_is_a_command_only_alone_on_the_line_where_a_statement_may_begin() {
        for word in BARE_WORDS {
            let upper = word.to_ascii_uppercase();
            for line in [(*word).to_owned(), format!(" {upper} ;"), format!("{word};;")] {
                assert_eq!(pieces(&line), [format!("C {}", line.trim())], "{line}");
                let behind = format!("SELECT 1;\n{line}\nSELECT 2");
                let wanted = ["S SELECT 1".to_owned(), format!("C {}", line.trim())];
                assert_eq!(pieces(&behind)[..2], wanted, "{line}");
            }
            assert_eq!(pieces(&format!("{word} me")), [format!("S {word} me")]);
            assert_eq!(pieces(&format!("{word}s;")), [format!("S {word}s")]);
            assert_eq!(pieces(&format!("SELECT\n{word}")), [format!("S SELECT\n{word}")]);
            assert!(is_complete(word) && !is_complete(&format!("{word} me")), "{word}");
        }
    }
}
