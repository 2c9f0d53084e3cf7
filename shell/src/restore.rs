//! `tidegate restore`: a data directory from a snapshot, which stays as it is.
//!
//! Invariant: the catalog comes last, so a restore that was cut short is no data directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tidegate_engine::clock::{Clock, SystemClock};
use tidegate_engine::os;

use crate::exit::fail;
use crate::memory::Bytes;
use crate::objects::{Moved, Place, part_of};
use crate::output::progress::{INTERVAL_MS, Progress, ProgressLine};
use crate::stderr::tell_line;
use crate::thread;

const CATALOG: &str = "catalog";
const LOCK: &str = "LOCK";

/// Restores `snapshot` into `data`; returns the exit code.
pub(crate) fn run(snapshot: &Path, data: &Path) -> u8 {
    let progress = Mutex::new(ProgressLine::new());
    let place = snapshot.to_str().filter(|text| Place::is_one(text));
    let restored = match place {
        Some(text) => fetch(text, data, &progress),
        None => restore(snapshot, data, &mut lock(&progress)),
    };
    lock(&progress).clear();
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
    check_is_free(data)?;
    let mut restored = Restored::default();
    copy_folder((snapshot, snapshot), data, &mut restored, progress)?;
    let (from, to) = (snapshot.join(CATALOG), data.join(CATALOG));
    // It has its name when it is whole.
    let part = part_of(&to);
    restored.bytes += copy(&from, &part).map_err(|error| told(&from, &error))?;
    fs::rename(&part, &to).map_err(|error| told(&to, &error))?;
    sync_folder(data)?;
    restored.files += 1;
    Ok(restored)
}

/// Restores what is in a place in object storage.
fn fetch(text: &str, data: &Path, progress: &Mutex<ProgressLine>) -> Result<Restored, String> {
    let place = Place::of(text)?;
    check_is_free(data)?;
    let (clock, shown) = (SystemClock::new(), Mutex::new(Duration::ZERO));
    let start_ns = clock.monotonic_ns();
    let tell = |Moved { bytes, bytes_max, .. }: Moved| {
        let elapsed = Duration::from_nanos(clock.monotonic_ns().saturating_sub(start_ns));
        let mut shown = lock(&shown);
        if elapsed >= *shown + Duration::from_millis(INTERVAL_MS) {
            *shown = elapsed;
            let reached = Progress { rows: 0, bytes, bytes_total: Some(bytes_max) };
            lock(progress).draw(reached, elapsed);
        }
    };
    let runtime = thread::pool().map_err(|error| format!("cannot start threads: {error}"))?;
    let Moved { files, bytes, .. } = runtime.block_on(place.fetch(data, CATALOG, &tell))?;
    Ok(Restored { files, bytes })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no one panics while holding it")
}

/// Errors: in words, where something is in the new data directory.
fn check_is_free(data: &Path) -> Result<(), String> {
    let is_taken = match fs::read_dir(data) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(format!("{}: {error}", data.display())),
    };
    match is_taken {
        false => Ok(()),
        true => Err(format!(
            "{} is not empty: name a new directory with --data, or remove what is in it",
            data.display()
        )),
    }
}

/// Copies all of a folder of a snapshot but its catalog and its lock.
fn copy_folder(
    (snapshot, from): (&Path, &Path),
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
    // Both stand in the folder of the database itself.
    let stays = [snapshot.join(CATALOG), snapshot.join(LOCK)];
    for path in paths {
        let Some(name) = path.file_name() else { continue };
        let target = to.join(name);
        if path.is_dir() {
            copy_folder((snapshot, &path), &target, restored, progress)?;
        } else if !stays.contains(&path) {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What the restored database appends to must not stand in the snapshot as well.
    #[test]
    fn only_files_that_never_change_are_shared_with_the_snapshot() {
        let directory = tempfile::tempdir().unwrap();
        let (from, to) = (directory.path().join("snapshot"), directory.path().join("data"));
        fs::create_dir_all(from.join("t")).unwrap();
        for name in ["t/me-1-big-Data.db", "t/manifest", "wishes"] {
            fs::write(from.join(name), "as it was").unwrap();
        }
        let mut restored = Restored::default();
        copy_folder((&from, &from), &to, &mut restored, &mut ProgressLine::new()).unwrap();
        assert_eq!((restored.files, restored.bytes), (3, 27));
        for name in ["t/me-1-big-Data.db", "t/manifest", "wishes"] {
            assert_eq!(fs::read_to_string(to.join(name)).unwrap(), "as it was", "{name}");
        }
        for name in ["t/manifest", "wishes"] {
            fs::write(to.join(name), "changed").unwrap();
            assert_eq!(fs::read_to_string(from.join(name)).unwrap(), "as it was", "{name}");
        }
    }

    /// A snapshot of three files.
    fn snapshot(at: &Path) {
        fs::create_dir_all(at.join("t")).unwrap();
        for name in ["t/me-1-big-Data.db", "t/manifest", CATALOG] {
            fs::write(at.join(name), "as it was").unwrap();
        }
    }

    #[test]
    fn a_snapshot_that_is_open_as_a_database_is_not_restored() {
        let directory = tempfile::tempdir().unwrap();
        let (from, to) = (directory.path().join("snapshot"), directory.path().join("data"));
        snapshot(&from);
        let again = || {
            let restored = restore(&from, &to, &mut ProgressLine::new());
            restored.map(|restored| restored.files)
        };
        let held = os::try_lock(&from.join(LOCK)).unwrap();
        let told = again().unwrap_err();
        assert!(told.contains("snapshot is open as a database"), "{told}");
        assert!(!to.exists(), "nothing is made");
        drop(held);
        assert_eq!(again(), Ok(3));
        assert_eq!(fs::read_to_string(to.join(CATALOG)).unwrap(), "as it was");
        assert!(from.join(LOCK).exists() && !to.join(LOCK).exists());
        let told = again().unwrap_err();
        assert!(told.contains("data is not empty"), "{told}");
    }

    #[test]
    fn a_restore_that_was_cut_short_is_no_data_directory() {
        let directory = tempfile::tempdir().unwrap();
        let (from, to) = (directory.path().join("snapshot"), directory.path().join("data"));
        snapshot(&from);
        // The last by name, which cannot be read.
        std::os::unix::fs::symlink("/nowhere/at/all", from.join("z")).unwrap();
        let restored = restore(&from, &to, &mut ProgressLine::new());
        let told = restored.map(|restored| restored.files).unwrap_err();
        assert!(told.contains("snapshot/z: "), "{told}");
        assert!(to.join("t/manifest").exists(), "it had begun");
        assert!(!to.join(CATALOG).exists());
        // Neither is it a snapshot.
        let restored = restore(&to, &directory.path().join("other"), &mut ProgressLine::new());
        let told = restored.map(|restored| restored.files).unwrap_err();
        assert!(told.contains("data holds no snapshot"), "{told}");
    }

    #[test]
    fn only_a_directory_with_nothing_in_it_is_restored_into() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        snapshot(&at("snapshot"));
        for folder in ["empty", "folder/x", "hidden"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        fs::write(at("hidden/.x"), "").unwrap();
        fs::write(at("file"), "").unwrap();
        let place = format!("file://{}", at("snapshot").display());
        let mute = Mutex::new(ProgressLine::new());
        for (name, wanted) in [
            ("absent", None),
            ("empty", None),
            ("folder", Some("folder is not empty: name a new directory")),
            ("hidden", Some("hidden is not empty: name a new directory")),
            ("file", Some("file: ")),
        ] {
            let data = at(name);
            let restored = restore(&at("snapshot"), &data, &mut lock(&mute));
            let restored = restored.map(|restored| restored.files);
            let Some(wanted) = wanted else {
                assert_eq!(restored, Ok(3), "{name}");
                assert_eq!(fs::read_to_string(data.join(CATALOG)).unwrap(), "as it was");
                continue;
            };
            let told = restored.unwrap_err();
            assert!(told.contains(wanted), "{name}: {told}");
            // It is asked before the place is.
            let fetched = fetch(&place, &data, &mute).map(|restored| restored.files);
            assert_eq!(fetched.unwrap_err(), told, "{name}");
            assert!(!data.join(CATALOG).exists(), "{name}: nothing is made");
        }
    }

    /// Both names mean something in the folder of the database itself alone.
    #[test]
    fn a_file_below_may_have_the_name_of_the_catalog_or_of_the_lock() {
        let directory = tempfile::tempdir().unwrap();
        let (from, to) = (directory.path().join("snapshot"), directory.path().join("data"));
        snapshot(&from);
        let below = [format!("t/{CATALOG}"), format!("t/{LOCK}"), "t/u/v/w.db".to_owned()];
        fs::create_dir_all(from.join("t/u/v")).unwrap();
        for name in &below {
            fs::write(from.join(name), name).unwrap();
        }
        fs::write(from.join(LOCK), "").unwrap();
        let restored = restore(&from, &to, &mut ProgressLine::new());
        assert_eq!(restored.map(|restored| restored.files), Ok(6));
        for name in &below {
            assert_eq!(fs::read_to_string(to.join(name)).unwrap(), *name);
        }
        assert_eq!(fs::read_to_string(to.join(CATALOG)).unwrap(), "as it was");
        assert!(!to.join(LOCK).exists() && !part_of(&to.join(CATALOG)).exists());
        // What is left of one that was cut short has to be removed first.
        fs::remove_file(to.join(CATALOG)).unwrap();
        let told = restore(&from, &to, &mut ProgressLine::new()).map(|restored| restored.files);
        assert!(told.unwrap_err().contains("data is not empty"));
    }
}
