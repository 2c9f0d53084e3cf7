//! Tokens of a SQL text, without gaps: each byte belongs to exactly one token.
//!
//! Invariant: concatenating the tokens gives the text back, also for text that is not SQL.
//! Strings follow standard SQL (`''` inside quotes), `E'…'` has escapes, and `$tag$ … $tag$` is a
//! string too. Comments are `--` and, as in CQL, `//` to the end of the line, and nesting `/* */`.

use std::ops::Range;

/// What a token is, as far as an editor cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// Letters, digits and underscores: a keyword or a plain identifier.
    Word,
    /// A number, also in exponent notation.
    Number,
    /// A string literal, with its quotes.
    Text,
    /// An identifier in double quotes or back ticks.
    QuotedIdentifier,
    /// A comment, with its marks.
    Comment,
    /// The `;` that ends a statement.
    Semicolon,
    /// Any other single character.
    Symbol,
    /// White space.
    Space,
}

/// One token and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub kind: TokenKind,
    /// Bytes of the text.
    pub range: Range<usize>,
    /// False when the text ended inside this string, identifier or comment.
    pub closed: bool,
}

/// Cuts `text` into tokens, one at a time as they are asked for.
pub fn lex(text: &str) -> Lexer<'_> {
    Lexer { text, at: 0 }
}

/// The tokens of a text, in order.
#[derive(Debug)]
pub struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl Iterator for Lexer<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        if self.at == self.text.len() {
            return None;
        }
        let start = self.at;
        let (kind, closed) = self.next_token();
        assert!(self.at > start, "a token has at least one byte");
        Some(Token { kind, range: start..self.at, closed })
    }
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn next_token(&mut self) -> (TokenKind, bool) {
        let first = self.rest().chars().next().expect("the caller checked that text is left");
        match first {
            c if c.is_whitespace() => {
                self.skip_while(char::is_whitespace);
                (TokenKind::Space, true)
            }
            '\'' => (TokenKind::Text, self.quoted('\'')),
            '"' | '`' => (TokenKind::QuotedIdentifier, self.quoted(first)),
            '-' | '/' if ["--", "//"].iter().any(|mark| self.rest().starts_with(mark)) => {
                self.skip_while(|c| c != '\n');
                (TokenKind::Comment, true)
            }
            '/' if self.rest().starts_with("/*") => (TokenKind::Comment, self.block_comment()),
            '$' => self.dollar(),
            ';' => {
                self.at += 1;
                (TokenKind::Semicolon, true)
            }
            'E' | 'e' if self.rest()[1..].starts_with('\'') => {
                self.at += 1;
                (TokenKind::Text, self.escaped())
            }
            c if c.is_ascii_digit() => {
                self.number();
                (TokenKind::Number, true)
            }
            c if is_word(c) => {
                self.skip_while(is_word);
                (TokenKind::Word, true)
            }
            c => {
                self.at += c.len_utf8();
                (TokenKind::Symbol, true)
            }
        }
    }

    fn skip_while(&mut self, wanted: impl Fn(char) -> bool) {
        let rest = &self.text[self.at..];
        self.at += rest.find(|c| !wanted(c)).unwrap_or(rest.len());
    }

    /// Skips a quoted run in which a doubled quote stands for itself; false when it never ends.
    fn quoted(&mut self, quote: char) -> bool {
        self.at += quote.len_utf8();
        loop {
            match self.rest().find(quote) {
                None => {
                    self.at = self.text.len();
                    return false;
                }
                Some(offset) => {
                    self.at += offset + quote.len_utf8();
                    if !self.rest().starts_with(quote) {
                        return true;
                    }
                    self.at += quote.len_utf8();
                }
            }
        }
    }

    /// As `quoted`, where a backslash takes what follows along.
    fn escaped(&mut self) -> bool {
        self.at += 1;
        let mut rest = self.text[self.at..].char_indices().peekable();
        while let Some((offset, c)) = rest.next() {
            if c == '\'' && rest.next_if(|(_, next)| *next == '\'').is_none() {
                self.at += offset + 1;
                return true;
            }
            if c == '\\' {
                rest.next();
            }
        }
        self.at = self.text.len();
        false
    }

    fn block_comment(&mut self) -> bool {
        self.at += 2;
        let mut depth = 1_usize;
        while depth > 0 {
            let rest = self.rest();
            match (rest.find("*/"), rest.find("/*")) {
                (None, _) => {
                    self.at = self.text.len();
                    return false;
                }
                (Some(end), Some(open)) if open < end => {
                    depth += 1;
                    self.at += open + 2;
                }
                (Some(end), _) => {
                    depth -= 1;
                    self.at += end + 2;
                }
            }
        }
        true
    }

    /// `$1` is a parameter, `$tag$ … $tag$` a string.
    fn dollar(&mut self) -> (TokenKind, bool) {
        let after = &self.rest()[1..];
        let name_bytes = after.find(|c| !is_word(c)).unwrap_or(after.len());
        let starts_with_digit = after.starts_with(|c: char| c.is_ascii_digit());
        if starts_with_digit || !after[name_bytes..].starts_with('$') {
            self.at += 1 + name_bytes;
            return (TokenKind::Symbol, true);
        }
        let tag_bytes = name_bytes + 2;
        let tag = &self.rest()[..tag_bytes];
        match self.rest()[tag_bytes..].find(tag) {
            Some(offset) => {
                self.at += tag_bytes + offset + tag_bytes;
                (TokenKind::Text, true)
            }
            None => {
                self.at = self.text.len();
                (TokenKind::Text, false)
            }
        }
    }

    fn number(&mut self) {
        let mut before = '0';
        let rest = &self.text[self.at..];
        for (offset, c) in rest.char_indices() {
            let sign_of_exponent = matches!(c, '+' | '-') && matches!(before, 'e' | 'E');
            if !(is_word(c) || c == '.' || sign_of_exponent) {
                self.at += offset;
                return;
            }
            before = c;
        }
        self.at = self.text.len();
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<(TokenKind, &str)> {
        lex(text).map(|t| (t.kind, &text[t.range])).collect()
    }

    #[test]
    fn tokens_cover_the_text_without_gaps() {
        for text in [
            "SELECT a, 'it''s' FROM \"T\" -- end\n;",
            "/* a /* b */ c */ 1.5e-3+x",
            "$1 $$ ; $$ $t$ ' $t$ é 'λ",
            "'open",
            "/* open /* */",
            "$a$ open",
        ] {
            let joined: String = lex(text).map(|t| &text[t.range]).collect();
            assert_eq!(joined, text);
        }
    }

    #[test]
    fn quotes_hide_what_stands_inside() {
        use TokenKind::*;
        assert_eq!(kinds("'a;''--b'"), [(Text, "'a;''--b'")]);
        assert_eq!(kinds("\"a;\"\"b\""), [(QuotedIdentifier, "\"a;\"\"b\"")]);
        assert_eq!(kinds("$x$;$$'$x$"), [(Text, "$x$;$$'$x$")]);
        assert_eq!(kinds("/*;/*;*/;*/;"), [(Comment, "/*;/*;*/;*/"), (Semicolon, ";")]);
        assert_eq!(kinds("--;\n;"), [(Comment, "--;"), (Space, "\n"), (Semicolon, ";")]);
        assert_eq!(kinds("//';\n/"), [(Comment, "//';"), (Space, "\n"), (Symbol, "/")]);
    }

    #[test]
    fn a_string_with_escapes_ends_where_its_quote_has_no_backslash() {
        use TokenKind::*;
        for text in [r"E'it\'s; //x'", r"e'a''b\\'", r"E'\''''"] {
            assert_eq!(kinds(text), [(Text, text)]);
        }
        assert_eq!(kinds(r"E'\\';"), [(Text, r"E'\\'"), (Semicolon, ";")]);
        assert_eq!(kinds(r"aE'\';"), [(Word, "aE"), (Text, r"'\'"), (Semicolon, ";")]);
        assert!(!lex(r"E'open\'").last().expect("one token").closed);
    }

    #[test]
    fn numbers_take_their_exponent_and_nothing_else() {
        use TokenKind::*;
        assert_eq!(kinds("1e-5-2"), [(Number, "1e-5"), (Symbol, "-"), (Number, "2")]);
        assert_eq!(kinds("$12"), [(Symbol, "$12")]);
    }

    #[test]
    fn an_unfinished_token_says_so() {
        for text in ["'a", "\"a", "/* a", "$$ a", "'a''"] {
            assert!(!lex(text).last().expect("one token").closed, "{text}");
        }
        assert!(lex("'a'''").last().expect("one token").closed);
    }

    #[test]
    fn quotes_tags_and_marks_of_comments_pair_with_their_own_kind() {
        use TokenKind::*;
        for (text, wanted) in [
            ("`a;``b`", QuotedIdentifier),
            ("`a\";'`", QuotedIdentifier),
            ("\"a;`'\"", QuotedIdentifier),
            ("'a;`\"'", Text),
            ("$t$ ;$T$ $ $$ ;$t$", Text),
            ("$$ ;$t$ ;$$", Text),
            ("/*/ ;*/", Comment),
            ("/* -- ;\n // ; */", Comment),
            ("-- /* ;", Comment),
            ("// ;'", Comment),
            ("1.5E+3", Number),
            ("2e-7", Number),
            ("$1", Symbol),
            ("$", Symbol),
        ] {
            assert_eq!(kinds(text), [(wanted, text)], "{text}");
            assert!(lex(text).all(|token| token.closed), "{text}");
            // It ends where it ends, whatever stands behind.
            let behind = format!("{text}\n;");
            assert_eq!(kinds(&behind)[0], (wanted, text), "{behind}");
            assert_eq!(kinds(&behind).last(), Some(&(Semicolon, ";")), "{behind}");
        }
        assert_eq!(kinds("$1$2"), [(Symbol, "$1"), (Symbol, "$2")]);
        assert_eq!(kinds("E 'x'"), [(Word, "E"), (Space, " "), (Text, "'x'")]);
        assert_eq!(kinds("a//b"), [(Word, "a"), (Comment, "//b")]);
        assert_eq!(kinds("a/b"), [(Word, "a"), (Symbol, "/"), (Word, "b")]);
        for open in ["`a", "`a``", "$t$ $T$", "$$ $", "/*/", "/* /* */", "E'a\\'", "\"a'"] {
            assert!(!lex(open).last().expect("one token").closed, "{open}");
        }
    }
}
