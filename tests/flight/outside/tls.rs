//! TLS: passwords, certificates of clients, and renewed certificates.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tonic::transport::{Certificate, ClientTlsConfig};

use super::*;

/// Certificates and keys in a directory: of two authorities, of the service, and of clients.
pub(super) struct Files(PathBuf);

impl Files {
    /// `ca.pem` has issued `service` and `ann`, `other-ca.pem` has issued `stranger`.
    pub(super) fn new(directory: &Path) -> Self {
        let files = Files(directory.to_owned());
        let own = files.authority("ca");
        files.issue(&own, "service");
        files.issue(&own, "ann");
        files.issue(&own, "nobody");
        let other = files.authority("other-ca");
        files.issue(&other, "stranger");
        files
    }

    pub(super) fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    fn authority(&self, name: &str) -> Issuer<'static, KeyPair> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        std::fs::write(self.path(&format!("{name}.pem")), certificate.pem()).unwrap();
        Issuer::new(params, key)
    }

    fn issue(&self, authority: &Issuer<'static, KeyPair>, name: &str) {
        let hosts = ["localhost", "127.0.0.1"].map(str::to_owned);
        let mut params = CertificateParams::new(hosts).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, authority).unwrap();
        std::fs::write(self.path(&format!("{name}.pem")), certificate.pem()).unwrap();
        std::fs::write(self.path(&format!("{name}.key")), key.serialize_pem()).unwrap();
    }
}

/// The next line of the service that is about certificates. Refused logins are there as well.
fn said_of_certificates(service: &mut Service) -> String {
    let mut line = String::new();
    while !line.contains("certificates") {
        line.clear();
        assert!(service.stderr.read_line(&mut line).unwrap() > 0, "the service is gone");
    }
    line
}

#[test]
fn python_comes_by_tls_with_a_password_or_a_certificate() {
    if !has_driver("python by TLS") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    users::in_shell(directory.path(), users::ROLES);
    let files = Files::new(directory.path());
    let (certificate, key, ca) =
        (files.path("service.pem"), files.path("service.key"), files.path("ca.pem"));
    let serving = ["--tls-cert", &certificate, "--tls-key", &key, "--tls-client-ca", &ca];
    let mut service = Service::start_serving(directory.path(), &[], &serving);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/flight/users.py");
    let judge = |part: &str, address: &str| {
        let mut client = Command::new(python());
        client.arg(&script).args([part, address]).arg(directory.path()).stdin(Stdio::null());
        let output = client.output().unwrap();
        let (said, errors) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{part}:\n{said}\n{errors}");
    };
    judge("users", &service.address);
    // Another authority takes over, without a break for anybody else.
    let next = files.authority("next-ca");
    files.issue(&next, "service");
    let id = rustix::process::Pid::from_child(&service.child);
    rustix::process::kill_process(id, rustix::process::Signal::HUP).unwrap();
    assert_eq!(said_of_certificates(&mut service), "read the certificates again\n");
    judge("renewed", &service.address);
    std::fs::write(&certificate, "nothing").unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::HUP).unwrap();
    let said = said_of_certificates(&mut service);
    assert!(said.starts_with("warning: the certificates stay as they were"), "{said}");
    judge("renewed", &service.address);
    assert_eq!(service.stop().0, Some(0));
}

/// What a service says of certificates that it is told to read again.
fn read_again(service: &mut Service) -> String {
    let id = rustix::process::Pid::from_child(&service.child);
    rustix::process::kill_process(id, rustix::process::Signal::HUP).unwrap();
    said_of_certificates(service)
}

/// Whether a client is served that trusts the authority in this file and no other.
async fn is_served(service: &Service, authority: &str) -> bool {
    let pem = std::fs::read_to_string(authority).unwrap();
    let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem));
    let endpoint = Channel::from_shared(format!("https://{}", service.address)).unwrap();
    match endpoint.tls_config(tls).unwrap().connect().await {
        Ok(channel) => query(&mut FlightSqlServiceClient::new(channel), "SELECT 1").await.is_ok(),
        Err(_) => false,
    }
}

#[test]
fn certificates_are_taken_that_are_good_again_after_some_that_were_not() {
    let directory = tempfile::tempdir().unwrap();
    let files = Files::new(directory.path());
    let (certificate, key) = (files.path("service.pem"), files.path("service.key"));
    let serving = ["--tls-cert", &certificate, "--tls-key", &key];
    let mut service = Service::start_serving(directory.path(), &[], &serving);
    let threads = client_threads();
    let mut before = files.path("ca.pem");
    assert!(threads.block_on(is_served(&service, &before)));
    let (one, other) = (certificate.as_str(), key.as_str());
    let bad: [&[&str]; 3] = [&[one], &[other], &[one, other]];
    for (number, bad) in bad.into_iter().enumerate() {
        for path in bad {
            std::fs::write(path, "nothing").unwrap();
            let said = read_again(&mut service);
            assert!(said.starts_with("warning: the certificates stay as they were"), "{said}");
            assert!(threads.block_on(is_served(&service, &before)), "{said}");
        }
        let name = format!("ca-{number}");
        let next = files.authority(&name);
        files.issue(&next, "service");
        assert_eq!(read_again(&mut service), "read the certificates again\n", "after {bad:?}");
        let after = files.path(&format!("{name}.pem"));
        assert!(threads.block_on(is_served(&service, &after)), "after {bad:?}");
        assert!(!threads.block_on(is_served(&service, &before)), "after {bad:?}");
        before = after;
    }
    assert_eq!(service.stop().0, Some(0));
}

/// Else anybody could end a service by a word to its terminal.
#[test]
fn without_certificates_there_is_nothing_to_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path());
    let id = rustix::process::Pid::from_child(&service.child);
    for _ in 0..2 {
        rustix::process::kill_process(id, rustix::process::Signal::HUP).unwrap();
    }
    client_threads().block_on(async {
        let mut client = connect(&service).await;
        assert_eq!(run(&mut client, "SELECT 1").await[0].num_rows(), 1);
    });
    let (code, said) = service.stop();
    assert_eq!((code, said.as_str()), (Some(0), "stopping\n"));
}
