//! Colours for the line being edited, and whether to use any.
//!
//! Invariant: taking the escapes out of a coloured line gives the line back.

use std::borrow::Cow;

use super::keyword::is_keyword;
use crate::text::{TokenKind, lex};

const KEYWORD: &str = "\x1b[1;34m";
const TEXT: &str = "\x1b[32m";
const NUMBER: &str = "\x1b[36m";
const COMMENT: &str = "\x1b[90m";
const RESET: &str = "\x1b[0m";

/// Whether to write colours: on a terminal that has them, unless `NO_COLOR` says no.
pub fn colors_wanted(is_terminal: bool) -> bool {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    is_terminal && set("NO_COLOR").is_none() && set("TERM").is_none_or(|term| term != "dumb")
}

/// `line` with keywords, strings, numbers and comments in colour.
pub(super) fn colored(line: &str) -> Cow<'_, str> {
    if line.is_empty() || line.trim_start().starts_with(['\\', '.']) {
        return Cow::Borrowed(line);
    }
    let mut text = String::with_capacity(line.len() + 32);
    for token in lex(line) {
        let part = &line[token.range];
        let color = match token.kind {
            TokenKind::Word if is_keyword(part) => KEYWORD,
            TokenKind::Text => TEXT,
            TokenKind::Number => NUMBER,
            TokenKind::Comment => COMMENT,
            _ => {
                text.push_str(part);
                continue;
            }
        };
        // Escapes do not reach over line breaks: editors cut lines there.
        for (index, piece) in part.split('\n').enumerate() {
            if index > 0 {
                text.push('\n');
            }
            if !piece.is_empty() {
                text.push_str(color);
                text.push_str(piece);
                text.push_str(RESET);
            }
        }
    }
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_their_colours() {
        assert_eq!(
            colored("SELECT a, 'x', 1 -- c"),
            "\x1b[1;34mSELECT\x1b[0m a, \x1b[32m'x'\x1b[0m, \x1b[36m1\x1b[0m \x1b[90m-- c\x1b[0m"
        );
        assert_eq!(colored("\\d t"), "\\d t");
    }

    #[test]
    fn the_text_stays_what_it_is() {
        for line in ["SELECT 'a\nb' /* c\n\n */ FROM t;", "'open", "é λ 日本 -- x"] {
            let mut plain = colored(line).into_owned();
            for escape in [KEYWORD, TEXT, NUMBER, COMMENT, RESET] {
                plain = plain.replace(escape, "");
            }
            assert_eq!(plain, line);
        }
    }

    #[test]
    fn commands_and_words_that_are_no_keywords_stay_plain() {
        for plain in
            ["", "  \\d select", ".mode csv", " .schema 'x'", "weather", "\"select\" `from`"]
        {
            assert_eq!(colored(plain), plain);
        }
        for (line, wanted) in [
            ("Select", "\x1b[1;34mSelect\x1b[0m"),
            ("E'a\\'b'", "\x1b[32mE'a\\'b'\x1b[0m"),
            ("$$ 1 $$", "\x1b[32m$$ 1 $$\x1b[0m"),
            ("// x", "\x1b[90m// x\x1b[0m"),
            ("/* a\n\nb */", "\x1b[90m/* a\x1b[0m\n\n\x1b[90mb */\x1b[0m"),
            ("-1.5e3;", "-\x1b[36m1.5e3\x1b[0m;"),
        ] {
            assert_eq!(colored(line), wanted, "{line:?}");
        }
    }
}
