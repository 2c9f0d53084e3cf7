//! What `tidegate serve` takes.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use crate::flight::{Listen, TlsFiles};

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
}

impl ServeArguments {
    /// Where to listen, and to whom.
    pub fn listen(&self) -> Listen {
        let files = self.tls_cert.clone().zip(self.tls_key.clone());
        let tls = files.map(|(certificate, key)| TlsFiles {
            certificate,
            key,
            client_authority: self.tls_client_ca.clone(),
        });
        Listen { clients: self.listen, metrics: self.metrics, tls, insecure: self.insecure }
    }
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
