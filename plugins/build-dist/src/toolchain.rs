//! Which compiler builds the guests, and the flags that keep machine paths out of them.
//!
//! In order: the canonical toolchain of rustup; the default one, when it has the wasm target; the
//! packages of Debian, which build the standard library from its sources.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::output;

/// The release whose bytes are committed in `plugins/dist`.
const CANONICAL: &str = "1.95.0";
const TARGET_LIBRARY: &str = "lib/rustlib/wasm32-unknown-unknown/lib";
const HOW_TO_GET_ONE: &str = "no compiler for wasm32-unknown-unknown. Either:\n  \
    rustup toolchain install 1.95.0 --profile minimal -t wasm32-unknown-unknown\nor, on Debian:\n  \
    apt-get install -y --no-install-recommends rustc-web cargo-web rust-web-src lld-19";

/// A compiler that can build the guests.
#[derive(Debug)]
pub struct Toolchain {
    kind: Kind,
    version: String,
    sysroot: PathBuf,
}

#[derive(Debug)]
enum Kind {
    /// `cargo` and `rustc` of rustup, by toolchain name where it is not the default.
    Rustup(Option<&'static str>),
    /// `/usr/bin/rustc` with the library sources in this folder.
    Debian { library: PathBuf },
}

impl Toolchain {
    /// The best one installed.
    ///
    /// Errors: none can build for wasm; the message says how to get one.
    pub fn find() -> Result<Self, String> {
        let rustup = [Kind::Rustup(Some(CANONICAL)), Kind::Rustup(None)];
        let debian = debian_library().map(|library| Kind::Debian { library });
        for kind in rustup.into_iter().chain(debian) {
            let Some(sysroot) = output(kind.rustc().args(["--print", "sysroot"])) else { continue };
            let sysroot = PathBuf::from(sysroot);
            let ready = match kind {
                Kind::Rustup(_) => sysroot.join(TARGET_LIBRARY).is_dir(),
                Kind::Debian { .. } => Path::new("/usr/bin/wasm-ld-19").exists(),
            };
            let version = output(kind.rustc().arg("-V")).filter(|_| ready);
            if let Some(version) = version {
                return Ok(Toolchain { kind, version, sysroot });
            }
        }
        Err(HOW_TO_GET_ONE.to_string())
    }

    /// Whether it is the one whose bytes are committed.
    pub fn is_canonical(&self) -> bool {
        matches!(self.kind, Kind::Rustup(_))
            && self.version.starts_with(&format!("rustc {CANONICAL} "))
    }

    /// A cargo that uses this toolchain.
    ///
    /// Errors: the folder of the registry cannot be read.
    pub fn cargo(&self, plugins: &Path) -> Result<Command, String> {
        let mut flags = self.remapped_paths(plugins)?;
        let mut cargo = match &self.kind {
            Kind::Rustup(name) => {
                let mut cargo = Command::new("cargo");
                set_toolchain(&mut cargo, *name);
                cargo
            }
            Kind::Debian { library } => {
                flags.push("-Clinker=wasm-ld-19".to_string());
                let mut cargo = Command::new("/usr/bin/cargo");
                cargo.arg("-Zbuild-std=std,panic_abort");
                cargo.env("RUSTC", "/usr/bin/rustc").env("RUSTC_BOOTSTRAP", "1");
                cargo.env("__CARGO_TESTS_ONLY_SRC_ROOT", library);
                cargo
            }
        };
        cargo.env_remove("RUSTFLAGS").env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
        Ok(cargo)
    }

    /// Panic messages hold file names; these flags make them the same on every machine.
    fn remapped_paths(&self, plugins: &Path) -> Result<Vec<String>, String> {
        let mut mapped = vec![
            (plugins.to_path_buf(), "plugins"),
            (self.sysroot.join("lib/rustlib/src/rust"), "rust"),
        ];
        if let Kind::Debian { library } = &self.kind
            && let Some(sources) = library.parent()
        {
            mapped.push((sources.to_path_buf(), "rust"));
        }
        let home = match std::env::var_os("CARGO_HOME") {
            Some(home) => PathBuf::from(home),
            None => PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cargo"),
        };
        let registry = home.join("registry/src");
        let folders = match std::fs::read_dir(&registry) {
            Ok(folders) => folders.collect::<Result<Vec<_>, _>>(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        };
        let folders = folders.map_err(|error| format!("{}: {error}", registry.display()))?;
        mapped.extend(folders.into_iter().map(|folder| (folder.path(), "registry")));
        let flag = |(path, name): (PathBuf, &str)| {
            format!("--remap-path-prefix={}={name}", path.display())
        };
        Ok(mapped.into_iter().map(flag).collect())
    }
}

impl Kind {
    fn rustc(&self) -> Command {
        match self {
            Kind::Rustup(name) => {
                let mut rustc = Command::new("rustc");
                set_toolchain(&mut rustc, *name);
                rustc
            }
            Kind::Debian { .. } => Command::new("/usr/bin/rustc"),
        }
    }
}

/// `cargo run` tells its children which toolchain it is; that must not decide here.
fn set_toolchain(command: &mut Command, name: Option<&str>) {
    for inherited in ["RUSTC", "RUSTC_WRAPPER", "CARGO", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(inherited);
    }
    if let Some(name) = name {
        command.env("RUSTUP_TOOLCHAIN", name);
    }
}

fn debian_library() -> Option<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir("/usr/src")
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path().join("library")))
        .filter(|path| path.to_string_lossy().contains("/rustc-") && path.is_dir())
        .collect();
    found.sort();
    found.pop()
}

impl fmt::Display for Toolchain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_canonical = self.is_canonical();
        let note = if is_canonical { "" } else { ", not the canonical one: the bytes will differ" };
        write!(f, "{}{note}", self.version)
    }
}
