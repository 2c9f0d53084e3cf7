//! How wide text stands on a screen, and text fitted to one.
//!
//! Invariant: widths are columns of a terminal, not bytes and not characters: a CJK letter takes
//! two, a combining mark none. Control characters must be gone before (`output`).

use std::borrow::Cow;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Stands for what was cut off; one column.
pub const ELLIPSIS: char = '…';

/// Columns of one line of text.
pub fn width(text: &str) -> usize {
    text.width()
}

/// Columns of one character.
pub fn char_width(c: char) -> usize {
    c.width().unwrap_or(0)
}

/// Bytes at the head of `text` that take at most `columns`.
pub fn head_bytes(text: &str, columns: usize) -> usize {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += char_width(c);
        if used > columns {
            return at;
        }
    }
    text.len()
}

/// `text` cut to `columns`, with an ellipsis in the last one when something is missing.
pub fn shortened(text: &str, columns: usize) -> Cow<'_, str> {
    if head_bytes(text, columns) == text.len() {
        return Cow::Borrowed(text);
    }
    let head = &text[..head_bytes(text, columns.saturating_sub(1))];
    Cow::Owned(format!("{head}{ELLIPSIS}"))
}

/// `text` in lines of at most `columns`, broken at spaces where there are some; each line but the
/// first starts with `indent`. Line breaks of the text stay.
pub fn wrapped(text: &str, columns: usize, indent: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (n, line) in text.lines().enumerate() {
        if n > 0 {
            out.push('\n');
        }
        wrap_line(&mut out, line, columns, indent);
    }
    out
}

fn wrap_line(out: &mut String, line: &str, columns: usize, indent: &str) {
    let mut rest = line;
    let mut room = columns.max(1);
    loop {
        let fits = head_bytes(rest, room);
        if fits == rest.len() {
            out.push_str(rest);
            return;
        }
        // A line may also end where its space is the first character that does not fit.
        let next = rest[fits..].chars().next().map_or(0, char::len_utf8);
        let blank = rest[..fits + next].rfind(' ').filter(|at| !rest[..*at].trim().is_empty());
        // A word that is longer than a line is cut; at least one character leaves.
        let cut = blank.unwrap_or_else(|| fits.max(next));
        out.push_str(&rest[..cut]);
        rest = rest[cut..].trim_start_matches(' ');
        if rest.is_empty() {
            return;
        }
        out.push('\n');
        out.push_str(indent);
        room = columns.saturating_sub(width(indent)).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_letters_count_twice_and_are_never_halved() {
        assert_eq!(width("日本"), 4);
        assert_eq!(shortened("日本語", 6), "日本語");
        assert_eq!(shortened("日本語", 5), "日本…");
        assert_eq!(shortened("日本語", 4), "日…");
        assert_eq!(shortened("abc", 1), "…");
    }

    #[test]
    fn lines_break_at_spaces_and_long_words_anywhere() {
        assert_eq!(wrapped("one two three", 7, ""), "one two\nthree");
        assert_eq!(wrapped("one two three", 9, "  "), "one two\n  three");
        assert_eq!(wrapped("abcdefgh", 3, " "), "abc\n de\n fg\n h");
        assert_eq!(wrapped("a\nb c", 80, "  "), "a\nb c");
        // A letter that has no room ends its line, and nothing follows the last one.
        assert_eq!(wrapped("日本", 1, ""), "日\n本");
        assert_eq!(wrapped("one   ", 4, ""), "one ");
        let text = "日本語の長い文 と English";
        assert!(wrapped(text, 8, "  ").lines().all(|line| width(line) <= 8));
    }

    #[test]
    fn what_just_fits_is_whole_and_marks_on_letters_take_no_room() {
        // An é of two characters.
        let accented = "e\u{301}bc";
        assert_eq!((width(accented), head_bytes(accented, 1)), (3, "e\u{301}".len()));
        for (text, columns, wanted) in [
            ("abc", 3, "abc"),
            ("abcd", 3, "ab…"),
            ("abcd", 4, "abcd"),
            (accented, 3, accented),
            (accented, 2, "e\u{301}…"),
            ("x", 0, "…"),
            ("", 0, ""),
            ("日", 1, "…"),
        ] {
            assert_eq!(shortened(text, columns), wanted, "{text} in {columns}");
        }
        for (text, columns, indent, wanted) in [
            ("abcd efgh", 4, "", "abcd\nefgh"),
            ("abcd efgh", 9, "", "abcd efgh"),
            ("abcd efgh", 8, "", "abcd\nefgh"),
            ("abc defg", 4, "", "abc\ndefg"),
            ("a  b", 2, "", "a \nb"),
            ("  abcdef", 4, "", "  ab\ncdef"),
            ("one two three", 9, "    ", "one two\n    three"),
            ("abcdef", 3, "   ", "abc\n   d\n   e\n   f"),
            ("", 5, "  ", ""),
            ("a\n\nb", 5, "  ", "a\n\nb"),
        ] {
            assert_eq!(wrapped(text, columns, indent), wanted, "{text} in {columns}");
        }
    }
}
