//! From bytes to a compiled policy: what is refused before the compiler sees it, and why.
//!
//! Invariant: only Wasm components are accepted, never native code; what a component imports and
//! exports is known before it is compiled, and functions are small enough to compile quickly.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use wasmparser::{Parser, Payload};
use wasmtime::Engine;
use wasmtime::component::{Component, Linker};

use super::artifact;
use super::bindings::v0_1::{self, IMPORTS, LIFECYCLE, VERSION, export_of};
use super::compiler::CompilerCommand;
use super::epoch::{Ticker, TickerHold};
use super::state::{State, printable};
use super::world::World;
use crate::config::POLICY_COMPONENT_BYTES_MAX;
use crate::error::{Error, Result};
use crate::hex::Hex;

/// Functions in a component. 20,000 small ones took 1.6 s to compile.
const FUNCTIONS_MAX: usize = 5_000;
/// Bytes of one function's body. Compile time grows faster than the body.
const BODY_BYTES_MAX: usize = 64 << 10;
/// First bytes of any Wasm binary.
const MAGIC: &[u8] = b"\0asm";

/// A policy that was checked and compiled; shards make their instances from it.
pub struct CompiledPolicy {
    name: String,
    digest: [u8; 32],
    size_bytes: usize,
    pub(super) engine: Engine,
    pub(super) prepared: v0_1::Prepared,
    pub(super) ticking: TickerHold,
}

impl CompiledPolicy {
    /// The name under which it was created.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// SHA-256 of the component's bytes.
    pub fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// The digest as 64 hex digits.
    pub fn digest_hex(&self) -> String {
        Hex(&self.digest).to_string()
    }

    /// Size of the component, bytes.
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// The decision that it takes.
    pub fn world(&self) -> World {
        self.prepared.world()
    }

    /// Version of the WIT package it was built against.
    pub fn contract_version(&self) -> &'static str {
        VERSION
    }
}

impl std::fmt::Debug for CompiledPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CompiledPolicy({} {})", self.name, self.digest_hex())
    }
}

/// A policy that is ready, and its machine code where that was made now.
pub struct Loaded {
    pub compiled: Arc<CompiledPolicy>,
    /// Content of a file that spares the next start the compiler; `None` when it came from one.
    pub artifact: Option<Vec<u8>>,
}

pub(super) fn compile(
    engine: &Engine,
    linker: &Linker<State>,
    ticker: &Arc<Ticker>,
    compiler: Option<&CompilerCommand>,
    name: &str,
    bytes: &[u8],
    kept: Option<&[u8]>,
) -> Result<Loaded> {
    let refuse = |message: String| Error::Policy { name: name.to_string(), message };
    let unfit = |error: wasmtime::Error| refuse(printable(&format!("{error:#}")));
    let world = check(bytes).map_err(refuse)?;
    let digest: [u8; 32] = Sha256::digest(bytes).into();
    let compatibility = artifact::compatibility(engine);
    let kept = kept.and_then(|kept| {
        let code = artifact::unseal(kept, &digest, compatibility).map_err(str::to_owned);
        let component =
            code.and_then(|code| load(engine, code).map_err(|error| format!("{error:#}")));
        let warn = |reason: &String| tracing::warn!(name, reason, "machine code is compiled anew");
        component.inspect_err(warn).ok()
    });
    let (component, artifact) = match kept {
        Some(component) => (component, None),
        None => {
            let code = match compiler {
                None => engine.precompile_component(bytes).map_err(unfit)?,
                Some(compiler) => compiler.compile(bytes).map_err(refuse)?,
            };
            let component = load(engine, &code).map_err(unfit)?;
            (component, Some(artifact::seal(&code, &digest, compatibility)))
        }
    };
    let prepared = linker
        .instantiate_pre(&component)
        .and_then(|component| v0_1::Prepared::new(world, component))
        .map_err(unfit)?;
    let compiled = Arc::new(CompiledPolicy {
        name: name.to_string(),
        digest,
        size_bytes: bytes.len(),
        engine: engine.clone(),
        prepared,
        ticking: ticker.hold(),
    });
    Ok(Loaded { compiled, artifact })
}

/// Takes machine code from a compiler.
#[expect(unsafe_code, reason = "machine code cannot be checked")]
fn load(engine: &Engine, code: &[u8]) -> wasmtime::Result<Component> {
    // SAFETY: the code is what this same compiler made. It came through a pipe from a process that
    // this one started (`compiler.rs`), from this process, or out of a file that only this user may
    // write and whose checksum says that it is what was written (`artifact.rs`).
    unsafe { Component::deserialize(engine, code) }
}

/// Everything that can be told without compiling: the world, or what is wrong.
pub(super) fn check(bytes: &[u8]) -> std::result::Result<World, String> {
    let size = bytes.len();
    if size > POLICY_COMPONENT_BYTES_MAX {
        return Err(format!("{size} bytes, the most is {POLICY_COMPONENT_BYTES_MAX}"));
    }
    if Engine::detect_precompiled(bytes).is_some() {
        return Err("this is native code; only WebAssembly components are accepted".to_string());
    }
    if !bytes.starts_with(MAGIC) || size < 8 {
        return Err("this is not WebAssembly".to_string());
    }
    // Bytes 6 and 7 hold the layer: 0 for a core module, 1 for a component.
    if bytes[6..8] == [0, 0] {
        return Err("this is a core WebAssembly module, not a component; wrap it with \
                    `wasm-tools component new` or build it with plugins/build-dist"
            .to_string());
    }
    let outline = Outline::read(bytes)?;
    if let Some(import) = outline.imports.iter().find(|name| !IMPORTS.contains(&name.as_str())) {
        return Err(format!(
            "imports {}, which no policy may; the only import is {}",
            printable(import),
            IMPORTS[0]
        ));
    }
    if !outline.exports.iter().any(|export| export == LIFECYCLE) {
        return Err(outline.explain_missing(LIFECYCLE));
    }
    let is_exported = |world: &World| outline.exports.iter().any(|name| name == export_of(*world));
    let mut worlds = World::ALL.into_iter().filter(is_exported);
    match (worlds.next(), worlds.next()) {
        (Some(world), None) => Ok(world),
        (Some(one), Some(other)) => {
            Err(format!("decides on {one} and on {other}; a component is of one world"))
        }
        (None, _) => Err(outline.explain_undecided()),
    }
}

/// Names at the outside of a component.
#[derive(Default)]
pub(super) struct Outline {
    pub imports: Vec<String>,
    pub exports: Vec<String>,
    pub functions: usize,
    /// Bytes of the largest function.
    pub body_bytes_max: usize,
}

impl Outline {
    pub fn read(bytes: &[u8]) -> std::result::Result<Self, String> {
        let invalid = |error: wasmparser::Error| format!("not a valid component: {error}");
        let mut outline = Outline::default();
        let mut depth = 0usize;
        for payload in Parser::new(0).parse_all(bytes) {
            match payload.map_err(invalid)? {
                Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
                Payload::End(_) => depth = depth.saturating_sub(1),
                Payload::ComponentImportSection(section) if depth == 0 => {
                    for import in section {
                        outline.imports.push(import.map_err(invalid)?.name.name.to_string());
                    }
                }
                Payload::ComponentExportSection(section) if depth == 0 => {
                    for export in section {
                        outline.exports.push(export.map_err(invalid)?.name.name.to_string());
                    }
                }
                Payload::CodeSectionEntry(body) => {
                    outline.functions += 1;
                    let functions = outline.functions;
                    let size = body.range().len();
                    outline.body_bytes_max = outline.body_bytes_max.max(size);
                    if size > BODY_BYTES_MAX {
                        return Err(format!(
                            "function {functions} has {size} bytes, the most is {BODY_BYTES_MAX}"
                        ));
                    }
                    if functions > FUNCTIONS_MAX {
                        return Err(format!("more than {FUNCTIONS_MAX} functions"));
                    }
                }
                _ => {}
            }
        }
        Ok(outline)
    }

    /// No decision that this engine knows is exported.
    fn explain_undecided(&self) -> String {
        let decisions = World::ALL.map(export_of);
        let near = decisions.iter().find(|name| self.of_another_version(name).is_some());
        match near {
            Some(near) => self.explain_missing(near),
            None => self.explain_missing(&decisions.join(" or ")),
        }
    }

    fn of_another_version(&self, name: &str) -> Option<&String> {
        let stem = name.split('@').next();
        self.exports.iter().find(|export| export.split('@').next() == stem)
    }

    fn explain_missing(&self, missing: &str) -> String {
        if let Some(other) = self.of_another_version(missing) {
            return format!("exports {}, this engine serves version {VERSION}", printable(other));
        }
        if self.exports.is_empty() {
            return format!("exports nothing, so not {missing}");
        }
        format!("exports {} but not {missing}", printable(&self.exports.join(", ")))
    }
}
