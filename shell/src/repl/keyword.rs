//! Words that the shell colours and completes as keywords.

use std::sync::LazyLock;

use crate::query::{STATEMENTS, Tab};

/// Keywords that may begin a statement, in order.
pub(super) static FIRST: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let offered = STATEMENTS.iter().filter(|row| row.is_offered());
    sorted(offered.filter_map(|row| row.words.split(' ').next()).collect())
});

/// Keywords within queries and writes.
pub(super) const QUERY: &[&str] = &[
    "ALL",
    "ALLOW",
    "ANALYZE",
    "AND",
    "AS",
    "ASC",
    "BETWEEN",
    "BY",
    "CASE",
    "CAST",
    "CURRENT_TIMESTAMP",
    "DESC",
    "DISTINCT",
    "ELSE",
    "END",
    "EXCEPT",
    "EXISTS",
    "FALSE",
    "FILTERING",
    "FROM",
    "FULL",
    "GROUP",
    "HAVING",
    "IF",
    "IN",
    "INNER",
    "INTERSECT",
    "INTERVAL",
    "INTO",
    "IS",
    "JOIN",
    "LEFT",
    "LIKE",
    "LIMIT",
    "NOT",
    "NULL",
    "NULLS",
    "OFFSET",
    "ON",
    "OR",
    "ORDER",
    "OUTER",
    "OVER",
    "PARTITION",
    "PER",
    "RIGHT",
    "THEN",
    "TIMEOUT",
    "TRUE",
    "TTL",
    "UNION",
    "USING",
    "VALUES",
    "VERBOSE",
    "WHEN",
    "WHERE",
];

/// Keywords within statements about tables, keyspaces, policies and files, in order: those of the
/// table of statements, and [`DEFINITION`].
pub(super) static WITHIN: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let mut words = DEFINITION.to_vec();
    for row in STATEMENTS.iter().filter(|row| row.is_offered()) {
        words.extend(row.words.split(' ').skip(1));
        let tabs = row.tabs.iter().flat_map(|(_, tabs)| *tabs);
        words.extend(
            tabs.flat_map(|tab| match tab {
                Tab::Words(words) => *words,
                _ => &[],
            })
            .flat_map(|words| words.split(' ')),
        );
    }
    sorted(words)
});

/// Keywords within those statements that no row of the table names.
const DEFINITION: &[&str] = &[
    "ADD",
    "AND",
    "AS",
    "ASC",
    "BIGINT",
    "BLOB",
    "BOOLEAN",
    "COLUMN",
    "CSV",
    "DATE",
    "DECIMAL",
    "DESC",
    "DOUBLE",
    "EVENTS",
    "EXISTS",
    "FLOAT",
    "FOR",
    "FROM",
    "HEADER",
    "IF",
    "INT",
    "INTEGER",
    "INTO",
    "KEY",
    "MODE",
    "NATIVE",
    "NONE",
    "NOT",
    "ON",
    "PARQUET",
    "PARTITION",
    "PRIMARY",
    "RENAME",
    "SAMPLE",
    "SMALLINT",
    "STATIC",
    "TEXT",
    "TIME",
    "TIMESTAMP",
    "TIMEUUID",
    "TINYINT",
    "USING",
    "UUID",
    "VARCHAR",
    "WITH",
];

fn sorted(mut words: Vec<&str>) -> Vec<&str> {
    words.sort_unstable();
    words.dedup();
    words
}

/// Whether `word` is one of them, letter case aside.
pub(super) fn is_keyword(word: &str) -> bool {
    let upper = word.to_ascii_uppercase();
    let found = |words: &[&str]| words.binary_search(&upper.as_str()).is_ok();
    found(&FIRST) || found(QUERY) || found(&WITHIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_sorted_so_that_they_can_be_searched() {
        assert!(FIRST.is_sorted() && QUERY.is_sorted() && WITHIN.is_sorted());
        assert!(is_keyword("select") && is_keyword("Where") && !is_keyword("weather"));
    }
}
