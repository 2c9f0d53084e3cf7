//! A service behind TLS beside one without, on copies of the same data.

use std::path::Path;

use rcgen::{CertificateParams, KeyPair};

use crate::client::{Place, fill, point_reads, scan};
use crate::frame::{Arguments, Row, Target, copy, median_ratio};
use crate::server::Server;

const SCAN: &str = "scan by TLS";
const POINTS: &str = "point reads by TLS, 16 clients";
const CLIENTS: usize = 16;

/// Writes a certificate for this machine, which is its own authority, and its key.
fn certify(directory: &Path) -> String {
    let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap().pem();
    std::fs::write(directory.join("cert.pem"), &certificate).unwrap();
    std::fs::write(directory.join("key.pem"), key.serialize_pem()).unwrap();
    certificate
}

pub async fn print(arguments: &Arguments) {
    if ![SCAN, POINTS].iter().any(|name| arguments.wants(name)) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let [plain, secured] = ["plain", "tls"].map(|name| directory.path().join(name));
    let rows = arguments.scale(200_000, 2_000_000) as i64;
    let server = Server::start(&plain);
    fill(&mut Place::plain(&server.address).connect().await, rows).await;
    server.stop();
    copy(&plain, &secured);
    let authority = certify(directory.path());
    let [cert, key] = ["cert.pem", "key.pem"].map(|name| directory.path().join(name));
    let serving = ["--tls-cert", cert.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    let servers = [Server::start(&plain), Server::start_serving(&secured, &[], &serving)];
    let places = [
        Place::plain(&servers[0].address),
        Place { address: servers[1].address.clone(), authority: Some(authority) },
    ];
    let (mut scans, mut points) = (Vec::new(), Vec::new());
    let calls = arguments.scale(4_000, 40_000) / CLIENTS;
    for _ in 0..arguments.scale(3, 9) {
        let [mut scanned, mut read] = [[0.0; 2]; 2];
        for (at, place) in places.iter().enumerate() {
            scanned[at] = scan(place, "one").await / 1e6;
            read[at] = point_reads(place, (CLIENTS, calls), rows).await;
        }
        scans.push((scanned[1], scanned[0]));
        points.push((read[1], read[0]));
    }
    servers.into_iter().for_each(Server::stop);
    for (name, unit, rounds, bound) in
        [(SCAN, "MB/s", scans, 0.85), (POINTS, "reads/s", points, 0.9)]
    {
        let (figure, plain) = median_ratio(rounds);
        let (baseline, target) = (Some(("plain", plain)), Target::RatioAtLeast(bound));
        Row { name, unit, figure, baseline, target }.print(arguments);
    }
}
