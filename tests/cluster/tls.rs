//! Nodes that speak TLS to each other.

use rcgen::{CertificateParams, KeyPair};
use tonic::transport::{Certificate, ClientTlsConfig};

use super::*;

#[test]
fn nodes_speak_tls_where_the_ring_has_an_authority() {
    let mut cluster = Cluster::new(2);
    let folder = cluster.directory.path().to_owned();
    let params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    let key = KeyPair::generate().unwrap();
    let authority = params.self_signed(&key).unwrap().pem();
    fs::write(folder.join("cert.pem"), &authority).unwrap();
    fs::write(folder.join("key.pem"), key.serialize_pem()).unwrap();
    let file = fs::read_to_string(cluster.ring_file()).unwrap();
    let mut ring: serde_json::Value = serde_json::from_str(&file).unwrap();
    ring["authority"] = "cert.pem".into();
    for place in 0..2 {
        let address = format!("grpc+tls://127.0.0.1:{}", cluster.ports[place]);
        ring["nodes"][name(place)] = address.into();
    }
    fs::write(cluster.ring_file(), ring.to_string()).unwrap();
    for (option, file) in [("--tls-cert", "cert.pem"), ("--tls-key", "key.pem")] {
        cluster.options.push(option.to_owned());
        cluster.options.push(folder.join(file).display().to_string());
    }
    let cluster = cluster.started(2);
    threads().block_on(async {
        let mut clients = Vec::new();
        for port in &cluster.ports {
            let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&authority));
            let endpoint = Channel::from_shared(format!("https://127.0.0.1:{port}")).unwrap();
            let channel = endpoint.tls_config(tls).unwrap().connect().await.unwrap();
            clients.push(FlightSqlServiceClient::new(channel));
        }
        run(&mut clients[0], "CREATE TABLE t (k int PRIMARY KEY, v int)").await;
        run(&mut clients[1], "INSERT INTO t SELECT g, g FROM generate_series(1, 100) AS s(g)")
            .await;
        for client in &mut clients {
            assert_eq!(run(client, "SELECT count(*), sum(v) FROM t").await, ["100|5050|"]);
            let found = run(client, "SELECT v FROM t WHERE k IN (1, 2, 3, 4, 5, 6)").await;
            assert_eq!(found.len(), 6);
        }
    });
}
