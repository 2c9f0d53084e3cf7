//! Rows that leave packed: they are the same rows, in fewer bytes.

use arrow_flight::utils::flight_data_to_batches;
use arrow_flight::{FlightData, Ticket};
use tonic::Code;

use super::*;

const OPTION: &str = "result.compression";
const ROWS: usize = 20_000;

/// All messages of a DoGet with this header.
async fn messages(client: &mut Client, ticket: Ticket, setting: Option<&str>) -> Vec<FlightData> {
    let mut request = tonic::Request::new(ticket);
    if let Some(setting) = setting {
        request.metadata_mut().insert(OPTION, setting.parse().unwrap());
    }
    let sent = client.inner_mut().do_get(request).await.unwrap().into_inner();
    sent.try_collect().await.unwrap()
}

fn rows(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

#[test]
fn rows_are_the_same_however_they_are_packed() {
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path());
    client_threads().block_on(async {
        let mut client = connect(&service).await;
        run(&mut client, "CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c))").await;
        let insert = format!(
            "INSERT INTO t SELECT 1, n, concat('a row like the others ', CAST(n % 9 AS text)) \
             FROM generate_series(1, {ROWS}) AS s(n)"
        );
        client.execute_update(insert, None).await.unwrap();
        let text = "SELECT c, v FROM t WHERE k = 1 ORDER BY c";
        let mut found = Vec::new();
        for setting in [None, Some("none"), Some("lz4"), Some("zstd")] {
            if let Some(setting) = setting {
                client.set_header(OPTION, setting);
            }
            let info = client.execute(text.to_owned(), None).await.unwrap();
            let ticket = info.endpoint[0].ticket.clone().unwrap();
            let sent = messages(&mut client, ticket, setting).await;
            let bytes: usize = sent.iter().map(|message| message.data_body.len()).sum();
            found.push((flight_data_to_batches(&sent).unwrap(), bytes));
            // A write, and one with IF, answer as ever.
            let written = format!("INSERT INTO t (k, c, v) VALUES (2, {}, 'x')", found.len());
            assert_eq!(rows(&run(&mut client, &written).await), 1);
            assert_eq!(rows(&run(&mut client, &format!("{written} IF NOT EXISTS")).await), 1);
        }
        let [(wanted, plain), others @ ..] = &found[..] else { panic!("four settings") };
        assert_eq!(rows(wanted), ROWS);
        for (rows, _) in others {
            assert!(rows == wanted, "the rows differ");
        }
        let [none, lz4, zstd] = [0, 1, 2].map(|at| others[at].1);
        assert_eq!(none, *plain, "without the option nothing is packed");
        assert!(lz4 < plain / 2 && zstd < plain / 2, "{plain} bytes: {lz4} by lz4, {zstd} by zstd");
    });
    assert_eq!(service.stop().0, Some(0));
}

#[test]
fn a_setting_that_nobody_knows_is_refused_before_a_statement_runs() {
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path());
    client_threads().block_on(async {
        let mut client = connect(&service).await;
        run(&mut client, "CREATE TABLE t (k int PRIMARY KEY)").await;
        client.set_header(OPTION, "gzip");
        let insert = "INSERT INTO t (k) VALUES (1)";
        let refused = query(&mut client, insert).await.err().unwrap();
        let arrow_flight::error::FlightError::Tonic(refused) = refused else { panic!("{refused}") };
        assert_eq!(refused.code(), Code::InvalidArgument);
        let says = "result.compression is one of none, lz4, zstd, not 'gzip'";
        assert_eq!(refused.message(), says);
        client.set_header(OPTION, "lz4");
        assert_eq!(rows(&run(&mut client, "SELECT k FROM t").await), 0, "nothing was written");
    });
    assert_eq!(service.stop().0, Some(0));
}
