//! The options of a shell that is connected to a service.

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use clap::Args;
use tidegate_engine::os;

use crate::remote::{Identity, Place};

/// The variable with the password of the role.
const PASSWORD: &str = "TIDEGATE_PASSWORD";
/// The variable with the token of a role.
const TOKEN: &str = "TIDEGATE_TOKEN";

/// A service to connect to, in place of a data directory.
#[derive(Debug, Clone, Args)]
pub struct ConnectArguments {
    /// Run statements at a service, such as grpc://127.0.0.1:31337 or
    /// grpc+tls://db.example.com:31337, and open no data directory.
    #[arg(long, value_name = "ADDRESS")]
    connect: Option<String>,

    /// Role to log in as; TIDEGATE_PASSWORD has its password, else a terminal is asked. Without
    /// it, TIDEGATE_TOKEN may have a token.
    #[arg(long, value_name = "ROLE", requires = "connect")]
    user: Option<String>,

    /// PEM file of who issued the service's certificate, for grpc+tls.
    #[arg(long, value_name = "FILE", requires = "connect")]
    authority: Option<PathBuf>,

    /// PEM file of a certificate that says who calls.
    #[arg(long, value_name = "FILE", requires = "connect", requires = "key")]
    certificate: Option<PathBuf>,

    /// PEM file of that certificate's key.
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
}

impl ConnectArguments {
    /// Where to connect to, if that is asked for. May ask the terminal for a password.
    ///
    /// Errors: a sentence where a password is missing.
    pub(crate) fn place(&self) -> Result<Option<Place>, String> {
        let Some(address) = self.connect.clone() else { return Ok(None) };
        let identity = match (&self.user, std::env::var(TOKEN)) {
            (Some(role), _) => Identity::Role(role.clone(), password(role)?),
            (None, Ok(token)) => Identity::Token(token),
            (None, Err(_)) => Identity::Unnamed,
        };
        let certificate = self.certificate.clone().zip(self.key.clone());
        Ok(Some(Place { address, authority: self.authority.clone(), certificate, identity }))
    }
}

fn password(role: &str) -> Result<String, String> {
    if let Ok(password) = std::env::var(PASSWORD) {
        return Ok(password);
    }
    if !io::stdin().is_terminal() {
        return Err(format!("no password for role '{role}': {PASSWORD} is not set"));
    }
    os::read_secret(&format!("Password of {role}: "))
        .map_err(|error| format!("cannot read the password: {error}"))
}
