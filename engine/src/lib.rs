//! The Tidegate storage engine: wide partitions, one shard per core, policies as Wasm components.
//!
//! Modules stand bottom-up, in reading order; a module names only modules above it in this list.
//! `ARCHITECTURE.md` has the map and three walks; `docs/` has a page for each mechanism.

#[cfg(test)]
#[path = "../../tests/skip.rs"]
mod skip;

pub mod error;
pub mod config;
pub mod os;
pub mod clock;
pub mod checksum;
pub mod hex;
mod scoped;
mod lent;
pub mod probe;
pub mod prefetch;
pub mod persistent;
pub mod schema;
pub mod mutation;
pub mod policy;
pub mod trace;
pub mod admission;
pub mod access;
pub mod disk;
pub mod io;
pub mod runtime;
pub mod ledger;
pub mod commitlog;
pub mod plugin;
pub mod replay;
pub mod cache;
pub mod governance;
pub mod memtable;
pub mod sstable;
pub mod inspect;
pub mod reader;
pub mod compaction;
pub mod batch;
pub mod table;
pub mod database;

pub use access::{
    AccessToken, EffectiveLevel, Grant, PasswordHash, Permission, Resource, Role, RoleOptions,
    Roles, View,
};
pub use admission::{DEFAULT_LEVEL, LevelId, LevelOptions, ServiceLevel, Terms, Workload};
pub use clock::Deadline;
pub use commitlog::{Durability, Recovery};
pub use database::{
    AdmissionReport, AlteredTable, AttachProgress, Attached, AttachedFile, Attachment, BatchStream,
    CacheReport, Catalog, ColumnChange, CommitlogReport, CompactionEnd, CompactionRecord,
    CompactionReport, ConditionalWrite, DamageReport, Database, Deciding, Decision, Export,
    Getting, GettingMany, HotReport, Import, ImportProgress, Imported, IoReport, LargeDataReport,
    LeftOut, MemoryPool, MemoryReport, NewColumn, NodeId, OnUnknown, Options, Peers, RateReport,
    ReadReport, RecordingSummary, Ring, RowCacheReport, Scan, Snapshot, SstableReport, TableReport,
    Taking, Under, WriteBatch, Writing,
};
pub use disk::Backend;
pub use error::{Error, Result};
pub use governance::{PolicyExit, PolicyInfo, PolicyReport, RolledBack, ShadowReport};
pub use mutation::{
    Cell, CellPath, ClusteringRange, Direction, Liveness, MultiCell, Mutation, Position,
    RangeTombstone, Row, Slice, Tombstone,
};
pub use reader::{Comparator, Comparison, Condition, RowCondition, RowFilter, RowKey, RowValues};
pub use schema::table_schema::SchemaRef;
pub use schema::{
    ClusteringKey, ClusteringOrder, Column, ColumnDrop, ColumnId, ColumnKind, CompactionClass,
    CompactionOptions, Compression, Compressor, DataType, LargeDataOptions, LargeDataThresholds,
    OnCorruption, PartitionKey, TableId, TableOptions, TableSchema, Thousandths, UserType, Value,
    WindowUnit,
};
pub use sstable::{Damage, LargeKind};
pub use table::{
    FragmentKind, FragmentReport, LargeThing, ManyTombstones, Partitions, ReadCommand,
    SstableStatus, TombstoneLimits, TombstonePage,
};
