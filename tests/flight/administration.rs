//! Actions of operators: what they do, who may, and what is noted.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BinaryArray, BooleanArray, Int64Array, StringArray};
use arrow::datatypes::Int64Type;
use arrow::ipc::writer::StreamWriter;
use arrow_flight::{Action, Empty};
use futures::TryStreamExt;
use tonic::{Code, Request, Status};

use super::users::{ROLES, in_shell, log_in};
use super::*;

const SIEVE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../plugins/dist/sieve.wasm");

fn text(text: &str) -> ArrayRef {
    Arc::new(StringArray::from(vec![text]))
}

/// The answer of an action with this row.
async fn act(
    client: &mut Client,
    name: &str,
    columns: Vec<(&str, ArrayRef)>,
) -> Result<String, Status> {
    let body = match columns.is_empty() {
        true => Vec::new(),
        false => {
            let row = RecordBatch::try_from_iter(columns).unwrap();
            let mut writer = StreamWriter::try_new(Vec::new(), row.schema_ref()).unwrap();
            writer.write(&row).unwrap();
            writer.into_inner().unwrap()
        }
    };
    let mut request = Request::new(Action { r#type: name.to_owned(), body: body.into() });
    if let Some(token) = client.token() {
        let header = format!("Bearer {token}").parse().unwrap();
        request.metadata_mut().insert("authorization", header);
    }
    let answers = client.inner_mut().do_action(request).await?.into_inner();
    let answers: Vec<_> = answers.try_collect().await?;
    Ok(String::from_utf8(answers[0].body.to_vec()).unwrap())
}

fn upload(name: &str) -> Vec<(&str, ArrayRef)> {
    let component = std::fs::read(SIEVE).unwrap();
    vec![
        ("name", text(name)),
        ("component", Arc::new(BinaryArray::from_vec(vec![component.as_slice()]))),
        ("shadow", Arc::new(BooleanArray::from(vec![true]))),
        ("sample", Arc::new(Int64Array::from(vec![1]))),
    ]
}

async fn number(client: &mut Client, text: &str) -> i64 {
    run(client, text).await[0].column(0).as_primitive::<Int64Type>().value(0)
}

#[test]
fn an_operator_flushes_compacts_makes_snapshots_and_uploads_policies() {
    let directory = tempfile::tempdir().unwrap();
    let snapshots = directory.path().join("snapshots");
    std::fs::create_dir(&snapshots).unwrap();
    let serving = ["--snapshots", snapshots.to_str().unwrap()];
    let service = Service::start_serving(directory.path(), &[], &serving);
    client_threads().block_on(async {
        let mut client = connect(&service).await;
        run(&mut client, "CREATE TABLE t (k int PRIMARY KEY, v int)").await;
        run(&mut client, "INSERT INTO t VALUES (1, 1), (2, 2)").await;
        let table = || vec![("keyspace", text("default")), ("table", text("t"))];
        let files =
            "SELECT CAST(sum(sstables) AS bigint) FROM system.tables WHERE table_name = 't'";
        assert_eq!(number(&mut client, files).await, 0);
        let flushed = act(&mut client, "Flush", table()).await.unwrap();
        assert_eq!(flushed, "Table default.t flushed.");
        assert!(number(&mut client, files).await > 0);
        assert_eq!(act(&mut client, "Flush", vec![]).await.unwrap(), "All tables flushed.");
        let compacted = act(&mut client, "Compact", table()).await.unwrap();
        assert!(compacted.starts_with("Table default.t compacted:"), "{compacted}");

        let monday = || vec![("name", text("monday"))];
        let made = act(&mut client, "Snapshot", monday()).await.unwrap();
        assert!(made.starts_with("Snapshot of 1 table in "), "{made}");
        assert!(snapshots.join("monday").read_dir().unwrap().next().is_some());
        for (name, code) in [
            ("monday", Code::InvalidArgument),
            ("..", Code::InvalidArgument),
            ("a/b", Code::InvalidArgument),
            ("", Code::InvalidArgument),
        ] {
            let refused = act(&mut client, "Snapshot", vec![("name", text(name))]).await;
            assert_eq!(refused.unwrap_err().code(), code, "'{name}'");
        }

        let created = act(&mut client, "UploadPolicy", upload("mine")).await.unwrap();
        assert!(created.starts_with("Policy mine "), "{created}");
        assert!(created.contains("Shadow of mine started on one key in 1."), "{created}");
        let shadows =
            "SELECT count(*) FROM system.policies WHERE name = 'mine' AND state = 'shadow'";
        assert_eq!(number(&mut client, shadows).await, 1);
        let again = act(&mut client, "UploadPolicy", upload("mine")).await.unwrap_err();
        assert_eq!(again.code(), Code::AlreadyExists, "{again}");
        let mut wrong = upload("other");
        wrong[1].1 = Arc::new(BinaryArray::from_vec(vec![&b"no component"[..]]));
        let wrong = act(&mut client, "UploadPolicy", wrong).await.unwrap_err();
        assert_eq!(wrong.code(), Code::InvalidArgument, "{wrong}");

        for (name, columns, says) in [
            ("Compact", vec![], "wants a column 'table'"),
            ("Flush", vec![("tabel", text("t"))], "no column 'tabel'"),
            ("Flush", vec![("table", text("absent"))], "absent"),
            ("Flush", vec![("keyspace", text("default"))], "wants a column 'table'"),
            ("Compact", vec![("table", text("t")), ("all", text("x"))], "no column 'all'"),
            ("Snapshot", vec![("name", text("x")), ("table", text("t"))], "no column 'table'"),
            ("UploadPolicy", vec![("name", text("x")), ("wasm", text("y"))], "no column 'wasm'"),
            ("UploadPolicy", vec![("name", text("x"))], "wants a column 'component'"),
        ] {
            let refused = act(&mut client, name, columns).await.unwrap_err();
            assert!(refused.message().contains(says), "{name}: {refused}");
        }
        let listed = client.inner_mut().list_actions(Empty {}).await.unwrap().into_inner();
        let listed: Vec<_> = listed.map_ok(|action| action.r#type).try_collect().await.unwrap();
        for action in ["Flush", "Compact", "Snapshot", "UploadPolicy"] {
            assert!(listed.iter().any(|known| known == action), "{action}: {listed:?}");
        }
    });
    assert_eq!(service.stop().0, Some(0));
}

#[test]
fn operators_need_the_rights_of_the_statements_and_are_noted() {
    let directory = tempfile::tempdir().unwrap();
    in_shell(directory.path(), ROLES);
    in_shell(directory.path(), &["GRANT CREATE ON POLICIES TO ann"]);
    let service = Service::start(directory.path());
    client_threads().block_on(async {
        let mut ann = log_in(&service, "ann", "ann-word").await.unwrap();
        let mut root = log_in(&service, "root", "root-word").await.unwrap();
        for (name, columns) in [
            ("Flush", vec![]),
            ("Compact", vec![("table", text("t"))]),
            ("Snapshot", vec![("name", text("monday"))]),
        ] {
            let refused = act(&mut ann, name, columns).await.unwrap_err();
            assert_eq!(refused.code(), Code::PermissionDenied, "{name}: {refused}");
        }
        let monday = vec![("name", text("monday"))];
        let refused = act(&mut root, "Snapshot", monday).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unimplemented);
        assert!(refused.message().contains("--snapshots DIR"), "{refused}");
        // She may create policies, and not say which one looks on.
        let refused = act(&mut ann, "UploadPolicy", upload("hers")).await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied);
        assert!(refused.message().contains("'hers' is created and has no shadow"), "{refused}");
        act(&mut root, "UploadPolicy", upload("mine")).await.unwrap();
        act(&mut root, "Flush", vec![]).await.unwrap();
        let noted = "SELECT count(*) FROM system.audit WHERE event = 'policy' AND who = 'root' \
                     AND what LIKE 'CREATE POLICY mine FROM % bytes%' AND error IS NULL";
        assert_eq!(number(&mut root, noted).await, 1);
        let noted = "SELECT count(*) FROM system.audit WHERE event = 'administration' \
                     AND who = 'root' AND what = 'FLUSH' AND error IS NULL";
        assert_eq!(number(&mut root, noted).await, 1);
        let refused = "SELECT count(*) FROM system.audit WHERE event = 'administration' \
                       AND who = 'ann' AND error IS NOT NULL";
        assert_eq!(number(&mut root, refused).await, 3);
    });
    assert_eq!(service.stop().0, Some(0));
}

#[test]
fn the_example_uploads_a_policy() {
    if !has_driver("upload of a policy from Python") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    in_shell(directory.path(), ROLES);
    let service = Service::start(directory.path());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/upload_policy.py");
    let mut example = Command::new(python());
    example.arg(script).args([&service.address, SIEVE, "mine", "root", "root-word"]);
    let output = example.output().unwrap();
    let (said, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(said.starts_with("Policy mine "), "{said}\n{errors}");
    assert!(said.contains("EXPLAIN POLICY mine says"), "{said}\n{errors}");
    client_threads().block_on(async {
        let mut root = log_in(&service, "root", "root-word").await.unwrap();
        let shadows =
            "SELECT count(*) FROM system.policies WHERE name = 'mine' AND state = 'shadow'";
        assert_eq!(number(&mut root, shadows).await, 1);
    });
    assert_eq!(service.stop().0, Some(0));
}

/// Else another component would govern than the one that somebody has looked at.
#[test]
fn a_policy_is_created_only_of_the_component_that_its_digest_is_of() {
    let sums = concat!(env!("CARGO_MANIFEST_DIR"), "/../plugins/dist/SHA256SUMS");
    let sums = std::fs::read_to_string(sums).unwrap();
    let digest_of = |file: &str| {
        let mut lines = sums.lines().filter_map(|line| line.split_once("  "));
        let found = lines.find(|(_, name)| *name == file);
        found.unwrap_or_else(|| panic!("no {file} in {sums}")).0.to_owned()
    };
    let (own, other) = (digest_of("sieve.wasm"), digest_of("fifo.wasm"));
    let component = std::fs::read(SIEVE).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path());
    client_threads().block_on(async {
        let mut client = connect(&service).await;
        for (name, said, is_made) in [
            ("of_another", other.as_str(), false),
            ("of_a_part", &own[1..], false),
            ("of_none", "", false),
            ("its_own", own.as_str(), true),
        ] {
            let columns: Vec<(&str, ArrayRef)> = vec![
                ("name", text(name)),
                ("component", Arc::new(BinaryArray::from_vec(vec![component.as_slice()]))),
                ("sha256", text(said)),
            ];
            let answer = act(&mut client, "UploadPolicy", columns).await;
            match answer {
                Ok(created) => assert!(created.contains(&own), "{name}: {created}"),
                Err(refused) => {
                    let says = format!("SHA-256 is {own}, not the expected one");
                    assert!(refused.message().contains(&says), "{name}: {refused}");
                }
            }
            let there = format!("SELECT count(*) FROM system.policies WHERE name = '{name}'");
            assert_eq!(number(&mut client, &there).await, i64::from(is_made), "{name}");
        }
    });
    assert_eq!(service.stop().0, Some(0));
}
