//! Users and roles over the wire: who gets in, and what they may do there.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int32Array, RecordBatch};
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::sql::{
    CommandStatementIngest, CommandStatementQuery, ProstMessageExt, TableDefinitionOptions,
    TableExistsOption, TableNotExistOption,
};
use arrow_flight::{
    Action, Criteria, Empty, FlightData, FlightDescriptor, HandshakeRequest, Ticket,
};
use prost::Message;
use tonic::{Code, Request, Status};

use super::*;

/// Forged tokens that are tried.
const FORGED: u64 = 10_000;

/// Runs statements in a shell on the data directory.
pub(super) fn in_shell(directory: &Path, texts: &[&str]) {
    let mut shell = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    shell.args(["--shards", "2", "--data"]).arg(directory.join("data"));
    for text in texts {
        shell.args(["-c", text]);
    }
    let output = shell.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// What all tests begin with: `ann` may read `t`, `root` may everything.
pub(super) const ROLES: &[&str] = &[
    "CREATE TABLE t (pk int PRIMARY KEY, v int)",
    "CREATE TABLE other (pk int PRIMARY KEY, v int)",
    "INSERT INTO t (pk, v) VALUES (1, 7)",
    "CREATE ROLE ann WITH PASSWORD = 'ann-word' AND LOGIN = true",
    "CREATE ROLE root WITH PASSWORD = 'root-word' AND LOGIN = true AND SUPERUSER = true",
    "GRANT SELECT ON t TO ann",
];

fn status(error: FlightError) -> Status {
    match error {
        FlightError::Tonic(status) => *status,
        other => panic!("no status: {other}"),
    }
}

/// A client with a session of this user.
pub(super) async fn log_in(
    service: &Service,
    user: &str,
    password: &str,
) -> Result<Client, Status> {
    let mut client = connect(service).await;
    let token = client.handshake(user, password).await;
    // The client of arrow hides the status in its text.
    let token = token.map_err(|error| Status::unauthenticated(error.to_string()))?;
    client.set_token(String::from_utf8(token.to_vec()).unwrap());
    Ok(client)
}

async fn refusal(client: &mut Client, text: &str) -> Status {
    status(query(client, text).await.err().unwrap_or_else(|| panic!("{text} is done")))
}

/// Lets `work` be a client of a service with these roles.
fn served(work: impl AsyncFnOnce(&Service)) {
    let directory = tempfile::tempdir().unwrap();
    in_shell(directory.path(), ROLES);
    let service = Service::start(directory.path());
    client_threads().block_on(work(&service));
    assert_eq!(service.stop().0, Some(0));
}

#[test]
fn no_call_is_answered_before_its_caller_is_known() {
    served(async |service| {
        let mut client = FlightServiceClient::new(channel(service).await);
        let command = CommandStatementQuery { query: "SELECT 1".into(), transaction_id: None };
        let descriptor = FlightDescriptor::new_cmd(command.as_any().encode_to_vec());
        let data = || futures::stream::iter([FlightData::new()]);
        let hello = futures::stream::iter([HandshakeRequest::default()]);
        let all = [
            client.handshake(hello).await.map(drop),
            client.list_flights(Criteria::default()).await.map(drop),
            client.get_flight_info(descriptor.clone()).await.map(drop),
            client.poll_flight_info(descriptor.clone()).await.map(drop),
            client.get_schema(descriptor).await.map(drop),
            client.do_get(Ticket::new("x")).await.map(drop),
            client.do_put(data()).await.map(drop),
            client.do_action(Action::new("GetSessionOptions", "")).await.map(drop),
            client.list_actions(Empty {}).await.map(drop),
            client.do_exchange(data()).await.map(drop),
        ];
        for (call, answer) in all.into_iter().enumerate() {
            let refused = answer.expect_err("nobody said who they are");
            assert_eq!(refused.code(), Code::Unauthenticated, "{call}: {refused}");
            assert!(refused.message().contains("'authorization' is missing"), "{refused}");
        }
        // Each of them is a guess of 128 bits.
        for n in 0..FORGED {
            let mut request = Request::new(Empty {});
            let token = format!("Bearer {:032x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            request.metadata_mut().insert("authorization", token.parse().unwrap());
            let refused = client.list_actions(request).await.expect_err("a forged token");
            assert_eq!(refused.code(), Code::Unauthenticated);
        }
    });
}

#[test]
fn a_wrong_password_and_a_wrong_name_are_refused_alike_and_not_for_ever() {
    served(async |service| {
        let mut said = BTreeSet::new();
        for (user, password) in [("ann", "wrong"), ("nobody", "wrong"), ("ann", "root-word")] {
            let refused = log_in(service, user, password).await.err().unwrap();
            said.insert(refused.message().to_owned());
        }
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said.iter().all(|text| text.contains("user or password is wrong")), "{said:?}");
        for n in 0.. {
            let refused = log_in(service, "ann", "wrong").await.err().unwrap();
            if refused.message().contains("too many wrong passwords or tokens") {
                break;
            }
            assert!(n < 50, "nobody counts");
        }
        let late = log_in(service, "ann", "ann-word").await.err().unwrap();
        assert!(
            late.message().contains("too many wrong passwords or tokens of user 'ann'"),
            "{late}"
        );
        // Another one is not held up, however often it comes with the right word.
        for _ in 0..7 {
            log_in(service, "root", "root-word").await.unwrap();
        }
        let mut root = log_in(service, "root", "root-word").await.unwrap();
        let events = "SELECT who FROM system.audit WHERE event = 'refused login'";
        let rows: usize = run(&mut root, events).await.iter().map(RecordBatch::num_rows).sum();
        assert!(rows > 5, "{rows}");
    });
}

/// The token that a statement tells, from its answer.
async fn token_of(client: &mut Client, text: &str) -> String {
    let answer = run(client, text).await;
    let told = answer[0].column(0).as_string::<i32>().value(0).to_owned();
    told.lines().next().unwrap().to_owned()
}

async fn with_token(service: &Service, token: &str) -> Client {
    let mut client = connect(service).await;
    client.set_token(token.to_owned());
    client
}

#[test]
fn a_program_comes_by_a_token_until_it_is_dropped() {
    served(async |service| {
        let mut root = log_in(service, "root", "root-word").await.unwrap();
        let mut ann = log_in(service, "ann", "ann-word").await.unwrap();
        let own = token_of(&mut ann, "CREATE TOKEN ci OF ann").await;
        let short = token_of(&mut root, "CREATE TOKEN short OF ann VALID FOR 1us").await;
        let refused = refusal(&mut ann, "CREATE TOKEN mine OF root").await;
        assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");

        let mut program = with_token(service, &own).await;
        assert_eq!(run(&mut program, "SELECT v FROM t").await[0].num_rows(), 1);
        let refused = refusal(&mut program, "SELECT v FROM other").await;
        assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
        // A session of its connection, as other clients have.
        run(&mut program, "SET tidegate.bypass_cache = true").await;
        let setting = "SHOW tidegate.bypass_cache";
        assert_ne!(
            run(&mut program, setting).await,
            run(&mut with_token(service, &own).await, setting).await
        );

        let mut forged = own.clone();
        forged.replace_range(
            own.len() - 9..own.len() - 8,
            if own.as_bytes()[own.len() - 9] == b'A' { "B" } else { "A" },
        );
        for wrong in [&*short, &forged, "tgt.x", "tgt...", "tgt.YW5u.Y2k."] {
            let refused = refusal(&mut with_token(service, wrong).await, "SELECT 1").await;
            assert_eq!(refused.code(), Code::Unauthenticated, "{wrong}: {refused}");
        }
        let told = run(&mut root, "SELECT what FROM system.audit WHERE event = 'login'").await;
        let told: Vec<_> =
            told.iter().flat_map(|rows| rows.column(0).as_string::<i32>().iter()).collect();
        let of_tokens = told.iter().filter(|what| what.unwrap().contains("with token ci"));
        assert_eq!(of_tokens.count(), 2, "once a connection: {told:?}");
        // Nothing keeps the text.
        for table in ["audit", "traces", "tokens"] {
            let rows =
                format!("{:?}", run(&mut root, &format!("SELECT * FROM system.{table}")).await);
            assert!(!rows.contains(&own), "system.{table}");
        }
        run(&mut ann, "DROP TOKEN ci OF ann").await;
        let refused = refusal(&mut program, "SELECT 1").await;
        assert_eq!(refused.code(), Code::Unauthenticated, "{refused}");
        // Another of the same name is another.
        let other = token_of(&mut ann, "CREATE TOKEN ci OF ann").await;
        let refused = refusal(&mut program, "SELECT 1").await;
        assert_eq!(refused.code(), Code::Unauthenticated, "{refused}");
        run(&mut with_token(service, &other).await, "SELECT 1").await;
        // One who may not log in does not, with a token that was right before.
        let mut program = with_token(service, &other).await;
        run(&mut program, "SELECT 1").await;
        run(&mut root, "ALTER ROLE ann WITH LOGIN = false").await;
        let refused = refusal(&mut program, "SELECT 1").await;
        assert_eq!(refused.code(), Code::Unauthenticated, "{refused}");
    });
}

#[test]
fn python_comes_by_a_token() {
    if !has_driver("python by a token") {
        return;
    }
    served(async |service| {
        let mut ann = log_in(service, "ann", "ann-word").await.unwrap();
        let token = token_of(&mut ann, "CREATE TOKEN ci FOR ROLE ann VALID FOR 90d").await;
        let script = "import sys, adbc_driver_flightsql.dbapi as dbapi, pyarrow.flight as flight\n\
                      key = 'adbc.flight.sql.authorization_header'\n\
                      options = {key: 'Bearer ' + sys.argv[2]}\n\
                      with dbapi.connect(sys.argv[1], db_kwargs=options, autocommit=True) as c:\n\
                      \x20   with c.cursor() as cursor:\n\
                      \x20       cursor.execute('SELECT v FROM t')\n\
                      \x20       print(cursor.fetchall())\n\
                      header = (b'authorization', b'Bearer ' + sys.argv[2].encode())\n\
                      client = flight.connect(sys.argv[1])\n\
                      call = flight.FlightCallOptions(headers=[header])\n\
                      print(len(list(client.list_actions(call))) > 3)\n";
        let address = format!("grpc://{}", service.address);
        let output =
            Command::new(python()).args(["-c", script, &address, &token]).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "[(7,)]\nTrue\n", "{errors}");
    });
}

#[test]
fn a_role_does_what_it_may_until_it_may_not_any_more() {
    served(async |service| {
        let mut root = log_in(service, "root", "root-word").await.unwrap();
        let mut ann = log_in(service, "ann", "ann-word").await.unwrap();
        assert_eq!(run(&mut ann, "SELECT v FROM t WHERE pk = 1").await[0].num_rows(), 1);
        for (text, lacks) in [
            ("SELECT v FROM other WHERE pk = 1", "SELECT on TABLE default.other"),
            ("EXPLAIN SELECT count(*) FROM other", "SELECT on TABLE default.other"),
            ("INSERT INTO t (pk, v) VALUES (2, 2)", "MODIFY on TABLE default.t"),
            ("DROP TABLE t", "DROP on TABLE default.t"),
            ("SELECT * FROM system.slow_queries", "SELECT on ADMINISTRATION"),
            ("CREATE ROLE x", "superuser"),
        ] {
            let refused = refusal(&mut ann, text).await;
            assert_eq!(refused.code(), Code::PermissionDenied, "{text}: {refused}");
            assert!(refused.message().contains(lacks), "{text}: {refused}");
            let prepared = ann.prepare(text.to_owned(), None).await;
            assert!(prepared.is_err(), "{text} is prepared");
        }
        // A ticket gives nobody rights.
        let info = root.execute("SELECT * FROM other".to_owned(), None).await.unwrap();
        let ticket = info.endpoint[0].ticket.clone().unwrap();
        let refused = status(ann.do_get(ticket).await.err().unwrap());
        assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
        // Nor does an own one keep them.
        let info = ann.execute("SELECT v FROM t".to_owned(), None).await.unwrap();
        let ticket = info.endpoint[0].ticket.clone().unwrap();
        ann.do_get(ticket.clone()).await.unwrap().try_collect::<Vec<_>>().await.unwrap();
        root.execute_update("REVOKE SELECT ON t FROM ann".to_owned(), None).await.unwrap();
        let refused = status(ann.do_get(ticket).await.err().unwrap());
        assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
        root.execute_update("ALTER ROLE ann WITH LOGIN = false".to_owned(), None).await.unwrap();
        let refused = refusal(&mut ann, "SELECT 1").await;
        assert_eq!(refused.code(), Code::Unauthenticated, "{refused}");
    });
}

#[test]
fn credentials_with_every_call_are_enough_and_a_new_password_ends_them() {
    served(async |service| {
        let mut root = log_in(service, "root", "root-word").await.unwrap();
        let mut ann = connect(service).await;
        // ann:ann-word
        ann.set_header("authorization", "Basic YW5uOmFubi13b3Jk");
        for _ in 0..50 {
            assert_eq!(run(&mut ann, "SELECT v FROM t").await[0].num_rows(), 1);
        }
        let text = "ALTER ROLE ann WITH PASSWORD = 'next'".to_owned();
        root.execute_update(text, None).await.unwrap();
        assert_eq!(refusal(&mut ann, "SELECT 1").await.code(), Code::Unauthenticated);
        let logins = "SELECT who FROM system.audit WHERE event = 'login' AND who = 'ann'";
        let rows: usize = run(&mut root, logins).await.iter().map(RecordBatch::num_rows).sum();
        assert_eq!(rows, 1, "one look at the password for all calls of a connection");
    });
}

#[test]
fn an_ingest_needs_the_right_to_write_or_to_make_its_table() {
    served(async |service| {
        let mut root = log_in(service, "root", "root-word").await.unwrap();
        let mut ann = log_in(service, "ann", "ann-word").await.unwrap();
        let ingest = async |client: &mut Client, table: &str, if_exists: TableExistsOption| {
            let column: ArrayRef = Arc::new(Int32Array::from(vec![5, 6]));
            let rows = RecordBatch::try_from_iter([("pk", column)]).unwrap();
            let command = CommandStatementIngest {
                table_definition_options: Some(TableDefinitionOptions {
                    if_not_exist: TableNotExistOption::Create as i32,
                    if_exists: if_exists as i32,
                }),
                table: table.to_owned(),
                options: [("primary_key".to_owned(), "pk".to_owned())].into(),
                ..CommandStatementIngest::default()
            };
            client.execute_ingest(command, futures::stream::iter([Ok(rows)])).await
        };
        use TableExistsOption::{Append, Replace};
        for (table, if_exists, lacks, grant) in [
            ("t", Append, "MODIFY on TABLE default.t", "GRANT MODIFY ON t TO ann"),
            ("t", Replace, "DROP on TABLE default.t", "GRANT DROP ON t TO ann"),
            ("t", Replace, "CREATE on KEYSPACE default", "GRANT CREATE ON KEYSPACE default TO ann"),
        ] {
            let refused = status(ingest(&mut ann, table, if_exists).await.err().unwrap());
            assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
            assert!(refused.message().contains(lacks), "{refused}");
            root.execute_update(grant.to_owned(), None).await.unwrap();
        }
        assert_eq!(ingest(&mut ann, "t", Append).await.unwrap(), 2);
        assert_eq!(ingest(&mut ann, "fresh", Append).await.unwrap(), 2);
        // Who makes a table may read it.
        assert_eq!(run(&mut ann, "SELECT * FROM fresh").await[0].num_rows(), 2);
        let mut flights = FlightServiceClient::new(channel(service).await);
        let mut request = Request::new(Criteria::default());
        let token = format!("Bearer {}", ann.token().unwrap());
        request.metadata_mut().insert("authorization", token.parse().unwrap());
        let listed = flights.list_flights(request).await.unwrap().into_inner();
        let listed: Vec<_> = listed.try_collect().await.unwrap();
        let paths = listed.into_iter().map(|info| info.flight_descriptor.unwrap().path.join("."));
        assert_eq!(paths.collect::<Vec<_>>(), ["default.fresh", "default.t"]);
    });
}

/// What a service says that does not start, or its first line.
fn first_words(directory: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["--shards", "2", "--data"])
        .arg(directory.join("data"))
        .arg("serve")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    if line.starts_with("warning") {
        child.kill().unwrap();
    }
    (child.wait().unwrap().code(), line)
}

#[test]
fn other_machines_are_served_by_tls_and_by_name_unless_somebody_insists() {
    let directory = tempfile::tempdir().unwrap();
    let (code, said) = first_words(directory.path(), &["--listen", "0.0.0.0:0"]);
    assert_eq!(code, Some(1));
    assert!(said.contains("--tls-cert and --tls-key, or --insecure"), "{said}");
    let files = tls::Files::new(directory.path());
    let (certificate, key) = (files.path("service.pem"), files.path("service.key"));
    let tls = ["--listen", "0.0.0.0:0", "--tls-cert", &certificate, "--tls-key", &key];
    let (code, said) = first_words(directory.path(), &tls);
    assert_eq!(code, Some(1));
    assert!(said.contains("no role may log in"), "{said}");
    let insecure = ["--listen", "0.0.0.0:0", "--insecure"];
    let (_, said) = first_words(directory.path(), &insecure);
    assert!(said.starts_with("warning: --insecure"), "{said}");
    let absent = ["--tls-cert", "absent.pem", "--tls-key", &key];
    let (code, said) = first_words(directory.path(), &absent);
    assert_eq!(code, Some(1));
    assert!(said.contains("absent.pem"), "{said}");
}
