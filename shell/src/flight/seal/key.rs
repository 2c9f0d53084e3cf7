//! The key of seals, in a file: what clients carry outlives a restart, and services that share the
//! file read each other's tickets.
//!
//! Invariant: the file is written whole or not at all, and only its owner may read it. Whoever
//! reads it can make tickets. It holds the key in 64 hexadecimal digits and the end of a line.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use tidegate_engine::hex::{Hex, unhex};

use super::{HASH_BYTES, random};
use crate::stderr::tell_line;

/// Name of the file in a data directory.
const NAME: &str = "ticket.key";
/// Rights of others to the file, none of which they should have.
const OF_OTHERS: u32 = 0o077;

type Key = [u8; HASH_BYTES];

/// The key of a service: that of a file which somebody named, else that of its data directory. One
/// that cannot be written there, say on a full disk, ends with the process, and a warning says so.
///
/// Errors: a sentence for a file that cannot be read or made, and for one that holds no key.
pub(in crate::flight) fn of_service(named: Option<&Path>, data: &Path) -> Result<Key, String> {
    let own = data.join(NAME);
    let (key, made) = of_file(named.unwrap_or(&own))?;
    match made {
        Err(error) if named.is_some() => Err(error),
        Err(error) => {
            tell_line!("warning: {error}; tickets end with this process");
            Ok(key)
        }
        Ok(()) => Ok(key),
    }
}

/// The key in a file. One that is absent is made; with it comes an error where that is not kept.
///
/// Errors: a sentence for a file that cannot be read, and for one that holds no key.
fn of_file(path: &Path) -> Result<(Key, Result<(), String>), String> {
    let shown = path.display();
    match fs::read(path) {
        Ok(bytes) => {
            warn_of_readers(path);
            let key = key_of(&bytes).ok_or_else(|| {
                format!(
                    "{shown}: wanted a key of {} hexadecimal digits, found {} bytes that are none: \
                     bring the file back, or remove it and have clients ask again",
                    2 * HASH_BYTES,
                    bytes.len()
                )
            })?;
            Ok((key, Ok(())))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let key = random().map_err(|status| status.message().to_owned())?;
            let made = make(path, &key);
            let made =
                made.map_err(|error| format!("{shown}: cannot make the key of tickets: {error}"));
            Ok((key, made))
        }
        Err(error) => Err(format!("{shown}: cannot read the key of tickets: {error}")),
    }
}

fn key_of(bytes: &[u8]) -> Option<Key> {
    unhex(std::str::from_utf8(bytes).ok()?.trim_end())?.try_into().ok()
}

/// Writes another file and gives it the name, so that a cut leaves no half of a key. A draft of
/// before is never written to: others may have it open.
fn make(path: &Path, key: &Key) -> std::io::Result<()> {
    let draft = path.with_extension("key.new");
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
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
        let path = directory.path().join(NAME);
        // Of a start that was cut short, and open to all.
        fs::write(directory.path().join("ticket.key.new"), "half").unwrap();
        let own = |directory: &Path| of_service(None, directory).unwrap();
        let key = own(directory.path());
        assert_ne!(key, [0; HASH_BYTES]);
        assert_eq!(own(directory.path()), key);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "no draft is left");
        let other = tempfile::tempdir().unwrap();
        assert_ne!(own(other.path()), key);
        assert_eq!(of_service(Some(&path), other.path()).unwrap(), key, "one that is shared");
    }

    #[test]
    fn a_file_without_a_key_is_refused_and_stays() {
        let directory = tempfile::tempdir().unwrap();
        let (path, data) = (directory.path().join(NAME), directory.path());
        let key = of_service(None, data).unwrap();
        let whole = fs::read(&path).unwrap();
        for damaged in [&b""[..], &whole[..whole.len() - 2], b"zz", &[0xff; 65]] {
            fs::write(&path, damaged).unwrap();
            let error = of_service(None, data).unwrap_err();
            assert!(error.contains("ticket.key: wanted a key of 64"), "{error}");
            assert_eq!(fs::read(&path).unwrap(), damaged);
        }
        fs::write(&path, whole.to_ascii_uppercase()).unwrap();
        assert_eq!(of_service(None, data).unwrap(), key, "as somebody may have typed it");
    }

    #[test]
    fn a_key_that_cannot_be_kept_ends_with_the_process_unless_somebody_named_it() {
        let directory = tempfile::tempdir().unwrap();
        let gone = directory.path().join("none");
        let error = of_service(Some(&gone.join("shared.key")), directory.path()).unwrap_err();
        assert!(error.contains("shared.key: cannot make the key"), "{error}");
        let keys = [(); 2].map(|()| of_service(None, &gone).unwrap());
        assert_ne!(keys[0], keys[1]);
    }
}
