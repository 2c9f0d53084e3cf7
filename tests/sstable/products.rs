//! Files of ScyllaDB's own tests: not part of the project, so looked at only where they are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::answer::*;
use super::skip::skip;

const ARCHIVE: &str = "sstables-scylla.tar.gz";
/// Tables whose rows are not given, by the name of their directory, and why.
const NOT_READ: [(&str, &str); 1] =
    [("write_shadowable_deletion", "shadowable tombstones, of materialized views only")];

/// SSTables of one version in a directory of their own.
struct Files {
    /// Where they stood in the archive.
    place: PathBuf,
    version: &'static str,
    directory: PathBuf,
}

/// The directories below `root`, itself included.
fn directories(root: &Path, out: &mut Vec<PathBuf>) {
    out.push(root.to_owned());
    let entries = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    for path in entries.filter(|path| path.is_dir()) {
        directories(&path, out);
    }
}

/// Moves what is below `root` apart by version.
fn apart(root: &Path, to: &Path) -> Vec<Files> {
    let mut all = Vec::new();
    directories(root, &mut all);
    all.sort();
    let mut found: Vec<Files> = Vec::new();
    for place in all {
        for version in ["mc", "md", "me"] {
            let entries = std::fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().path());
            let of_version = |path: &PathBuf| {
                let name = path.file_name().unwrap().to_string_lossy();
                name.starts_with(&format!("{version}-")) && name.contains("-big-")
            };
            let files: Vec<PathBuf> = entries.filter(of_version).collect();
            if files.is_empty() {
                continue;
            }
            let name = place.file_name().unwrap();
            let directory = to.join(found.len().to_string()).join(name);
            std::fs::create_dir_all(&directory).unwrap();
            for file in files {
                std::fs::rename(&file, directory.join(file.file_name().unwrap())).unwrap();
            }
            found.push(Files { place: place.clone(), version, directory });
        }
    }
    found
}

#[test]
fn scylladbs_files_are_sound_and_say_the_same_in_every_version() {
    let Some(folder) = std::env::var_os("TIDEGATE_FIXTURES").map(PathBuf::from) else {
        skip("files of ScyllaDB", "TIDEGATE_FIXTURES is not set: they are not part of the project");
        return;
    };
    let temporary = tempfile::tempdir().unwrap();
    let (root, to) = (temporary.path().join("archive"), temporary.path().join("apart"));
    std::fs::create_dir_all(&root).unwrap();
    let archive = folder.join(ARCHIVE);
    let unpacked = Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(&root).status();
    assert!(unpacked.unwrap().success(), "{} is not unpacked", archive.display());

    let mut wrong = Vec::new();
    let mut answers: BTreeMap<PathBuf, Vec<(&str, Vec<String>)>> = BTreeMap::new();
    let all = apart(&root, &to);
    assert!(all.len() >= 25, "{} tables", all.len());
    for files in &all {
        let name = files.directory.file_name().unwrap().to_string_lossy().into_owned();
        let what = format!("{} {}", files.version, files.place.display());
        let directory = files.directory.to_str().unwrap();
        let verified = run_in(temporary.path(), &["sstable", "verify", directory]);
        if verified.status.code() != Some(0) {
            wrong.push(format!("{what}: {}{}", out(&verified), err(&verified)));
        }
        let own = tempfile::tempdir().unwrap();
        let attach = format!("ATTACH SSTABLES '{directory}' AS t");
        let select = ["--mode", "json", "-c", &attach, "-c", "SELECT * FROM t"];
        let selected = run_sharded("2", own.path(), &select);
        let is_not_read = NOT_READ.iter().any(|(table, _)| *table == name);
        match (selected.status.code(), is_not_read) {
            (Some(0), false) => {
                // The first statement lists the files.
                let text = out(&selected);
                let mut lines: Vec<String> = text
                    .lines()
                    .filter(|line| !line.contains("\"status\":\"attached\""))
                    .map(str::to_owned)
                    .collect();
                lines.sort();
                answers.entry(files.place.clone()).or_default().push((files.version, lines));
            }
            (Some(1), true) if err(&selected).contains("shadowable tombstone") => {}
            _ => wrong.push(format!("{what}: {}{}", out(&selected), err(&selected))),
        }
    }
    assert!(wrong.is_empty(), "{} of {} tables:\n{}", wrong.len(), all.len(), wrong.join("\n"));
    let mut compared = 0;
    for (place, versions) in &answers {
        let (first, wanted) = &versions[0];
        for (version, found) in &versions[1..] {
            assert!(!found.is_empty() && found == wanted, "{place:?}: {first}, {version}");
            compared += 1;
        }
    }
    assert!(compared >= 10, "{compared} pairs of versions");
}
