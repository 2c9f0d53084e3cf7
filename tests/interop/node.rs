//! Apache Cassandra on this machine: its jars, and a Java process with a node's configuration.
//!
//! Version 5.0.5 comes from Maven Central, by `pom.xml` beside this file, once: the jars stay in
//! `$TIDEGATE_INTEROP_CACHE`, or below the target directory. It takes a JDK, and Maven and a
//! network where the jars are not there yet.

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What the tools and the node need on Java 17: Cassandra looks into the JDK's own packages.
const JAVA_FLAGS: &[&str] = &[
    "-Djava.security.manager=allow",
    "--add-exports",
    "java.base/jdk.internal.misc=ALL-UNNAMED",
    "--add-exports",
    "java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports",
    "java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports",
    "java.rmi/sun.rmi.registry=ALL-UNNAMED",
    "--add-opens",
    "java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens",
    "java.base/java.io=ALL-UNNAMED",
    "--add-opens",
    "java.base/java.nio=ALL-UNNAMED",
    "--add-opens",
    "java.base/java.util.concurrent=ALL-UNNAMED",
    "--add-opens",
    "java.base/java.lang=ALL-UNNAMED",
    "-Dcassandra-foreground=yes",
    "-Dcassandra.ring_delay_ms=100",
    "-Dcassandra.skip_wait_for_gossip_to_settle=0",
];

/// The folder of the project: a package that has this module lives there or below.
pub fn root() -> &'static Path {
    let mut above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    above.find(|folder| folder.join("tests/interop").is_dir()).unwrap()
}

/// The folder of this file.
pub fn sources() -> PathBuf {
    root().join("tests/interop")
}

/// The output of a test is captured; this is for whoever runs it.
#[expect(clippy::explicit_write, reason = "`eprintln!` is captured with the test's output")]
fn say(text: &str) {
    writeln!(std::io::stderr(), "interop: {text}").unwrap();
}

fn run(command: &mut Command) -> Result<(), String> {
    let shown = format!("{command:?}");
    let shown = shown.split(' ').next().unwrap_or_default().to_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{shown}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let first = text.lines().find(|line| line.contains("ERROR")).or(text.lines().next());
    Err(format!("{shown}: {}", first.unwrap_or("failed")))
}

/// The class path of Cassandra. Its jars are fetched where they are not there yet.
///
/// Errors: why they cannot be had.
pub fn class_path() -> Result<String, String> {
    run(Command::new("javac").arg("-version"))?;
    run(Command::new("java").arg("-version"))?;
    let cache = match std::env::var_os("TIDEGATE_INTEROP_CACHE") {
        Some(cache) => PathBuf::from(cache),
        None => Path::new(env!("CARGO_TARGET_TMPDIR")).join("interop"),
    };
    fs::create_dir_all(&cache).map_err(|error| format!("{}: {error}", cache.display()))?;
    let pom = sources().join("pom.xml");
    let (class_path, of) = (cache.join("class-path.txt"), cache.join("of-pom.xml"));
    let is_current = fs::read(&of).is_ok_and(|known| known == fs::read(&pom).unwrap());
    let there = fs::read_to_string(&class_path)
        .ok()
        .filter(|text| is_current && text.trim().split(':').all(|jar| Path::new(jar).exists()));
    if let Some(text) = there {
        return Ok(text.trim().to_owned());
    }
    say("fetching the jars of Apache Cassandra from Maven Central");
    run(Command::new("mvn")
        .args(["-q", "-B", "-f"])
        .arg(&pom)
        .arg(format!("-Dmaven.repo.local={}", cache.join("repository").display()))
        .arg("dependency:build-classpath")
        .arg(format!("-Dmdep.outputFile={}", class_path.display())))?;
    fs::copy(&pom, &of).map_err(|error| error.to_string())?;
    let text = fs::read_to_string(&class_path).map_err(|error| error.to_string())?;
    Ok(text.trim().to_owned())
}

/// Compiles Java below `work`; the folder of the classes.
///
/// Errors: the compiler's.
pub fn compile(work: &Path, class_path: &str, files: &[PathBuf]) -> Result<PathBuf, String> {
    let classes = work.join("classes");
    let mut compiler = Command::new("javac");
    run(compiler.args(["-nowarn", "-cp", class_path, "-d"]).arg(&classes).args(files))?;
    Ok(classes)
}

/// Java with what Cassandra wants of it and with the configuration in `work`; its heap is as long
/// as `heap` says. The class path and the class are still to be said.
pub fn java(work: &Path, heap: &str) -> Command {
    let mut java = Command::new("java");
    java.arg(heap)
        .args(JAVA_FLAGS)
        .arg(format!("-Dcassandra.config=file://{}", work.join("cassandra.yaml").display()))
        .arg(format!("-Dcassandra.storagedir={}", work.join("node").display()))
        .arg(format!(
            "-Dlogback.configurationFile=file://{}",
            sources().join("logback.xml").display()
        ))
        .stdin(Stdio::null());
    java
}

/// A port of loopback that nobody has.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Writes the configuration of a node that lives in `work`, and takes clients on a port if there is
/// one.
pub fn configure(work: &Path, clients: Option<u16>) {
    let port = free_port();
    let node = work.join("node");
    let node = node.display();
    let clients = match clients {
        None => "start_native_transport: false".to_owned(),
        Some(port) => format!("start_native_transport: true\nnative_transport_port: {port}"),
    };
    let text = format!(
        "cluster_name: interop\n\
         num_tokens: 1\n\
         partitioner: org.apache.cassandra.dht.Murmur3Partitioner\n\
         commitlog_sync: periodic\n\
         commitlog_sync_period: 10s\n\
         endpoint_snitch: SimpleSnitch\n\
         listen_address: 127.0.0.1\n\
         rpc_address: 127.0.0.1\n\
         storage_port: {port}\n\
         {clients}\n\
         auto_snapshot: false\n\
         seed_provider:\n\
         \x20 - class_name: org.apache.cassandra.locator.SimpleSeedProvider\n\
         \x20   parameters: [{{seeds: \"127.0.0.1:{port}\"}}]\n\
         data_file_directories: [{node}/data]\n\
         commitlog_directory: {node}/commitlog\n\
         saved_caches_directory: {node}/saved_caches\n\
         hints_directory: {node}/hints\n\
         cdc_raw_directory: {node}/cdc_raw\n"
    );
    fs::write(work.join("cassandra.yaml"), text).unwrap();
}
