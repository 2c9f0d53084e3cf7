//! The log of a service: what becomes of it where nobody reads it, its form, the traces of clients.

use std::time::Duration;

use arrow::array::AsArray;

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

/// What a service with roles writes to stderr as JSON, parsed. `work` is done by a client.
fn json_lines(
    directory: &Path,
    filter: &str,
    work: impl AsyncFnOnce(&mut Client),
) -> Vec<serde_json::Value> {
    let mut command = Service::command(directory, &["--log-format", "json"]);
    let mut child = command.env("RUST_LOG", filter).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut first = String::new();
    stderr.read_line(&mut first).unwrap();
    let listening: serde_json::Value = serde_json::from_str(&first).unwrap();
    let told = listening["fields"]["message"].as_str().unwrap();
    let address = told.strip_prefix("listening on ").unwrap().to_owned();
    let service = Service { child, stderr, address };
    client_threads().block_on(async { work(&mut connect(&service).await).await });
    let (code, said) = service.stop();
    assert_eq!(code, Some(0));
    let parsed = said
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")));
    std::iter::once(listening).chain(parsed).collect()
}

#[test]
fn as_json_each_line_is_an_object_and_so_is_what_the_service_tells() {
    let directory = tempfile::tempdir().unwrap();
    let lines = json_lines(directory.path(), "warn,audit=info", async |client| {
        run(client, "SET tidegate.slow_query_ms = 1").await;
        run(client, "CREATE TABLE t (k int PRIMARY KEY)").await;
        run(client, "SELECT count(*) FROM generate_series(1, 3000000)").await;
    });
    for line in &lines {
        for key in ["timestamp", "level", "target"] {
            assert!(line[key].is_string(), "{key} of {line}");
        }
        assert!(line["fields"].is_object(), "{line}");
    }
    let of = |target: &'static str| lines.iter().filter(move |line| line["target"] == target);
    let message = |line: &serde_json::Value| line["fields"]["message"].as_str().unwrap().to_owned();
    let told: Vec<String> = of("told").map(message).collect();
    assert!(told.len() == 2 && told[1] == "stopping", "{told:?}");
    let audited = of("audit").next().expect("a table was made");
    assert_eq!((&audited["level"], &audited["fields"]["who"]), (&"INFO".into(), &"owner".into()));
    assert!(audited["fields"]["what"].as_str().unwrap().starts_with("CREATE TABLE t"), "{audited}");
    let slow = lines.iter().find(|line| line["fields"]["rows"] == 1).expect("it was slow");
    assert_eq!(slow["level"], "WARN");
    assert!(message(slow).starts_with("slow statement: SELECT count(*)"), "{slow}");
}

/// Also of rows that end long after the call began, and of a statement that is planned elsewhere.
#[test]
fn lines_of_a_call_have_the_trace_id_of_its_client() {
    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    let directory = tempfile::tempdir().unwrap();
    let count = "FROM generate_series(1, 3000000)";
    let long = format!("SELECT count(*) AS longer, '{}' {count}", "x".repeat(40_000));
    let lines = json_lines(directory.path(), "warn,audit=info", async |client| {
        client.set_header("traceparent", format!("00-{TRACE}-00f067aa0ba902b7-01"));
        run(client, "SET tidegate.slow_query_ms = 1").await;
        run(client, "CREATE TABLE t (k int PRIMARY KEY)").await;
        run(client, "SELECT count(*) FROM generate_series(1, 3000000)").await;
        run(client, &long).await;
        client.set_header("traceparent", format!("00-{TRACE}-00f067aa0ba902b7-0"));
        run(client, "CREATE TABLE u (k int PRIMARY KEY)").await;
        run(client, "SELECT count(*) AS n FROM generate_series(1, 3000000)").await;
        let kept = "SELECT coalesce(trace_id, 'none') FROM system.slow_queries \
                    WHERE statement LIKE 'SELECT%' ORDER BY number";
        let rows = run(client, kept).await;
        let texts = rows.iter().flat_map(|rows| rows.column(0).as_string::<i32>().iter().flatten());
        assert_eq!(texts.collect::<Vec<_>>(), [TRACE, TRACE, "none"]);
        run(client, "TRACING COMPACT").await;
        let other = TRACE.replace('4', "a");
        client.set_header("traceparent", format!("00-{other}-00f067aa0ba902b7-00"));
        run(client, "SELECT k FROM t WHERE k = 1").await;
        let traced = "SELECT DISTINCT trace_id FROM system.traces WHERE statement LIKE '% k = 1'";
        let rows = run(client, traced).await;
        assert_eq!(rows[0].column(0).as_string::<i32>().value(0), other);
    });
    let span_of = |part: &str| {
        let is_it = |line: &&serde_json::Value| line["fields"].to_string().contains(part);
        let line = lines.iter().find(is_it).unwrap_or_else(|| panic!("no line has {part}"));
        line["span"].clone()
    };
    for part in ["CREATE TABLE t", "SELECT count(*) FROM generate", "AS longer"] {
        assert_eq!(span_of(part)["trace_id"], TRACE, "{part}");
    }
    for part in ["CREATE TABLE u", "SELECT count(*) AS n"] {
        assert!(span_of(part).is_null(), "{part}");
    }
}
