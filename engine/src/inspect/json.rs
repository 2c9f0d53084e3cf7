//! JSON as text: documents that keep the order of their members, and text in quotes.

use std::fmt::Write as _;

/// A document.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Json {
    /// A number, `true`, `false` or `null`, or JSON that is text already.
    Raw(String),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(&'static str, Json)>),
}

impl Json {
    pub(super) const NULL: Json = Json::Raw(String::new());

    pub(super) fn number(number: impl ToString) -> Json {
        Json::Raw(number.to_string())
    }

    pub(super) fn text(text: impl Into<String>) -> Json {
        Json::Text(text.into())
    }

    /// The text, or null.
    pub(super) fn optional(value: Option<Json>) -> Json {
        value.unwrap_or(Json::NULL)
    }

    fn is_flat(&self) -> bool {
        match self {
            Json::Raw(_) | Json::Text(_) => true,
            Json::List(items) => items.len() <= 8 && items.iter().all(Json::is_scalar),
            Json::Object(members) => {
                members.len() <= 6 && members.iter().all(|(_, member)| member.is_scalar())
            }
        }
    }

    fn is_scalar(&self) -> bool {
        matches!(self, Json::Raw(_) | Json::Text(_))
    }

    /// The document on one line.
    pub(super) fn to_line(&self) -> String {
        let mut out = String::new();
        self.write_as(true, 0, &mut out);
        out
    }

    /// Appends the document, small lists and objects on one line.
    pub(super) fn write(&self, indent: usize, out: &mut String) {
        self.write_as(false, indent, out);
    }

    fn write_as(&self, is_line: bool, indent: usize, out: &mut String) {
        let is_flat = is_line || self.is_flat();
        let separate = |out: &mut String, i: usize| {
            out.push_str(if i == 0 { "" } else { "," });
            if is_flat {
                out.push(' ');
            } else {
                out.push('\n');
                out.extend(std::iter::repeat_n(' ', indent + 2));
            }
        };
        let close = |out: &mut String, is_empty: bool, bracket: char| {
            if is_flat {
                out.push_str(if is_empty { "" } else { " " });
            } else {
                out.push('\n');
                out.extend(std::iter::repeat_n(' ', indent));
            }
            out.push(bracket);
        };
        match self {
            Json::Raw(raw) if raw.is_empty() => out.push_str("null"),
            Json::Raw(raw) => out.push_str(raw),
            Json::Text(text) => quote(text, out),
            Json::List(items) => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    separate(out, i);
                    item.write_as(is_line, indent + 2, out);
                }
                close(out, items.is_empty(), ']');
            }
            Json::Object(members) => {
                out.push('{');
                for (i, (name, member)) in members.iter().enumerate() {
                    separate(out, i);
                    quote(name, out);
                    out.push_str(": ");
                    member.write_as(is_line, indent + 2, out);
                }
                close(out, members.is_empty(), '}');
            }
        }
    }
}

impl std::fmt::Display for Json {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = String::new();
        self.write(0, &mut out);
        f.write_str(&out)
    }
}

/// Appends `text` in quotes.
pub(super) fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_json_in_the_order_of_their_members() {
        let document = Json::Object(vec![
            ("b", Json::number(1)),
            ("a", Json::List(vec![Json::text("x\"\u{1}\n"), Json::NULL])),
            ("c", Json::List(vec![Json::Object(vec![("d", Json::List(Vec::new()))])])),
        ]);
        let text = document.to_string();
        let parsed: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(parsed["a"][0], "x\"\u{1}\n");
        assert!(text.find("\"b\"") < text.find("\"a\""), "{text}");
        assert!(text.contains("\"a\": [ \"x\\\"\\u0001\\n\", null ]"), "{text}");
    }

    #[test]
    fn every_character_comes_back_as_it_was_and_documents_are_the_same_in_each_form() {
        for c in (0..0x110_u32).filter_map(char::from_u32).chain(['\u{2028}', '\u{10ffff}']) {
            let mut quoted = String::new();
            quote(&format!("a{c}b"), &mut quoted);
            assert!(!quoted.contains(|c: char| c < ' '), "{quoted:?}");
            let parsed: String = serde_json::from_str(&quoted).unwrap();
            assert_eq!(parsed, format!("a{c}b"), "{quoted}");
        }
        // Small lists and objects stand on one line, and larger ones on several.
        for (count, is_flat) in [(0, true), (1, true), (8, true), (9, false)] {
            let list = Json::List((0..count).map(Json::number).collect());
            let wanted: Vec<i32> = (0..count).collect();
            for text in [list.to_string(), list.to_line()] {
                assert_eq!(serde_json::from_str::<Vec<i32>>(&text).unwrap(), wanted, "{text}");
            }
            assert_eq!(list.to_string().lines().count() == 1, is_flat, "{count}");
            assert_eq!(list.to_line().lines().count(), 1, "{count}");
        }
        let nested = Json::Object(vec![("a", Json::List(vec![Json::List(Vec::new())]))]);
        assert_eq!(nested.to_line(), r#"{ "a": [ [] ] }"#);
        assert_eq!(nested.to_string(), "{\n  \"a\": [\n    []\n  ]\n}");
    }
}
