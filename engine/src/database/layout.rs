//! Paths in a data directory.
//!
//! ```text
//! LOCK                          held while a process has the directory open; says who
//! catalog                       keyspaces, tables, roles, policies; replaced whole
//! policies/<sha256>.wasm        components that were loaded
//! policies/<sha256>-<build>.code their machine code, for this build and processor
//! policies/<shard>-of-<count>.state what a shard's policy left at the last end
//! commitlog/<shard>-of-<count>/ segments of one shard
//! ledger/<shard>-of-<count>     which manifests and segments must be there
//! batches/<shard>-<number>      batches whose parts may not all be durable yet
//! ticket.key                    the key of tickets, of `tidegate serve`; in no snapshot
//! io-properties.yaml            what the disk was measured to do; made by `tidegate iotune`
//! set-aside/                    writes from commitlogs that do not fit their table
//! exports/<number>/             a snapshot, while it is sent elsewhere
//! data/<keyspace>/<table>-<id>/ SSTables and their manifests
//! ```
//! Names in `policies/` are those of `governance/files.rs`. `io/scheduler.rs` reads the figures of
//! the disk.

use std::path::{Path, PathBuf};

use crate::schema::TableSchema;

/// Paths of one data directory.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    root: PathBuf,
}

impl Layout {
    pub(super) fn new(root: impl Into<PathBuf>) -> Self {
        Layout { root: root.into() }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn lock(&self) -> PathBuf {
        self.root.join("LOCK")
    }

    pub(super) fn catalog(&self) -> PathBuf {
        self.root.join("catalog")
    }

    pub(super) fn policies(&self) -> PathBuf {
        self.root.join("policies")
    }

    pub(super) fn commitlogs(&self) -> PathBuf {
        self.root.join("commitlog")
    }

    pub(super) fn commitlog(&self, shard: u32, shard_count: u32) -> PathBuf {
        self.commitlogs().join(format!("{shard}-of-{shard_count}"))
    }

    pub(super) fn ledgers(&self) -> PathBuf {
        self.root.join("ledger")
    }

    pub(super) fn ledger(&self, shard: u32, shard_count: u32) -> PathBuf {
        self.ledgers().join(format!("{shard}-of-{shard_count}"))
    }

    /// A write that does not fit its table, by where it stood in the log of a shard.
    pub(super) fn set_aside(&self, log: (u32, u32), segment: u64, offset: u32) -> PathBuf {
        let name = format!("{}-of-{}-{segment}-{offset}.mutation", log.0, log.1);
        self.root.join("set-aside").join(name)
    }

    pub(super) fn batches(&self) -> PathBuf {
        self.root.join("batches")
    }

    pub(super) fn exports(&self) -> PathBuf {
        self.root.join("exports")
    }

    /// A batch that a shard has logged.
    pub(super) fn batch(&self, shard: u32, number: i64) -> PathBuf {
        self.batches().join(format!("{shard}-{number}"))
    }

    pub(super) fn data(&self) -> PathBuf {
        self.root.join("data")
    }

    pub(super) fn table(&self, schema: &TableSchema) -> PathBuf {
        let name = format!("{}-{}", schema.name, schema.id.hex());
        self.data().join(&schema.keyspace).join(name)
    }
}

/// Length of a table id in names.
const TABLE_ID_DIGITS: usize = 32;

/// Shard and shard count in the name of a commitlog folder or a ledger.
pub(super) fn parse_log_name(name: &str) -> Option<(u32, u32)> {
    let (shard, count) = name.split_once("-of-")?;
    Some((shard.parse().ok()?, count.parse().ok()?))
}

/// Whether a path is named as the folder of a table: `<name>-<id>`.
pub(super) fn is_table(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.rsplit_once('-').is_some_and(|(_, id)| {
        id.len() == TABLE_ID_DIGITS && id.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{TableId, TableOptions};

    /// What is taken for a table of nobody is removed at the next start.
    #[test]
    fn folders_of_tables_are_known_by_their_ids_and_no_others() {
        let table = |name: &str, id| TableSchema {
            id: TableId(id),
            keyspace: "k".into(),
            name: name.into(),
            columns: Vec::new(),
            options: TableOptions::default(),
            drops: Vec::new(),
        };
        let layout = Layout::new("/db");
        for (name, id) in [("t", 0), ("t", 7), ("a_b", u128::MAX), ("t", 1 << 127)] {
            let path = layout.table(&table(name, id));
            assert_eq!(path, Path::new("/db/data/k").join(format!("{name}-{id:032x}")));
            assert!(is_table(&path), "{path:?}");
        }
        let id = "0123456789abcdef0123456789abcdef";
        for other in [
            String::new(),
            "t".to_owned(),
            "t-".to_owned(),
            id.to_owned(),
            format!("t-{}", &id[1..]),
            format!("t-{id}0"),
            format!("t_{id}"),
            format!("t-{}g", &id[1..]),
            format!("t-{id}.old"),
            format!("t-{id}-copy"),
            format!("t-{id}/lost"),
        ] {
            assert!(!is_table(&Path::new("/db/data/k").join(&other)), "'{other}'");
        }
    }

    #[test]
    fn names_of_logs_and_ledgers_are_read_back_and_others_are_none() {
        let layout = Layout::new("/db");
        for (shard, count) in [(0, 1), (1, 2), (15, 16), (99, 100)] {
            for path in [layout.commitlog(shard, count), layout.ledger(shard, count)] {
                let name = path.file_name().unwrap().to_string_lossy();
                assert_eq!(parse_log_name(&name), Some((shard, count)), "{name}");
            }
        }
        let others = ["", "0", "-of-", "0-of-", "-of-1", "0-of-1.tmp", "0-of-1-of-2", "a-of-1"];
        for other in others.into_iter().chain(["0of1", "-1-of-2", "0-of-4294967296"]) {
            assert_eq!(parse_log_name(other), None, "'{other}'");
        }
    }
}
