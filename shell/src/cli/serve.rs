//! What `tidegate serve` takes.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use super::size::parse_size;
use crate::flight::{Limits, Listen, TlsFiles};
use crate::query::duration_of_text;

/// Longest message that may be allowed, bytes: a batch is decoded as a whole.
const MESSAGE_BYTES_MOST: usize = 1 << 30;
/// Shortest message that must be taken, bytes: those of statements.
const MESSAGE_BYTES_LEAST: usize = 64 << 10;
/// Longest time that may be given.
const TIME_MOST: Duration = Duration::from_secs(365 * 24 * 3600);

#[derive(Debug, Clone, Args)]
pub struct ServeArguments {
    /// Address to listen on; port 0 takes a free port and prints it. One that other machines reach
    /// wants TLS, and a role that may log in.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:31337", value_parser = parse_address)]
    listen: SocketAddr,
    /// Address of /metrics, for Prometheus, and of /health; port 0 takes a free port.
    #[arg(long, value_name = "ADDRESS", value_parser = parse_local)]
    metrics: Option<SocketAddr>,
    /// Certificate of the service in PEM, with those between it and its authority. SIGHUP reads it
    /// again.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its private key in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Authority of clients' certificates in PEM: the common name of a certificate is a role.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
    /// Serve other machines without TLS, or without anybody who could log in.
    #[arg(long)]
    insecure: bool,
    /// Connections at once; more are told so and closed [default: as many as there is memory for,
    /// 64KiB each of a twentieth of --memory].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    connections_max: Option<u32>,
    /// Calls of one connection that are answered at once; more wait at the client.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    streams_max: u32,
    /// Longest message of a client, such as a batch of an ingest; 64KiB to 1GiB.
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_message_size)]
    message_bytes_max: usize,
    /// How long a connection may have no call before it is closed; 0 is for ever. A session without
    /// a token ends with its connection.
    #[arg(long, value_name = "TIME", default_value = "8h", value_parser = parse_idle_time)]
    idle_timeout: Duration,
    /// How often a silent client is asked whether it is alive, and how long it has for an answer.
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = parse_time)]
    keepalive: Duration,
    /// Folder that takes the snapshots which clients ask for, on the file system of the data;
    /// without it they are refused.
    #[arg(long, value_name = "DIR")]
    snapshots: Option<PathBuf>,
    /// File with the key that seals tickets and prepared statements; it is made when absent.
    /// Services that share it take each other's [default: ticket.key in the data directory].
    #[arg(long, value_name = "FILE")]
    ticket_key: Option<PathBuf>,
    /// Ring file of the cluster that this is a node of; tidegate ring makes one. All nodes have the
    /// same file.
    #[arg(long, value_name = "FILE", requires = "node")]
    ring: Option<PathBuf>,
    /// Name of this node in the ring file.
    #[arg(long, value_name = "NAME", requires = "ring")]
    node: Option<String>,
    /// Where endpoints of results say that they are, such as grpc+tls://db.example.com:31337, for
    /// readers on other machines [default: where the client asked].
    #[arg(long, value_name = "URI", value_parser = parse_advertised)]
    advertise: Option<Advertised>,
}

/// What `--advertise` names.
#[derive(Debug, Clone)]
struct Advertised {
    uri: String,
    is_tls: bool,
}

impl ServeArguments {
    /// The ring file and the name of this node, where it is one of a cluster.
    pub fn ring(&self) -> Option<(&Path, &str)> {
        self.ring.as_deref().zip(self.node.as_deref())
    }

    /// Where to listen, and to whom.
    ///
    /// Errors: a sentence for an address that clients could not use.
    pub fn listen(&self) -> Result<Listen, String> {
        let files = self.tls_cert.clone().zip(self.tls_key.clone());
        let tls = files.map(|(certificate, key)| TlsFiles {
            certificate,
            key,
            client_authority: self.tls_client_ca.clone(),
        });
        let limits = Limits {
            connections: self.connections_max.map(|connections| connections as usize),
            streams: self.streams_max,
            message_bytes: self.message_bytes_max,
            idle: self.idle_timeout,
            keepalive: self.keepalive,
        };
        let advertised = self.advertise.as_ref().map(|advertised| {
            let Advertised { uri, is_tls } = advertised;
            match (is_tls, tls.is_some()) {
                (true, false) => Err(format!("{uri} wants TLS: --tls-cert and --tls-key")),
                (false, true) => Err(format!(
                    "the service speaks TLS alone, and clients of {uri} would not: write grpc+tls://"
                )),
                _ => Ok(uri.clone()),
            }
        });
        Ok(Listen {
            clients: self.listen,
            metrics: self.metrics,
            tls,
            limits,
            snapshots: self.snapshots.clone(),
            ticket_key: self.ticket_key.clone(),
            advertised: advertised.transpose()?,
            insecure: self.insecure,
        })
    }
}

/// The schemes of Flight, and whether they are of TLS.
const SCHEMES: [(&str, bool); 3] =
    [("grpc://", false), ("grpc+tcp://", false), ("grpc+tls://", true)];

fn parse_advertised(text: &str) -> Result<Advertised, String> {
    let found = SCHEMES.into_iter().find_map(|(scheme, is_tls)| {
        let place = text.strip_prefix(scheme)?;
        let (host, port) = place.rsplit_once(':')?;
        let is_host =
            !host.is_empty() && !host.contains(|c: char| "/?#@".contains(c) || c.is_whitespace());
        (is_host && port.parse::<u16>().is_ok_and(|port| port > 0)).then_some(is_tls)
    });
    found.map(|is_tls| Advertised { uri: text.to_owned(), is_tls }).ok_or_else(|| {
        format!("'{text}' is no place: write grpc://host:31337, or grpc+tls://host:31337")
    })
}

fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let address = text.replace("localhost", "127.0.0.1").parse();
    address.map_err(|_| format!("'{text}' is no address: write 127.0.0.1:31337 or [::1]:31337"))
}

/// Metrics are for everyone who reaches the address.
fn parse_local(text: &str) -> Result<SocketAddr, String> {
    let address = parse_address(text)?;
    match address.ip().is_loopback() {
        true => Ok(address),
        false => Err(format!(
            "{} can be reached from other machines, and metrics ask nobody who they are: listen on \
             127.0.0.1 or [::1]",
            address.ip()
        )),
    }
}

fn parse_message_size(text: &str) -> Result<usize, String> {
    let bytes = parse_size(text)?;
    match (MESSAGE_BYTES_LEAST..=MESSAGE_BYTES_MOST).contains(&bytes) {
        true => Ok(bytes),
        false => Err(format!("'{text}' is no size from 64KiB to 1GiB")),
    }
}

/// From a second to a year.
fn parse_time(text: &str) -> Result<Duration, String> {
    let time = duration_of_text(text).filter(|time| *time >= Duration::from_secs(1));
    time.filter(|time| *time <= TIME_MOST)
        .ok_or_else(|| format!("'{text}' is no time from 1s to 8760h: write 30s, 5m or 1h30m"))
}

/// The same, or nothing.
fn parse_idle_time(text: &str) -> Result<Duration, String> {
    if text == "0" { Ok(Duration::ZERO) } else { parse_time(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_advertised_place_has_a_scheme_a_host_and_a_port() {
        for (text, wanted) in [
            ("grpc://127.0.0.1:31337", Some(false)),
            ("grpc+tcp://db:1", Some(false)),
            ("grpc+tls://db.example.com:31337", Some(true)),
            ("grpc://[::1]:31337", Some(false)),
            ("grpc://db", None),
            ("grpc://db:0", None),
            ("grpc://db:70000", None),
            ("grpc://:31337", None),
            ("grpc://user@db:31337", None),
            ("grpc://db/x:31337", None),
            ("http://db:31337", None),
            ("db:31337", None),
        ] {
            let found = parse_advertised(text).ok();
            assert_eq!(found.map(|place| place.is_tls), wanted, "{text}");
        }
    }
}
