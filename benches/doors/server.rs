//! The program as a server, in a process of its own: a child of the benchmark that runs it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::Duration;

use clap::Parser;
use tidegate::cli::Cli;

/// The first argument of a child that is the server.
const CHILD: &str = "child-serve";

/// What this process ends with where it is such a child; `None` for a benchmark.
pub fn as_child() -> Option<ExitCode> {
    let mut words = std::env::args().skip(1);
    (words.next()? == CHILD).then(|| {
        let cli = Cli::parse_from(std::iter::once("tidegate".to_owned()).chain(words));
        ExitCode::from(tidegate::run(cli))
    })
}

/// A process that listens.
pub struct Server {
    child: Child,
    pub address: String,
}

impl Server {
    /// Serves the database of a directory.
    pub fn start(directory: &Path) -> Self {
        Server::start_with(directory, &[])
    }

    /// The same with more options of the program.
    pub fn start_with(directory: &Path, options: &[&str]) -> Self {
        Server::start_serving(directory, options, &[])
    }

    /// The same with options of what serves as well.
    pub fn start_serving(directory: &Path, options: &[&str], serving: &[&str]) -> Self {
        let directory = directory.to_str().unwrap();
        let first = [CHILD, "--shards", "2", "--data", directory];
        let serve = ["serve", "--listen", "127.0.0.1:0"];
        Server::child(&[&first[..], options, &serve, serving].concat())
    }

    /// Runs the program to its end.
    pub fn once(arguments: &[&str]) -> ExitStatus {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.arg(CHILD).args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
        child.status().unwrap()
    }

    /// A child of this process that says on stderr where it listens.
    pub fn child(arguments: &[&str]) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").expect(&line).to_owned();
        // What it says later is passed on.
        let pass_on = move || stderr.lines().for_each(|line| eprintln!("{}", line.unwrap()));
        std::thread::Builder::new().name("stderr".into()).spawn(pass_on).unwrap();
        Server { child, address }
    }

    /// CPU time that the process has taken, in steps of 10 ms.
    pub fn cpu(&self) -> Duration {
        let path = format!("/proc/{}/stat", self.child.id());
        let text = std::fs::read_to_string(path).unwrap();
        // Behind the name, which may have spaces: state is field 3, utime 14, stime 15.
        let fields: Vec<&str> = text[text.rfind(')').unwrap() + 2..].split(' ').collect();
        let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
    }

    /// Memory of the process that is not swapped out.
    pub fn memory_bytes(&self) -> u64 {
        let path = format!("/proc/{}/statm", self.child.id());
        let text = std::fs::read_to_string(path).unwrap();
        let pages: u64 = text.split(' ').nth(1).unwrap().parse().unwrap();
        pages * rustix::param::page_size() as u64
    }

    /// Files, sockets and rings that the process has open.
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// Stops it as a user does, and waits.
    pub fn stop(mut self) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Of a benchmark that failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
