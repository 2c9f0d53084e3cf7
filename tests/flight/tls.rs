//! TLS with the drivers of Python: passwords, certificates of clients, and renewed certificates.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

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
