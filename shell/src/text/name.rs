//! Names of columns, tables and the like as statements take them.

/// `name` as it must be written: in quotes unless it is plain and in lower case.
pub fn named(name: &str) -> String {
    let is_plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if is_plain { name.to_owned() } else { in_quotes(name) }
}

/// `name` in quotes.
pub fn in_quotes(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_be_read_otherwise_stand_in_quotes() {
        for (name, wanted) in [
            ("origin", "origin"),
            ("_a1", "_a1"),
            ("Origin", "\"Origin\""),
            ("1a", "\"1a\""),
            ("a b", "\"a b\""),
            ("a\"b", "\"a\"\"b\""),
            ("größe", "\"größe\""),
            ("", "\"\""),
        ] {
            assert_eq!(named(name), wanted);
        }
    }
}
