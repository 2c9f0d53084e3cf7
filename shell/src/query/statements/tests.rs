//! Text to commands.

use std::any::Any;

use tidegate_engine::UserType;

use super::attach::{Attach, ImportSstables};
use super::cache::{AlterCache, PolicyMode};
use super::copy::Copy;
use super::copy::options::{CopyOptions, Format, OnError};
use super::definition::alter::{AlterTable, Change};
use super::definition::table::CreateTable;
use super::definition::user_type::{CreateType, DropType};
use super::policy::CreatePolicy;
use super::*;
use crate::query::error::QueryError;
use crate::query::parse::{IfKind, Name, UsingValue};
use crate::query::split;

fn command(text: &str) -> Command {
    parse(&split(text).unwrap()[0]).unwrap()
}

/// A statement of our own.
fn own<T: OwnStatement>(text: &str) -> Arc<T> {
    let Command::Own(own) = command(text) else { panic!("{text}") };
    let own: Arc<dyn Any + Send + Sync> = own;
    own.downcast().unwrap_or_else(|_| panic!("{text}"))
}

fn error(text: &str) -> QueryError {
    parse(&split(text).unwrap()[0]).unwrap_err()
}

/// Types of the columns, every name that is none of ours being that of a user type.
fn types(table: &CreateTable) -> Vec<String> {
    let find = |name: &TableName| {
        let keyspace = name.keyspace.as_ref().map_or("here", |keyspace| &keyspace.value);
        let fields = [("a".to_owned(), tidegate_engine::DataType::Int)];
        Ok(UserType::new(keyspace, &name.table.value, fields))
    };
    table.columns.iter().map(|column| column.ty.resolve(&find).unwrap().sql_name()).collect()
}

#[test]
fn types_stand_within_types() {
    let text = "CREATE TABLE t (a int PRIMARY KEY, b list<int>, c frozen<map<text, set<uuid>>>, \
                d map<int,frozen<list<tuple<int,text,varint>>>>, e ks.addr, f frozen<addr>, \
                g list<frozen<addr>> STATIC, h decimal(76, 38), i duration, j counter, k ascii)";
    let table = own::<CreateTable>(text);
    assert_eq!(
        types(&table)[1..],
        [
            "list<int>",
            "frozen<map<text, set<uuid>>>",
            "map<int, frozen<list<tuple<int, text, varint>>>>",
            "ks.addr",
            "frozen<here.addr>",
            "list<frozen<here.addr>>",
            "decimal(76, 38)",
            "duration",
            "counter",
            "text",
        ]
    );
    assert!(table.columns[6].is_static);
    let text = "CREATE TYPE IF NOT EXISTS ks.addr (street text, tags frozen<set<text>>)";
    let ty = own::<CreateType>(text);
    assert!(ty.if_not_exists && ty.fields.len() == 2);
    assert!(own::<DropType>("DROP TYPE IF EXISTS addr").if_exists);
    let deep = format!("CREATE TABLE t (a {}int{})", "list<".repeat(40), ">".repeat(40));
    assert!(error(&deep).message.contains("too deep"));
    for (text, wanted) in [
        ("CREATE TABLE t (a list<int, b int)", "expected '>'"),
        ("CREATE TABLE t (a list<int,text>, b int)", "does not take these arguments"),
        ("CREATE TABLE t (a map<int>, b int)", "does not take these arguments"),
        ("CREATE TABLE t (a list<int>> , b int)", "one '>'"),
        ("CREATE TABLE t (a list, b int)", "expected '<'"),
        ("CREATE TABLE t (a decimal(77, 1), b int)", "does not take these arguments"),
        ("CREATE TABLE t (a int(3), b int)", "does not take these arguments"),
    ] {
        assert!(error(text).message.contains(wanted), "{text}: {}", error(text));
    }
}

#[test]
fn types_have_the_names_of_other_databases_too() {
    let text = "CREATE TABLE t (a integer PRIMARY KEY, b bool, c real, d numeric, e numeric(5), \
                f DECIMAL(38, 38), g varchar(10), h string, i decimal, j text(3), k DOUBLE, \
                l Varchar)";
    assert_eq!(
        types(&own::<CreateTable>(text)),
        [
            "int",
            "boolean",
            "float",
            "decimal(38, 10)",
            "decimal(5, 0)",
            "decimal(38, 38)",
            "text",
            "text",
            "decimal(38, 10)",
            "text",
            "double",
            "text",
        ]
    );
    for ty in [
        "decimal(5, 6)",
        "decimal(0)",
        "decimal(5, -1)",
        "numeric(5, 2, 1)",
        "varchar(1, 2)",
        "double(3)",
    ] {
        let error = error(&format!("CREATE TABLE t (a int PRIMARY KEY, b {ty})"));
        assert!(error.message.contains("does not take these arguments"), "{ty}: {error}");
    }
}

#[test]
fn create_table_in_all_its_parts() {
    let text = "create table IF NOT EXISTS Ks.\"T\" (a int, b varchar, c timestamp, d decimal(9,2), \
                e double precision static, PRIMARY KEY ((a, b), c)) \
                WITH CLUSTERING ORDER BY (c DESC) AND gc_grace_seconds = 60 AND comment = 'x' \
                AND default_time_to_live = 7 AND column_index_size_in_kb = 4";
    let table = own::<CreateTable>(text);
    assert!(table.if_not_exists);
    assert_eq!(table.name.keyspace.as_ref().unwrap().value, "ks");
    assert_eq!(table.name.table.value, "T");
    let names = |names: &[Name]| names.iter().map(|name| name.value.clone()).collect::<Vec<_>>();
    assert_eq!(names(&table.partition_key), ["a", "b"]);
    assert_eq!(names(&table.clustering_key), ["c"]);
    assert_eq!(table.clustering_order[0].1, tidegate_engine::ClusteringOrder::Descending);
    assert_eq!(table.options.gc_grace_seconds, 60);
    assert_eq!(table.options.default_time_to_live, 7);
    assert_eq!(table.options.column_index_bytes, 4096);
    assert_eq!(table.options.comment, "x");
    assert_eq!(types(&table), ["int", "text", "timestamp", "decimal(9, 2)", "double"]);
    assert!(table.columns[4].is_static && !table.columns[3].is_static);
}

#[test]
fn options_of_tables_are_created_and_altered_alike() {
    use tidegate_engine::{Compression, Compressor, OnCorruption, TableOptions};
    let options = "on_corruption = 'skip' AND large_data = {'row_bytes': 100, 'partition_rows': 7} \
                   AND compression = {'class': 'ZstdCompressor', 'chunk_length_in_kb': 64, \
                   'compression_level': 5} AND column_index_size_in_kb = 1";
    let table = own::<CreateTable>(&format!("CREATE TABLE t (a int PRIMARY KEY) WITH {options}"));
    let alter = own::<AlterTable>(&format!("ALTER TABLE ks.t WITH {options}"));
    let keyspace = alter.name.keyspace.as_ref().unwrap();
    assert_eq!((&*keyspace.value, &*alter.name.table.value), ("ks", "t"));
    let apply = |alter: &AlterTable, options: &mut TableOptions| match &alter.change {
        Change::Options(all) => all.iter().cloned().for_each(|option| option.apply(options)),
        other => panic!("no options: {other:?}"),
    };
    let mut altered = TableOptions::default();
    apply(&alter, &mut altered);
    assert_eq!(altered, table.options);
    assert_eq!(altered.on_corruption, OnCorruption::Skip);
    for (value, wanted) in [("SKIP", OnCorruption::Skip), ("Fail", OnCorruption::Fail)] {
        let alter = own::<AlterTable>(&format!("ALTER TABLE t WITH on_corruption = '{value}'"));
        apply(&alter, &mut altered);
        assert_eq!(altered.on_corruption, wanted, "{value}");
    }
    assert_eq!((altered.large_data.row_bytes, altered.large_data.cell_bytes), (Some(100), None));
    assert_eq!(altered.column_index_bytes, 1024);
    let zstd = Compression { compressor: Compressor::Zstd, chunk_bytes: 64 << 10, level: Some(5) };
    assert_eq!(altered.compression, Some(zstd));
    for none in ["{'class': ''}", "{}", "{'class': 'LZ4Compressor', 'enabled': false}"] {
        let text = format!("ALTER TABLE t WITH compression = {none}");
        let alter = own::<AlterTable>(&text);
        apply(&alter, &mut altered);
        assert_eq!(altered.compression, None, "{text}");
    }
    for (option, wanted) in [
        ("compression = {'class': 'LZ5Compressor'}", "compressor 'LZ5Compressor'"),
        ("compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': 3}", "a power of two"),
        ("compression = {'class': 'LZ4Compressor', 'compression_level': 3}", "compression_level"),
        ("compression = {'clas': 'LZ4Compressor'}", "'clas' does not exist"),
        ("large_data = {'row_bytes': -1}", "not negative"),
        ("large_data = {'rows': 1}", "threshold 'rows'"),
        ("on_corruption = 'delete'", "takes fail or skip"),
        ("speed = 'more'", "option 'speed'"),
    ] {
        let found = error(&format!("ALTER TABLE t WITH {option}"));
        assert!(found.message.contains(wanted) && found.span.is_some(), "{option}: {found}");
    }
}

#[test]
fn primary_keys_in_their_three_forms() {
    for (text, partition, clustering) in [
        ("CREATE TABLE t (a int PRIMARY KEY, b int)", 1, 0),
        ("CREATE TABLE t (a int, b int, PRIMARY KEY (a, b))", 1, 1),
        ("CREATE TABLE t (a int, b int, c int, PRIMARY KEY ((a, b), c))", 2, 1),
        ("CREATE TABLE t (a int, b int, PRIMARY KEY ((a, b)))", 2, 0),
    ] {
        let table = own::<CreateTable>(text);
        assert_eq!(table.partition_key.len(), partition, "{text}");
        assert_eq!(table.clustering_key.len(), clustering, "{text}");
    }
}

#[test]
fn using_is_taken_out_wherever_it_stands() {
    for (text, ttl, timestamp) in [
        ("INSERT INTO t (a) VALUES (1) USING TTL 5", Some(5), None),
        ("INSERT INTO t (a) VALUES (1) USING TIMESTAMP 7 AND TTL 5", Some(5), Some(7)),
        ("UPDATE t USING TIMESTAMP -7 SET v = 1 WHERE a = 1", None, Some(-7)),
        ("DELETE FROM t USING TIMESTAMP 7 WHERE a = 1", None, Some(7)),
        ("DELETE v, w FROM ks.t WHERE a = 1", None, None),
    ] {
        let Command::Write(write) = command(text) else { panic!("{text}") };
        assert_eq!(write.using.ttl, ttl.map(UsingValue::Number), "{text}");
        assert_eq!(write.using.timestamp, timestamp.map(UsingValue::Number), "{text}");
    }
    let Command::Write(write) = command("UPDATE t USING TTL ? SET v = ? WHERE a = ?") else {
        panic!("no write")
    };
    assert_eq!(write.using.ttl, Some(UsingValue::Parameter(1)));
}

#[test]
fn the_other_statements() {
    let debug = |text: &str| {
        let text = match command(text) {
            Command::Own(own) => format!("{own:?}"),
            other => format!("{other:?}"),
        };
        text.split([' ', '(', '{']).next().unwrap().to_owned()
    };
    for (text, wanted) in [
        ("CREATE SCHEMA IF NOT EXISTS ks", "CreateKeyspace"),
        ("DROP KEYSPACE IF EXISTS ks", "DropKeyspace"),
        ("DROP TABLE IF EXISTS ks.t", "DropTable"),
        ("ALTER TABLE t ADD a int, b text STATIC", "AlterTable"),
        ("alter table ks.t drop column if exists a", "AlterTable"),
        ("ALTER TABLE t RENAME a TO b AND c TO d", "AlterTable"),
        ("TRUNCATE t", "Truncate"),
        ("truncate table ks.t", "Truncate"),
        ("USE ks", "Use"),
        ("SHOW TABLES", "Show"),
        ("SHOW POLICIES", "Show"),
        ("DESCRIBE t", "Columns"),
        ("DESCRIBE ks.t", "Columns"),
        ("DESCRIBE table.t", "Columns"),
        ("DESCRIBE keyspace", "Keyspace"),
        ("DESC KEYSPACE ks", "Keyspace"),
        ("DESCRIBE TYPE ks.ty", "Type"),
        ("DESCRIBE FULL SCHEMA", "Schema"),
        ("DESC TABLE ks.t", "Table"),
        ("FLUSH", "Flush"),
        ("FLUSH ks.t", "Flush"),
        ("snapshot to '/x'", "SnapshotTo"),
        ("INVALIDATE CACHE", "InvalidateCache"),
        ("invalidate cache ks.t", "InvalidateCache"),
        ("SHOW CACHE TABLES", "Show"),
        ("show stalls", "Show"),
        ("COPY t FROM 'x.csv'", "From"),
        ("COPY t (a, b) FROM 'x' WITH (HEADER false, NULL = 'NA', DELIMITER '\\t')", "From"),
        ("COPY (SELECT (1)) TO 'x.parquet'", "To"),
        ("ALTER CACHE SET POLICY = native", "Policy"),
        ("ALTER CACHE SET CAPACITY = 512 KiB", "Capacity"),
        ("DROP POLICY IF EXISTS p", "DropPolicy"),
        ("ROLLBACK POLICY", "RollBackPolicy"),
        ("ROLLBACK CACHE POLICY", "RollBackPolicy"),
        ("EXPLAIN POLICY p", "ExplainPolicy"),
        ("SHOW POLICY EXITS", "Show"),
        ("EXPLAIN SELECT 1", "Query"),
        ("EXPLAIN DELETE FROM t WHERE a = 1", "ExplainWrite"),
        ("(SELECT 1)", "Query"),
        ("WITH a AS (SELECT 1) SELECT * FROM a", "Query"),
        ("SELECT * FROM a JOIN b USING (ttl)", "Query"),
    ] {
        assert_eq!(debug(text), wanted, "{text}");
    }
    let capacity = own::<AlterCache>("ALTER CACHE SET CAPACITY = '512 KiB'");
    assert!(matches!(*capacity, AlterCache::Capacity(524_288)));
}

#[test]
fn a_size_has_a_unit_of_a_thousand_or_of_1024() {
    for (size, bytes) in [
        ("4096", 4096),
        ("'5 b'", 5),
        ("'6k'", 6 << 10),
        ("7 KiB", 7 << 10),
        ("'8 KB'", 8_000),
        ("'9m'", 9 << 20),
        ("10 MiB", 10 << 20),
        ("'11MB'", 11_000_000),
        ("'2g'", 2 << 30),
        ("3 GiB", 3 << 30),
        ("' 4 gb '", 4_000_000_000),
    ] {
        let alter = own::<AlterCache>(&format!("ALTER CACHE SET CAPACITY = {size}"));
        let AlterCache::Capacity(found) = &*alter else { panic!("{size}") };
        assert_eq!(*found, bytes, "{size}");
    }
    for size in ["'1 TiB'", "''", "'KiB'", "-1", "'1.5 MiB'", "'99999999999 GiB'"] {
        let error = error(&format!("ALTER CACHE SET CAPACITY = {size}"));
        assert!(error.message.ends_with("is no size"), "{size}: {error}");
    }
}

#[test]
fn policies_begin_in_three_modes() {
    for (text, name, mode) in [
        ("ALTER CACHE SET POLICY native", None, PolicyMode::Active),
        ("ALTER CACHE SET POLICY = p", Some("p"), PolicyMode::Active),
        ("ALTER CACHE SET POLICY = p MODE = active", Some("p"), PolicyMode::Active),
        ("ALTER CACHE SET POLICY = p MODE = canary", Some("p"), PolicyMode::Canary),
        (
            "ALTER CACHE SET POLICY = p MODE = shadow",
            Some("p"),
            PolicyMode::Shadow { sample: None },
        ),
        (
            "ALTER CACHE SET POLICY = p MODE = SHADOW SAMPLE = 1/8",
            Some("p"),
            PolicyMode::Shadow { sample: Some(8) },
        ),
        ("ALTER CACHE SET POLICY = none MODE = shadow", None, PolicyMode::Shadow { sample: None }),
        (
            "ALTER CACHE SHADOW POLICY = p WITH (sample = 64)",
            Some("p"),
            PolicyMode::Shadow { sample: Some(64) },
        ),
        ("ALTER CACHE SHADOW POLICY native", Some("lru"), PolicyMode::Shadow { sample: None }),
        ("ALTER CACHE SHADOW POLICY = NONE", None, PolicyMode::Shadow { sample: None }),
    ] {
        let alter = own::<AlterCache>(text);
        let AlterCache::Policy(set) = &*alter else { panic!("{text}") };
        assert_eq!((set.name.as_ref().map(|name| name.value.as_str()), set.mode), (name, mode));
    }
}

#[test]
fn options_of_policies_and_of_copy() {
    let text = "CREATE POLICY p FROM 'p.wasm' WITH (sha256 = 'ab', window = 0.25, n = -1)";
    let policy = own::<CreatePolicy>(text);
    assert_eq!(policy.sha256.as_deref(), Some("ab"));
    let parameters: Vec<(&str, &str)> =
        policy.parameters.iter().map(|(name, value)| (&**name, &**value)).collect();
    assert_eq!(parameters, [("window", "0.25"), ("n", "-1")]);
    let text = "COPY t FROM 'x' (FORMAT parquet, ON_ERROR skip, REJECT_FILE 'r')";
    let copy = own::<Copy>(text);
    let Copy::From(copy) = &*copy else { panic!("{text}") };
    assert_eq!((copy.options.format, copy.options.on_error), (Format::Parquet, OnError::Skip));
    assert_eq!(copy.options.reject_file.as_deref(), Some("r"));
    // As cqlsh has them.
    for (text, has_header, delimiter) in [
        ("COPY t FROM 'x' WITH HEADER = false", false, b','),
        ("COPY t FROM 'x' WITH HEADER", true, b','),
        ("COPY t FROM 'x' WITH HEADER AND DELIMITER = ';'", true, b';'),
        ("COPY t (a, b) FROM 'x' WITH DELIMITER='|' AND HEADER=FALSE AND NULL='-'", false, b'|'),
    ] {
        let copy = own::<Copy>(text);
        let Copy::From(copy) = &*copy else { panic!("{text}") };
        assert_eq!((copy.options.header, copy.options.delimiter), (has_header, delimiter));
    }
    let told = error("COPY t TO 'x' WITH HEADER = true AND PAGESIZE = 100");
    assert_eq!(told.span.map(|span| span.column), Some(38), "{told}");
    assert!(told.help.is_some_and(|help| help.starts_with("leave it out")));
}

/// Options of COPY of the file, as they are read.
fn copy_options(file: &str, options: &str) -> CopyOptions {
    let text = format!("COPY t FROM '{file}' {options}");
    let copy = own::<Copy>(&text);
    let Copy::From(copy) = &*copy else { panic!("{text}") };
    copy.options.clone()
}

#[test]
fn each_option_of_copy_is_read_in_all_its_words_and_in_no_others() {
    let usual = copy_options("x.csv", "");
    assert_eq!((usual.format, usual.header, usual.on_error), (Format::Csv, true, OnError::Abort));
    assert_eq!((usual.delimiter, usual.null.as_str()), (b',', ""));
    assert_eq!((&usual.reject_file, usual.ttl), (&None, None));
    let of = |change: fn(&mut CopyOptions)| {
        let mut wanted = usual.clone();
        change(&mut wanted);
        wanted
    };
    type Case = (&'static str, fn(&mut CopyOptions));
    let cases: [Case; 18] = [
        ("FORMAT csv", |_| {}),
        ("FORMAT Parquet", |o| o.format = Format::Parquet),
        ("HEADER", |_| {}),
        ("HEADER on", |_| {}),
        ("HEADER TRUE", |_| {}),
        ("HEADER off", |o| o.header = false),
        ("HEADER = False", |o| o.header = false),
        ("NULL 'NA'", |o| "NA".clone_into(&mut o.null)),
        ("DELIMITER ';'", |o| o.delimiter = b';'),
        ("DELIMITER ' '", |o| o.delimiter = b' '),
        (r"DELIMITER '\t'", |o| o.delimiter = b'\t'),
        ("ON_ERROR abort", |_| {}),
        ("ON_ERROR Skip", |o| o.on_error = OnError::Skip),
        ("REJECT_FILE 'R'", |o| o.reject_file = Some("R".to_owned())),
        ("ERRFILE 'R'", |o| o.reject_file = Some("R".to_owned())),
        ("TTL 0", |o| o.ttl = Some(0)),
        ("TTL = 9", |o| o.ttl = Some(9)),
        ("TTL 9, HEADER off", |o| {
            o.ttl = Some(9);
            o.header = false;
        }),
    ];
    for (text, change) in cases {
        assert_eq!(copy_options("x.csv", &format!("({text})")), of(change), "{text}");
    }
    for (file, format) in [
        ("x.parquet", Format::Parquet),
        ("X.PARQUET", Format::Parquet),
        ("parquet", Format::Csv),
        ("x.parquet.csv", Format::Csv),
    ] {
        assert_eq!(copy_options(file, "").format, format, "{file}");
        assert_eq!(copy_options(file, "(FORMAT csv)").format, Format::Csv, "{file}");
    }
    for text in [
        "FORMAT json",
        "HEADER maybe",
        "DELIMITER ''",
        "DELIMITER ';;'",
        "DELIMITER 'é'",
        "ON_ERROR ignore",
        "TTL soon",
        "TTL 1.5",
        "NAME 'x'",
    ] {
        let error = error(&format!("COPY t FROM 'x.csv' ({text})"));
        assert!(error.span.is_some(), "{text}: {error}");
    }
}

#[test]
fn syntax_errors_stand_at_the_token() {
    for (text, column) in [
        ("CREATE TABLE t (a int,,)", 23),
        ("CREATE TABLE t (a int PRIMARY KEY) WITH", 40),
        ("CREATE KEYSPACE ks now", 20),
        ("ALTER CACHE SET POLICY = p MODE = sometimes", 35),
        ("ALTER CACHE SET POLICY = p MODE = shadow SAMPLE = 2/3", 51),
        ("ALTER CACHE SHADOW POLICY = p WITH (sample = 0)", 46),
        ("ALTER CACHE SHADOW POLICY = p WITH (size = 4)", 37),
        ("EXPLAIN POLICY", 15),
        ("COPY t INTO 'x'", 8),
        ("COPY t TO 'x' WITH", 19),
        ("COPY t TO 'x' WITH HEADER = true AND", 37),
        ("USE", 4),
        ("UPDATE t USING TTL x SET v = 1", 20),
        ("SELECT (1", 10),
    ] {
        let error = error(text);
        assert_eq!(error.span.map(|span| span.column), Some(column), "{text}: {error}");
    }
}

#[test]
fn attach_and_import_say_what_becomes_of_other_files() {
    use tidegate_engine::{OnCorruption, OnUnknown};
    let attached = |text: &str| {
        let attach = own::<Attach>(text);
        (attach.on_corruption, attach.on_unknown)
    };
    let imported = |text: &str| {
        let import = own::<ImportSstables>(text);
        (import.on_corruption, import.on_unknown)
    };
    let (attach, import) = ("ATTACH SSTABLES '/d' AS t", "IMPORT SSTABLES '/d' INTO t");
    assert_eq!(attached(attach), (OnCorruption::Fail, OnUnknown::Skip));
    assert_eq!(imported(import), (OnCorruption::Fail, OnUnknown::Fail));
    let both = "WITH (ON_UNKNOWN = 'skip', ON_CORRUPTION skip)";
    assert_eq!(imported(&format!("{import} {both}")), (OnCorruption::Skip, OnUnknown::Skip));
    let fail = format!("{attach} (on_unknown = 'fail')");
    assert_eq!(attached(&fail), (OnCorruption::Fail, OnUnknown::Fail));
    for (text, wanted) in [
        ("WITH (on_unknown = 'drop')", "option on_unknown takes fail or skip, not 'drop'"),
        ("WITH (on_unkown = 'skip')", "ON_CORRUPTION and ON_UNKNOWN"),
    ] {
        let error = error(&format!("{attach} {text}"));
        let told = format!("{} {:?}", error.message, error.help);
        assert!(told.contains(wanted), "{told}");
    }
}

/// Which statements have a condition: a column may be called `if`.
#[test]
fn a_condition_is_told_from_a_column_of_that_name() {
    let condition = |text: &str| {
        let Command::Write(write) = command(text) else { panic!("{text}") };
        write.condition.map(|condition| match condition.kind {
            IfKind::Exists => "exists".to_owned(),
            IfKind::NotExists => "not exists".to_owned(),
            IfKind::Compare { comparisons, .. } => {
                let columns = comparisons.iter().map(|one| one.column.value.as_str());
                columns.collect::<Vec<_>>().join(" ")
            }
        })
    };
    for text in [
        "UPDATE t SET if = 1 WHERE k = 1",
        "UPDATE t SET v = 1, if = 2 WHERE k = 1",
        "UPDATE t SET v = 1 WHERE if = 1",
        "UPDATE t SET v = 1 WHERE k = 1 AND if = 2",
        "DELETE FROM t WHERE k = 1 OR if = 2",
        "DELETE FROM t WHERE NOT if",
        "DELETE FROM t WHERE k BETWEEN if AND if",
        "INSERT INTO t (k, if) VALUES (1, 2)",
    ] {
        assert_eq!(condition(text), None, "{text}");
    }
    for (text, wanted) in [
        ("UPDATE t SET v = 1 WHERE k = 1 IF if = 2", "if"),
        ("UPDATE t SET v = 1 WHERE if = 1 IF v = 2 AND if = 3", "v if"),
        ("UPDATE t SET v = 1 WHERE k = if IF EXISTS", "exists"),
        ("UPDATE t SET v = 1 WHERE k = \"where\" IF \"IF\" = 2", "IF"),
        ("UPDATE t SET v = 1 WHERE k IN (1) if v = 2", "v"),
        ("UPDATE t SET v = 1 WHERE k = true IF v = 2", "v"),
        ("DELETE FROM t WHERE k = ? IF EXISTS", "exists"),
        ("DELETE FROM t WHERE k = X'00' IF EXISTS", "exists"),
        ("DELETE FROM t WHERE k = l[1] IF EXISTS", "exists"),
        ("INSERT INTO t (k, if) VALUES (1, 2) IF NOT EXISTS", "not exists"),
    ] {
        assert_eq!(condition(text).as_deref(), Some(wanted), "{text}");
    }
}

#[test]
fn batches_are_of_three_kinds_and_of_so_many_statements_at_most() {
    for (begin, is_logged, is_counter) in [
        ("BEGIN BATCH", true, false),
        ("begin Logged batch", true, false),
        ("BEGIN UNLOGGED BATCH", false, false),
        ("BEGIN COUNTER BATCH", false, true),
    ] {
        let text = format!("{begin} UPDATE t SET c = c + 1 WHERE k = 1; APPLY BATCH");
        let Command::Batch(batch) = command(&text) else { panic!("{text}") };
        assert_eq!((batch.is_logged, batch.is_counter), (is_logged, is_counter), "{text}");
        assert_eq!((batch.writes.len(), batch.timestamp), (1, None), "{text}");
    }
    let most = crate::query::parse::Batch::STATEMENTS_MAX;
    for (count, wanted) in [
        (most + 1, format!("a batch has {} statements, {most} at most are possible", most + 1)),
        // So many are looked at, one by one.
        (most, "a batch takes INSERT, UPDATE and DELETE".to_owned()),
    ] {
        let error = error(&format!("BEGIN BATCH {}APPLY BATCH", "USE t; ".repeat(count)));
        assert_eq!(error.message, wanted);
        assert!(error.span.is_some() && error.help.is_some(), "{error}");
    }
}

#[test]
fn what_is_said_twice_or_left_open_is_refused_where_it_stands() {
    for (text, part, says) in [
        ("CREATE ROLE r WITH LOGIN AND LOGIN = false", "LOGIN = false", "said twice"),
        ("CREATE ROLE r WITH PASSWORD = NULL AND PASSWORD = 'x'", "PASSWORD = 'x'", "said twice"),
        ("CREATE USER r SUPERUSER NOSUPERUSER", "NOSUPERUSER", "said twice"),
        ("ALTER ROLE r WITH SUPERUSER = false AND SUPERUSER", "SUPERUSER", "said twice"),
        ("ALTER ROLE r WITH LOGIN = maybe", "maybe", "expected true or false"),
        ("CREATE ROLE r LOGIN", "LOGIN", "expected WITH"),
        ("CREATE ROLE r WITH ADMIN = true", "ADMIN", "expected PASSWORD, LOGIN or SUPERUSER"),
        ("ALTER ROLE r WITH PASSWORD = x", "x", "expected a password in quotes, or NULL"),
        (
            "CREATE SERVICE LEVEL l WITH shares = 5 AND timeout = 5ms AND shares = NULL",
            "shares",
            "shares is said twice",
        ),
        (
            "ALTER SERVICE LEVEL l WITH timeout = NULL AND timeout = 5ms",
            "timeout",
            "timeout is said twice",
        ),
        (
            "ALTER SERVICE LEVEL l WITH workload_type = 'batch' AND workload_type = NULL",
            "workload_type",
            "workload_type is said twice",
        ),
        ("UPDATE t USING TTL 5 AND TTL 6 SET v = 1 WHERE k = 1", "TTL 6", "given twice"),
        (
            "INSERT INTO t (k) VALUES (1) USING TIMESTAMP 5 AND TIMESTAMP 6",
            "TIMESTAMP 6",
            "given twice",
        ),
        ("UPDATE t USING TTL 5 AND v SET v = 1 WHERE k = 1", "v SET", "expected TTL or TIMESTAMP"),
        ("CREATE TOKEN w OF r VALID FOR 0s", "0s", "never holds"),
        ("RECORD TRACE 'f' FOR 0", "0", "one event at least"),
        ("RECORD TRACE 'f' FOR -1 EVENTS", "-1", "one event at least"),
    ] {
        let error = error(text);
        let column = text.rfind(part).unwrap() as u64 + 1;
        assert_eq!(error.span.map(|span| span.column), Some(column), "{text}: {error}");
        assert!(error.message.contains(says), "{text}: {error}");
    }
}

#[test]
fn a_table_may_be_called_like_what_else_can_be_described() {
    let described = |text: &str| {
        let Command::Own(own) = command(text) else { panic!("{text}") };
        format!("{own:?}").split('(').next().unwrap().to_owned()
    };
    for kind in ["table", "type", "view", "keyspace", "schema", "full"] {
        for text in [format!("DESCRIBE {kind}.t"), format!("DESC \"{kind}\"")] {
            assert_eq!(described(&text), "Columns", "{text}");
        }
    }
    for (text, wanted) in [
        ("DESCRIBE table", "Columns"),
        ("DESCRIBE type", "Columns"),
        ("DESCRIBE View", "Columns"),
        ("DESCRIBE full", "Columns"),
        ("DESCRIBE SCHEMA", "Schema"),
        ("DESCRIBE Keyspace", "Keyspace"),
        ("DESCRIBE keyspace schema", "Keyspace"),
        ("DESCRIBE TABLE schema", "Table"),
        ("DESCRIBE view view.view", "View"),
        ("DESC type type", "Type"),
    ] {
        assert_eq!(described(text), wanted, "{text}");
    }
}

/// EXPLAIN of each kind of statement, with each of its words.
#[test]
fn explain_goes_to_who_explains_the_statement() {
    let kind = |text: &str| match command(text) {
        Command::Query(_) => "query".to_owned(),
        Command::ExplainWrite(_) => "write".to_owned(),
        Command::Own(own) => format!("{own:?}").split([' ', '(']).next().unwrap().to_owned(),
        _ => panic!("{text}"),
    };
    for (rest, plain, analyzed) in [
        ("SELECT 1", "query", Some("query")),
        ("WITH a AS (SELECT 1) SELECT * FROM a", "query", Some("query")),
        ("SUMMARIZE t", "Summarize", Some("Summarize")),
        ("summarize SELECT 1", "Summarize", Some("Summarize")),
        ("INSERT INTO t (k) VALUES (1)", "write", None),
        ("UPDATE t SET v = 1 WHERE k = 1", "write", None),
        ("delete FROM t WHERE k = 1", "write", None),
    ] {
        for words in ["EXPLAIN", "explain VERBOSE"] {
            assert_eq!(kind(&format!("{words} {rest}")), plain, "{words} {rest}");
        }
        for words in ["EXPLAIN ANALYZE", "EXPLAIN analyze VERBOSE"] {
            let text = format!("{words} {rest}");
            match analyzed {
                Some(wanted) => assert_eq!(kind(&text), wanted, "{text}"),
                None => assert!(error(&text).message.contains("would run the write"), "{text}"),
            }
        }
    }
}

#[test]
fn what_stands_in_braces_is_of_one_kind() {
    let insert = |value: &str| format!("INSERT INTO t (k, v) VALUES (1, {value})");
    for value in [
        "{}",
        "{1}",
        "{1, 2,}",
        "{'a': 1, 'b': 2}",
        "{true: 1, null: 2}",
        "{a: 1, B: 'x'}",
        "{1: {2: {3}}, 4: {}}",
        "{a: {b: {'c': 1}}}",
    ] {
        assert!(matches!(command(&insert(value)), Command::Write(_)), "{value}");
    }
    for value in
        ["{1, 'a': 2}", "{'a': 1, 2}", "{a: 1, 'b': 2}", "{'a': 1, b: 2}", "{1, b: 2}", "{a: 1, 2}"]
    {
        let error = error(&insert(value));
        assert!(error.message.contains("elements of one kind"), "{value}: {error}");
    }
    for value in ["{", "{1", "{1 2}", "{,}", "{'a': }"] {
        assert!(error(&insert(value)).span.is_some(), "{value}");
    }
}
