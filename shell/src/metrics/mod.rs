//! What monitoring asks over HTTP: `/metrics` for Prometheus, `/health` for whoever starts and
//! stops the program.
//!
//! Invariant: figures are those of the tables in `system`, so an operator sees the same in SQL. One
//! scrape at a time is answered, however many ask.

mod text;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::Mutex;

use crate::query::{QueryError, Session, split};
use crate::stderr::tell_line;
use text::Exposition;

/// How long the shards may take to say that they work.
const HEALTH_WAIT: Duration = Duration::from_secs(2);
/// Asks every shard.
const HEALTH: &str = "SELECT count(*) FROM system.admission";
/// Format of the answer to a scrape.
const FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Tables whose rows are metrics: the start of their names, and the columns.
const TABLES: [(&str, &str); 4] = [
    ("memory", "SELECT shard, pool, bytes, limit_bytes FROM system.memory"),
    ("io", "SELECT * EXCEPT (place) FROM system.io"),
    ("admission", "SELECT * FROM system.admission"),
    (
        "table",
        "SELECT keyspace_name, table_name, memtable_rows, memtable_bytes, sstables, sstable_rows, \
         sstable_bytes FROM system.tables",
    ),
];
/// Metrics that have a row each.
const NAMED: &str = "SELECT * FROM system.metrics ORDER BY name, shard, keyspace_name, table_name";

/// Where metrics are asked for.
pub(crate) struct Metrics {
    session: Mutex<Session>,
}

impl Metrics {
    /// Metrics that `session` reads.
    pub(crate) fn new(session: Session) -> Arc<Self> {
        Arc::new(Metrics { session: Mutex::new(session) })
    }

    /// Answers on `listen` for as long as the threads of the caller run.
    ///
    /// Errors: a sentence when the address cannot be used.
    pub(crate) async fn listen(self: Arc<Self>, listen: SocketAddr) -> Result<(), String> {
        let told =
            |error: std::io::Error| format!("cannot listen on {listen} for metrics: {error}");
        let listener = TcpListener::bind(listen).await.map_err(told)?;
        let address = listener.local_addr().map_err(told)?;
        let routes = Router::new()
            .route("/metrics", get(scrape))
            .route("/health", get(health))
            .with_state(self);
        tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, routes).await {
                tracing::error!(%error, "metrics are not served any more");
            }
        });
        tell_line!("metrics on http://{address}/metrics");
        Ok(())
    }

    /// Asks every shard whether it works.
    ///
    /// Errors: what is wrong, also where they take too long.
    pub(crate) async fn health(&self) -> Result<(), String> {
        let asked = async {
            let session = self.session.lock().await;
            rows_of(&session, HEALTH).await
        };
        match tokio::time::timeout(HEALTH_WAIT, asked).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => {
                let seconds = HEALTH_WAIT.as_secs();
                Err(format!("the shards have not answered for {seconds} seconds"))
            }
        }
    }

    async fn text(&self) -> Result<String, QueryError> {
        let session = self.session.lock().await;
        let mut exposition = Exposition::default();
        for rows in rows_of(&session, NAMED).await? {
            exposition.add_named(&rows);
        }
        for (prefix, query) in TABLES {
            for rows in rows_of(&session, query).await? {
                exposition.add_columns(prefix, &rows);
            }
        }
        Ok(exposition.finish())
    }
}

async fn rows_of(
    session: &Session,
    query: &str,
) -> Result<Vec<crate::query::arrow::array::RecordBatch>, QueryError> {
    let mut rows = Vec::new();
    for statement in split(query)? {
        rows.extend(session.run(&statement).await?.collect().await?);
    }
    Ok(rows)
}

async fn scrape(State(metrics): State<Arc<Metrics>>) -> impl IntoResponse {
    match metrics.text().await {
        Ok(text) => (StatusCode::OK, [(CONTENT_TYPE, FORMAT)], text),
        Err(error) => {
            let text = format!("{error}\n");
            (StatusCode::INTERNAL_SERVER_ERROR, [(CONTENT_TYPE, "text/plain")], text)
        }
    }
}

async fn health(State(metrics): State<Arc<Metrics>>) -> impl IntoResponse {
    match metrics.health().await {
        Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")),
    }
}

#[cfg(test)]
mod tests {
    use tidegate_engine::{Database, Options};

    use super::*;
    use crate::query::SessionOptions;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn health_is_told_also_while_a_scrape_hangs() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(Options::new(directory.path().join("data"))).await.unwrap();
        let session = Session::new(database.clone(), SessionOptions::default()).unwrap();
        let metrics = Metrics::new(session);
        assert_eq!(metrics.health().await, Ok(()));
        // As a scrape holds it that waits for a shard.
        let scrape = metrics.session.lock().await;
        let told = tokio::time::timeout(10 * HEALTH_WAIT, metrics.health()).await;
        let told = told.expect("nobody waits for a scrape").unwrap_err();
        assert!(told.contains("have not answered for 2 seconds"), "{told}");
        drop(scrape);
        assert_eq!(metrics.health().await, Ok(()));
        database.close().await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_does_not_work_shows_in_the_status_of_the_answer() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(Options::new(directory.path().join("data"))).await.unwrap();
        let session = Session::new(database.clone(), SessionOptions::default()).unwrap();
        let metrics = Metrics::new(session);
        let healthy = health(State(Arc::clone(&metrics))).await.into_response();
        assert_eq!(healthy.status(), StatusCode::OK);
        let scraped = scrape(State(Arc::clone(&metrics))).await.into_response();
        assert_eq!(scraped.status(), StatusCode::OK);
        assert_eq!(scraped.headers()[CONTENT_TYPE], FORMAT);
        database.close().await.unwrap();
        let unhealthy = health(State(Arc::clone(&metrics))).await.into_response();
        assert_eq!(unhealthy.status(), StatusCode::SERVICE_UNAVAILABLE);
        let failed = scrape(State(metrics)).await.into_response();
        assert_eq!(failed.status(), StatusCode::INTERNAL_SERVER_ERROR);
    }
}
