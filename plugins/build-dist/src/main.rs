//! Builds the guests of this workspace for wasm32-unknown-unknown, wraps each core module as a
//! component, and writes `plugins/dist/<policy>.wasm` with `plugins/dist/SHA256SUMS`.
//!
//! ```text
//! cargo run --manifest-path plugins/build-dist/Cargo.toml            # write plugins/dist
//! cargo run --manifest-path plugins/build-dist/Cargo.toml -- --check # build, compare, write nothing
//! ```
//!
//! Invariant: with the canonical toolchain the bytes depend on the sources and `Cargo.lock` alone,
//! not on where the tree, the registry or the toolchain stands; `--check` holds that, and says of each
//! component that it could not compare why.

mod foreign;
#[path = "../../../tests/skip.rs"]
mod skip;
mod toolchain;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use foreign::{Built, FOREIGN};
use sha2::{Digest, Sha256};
use skip::skip;
use toolchain::Toolchain;

/// The guests: folder of the crate. The component has the same name, with `_` for `-`.
const POLICIES: [&str; 20] = [
    "lru",
    "sieve",
    "fifo",
    "clock",
    "s3-fifo",
    "two-q",
    "arc",
    "w-tinylfu",
    "lirs",
    "lhd",
    "always",
    "second-touch",
    "doorkeeper",
    "scan-guard",
    "decaying",
    "token-bucket",
    "latency",
    "codel",
    "queue-guard",
    "lazy-leveling",
];
/// The only name that a component may import.
const HOST: &str = "tidegate:policy/host@0.1.0";

fn main() -> ExitCode {
    let check = match std::env::args().nth(1).as_deref() {
        None => false,
        Some("--check") => true,
        Some(other) => {
            return fail(&format!("unknown argument '{other}'; the only one is --check"));
        }
    };
    match run(check) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => fail(&message),
    }
}

fn fail(message: &str) -> ExitCode {
    eprintln!("build-dist: {message}");
    ExitCode::FAILURE
}

fn run(check: bool) -> Result<(), String> {
    let manifest = std::env::var("CARGO_MANIFEST_DIR").map_err(|_| "run it through cargo run")?;
    let plugins = Path::new(&manifest).parent().ok_or("plugins/ is the folder above")?;
    let target = match std::env::var_os("CARGO_TARGET_DIR") {
        Some(given) => PathBuf::from(given),
        None => plugins.join("target"),
    };
    let toolchain = Toolchain::find()?;
    println!("toolchain: {toolchain}");
    build(&toolchain, plugins, &target)?;

    let dist = plugins.join("dist");
    let mut sums = String::new();
    let mut different = Vec::new();
    let is_comparable = !check || toolchain.is_canonical();
    if !is_comparable {
        skip("bytes of the Rust policies in dist", &format!("built by {toolchain}"));
    }
    for policy in POLICIES {
        let name = policy.replace('-', "_");
        let module = format!("wasm32-unknown-unknown/release/tidegate_policy_{name}.wasm");
        let module = read(&target.join(module))?;
        let file = dist.join(format!("{name}.wasm"));
        let mut component = encode(policy, &module)?;
        if !is_comparable {
            component = read(&file)?;
        }
        sums.push_str(&describe(&name, &component));
        store(&file, &component, check, &mut different)?;
    }
    for guest in FOREIGN {
        let name = guest.folder.replace('-', "_");
        let file = dist.join(format!("{name}.wasm"));
        let component = match guest.build(plugins, &target)? {
            Built::Module(module) => encode(guest.folder, &module)?,
            Built::Absent(why) => {
                println!("{name}.wasm: NOT REBUILT, the committed one stays: {why}");
                if check {
                    skip(&format!("bytes of {} in dist", guest.folder), &why);
                }
                read(&file)?
            }
        };
        sums.push_str(&describe(&name, &component));
        store(&file, &component, check, &mut different)?;
    }
    store(&dist.join("SHA256SUMS"), sums.as_bytes(), check, &mut different)?;
    if different.is_empty() {
        return Ok(());
    }
    Err(format!("not what the sources build with {toolchain}: {}", different.join(", ")))
}

/// Tells of a component; its line of SHA256SUMS.
fn describe(name: &str, component: &[u8]) -> String {
    let digest = hex(&Sha256::digest(component));
    println!("{name}.wasm: {} bytes, sha256 {digest}", component.len());
    format!("{digest}  {name}.wasm\n")
}

fn build(toolchain: &Toolchain, plugins: &Path, target: &Path) -> Result<(), String> {
    let mut cargo = toolchain.cargo(plugins)?;
    cargo.args(["build", "--release", "--locked", "--target", "wasm32-unknown-unknown"]);
    cargo.arg("--manifest-path").arg(plugins.join("Cargo.toml"));
    cargo.arg("--target-dir").arg(target);
    for policy in POLICIES {
        cargo.arg("-p").arg(format!("tidegate-policy-{policy}"));
    }
    // Cargo looks for its configuration from here upwards, so a guest never sees the engine's.
    cargo.current_dir(plugins);
    match cargo.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("building the guests: cargo ended with {status}")),
        Err(error) => Err(format!("starting {:?}: {error}", cargo.get_program())),
    }
}

/// Wraps a core module and makes sure that nothing but the host is imported.
fn encode(policy: &str, module: &[u8]) -> Result<Vec<u8>, String> {
    let wrong = |what: &str, error: &dyn std::fmt::Display| format!("{policy}: {what}: {error}");
    let component = wit_component::ComponentEncoder::default()
        .validate(true)
        .module(module)
        .map_err(|error| wrong("reading the core module", &error))?
        .encode()
        .map_err(|error| wrong("making the component", &error))?;
    let decoded = wit_component::decode(&component)
        .map_err(|error| wrong("reading the component back", &error))?;
    let wit_component::DecodedWasm::Component(resolve, world) = decoded else {
        return Err(format!("{policy}: the result is a WIT package, not a component"));
    };
    for key in resolve.worlds[world].imports.keys() {
        let name = resolve.name_world_key(key);
        if name != HOST {
            return Err(format!("{policy}: imports {name}, which no policy may"));
        }
    }
    Ok(component)
}

fn store(
    path: &Path,
    bytes: &[u8],
    check: bool,
    different: &mut Vec<String>,
) -> Result<(), String> {
    if check {
        if std::fs::read(path).ok().as_deref() != Some(bytes) {
            different.push(path.display().to_string());
        }
        return Ok(());
    }
    let parent = path.parent().ok_or("a file stands in a folder")?;
    std::fs::create_dir_all(parent).map_err(|error| format!("{}: {error}", parent.display()))?;
    std::fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What a finished command printed, without the line end.
fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_string())
}
