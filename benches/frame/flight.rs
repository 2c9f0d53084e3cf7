//! Clients of Flight SQL over loopback.

use std::time::Duration;

use arrow::array::RecordBatch;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::sql::client::FlightSqlServiceClient;
use futures::TryStreamExt;
use tonic::transport::Channel;

use super::wall;

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
