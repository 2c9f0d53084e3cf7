//! COPY … FROM: a CSV or Parquet file into a table, in bounded memory.
//!
//! One blocking task reads and converts, the session's task writes; between them stand a few
//! batches. Rows get rising timestamps, so of two lines with one key the later wins. A null leaves
//! its column unset: loading writes no tombstones. Dropping the future stops both sides.

use std::fs::File;
use std::io::{BufReader, Write as _};
use std::os::unix::fs::MetadataExt;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::parquet;
use datafusion::parquet::file::metadata::RowGroupMetaData;
use datafusion::parquet::file::reader::{FileReader, SerializedFileReader};
use datafusion::prelude::{DataFrame, ParquetReadOptions};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tidegate_engine::batch::{Expiry, WriteOptions, expiry, mutations, put_value};
use tidegate_engine::config::BATCH_BYTES_MAX;
use tidegate_engine::{
    ClusteringKey, Column, ColumnId, ColumnKind, Database, Liveness, Mutation, PartitionKey, Row,
    SchemaRef, TableSchema, Value,
};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::csv_record::{Next, RecordReader};
use super::options::{CopyFrom, CopyOptions, Format, OnError};
use crate::query::error::{ErrorKind, QueryError, Result};
use crate::query::outcome::{Outcome, parts_of};
use crate::query::parse::{Using, UsingValue};
use crate::query::session::{Progress, Session};
use crate::query::types::literal;
use crate::query::write::{self, insert, stamp};

/// Rows of one batch of writes, and bytes of the file at which it ends as well.
const BATCH_ROWS: usize = 2048;
const BATCH_BYTES: u64 = 4 << 20;
/// Batches that are written at the same time.
const BATCHES_IN_FLIGHT_MAX: usize = 4;
/// Batches that wait between reading and writing.
const BATCHES_WAITING_MAX: usize = 2;

/// Bytes of the file that are read at once.
const READ_BYTES: usize = 256 << 10;

/// Rows that are ready to be written.
struct Batch {
    mutations: Vec<Mutation>,
    /// How far into the file this batch reaches.
    bytes: u64,
}

/// Loads the file; the count is of rows written.
///
/// Errors: `NotFound` for columns, `Io` for files, `Invalid` for the first bad line unless lines
/// are skipped; what was loaded before stays, and the error says how much.
pub async fn run(session: &Session, copy: &CopyFrom) -> Result<Outcome> {
    session.check_local_files().map_err(|error| error.at(copy.file_span))?;
    let table = session.table(&copy.table)?;
    for name in &copy.columns {
        write::find_column(&table, name)?;
    }
    let ttl = copy.options.ttl.map(UsingValue::Number);
    let options = session.write_options(Using { ttl, timestamp: None }, &[])?;
    expiry(&table, &options)?;
    match copy.options.format {
        Format::Csv => csv(session, copy, table, options).await,
        Format::Parquet => parquet(session, copy, table, options).await,
    }
}

/// A file that cannot be read or written.
fn io(verb: &str, path: &str, error: impl std::fmt::Display) -> QueryError {
    QueryError::new(ErrorKind::Io, format!("cannot {verb} '{path}': {error}"))
}

fn unreadable(copy: &CopyFrom, error: impl std::fmt::Display) -> QueryError {
    io("read", &copy.file, error).at(copy.file_span)
}

/// What an error in the middle leaves behind.
fn stays(loaded: u64) -> String {
    format!("{loaded} rows had been loaded before and stay")
}

async fn csv(
    session: &Session,
    copy: &CopyFrom,
    table: SchemaRef,
    options: WriteOptions,
) -> Result<Outcome> {
    let file = File::open(&copy.file).map_err(|error| unreadable(copy, error))?;
    let bytes_max = file.metadata().map_err(|error| unreadable(copy, error))?.len();
    let loader = Loader::open(copy, table, options, session.database.clone(), file)?;
    let (sender, receiver) = mpsc::channel(BATCHES_WAITING_MAX);
    let reading = tokio::task::spawn_blocking(move || loader.run(&sender));
    let (loaded, read) = write_all(session, (reading, receiver), bytes_max).await?;
    let rejects =
        read.map_err(|error| error.at(copy.file_span).with_help(skip_helps("lines", loaded)))?;
    Ok(outcome(loaded, rejects, ["line was", "lines were"]))
}

/// What to do about a bad line or row.
fn skip_helps(bad: &str, loaded: u64) -> String {
    format!("{}; ON_ERROR skip sets bad {bad} aside", stays(loaded))
}

/// `[one, many]` is what the file is made of.
fn outcome(loaded: u64, rejects: Rejects, [one, many]: [&str; 2]) -> Outcome {
    let mut outcome = Outcome::count(loaded);
    let Rejects { path, count, .. } = rejects;
    if count > 0 {
        let what = if count == 1 { one } else { many };
        outcome.note = Some(format!("{count} {what} rejected, see {path}"));
    }
    outcome
}

/// Writes all that the reading side sends; how many rows that were, and how reading ended.
async fn write_all<T>(
    session: &Session,
    (reading, receiver): (JoinHandle<T>, mpsc::Receiver<Batch>),
    bytes_max: u64,
) -> Result<(u64, T)> {
    let mut loaded = 0;
    write_batches(session, receiver, bytes_max, &mut loaded).await.map_err(|error| {
        error.with_help(format!(
            "{loaded} rows are loaded and stay, and perhaps some of those that failed"
        ))
    })?;
    match reading.await {
        Ok(read) => Ok((loaded, read)),
        Err(error) => Err(QueryError::new(ErrorKind::Internal, error.to_string())),
    }
}

/// Writes what arrives, several batches at once, and tells how far it came.
async fn write_batches(
    session: &Session,
    mut receiver: mpsc::Receiver<Batch>,
    bytes_max: u64,
    loaded: &mut u64,
) -> Result<()> {
    let database = session.database.under(session.write_terms());
    let mut writing = FuturesUnordered::new();
    let (mut reached, mut has_ended) = (0, false);
    loop {
        let may_take = !has_ended && writing.len() < BATCHES_IN_FLIGHT_MAX;
        // Writes first: one that was just added begins here.
        let written = tokio::select! {
            biased;
            Some(written) = writing.next() => written,
            next = receiver.recv(), if may_take => {
                match next {
                    Some(Batch { mutations, bytes }) => {
                        let rows = mutations.len() as u64;
                        let write = database.apply_many(mutations);
                        writing.push(async move { write.await.map(|()| (rows, bytes)) });
                    }
                    None => has_ended = true,
                }
                continue;
            }
            else => return Ok(()),
        };
        let (rows, bytes) = match written {
            Ok(written) => written,
            Err(error) => {
                // What is on its way lands too: it belongs to the count.
                while let Some(written) = writing.next().await {
                    *loaded += written.map_or(0, |(rows, _)| rows);
                }
                return Err(error.into());
            }
        };
        *loaded += rows;
        reached = bytes.max(reached);
        if let Some(progress) = &session.options.progress {
            progress(Progress { rows: *loaded, bytes: reached, bytes_max });
        }
    }
}

/// Reads and converts lines, on a thread that may block.
struct Loader {
    file: String,
    table: SchemaRef,
    options: WriteOptions,
    expiry: Option<Expiry>,
    database: Database,
    reader: RecordReader<BufReader<File>>,
    /// Where each field of a line goes; `None` for fields that are not loaded.
    fields: Vec<Option<ColumnId>>,
    copy: CopyOptions,
    rejects: Rejects,
}

impl Loader {
    fn open(
        copy: &CopyFrom,
        table: SchemaRef,
        options: WriteOptions,
        database: Database,
        file: File,
    ) -> Result<Self> {
        let path = rejects_path(copy)?;
        let input = BufReader::with_capacity(READ_BYTES, file);
        let mut reader = RecordReader::new(input, copy.options.delimiter);
        let fields = if copy.options.header {
            match reader.read().map_err(|error| unreadable(copy, error))? {
                Next::Broken { line, reason } => {
                    let reason = format!("{}, line {line}: {reason}", copy.file);
                    return Err(QueryError::invalid(reason).at(copy.file_span));
                }
                Next::Record | Next::End => {}
            }
            let header: Vec<String> = reader
                .fields()
                .map(|field| String::from_utf8_lossy(field.text).into_owned())
                .collect();
            header_fields(copy, &table, &header)?
        } else if copy.columns.is_empty() {
            table.ids().map(Some).collect()
        } else {
            let ids: Result<Vec<_>> =
                copy.columns.iter().map(|name| Ok(write::find_column(&table, name)?.0)).collect();
            ids?.into_iter().map(Some).collect()
        };
        check_keys(copy, &table, &fields)?;
        let expiry = expiry(&table, &options)?;
        Ok(Loader {
            file: copy.file.clone(),
            table,
            options,
            expiry,
            database,
            reader,
            fields,
            copy: copy.options.clone(),
            rejects: Rejects { path, file: None, count: 0 },
        })
    }

    /// Sends batches until the file ends or nobody listens.
    fn run(mut self, sender: &mpsc::Sender<Batch>) -> Result<Rejects> {
        let mut batch = Vec::with_capacity(BATCH_ROWS);
        let mut bytes_before = self.reader.bytes_read();
        loop {
            let failed = match self.reader.read() {
                Ok(Next::End) => break,
                Ok(Next::Record) => match self.mutation() {
                    Ok(mutation) => {
                        batch.push(mutation);
                        None
                    }
                    Err(reason) => self.refuse(&reason).err(),
                },
                // Where the next line begins is not known: there is nothing to skip to.
                Ok(Next::Broken { line, reason }) => {
                    Some(QueryError::invalid(format!("{}, line {line}: {reason}", self.file)))
                }
                Err(error) => Some(io("read", &self.file, error)),
            };
            let bytes = self.reader.bytes_read();
            let is_full = batch.len() == BATCH_ROWS || bytes - bytes_before >= BATCH_BYTES;
            if failed.is_some() || is_full {
                bytes_before = bytes;
                let mutations = std::mem::replace(&mut batch, Vec::with_capacity(BATCH_ROWS));
                if sender.blocking_send(Batch { mutations, bytes }).is_err() {
                    return Ok(self.rejects);
                }
            }
            if let Some(error) = failed {
                return Err(error);
            }
        }
        let bytes = self.reader.bytes_read();
        // Nobody listens any more only when the statement was cancelled.
        let _ = sender.blocking_send(Batch { mutations: batch, bytes });
        self.rejects.finish()?;
        Ok(self.rejects)
    }

    /// One line as an INSERT, or why it is none.
    fn mutation(&self) -> Result<Mutation, String> {
        let fields = self.reader.fields();
        if fields.len() != self.fields.len() {
            return Err(format!("{} fields instead of {}", fields.len(), self.fields.len()));
        }
        let table = &*self.table;
        let mut values: Vec<Option<Value>> = vec![None; table.columns.len()];
        for (field, id) in fields.zip(&self.fields) {
            let Some(id) = id else { continue };
            let column = table.column(*id);
            let of_column = |reason: String| format!("column '{}': {reason}", column.name);
            let text =
                std::str::from_utf8(field.text).map_err(|_| of_column("not UTF-8".into()))?;
            // Quotes make a text of it, also of nothing.
            if !field.is_quoted && text == self.copy.null {
                if column.is_key() {
                    return Err(of_column("a key column must not be null".into()));
                }
                continue;
            }
            let value = literal::parse(&column.ty, text).map_err(of_column)?;
            values[usize::from(id.0)] = Some(value);
        }
        let options = WriteOptions { timestamp: self.database.timestamp_us(), ..self.options };
        write_values(table, values, &options, self.expiry)
    }

    /// Sets a line aside.
    ///
    /// Errors: the reason, when lines are not skipped or the reject file cannot be written.
    fn refuse(&mut self, reason: &str) -> Result<()> {
        let line = self.reader.line();
        if self.copy.on_error == OnError::Abort {
            let message = format!("{}, line {line}: {reason}", self.file);
            return Err(QueryError::invalid(message));
        }
        self.rejects.add(&format!("line {line}: {reason}"), self.reader.raw())
    }
}

/// Where refused lines go. A file that is there is overwritten, but never the input.
///
/// Errors: `Invalid` when it is the file that is read.
fn rejects_path(copy: &CopyFrom) -> Result<String> {
    let path = copy.options.reject_file.clone();
    let path = path.unwrap_or_else(|| format!("{}.rejected", copy.file));
    let identity = |path: &str| std::fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
    if identity(&path).is_some_and(|file| identity(&copy.file) == Some(file)) {
        let message = format!("REJECT_FILE '{path}' is the file that is read");
        return Err(QueryError::invalid(message).at(copy.file_span));
    }
    Ok(path)
}

/// Columns of the table for the fields of a header.
fn header_fields(
    copy: &CopyFrom,
    table: &TableSchema,
    header: &[String],
) -> Result<Vec<Option<ColumnId>>> {
    let mut fields = Vec::with_capacity(header.len());
    for name in header {
        let name = name.trim();
        let found = table.find(name).or_else(|| table.find(&name.to_lowercase()));
        let wanted = copy.columns.is_empty()
            || found.is_some_and(|(_, column)| copy.columns.iter().any(|c| c.value == column.name));
        if !wanted {
            fields.push(None);
            continue;
        }
        let Some((id, _)) = found else {
            let known = table.present_columns().map(|column| column.name.as_str());
            let mut error = QueryError::not_found("column", name, known).at(copy.file_span);
            error.message = format!(
                "the header of {} names column '{name}', which {} does not have",
                copy.file,
                table.full_name()
            );
            if error.help.is_none() {
                error.help = Some("list the columns to load: COPY t (a, b) FROM …".to_owned());
            }
            return Err(error);
        };
        if fields.contains(&Some(id)) {
            return Err(QueryError::invalid(format!(
                "the header of {} names column '{name}' twice",
                copy.file
            ))
            .at(copy.file_span));
        }
        fields.push(Some(id));
    }
    for name in &copy.columns {
        let (id, _) = write::find_column(table, name)?;
        if !fields.contains(&Some(id)) {
            return Err(QueryError::new(
                ErrorKind::NotFound,
                format!("the header of {} lacks column '{}'", copy.file, name.value),
            )
            .at(name.span));
        }
    }
    Ok(fields)
}

/// Errors: `Invalid` when a key column is not among the fields, as for an INSERT.
fn check_keys(copy: &CopyFrom, table: &TableSchema, fields: &[Option<ColumnId>]) -> Result<()> {
    let is_named = |column: &Column| {
        let mut ids = fields.iter().flatten();
        ids.any(|id| table.column(*id).name == column.name)
    };
    match insert::missing_key(table, is_named) {
        Some(column) => Err(QueryError::invalid(format!(
            "{} lacks key column '{}' of {}",
            copy.file,
            column.name,
            table.full_name()
        ))
        .at(copy.file_span)),
        None => Ok(()),
    }
}

/// An INSERT of values by column; the missing ones stay unset. Without a clustering key, where
/// there should be one, it writes static columns alone.
fn write_values(
    table: &TableSchema,
    mut values: Vec<Option<Value>>,
    options: &WriteOptions,
    expiry: Option<Expiry>,
) -> Result<Mutation, String> {
    let mut take = |ids: Vec<ColumnId>| -> Vec<Value> {
        ids.iter().filter_map(|id| values[usize::from(id.0)].take()).collect()
    };
    let partition = take(table.partition_key_ids());
    let clustering = take(table.clustering_key_ids());
    // Keys are no nulls, so it was not among the columns at all.
    let is_static_alone = clustering.is_empty() && !table.clustering_key_ids().is_empty();
    let key = PartitionKey::from_values(table, &partition).map_err(|error| error.to_string())?;
    let clustering =
        ClusteringKey::from_values(table, &clustering).map_err(|error| error.to_string())?;
    let liveness = match expiry {
        Some(Expiry { ttl, at }) => Liveness::expiring(options.timestamp, ttl, at),
        None => Liveness::at(options.timestamp),
    };
    let mut row = Row { liveness: Some(liveness), ..Row::default() };
    let mut fixed = Row::default();
    for id in table.ids() {
        let Some(value) = values[usize::from(id.0)].take() else { continue };
        let column = table.column(id);
        let target = if column.kind == ColumnKind::Static { &mut fixed } else { &mut row };
        put_value(target, id, column, Some(&value), options, expiry)
            .map_err(|error| format!("column '{}': {error}", column.name))?;
    }
    let mut mutation = Mutation::new(table.id, key);
    mutation.static_row = (!fixed.is_empty()).then_some(fixed);
    if !is_static_alone {
        mutation.rows.push((clustering, row));
    }
    Ok(mutation)
}

/// Lines that were set aside: each with its reason in a comment above it.
struct Rejects {
    path: String,
    /// Made with the first line.
    file: Option<std::io::BufWriter<File>>,
    count: u64,
}

impl Rejects {
    fn add(&mut self, reason: &str, line: &[u8]) -> Result<()> {
        self.count += 1;
        self.append(reason, line).map_err(|error| io("write", &self.path, error))
    }

    fn append(&mut self, reason: &str, line: &[u8]) -> std::io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(std::io::BufWriter::new(File::create(&self.path)?)),
        };
        writeln!(file, "# {reason}")?;
        file.write_all(line)?;
        file.write_all(b"\n")
    }

    fn finish(&mut self) -> Result<()> {
        match self.file.take().map(|mut file| file.flush()) {
            Some(Err(error)) => Err(io("write", &self.path, error)),
            _ => Ok(()),
        }
    }
}

/// Rows of a Parquet file that make about as many bytes as a batch may have.
fn rows_at_once(file: &str) -> parquet::errors::Result<usize> {
    let reader = SerializedFileReader::new(File::open(file)?)?;
    let groups = reader.metadata().row_groups();
    let sum = |of: fn(&RowGroupMetaData) -> i64| -> u64 {
        groups.iter().map(|group| u64::try_from(of(group)).unwrap_or(0)).sum()
    };
    let row_bytes = sum(RowGroupMetaData::total_byte_size) / sum(RowGroupMetaData::num_rows).max(1);
    Ok((BATCH_BYTES_MAX as u64 / row_bytes.max(1)).max(1) as usize)
}

/// Why a file is not loaded to its end.
enum Stop {
    /// Nothing of it fits the table.
    Unfit(QueryError),
    /// What stands before is loaded.
    Behind(QueryError),
    /// The same, and the file has more.
    BadRow(QueryError),
}

/// Parquet has types already: its batches become mutations as those of an INSERT do.
async fn parquet(
    session: &Session,
    copy: &CopyFrom,
    table: SchemaRef,
    options: WriteOptions,
) -> Result<Outcome> {
    let bytes_max = std::fs::metadata(&copy.file).map_err(|error| unreadable(copy, error))?.len();
    let rows = parquet_rows(session, copy).await?;
    let path = rejects_path(copy)?;
    let loader = ParquetLoader {
        table,
        options,
        database: session.database.clone(),
        copy: copy.clone(),
        rejects: Rejects { path, file: None, count: 0 },
        seen: 0,
    };
    let (sender, receiver) = mpsc::channel(BATCHES_WAITING_MAX);
    // It converts on a thread that may block, and ends when nobody listens.
    let runtime = Handle::current();
    let reading = tokio::task::spawn_blocking(move || runtime.block_on(loader.run(rows, sender)));
    let (loaded, read) = write_all(session, (reading, receiver), bytes_max).await?;
    let rejects = read.map_err(|stop| match stop {
        Stop::Unfit(error) => error,
        Stop::Behind(error) => error.with_help(stays(loaded)),
        Stop::BadRow(error) => error.with_help(skip_helps("rows", loaded)),
    })?;
    Ok(outcome(loaded, rejects, ["row was", "rows were"]))
}

/// The error of a file that cannot be read as Parquet.
fn no_parquet(copy: &CopyFrom, error: DataFusionError) -> QueryError {
    let error = QueryError::from(error);
    let message = format!("cannot read '{}': {}", copy.file, error.message);
    QueryError { message, ..error }.at(copy.file_span)
}

/// The columns of the file that are loaded.
///
/// Errors: `Io` and those of the format; `NotFound` for columns that it does not have.
async fn parquet_rows(session: &Session, copy: &CopyFrom) -> Result<SendableRecordBatchStream> {
    let read = ParquetReadOptions { file_extension: "", ..ParquetReadOptions::default() };
    let named = |error| no_parquet(copy, error);
    let frame = session.context.read_parquet(&copy.file, read).await.map_err(named)?;
    let (mut state, plan) = frame.into_parts();
    // A file that cannot be looked into has no long rows as far as anybody knows.
    if let Ok(rows) = rows_at_once(&copy.file) {
        let config = state.config().clone();
        let rows = config.batch_size().min(rows);
        *state.config_mut() = config.with_batch_size(rows);
    }
    let mut frame = DataFrame::new(state, plan);
    if !copy.columns.is_empty() {
        let names: Vec<&str> = copy.columns.iter().map(|name| name.value.as_str()).collect();
        frame = frame.select_columns(&names)?;
    }
    frame.execute_stream().await.map_err(named)
}

/// Reads and converts batches of a Parquet file.
struct ParquetLoader {
    table: SchemaRef,
    options: WriteOptions,
    database: Database,
    copy: CopyFrom,
    rejects: Rejects,
    /// Rows of the file so far.
    seen: u64,
}

impl ParquetLoader {
    /// Sends batches until the file ends or nobody listens.
    async fn run(
        mut self,
        mut rows: SendableRecordBatchStream,
        sender: mpsc::Sender<Batch>,
    ) -> Result<Rejects, Stop> {
        while let Some(batch) = rows.next().await {
            let batch = batch.map_err(|error| Stop::Behind(no_parquet(&self.copy, error)))?;
            for part in parts_of(&batch, BATCH_ROWS) {
                let (mutations, bad) = self.mutations(&part)?;
                // How far into the file a batch reaches is not known; the end is.
                if sender.send(Batch { mutations, bytes: 0 }).await.is_err() {
                    return Ok(self.rejects);
                }
                if let Some(reason) = bad {
                    let error = QueryError::invalid(format!("{}, {reason}", self.copy.file));
                    return Err(Stop::BadRow(error.at(self.copy.file_span)));
                }
            }
        }
        self.rejects.finish().map_err(Stop::Behind)?;
        Ok(self.rejects)
    }

    /// The rows of a batch that fit the table, with rising timestamps, and why it ends at one that
    /// does not.
    fn mutations(&mut self, batch: &RecordBatch) -> Result<(Vec<Mutation>, Option<String>), Stop> {
        let mut good = Vec::with_capacity(batch.num_rows());
        let mut bad = None;
        let all = mutations(&self.table, batch, &self.options);
        for mutation in all.map_err(|error| Stop::Unfit(error.into()))? {
            let refused = match mutation {
                Ok(mut mutation) => {
                    stamp::drop_nulls(&mut mutation);
                    good.push(mutation);
                    continue;
                }
                Err(refused) => refused,
            };
            let row = self.seen + refused.row as u64 + 1;
            let column = refused.column.unwrap_or_default();
            let reason = format!("row {row}: column '{column}': {}", refused.message);
            if self.copy.options.on_error == OnError::Abort {
                bad = Some(reason);
                break;
            }
            self.rejects.add(&reason, b"").map_err(Stop::Behind)?;
        }
        stamp::stamp(&self.database, &mut good);
        self.seen += batch.num_rows() as u64;
        Ok((good, bad))
    }
}
