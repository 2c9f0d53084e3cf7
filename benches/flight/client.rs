//! Clients of these rows, and the table that they read.

use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::sql::client::FlightSqlServiceClient;
use arrow_flight::sql::{CommandStatementIngest, TableDefinitionOptions, TableExistsOption};
use futures::future::join_all;
use futures::{TryStreamExt, stream};
use tidegate_engine::clock::Random;
use tonic::transport::{Certificate, Channel, ClientTlsConfig};

use crate::flight_client::{Client, batch, query};
use crate::frame::table::VALUE_BYTES;
use crate::frame::wall;

pub const ROWS_PER_PARTITION: i64 = 100;
/// Rows of a batch of an ingest.
const BATCH_ROWS: i64 = 10_000;
const TABLE: &str = "CREATE TABLE rows (pk bigint, ck bigint, v blob, PRIMARY KEY (pk, ck))";

/// Where a server is, and the authority in PEM of one that speaks TLS.
#[derive(Clone)]
pub struct Place {
    pub address: String,
    pub authority: Option<String>,
}

impl Place {
    pub fn plain(address: &str) -> Self {
        Place { address: address.to_owned(), authority: None }
    }

    pub async fn connect(&self) -> Client {
        let scheme = if self.authority.is_some() { "https" } else { "http" };
        let mut endpoint =
            Channel::from_shared(format!("{scheme}://{}", self.address)).unwrap().tcp_nodelay(true);
        if let Some(authority) = &self.authority {
            let authority = Certificate::from_pem(authority);
            let config = ClientTlsConfig::new().ca_certificate(authority).domain_name("localhost");
            endpoint = endpoint.tls_config(config).unwrap();
        }
        let client = FlightServiceClient::new(endpoint.connect().await.unwrap());
        FlightSqlServiceClient::new_from_inner(client.max_decoding_message_size(1 << 30))
    }
}

/// Makes a table of so many rows, durable in SSTables.
pub async fn fill(client: &mut Client, count: i64) {
    client.execute_update(TABLE.to_owned(), None).await.unwrap();
    let command = CommandStatementIngest {
        table: "rows".to_owned(),
        table_definition_options: Some(TableDefinitionOptions {
            if_exists: TableExistsOption::Append.into(),
            ..TableDefinitionOptions::default()
        }),
        ..CommandStatementIngest::default()
    };
    let firsts: Vec<i64> = (0..count).step_by(BATCH_ROWS as usize).collect();
    let batches =
        firsts.into_iter().map(|first| Ok(batch((first, BATCH_ROWS), ROWS_PER_PARTITION)));
    let written = client.execute_ingest(command, stream::iter(batches)).await.unwrap();
    assert_eq!(written, count);
    client.execute_update("FLUSH rows".to_owned(), None).await.unwrap();
}

/// Bytes of Arrow a second of a scan, whose endpoints (`one` or `shards`) are read side by side,
/// each by a client of its own.
pub async fn scan(place: &Place, endpoints: &str) -> f64 {
    let mut asking = place.connect().await;
    asking.set_header("result.endpoints", endpoints);
    let start = wall();
    let info = asking.execute("SELECT * FROM rows".to_owned(), None).await.unwrap();
    let readers = info.endpoint.into_iter().map(|endpoint| {
        let place = place.clone();
        tokio::spawn(async move {
            let mut reader = place.connect().await;
            let mut batches = reader.do_get(endpoint.ticket.unwrap()).await.unwrap();
            let mut rows = 0;
            while let Some(batch) = batches.try_next().await.unwrap() {
                rows += batch.num_rows();
            }
            rows
        })
    });
    let rows: usize = join_all(readers).await.into_iter().map(|rows| rows.unwrap()).sum();
    (rows * (8 + 8 + VALUE_BYTES + 4)) as f64 / (wall() - start).as_secs_f64()
}

/// Point reads a second by so many clients, of a table of so many rows.
pub async fn point_reads(place: &Place, (clients, calls): (usize, usize), rows: i64) -> f64 {
    let connected = join_all((0..clients).map(|_| place.connect())).await;
    let start = wall();
    let all = connected.into_iter().enumerate().map(|(number, mut client)| {
        tokio::spawn(async move {
            let mut random = Random::new(number as u64);
            for _ in 0..calls {
                let row = random.below(rows as u64) as i64;
                let (pk, ck) = (row / ROWS_PER_PARTITION, row % ROWS_PER_PARTITION);
                let text = format!("SELECT v FROM rows WHERE pk = {pk} AND ck = {ck}");
                assert_eq!(query(&mut client, text).await[0].num_rows(), 1);
            }
        })
    });
    for done in join_all(all.collect::<Vec<_>>()).await {
        done.unwrap();
    }
    (clients * calls) as f64 / (wall() - start).as_secs_f64()
}
