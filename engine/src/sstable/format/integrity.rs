//! `Tidegate.db`: what the SSTable format lacks to notice every damaged byte.
//!
//! ```text
//! file := "TDGT", u32 version, u64 feature bits, vbytes engine version,
//!         vint partitions, vint rows, vint tombstones,
//!         (vint size, vint n, n x u32 CRC of a 4 KiB page) for Data, then for Index,
//!         vint n, n x (vbytes component, vint size, u32 CRC),
//!         vbytes serialization header, u32 CRC of all before
//! ```
//! Other products ignore this component; a file without it is read with fewer checks. The header is
//! that of `Statistics.db`, a second time: without it no row can be read. Early files lack it.

use std::collections::BTreeSet;
use std::path::Path;

use super::coding::{Fault, Input, Parsed, put_vbytes, put_vint};
use super::component::Component;
use super::layout::Header;
use crate::checksum::crc32;
use crate::config::PAGE_BYTES;
use crate::error::{Error, Result};

const MAGIC: &[u8; 4] = b"TDGT";
const VERSION: u32 = 1;
/// The sizes of previous rows are exact, so reversed reads may rely on them.
const FEATURE_EXACT_PREVIOUS_SIZES: u64 = 1;

/// Size and page checksums of a large component.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Pages {
    pub(crate) size: u64,
    pub(crate) crcs: Vec<u32>,
}

/// How much an SSTable holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counts {
    pub(crate) partitions: u64,
    pub(crate) rows: u64,
    pub(crate) tombstones: u64,
}

/// Content of `Tidegate.db`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Integrity {
    pub(crate) features: u64,
    pub(super) engine_version: String,
    pub(crate) partitions: u64,
    pub(crate) rows: u64,
    pub(crate) tombstones: u64,
    pub(crate) data: Pages,
    pub(crate) index: Pages,
    /// Name, size and CRC of each other component.
    pub(crate) components: Vec<(String, u64, u32)>,
    /// How rows are laid out.
    pub(crate) header: Option<Header>,
}

impl Integrity {
    /// The record of a new SSTable without its small components.
    pub(crate) fn new(counts: Counts, data: Pages, index: Pages, header: Header) -> Self {
        let Counts { partitions, rows, tombstones } = counts;
        Integrity {
            features: FEATURE_EXACT_PREVIOUS_SIZES,
            engine_version: env!("CARGO_PKG_VERSION").into(),
            partitions,
            rows,
            tombstones,
            data,
            index,
            components: Vec::new(),
            header: Some(header),
        }
    }

    /// All components of the SSTable.
    pub(crate) fn components(&self) -> BTreeSet<Component> {
        let is_noted = |component: &Component| {
            let is_named = |(name, ..): &(String, u64, u32)| name == component.suffix();
            self.components.iter().any(is_named)
        };
        let noted = Component::ALL.into_iter().filter(is_noted);
        let others = [Component::Data, Component::Index, Component::Tidegate, Component::Toc];
        noted.chain(others).collect()
    }

    /// Notes the content of a small component.
    pub(crate) fn add(&mut self, component: Component, content: &[u8]) {
        let name = component.suffix().to_owned();
        let before = self.components.iter().find(|(noted, ..)| *noted == name);
        assert!(before.is_none(), "{name} is noted twice: {before:?}");
        self.components.push((name, content.len() as u64, crc32(content)));
    }

    /// Checks the content of a small component.
    ///
    /// Errors: `Corrupt` when it is another one than was written.
    pub(crate) fn check(&self, component: Component, path: &Path, content: &[u8]) -> Result<()> {
        let noted = self.components.iter().find(|(name, ..)| name == component.suffix());
        let Some((_, size, crc)) = noted else { return Ok(()) };
        let found = (content.len() as u64, crc32(content));
        if found == (*size, *crc) {
            return Ok(());
        }
        let wanted = format!("{size} bytes with CRC {crc:08x}");
        let found = format!("{} bytes with CRC {:08x}", found.0, found.1);
        Err(Error::corrupt(path, 0, wanted, found))
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&VERSION.to_be_bytes());
        out.extend_from_slice(&self.features.to_be_bytes());
        put_vbytes(&mut out, self.engine_version.as_bytes());
        for count in [self.partitions, self.rows, self.tombstones] {
            put_vint(&mut out, count);
        }
        for pages in [&self.data, &self.index] {
            let (size, count) = (pages.size, pages.crcs.len() as u64);
            let wanted = size.div_ceil(PAGE_BYTES as u64);
            assert_eq!(count, wanted, "checksums of a file of {size} bytes");
            put_vint(&mut out, pages.size);
            put_vint(&mut out, pages.crcs.len() as u64);
            pages.crcs.iter().for_each(|crc| out.extend_from_slice(&crc.to_be_bytes()));
        }
        put_vint(&mut out, self.components.len() as u64);
        for (name, size, crc) in &self.components {
            put_vbytes(&mut out, name.as_bytes());
            put_vint(&mut out, *size);
            out.extend_from_slice(&crc.to_be_bytes());
        }
        if let Some(header) = &self.header {
            let mut bytes = Vec::new();
            header.encode(&mut bytes);
            put_vbytes(&mut out, &bytes);
        }
        let crc = crc32(&out);
        out.extend_from_slice(&crc.to_be_bytes());
        out
    }

    /// Reads a whole `Tidegate.db` at `path`.
    ///
    /// Errors: `Corrupt`; `Unavailable` when a newer engine wrote it.
    pub(crate) fn decode(bytes: &[u8], path: &Path) -> Result<Self> {
        let short = || Error::corrupt(path, 0, "at least 8 bytes", bytes.len());
        let (content, crc) = bytes.split_last_chunk::<4>().ok_or_else(short)?;
        let (wanted, found) = (u32::from_be_bytes(*crc), crc32(content));
        if wanted != found {
            let (wanted, found) = (format!("CRC {wanted:08x}"), format!("CRC {found:08x}"));
            return Err(Error::corrupt(path, 0, wanted, found));
        }
        let mut input = Input::new(content);
        let version = (|| {
            if input.array::<4>()? != *MAGIC {
                return Err(Fault::bad(0, "TDGT", "others"));
            }
            input.u32()
        })();
        let version = version.map_err(|fault| fault.into_error(path, 0))?;
        if version > VERSION {
            return Err(Error::Unavailable(format!(
                "{} has format {version}; this engine reads up to {VERSION}",
                path.display()
            )));
        }
        Self::decode_body(&mut input).map_err(|fault| fault.into_error(path, 0))
    }

    fn decode_body(input: &mut Input<'_>) -> Parsed<Self> {
        let features = u64::from_be_bytes(input.array()?);
        let engine_version = String::from_utf8_lossy(input.vbytes()?).into_owned();
        let (partitions, rows, tombstones) = (input.vint()?, input.vint()?, input.vint()?);
        let data = decode_pages(input)?;
        let index = decode_pages(input)?;
        let count = input.vint()?;
        let components = input.items(count, 6, |input| {
            let name = String::from_utf8_lossy(input.vbytes()?).into_owned();
            Ok((name, input.vint()?, input.u32()?))
        })?;
        let header = match input.remaining() {
            0 => None,
            _ => Some(Header::decode(&mut Input::new(input.vbytes()?))?),
        };
        Ok(Integrity {
            features,
            engine_version,
            partitions,
            rows,
            tombstones,
            data,
            index,
            components,
            header,
        })
    }
}

fn decode_pages(input: &mut Input<'_>) -> Parsed<Pages> {
    let size = input.vint()?;
    let before = input.clone();
    let count = input.vint()?;
    if count != size.div_ceil(PAGE_BYTES as u64) {
        return Err(before.bad(format!("a checksum for each page of {size} bytes"), count));
    }
    Ok(Pages { size, crcs: input.items(count, 4, |input| input.u32())? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sstable::format::layout::Bases;

    fn path() -> &'static Path {
        Path::new("me-1-big-Tidegate.db")
    }

    fn pages(size: u64) -> Pages {
        let count = size.div_ceil(PAGE_BYTES as u64);
        Pages { size, crcs: (0..count).map(|number| 7 + number as u32).collect() }
    }

    fn sample() -> Integrity {
        let header = Header {
            bases: Bases::default(),
            partition_key: "Int32Type".into(),
            clustering: vec!["UTF8Type".into()],
            statics: Vec::new(),
            regulars: vec![(b"v".to_vec(), "BytesType".into())],
        };
        let counts = Counts { partitions: 1, rows: 300, tombstones: 70_000 };
        let mut integrity = Integrity::new(counts, pages(3 * 4096 + 1), pages(4096), header);
        integrity.add(Component::Filter, b"filter");
        integrity.add(Component::Statistics, b"");
        integrity
    }

    /// What `content` is with the right checksum behind it.
    fn sealed(content: &[u8]) -> Vec<u8> {
        [content, &crc32(content).to_be_bytes()].concat()
    }

    #[test]
    fn what_is_written_is_read_back_and_early_files_had_no_header() {
        let whole = sample();
        let early = Integrity { header: None, ..sample() };
        for integrity in [whole, early] {
            let bytes = integrity.encode();
            assert_eq!(Integrity::decode(&bytes, path()).unwrap(), integrity);
            for at in 0..bytes.len() {
                let cut = Integrity::decode(&bytes[..at], path());
                assert!(matches!(cut, Err(Error::Corrupt(_))), "{at} bytes: {cut:?}");
                let mut flipped = bytes.clone();
                flipped[at] ^= 0x10;
                let flipped = Integrity::decode(&flipped, path());
                assert!(matches!(flipped, Err(Error::Corrupt(_))), "byte {at}: {flipped:?}");
            }
        }
    }

    #[test]
    fn another_format_is_refused_in_other_words_if_it_is_newer() {
        let bytes = sample().encode();
        let content = &bytes[..bytes.len() - 4];
        let with = |front: [u8; 8]| {
            let content = [&front[..], &content[8..]].concat();
            Integrity::decode(&sealed(&content), path())
        };
        assert!(with(*b"TDGT\0\0\0\x01").is_ok());
        for version in [2_u32, u32::MAX] {
            let mut front = *b"TDGT\0\0\0\0";
            front[4..].copy_from_slice(&version.to_be_bytes());
            let found = with(front);
            let Err(Error::Unavailable(told)) = &found else { panic!("{version}: {found:?}") };
            let wanted = format!("format {version}; this engine reads up to 1");
            assert!(told.contains(&wanted), "{told}");
        }
        let found = with(*b"TDGX\0\0\0\x02");
        assert!(matches!(found, Err(Error::Corrupt(_))), "{found:?}");
    }

    #[test]
    fn each_page_of_a_file_has_one_checksum() {
        for (size, wanted) in [(0, 0), (1, 1), (4095, 1), (4096, 1), (4097, 2), (8192, 2)] {
            for count in 0..=3_u64 {
                let mut bytes = Vec::new();
                put_vint(&mut bytes, size);
                put_vint(&mut bytes, count);
                (0..count as u32).for_each(|n| bytes.extend((7 + n).to_be_bytes()));
                let found = decode_pages(&mut Input::new(&bytes));
                match count == wanted {
                    true => assert_eq!(found, Ok(pages(size)), "{size}"),
                    false => assert!(matches!(found, Err(Fault::Bad { .. })), "{size} {count}"),
                }
            }
        }
    }

    #[test]
    fn a_component_is_what_was_noted_of_it_and_one_that_was_not_is_not_judged() {
        let integrity = sample();
        let check = |component, content: &[u8]| integrity.check(component, path(), content);
        for (component, content, is_right) in [
            (Component::Filter, &b"filter"[..], true),
            (Component::Filter, b"filtes", false),
            (Component::Filter, b"filter\0", false),
            (Component::Filter, b"", false),
            (Component::Statistics, b"", true),
            (Component::Statistics, b"\0", false),
            (Component::Summary, b"anything", true),
        ] {
            let checked = check(component, content);
            assert_eq!(checked.is_ok(), is_right, "{component:?} {content:?}: {checked:?}");
        }
        let wanted = [
            Component::Data,
            Component::Index,
            Component::Filter,
            Component::Statistics,
            Component::Tidegate,
            Component::Toc,
        ];
        assert_eq!(integrity.components(), BTreeSet::from(wanted));
    }
}
