//! Where a service is, and who calls.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity as Pem};

use crate::cluster::uri_of;

/// How long a service has to take a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// How often a connection is asked whether it is alive, and how long it has to answer.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// Where a service is, and what both sides show each other.
#[derive(Debug, Clone, Default)]
pub(crate) struct Place {
    /// `grpc://HOST:PORT` or `grpc+tls://HOST:PORT`.
    pub address: String,
    /// The file with who issued the service's certificate.
    pub authority: Option<PathBuf>,
    /// The files of a certificate that says who calls, and its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
    pub identity: Identity,
}

/// Who calls.
#[derive(Clone, Default)]
pub(crate) enum Identity {
    /// Whoever the certificate says, or nobody.
    #[default]
    Unnamed,
    /// A role and its password.
    Role(String, String),
    /// The token of a role.
    Token(String),
}

impl std::fmt::Debug for Identity {
    /// Without secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Identity::Unnamed => f.write_str("Unnamed"),
            Identity::Role(role, _) => write!(f, "Role({role})"),
            Identity::Token(_) => f.write_str("Token"),
        }
    }
}

impl Place {
    /// The address with its files read. No connection is made yet.
    ///
    /// Errors: a sentence for an address of another form, a file that cannot be read, and TLS
    /// without an authority.
    pub(super) fn endpoint(&self) -> Result<Endpoint, String> {
        let address = &self.address;
        let is_tls = address.starts_with("grpc+tls://");
        if !is_tls && !address.starts_with("grpc://") {
            return Err(format!(
                "'{address}' is no address of a service: grpc://HOST:PORT, or grpc+tls://HOST:PORT"
            ));
        }
        let wrong = |error| format!("'{address}' is no address of a service: {error}");
        let endpoint = Endpoint::from_shared(uri_of(address)).map_err(wrong)?;
        let endpoint = endpoint
            .connect_timeout(CONNECT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEPALIVE)
            .keep_alive_timeout(KEEPALIVE)
            .http2_adaptive_window(true);
        if !is_tls {
            return match &self.authority {
                Some(_) => {
                    Err(format!("--authority is for TLS, and {address} is not: grpc+tls://…"))
                }
                None => Ok(endpoint),
            };
        }
        let authority = self.authority.as_ref().ok_or_else(|| {
            format!("{address} is TLS: --authority names the file of who issued its certificate")
        })?;
        let mut tls =
            ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(authority)?));
        if let Some((certificate, key)) = &self.certificate {
            tls = tls.identity(Pem::from_pem(read(certificate)?, read(key)?));
        }
        endpoint.tls_config(tls).map_err(|error| format!("TLS to {address}: {error}"))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_what_is_wrong_with_it() {
        let place = |address: &str, authority: Option<&str>| Place {
            address: address.to_owned(),
            authority: authority.map(PathBuf::from),
            ..Place::default()
        };
        for (address, authority, wanted) in [
            ("db:31337", None, "grpc://HOST:PORT"),
            ("http://db:31337", None, "grpc://HOST:PORT"),
            ("grpc://d b", None, "no address"),
            ("grpc://db:31337", Some("ca.pem"), "grpc+tls://"),
            ("grpc+tls://db:31337", None, "--authority"),
            ("grpc+tls://db:31337", Some("/absent/ca.pem"), "cannot read /absent/ca.pem"),
        ] {
            let error = place(address, authority).endpoint().err().unwrap();
            assert!(error.contains(wanted), "{address}: {error}");
        }
        assert!(place("grpc://127.0.0.1:31337", None).endpoint().is_ok());
    }

    #[test]
    fn a_secret_is_not_shown() {
        let role = Identity::Role("ann".to_owned(), "ann-word".to_owned());
        assert_eq!(
            format!("{role:?} {:?}", Identity::Token("tgt.x".to_owned())),
            "Role(ann) Token"
        );
    }
}
