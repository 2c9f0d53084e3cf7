//! The command line of `tidegate sstable`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

const FILES_HELP: &str = "\
FILE is any file of an SSTable (me-1-big-Data.db, or another component) or a directory, which stands
for all SSTables in it. Versions mc, md, me and nb of the big format are read, compressed or not,
whoever wrote them. Nothing is ever written to them.";

const EXAMPLES: &str = "\
Examples:
  tidegate sstable verify /var/lib/cassandra/data/ks/t-5e1c…/     every SSTable of a table
  tidegate sstable dump-data me-1-big-Data.db | head -50
  tidegate sstable dump-statistics --json nb-12-big-Data.db
  tidegate sstable dump-schema ./t-5e1c…/
  tidegate sstable query 'SELECT pk, count(*) FROM t GROUP BY pk' ./t-5e1c…/

In the shell, ATTACH SSTABLES '/path' AS name makes a directory of SSTables a table that can be read,
and IMPORT SSTABLES '/path' INTO name copies one into a table of this database.

Exit codes: 0 done, 1 something failed or is damaged, 2 wrong usage.";

/// Look into SSTable files: of this engine, of Cassandra, of ScyllaDB.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct SstableArguments {
    #[command(subcommand)]
    pub action: SstableAction,
}

/// SSTables to work on.
#[derive(Debug, Clone, Args)]
pub struct SstableFiles {
    /// Files or directories of SSTables.
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
}

/// What to do with SSTables.
#[derive(Debug, Clone, Subcommand)]
pub enum SstableAction {
    /// Rows, cells and tombstones as JSON, as Cassandra 5's `sstabledump -t` prints them.
    ///
    /// One document an SSTable, written while it is read. As with that tool, the position of a
    /// partition is where its first row starts; positions count uncompressed bytes. The value of a
    /// counter is its total.
    #[command(after_help = FILES_HELP)]
    DumpData(SstableFiles),
    /// The partition index as JSON: keys, positions, and the blocks of promoted indexes.
    #[command(after_help = FILES_HELP)]
    DumpIndex(SstableFiles),
    /// The samples of the partition index as JSON.
    #[command(after_help = FILES_HELP)]
    DumpSummary(SstableFiles),
    /// The metadata, as text like `sstablemetadata` or as JSON; times are UTC.
    #[command(after_help = FILES_HELP)]
    DumpStatistics {
        #[command(flatten)]
        files: SstableFiles,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// What ScyllaDB noted in Scylla.db, all parts of it, as JSON; null where there is no such
    /// file.
    #[command(after_help = FILES_HELP)]
    DumpScyllaMetadata(SstableFiles),
    /// CREATE TABLE for the files, from their serialization headers.
    ///
    /// Names of key columns are not in the files. They are taken from schema.cql in the directory
    /// or the one above, or from Scylla.db; else they are pk (pk1, pk2, …) and ck (ck1, ck2, …).
    #[command(after_help = FILES_HELP)]
    DumpSchema(SstableFiles),
    /// Check everything that can be checked, and report every SSTable.
    ///
    /// Checksums; order of partitions, rows and cells; previous sizes; range tombstones; index
    /// entries, promoted indexes and samples against the data; the bloom filter against the keys;
    /// statistics against the rows. It goes on after damage. With --mode json, one object a line.
    #[command(after_help = FILES_HELP)]
    Verify(SstableFiles),
    /// Run SQL on the files: each directory is a table, named as dump-schema names it.
    #[command(after_help = FILES_HELP)]
    Query {
        /// A statement, such as 'SELECT * FROM t LIMIT 5'; SHOW TABLES lists the tables.
        sql: String,
        #[command(flatten)]
        files: SstableFiles,
        /// Leave damaged files out instead of stopping.
        #[arg(long)]
        skip_damaged: bool,
    },
}
