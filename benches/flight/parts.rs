//! A scan whose parts are read side by side, and the same scan as one stream; and how many of the
//! machine's processors the server and its client keep busy meanwhile.

use crate::client::{Place, fill, scan};
use crate::frame::{Arguments, Row, Target, cpu_timed, median, median_ratio, wall};
use crate::server::Server;

const NAME: &str = "scan by an endpoint for each shard";
const ONE_BUSY: &str = "scan by an endpoint for each shard: one endpoint keeps busy";
const ALL_BUSY: &str = "scan by an endpoint for each shard: all keep busy";

pub async fn print(arguments: &Arguments) {
    if !arguments.wants(NAME) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(&directory.path().join("data"));
    let place = Place::plain(&server.address);
    fill(&mut place.connect().await, arguments.scale(300_000, 3_000_000) as i64).await;
    let (mut rounds, mut busy) = (Vec::new(), [const { Vec::new() }; 2]);
    for _ in 0..arguments.scale(3, 7) {
        let (one, of_one) = measured(&server, &place, "one").await;
        let (side_by_side, of_all) = measured(&server, &place, "shards").await;
        rounds.push((side_by_side, one));
        busy[0].push(of_one);
        busy[1].push(of_all);
    }
    server.stop();
    let (figure, one) = median_ratio(rounds);
    let (baseline, target) = (Some(("one endpoint", one)), Target::RatioAtLeast(1.5));
    Row { name: NAME, unit: "MB/s", figure, baseline, target }.print(arguments);
    let processors = std::thread::available_parallelism().unwrap().get() as f64;
    let baseline = Some(("processors of the machine", processors));
    for (name, busy) in [ONE_BUSY, ALL_BUSY].into_iter().zip(busy) {
        let (unit, figure) = ("processors", median(busy));
        Row { name, unit, figure, baseline, target: Target::None }.print(arguments);
    }
}

/// MB a second of a scan, and how many processors the server and this process kept busy.
async fn measured(server: &Server, place: &Place, endpoints: &str) -> (f64, f64) {
    let (before, start) = (server.cpu(), wall());
    let (rate, own) = cpu_timed(scan(place, endpoints)).await;
    let busy = (server.cpu() - before + own).as_secs_f64() / (wall() - start).as_secs_f64();
    (rate / 1e6, busy)
}
