//! The files that make up one SSTable, and their names.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Format version: what a file's two leading letters say. Older ones come first, so
/// `version >= Version::Nb` asks for what came with it. Rows are laid out alike in all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// Cassandra 3.0.8 and 3.9 on.
    Mc,
    /// Cassandra 3.0.18 and 3.11.4 on: as `mc`, with true extents of clustering keys.
    Md,
    /// Cassandra 3.0.25 and 3.11.11 on, ScyllaDB up to 2026.1: the host that wrote it is noted.
    /// The version that is written here.
    Me,
    /// Cassandra 4.0 on: checksums of the metadata, chunks stored as they are, another bloom
    /// filter.
    Nb,
}

impl Version {
    /// All that are readable.
    pub const ALL: [Version; 4] = [Version::Mc, Version::Md, Version::Me, Version::Nb];

    /// The letters in file names.
    pub fn name(self) -> &'static str {
        match self {
            Version::Mc => "mc",
            Version::Md => "md",
            Version::Me => "me",
            Version::Nb => "nb",
        }
    }
}

/// Versions that are not read, and who writes them.
const OTHER_VERSIONS: [(&str, &str); 12] = [
    ("hf", "Cassandra 1.1"),
    ("ic", "Cassandra 1.2"),
    ("jb", "Cassandra 2.0"),
    ("ka", "Cassandra 2.1"),
    ("la", "Cassandra 2.2"),
    ("ma", "Cassandra 3.0"),
    ("mb", "Cassandra 3.0"),
    ("na", "a release candidate of Cassandra 4.0"),
    ("oa", "Cassandra 5"),
    ("da", "Cassandra 5"),
    ("ms", "ScyllaDB 2025.4 and later"),
    ("mt", "ScyllaDB 2026.2 and later"),
];

/// The version in the name of a data file that is not read, with who writes it:
/// `<version>-<id>-big-…`, or `<keyspace>-<table>-<version>-<id>-…` before Cassandra 2.2.
fn other_version(file_name: &str) -> Option<(&'static str, &'static str)> {
    let known = |name: &str| OTHER_VERSIONS.into_iter().find(|(version, _)| *version == name);
    let parts: Vec<&str> = file_name.split('-').collect();
    let is_new = matches!(parts[..], [_, _, "big" | "bti", _]);
    let at = if is_new { Some(0) } else { parts.len().checked_sub(3).filter(|at| *at >= 2) };
    known(parts.get(at?)?)
}

/// What the names of one SSTable's files have in common: `<version>-<id>-big-<component>`. The id
/// is a number here and in older products, and 28 digits and letters of a UUID in newer ones.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SstableName {
    version: Version,
    id: String,
}

impl SstableName {
    /// The name of an SSTable of this engine.
    pub fn native(generation: u64) -> Self {
        SstableName { version: Version::Me, id: generation.to_string() }
    }

    /// From the name of any of its files, without the directory.
    ///
    /// Errors: `Invalid` for other files and, with who writes them, for other versions.
    pub fn parse(file_name: &str) -> Result<Self> {
        let parsed = (|| {
            let (version, rest) = file_name.split_once('-')?;
            let version = Version::ALL.into_iter().find(|known| known.name() == version)?;
            let (id, component) = rest.split_once("-big-")?;
            let is_id =
                |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
            let fits = !id.is_empty() && id.bytes().all(is_id) && !component.is_empty();
            fits.then(|| SstableName { version, id: id.to_owned() })
        })();
        parsed.ok_or_else(|| {
            let versions = Version::ALL.map(Version::name).join(", ");
            Error::invalid(match other_version(file_name) {
                Some((version, product)) => format!(
                    "version {version} ({product}) is not supported, {versions} are: '{file_name}'"
                ),
                None => format!(
                    "'{file_name}' is no file of an SSTable in the big format of version {versions}"
                ),
            })
        })
    }

    pub fn version(&self) -> Version {
        self.version
    }

    /// The id as a number; 0 for a UUID.
    pub fn generation(&self) -> u64 {
        self.id.parse().unwrap_or(0)
    }

    /// What all its files' names begin with.
    pub fn prefix(&self) -> String {
        format!("{}-{}-big", self.version.name(), self.id)
    }

    /// Path of one of its files.
    pub fn path(&self, directory: &Path, component: Component) -> PathBuf {
        directory.join(format!("{}-{}", self.prefix(), component.suffix()))
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
    /// Codec and chunk map of compressed data.
    CompressionInfo,
    /// What ScyllaDB notes beyond the format; of it, features and large data are written here.
    Scylla,
    /// What the format lacks: page checksums, checksums of the other components.
    Tidegate,
    /// Names of all components; written last, so its presence means a whole SSTable.
    Toc,
}

impl Component {
    /// Components that a writer makes, in the order of the table of contents. Where the data is
    /// compressed, its chunk map stands in for the checksums of its parts.
    pub const WRITTEN: [Component; 10] = [
        Component::Data,
        Component::Index,
        Component::Summary,
        Component::Filter,
        Component::Statistics,
        Component::Crc,
        Component::Digest,
        Component::Scylla,
        Component::Tidegate,
        Component::Toc,
    ];

    /// All of them.
    pub const ALL: [Component; 11] = [
        Component::Data,
        Component::Index,
        Component::Summary,
        Component::Filter,
        Component::Statistics,
        Component::Crc,
        Component::Digest,
        Component::CompressionInfo,
        Component::Scylla,
        Component::Tidegate,
        Component::Toc,
    ];

    /// The component that a file of an SSTable is, by its name; `None` for others.
    pub fn of_file(file_name: &str) -> Option<Component> {
        let (_, suffix) = file_name.split_once("-big-")?;
        Component::ALL.into_iter().find(|component| component.suffix() == suffix)
    }

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
            Component::Scylla => "Scylla.db",
            Component::Tidegate => "Tidegate.db",
            Component::Toc => "TOC.txt",
        }
    }

    /// Path of this component of an SSTable of this engine.
    pub fn path(self, directory: &Path, generation: u64) -> PathBuf {
        SstableName::native(generation).path(directory, self)
    }
}

/// Path of the table of contents before it is complete.
pub(crate) fn toc_temporary_path(directory: &Path, generation: u64) -> PathBuf {
    directory.join(format!("{}-{generation}-big-TOC.txt.tmp", Version::Me.name()))
}

/// The generation in the name of a file of this engine's SSTables, if it is one.
pub fn generation_of(file_name: &str) -> Option<u64> {
    let rest = file_name.strip_prefix(Version::Me.name())?.strip_prefix('-')?;
    let (generation, rest) = rest.split_once('-')?;
    rest.strip_prefix("big-")?;
    let canonical = generation.bytes().all(|byte| byte.is_ascii_digit())
        && (generation == "0" || !generation.starts_with('0'));
    if canonical { generation.parse().ok() } else { None }
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

    #[test]
    fn other_versions_are_named_with_their_product() {
        for (file, told) in [
            ("oa-1-big-Data.db", "version oa (Cassandra 5) is not supported"),
            ("da-3gsm_0lob_1zdg02we44my8dy25w-bti-Data.db", "version da (Cassandra 5)"),
            ("la-5-big-Data.db", "version la (Cassandra 2.2)"),
            ("ks-t-ka-5-Data.db", "version ka (Cassandra 2.1)"),
            ("ks-t-tmp-jb-5-Data.db", "version jb (Cassandra 2.0)"),
            ("ms-5-big-Data.db", "version ms (ScyllaDB"),
            ("mt-5-big-Data.db", "version mt (ScyllaDB"),
        ] {
            let message = SstableName::parse(file).unwrap_err().to_string();
            assert!(message.starts_with(told) || message.contains(told), "{message}");
            assert!(message.contains(&format!("'{file}'")), "{message}");
        }
        for other in ["zz-1-big-Data.db", "ka-5-Data.db", "oa", "x-oa-1", "-Data.db"] {
            let message = SstableName::parse(other).unwrap_err().to_string();
            assert!(message.contains("is no file of an SSTable"), "{message}");
        }
    }

    /// In the form of the names since Cassandra 2.2, and in that before.
    #[test]
    fn each_version_that_is_not_read_is_told_with_who_writes_it() {
        for (version, product) in [
            ("hf", "Cassandra 1.1"),
            ("ic", "Cassandra 1.2"),
            ("jb", "Cassandra 2.0"),
            ("ka", "Cassandra 2.1"),
            ("la", "Cassandra 2.2"),
            ("ma", "Cassandra 3.0"),
            ("mb", "Cassandra 3.0"),
            ("na", "a release candidate of Cassandra 4.0"),
            ("oa", "Cassandra 5"),
            ("da", "Cassandra 5"),
            ("ms", "ScyllaDB 2025.4 and later"),
            ("mt", "ScyllaDB 2026.2 and later"),
        ] {
            for file in [
                format!("{version}-1-big-Data.db"),
                format!("{version}-1-bti-Data.db"),
                format!("ks-t-{version}-1-Data.db"),
            ] {
                let message = SstableName::parse(&file).unwrap_err().to_string();
                let told = format!("version {version} ({product}) is not supported");
                assert!(message.starts_with(&told), "{file}: {message}");
            }
        }
        // Those that are read have no other form.
        for version in Version::ALL.map(Version::name) {
            for file in [format!("{version}-1-bti-Data.db"), format!("ks-t-{version}-1-Data.db")] {
                let message = SstableName::parse(&file).unwrap_err().to_string();
                assert!(message.contains("is no file of an SSTable"), "{file}: {message}");
            }
        }
    }

    /// Files with other names are those of others: what clears a directory leaves them alone.
    #[test]
    fn only_a_number_as_it_is_written_here_is_a_generation() {
        for (file, wanted) in [
            ("me-0-big-Data.db", Some(0)),
            ("me-1-big-", Some(1)),
            ("me-10-big-Data.db", Some(10)),
            ("me-18446744073709551615-big-Data.db", Some(u64::MAX)),
            ("me-18446744073709551616-big-Data.db", None),
            ("me--big-Data.db", None),
            ("me-00-big-Data.db", None),
            ("me-+1-big-Data.db", None),
            ("me-1-bigData.db", None),
            ("me-1-bti-Data.db", None),
            ("me-1", None),
            ("me1-big-Data.db", None),
            ("mt-1-big-Data.db", None),
            ("xme-1-big-Data.db", None),
            ("ME-1-big-Data.db", None),
        ] {
            assert_eq!(generation_of(file), wanted, "{file}");
        }
        for component in Component::ALL {
            let path = component.path(Path::new("/t"), 7);
            let file = path.file_name().unwrap().to_str().unwrap();
            assert_eq!(generation_of(file), Some(7), "{file}");
            assert_eq!(Component::of_file(file), Some(component));
            for other in [format!("{file}.tmp"), file.to_lowercase(), file.replace("-big-", "-")] {
                assert_eq!(Component::of_file(&other), None, "{other}");
            }
        }
    }

    #[test]
    fn names_of_other_products_are_read() {
        let directory = Path::new("/t");
        for (file, version, generation) in [
            ("mc-7-big-Data.db", Version::Mc, 7),
            ("nb-12-big-TOC.txt", Version::Nb, 12),
            ("me-3gsm_0lob_1zdg02we44my8dy25w-big-Data.db", Version::Me, 0),
        ] {
            let name = SstableName::parse(file).unwrap();
            assert_eq!((name.version(), name.generation()), (version, generation));
            let component = if file.ends_with(".txt") { Component::Toc } else { Component::Data };
            assert_eq!(name.path(directory, component), directory.join(file));
        }
        let others = ["oa-1-big-Data.db", "da-1-bti-Data.db", "nb--big-Data.db", "nb-1-big-", "x"];
        for other in others.into_iter().chain(["nb-../1-big-Data.db", "la-1-big-Data.db"]) {
            let message = SstableName::parse(other).unwrap_err().to_string();
            assert!(message.contains(other) && message.contains("mc, md, me, nb"), "{message}");
        }
    }
}
