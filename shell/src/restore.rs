//! `tidegate restore`: a data directory from a snapshot, which stays as it is.
//!
//! Invariant: the catalog comes last, so a restore that was cut short is no data directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tidegate_engine::os;

use crate::exit::fail;
use crate::memory::Bytes;
use crate::output::progress::ProgressLine;
use crate::stderr::tell_line;

const CATALOG: &str = "catalog";
const LOCK: &str = "LOCK";

/// Restores `snapshot` into `data`; returns the exit code.
pub(crate) fn run(snapshot: &Path, data: &Path) -> u8 {
    let mut progress = ProgressLine::new();
    let restored = restore(snapshot, data, &mut progress);
    progress.clear();
    match restored {
        Ok(Restored { files, bytes }) => {
            tell_line!(
                "restored {files} files, {}, from {} to {}",
                Bytes(usize::try_from(bytes).unwrap_or(usize::MAX)),
                snapshot.display(),
                data.display()
            );
            0
        }
        Err(error) => fail(&error),
    }
}

#[derive(Default)]
struct Restored {
    files: u64,
    bytes: u64,
}

fn restore(snapshot: &Path, data: &Path, progress: &mut ProgressLine) -> Result<Restored, String> {
    let told = |path: &Path, error: &io::Error| format!("{}: {error}", path.display());
    if !snapshot.join(CATALOG).is_file() {
        return Err(format!(
            "{} holds no snapshot: it has no file `{CATALOG}`, which SNAPSHOT TO writes last",
            snapshot.display()
        ));
    }
    // Of a snapshot that somebody opens as a database, nothing may change meanwhile.
    let lock = snapshot.join(LOCK);
    let _unused = match lock.exists().then(|| os::try_lock(&lock)) {
        Some(Err(_)) => {
            return Err(format!(
                "{} is open as a database: close it there first",
                snapshot.display()
            ));
        }
        Some(Ok(lock)) => Some(lock),
        None => None,
    };
    let is_taken = match fs::read_dir(data) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(told(data, &error)),
    };
    if is_taken {
        return Err(format!(
            "{} is not empty: name a new directory with --data, or remove what is in it",
            data.display()
        ));
    }
    let mut restored = Restored::default();
    copy_folder(snapshot, data, &mut restored, progress)?;
    let (from, to) = (snapshot.join(CATALOG), data.join(CATALOG));
    copy(&from, &to).map_err(|error| told(&from, &error))?;
    sync_folder(data)?;
    restored.files += 1;
    Ok(restored)
}

/// Copies all of a folder but the catalog and the lock.
fn copy_folder(
    from: &Path,
    to: &Path,
    restored: &mut Restored,
    progress: &mut ProgressLine,
) -> Result<(), String> {
    let told = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
    fs::create_dir_all(to).map_err(|error| told(to, error))?;
    let entries = fs::read_dir(from).map_err(|error| told(from, error))?;
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in entries {
        paths.push(entry.map_err(|error| told(from, error))?.path());
    }
    paths.sort();
    for path in paths {
        let Some(name) = path.file_name() else { continue };
        let target = to.join(name);
        if path.is_dir() {
            copy_folder(&path, &target, restored, progress)?;
        } else if name != CATALOG && name != LOCK {
            let is_sstable = path.extension().is_some_and(|extension| extension == "db");
            // Files of SSTables never change, so two directories may share them.
            let linked = is_sstable && fs::hard_link(&path, &target).is_ok();
            let bytes = match linked {
                true => fs::metadata(&path).map(|file| file.len()),
                false => copy(&path, &target),
            };
            restored.bytes += bytes.map_err(|error| told(&path, error))?;
            restored.files += 1;
            progress.show(&format!("{} files", restored.files));
        }
    }
    sync_folder(to)
}

fn copy(from: &Path, to: &Path) -> io::Result<u64> {
    let bytes = fs::copy(from, to)?;
    fs::File::open(to)?.sync_all()?;
    Ok(bytes)
}

fn sync_folder(folder: &Path) -> Result<(), String> {
    os::sync_directory(folder).map_err(|error| format!("{}: {error}", folder.display()))
}
