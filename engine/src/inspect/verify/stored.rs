//! The bytes of files against every checksum that there is of them.

use std::ops::Range;
use std::path::Path;

use super::verification::{Verification, VerifyProgress};
use crate::checksum::{Crc32, crc32};
use crate::config::PAGE_BYTES;
use crate::error::{Error, Result};
use crate::inspect::files::Inspector;
use crate::inspect::metadata::Metadata;
use crate::sstable::data::file::decode_chunks;
use crate::sstable::data::file::{Access, CheckedFile};
use crate::sstable::format::component::Component;
use crate::sstable::format::compression_info::{CRC_BYTES, CompressionInfo};
use crate::sstable::format::integrity::{Integrity, Pages};
use crate::sstable::format::scylla::ScyllaMetadata;

/// Bytes of a file that are read at a time.
const READ_BYTES: u64 = 256 << 10;
/// How far a ratio may be off for the rounding of floats.
const RATIO_ERROR_MAX: f64 = 1e-9;

pub(super) async fn check_toc(sstable: &Inspector, found: &mut Verification) {
    if !sstable.has(Component::Toc) {
        found.skip("no TOC.txt: its list of files");
        return;
    }
    let toc = sstable.read(Component::Toc).await;
    let Some(toc) = found.take(toc) else { return };
    let toc = String::from_utf8_lossy(&toc).into_owned();
    let lines: Vec<&str> = toc.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let path = sstable.path(Component::Toc);
    for line in &lines {
        let is_there = match Component::ALL.into_iter().find(|known| known.suffix() == *line) {
            Some(component) => sstable.has(component),
            None => sstable.others.iter().any(|name| name.ends_with(line)),
        };
        if is_there {
            continue;
        }
        // What other products make anew when it is missing.
        let is_derived =
            [Component::Summary, Component::Filter].iter().any(|c| c.suffix() == *line);
        if is_derived && !sstable.has(Component::Tidegate) {
            found.notes.push(format!(
                "{}: there is no {line}, which it lists; it is made from the index when it is read",
                path.display()
            ));
            continue;
        }
        found.add(Error::corrupt(&path, 0, format!("a file for the line '{line}'"), "none"));
    }
    for component in sstable.components().filter(|component| *component != Component::Toc) {
        if !lines.contains(&component.suffix()) {
            let wanted = format!("a line '{}' for the file", component.suffix());
            found.add(Error::corrupt(&path, 0, wanted, "none"));
        }
    }
}

/// Small components against the checksums that other components have of them.
pub(super) async fn check_small(
    sstable: &Inspector,
    scylla: Option<&ScyllaMetadata>,
    found: &mut Verification,
) -> Option<Integrity> {
    let mut integrity = None;
    if sstable.has(Component::Tidegate) {
        let path = sstable.path(Component::Tidegate);
        let content = sstable.read(Component::Tidegate).await;
        if let Some(content) = found.take(content) {
            integrity = found.take(Integrity::decode(&content, &path));
        }
    }
    let small = [
        Component::Summary,
        Component::Filter,
        Component::Statistics,
        Component::Crc,
        Component::Digest,
        Component::CompressionInfo,
        Component::Scylla,
    ];
    for component in small.into_iter().filter(|component| sstable.has(*component)) {
        let path = sstable.path(component);
        let content = sstable.read(component).await;
        let Some(content) = found.take(content) else { continue };
        if let Some(integrity) = &integrity {
            found.take(integrity.check(component, &path, &content));
        }
        if let Some(scylla) = scylla {
            found.take(scylla.check(component, &path, &content));
        }
    }
    integrity
}

/// Adds a range behind those before it; neighbours are one.
fn note(damaged: &mut Vec<Range<u64>>, range: Range<u64>) {
    match damaged.last_mut() {
        Some(last) if last.end == range.start => last.end = range.end,
        _ => damaged.push(range),
    }
}

fn check_crc(path: &Path, offset: u64, wanted: u32, found: u32) -> Result<()> {
    if wanted == found {
        return Ok(());
    }
    Err(Error::corrupt(path, offset, format!("CRC {wanted:08x}"), format!("CRC {found:08x}")))
}

/// The data file as stored against `Digest.crc32`, `CRC.db` and the chunks' own checksums.
///
/// Returns the ranges of uncompressed data whose checksums are wrong.
pub(super) async fn check_stored(
    sstable: &Inspector,
    integrity: Option<&Integrity>,
    found: &mut Verification,
    progress: VerifyProgress<'_>,
) -> Result<Vec<Range<u64>>> {
    let file = sstable.stored(Component::Data).await?;
    let mut damaged = Vec::new();
    let path = sstable.path(Component::Data);
    let mut units = None;
    if sstable.has(Component::Crc) {
        let crc_path = sstable.path(Component::Crc);
        let content = sstable.read(Component::Crc).await?;
        let decoded = decode_chunks(&content).map_err(|fault| fault.into_error(&crc_path, 0));
        if let Some((bytes, crcs)) = found.take(decoded) {
            let wanted = file.size().div_ceil(bytes);
            if (crcs.len() as u64) < wanted {
                let wanted = format!("{wanted} checksums");
                found.add(Error::corrupt(crc_path, 4, wanted, crcs.len()));
            }
            units = Some((bytes, crcs));
        }
    }
    let before = found.problem_count;
    if let Some(integrity) = integrity {
        damaged = check_pages(sstable, Component::Data, &integrity.data, found).await?;
    }
    if let Some(info) = sstable.compression(file.size()).await? {
        damaged = check_chunks(&file, &info, found).await?;
    } else if units.is_none() && integrity.is_none() {
        found.skip("no CRC.db: checksums of parts of the data file");
    }
    // Checksums of more would say the same of the same bytes.
    let is_told = found.problem_count > before;
    let mut whole = Crc32::new();
    let mut at = 0;
    while at < file.size() {
        let length = READ_BYTES.min(file.size() - at);
        let mut piece = Vec::with_capacity(length as usize);
        file.append(Access::Scan, (at, length), &mut piece).await?;
        whole.update(&piece);
        if let Some((bytes, crcs)) = units.as_ref().filter(|_| !is_told) {
            let first = (at / bytes) as usize;
            let pieces = piece.chunks(*bytes as usize).zip(crcs.get(first..).unwrap_or_default());
            for (i, (piece, crc)) in pieces.enumerate() {
                let offset = at + i as u64 * bytes;
                if found.take(check_crc(&path, offset, *crc, crc32(piece))).is_none() {
                    note(&mut damaged, offset..offset + piece.len() as u64);
                }
            }
        }
        at += length;
        progress(0, at / 2, file.size());
    }
    let is_told = found.problem_count > before;
    if !sstable.has(Component::Digest) {
        found.skip("no Digest.crc32: the checksum of the whole data file");
        return Ok(damaged);
    }
    let digest_path = sstable.path(Component::Digest);
    let content = sstable.read(Component::Digest).await?;
    let text = String::from_utf8_lossy(&content).trim().to_owned();
    let sum = whole.finish();
    if text != sum.to_string() && !is_told {
        let wanted = format!("{sum}, the CRC of {}", Component::Data.suffix());
        found.add(Error::corrupt(digest_path, 0, wanted, text));
    }
    Ok(damaged)
}

/// Returns the ranges of uncompressed data whose chunks have wrong checksums.
async fn check_chunks(
    file: &CheckedFile,
    info: &CompressionInfo,
    found: &mut Verification,
) -> Result<Vec<Range<u64>>> {
    let mut damaged = Vec::new();
    for number in 0..info.data_bytes.div_ceil(info.chunk_bytes) {
        let chunk = info.chunk(number);
        let mut stored = Vec::new();
        let range = (chunk.at, chunk.stored_bytes + CRC_BYTES);
        file.append(Access::Scan, range, &mut stored).await?;
        let (content, crc) = stored.split_last_chunk::<4>().expect("the checksum was read too");
        let checked = check_crc(file.path(), chunk.at, u32::from_be_bytes(*crc), crc32(content));
        if found.take(checked).is_none() {
            let start = number * info.chunk_bytes;
            note(&mut damaged, start..start + info.chunk_bytes);
        }
    }
    Ok(damaged)
}

/// The stated compression against the chunks.
///
/// Errors: `Io`; `Corrupt` for a chunk map that cannot be read.
pub(super) async fn check_ratio(
    sstable: &Inspector,
    (metadata, is_own): (&Metadata, bool),
    found: &mut Verification,
) -> Result<()> {
    let file = sstable.stored(Component::Data).await?;
    let wanted = match sstable.compression(file.size()).await? {
        None => -1.0,
        Some(info) => {
            let chunks = 0..info.data_bytes.div_ceil(info.chunk_bytes);
            let stored: u64 = chunks.map(|number| info.chunk(number).stored_bytes).sum();
            stored as f64 / info.data_bytes as f64
        }
    };
    let stated = metadata.compression_ratio;
    if (stated - wanted).abs() > RATIO_ERROR_MAX || stated.is_nan() {
        let path = sstable.path(Component::Statistics);
        let wanted = format!("a compression ratio of {wanted}");
        // Some count the checksums of chunks as well, or round.
        if !is_own && stated > 0.0 {
            found.note_other_count(&path, &wanted, &stated.to_string());
            return Ok(());
        }
        found.add(Error::corrupt(path, metadata.statistics_at, wanted, stated));
    }
    Ok(())
}

/// A file against the checksums of its pages in `Tidegate.db`.
///
/// Returns the ranges of the file whose checksums are wrong.
pub(super) async fn check_pages(
    sstable: &Inspector,
    component: Component,
    pages: &Pages,
    found: &mut Verification,
) -> Result<Vec<Range<u64>>> {
    let mut damaged = Vec::new();
    let file = sstable.stored(component).await?;
    if file.size() != pages.size {
        let (wanted, size) = (format!("{} bytes", pages.size), format!("{} bytes", file.size()));
        return Err(Error::corrupt(file.path(), file.size().min(pages.size), wanted, size));
    }
    let per_read = READ_BYTES as usize / PAGE_BYTES;
    for (i, crcs) in pages.crcs.chunks(per_read).enumerate() {
        let at = i as u64 * READ_BYTES;
        let mut piece = Vec::new();
        file.append(Access::Scan, (at, READ_BYTES.min(file.size() - at)), &mut piece).await?;
        for (page, (content, crc)) in piece.chunks(PAGE_BYTES).zip(crcs).enumerate() {
            let offset = at + (page * PAGE_BYTES) as u64;
            if found.take(check_crc(file.path(), offset, *crc, crc32(content))).is_none() {
                note(&mut damaged, offset..offset + content.len() as u64);
            }
        }
    }
    Ok(damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_pieces_that_touch_are_one() {
        let mut damaged = Vec::new();
        for start in [0, 4, 8, 20, 24, 40] {
            note(&mut damaged, start..start + 4);
        }
        assert_eq!(damaged, [0..12, 20..28, 40..44]);
    }
}
