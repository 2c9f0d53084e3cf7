//! The Tidegate storage engine: wide partitions, one shard per core, policies as Wasm components.
//!
//! Modules stand bottom-up, in reading order; a module names only modules above it in this list.
//! `ARCHITECTURE.md` has the map, the floors and the flows.

pub mod error;
pub mod config;
pub mod clock;
pub mod os;
pub mod checksum;
pub mod persistent;
pub mod schema;
pub mod mutation;
pub mod policy;
pub mod disk;
pub mod runtime;
pub mod commitlog;
pub mod plugin;
pub mod cache;
pub mod memtable;
pub mod sstable;
pub mod reader;
pub mod batch;
pub mod table;
pub mod database;

pub use commitlog::Durability;
pub use database::{
    BatchStream, CacheReport, Catalog, Database, Options, PolicyInfo, PolicyReport, TableReport,
};
pub use disk::Backend;
pub use error::{Error, Result};
pub use mutation::{
    Cell, ClusteringRange, Direction, Liveness, Mutation, Position, RangeTombstone, Row, Slice,
    Tombstone,
};
pub use schema::table_schema::SchemaRef;
pub use schema::{
    ClusteringKey, ClusteringOrder, Column, ColumnId, ColumnKind, DataType, PartitionKey, TableId,
    TableOptions, TableSchema, Value,
};
pub use table::{Partitions, ReadCommand};
