//! Warnings of a session: one of a kind for each shape of statement.

use std::sync::Mutex;

use crate::query::parse::statement::{Statement, is_value};

/// Warnings that are kept; a further one takes the place of the oldest.
const WARNINGS_MAX: usize = 100;
/// Characters of a statement that are kept.
const SHAPE_MAX: usize = 200;

/// What a warning is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About {
    /// The size of a result.
    Size,
    /// What reads have met.
    Tombstones,
}

/// What was worth a warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    pub about: About,
    /// The statement, with `?` for each value.
    pub shape: String,
    pub text: String,
    /// How often it came.
    pub count: u64,
}

/// See the head of this file.
#[derive(Debug, Default)]
pub struct Warnings(Mutex<Vec<Warning>>);

impl Warnings {
    /// Keeps a warning. The log is told of the first of its kind of each shape.
    pub fn add(&self, statement: &Statement, about: About, text: String) {
        let shape = shape(statement);
        let mut all = self.0.lock().expect("nobody panics while adding a warning");
        let is_it = |known: &&mut Warning| known.about == about && known.shape == shape;
        if let Some(known) = all.iter_mut().find(is_it) {
            known.count += 1;
            known.text = text;
            return;
        }
        tracing::warn!(statement = shape, "{text}");
        if all.len() == WARNINGS_MAX {
            all.remove(0);
        }
        all.push(Warning { about, shape, text, count: 1 });
    }

    /// All of them, in the order in which they first came.
    pub fn all(&self) -> Vec<Warning> {
        self.0.lock().expect("nobody panics while adding a warning").clone()
    }
}

/// A statement without its values.
fn shape(statement: &Statement) -> String {
    let mut shape = String::new();
    for token in statement.tokens() {
        if !shape.is_empty() {
            shape.push(' ');
        }
        match is_value(&token.token) {
            true => shape.push('?'),
            false => shape.push_str(&token.token.to_string()),
        }
    }
    match shape.char_indices().nth(SHAPE_MAX) {
        None => shape,
        Some((end, _)) => format!("{}…", &shape[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::parse::statement::split;

    #[test]
    fn statements_of_one_shape_have_one_warning() {
        let warnings = Warnings::default();
        let add = |text: &str, warning: &str| {
            warnings.add(&split(text).unwrap()[0], About::Size, warning.to_owned());
        };
        add("SELECT a FROM t WHERE b = 5", "first");
        add("SELECT a FROM t WHERE b = 'x'", "second");
        add("SELECT a FROM t WHERE c = ?", "other");
        let all = warnings.all();
        let shown: Vec<_> = all.iter().map(|w| (&*w.shape, &*w.text, w.count)).collect();
        assert_eq!(
            shown,
            [
                ("SELECT a FROM t WHERE b = ?", "second", 2),
                ("SELECT a FROM t WHERE c = ?", "other", 1)
            ]
        );
        let first = &split("SELECT a FROM t WHERE b = 5").unwrap()[0];
        warnings.add(first, About::Tombstones, "of another kind".to_owned());
        assert_eq!(warnings.all().len(), 3);
        for n in 0..WARNINGS_MAX {
            add(&format!("SELECT c{n} FROM t"), "more");
        }
        let all = warnings.all();
        assert_eq!((all.len(), &*all[0].shape), (WARNINGS_MAX, "SELECT c0 FROM t"));
        add(&format!("SELECT {} FROM t", "ä".repeat(2 * SHAPE_MAX)), "long");
        assert_eq!(warnings.all()[WARNINGS_MAX - 1].shape.chars().count(), SHAPE_MAX + 1);
    }

    #[test]
    fn a_shape_hides_values_and_ends_where_it_is_too_long() {
        let of = |text: &str| shape(&split(text).unwrap()[0]);
        for (text, wanted) in [
            ("SELECT a FROM t WHERE b = -1.5e3", "SELECT a FROM t WHERE b = - ?"),
            ("select  a\nFROM t -- all\n", "select a FROM t"),
            ("SELECT a FROM t WHERE b IN ('x', 2, $1)", "SELECT a FROM t WHERE b IN ( ? , ? , ? )"),
            ("SELECT \"A b\" FROM t LIMIT 5", "SELECT \"A b\" FROM t LIMIT ?"),
            ("SELECT X'00ff', E'a\\n', N'b', $$c$$, $x$d$x$", "SELECT ? , ? , ? , ? , ?"),
        ] {
            assert_eq!(of(text), wanted);
        }
        let start = "SELECT ";
        for (letter, more) in [("x", 0), ("x", 1), ("ä", 0), ("ä", 1), ("ä", 50)] {
            let text = format!("{start}{}", letter.repeat(SHAPE_MAX - start.len() + more));
            let wanted = match more {
                0 => text.clone(),
                _ => text.chars().take(SHAPE_MAX).chain(['…']).collect(),
            };
            assert_eq!(of(&text), wanted, "{more} more");
        }
    }
}
