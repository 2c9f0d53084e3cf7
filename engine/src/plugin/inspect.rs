//! A component described for its author, whether or not the engine would take it.

use sha2::{Digest, Sha256};

use super::component::{Outline, check};
use super::state::printable;
use crate::hex::Hex;

/// What can be told of a component without compiling it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    pub size_bytes: usize,
    /// SHA-256, hex.
    pub digest: String,
    /// The world that its exports make, when they make one.
    pub world: Option<String>,
    pub imports: Vec<String>,
    pub exports: Vec<String>,
    pub function_count: usize,
    /// Bytes of the largest function.
    pub body_bytes_max: usize,
    /// Why the engine refuses it, if it does at this stage.
    pub fault: Option<String>,
}

/// Describes any bytes.
pub fn inspect(bytes: &[u8]) -> Inspection {
    let fault = check(bytes);
    let outline = Outline::read(bytes).unwrap_or_default();
    let shown = |names: &[String]| names.iter().map(|name| printable(name)).collect();
    Inspection {
        size_bytes: bytes.len(),
        digest: Hex(&Sha256::digest(bytes)).to_string(),
        world: fault.as_ref().ok().map(|world| format!("{world}-policy")),
        imports: shown(&outline.imports),
        exports: shown(&outline.exports),
        function_count: outline.functions,
        body_bytes_max: outline.body_bytes_max,
        fault: fault.err(),
    }
}
