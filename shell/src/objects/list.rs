//! The list of a snapshot's files.

use std::path::{Component, Path};

use serde::{Deserialize, Serialize};

/// Of the format that this build writes, and the newest that it reads.
const VERSION: u32 = 1;

/// See the head of this file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct List {
    version: u32,
    pub files: Vec<Listed>,
}

/// A file of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Listed {
    /// From the snapshot on, with `/`.
    pub path: String,
    pub bytes: u64,
    /// Of its content, in hexadecimal digits.
    pub blake3: String,
}

impl List {
    pub fn new(files: Vec<Listed>) -> Self {
        List { version: VERSION, files }
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec_pretty(self).expect("texts and numbers are JSON");
        text.push(b'\n');
        text
    }

    /// Errors: in words, for what is no list, is of a newer build, or names a file elsewhere.
    pub fn decode(text: &[u8]) -> Result<Self, String> {
        let list: List =
            serde_json::from_slice(text).map_err(|error| format!("this is no list: {error}"))?;
        if list.version > VERSION {
            let newer = list.version;
            return Err(format!(
                "a newer Tidegate wrote it: wanted version {VERSION}, found {newer}"
            ));
        }
        match list.files.iter().find(|file| !stays_within(&file.path)) {
            Some(file) => Err(format!("'{}' is no path in a snapshot", file.path)),
            None => Ok(list),
        }
    }

    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

/// Whether a path names a file below where it begins.
fn stays_within(path: &str) -> bool {
    let is_name = |part| matches!(part, Component::Normal(_));
    !path.is_empty() && !path.contains('\\') && Path::new(path).components().all(is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> Listed {
        Listed { path: path.to_owned(), bytes: 3, blake3: "00".to_owned() }
    }

    #[test]
    fn a_list_is_read_as_it_was_written() {
        let list = List::new(vec![file("data/ks/t-1/me-1-big-Data.db"), file("catalog")]);
        assert_eq!(List::decode(&list.encode()).unwrap(), list);
        assert_eq!(list.bytes(), 6);
    }

    #[test]
    fn what_is_no_list_or_leaves_the_snapshot_is_refused() {
        for path in ["", "/etc/passwd", "../x", "a/../../x", "./x", "a\\..\\x"] {
            let told = List::decode(&List::new(vec![file(path)]).encode()).unwrap_err();
            assert!(told.contains("no path"), "{path}: {told}");
        }
        let newer = List { version: VERSION + 1, files: Vec::new() };
        assert!(List::decode(&newer.encode()).unwrap_err().contains("wanted version 1, found 2"));
        for wrong in ["", "{}", "[1]", "{\"version\": 1}"] {
            assert!(List::decode(wrong.as_bytes()).unwrap_err().contains("no list"), "{wrong}");
        }
    }
}
