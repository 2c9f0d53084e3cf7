//! Words that the shell colours and completes as keywords.

/// Keywords that may begin a statement.
pub(super) const STATEMENTS: &[&str] = &[
    "ALTER", "ATTACH", "COPY", "CREATE", "DELETE", "DESCRIBE", "DETACH", "DROP", "EXPLAIN",
    "FLUSH", "IMPORT", "INSERT", "RECORD", "SELECT", "SET", "SHOW", "TRUNCATE", "UPDATE", "USE",
    "WITH",
];

/// Keywords within queries and writes.
pub(super) const QUERY: &[&str] = &[
    "ALL",
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
    "RIGHT",
    "THEN",
    "TRUE",
    "TTL",
    "UNION",
    "USING",
    "VALUES",
    "VERBOSE",
    "WHEN",
    "WHERE",
];

/// Keywords within statements about tables, keyspaces, policies and files.
pub(super) const DEFINITION: &[&str] = &[
    "ADMISSION",
    "AND",
    "AS",
    "ASC",
    "BIGINT",
    "BLOB",
    "BOOLEAN",
    "BY",
    "CACHE",
    "CAPACITY",
    "CLUSTERING",
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
    "KEYSPACE",
    "KEYSPACES",
    "LIMITER",
    "NATIVE",
    "NONE",
    "NOT",
    "ON",
    "ORDER",
    "PARQUET",
    "PARTITION",
    "POLICIES",
    "POLICY",
    "PRIMARY",
    "RATE",
    "SET",
    "SMALLINT",
    "SSTABLES",
    "STATIC",
    "STOP",
    "TABLE",
    "TABLES",
    "TEXT",
    "TIME",
    "TIMESTAMP",
    "TIMEUUID",
    "TINYINT",
    "TO",
    "TRACE",
    "USING",
    "UUID",
    "VARCHAR",
    "WITH",
];

/// Whether `word` is one of them, letter case aside.
pub(super) fn is_keyword(word: &str) -> bool {
    let upper = word.to_ascii_uppercase();
    let found = |words: &[&str]| words.binary_search(&upper.as_str()).is_ok();
    found(STATEMENTS) || found(QUERY) || found(DEFINITION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_sorted_so_that_they_can_be_searched() {
        assert!(STATEMENTS.is_sorted() && QUERY.is_sorted() && DEFINITION.is_sorted());
        assert!(is_keyword("select") && is_keyword("Where") && !is_keyword("weather"));
    }
}
