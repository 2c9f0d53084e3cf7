//! Paths in the folder of policies: components, their machine code, learnt state.

use std::path::{Path, PathBuf};

/// Paths in the folder of policies of one data directory.
#[derive(Debug, Clone)]
pub struct PolicyFiles {
    folder: PathBuf,
}

impl PolicyFiles {
    pub fn new(folder: PathBuf) -> Self {
        PolicyFiles { folder }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// A component, by the digest of its bytes.
    pub(super) fn component(&self, digest: &str) -> PathBuf {
        self.folder.join(format!("{digest}.wasm"))
    }

    /// Its machine code, for one build and processor.
    pub(super) fn code(&self, digest: &str, compatibility: u64) -> PathBuf {
        self.folder.join(format!("{digest}-{compatibility:016x}.code"))
    }

    /// What a shard's policy left at the last end.
    pub(super) fn state(&self, shard: u32, shard_count: u32) -> PathBuf {
        self.folder.join(format!("{shard}-of-{shard_count}.state"))
    }
}

/// Whether a name in the folder is that of machine code of this component.
pub(super) fn is_code_of(name: &str, digest: &str) -> bool {
    name.strip_prefix(digest).is_some_and(|rest| rest.starts_with('-') && rest.ends_with(".code"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_code_is_known_by_its_name() {
        let files = PolicyFiles::new(PathBuf::from("/db/policies"));
        let name = |path: PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        assert!(is_code_of(&name(files.code("ab", 7)), "ab"));
        assert!(!is_code_of(&name(files.code("abc", 7)), "ab"), "of another component");
        assert!(!is_code_of(&name(files.component("ab")), "ab"));
        assert!(!is_code_of(&name(files.state(0, 2)), "0"));
    }
}
