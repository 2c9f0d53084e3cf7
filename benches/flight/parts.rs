//! A scan whose parts are read side by side, and the same scan as one stream.

use crate::client::{Place, fill, scan};
use crate::frame::{Arguments, Row, Target, median_ratio};
use crate::server::Server;

const NAME: &str = "scan by an endpoint for each shard";

pub async fn print(arguments: &Arguments) {
    if !arguments.wants(NAME) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(&directory.path().join("data"));
    let place = Place::plain(&server.address);
    fill(&mut place.connect().await, arguments.scale(300_000, 3_000_000) as i64).await;
    let mut rounds = Vec::new();
    for _ in 0..arguments.scale(3, 7) {
        let one = scan(&place, "one").await / 1e6;
        rounds.push((scan(&place, "shards").await / 1e6, one));
    }
    server.stop();
    let (figure, one) = median_ratio(rounds);
    let (baseline, target) = (Some(("one endpoint", one)), Target::RatioAtLeast(1.5));
    Row { name: NAME, unit: "MB/s", figure, baseline, target }.print(arguments);
}
