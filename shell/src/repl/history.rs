//! Where the history of statements lies.
//!
//! Invariant: the file can be read by its owner only, for statements hold data.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;

/// Entries kept.
pub(super) const ENTRIES_MAX: usize = 10_000;

/// `$XDG_STATE_HOME/tidegate/history`, below `~/.local/state` when that is not set.
pub(super) fn path() -> Option<PathBuf> {
    let absolute =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local").join("state")))?;
    Some(state.join("tidegate").join("history"))
}

/// Makes the file and its directories where they are absent, and closes the file to others.
pub(super) fn prepare(path: &PathBuf) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let mut open = fs::OpenOptions::new();
    let file = open.create(true).append(true).mode(0o600).open(path)?;
    let metadata = file.metadata()?;
    if metadata.permissions().mode() & 0o077 != 0 {
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_closed_to_others() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a").join("b").join("history");
        prepare(&path).unwrap();
        for mode in [0o644, 0o640, 0o620, 0o610, 0o604, 0o602, 0o666, 0o600] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            prepare(&path).unwrap();
            let found = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            assert_eq!(found, 0o600, "{mode:o}");
        }
        assert_eq!(
            fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o777,
            0o700
        );
    }
}
