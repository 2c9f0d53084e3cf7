//! A client of Flight SQL over loopback, and the batches that it sends.
//!
//! Not of the frame: other engines are measured in it as well, by a build without Arrow.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, BinaryArray, Int64Array, RecordBatch};
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::sql::client::FlightSqlServiceClient;
use futures::TryStreamExt;
use tonic::transport::Channel;

use crate::frame::table::VALUE_BYTES;
use crate::frame::wall;

pub type Client = FlightSqlServiceClient<Channel>;

pub async fn connect(address: &str) -> Client {
    let channel = Channel::from_shared(format!("http://{address}")).unwrap();
    let client = FlightServiceClient::new(channel.tcp_nodelay(true).connect().await.unwrap());
    FlightSqlServiceClient::new_from_inner(client)
}

/// The rows of a query, of its first endpoint.
pub async fn query(client: &mut Client, text: String) -> Vec<RecordBatch> {
    let info = client.execute(text, None).await.unwrap();
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    client.do_get(ticket).await.unwrap().try_collect().await.unwrap()
}

/// Waits for the next moment of a pace. One that is late goes on at once, and catches up.
pub async fn pace(due: &mut Duration, per_second: u32) {
    *due += Duration::from_secs(1) / per_second;
    tokio::time::sleep(due.saturating_sub(wall())).await;
}

/// The value of the row of this number.
pub fn value(row: i64) -> [u8; VALUE_BYTES] {
    let mut value = [b'v'; VALUE_BYTES];
    value[..8].copy_from_slice(&row.to_be_bytes());
    value
}

/// So many rows from number `first` on, as a client sends them.
pub fn batch((first, count): (i64, i64), rows_per_partition: i64) -> RecordBatch {
    let numbers = || first..first + count;
    let pk = Int64Array::from_iter_values(numbers().map(|row| row / rows_per_partition));
    let ck = Int64Array::from_iter_values(numbers().map(|row| row % rows_per_partition));
    let v = BinaryArray::from_iter_values(numbers().map(value));
    let columns: [(&str, ArrayRef); 3] =
        [("pk", Arc::new(pk)), ("ck", Arc::new(ck)), ("v", Arc::new(v))];
    RecordBatch::try_from_iter(columns).unwrap()
}
