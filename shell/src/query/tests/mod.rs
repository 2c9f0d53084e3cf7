//! SQL against a database in a temporary directory.

mod access;
mod answer;
mod deep;
mod heading;
mod order;
mod plan;
mod policy;
mod prepared;
mod relational;
mod replay;
mod row_value;
mod select;
mod session;
mod short;
mod statements;
mod token;
mod types;
mod watch;
mod wide;
mod write;

use datafusion::arrow::array::Array as _;
use datafusion::arrow::util::pretty::pretty_format_batches;
use tempfile::TempDir;
use tidegate_engine::{Database, Options};

use super::{Outcome, OutcomeKind, QueryError, Session, SessionOptions, split};

/// Runs on threads as the program has them: statements that go deep want a long stack.
fn on_long_stack(work: impl Future<Output = ()> + Send + 'static) {
    let threads = crate::thread::pool().unwrap();
    threads.block_on(threads.spawn(work)).unwrap();
}

/// A session on an empty database of two shards.
struct World {
    session: Session,
    directory: TempDir,
}

impl World {
    async fn new() -> World {
        World::with(SessionOptions::default()).await
    }

    async fn with(options: SessionOptions) -> World {
        World::of_shards(2, options).await
    }

    async fn of_shards(shards: u32, options: SessionOptions) -> World {
        let directory = tempfile::tempdir().unwrap();
        let mut open = Options::new(directory.path().join("data"));
        open.shards = Some(shards);
        let database = Database::open(open).await.unwrap();
        World { session: Session::new(database, options).unwrap(), directory }
    }

    /// The table of weather: one partition an airport, newest hours first.
    async fn weather() -> World {
        let world = World::new().await;
        world
            .run(
                "CREATE TABLE weather (origin text, time_hour timestamp, temp double, note text, \
                 PRIMARY KEY ((origin), time_hour))",
            )
            .await;
        for origin in ["EWR", "JFK", "LGA"] {
            for day in 1..=9 {
                let text = format!(
                    "INSERT INTO weather (origin, time_hour, temp, note) VALUES \
                     ('{origin}', '2013-07-0{day}T00:00:00Z', {day}.5, 'n{day}')"
                );
                world.run(&text).await;
            }
        }
        world
    }

    async fn try_run(&self, text: &str) -> Result<Outcome, QueryError> {
        self.session.execute(text).await
    }

    async fn run(&self, text: &str) -> Outcome {
        match self.try_run(text).await {
            Ok(outcome) => outcome,
            Err(error) => panic!("{}", error.render(text)),
        }
    }

    async fn count(&self, text: &str) -> u64 {
        match self.run(text).await.kind {
            OutcomeKind::Count(count) => count,
            _ => panic!("no count: {text}"),
        }
    }

    /// The rows as a table of text.
    async fn rows(&self, text: &str) -> String {
        let batches = self.run(text).await.collect().await.unwrap();
        pretty_format_batches(&batches).unwrap().to_string()
    }

    /// The first column of all rows, as text.
    async fn column(&self, text: &str) -> Vec<String> {
        use datafusion::arrow::util::display::array_value_to_string;
        let batches = self.run(text).await.collect().await.unwrap();
        batches
            .iter()
            .flat_map(|batch| {
                (0..batch.num_rows())
                    .map(|row| array_value_to_string(batch.column(0), row).unwrap())
                    .collect::<Vec<_>>()
            })
            .collect()
    }

    /// The physical plan, indented.
    async fn plan(&self, text: &str) -> String {
        let batches = self.run(&format!("EXPLAIN {text}")).await.collect().await.unwrap();
        let texts = datafusion::common::cast::as_string_array(batches[0].column(1)).unwrap();
        texts.value(texts.len() - 1).to_owned()
    }

    async fn error(&self, text: &str) -> QueryError {
        match self.try_run(text).await {
            Err(error) => error,
            Ok(outcome) => match outcome.collect().await {
                Err(error) => error,
                Ok(_) => panic!("no error: {text}"),
            },
        }
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().to_owned()
    }
}
