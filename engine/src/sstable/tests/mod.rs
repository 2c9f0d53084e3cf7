//! Tests at the border of the module: what is written is what is read, damage is noticed, and
//! Cassandra's own files read and re-encode byte for byte.

pub(crate) mod compression;
pub(crate) mod damage;
pub(crate) mod dump;
pub(crate) mod fixtures;
mod flips;
pub(crate) mod foreign;
mod long_rows;
mod io;
mod known;
pub(crate) mod memory_disk;
pub(crate) mod model;
mod round_trip;
mod salvage;
mod several_pages;

use std::collections::VecDeque;
use std::path::Path;
use std::rc::Rc;

use futures::executor::block_on;

use super::data::{compressed, file, window};
use super::format::{codec, compression_info, statistics};
use super::index::{block_index, partition_index, promoted_index};
use super::*;
use crate::cache::PageCache;
use crate::disk::Disk;
use crate::error::Result;
use crate::mutation::{Fragment, FragmentSource, PartitionRange, PointRead, Slice};
use crate::schema::table_schema::SchemaRef;
use crate::schema::{ClusteringKey, PartitionKey};
use memory_disk::MemoryDisk;

pub(crate) const DIRECTORY: &str = "/table";

pub(crate) fn directory() -> &'static Path {
    Path::new(DIRECTORY)
}

pub(crate) fn shared(disk: &MemoryDisk) -> Rc<dyn Disk> {
    Rc::new(disk.clone())
}

pub(crate) fn write(
    disk: &MemoryDisk,
    generation: u64,
    schema: &SchemaRef,
    options: WriterOptions,
    fragments: impl IntoIterator<Item = Fragment>,
) -> Option<SstableInfo> {
    block_on(async {
        let mut writer =
            SstableWriter::create(shared(disk), directory(), generation, schema.clone(), options)
                .await
                .unwrap();
        for fragment in fragments {
            writer.push(fragment).await.unwrap();
        }
        writer.finish().await.unwrap()
    })
}

/// As files of whoever wrote them.
pub(crate) fn open(disk: &MemoryDisk, generation: u64, schema: &SchemaRef) -> Result<Rc<Sstable>> {
    foreign::open_named(disk, &SstableName::native(generation), schema)
}

/// As a manifest names them that says nothing else.
pub(crate) fn open_own(
    disk: &MemoryDisk,
    generation: u64,
    schema: &SchemaRef,
) -> Result<Rc<Sstable>> {
    let cache = PageCache::new(64 << 20, 1);
    let known = (generation, None);
    block_on(Sstable::open(shared(disk), cache, directory(), known, schema.clone()))
}

/// All that a source gives; nothing where there is none.
pub(crate) fn drain(source: Option<Box<dyn FragmentSource>>) -> Result<Vec<Fragment>> {
    let mut all = Vec::new();
    let Some(mut source) = source else { return Ok(all) };
    loop {
        let mut out = VecDeque::new();
        block_on(source.fill(&mut out))?;
        let limit = crate::config::FRAGMENTS_PER_FILL_MAX + 4;
        assert!(out.len() <= limit, "{} fragments in one fill", out.len());
        if out.is_empty() {
            return Ok(all);
        }
        all.extend(out);
    }
}

pub(crate) fn read(
    table: &Rc<Sstable>,
    range: &PartitionRange,
    slice: &Slice,
) -> Result<Vec<Fragment>> {
    drain(table.read(&ReadPlan::of(range, slice)))
}

/// One row, as a reader gets it that asks the filter first.
pub(crate) fn read_row(
    table: &Rc<Sstable>,
    key: &PartitionKey,
    row: &ClusteringKey,
    wants_front: bool,
) -> Result<Option<PointRead>> {
    if !table.may_contain(&HashedKey::of(key)) {
        return Ok(None);
    }
    block_on(table.clone().read_row(Rc::new(key.clone()), row.clone(), wants_front))
}
