//! Tables of which Cassandra must take our files, beside those of the fixtures: what the fixtures
//! lack.

use super::answers::Query;
use super::cql::{Table, Translator};

/// A table that both make, and what fills ours.
pub struct Own {
    pub name: String,
    pub table: Table,
    /// CREATE TABLE for both.
    pub create: String,
    /// Options of ours only.
    pub options: &'static str,
    pub statements: Vec<String>,
    /// What is asked beside whole tables and partitions from the end.
    pub queries: Vec<Query>,
}

/// Rows of one partition of the wide tables.
const WIDE_ROWS: usize = 1500;

pub fn tables() -> Vec<Own> {
    let mut translator = Translator::default();
    translator.types.insert(
        "fx.addr".to_owned(),
        [("street", "text"), ("zip", "int"), ("tags", "frozen<set<text>>")]
            .map(|(name, ty)| (name.to_owned(), ty.to_owned()))
            .to_vec(),
    );
    let mut own = |create: &str, options, statements: Vec<String>, queries| {
        // The translator wants options.
        let text = match create.contains(") WITH ") {
            true => create.to_owned(),
            false => format!("{create} WITH x"),
        };
        translator.statement(&text);
        let name = create.split(['.', ' ']).nth(3).expect("a name").to_owned();
        let table = translator.tables[&format!("fx.{name}")].clone();
        Own { name, table, create: create.to_owned(), options, statements, queries }
    };
    let wide = "(pk int, ck bigint, s text static, v text, w int, PRIMARY KEY (pk, ck))";
    let mut tables = vec![
        own(
            &format!("CREATE TABLE fx.wide_1k {wide}"),
            "column_index_size_in_kb = 1",
            wide_statements("wide_1k"),
            wide_queries("wide_1k"),
        ),
        own(
            &format!("CREATE TABLE fx.wide_64k {wide}"),
            "column_index_size_in_kb = 64",
            wide_statements("wide_64k"),
            wide_queries("wide_64k"),
        ),
        own(
            &format!("CREATE TABLE fx.wide_desc {wide} WITH CLUSTERING ORDER BY (ck DESC)"),
            "column_index_size_in_kb = 2",
            wide_statements("wide_desc"),
            wide_queries("wide_desc"),
        ),
        own(
            "CREATE TABLE fx.nested (pk text, ck int, sm map<text, int> static, \
             lm list<frozen<map<text, int>>>, ml map<uuid, frozen<list<int>>>, ts set<timestamp>, \
             la list<frozen<fx.addr>>, mt map<int, frozen<tuple<int, text>>>, si set<inet>, \
             sd set<decimal>, sv set<varint>, md map<date, time>, mb map<blob, double>, u fx.addr, \
             fl frozen<list<frozen<set<int>>>>, tt tuple<int, frozen<tuple<text, bigint>>>, \
             PRIMARY KEY (pk, ck))",
            "column_index_size_in_kb = 64",
            nested_statements(),
            Vec::new(),
        ),
        own(
            "CREATE TABLE fx.ttl (a int, b text, c int, d text, l list<int>, v int, w text, \
             PRIMARY KEY ((a, b), c, d)) WITH CLUSTERING ORDER BY (c DESC, d ASC)",
            "default_time_to_live = 86400",
            ttl_statements(),
            Vec::new(),
        ),
        own(
            "CREATE TABLE fx.keys_only (a int, b int, PRIMARY KEY (a, b))",
            "column_index_size_in_kb = 64",
            vec![
                "INSERT INTO fx.keys_only (a, b) VALUES (1, 1), (1, 2), (-7, 0), (2147483647, 9)"
                    .to_owned(),
                "DELETE FROM fx.keys_only WHERE a = 1 AND b = 2".to_owned(),
                "DELETE FROM fx.keys_only WHERE a = 3".to_owned(),
            ],
            Vec::new(),
        ),
    ];
    for (name, options) in [
        (
            "wide_lz4",
            "column_index_size_in_kb = 1 AND compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': 4}",
        ),
        ("wide_zstd", "compression = {'class': 'ZstdCompressor', 'compression_level': 5}"),
        (
            "wide_snappy",
            "column_index_size_in_kb = 4 AND compression = {'class': 'SnappyCompressor'}",
        ),
        ("wide_deflate", "compression = {'class': 'DeflateCompressor', 'chunk_length_in_kb': 64}"),
    ] {
        let create = format!("CREATE TABLE fx.{name} {wide}");
        tables.push(own(&create, options, wide_statements(name), wide_queries(name)));
    }
    tables
}

/// Wide partitions with tombstones of ranges that begin in one block of the index and end in
/// another, rows newer than these, deleted rows and cells.
fn wide_statements(name: &str) -> Vec<String> {
    let last = WIDE_ROWS - 1;
    [
        format!(
            "INSERT INTO fx.T (pk, ck, v, w) SELECT 1, value * 10, concat('v', repeat('x', 100)), \
             value FROM generate_series(0, {last}) USING TIMESTAMP 1000"
        ),
        format!(
            "INSERT INTO fx.T (pk, ck, v) SELECT 2, value, repeat('y', 90) \
             FROM generate_series(-{last}, 0) USING TIMESTAMP 1000"
        ),
        "INSERT INTO fx.T (pk, ck, v) VALUES (3, 5, 'narrow') USING TIMESTAMP 1000".to_owned(),
        "UPDATE fx.T USING TIMESTAMP 1001 SET s = 'shared' WHERE pk = 1".to_owned(),
        "UPDATE fx.T USING TIMESTAMP 1001 SET s = 'alone' WHERE pk = 4".to_owned(),
        "DELETE FROM fx.T USING TIMESTAMP 1100 WHERE pk = 1 AND ck >= 1005 AND ck < 4001".to_owned(),
        "DELETE FROM fx.T USING TIMESTAMP 1200 WHERE pk = 1 AND ck > 3000 AND ck <= 6010".to_owned(),
        "DELETE FROM fx.T USING TIMESTAMP 1050 WHERE pk = 1 AND ck > 14000".to_owned(),
        "INSERT INTO fx.T (pk, ck, v) VALUES (1, 2000, 'after'), (1, 2003, 'after'), (1, 5000, 'after') \
         USING TIMESTAMP 2000"
            .to_owned(),
        "DELETE FROM fx.T USING TIMESTAMP 1300 WHERE pk = 1 AND ck = 8000".to_owned(),
        "DELETE v FROM fx.T USING TIMESTAMP 1300 WHERE pk = 1 AND ck = 8010".to_owned(),
        "DELETE FROM fx.T USING TIMESTAMP 900 WHERE pk = 2".to_owned(),
        "DELETE FROM fx.T USING TIMESTAMP 900 WHERE pk = 9".to_owned(),
        "UPDATE fx.T USING TIMESTAMP 1400 AND TTL 1000000 SET w = -1 WHERE pk = 2 AND ck = -7"
            .to_owned(),
    ]
    .map(|statement| statement.replace("fx.T", &format!("fx.{name}")))
    .to_vec()
}

/// Slices that begin everywhere, in both directions, and single rows.
fn wide_queries(name: &str) -> Vec<Query> {
    let is_descending = name == "wide_desc";
    let (forward, backward) = if is_descending { ("DESC", "ASC") } else { ("ASC", "DESC") };
    let mut all = Vec::new();
    for ck in (-20..15_030).step_by(173) {
        all.push(format!("fx.{name} WHERE pk = 1 AND ck >= {ck} ORDER BY ck {forward} LIMIT 2"));
        all.push(format!("fx.{name} WHERE pk = 1 AND ck <= {ck} ORDER BY ck {backward} LIMIT 2"));
        all.push(format!("fx.{name} WHERE pk = 1 AND ck = {}", ck / 10 * 10));
        all.push(format!(
            "fx.{name} WHERE pk = 2 AND ck > {} AND ck < {} ORDER BY ck {backward}",
            -ck / 10 - 3,
            -ck / 10
        ));
    }
    all.iter().map(|rest| Query::same(rest)).collect()
}

fn nested_statements() -> Vec<String> {
    let uuid = "123e4567-e89b-42d3-a456-426614174000";
    [
        &format!(
            "INSERT INTO fx.nested (pk, ck, sm, lm, ml, ts, la, mt, si, sd, sv, md, mb, u, fl, tt) \
             VALUES ('a', 1, MAP {{'x': 1, 'y': 2}}, [MAP {{'b': 2, 'a': 1}}, MAP {{'c': 3}}], \
             MAP {{'{uuid}': [3, 2, 1]}}, \
             ['2024-01-02 03:04:05.678Z', '1969-12-31 23:59:59Z'], \
             [{{street: 's', zip: 1, tags: ['b', 'a']}}], MAP {{2: struct(5, 'five'), -1: struct(6, 'six')}}, \
             ['127.0.0.1', '::1'], [1.50, -2, 0.25], [128, -129, 12345678901234567890123], \
             MAP {{'2024-02-29': '12:34:56.789'}}, MAP {{X'00FF': CAST('1.5' AS DOUBLE)}}, \
             {{street: 'st', zip: -5, tags: ['t']}}, [[2, 1], [3]], struct(1, struct('x', 7)))"
        ),
        "UPDATE fx.nested SET lm = lm + [MAP {'z': 26}], sm['w'] = 3, mt[9] = struct(9, 'nine') \
         WHERE pk = 'a' AND ck = 2",
        "UPDATE fx.nested USING TTL 1000000 SET ts = ts + ['2030-01-01 00:00:00Z'], u.zip = 8 \
         WHERE pk = 'a' AND ck = 1",
        "UPDATE fx.nested SET la = [{street: 'front', zip: 0, tags: ['f']}] + la, si = si - ['::1'] \
         WHERE pk = 'a' AND ck = 1",
        "DELETE mt[2], u.street FROM fx.nested WHERE pk = 'a' AND ck = 1",
        "UPDATE fx.nested SET lm = [MAP {'only': 1}], sd = NULL WHERE pk = 'a' AND ck = 3",
        "DELETE sm FROM fx.nested WHERE pk = 'b'",
        "UPDATE fx.nested SET sm = MAP {'s': 1} WHERE pk = 'c'",
        "INSERT INTO fx.nested (pk, ck) VALUES ('d', -1)",
        "DELETE lm, ml FROM fx.nested WHERE pk = 'e' AND ck = 5",
    ]
    .map(str::to_owned)
    .to_vec()
}

fn ttl_statements() -> Vec<String> {
    let mut all = Vec::new();
    for a in 0..3 {
        for c in -3..3 {
            all.push(format!(
                "INSERT INTO fx.ttl (a, b, c, d, l, v, w) VALUES ({a}, 'b{a}', {c}, '', [{c}, 2], 5, 'w')"
            ));
            all.push(format!(
                "UPDATE fx.ttl USING TTL 5000000 SET v = {c} WHERE a = {a} AND b = 'b{a}' AND c = {c} \
                 AND d = ''"
            ));
            all.push(format!(
                "INSERT INTO fx.ttl (a, b, c, d, v) VALUES ({a}, 'b{a}', {c}, 'forever', 1) USING TTL 0"
            ));
        }
    }
    all.push("DELETE FROM fx.ttl WHERE a = 1 AND b = 'b1' AND c = 2".to_owned());
    all.push("DELETE FROM fx.ttl WHERE a = 1 AND b = 'b1' AND c = 1 AND d > 'f'".to_owned());
    all.push("DELETE w FROM fx.ttl WHERE a = 2 AND b = 'b2' AND c = 0 AND d = ''".to_owned());
    all
}
