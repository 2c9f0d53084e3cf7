//! What Tab offers, decided from the text before the cursor and the catalog.
//!
//! Invariant: pure; asks nothing and waits for nothing.

use std::sync::Arc;

use tidegate_engine::policy::NATIVES;
use tidegate_engine::schema::{in_quotes, named};
use tidegate_engine::{Catalog, Column, ColumnKind, SchemaRef};

use super::keyword::{self, is_keyword};
use crate::command;
use crate::query::{Continues, STATEMENTS, StatementRow, Tab, continuations, row_of_words};
use crate::text::{BatchWords, Piece, Token, TokenKind, lex, split};

/// Names that exist, as of the last prompt.
#[derive(Clone)]
pub(super) struct Names {
    pub catalog: Arc<Catalog>,
    /// Keyspace of unqualified table names.
    pub keyspace: String,
}

/// One offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Offer {
    /// What is inserted.
    pub text: String,
    /// What is shown.
    pub shown: String,
}

impl Offer {
    fn plain(text: impl Into<String>) -> Self {
        let text = text.into();
        Offer { shown: text.clone(), text }
    }
}

/// Offers for the word that ends at byte `at`, and where that word starts.
pub(super) fn complete(line: &str, at: usize, names: &Names) -> (usize, Vec<Offer>) {
    let before = &line[..at];
    let start = before
        .rfind(|c: char| !(c.is_alphanumeric() || c == '_'))
        .map_or(0, |offset| offset + before[offset..].chars().next().map_or(0, char::len_utf8));
    let word = &before[start..];

    if let Some((start, offers)) = complete_command(before, names) {
        return (start, offers);
    }
    if lex(before).last().is_some_and(|token| match token.kind {
        TokenKind::Text | TokenKind::QuotedIdentifier => !token.closed,
        TokenKind::Comment => !token.closed || before.ends_with(|c| c != '\n'),
        _ => false,
    }) {
        return (at, Vec::new());
    }

    let statement = statement_around(line, at);
    let mut offers = match qualifier(&before[..start]) {
        Some(qualifier) => qualified(qualifier, statement, names),
        None => unqualified(&before[..start], word, statement, names),
    };
    offers.retain(|offer| starts_with(&offer.text, word));
    offers.dedup();
    (start, offers)
}

fn complete_command(before: &str, names: &Names) -> Option<(usize, Vec<Offer>)> {
    let start = before.len() - before.trim_start().len();
    let line = &before[start..];
    if !line.starts_with(['\\', '.']) {
        return None;
    }
    let Some((name, argument)) = line.split_once(char::is_whitespace) else {
        let matching = command::NAMES.iter().filter(|name| name.starts_with(line));
        return Some((start, matching.map(|name| Offer::plain(*name)).collect()));
    };
    let argument = argument.trim_start();
    let mut offers = match name {
        "\\d" | ".schema" => tables(names),
        ".mode" => ["csv", "expanded", "json", "table"].map(Offer::plain).to_vec(),
        ".timing" => ["off", "on"].map(Offer::plain).to_vec(),
        ".rows" => ["all", "screen"].map(Offer::plain).to_vec(),
        _ => Vec::new(),
    };
    offers.retain(|offer| starts_with(&offer.text, argument));
    Some((before.len() - argument.len(), offers))
}

/// The text of the statement that the cursor stands in.
fn statement_around(line: &str, at: usize) -> &str {
    split(line)
        .into_iter()
        .map(|(Piece::Statement(range) | Piece::Command(range))| range)
        .rfind(|range| range.start <= at)
        .map_or("", |range| &line[range])
}

/// The name before a dot, when the text ends in `name.`.
fn qualifier(before: &str) -> Option<&str> {
    let name = before.strip_suffix('.')?;
    let start = name.rfind(|c: char| !(c.is_alphanumeric() || c == '_')).map_or(0, |at| at + 1);
    (start < name.len()).then(|| &name[start..])
}

fn qualified(qualifier: &str, statement: &str, names: &Names) -> Vec<Offer> {
    let keyspace = names.catalog.keyspaces().find(|name| name.eq_ignore_ascii_case(qualifier));
    if let Some(keyspace) = keyspace {
        return tables_of(names, keyspace).map(|name| Offer::plain(quoted(name))).collect();
    }
    mentioned(statement, names)
        .iter()
        .filter(|table| table.name.eq_ignore_ascii_case(qualifier))
        .flat_map(|table| table.present_columns().map(column))
        .collect()
}

fn unqualified(before: &str, word: &str, statement: &str, names: &Names) -> Vec<Offer> {
    let (before, place) = statement_before(before);
    let words: Vec<String> = lex(before)
        .filter(|token| !matches!(token.kind, TokenKind::Space | TokenKind::Comment))
        .map(|token| before[token.range].to_ascii_uppercase())
        .filter(|word| !matches!(word.as_str(), "IF" | "NOT" | "EXISTS"))
        .collect();
    let Some(last) = words.last() else {
        return match place {
            Place::Alone => keywords(&keyword::FIRST, word),
            Place::FirstOfBatch => {
                keywords(&["DELETE", "INSERT", "UPDATE", "USING TIMESTAMP"], word)
            }
            Place::InBatch => keywords(&["APPLY BATCH", "DELETE", "INSERT", "UPDATE"], word),
        };
    };
    let row = row_of_words(&words);
    let is_own = row.is_some_and(|(row, _)| row.is_own());
    if (is_own || row.is_none())
        && let Some(offers) = of_table(row, &words, word, names)
    {
        return offers;
    }
    if !is_own && matches!(last.as_str(), "FROM" | "INTO" | "UPDATE" | "JOIN") {
        let mut offers = tables(names);
        if matches!(last.as_str(), "FROM" | "JOIN") && !word.is_empty() {
            offers.push(Offer::plain("replay_policy("));
        }
        return offers;
    }
    anywhere(&words, word, statement, names)
}

/// What the table of statements offers after `words`; `None` where it does not say.
fn of_table(
    row: Option<(&StatementRow, usize)>,
    words: &[String],
    word: &str,
    names: &Names,
) -> Option<Vec<Offer>> {
    let all: Vec<&str> = words.iter().map(String::as_str).collect();
    let next = continuations(&all);
    let tabs = row.and_then(|(row, first)| {
        let rest = &all[first..];
        let fits = |end: &str| match end {
            "" => rest.is_empty(),
            _ => rest.ends_with(&end.split(' ').collect::<Vec<_>>()),
        };
        row.tabs.iter().find(|(end, _)| fits(end)).map(|(_, tabs)| *tabs)
    });
    if next.is_empty() && tabs.is_none() {
        return None;
    }
    let mut offers = keywords(&next, word);
    for tab in tabs.unwrap_or_default() {
        offers.extend(match tab {
            Tab::Words(words) => keywords(words, word),
            Tab::Names(names) => names.iter().map(|name| Offer::plain(*name)).collect(),
            Tab::Tables => tables(names),
            Tab::Keyspaces => {
                names.catalog.keyspaces().map(|name| Offer::plain(quoted(name))).collect()
            }
            Tab::Policies => policies(names),
        });
    }
    Some(offers)
}

/// Columns of the tables that the statement names, and keywords.
fn anywhere(words: &[String], word: &str, statement: &str, names: &Names) -> Vec<Offer> {
    let mut offers: Vec<Offer> = mentioned(statement, names)
        .iter()
        .flat_map(|table| table.present_columns().map(column))
        .collect();
    let begins = |row: &&StatementRow| row.words.split(' ').next() == Some(words[0].as_str());
    let row = row_of_words(words).map(|(row, _)| row);
    let row = row.or_else(|| STATEMENTS.iter().find(begins));
    let continues = row.map_or(Continues::Definition, |row| row.continues);
    // Nothing that the parser takes follows in these.
    if continues == Continues::Nothing {
        return offers;
    }
    let is_query = continues == Continues::Query;
    // All keywords at once would bury the columns; they come with the first letter.
    if !word.is_empty() || is_query && offers.is_empty() {
        let inner = if is_query { keyword::QUERY } else { &keyword::WITHIN };
        offers.extend(keywords(inner, word));
        if words == ["EXPLAIN"] {
            offers.extend(keywords(&continuations(&["EXPLAIN"]), word));
            offers.extend(keywords(&keyword::FIRST, word));
        } else if is_query {
            offers.extend(keywords(&["SELECT", "SET", "WITH"], word));
        }
    }
    offers
}

/// Where a statement stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Alone,
    /// Right behind BEGIN BATCH.
    FirstOfBatch,
    InBatch,
}

/// The part of `before` that belongs to the statement at its end, and where that stands.
fn statement_before(before: &str) -> (&str, Place) {
    let (mut start, mut place, mut words) = (0, Place::Alone, BatchWords::default());
    let is_said = |token: &Token| !matches!(token.kind, TokenKind::Space | TokenKind::Comment);
    for token in lex(before).filter(is_said) {
        let was_within = words.is_within();
        if token.kind == TokenKind::Semicolon {
            start = token.range.end;
            place = if was_within { Place::InBatch } else { Place::Alone };
            words = if was_within { words } else { BatchWords::default() };
            continue;
        }
        words.take(&before[token.range.clone()]);
        if words.is_within() && !was_within {
            (start, place) = (token.range.end, Place::FirstOfBatch);
        }
    }
    (&before[start..], place)
}

/// Names of the tables of a keyspace, then those of its views.
fn tables_of<'a>(names: &'a Names, keyspace: &'a str) -> impl Iterator<Item = &'a str> {
    let tables = names.catalog.tables(keyspace).map(|table| table.name.as_str());
    tables.chain(names.catalog.views(keyspace).map(|view| view.name.as_str()))
}

fn tables(names: &Names) -> Vec<Offer> {
    let own = tables_of(names, &names.keyspace).map(|name| Offer::plain(quoted(name)));
    let others = names.catalog.keyspaces().filter(|keyspace| *keyspace != names.keyspace);
    let others = others.flat_map(|keyspace| {
        let full = move |name| Offer::plain(format!("{}.{}", quoted(keyspace), quoted(name)));
        tables_of(names, keyspace).map(full)
    });
    own.chain(others).collect()
}

fn policies(names: &Names) -> Vec<Offer> {
    let loaded = names.catalog.policies().map(|policy| Offer::plain(quoted(&policy.name)));
    loaded.chain(NATIVES.iter().map(|native| Offer::plain(native.name))).collect()
}

/// Tables whose names stand in the statement.
fn mentioned<'a>(statement: &str, names: &'a Names) -> Vec<&'a SchemaRef> {
    let words: Vec<String> = lex(statement)
        .filter_map(|token| match token.kind {
            TokenKind::Word => Some(statement[token.range].to_ascii_lowercase()),
            TokenKind::QuotedIdentifier => {
                let name = &statement[token.range];
                let name = name.strip_prefix('"').unwrap_or(name);
                Some(name.strip_suffix('"').unwrap_or(name).replace("\"\"", "\""))
            }
            _ => None,
        })
        .collect();
    names
        .catalog
        .keyspaces()
        .filter(|keyspace| *keyspace == names.keyspace || words.iter().any(|word| word == keyspace))
        .flat_map(|keyspace| names.catalog.tables(keyspace))
        .filter(|table| words.contains(&table.name))
        .collect()
}

fn column(column: &Column) -> Offer {
    let role = match column.kind {
        ColumnKind::PartitionKey { .. } => " · partition key",
        ColumnKind::ClusteringKey { .. } => " · clustering key",
        ColumnKind::Static => " · static",
        ColumnKind::Regular | ColumnKind::Dropped { .. } => "",
    };
    let text = quoted(&column.name);
    Offer { shown: format!("{text}  {}{role}", column.ty.sql_name()), text }
}

/// Keywords in the letter case that the person uses.
fn keywords(words: &[&str], typed: &str) -> Vec<Offer> {
    let lower = typed.starts_with(|c: char| c.is_ascii_lowercase());
    let spell = |word: &&str| if lower { word.to_ascii_lowercase() } else { (*word).to_owned() };
    words.iter().map(|word| Offer::plain(spell(word))).collect()
}

fn starts_with(name: &str, typed: &str) -> bool {
    name.get(..typed.len()).is_some_and(|head| head.eq_ignore_ascii_case(typed))
}

/// `name` as it must be written: in quotes where it would be read otherwise.
fn quoted(name: &str) -> String {
    if is_keyword(name) { in_quotes(name) } else { named(name) }
}

#[cfg(test)]
mod tests {
    use tidegate_engine::{
        ClusteringOrder, DataType, Database, Options, TableId, TableOptions, TableSchema,
    };

    use super::*;
    use crate::query::ErrorKind;

    /// Tables `reading` and `Odd` in the default keyspace, `log` in `weather`.
    async fn names(directory: &std::path::Path) -> Names {
        let options = Options { shards: Some(1), ..Options::new(directory) };
        let database = Database::open(options).await.unwrap();
        database.create_keyspace("weather", false).await.unwrap();
        for (keyspace, name) in [("default", "reading"), ("default", "Odd"), ("weather", "log")] {
            let key = ColumnKind::ClusteringKey { position: 0, order: ClusteringOrder::Ascending };
            let schema = TableSchema {
                id: TableId(0),
                keyspace: keyspace.into(),
                name: name.into(),
                columns: [
                    ("station", DataType::Text, ColumnKind::PartitionKey { position: 0 }),
                    ("at", DataType::Int, key),
                    ("value", DataType::Double, ColumnKind::Regular),
                ]
                .map(|(name, ty, kind)| Column { name: name.into(), ty, kind })
                .to_vec(),
                options: TableOptions::default(),
                drops: Vec::new(),
            };
            database.create_table(schema, false).await.unwrap();
        }
        let names = Names { catalog: database.catalog(), keyspace: "default".into() };
        database.close().await.unwrap();
        names
    }

    /// What follows ALTER.
    const ALTERED: &[&str] = &[
        "CACHE",
        "COMPACTION",
        "IO CLASS",
        "IO PRIORITY",
        "LOAD SHEDDING",
        "RATE LIMITER",
        "READ ADMISSION",
        "ROLE",
        "SERVICE LEVEL",
        "TABLE",
    ];

    /// What stands for a policy where none was created.
    fn natives() -> Vec<&'static str> {
        let mut names: Vec<&str> = NATIVES.iter().map(|native| native.name).collect();
        names.sort_unstable();
        names
    }

    /// What follows DROP.
    const DROPPED: &[&str] =
        &["KEYSPACE", "POLICY", "ROLE", "SERVICE LEVEL", "TABLE", "TOKEN", "TYPE", "VIEW"];

    #[tokio::test]
    async fn the_words_before_decide_what_is_offered() {
        let directory = tempfile::tempdir().unwrap();
        let names = names(directory.path()).await;
        for (line, wanted) in [
            ("SEL|", vec!["SELECT"]),
            ("sel|", vec!["select"]),
            ("SELECT * FROM |", vec!["\"Odd\"", "reading", "weather.log"]),
            ("SELECT * FROM weather.|", vec!["log"]),
            ("SELECT sta| FROM reading;", vec!["station"]),
            ("SELECT * FROM reading WHERE |", vec!["station", "at", "value"]),
            ("SELECT * FROM reading WHERE stat|", vec!["station"]),
            ("SELECT reading.v| FROM reading", vec!["value"]),
            ("SELECT 1; UPDATE re|", vec!["reading"]),
            ("DROP TABLE IF EXISTS re|", vec!["reading"]),
            ("TRUNCATE TABLE re|", vec!["reading"]),
            ("USE |", vec!["default", "weather"]),
            ("DROP |", DROPPED.to_vec()),
            ("REC|", vec!["RECORD"]),
            ("RECORD TRACE |", vec!["STOP", "TO"]),
            ("SELECT * FROM repl|", vec!["replay_policy("]),
            ("ALTER CACHE SET POLICY = l|", vec!["lru"]),
            ("ALTER |", ALTERED.to_vec()),
            ("ALTER TABLE re|", vec!["reading"]),
            ("ALTER TABLE reading WITH on|", vec!["on_corruption"]),
            (
                "CREATE TABLE t (a int PRIMARY KEY) WITH comment = 'x' AND com|",
                vec!["comment", "compaction", "compression"],
            ),
            ("CREATE TABLE t (a int PRIMARY KEY) WITH CL|", vec!["CLUSTERING ORDER BY"]),
            ("SHOW COR|", vec!["CORRUPTION"]),
            ("SHOW COM|", vec!["COMPACTIONS"]),
            ("COMPACT re|", vec!["reading"]),
            ("CANCEL |", vec!["COMPACTION"]),
            ("SHOW TABLES |", vec![]),
            ("TRUN|", vec!["TRUNCATE"]),
            ("MERG|", vec![]),
            ("FLUSH T|", vec![]),
            ("ATTACH |", vec!["SERVICE LEVEL", "SSTABLES"]),
            ("SHOW STA|", vec!["STALLS"]),
            ("ALTER READ |", vec!["ADMISSION"]),
            ("ALTER IO |", vec!["CLASS", "PRIORITY"]),
            ("ALTER COMPACTION SET POLICY = |", natives()),
            ("ALTER READ ADMISSION |", vec!["SET"]),
            ("ALTER LOAD SHEDDING SET |", vec!["POLICY"]),
            ("ALTER LOAD SHEDDING SET POLICY = |", natives()),
            ("ALTER CACHE SET |", vec!["ADMISSION", "CAPACITY", "POLICY"]),
            ("ALTER CACHE SET ADMISSION = l|", vec!["lru"]),
            ("ALTER CACHE |", vec!["SET", "SHADOW"]),
            ("ALTER CACHE SHADOW |", vec!["POLICY"]),
            ("ALTER CACHE SHADOW POLICY = |", natives()),
            ("ALTER CACHE SET POLICY = lru MO|", vec!["MODE", "MODIFY"]),
            ("ALTER CACHE SET POLICY = lru MODE = |", vec!["ACTIVE", "CANARY", "SHADOW"]),
            ("ROLL|", vec!["ROLLBACK"]),
            ("rollback |", vec!["POLICY"]),
            ("EXPLAIN POL|", vec!["POLICY"]),
            ("EXPLAIN POLICY |", natives()),
            ("SHOW POLICY |", vec!["EXITS"]),
            ("SELECT 'FROM |", vec![]),
            ("-- FROM |", vec![]),
            ("\\d re|", vec!["reading"]),
            (".ti|", vec![".timing"]),
            (".timing o|", vec!["off", "on"]),
        ] {
            offers(line, &wanted, &names);
        }
    }

    #[tokio::test]
    async fn a_batch_offers_what_stands_in_it() {
        let directory = tempfile::tempdir().unwrap();
        let names = names(directory.path()).await;
        for (line, wanted) in [
            ("BEGIN |", vec!["BATCH"]),
            ("BEGIN BATCH |", vec!["DELETE", "INSERT", "UPDATE", "USING TIMESTAMP"]),
            ("BEGIN BATCH INSERT INTO re|", vec!["reading"]),
            (
                "BEGIN UNLOGGED BATCH DELETE FROM reading; |",
                vec!["APPLY BATCH", "DELETE", "INSERT", "UPDATE"],
            ),
            ("BEGIN BATCH UPDATE reading SET sta|", vec!["station"]),
            ("BEGIN BATCH DELETE FROM reading; APPLY BATCH; TRUN|", vec!["TRUNCATE"]),
        ] {
            offers(line, &wanted, &names);
        }
    }

    /// Checks what is offered at the cursor, `|`.
    fn offers(line: &str, wanted: &[&str], names: &Names) {
        let at = line.find('|').unwrap();
        let line = line.replace('|', "");
        let (start, offers) = complete(&line, at, names);
        let texts: Vec<&str> = offers.iter().map(|offer| offer.text.as_str()).collect();
        assert_eq!(texts, wanted, "{line}");
        assert!(start <= at, "{line}");
    }

    /// Statements that begin as the offers do; the parser takes each.
    const STATEMENTS: &[&str] = &[
        "ALTER CACHE SET ADMISSION = p",
        "ALTER CACHE SET CAPACITY = '1 MiB'",
        "ALTER CACHE SET POLICY = p",
        "ALTER CACHE SHADOW POLICY = p",
        "ALTER IO CLASS compaction SET BANDWIDTH = '1 MiB' AND SHARES = 10",
        "ALTER IO CLASS compaction SET SHARES = 10 AND BANDWIDTH = NONE",
        "ALTER IO CLASS flush SET BANDWIDTH = '1 MiB' AND SHARES = 10",
        "ALTER IO CLASS flush SET SHARES = 10 AND BANDWIDTH = NONE",
        "ALTER IO CLASS query SET BANDWIDTH = '1 MiB' AND SHARES = 10",
        "ALTER IO CLASS query SET SHARES = 10 AND BANDWIDTH = NONE",
        "ALTER LOAD SHEDDING SET POLICY = p",
        "ALTER IO PRIORITY SET POLICY = p",
        "ALTER COMPACTION SET POLICY = p",
        "ALTER RATE LIMITER SET POLICY = p",
        "ALTER READ ADMISSION SET POLICY = p",
        "ALTER ROLE r WITH PASSWORD = 'x' AND LOGIN = true",
        "ALTER SERVICE LEVEL x WITH shares = 5",
        "ALTER SERVICE LEVEL x WITH timeout = 5ms AND shares = 5",
        "ALTER SERVICE LEVEL x WITH workload_type = 'batch'",
        "ALTER TABLE reading WITH comment = 'x'",
        "ATTACH SERVICE LEVEL x TO r",
        "ATTACH SSTABLES '/dir' AS t",
        "BEGIN BATCH DELETE FROM reading WHERE station = 'x'; APPLY BATCH",
        "BEGIN BATCH INSERT INTO reading (station, at) VALUES ('x', 1); APPLY BATCH",
        "BEGIN BATCH UPDATE reading SET value = 1 WHERE station = 'x' AND at = 1; APPLY BATCH",
        "BEGIN BATCH USING TIMESTAMP 5 DELETE FROM reading WHERE station = 'x'; APPLY BATCH",
        "CANCEL COMPACTION 1",
        "COMPACT TABLE reading",
        "COPY reading FROM 'x.csv'",
        "CREATE KEYSPACE k",
        "CREATE POLICY p FROM 'p.wasm'",
        "CREATE ROLE r WITH PASSWORD = 'x' AND SUPERUSER = true",
        "CREATE USER u WITH PASSWORD 'x'",
        "CREATE SERVICE LEVEL x WITH timeout = 5ms AND workload_type = 'batch'",
        "CREATE TABLE t (a int PRIMARY KEY)",
        "CREATE TOKEN t OF r",
        "CREATE VIEW v AS SELECT value FROM reading",
        "CREATE OR REPLACE VIEW v AS SELECT value FROM reading",
        "CREATE TYPE t (a int)",
        "DELETE FROM reading WHERE station = 'x'",
        "DESCRIBE KEYSPACE weather",
        "DESCRIBE SCHEMA",
        "DESCRIBE TABLE reading",
        "DESCRIBE VIEW reading",
        "DETACH reading",
        "DETACH SERVICE LEVEL FROM r",
        "DROP KEYSPACE k",
        "DROP POLICY p",
        "DROP ROLE r",
        "DROP SERVICE LEVEL x",
        "DROP TABLE reading",
        "DROP TOKEN t OF r",
        "DROP TYPE t",
        "DROP VIEW reading",
        "EXPLAIN SELECT 1",
        "FLUSH reading",
        "GRANT ALL ON ADMINISTRATION TO r",
        "GRANT ALTER ON ALL KEYSPACES TO r",
        "GRANT AUTHORIZE ON KEYSPACE weather TO r",
        "GRANT CREATE ON POLICIES TO r",
        "GRANT DROP ON TABLE reading TO r",
        "GRANT MODIFY ON reading TO r",
        "GRANT SELECT ON reading TO r",
        "IMPORT SSTABLES '/dir' INTO reading",
        "INSERT INTO reading (station, at) VALUES ('x', 1)",
        "INVALIDATE CACHE reading",
        "KILL QUERY 1",
        "KILL READ 1",
        "LIST PERMISSIONS",
        "LIST ROLES",
        "LIST ROLES OF r NORECURSIVE",
        "LIST TOKENS",
        "RECORD TRACE STOP",
        "RECORD TRACE TO 'f'",
        "REVOKE ALL ON ADMINISTRATION FROM r",
        "REVOKE ALTER ON ALL KEYSPACES FROM r",
        "REVOKE AUTHORIZE ON KEYSPACE weather FROM r",
        "REVOKE CREATE ON POLICIES FROM r",
        "REVOKE DROP ON TABLE reading FROM r",
        "REVOKE MODIFY ON reading FROM r",
        "REVOKE SELECT ON reading FROM r",
        "ROLLBACK POLICY",
        "SELECT 1",
        "SET tidegate.bypass_cache = true",
        "SHOW CACHE TABLES",
        "SHOW COMPACTIONS",
        "SHOW CORRUPTION",
        "SHOW EFFECTIVE SERVICE LEVEL",
        "SHOW HOT PARTITIONS",
        "SHOW KEYSPACES",
        "SHOW MEMORY",
        "SHOW NODES",
        "SHOW POLICIES",
        "SHOW POLICY EXITS",
        "SHOW QUERIES",
        "SHOW READS",
        "SHOW SESSIONS",
        "SHOW IO",
        "SHOW SERVICE LEVELS",
        "SHOW STALLS",
        "SHOW TABLES",
        "SNAPSHOT TO 'dir'",
        "SHOW SLOW QUERIES",
        "SUMMARIZE reading",
        "TRACING COMPACT",
        "TRACING OFF",
        "TRACING ON",
        "SHOW WARNINGS",
        "TRUNCATE reading",
        "UPDATE reading SET value = 1 WHERE station = 'x' AND at = 1",
        "USE weather",
        "WITH a AS (SELECT 1) SELECT * FROM a",
    ];

    #[tokio::test]
    async fn the_parser_takes_what_is_offered() {
        let directory = tempfile::tempdir().unwrap();
        let names = names(directory.path()).await;
        let database = Database::open(Options::new(directory.path())).await.unwrap();
        let session = crate::query::Session::new(database.clone(), Default::default()).unwrap();
        for text in STATEMENTS {
            for statement in crate::query::split(text).unwrap() {
                if let Err(error) = session.describe(&statement).await {
                    let kind = error.kind;
                    let is_refused = matches!(kind, ErrorKind::Syntax | ErrorKind::Unsupported);
                    assert!(!is_refused, "{text}: {error}");
                }
            }
        }
        database.close().await.unwrap();
        // Every chain of keywords that Tab can type is the head of one of them.
        let mut open = vec![String::new()];
        let mut chains = 0;
        while let Some(line) = open.pop() {
            let (_, offers) = complete(&line, line.len(), &names);
            let is_chain = !["SELECT", "WITH", "EXPLAIN", "SET", "INSERT", "UPDATE", "DELETE"]
                .iter()
                .any(|query| line.trim_start_matches("BEGIN BATCH ").starts_with(query));
            let words = offers
                .iter()
                .filter(|offer| is_keyword(offer.text.split(' ').next().unwrap_or("")));
            for offer in words.filter(|_| is_chain) {
                let line = format!("{line}{} ", offer.text);
                chains += 1;
                let is_head = STATEMENTS.iter().any(|text| format!("{text} ").starts_with(&line));
                assert!(is_head, "no statement begins with {line}");
                open.push(line);
            }
        }
        assert!(chains > 40, "{chains}");
    }

    #[tokio::test]
    async fn a_column_shows_its_type_and_role() {
        let directory = tempfile::tempdir().unwrap();
        let names = names(directory.path()).await;
        for (line, wanted) in
            [("ALTER TABLE reading REN", "RENAME"), ("ALTER TABLE reading DROP statio", "station")]
        {
            let (_, offers) = complete(line, line.len(), &names);
            let texts: Vec<&str> = offers.iter().map(|offer| offer.text.as_str()).collect();
            assert_eq!(texts, [wanted], "{line}");
        }
        let line = "SELECT * FROM reading WHERE ";
        let shown: Vec<String> =
            complete(line, line.len(), &names).1.into_iter().map(|offer| offer.shown).collect();
        assert_eq!(
            shown,
            ["station  text · partition key", "at  int · clustering key", "value  double"]
        );
    }

    /// What is offered is put into the statement as it is: without quotes it would be another word.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn names_that_are_keywords_are_offered_in_quotes_wherever_they_are_offered() {
        let directory = tempfile::tempdir().unwrap();
        let options = Options { shards: Some(1), ..Options::new(directory.path()) };
        let database = Database::open(options).await.unwrap();
        let session = crate::query::Session::new(database.clone(), Default::default()).unwrap();
        for text in [
            "CREATE KEYSPACE \"all\"",
            "CREATE TABLE \"all\".\"group\" (k int PRIMARY KEY)",
            "CREATE TABLE \"order\" (\"from\" int PRIMARY KEY, plain int)",
            "CREATE TABLE plain (k int PRIMARY KEY)",
            "CREATE VIEW \"limit\" AS SELECT k FROM plain",
        ] {
            session.execute(text).await.unwrap();
        }
        let names = Names { catalog: database.catalog(), keyspace: "default".into() };
        database.close().await.unwrap();
        // Views stand behind tables, and other keyspaces behind both.
        let all = ["\"order\"", "plain", "\"limit\"", "\"all\".\"group\""];
        let cases: [(&str, &[&str]); 9] = [
            ("SELECT * FROM |", &all),
            ("\\d |", &all),
            (".schema pl|", &["plain"]),
            ("USE |", &["\"all\"", "default"]),
            ("SELECT * FROM all.|", &["\"group\""]),
            ("SELECT * FROM \"order\" WHERE |", &["\"from\"", "plain"]),
            // Of several statements the one counts in which the cursor is.
            ("SELECT k| FROM plain; SELECT * FROM \"order\"", &["k"]),
            ("SELECT * FROM plain; SELECT pl| FROM \"order\"", &["plain"]),
            ("SELECT * FROM plain; SELECT k| FROM \"order\"", &[]),
        ];
        for (line, wanted) in cases {
            offers(line, wanted, &names);
        }
    }

    #[tokio::test]
    async fn settings_of_commands_and_names_are_offered_in_any_letter_case() {
        let directory = tempfile::tempdir().unwrap();
        let names = names(directory.path()).await;
        let cases: [(&str, &[&str]); 26] = [
            ("\\|", &["\\?", "\\d", "\\q"]),
            ("  .ti|", &[".timing"]),
            (".|nonsense", &command::NAMES[3..]),
            (".mode |", &["csv", "expanded", "json", "table"]),
            (".mode J|", &["json"]),
            (".rows |", &["all", "screen"]),
            (".rows   s|", &["screen"]),
            (".timing OF|", &["off"]),
            (".quit |", &[]),
            (".nonsense |", &[]),
            ("\\d  re|", &["reading"]),
            (".schema weather.|", &["weather.log"]),
            ("SELECT * FROM WEATHER.|", &["log"]),
            ("SELECT READING.v| FROM reading", &["value"]),
            ("SELECT log.v| FROM weather.log", &["value"]),
            ("SELECT log.v| FROM log", &[]),
            ("SELECT 'x' FROM re|", &["reading", "replay_policy("]),
            ("SELECT * FROM reading JOIN repl|", &["replay_policy("]),
            ("INSERT INTO repl|", &[]),
            ("SELECT * FROM nothing.|", &[]),
            ("SELECT \"re|", &[]),
            ("/* FROM |", &[]),
            ("/* x */ SEL|", &["SELECT"]),
            ("-- x\nsel|", &["select"]),
            ("SELECT * FROM reading; Sel|", &["SELECT"]),
            ("SELECT * FROM reading WHERE VAL|", &["value", "VALUES"]),
        ];
        for (line, wanted) in cases {
            offers(line, wanted, &names);
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_column_that_is_static_says_so_and_one_that_was_dropped_is_not_offered() {
        let directory = tempfile::tempdir().unwrap();
        let options = Options { shards: Some(1), ..Options::new(directory.path()) };
        let database = Database::open(options).await.unwrap();
        let session = crate::query::Session::new(database.clone(), Default::default()).unwrap();
        for text in [
            "CREATE TABLE t (k int, c int, s text STATIC, v int, w int, PRIMARY KEY (k, c))",
            "ALTER TABLE t DROP w",
        ] {
            session.execute(text).await.unwrap();
        }
        let names = Names { catalog: database.catalog(), keyspace: "default".into() };
        database.close().await.unwrap();
        let line = "SELECT * FROM t WHERE ";
        let (start, offers) = complete(line, line.len(), &names);
        let mut shown: Vec<String> = offers.into_iter().map(|offer| offer.shown).collect();
        shown.sort();
        let wanted =
            ["c  int · clustering key", "k  int · partition key", "s  text · static", "v  int"];
        assert_eq!((start, shown), (line.len(), wanted.map(str::to_owned).to_vec()));
    }
}
