//! What a fuzzer makes of statements.
//!
//! A text is taken apart; what the short path takes of it gives what the planner's path gives. A
//! statement that writes is prepared and not run: the next input finds the rows as they were.

use std::sync::OnceLock;

use datafusion::arrow::util::pretty::pretty_format_batches;
use tempfile::TempDir;
use tidegate_engine::{Database, Options};
use tokio::runtime::Runtime;

use super::parse::statement::Statement;
use super::{Session, SessionOptions, split};

const DEFINITIONS: [&str; 4] = [
    "CREATE TABLE t (pk bigint, ck bigint, v bigint, note text, PRIMARY KEY (pk, ck))",
    "CREATE TABLE typed (pk text PRIMARY KEY, a boolean, b int, c double, d timestamp, f varint)",
    "INSERT INTO t (pk, ck, v, note) VALUES (1, 1, 10, 'a'), (1, 2, 20, NULL), (1, 3, 5, ''), \
     (2, 1, 30, 'b')",
    "INSERT INTO typed (pk, a, b, c, d, f) VALUES ('x', true, 1, 1.5, '2020-01-01T00:00:00Z', 7)",
];

/// Right statements.
const SEEDS: [&str; 16] = [
    "SELECT * FROM t WHERE pk = 1 AND ck >= 1 AND ck < 3 ORDER BY ck DESC LIMIT 2",
    "SELECT v, note, pk FROM t WHERE pk IN (1, 2) AND ck = 1",
    "SELECT * FROM t WHERE pk = 1 PER PARTITION LIMIT 1",
    "SELECT count(*), sum(v), min(note) FROM t WHERE pk = 1",
    "SELECT writetime(v), ttl(note) FROM t WHERE pk = 1 AND ck = 1",
    "SELECT * FROM typed WHERE pk = 'x'",
    "SELECT a, b, c, d, f FROM typed WHERE pk = 'it''s'",
    "SELECT * FROM t WHERE pk = -1 AND ck > -9223372036854775808",
    "INSERT INTO t (pk, ck, v, note) VALUES (3, 1, 4, 'n') USING TTL 60 AND TIMESTAMP 5",
    "INSERT INTO t (pk, ck) VALUES ($1, $2) IF NOT EXISTS",
    "UPDATE t USING TTL 5 SET v = 5, note = NULL WHERE pk = 1 AND ck IN (1, 2) IF v = 3",
    "DELETE note FROM t WHERE pk = 2 AND ck = 1",
    "BEGIN UNLOGGED BATCH INSERT INTO t (pk, ck) VALUES (1, 1); DELETE FROM t WHERE pk = 2; APPLY BATCH",
    "select \"v\" from \"default\".t where pk = ? and ck <= ?; -- note",
    "SELECT ck /* a */, v FROM t WHERE (pk = 1) AND v > 5 LIMIT 1",
    "WITH a AS (SELECT pk, max(v) AS v FROM t GROUP BY pk) SELECT * FROM a ORDER BY 1",
];

struct World {
    threads: Runtime,
    /// The short path is on.
    short: Session,
    /// It is off.
    planned: Session,
    _directory: TempDir,
}

static WORLD: OnceLock<World> = OnceLock::new();

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a folder");
        let threads = crate::thread::pool().expect("threads");
        let (short, planned) = threads.block_on(async {
            let mut options = Options::new(directory.path().join("data"));
            options.shards = Some(2);
            let database = Database::open(options).await.expect("a new database");
            let session = || Session::new(database.clone(), SessionOptions::default());
            let (short, planned) = (session().expect("a session"), session().expect("a session"));
            for definition in DEFINITIONS {
                let done = short.execute(definition).await.expect(definition);
                done.collect().await.expect(definition);
            }
            let off = planned.execute("SET tidegate.short_path = false").await;
            off.expect("an option of sessions");
            (short, planned)
        });
        World { threads, short, planned, _directory: directory }
    }

    /// What the short path takes of a text gives the same on both.
    async fn compare(&self, statement: &Statement) {
        let keyspace = self.short.keyspace();
        let prepared = self.short.prepare(statement.clone(), &keyspace);
        let made = self.short.made(&prepared);
        let reads = made.short().is_some_and(|short| short.rows_schema().is_some());
        if !reads || statement.parameter_count() > 0 {
            return;
        }
        let (short, planned) =
            (run(&self.short, statement).await, run(&self.planned, statement).await);
        match (&short, &planned) {
            (Ok(short), Ok(planned)) => assert_eq!(short, planned, "{}", statement.text()),
            (Err(_), Err(_)) => {}
            _ => panic!("one path refuses {}: {short:?}, {planned:?}", statement.text()),
        }
    }
}

/// The rows of a query, as text.
async fn run(session: &Session, statement: &Statement) -> Result<String, String> {
    let outcome = session.run(statement).await.map_err(|error| error.to_string())?;
    let batches = outcome.collect().await.map_err(|error| error.to_string())?;
    pretty_format_batches(&batches).map(|rows| rows.to_string()).map_err(|error| error.to_string())
}

/// A text of statements.
pub(crate) fn statements(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    super::is_complete(text);
    let Ok(statements) = split(text) else { return };
    let world = WORLD.get_or_init(World::new);
    world.threads.block_on(async {
        let compared = world.threads.spawn(async move {
            for statement in &statements {
                world.compare(statement).await;
            }
        });
        compared.await.expect("statements that do not panic");
    });
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    SEEDS.iter().map(|text| text.as_bytes().to_vec()).collect()
}
