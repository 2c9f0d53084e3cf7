//! Who is told that a service runs: the service manager, and whoever wants to open the same
//! directory.
//!
//! systemd, or whoever listens on the socket that `NOTIFY_SOCKET` names, hears when clients are
//! served and when the service stops. A file in the data directory says where the service is; it
//! goes with the service. After a crash it may stay, and means nothing where nobody has the
//! directory open.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use sd_notify::{NotifyState, notify};

/// The file in the data directory that says where the service is.
const FILE: &str = "serving";

/// A service that others know of. Its drop takes the file back.
pub(super) struct Announced(PathBuf);

impl Announced {
    /// Tells where clients are served from now on.
    pub(super) fn new(directory: &Path, address: SocketAddr, is_tls: bool) -> Self {
        let status = format!("listening on {address}");
        tell(&[NotifyState::Ready, NotifyState::Status(&status)]);
        let path = directory.join(FILE);
        if let Err(error) = fs::write(&path, uri(address, is_tls)) {
            tracing::warn!(%error, path = %path.display(), "nobody learns where the service is");
        }
        Announced(path)
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        // Without it nobody is misled who finds the directory open to all.
        let _ = fs::remove_file(&self.0);
    }
}

/// Tells that no further call is taken, and that running ones may end.
pub(super) fn tell_stopping() {
    tell(&[NotifyState::Stopping, NotifyState::Status("stopping: running calls may end")]);
}

/// Where the service is that has this directory open; `None` where none does.
pub fn serving(directory: &Path) -> Option<String> {
    let told = fs::read_to_string(directory.join(FILE)).ok()?;
    told.starts_with("grpc").then(|| told.trim().to_owned())
}

/// What a shell on this machine connects to.
fn uri(address: SocketAddr, is_tls: bool) -> String {
    let scheme = if is_tls { "grpc+tls" } else { "grpc" };
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    format!("{scheme}://{}", SocketAddr::new(ip, address.port()))
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = notify(states) {
        tracing::warn!(%error, "the service manager cannot be told");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_where_the_service_is_until_it_ends() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(serving(directory.path()), None);
        for (address, is_tls, wanted) in [
            ("127.0.0.1:31337", false, "grpc://127.0.0.1:31337"),
            ("0.0.0.0:1", true, "grpc+tls://127.0.0.1:1"),
            ("[::]:2", true, "grpc+tls://[::1]:2"),
            ("10.0.0.7:3", false, "grpc://10.0.0.7:3"),
        ] {
            let announced = Announced::new(directory.path(), address.parse().unwrap(), is_tls);
            assert_eq!(serving(directory.path()).as_deref(), Some(wanted));
            drop(announced);
            assert_eq!(serving(directory.path()), None);
        }
        fs::write(directory.path().join(FILE), "something else").unwrap();
        assert_eq!(serving(directory.path()), None);
    }
}
