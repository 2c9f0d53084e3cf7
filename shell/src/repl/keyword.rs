//! Words that the shell colours and completes as keywords.

/// Keywords that may begin a statement.
pub(super) const STATEMENTS: &[&str] = &[
    "ALTER", "COPY", "CREATE", "DELETE", "DESCRIBE", "DROP", "EXPLAIN", "FLUSH", "INSERT",
    "SELECT", "SET", "SHOW", "TRUNCATE", "UPDATE", "USE", "WITH",
];

/// Keywords that may stand further inside.
pub(super) const OTHERS: &[&str] = &[
    "ALL",
    "ANALYZE",
    "AND",
    "AS",
    "ASC",
    "BETWEEN",
    "BIGINT",
    "BLOB",
    "BOOLEAN",
    "BY",
    "CACHE",
    "CASE",
    "CAST",
    "CLUSTERING",
    "CSV",
    "CURRENT_TIMESTAMP",
    "DATE",
    "DECIMAL",
    "DESC",
    "DISTINCT",
    "DOUBLE",
    "ELSE",
    "END",
    "EXCEPT",
    "EXISTS",
    "FALSE",
    "FLOAT",
    "FROM",
    "FULL",
    "GROUP",
    "HAVING",
    "HEADER",
    "IF",
    "IN",
    "INNER",
    "INT",
    "INTEGER",
    "INTERSECT",
    "INTERVAL",
    "INTO",
    "IS",
    "JOIN",
    "KEY",
    "KEYSPACE",
    "KEYSPACES",
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
    "PARQUET",
    "PARTITION",
    "POLICIES",
    "POLICY",
    "PRIMARY",
    "RIGHT",
    "SMALLINT",
    "STATIC",
    "TABLE",
    "TABLES",
    "TEXT",
    "THEN",
    "TIME",
    "TIMESTAMP",
    "TIMEUUID",
    "TINYINT",
    "TO",
    "TRUE",
    "TTL",
    "UNION",
    "USING",
    "UUID",
    "VALUES",
    "VARCHAR",
    "VERBOSE",
    "WHEN",
    "WHERE",
];

/// Whether `word` is one of them, letter case aside.
pub(super) fn is_keyword(word: &str) -> bool {
    let upper = word.to_ascii_uppercase();
    let found = |words: &[&str]| words.binary_search(&upper.as_str()).is_ok();
    found(STATEMENTS) || found(OTHERS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_sorted_so_that_they_can_be_searched() {
        assert!(STATEMENTS.is_sorted() && OTHERS.is_sorted());
        assert!(is_keyword("select") && is_keyword("Where") && !is_keyword("weather"));
    }
}
