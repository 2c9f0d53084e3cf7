//! Connections that are many, silent, slow, or gone in the middle.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int32Array};
use arrow::datatypes::Int64Type;
use arrow_flight::error::FlightError;
use arrow_flight::sql::{
    CommandStatementIngest, TableDefinitionOptions, TableExistsOption, TableNotExistOption,
};
use futures::channel::mpsc;
use futures::future::join;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use tidegate_engine::os;
use tonic::{Code, Status};

use super::*;

/// Silent connections at once.
const MANY: usize = 1_000;
/// What a client of HTTP/2 begins with: the preface, and settings that say nothing.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// Questions after which a condition is held not to come.
const TRIES: usize = 20_000;

fn connect_many(service: &Service) -> Vec<TcpStream> {
    (0..MANY).map(|_| TcpStream::connect(&service.address).unwrap()).collect()
}

/// The number that a query gives.
async fn number(client: &mut Client, text: &str) -> i64 {
    run(client, text).await[0].column(0).as_primitive::<Int64Type>().value(0)
}

/// Asks until a query gives what is wanted.
async fn until(client: &mut Client, text: &str, is_wanted: impl Fn(i64) -> bool) {
    let mut found = 0;
    for _ in 0..TRIES {
        found = number(client, text).await;
        if is_wanted(found) {
            return;
        }
    }
    panic!("{text}: still {found}");
}

/// What a client of its own is answered, whether or not there is a place for it.
async fn ask(service: &Service) -> Result<(), Status> {
    let channel = Channel::from_shared(format!("http://{}", service.address)).unwrap();
    let mut client = FlightSqlServiceClient::new(channel.connect_lazy());
    let asked = query(&mut client, "SELECT 1").await;
    asked.map(drop).map_err(|error| match error {
        FlightError::Tonic(status) => *status,
        other => panic!("{other}"),
    })
}

/// Sockets that the service has open.
fn sockets(service: &Service) -> usize {
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", service.child.id())).unwrap();
    let targets = descriptors.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count()
}

#[test]
fn silent_connections_take_places_and_give_them_back() {
    os::raise_descriptor_limit().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let many = MANY.to_string();
    let service = Service::start_serving(directory.path(), &[], &["--connections-max", &many]);
    client_threads().block_on(async {
        let silent = connect_many(&service);
        let refused = ask(&service).await.unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted);
        assert!(refused.message().contains("1000 connections are open"), "{refused}");
        assert!(refused.message().contains("--connections-max"), "{refused}");
        let details = String::from_utf8_lossy(refused.details());
        assert!(details.contains("google.rpc.RetryInfo"), "{details}");
        drop(silent);
        // Ten thousand come and go.
        for _ in 0..10_000 / MANY {
            drop(connect_many(&service));
        }
        for tried in 0.. {
            if ask(&service).await.is_ok() {
                break;
            }
            assert!(tried < TRIES, "no place is free");
        }
    });
    let (code, said) = service.stop();
    assert_eq!((code, said.as_str()), (Some(0), "stopping\n"));
}

#[test]
fn a_shortage_of_descriptors_is_said_once_and_waited_out() {
    let directory = tempfile::tempdir().unwrap();
    let mut service = Service::start(directory.path());
    let id = Pid::from_child(&service.child);
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", service.child.id())).unwrap();
    let numbers = descriptors.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let next = numbers.max().unwrap_or(0_u64) + 1;
    // Only a privileged process may raise what the service inherited.
    let maximum = getrlimit(Resource::Nofile).maximum;
    let before = prlimit(Some(id), Resource::Nofile, Rlimit { current: Some(next), maximum });
    let before = before.unwrap_or_else(|error| panic!("{next} descriptors: {error}"));
    let waiting: Vec<_> =
        (0..next + 8).map(|_| TcpStream::connect(&service.address).unwrap()).collect();
    let mut line = String::new();
    service.stderr.read_line(&mut line).unwrap();
    assert!(line.starts_with("warning: no connection can be accepted"), "{line}");
    assert!(line.contains("ulimit -n"), "{line}");
    prlimit(Some(id), Resource::Nofile, before).unwrap();
    line.clear();
    service.stderr.read_line(&mut line).unwrap();
    assert_eq!(line, "connections are accepted again\n");
    client_threads().block_on(async {
        assert_eq!(number(&mut connect(&service).await, "SELECT 1").await, 1);
    });
    drop(waiting);
    let (code, said) = service.stop();
    assert_eq!((code, said.as_str()), (Some(0), "stopping\n"));
}

#[test]
fn a_connection_without_a_call_is_closed() {
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start_serving(directory.path(), &[], &["--idle-timeout", "1s"]);
    let mut silent = TcpStream::connect(&service.address).unwrap();
    silent.write_all(PREFACE).unwrap();
    let mut said = Vec::new();
    silent.read_to_end(&mut said).unwrap();
    assert!(said.len() >= 9 && said[3] == 4, "it begins with its settings: {said:?}");
    assert_eq!(service.stop().0, Some(0));
}

fn ingest_into(table: &str, if_exists: TableExistsOption) -> CommandStatementIngest {
    let options = TableDefinitionOptions {
        if_not_exist: TableNotExistOption::Fail.into(),
        if_exists: if_exists.into(),
    };
    CommandStatementIngest {
        table_definition_options: Some(options),
        table: table.to_owned(),
        schema: None,
        catalog: None,
        temporary: false,
        transaction_id: None,
        options: Default::default(),
    }
}

fn keys(keys: std::ops::Range<i32>) -> RecordBatch {
    let column = || Arc::new(Int32Array::from_iter_values(keys.clone())) as ArrayRef;
    RecordBatch::try_from_iter([("k", column()), ("v", column())]).unwrap()
}

#[test]
fn a_message_that_is_too_long_is_refused_with_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let serving = ["--message-bytes-max", "64KiB"];
    let service = Service::start_serving(directory.path(), &[], &serving);
    client_threads().block_on(async {
        let mut client = connect(&service).await;
        run(&mut client, "CREATE TABLE t (k int PRIMARY KEY, v int)").await;
        let append = || ingest_into("t", TableExistsOption::Append);
        let rows = |count| futures::stream::iter([Ok(keys(0..count))]);
        let long = client.execute_ingest(append(), rows(40_000)).await.unwrap_err().to_string();
        let text = format!("SELECT '{}'", "x".repeat(70_000));
        let statement = query(&mut client, &text).await.err().unwrap().to_string();
        for refused in [long, statement] {
            assert!(refused.contains("at most 65536 are taken"), "{refused}");
            assert!(refused.contains("--message-bytes-max"), "{refused}");
        }
        assert_eq!(client.execute_ingest(append(), rows(4_000)).await.unwrap(), 4_000);
    });
    assert_eq!(service.stop().0, Some(0));
}

/// Reads under way of the table that clients read.
const READS: &str = "SELECT count(*) FROM system.reads WHERE table_name = 'default.wide'";
/// The memory that they hold, KiB.
const READ_KIB: &str =
    "SELECT CAST(coalesce(sum(memory_bytes), 0) / 1024 AS bigint) FROM system.reads";

/// A client on threads of its own, which end as a process ends that is killed: what it has under
/// way is told nothing, its connection is closed by the kernel.
struct Doomed<T> {
    threads: tokio::runtime::Runtime,
    at_work: T,
}

impl<T> Doomed<T> {
    fn die(self) {
        drop(self.threads);
        drop(self.at_work);
    }
}

#[test]
fn a_reader_that_is_killed_frees_its_read_and_one_that_stalls_holds_little() {
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path());
    client_threads().block_on(async {
        let mut client = connect(&service).await;
        run(&mut client, "CREATE TABLE wide (k int, c int, v text, PRIMARY KEY (k, c))").await;
        let insert = "INSERT INTO wide SELECT n % 2, n, repeat('x', 100000) \
                      FROM generate_series(1, 1000) AS s(n)";
        assert_eq!(client.execute_update(insert.to_owned(), None).await.unwrap(), 1000);
        until(&mut client, READS, |reads| reads == 0).await;
        let sockets_before = sockets(&service);
        for text in ["SELECT * FROM wide", "SELECT * FROM wide WHERE k = 1 ORDER BY c DESC"] {
            let threads = client_threads();
            let address = service.address.clone();
            let reading = threads.spawn(async move {
                let channel = Channel::from_shared(format!("http://{address}")).unwrap();
                let mut client = FlightSqlServiceClient::new(channel.connect().await.unwrap());
                let mut rows = query(&mut client, text).await.unwrap();
                assert!(rows.next().await.unwrap().unwrap().num_rows() > 0);
                (client, rows)
            });
            let doomed = Doomed { at_work: reading.await.unwrap(), threads };
            until(&mut client, READS, |reads| reads > 0).await;
            // 50 MB are in each partition. Of what a client has not taken, four batches are read.
            let held = number(&mut client, READ_KIB).await;
            assert!(held < 4 * 9 * 1024, "{held} KiB");
            tokio::task::spawn_blocking(|| doomed.die()).await.unwrap();
            until(&mut client, READS, |reads| reads == 0).await;
        }
        assert_eq!(sockets(&service), sockets_before);
    });
    assert_eq!(service.stop().0, Some(0));
}

#[test]
fn a_writer_that_is_killed_leaves_what_it_sent_and_costs_no_table() {
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path());
    client_threads().block_on(async {
        let mut client = connect(&service).await;
        run(&mut client, "CREATE TABLE t (k int PRIMARY KEY, v int)").await;
        let count = "SELECT count(*) FROM t";
        let sockets_before = sockets(&service);
        for (if_exists, wanted) in
            [(TableExistsOption::Append, 100), (TableExistsOption::Replace, 100)]
        {
            let threads = client_threads();
            let address = service.address.clone();
            let (mut sender, rows) = mpsc::channel(0);
            let (told, connected) = tokio::sync::oneshot::channel();
            let writing = threads.spawn(async move {
                let channel = Channel::from_shared(format!("http://{address}")).unwrap();
                let mut client = FlightSqlServiceClient::new(channel.connect().await.unwrap());
                told.send(()).unwrap();
                client.execute_ingest(ingest_into("t", if_exists), rows).await
            });
            let sent = async {
                for batch in [keys(0..60), keys(60..100)] {
                    futures::SinkExt::send(&mut sender, Ok(batch)).await.unwrap();
                }
            };
            let (connected, ()) = join(connected, sent).await;
            connected.unwrap();
            for tried in 0.. {
                if sockets(&service) > sockets_before {
                    break;
                }
                assert!(tried < TRIES, "its connection is not accepted");
                number(&mut client, "SELECT 1").await;
            }
            until(&mut client, count, |rows| rows == wanted).await;
            let doomed = Doomed { at_work: (writing, sender), threads };
            tokio::task::spawn_blocking(|| doomed.die()).await.unwrap();
            for tried in 0.. {
                if sockets(&service) == sockets_before {
                    break;
                }
                assert!(tried < TRIES, "its connection is still open");
                number(&mut client, "SELECT 1").await;
            }
            assert_eq!(number(&mut client, count).await, wanted);
        }
    });
    let (code, said) = service.stop();
    assert_eq!((code, said.as_str()), (Some(0), "stopping\n"));
}
