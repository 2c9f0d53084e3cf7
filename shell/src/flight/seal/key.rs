//! The key of seals, in a file: what clients carry outlives a restart, and services that share the
//! file read each other's tickets.
//!
//! Invariant: the file is written whole or not at all, and only its owner may read it. Whoever
//! reads it can make tickets. It holds the key in 64 hexadecimal digits and the end of a line.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tidegate_engine::hex::{Hex, unhex};

use super::{HASH_BYTES, random};
use crate::stderr::tell_line;

/// Name of the file in a data directory.
const NAME: &str = "ticket.key";
/// Rights of others to the file, none of which they should have.
const OF_OTHERS: u32 = 0o077;

/// Where the key of a data directory is.
pub(in crate::flight) fn in_directory(directory: &Path) -> PathBuf {
    directory.join(NAME)
}

/// The key in a file, which is made when absent.
///
/// Errors: a sentence for a file that cannot be read or made, and for one that holds no key.
pub(in crate::flight) fn of_file(path: &Path) -> Result<[u8; HASH_BYTES], String> {
    let shown = path.display();
    match fs::read(path) {
        Ok(bytes) => {
            warn_of_readers(path);
            key_of(&bytes).ok_or_else(|| {
                format!(
                    "{shown}: wanted a key of {} hexadecimal digits, found {} bytes that are none: \
                     bring the file back, or remove it and have clients ask again",
                    2 * HASH_BYTES,
                    bytes.len()
                )
            })
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let key = random().map_err(|status| status.message().to_owned())?;
            let made = make(path, &key);
            made.map_err(|error| format!("{shown}: cannot make the key of tickets: {error}"))?;
            Ok(key)
        }
        Err(error) => Err(format!("{shown}: cannot read the key of tickets: {error}")),
    }
}

fn key_of(bytes: &[u8]) -> Option<[u8; HASH_BYTES]> {
    unhex(std::str::from_utf8(bytes).ok()?.trim_end())?.try_into().ok()
}

/// Writes another file and gives it the name, so that a cut leaves no half of a key.
fn make(path: &Path, key: &[u8; HASH_BYTES]) -> std::io::Result<()> {
    let draft = path.with_extension("key.new");
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    writeln!(file, "{}", Hex(key))?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

fn warn_of_readers(path: &Path) {
    let is_open = |data: &fs::Metadata| data.permissions().mode() & OF_OTHERS != 0;
    if fs::metadata(path).is_ok_and(|data| is_open(&data)) {
        let path = path.display();
        tell_line!("warning: others may read {path}, and make tickets with it: chmod 600 {path}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_and_for_its_owner_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = in_directory(directory.path());
        let key = of_file(&path).unwrap();
        assert_ne!(key, [0; HASH_BYTES]);
        assert_eq!(of_file(&path).unwrap(), key);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "no draft is left");
        let other = tempfile::tempdir().unwrap();
        assert_ne!(of_file(&in_directory(other.path())).unwrap(), key);
    }

    #[test]
    fn a_file_without_a_key_is_refused_and_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = in_directory(directory.path());
        let key = of_file(&path).unwrap();
        let whole = fs::read(&path).unwrap();
        for damaged in [&b""[..], &whole[..whole.len() - 2], b"zz", &[0xff; 65]] {
            fs::write(&path, damaged).unwrap();
            let error = of_file(&path).unwrap_err();
            assert!(error.contains("ticket.key: wanted a key of 64"), "{error}");
            assert_eq!(fs::read(&path).unwrap(), damaged);
        }
        fs::write(&path, whole.to_ascii_uppercase()).unwrap();
        assert_eq!(of_file(&path).unwrap(), key, "as somebody may have typed it");
        let error = of_file(&directory.path().join("none/ticket.key")).unwrap_err();
        assert!(error.contains("cannot make"), "{error}");
    }
}
