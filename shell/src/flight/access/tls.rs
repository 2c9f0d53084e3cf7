//! TLS: certificates of the service, and the handshake of a connection.
//!
//! Invariant: a connection has the certificate that was loaded last when it came. Files that cannot
//! be used change nothing, and the log says why. A handshake that takes over [`HANDSHAKE`] is given
//! up.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use tokio_rustls::server::TlsStream;

use super::certificate::common_name;

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The protocol of gRPC.
const ALPN: &[u8] = b"h2";

/// Files in PEM.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The certificate of the service, and those between it and its authority.
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// The authority of clients' certificates, if clients may have any.
    pub client_authority: Option<PathBuf>,
}

/// See the head of this file.
pub(in crate::flight) struct Tls {
    files: TlsFiles,
    config: RwLock<Arc<ServerConfig>>,
}

impl Tls {
    /// Reads the files.
    ///
    /// Errors: in words, which file is no good.
    pub(in crate::flight) fn load(files: TlsFiles) -> Result<Self, String> {
        let config = RwLock::new(Arc::new(config(&files)?));
        Ok(Tls { files, config })
    }

    /// Reads the files again, for connections from now on.
    ///
    /// Errors: as [`Tls::load`]; then the certificates from before stay.
    pub(in crate::flight) fn reload(&self) -> Result<(), String> {
        let read = config(&self.files)?;
        *self.config.write().expect("no one panics while holding a configuration") = Arc::new(read);
        Ok(())
    }

    fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config.read().expect("no one panics while holding a configuration"))
    }

    /// The handshake of a connection; with it comes the common name of the client's certificate, if
    /// the client has one.
    ///
    /// Errors: those of the handshake; `TimedOut`.
    pub(in crate::flight) async fn accept(
        &self,
        stream: TcpStream,
    ) -> io::Result<(TlsStream<TcpStream>, Option<String>)> {
        let acceptor = TlsAcceptor::from(self.config());
        let stream = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await;
        let stream = stream.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let name = certificates.first().and_then(|certificate| common_name(certificate));
        Ok((stream, name))
    }
}

fn config(files: &TlsFiles) -> Result<ServerConfig, String> {
    let certificates = certificates(&files.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| format!("no private key in {}: {error}", files.key.display()))?;
    let builder = ServerConfig::builder();
    let builder = match &files.client_authority {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let unusable = |error: &dyn std::fmt::Display| {
                format!("{} is no authority: {error}", path.display())
            };
            let mut roots = RootCertStore::empty();
            for certificate in self::certificates(path)? {
                roots.add(certificate).map_err(|error| unusable(&error))?;
            }
            let verifier = WebPkiClientVerifier::builder(Arc::new(roots));
            // Others come with a password.
            let verifier = verifier.allow_unauthenticated().build();
            builder.with_client_cert_verifier(verifier.map_err(|error| unusable(&error))?)
        }
    };
    let mut config = builder.with_single_cert(certificates, key).map_err(|error| {
        let (certificate, key) = (files.certificate.display(), files.key.display());
        format!("{certificate} and {key} do not go together: {error}")
    })?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(config)
}

/// Errors: in words, also where there is no certificate in the file.
fn certificates(path: &PathBuf) -> Result<Vec<CertificateDer<'static>>, String> {
    let unreadable =
        |error: &dyn std::fmt::Display| format!("no certificate in {}: {error}", path.display());
    let all = CertificateDer::pem_file_iter(path).map_err(|error| unreadable(&error))?;
    let all: Result<Vec<_>, _> = all.collect();
    match all.map_err(|error| unreadable(&error))? {
        all if all.is_empty() => Err(unreadable(&"it holds none")),
        all => Ok(all),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::rustls::ClientConfig;

    use super::*;

    /// An authority, whose certificates are valid for `localhost`.
    struct Authority {
        issuer: Issuer<'static, KeyPair>,
        pem: String,
        der: CertificateDer<'static>,
    }

    impl Authority {
        fn new() -> Self {
            let mut params = CertificateParams::default();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let key = KeyPair::generate().unwrap();
            let certificate = params.self_signed(&key).unwrap();
            let (pem, der) = (certificate.pem(), certificate.der().clone());
            Authority { issuer: Issuer::new(params, key), pem, der }
        }

        /// Certificate and key of a common name, in PEM.
        fn issue(&self, name: &str) -> (String, String) {
            let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
            params.distinguished_name.push(DnType::CommonName, name);
            let key = KeyPair::generate().unwrap();
            (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
        }
    }

    /// Writes certificate, key and authority of clients into a directory.
    fn write(
        directory: &Path,
        (certificate, key): &(String, String),
        clients: &Authority,
    ) -> TlsFiles {
        let path = |name: &str| directory.join(name);
        std::fs::write(path("cert.pem"), certificate).unwrap();
        std::fs::write(path("key.pem"), key).unwrap();
        std::fs::write(path("clients.pem"), &clients.pem).unwrap();
        TlsFiles {
            certificate: path("cert.pem"),
            key: path("key.pem"),
            client_authority: Some(path("clients.pem")),
        }
    }

    /// A handshake with a client that trusts `authority` and has this certificate and key; what the
    /// service learns of the client.
    async fn shake(
        tls: &Tls,
        authority: &Authority,
        own: Option<(String, String)>,
    ) -> io::Result<Option<String>> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(authority.der.clone()).unwrap();
        let config = ClientConfig::builder().with_root_certificates(roots);
        let mut config = match own {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => {
                let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                config.with_client_auth_cert(vec![certificate], key).unwrap()
            }
        };
        config.alpn_protocols = vec![ALPN.to_vec()];
        let client = async {
            let stream = TcpStream::connect(address).await?;
            let name = "localhost".try_into().unwrap();
            TlsConnector::from(Arc::new(config)).connect(name, stream).await
        };
        let server = async { tls.accept(listener.accept().await?.0).await };
        let (client, server) = tokio::join!(client, server);
        let (stream, name) = server?;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(ALPN));
        client.map(|_| name)
    }

    #[tokio::test]
    async fn clients_are_known_by_their_certificates_and_certificates_can_be_renewed() {
        let directory = tempfile::tempdir().unwrap();
        let (own, clients, foreign) = (Authority::new(), Authority::new(), Authority::new());
        let files = write(directory.path(), &own.issue("service"), &clients);
        let tls = Tls::load(files).unwrap();
        assert_eq!(shake(&tls, &own, None).await.unwrap(), None);
        let ann = clients.issue("ann");
        assert_eq!(shake(&tls, &own, Some(ann)).await.unwrap().as_deref(), Some("ann"));
        assert!(shake(&tls, &own, Some(foreign.issue("ann"))).await.is_err());
        assert!(shake(&tls, &foreign, None).await.is_err(), "a client that trusts others");
        // Another authority takes over.
        let next = Authority::new();
        write(directory.path(), &next.issue("service"), &clients);
        assert!(shake(&tls, &own, None).await.is_ok(), "nobody said so yet");
        tls.reload().unwrap();
        assert!(shake(&tls, &own, None).await.is_err());
        assert!(shake(&tls, &next, None).await.is_ok());
        // What is no good changes nothing.
        std::fs::write(directory.path().join("cert.pem"), "nothing").unwrap();
        let said = tls.reload().unwrap_err();
        assert!(said.contains("cert.pem"), "{said}");
        assert!(shake(&tls, &next, None).await.is_ok());
    }

    #[tokio::test]
    async fn clients_may_come_with_a_certificate_of_any_authority_of_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let (own, first, second) = (Authority::new(), Authority::new(), Authority::new());
        let files = write(directory.path(), &own.issue("service"), &first);
        let both = format!("{}{}", first.pem, second.pem);
        std::fs::write(directory.path().join("clients.pem"), both).unwrap();
        let tls = Tls::load(files).unwrap();
        for (authority, name) in [(&first, "ann"), (&second, "bob")] {
            let known = shake(&tls, &own, Some(authority.issue(name))).await.unwrap();
            assert_eq!(known.as_deref(), Some(name));
        }
    }

    #[test]
    fn files_that_are_no_good_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let (own, clients) = (Authority::new(), Authority::new());
        let (one, other) = (own.issue("one"), own.issue("other"));
        for (name, text) in
            [("cert.pem", ""), ("key.pem", "x"), ("key.pem", other.1.as_str()), ("clients.pem", "")]
        {
            let files = write(directory.path(), &one, &clients);
            std::fs::write(directory.path().join(name), text).unwrap();
            let said = Tls::load(files).err().unwrap();
            assert!(said.contains(name), "{name}: {said}");
        }
        let mut files = write(directory.path(), &one, &clients);
        files.certificate = directory.path().join("absent.pem");
        assert!(Tls::load(files).err().unwrap().contains("absent.pem"));
    }
}
