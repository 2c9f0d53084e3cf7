//! What a service manager is told, and the unit of systemd in `examples/server`.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use super::*;

/// How long the service has for each word.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_service_manager_hears_when_clients_are_served_and_when_no_more() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let heard = || {
        let mut bytes = [0; 1024];
        let count = manager.recv(&mut bytes).expect("the service tells");
        String::from_utf8(bytes[..count].to_vec()).unwrap()
    };
    let mut command = Service::command(directory.path(), &[]);
    let mut child = command.env("NOTIFY_SOCKET", &path).spawn().unwrap();
    let ready = heard();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening on ").unwrap().to_owned();
    assert_eq!(ready.lines().collect::<Vec<_>>(), ["READY=1", &format!("STATUS={}", line.trim())]);
    let service = Service { child, stderr, address };
    client_threads().block_on(async {
        let mut client = connect(&service).await;
        assert_eq!(run(&mut client, "SELECT 1").await[0].num_rows(), 1);
    });
    assert_eq!(service.stop().0, Some(0));
    assert!(heard().starts_with("STOPPING=1\n"));
}

/// The unit with another program and other places, as lines.
fn unit(directory: &Path) -> String {
    let unit = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/server/tidegate.service");
    let unit = std::fs::read_to_string(unit).unwrap();
    let data = directory.join("data");
    unit.replace("/usr/local/bin/tidegate", env!("CARGO_BIN_EXE_tidegate"))
        .replace("/var/lib/tidegate", data.to_str().unwrap())
}

#[test]
fn the_unit_starts_what_it_names() {
    let directory = tempfile::tempdir().unwrap();
    let unit = unit(directory.path());
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let mut words = start.split(' ');
    let mut command = Command::new(words.next().unwrap());
    // Ports of its own: others may be in use.
    command.args(words.map(|word| match word.starts_with("127.0.0.1:") {
        true => "127.0.0.1:0",
        false => word,
    }));
    command.args(["--shards", "2"]).stdin(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert!(line.starts_with("listening on 127.0.0.1:"), "{line}");
    let service = Service { child, stderr, address: String::new() };
    let (code, said) = service.stop();
    assert_eq!(code, Some(0));
    assert!(said.starts_with("metrics on http://127.0.0.1:"), "{said}");
}

#[test]
fn systemd_finds_nothing_wrong_with_the_unit() {
    let found = Command::new("systemd-analyze").arg("--version").stdout(Stdio::null()).status();
    if !found.is_ok_and(|status| status.success()) {
        return skip("unit of systemd", "there is no systemd-analyze");
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tidegate.service");
    std::fs::write(&path, unit(directory.path())).unwrap();
    let mut verify = Command::new("systemd-analyze");
    let output = verify.args(["verify", "--man=no"]).arg(&path).output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    // Units of this machine may be wrong as well.
    let of_ours: Vec<&str> = said.lines().filter(|line| line.contains("tidegate")).collect();
    assert!(output.status.success() && of_ours.is_empty(), "{said}");
    let mut judged = Command::new("systemd-analyze");
    let output = judged.args(["security", "--offline=true", "--threshold=20"]).arg(&path).output();
    let output = output.unwrap();
    // It has a level of exposure of 2.0 at most, of 10.
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{said}");
}
