//! The files that make up one SSTable, and their names.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Format version: what a file's two leading letters say. Older and newer ones (`mc`, `md`, `nb`)
/// get a variant each when they become readable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// Cassandra 3.0.25 and 3.11.11 on, ScyllaDB up to 2026.1.
    Me,
}

impl Version {
    /// The letters in file names.
    pub fn name(self) -> &'static str {
        match self {
            Version::Me => "me",
        }
    }
}

/// One file of an SSTable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// Partitions.
    Data,
    /// Partition index with promoted indexes.
    Index,
    /// Samples of the partition index.
    Summary,
    /// Bloom filter.
    Filter,
    /// Metadata and the serialization header.
    Statistics,
    /// CRC of each 64 KiB of uncompressed data.
    Crc,
    /// CRC of the whole data file, decimal.
    Digest,
    /// Codec and chunk map of compressed data. Never written here.
    CompressionInfo,
    /// What the format lacks: page checksums, checksums of the other components.
    Tidegate,
    /// Names of all components; written last, so its presence means a whole SSTable.
    Toc,
}

impl Component {
    /// Components that a writer makes, in the order of the table of contents.
    pub const WRITTEN: [Component; 9] = [
        Component::Data,
        Component::Index,
        Component::Summary,
        Component::Filter,
        Component::Statistics,
        Component::Crc,
        Component::Digest,
        Component::Tidegate,
        Component::Toc,
    ];

    /// End of the file name.
    pub fn suffix(self) -> &'static str {
        match self {
            Component::Data => "Data.db",
            Component::Index => "Index.db",
            Component::Summary => "Summary.db",
            Component::Filter => "Filter.db",
            Component::Statistics => "Statistics.db",
            Component::Crc => "CRC.db",
            Component::Digest => "Digest.crc32",
            Component::CompressionInfo => "CompressionInfo.db",
            Component::Tidegate => "Tidegate.db",
            Component::Toc => "TOC.txt",
        }
    }

    /// Path of this component.
    pub fn path(self, directory: &Path, generation: u64) -> PathBuf {
        directory.join(format!("{}-{generation}-big-{}", Version::Me.name(), self.suffix()))
    }
}

/// Path of the table of contents before it is complete.
pub(super) fn toc_temporary_path(directory: &Path, generation: u64) -> PathBuf {
    directory.join(format!("{}-{generation}-big-TOC.txt.tmp", Version::Me.name()))
}

/// The generation in the name of an SSTable's file, if it is one.
pub fn generation_of(file_name: &str) -> Option<u64> {
    let rest = file_name.strip_prefix(Version::Me.name())?.strip_prefix('-')?;
    let (generation, rest) = rest.split_once('-')?;
    rest.strip_prefix("big-")?;
    let canonical = generation.bytes().all(|byte| byte.is_ascii_digit())
        && (generation == "0" || !generation.starts_with('0'));
    if canonical { generation.parse().ok() } else { None }
}

/// Checks that a component a reader cannot do without is in the table of contents.
pub(super) fn require(toc: &[String], component: Component, toc_path: &Path) -> Result<()> {
    if toc.iter().any(|name| name == component.suffix()) {
        return Ok(());
    }
    Err(Error::corrupt(toc_path, 0, format!("a line '{}'", component.suffix()), "none"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_their_generation() {
        let path = Component::Data.path(Path::new("/t"), 42);
        assert_eq!(path, Path::new("/t/me-42-big-Data.db"));
        assert_eq!(generation_of("me-42-big-Data.db"), Some(42));
        assert_eq!(generation_of("me-42-big-TOC.txt.tmp"), Some(42));
        for other in ["nb-42-big-Data.db", "me-042-big-Data.db", "me-x-big-Data.db", "manifest-0"] {
            assert_eq!(generation_of(other), None, "{other}");
        }
    }
}
