//! Writes and reads of a running service, many at once over one stream each.
//!
//! Start `tidegate serve --data some-directory --listen 127.0.0.1:31337`, then run
//! `cargo run --release --example exchange -- 127.0.0.1:31337`. It makes the table `visits`.

use std::error::Error;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::sql::client::FlightSqlServiceClient;
use futures::future::try_join_all;
use tidegate::flight::Exchange;
use tonic::transport::Channel;

const TABLE: &str = "CREATE TABLE IF NOT EXISTS visits
    (page bigint, at bigint, visitor text, PRIMARY KEY (page, at)) WITH CLUSTERING ORDER BY (at DESC)";
const PAGES: i64 = 100;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:31337".to_owned());
    for line in run(&address).await? {
        println!("{line}");
    }
    Ok(())
}

/// What the program prints.
pub async fn run(address: &str) -> Result<Vec<String>, Box<dyn Error>> {
    let channel = Channel::from_shared(format!("http://{address}"))?.connect().await?;
    let mut client = FlightServiceClient::new(channel);
    let mut sql = FlightSqlServiceClient::new_from_inner(client.clone());
    sql.execute_update(TABLE.to_owned(), None).await?;

    // Every call is one execution; calls are answered as they are done.
    let text = "INSERT INTO visits (page, at, visitor) VALUES (?, ?, ?)";
    let writes = Exchange::prepare(&mut client, text).await?;
    let visits: Vec<RecordBatch> = (0..PAGES).map(visits_of).collect::<Result<_, _>>()?;
    let counts = try_join_all(visits.iter().map(|rows| writes.execute(rows))).await?;
    let written: i64 = counts.iter().flatten().map(count).sum();

    let text = "SELECT at, visitor FROM visits WHERE page = ? LIMIT 1";
    let reads = Exchange::prepare(&mut client, text).await?;
    let pages: Vec<RecordBatch> = (0..PAGES).map(page).collect::<Result<_, _>>()?;
    let last = try_join_all(pages.iter().map(|page| reads.execute(page))).await?;
    let known = last.iter().flatten().filter(|rows| rows.num_rows() == 1).count();
    let visitor = last[7][0].column(1).as_string::<i32>().value(0);
    Ok(vec![
        format!("{written} visits written by {PAGES} executions"),
        format!("the last visit of {known} pages read; page 7 was seen last by {visitor}"),
    ])
}

/// Parameters of one execution: three visits of a page.
fn visits_of(page: i64) -> Result<RecordBatch, arrow::error::ArrowError> {
    let visitors = (0..3).map(|at| format!("visitor {}", page * 3 + at));
    let columns: [(&str, ArrayRef); 3] = [
        ("page", Arc::new(Int64Array::from(vec![page; 3]))),
        ("at", Arc::new(Int64Array::from(vec![1, 2, 3]))),
        ("visitor", Arc::new(StringArray::from_iter_values(visitors))),
    ];
    RecordBatch::try_from_iter(columns)
}

fn page(page: i64) -> Result<RecordBatch, arrow::error::ArrowError> {
    let column: ArrayRef = Arc::new(Int64Array::from(vec![page]));
    RecordBatch::try_from_iter([("page", column)])
}

/// The count that a write answers with.
fn count(answer: &RecordBatch) -> i64 {
    answer.column(0).as_primitive::<Int64Type>().value(0)
}
