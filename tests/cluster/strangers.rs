//! Who is no node of the ring, or of another version of it.

use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use super::*;

/// Calls what nodes call, with these headers and an empty message.
async fn call(
    cluster: &Cluster,
    path: &'static str,
    headers: &[(&'static str, String)],
) -> Result<(), Status> {
    let address = format!("http://127.0.0.1:{}", cluster.ports[0]);
    let channel = Channel::from_shared(address).unwrap().connect().await.unwrap();
    let mut grpc = tonic::client::Grpc::new(channel);
    grpc.ready().await.unwrap();
    let mut request = Request::new(());
    for (name, value) in headers {
        request.metadata_mut().insert(*name, value.parse().unwrap());
    }
    let codec = ProstCodec::<(), ()>::default();
    grpc.unary(request, PathAndQuery::from_static(path), codec).await.map(|_| ())
}

#[test]
fn strangers_and_nodes_of_another_ring_are_refused() {
    let mut cluster = Cluster::start(2);
    let threads = threads();
    threads.block_on(async {
        let mut client = cluster.client(0).await;
        run(&mut client, "CREATE TABLE t (k int PRIMARY KEY, v int)").await;
        run(&mut client, "INSERT INTO t SELECT g, g FROM generate_series(1, 50) AS s(g)").await;
        let digits = || "0123456789abcdef".repeat(4);
        for path in [
            "/tidegate.Node/Read",
            "/tidegate.Node/Write",
            "/tidegate.Node/Decide",
            "/tidegate.Node/Define",
            "/tidegate.Node/Ping",
            "/worker.WorkerService/CoordinatorChannel",
            "/worker.WorkerService/ExecuteTask",
            "/worker.WorkerService/GetWorkerInfo",
        ] {
            for headers in
                [vec![], vec![("x-tidegate-node", digits()), ("x-tidegate-ring", "1".to_owned())]]
            {
                let error = call(&cluster, path, &headers).await.unwrap_err();
                assert_eq!(error.code(), Code::Unauthenticated, "{path}: {error}");
            }
        }
        // A thousand keys, one after another.
        for number in 0..1000 {
            let key = format!("{number:064x}");
            let headers = [("x-tidegate-node", key), ("x-tidegate-ring", "1".to_owned())];
            let error = call_again(&cluster, &headers).await.unwrap_err();
            assert_eq!(error.code(), Code::Unauthenticated);
        }
    });
    // One node has another version of the file.
    cluster.kill(1);
    let file = fs::read_to_string(cluster.ring_file()).unwrap();
    fs::write(cluster.ring_file(), file.replacen("\"version\": 1", "\"version\": 2", 1)).unwrap();
    cluster.start_node(1);
    threads.block_on(async {
        for place in [0, 1] {
            let mut client = cluster.client(place).await;
            let error = refused(&mut client, "SELECT count(*) FROM t").await;
            assert!(error.contains("ring file is version"), "{error}");
            let error = refused(&mut client, "CREATE TABLE u (k int PRIMARY KEY)").await;
            assert!(error.contains("ring file is version"), "{error}");
        }
    });
}

/// A ping, over a connection of its own.
async fn call_again(cluster: &Cluster, headers: &[(&'static str, String)]) -> Result<(), Status> {
    call(cluster, "/tidegate.Node/Ping", headers).await
}

#[test]
fn a_node_that_the_ring_does_not_have_does_not_start() {
    let cluster = Cluster::start(1);
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .arg("--data")
        .arg(cluster.data(3))
        .args(["serve", "--listen", "127.0.0.1:0", "--node", "x", "--ring"])
        .arg(cluster.ring_file())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("error: the ring has no node 'x', but a"), "{said}");
}
