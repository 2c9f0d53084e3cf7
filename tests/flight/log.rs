//! The log of a service: what becomes of it where nobody reads it.

use std::time::Duration;

use super::*;

/// For what does not wait: then the test says so, instead of waiting itself.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time between two looks at what does not tell when it is done.
const LOOK: Duration = Duration::from_millis(20);

#[test]
fn a_log_that_nobody_reads_holds_nothing_up() {
    for with_stdout in [false, true] {
        hold_nothing_up(with_stdout);
    }
}

/// With stdout in the same pipe, or in none.
fn hold_nothing_up(with_stdout: bool) {
    let directory = tempfile::tempdir().unwrap();
    // Far more lines than a pipe holds.
    let mut service = Service::start_logging(directory.path(), "trace", with_stdout);
    client_threads().block_on(async {
        let mut client = connect(&service).await;
        let statements = async {
            run(&mut client, "CREATE TABLE t (k int PRIMARY KEY, v int)").await;
            for key in 0..200 {
                run(&mut client, &format!("INSERT INTO t VALUES ({key}, 1)")).await;
            }
        };
        let done = tokio::time::timeout(PATIENCE, statements).await;
        done.expect("the service waits for somebody who reads its log");
    });
    let id = rustix::process::Pid::from_child(&service.child);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    let looks = PATIENCE.as_millis() / LOOK.as_millis();
    let status = (0..looks).find_map(|_| {
        std::thread::sleep(LOOK);
        service.child.try_wait().unwrap()
    });
    let status = status.expect("the service stops though nobody reads its log");
    assert_eq!(status.code(), Some(0));
    // The pipe was full all the time.
    let mut said = String::new();
    service.stderr.read_to_string(&mut said).unwrap();
    assert!(said.len() > 32 << 10, "{} bytes", said.len());
}
