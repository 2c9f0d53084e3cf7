//! Machine code as it is kept beside its component, so that a start need not compile again.
//!
//! ```text
//! "tidecode" | version u32 | bytes of code u64 | SHA-256 of all that follows and what it belongs to | code
//! ```
//! Invariant: code is used only where the checksum says that it is, byte for byte, what a compiler
//! of this build made of this component; anything else is no error but compiled anew. The checksum
//! is for damage. Against people it is the folder that counts: who may write there may do all that
//! the database may, so the database keeps code only in a folder that is its own (`database`).

use std::hash::{DefaultHasher, Hash, Hasher};

use sha2::{Digest, Sha256};
use wasmtime::Engine;

const MAGIC: &[u8; 8] = b"tidecode";
const FORMAT_VERSION: u32 = 1;
const HEAD_BYTES: usize = 8 + 4 + 8 + 32;

/// What machine code depends on besides its component: the compiler, its settings, the processor.
pub(super) fn compatibility(engine: &Engine) -> u64 {
    // Equal in every process of one build; a build with another hash compiles anew.
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    hasher.finish()
}

/// The content of a file for machine code.
pub(super) fn seal(code: &[u8], component: &[u8; 32], compatibility: u64) -> Vec<u8> {
    let mut file = Vec::with_capacity(HEAD_BYTES + code.len());
    file.extend_from_slice(MAGIC);
    file.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    file.extend_from_slice(&(code.len() as u64).to_le_bytes());
    file.extend_from_slice(&checksum(code, component, compatibility));
    file.extend_from_slice(code);
    file
}

/// The machine code in a file.
///
/// Errors: in words, why it is none of this component for this build.
pub(super) fn unseal<'a>(
    file: &'a [u8],
    component: &[u8; 32],
    compatibility: u64,
) -> Result<&'a [u8], &'static str> {
    let (head, code) = file.split_at_checked(HEAD_BYTES).ok_or("it ends within its head")?;
    if &head[..8] != MAGIC || head[8..12] != FORMAT_VERSION.to_le_bytes() {
        return Err("it has another format");
    }
    if head[12..20] != (code.len() as u64).to_le_bytes() {
        return Err("it has another length than its head says");
    }
    if head[20..] != checksum(code, component, compatibility) {
        return Err("its checksum does not fit");
    }
    Ok(code)
}

fn checksum(code: &[u8], component: &[u8; 32], compatibility: u64) -> [u8; 32] {
    let hasher = Sha256::new();
    let hasher = hasher.chain_update(component).chain_update(compatibility.to_le_bytes());
    hasher.chain_update((code.len() as u64).to_le_bytes()).chain_update(code).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_very_bytes_for_this_build_are_taken() {
        let file = seal(b"code", &[7; 32], 5);
        assert_eq!(unseal(&file, &[7; 32], 5), Ok(&b"code"[..]));
        assert!(unseal(&file, &[8; 32], 5).is_err(), "of another component");
        assert!(unseal(&file, &[7; 32], 6).is_err(), "of another build");
        for length in 0..file.len() {
            assert!(unseal(&file[..length], &[7; 32], 5).is_err(), "{length} bytes");
        }
        for bit in 0..file.len() * 8 {
            let mut damaged = file.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(unseal(&damaged, &[7; 32], 5).is_err(), "bit {bit}");
        }
        assert!(unseal(&[&file[..], b"x"].concat(), &[7; 32], 5).is_err());
    }
}
