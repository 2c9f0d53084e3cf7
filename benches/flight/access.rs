//! What it costs a call that somebody asks who it is: the CPU time of two servers, of which one has
//! roles.

use std::time::Duration;

use arrow::array::AsArray;
use arrow_flight::Empty;
use futures::{StreamExt, TryStreamExt, stream};
use tidegate::query::{Session, SessionOptions};
use tidegate_engine::{Database, Options};
use tonic::Request;

use crate::client::Place;
use crate::flight_client::Client;
use crate::frame::{Arguments, Row, Target, median};
use crate::server::Server;

const NAME: &str = "who is it, a call with a known token";
const IN_FLIGHT: usize = 32;

/// A database with a role that has a token, which is returned.
async fn create(directory: &std::path::Path) -> String {
    let options = Options { shards: Some(2), ..Options::new(directory) };
    let database = Database::open(options).await.unwrap();
    let session = Session::new(database, SessionOptions::default()).unwrap();
    let mut told = Vec::new();
    for statement in ["CREATE ROLE ann WITH LOGIN = true", "CREATE TOKEN bench OF ann"] {
        told = session.execute(statement).await.unwrap().collect().await.unwrap();
    }
    session.database().close().await.unwrap();
    let told = told[0].column(0).as_string::<i32>().value(0);
    told.lines().next().unwrap().to_owned()
}

/// CPU µs of the server for each of so many calls that do next to nothing.
async fn calls(server: &Server, client: &Client, token: &str, count: usize) -> f64 {
    let call = |_| {
        let mut inner = client.inner().clone();
        let mut request = Request::new(Empty {});
        let header = format!("Bearer {token}").parse().unwrap();
        request.metadata_mut().insert("authorization", header);
        async move {
            let answers = inner.list_actions(request).await.unwrap().into_inner();
            assert!(!answers.try_collect::<Vec<_>>().await.unwrap().is_empty());
        }
    };
    let before = server.cpu();
    let mut all = stream::iter(0..count).map(call).buffer_unordered(IN_FLIGHT);
    while all.next().await.is_some() {}
    let taken: Duration = server.cpu() - before;
    taken.as_secs_f64() * 1e6 / count as f64
}

pub async fn print(arguments: &Arguments) {
    if !arguments.wants(NAME) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let [open, asking] = ["open", "asking"].map(|name| directory.path().join(name));
    let token = create(&asking).await;
    let servers = [Server::start(&open), Server::start(&asking)];
    let mut clients = Vec::new();
    for server in &servers {
        clients.push(Place::plain(&server.address).connect().await);
    }
    // The kernel tells CPU time in steps of 10 ms.
    let count = arguments.scale(20_000, 60_000);
    let (mut more, mut without) = (Vec::new(), Vec::new());
    for _ in 0..arguments.scale(5, 15) {
        let mut figures = [0.0; 2];
        for (at, figure) in figures.iter_mut().enumerate() {
            *figure = calls(&servers[at], &clients[at], &token, count).await;
        }
        more.push(figures[1] - figures[0]);
        without.push(figures[0]);
    }
    servers.into_iter().for_each(Server::stop);
    let (figure, baseline) = (median(more), Some(("the call without roles", median(without))));
    Row { name: NAME, unit: "CPU us", figure, baseline, target: Target::AtMost(2.0) }
        .print(arguments);
}
