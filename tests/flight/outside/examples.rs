//! The programs in `examples/clients`, as a person types them: without users, with TLS and users,
//! and with what a service refuses. `--nocapture` shows each command and its answer.

use super::clients::{go_program, jdbc_driver, prepare};
use super::tls::Files;
use super::*;

/// A program that takes options, an address and a statement.
struct Program {
    /// The program, and what stands before its options.
    words: Vec<std::ffi::OsString>,
}

impl Program {
    fn python() -> Result<Self, String> {
        let imports = "import adbc_driver_flightsql.dbapi, polars, pyarrow";
        prepare(Command::new(python()).args(["-c", imports]))?;
        Ok(Program { words: vec![python().into(), example("query.py").into()] })
    }

    fn java() -> Result<Self, String> {
        let driver = jdbc_driver()?;
        let options = ["java", "-Xmx512m", "--add-opens=java.base/java.nio=ALL-UNNAMED", "-cp"];
        let mut words: Vec<_> = options.map(Into::into).into();
        words.extend([driver.into(), example("Query.java").into()]);
        Ok(Program { words })
    }

    fn go() -> Result<Self, String> {
        Ok(Program { words: vec![go_program(&example("go"), "query")?.into()] })
    }

    /// What the program prints: on stdout where it succeeds, else on stderr.
    fn run(&self, address: &str, call: &Call<'_>) -> Result<String, String> {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]);
        for (name, value) in &call.options {
            command.arg(format!("--{name}")).arg(value);
        }
        command.args([address, call.statement]);
        command.env("TIDEGATE_PASSWORD", call.password).stdin(Stdio::null());
        let output = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let (out, err) = (text(output.stdout), text(output.stderr));
        println!("$ {command:?}\n{out}{err}");
        if output.status.success() { Ok(out) } else { Err(err) }
    }
}

/// What a program is called with.
struct Call<'a> {
    statement: &'a str,
    options: Vec<(&'a str, String)>,
    password: &'a str,
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("examples/clients").join(name)
}

/// A service with TLS and the users of [`users::ROLES`], and its certificates.
fn secured(directory: &Path) -> (Service, Files) {
    users::in_shell(directory, users::ROLES);
    let files = Files::new(directory);
    let (certificate, key, ca) =
        (files.path("service.pem"), files.path("service.key"), files.path("ca.pem"));
    let serving = ["--tls-cert", &certificate, "--tls-key", &key, "--tls-client-ca", &ca];
    (Service::start_serving(directory, &[], &serving), files)
}

/// Goes through what is answered and what is refused.
fn judge(program: Result<Program, String>, name: &str) {
    let program = match program {
        Ok(program) => program,
        Err(reason) => return skip(name, &reason),
    };
    let directory = tempfile::tempdir().unwrap();
    users::in_shell(
        directory.path(),
        &["CREATE TABLE t (pk int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 7)"],
    );
    let service = Service::start(directory.path());
    let plain = Call { statement: "SELECT v FROM t", options: Vec::new(), password: "" };
    assert!(program.run(&service.address, &plain).unwrap().contains('7'), "{name}");
    assert_eq!(service.stop().0, Some(0));

    let directory = tempfile::tempdir().unwrap();
    let (service, files) = secured(directory.path());
    let trusting = |authority: &str| vec![("authority", files.path(authority))];
    let with = |more: &[(&'static str, String)]| [trusting("ca.pem"), more.to_vec()].concat();
    let shown = |name: &str| {
        with(&[
            ("certificate", files.path(&format!("{name}.pem"))),
            ("key", files.path(&format!("{name}.key"))),
        ])
    };
    let user = |name: &str| with(&[("user", name.to_owned())]);
    let run = |statement, options, password| {
        program.run(&service.address, &Call { statement, options, password })
    };
    let own = "SELECT v FROM t WHERE pk = 1";
    assert!(run(own, user("ann"), "ann-word").unwrap().contains('7'), "{name}");
    assert!(run(own, shown("ann"), "").unwrap().contains('7'), "{name}");
    let refused = |words: &str, found: Result<String, String>| {
        let error = found.expect_err(words);
        assert!(error.contains(words), "{name}: wanted '{words}' in: {error}");
    };
    let foreign = "SELECT * FROM other";
    refused("no SELECT on TABLE default.other", run(foreign, user("ann"), "ann-word"));
    refused("user or password is wrong", run(own, user("ann"), "x"));
    refused("user or password is wrong", run(own, user("bob"), "ann-word"));
    refused("'authorization' is missing", run(own, trusting("ca.pem"), ""));
    refused("role 'nobody' may not log in", run(own, shown("nobody"), ""));
    refused("", run(own, shown("stranger"), ""));
    refused(
        "certificat",
        run(own, [trusting("other-ca.pem"), vec![("user", "ann".to_owned())]].concat(), "ann-word"),
    );
    refused("", run(own, vec![("user", "ann".to_owned())], "ann-word"));
    assert_eq!(service.stop().0, Some(0));
}

#[test]
fn the_example_in_python_comes_by_tls() {
    judge(Program::python(), "Python's example");
}

#[test]
fn the_example_in_java_comes_by_tls() {
    judge(Program::java(), "JDBC driver");
}

#[test]
fn the_example_in_go_comes_by_tls() {
    judge(Program::go(), "Go's driver");
}

#[test]
fn processes_share_a_scan() {
    if !has_driver("parallel scan") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let insert = "INSERT INTO t SELECT g, g FROM generate_series(1, 40000) AS s(g)";
    users::in_shell(directory.path(), &["CREATE TABLE t (pk int PRIMARY KEY, v int)", insert]);
    let service = Service::start(directory.path());
    let mut command = Command::new(python());
    command
        .arg(example("parallel_scan.py"))
        .args([&service.address, "SELECT * FROM t WHERE v > 100"]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 3, "{out}");
    assert!(lines[0].starts_with("endpoint 1 of 2: "), "{out}");
    assert_eq!(lines[2], "39900 rows in all");
    assert_eq!(service.stop().0, Some(0));
}
