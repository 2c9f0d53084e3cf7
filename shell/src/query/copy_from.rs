//! COPY … FROM: a CSV or Parquet file into a table, in bounded memory.
//!
//! One blocking task reads and converts, the session's task writes; between them stand a few
//! batches. Rows get rising timestamps, so of two lines with one key the later wins. A null leaves
//! its column unset: loading writes no tombstones. Dropping the future stops both sides.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt;

use datafusion::prelude::ParquetReadOptions;
use futures::stream::FuturesUnordered;
use futures::{StreamExt, TryStreamExt};
use tidegate_engine::batch::{WriteOptions, mutations};
use tidegate_engine::config::CELL_BYTES_MAX;
use tidegate_engine::{
    Cell, ClusteringKey, ColumnId, ColumnKind, Database, Liveness, Mutation, PartitionKey, Row,
    SchemaRef, TableSchema, Value,
};
use tokio::sync::mpsc;

use super::error::{ErrorKind, QueryError, Result};
use super::literal;
use super::outcome::Outcome;
use super::parse::{CopyFrom, CopyOptions, Format, OnError, Using};
use super::session::{Progress, Session};
use super::stamp;
use super::write;

/// Rows of one batch of writes.
const BATCH_ROWS: usize = 2048;
/// Batches that are written at the same time.
const BATCHES_IN_FLIGHT_MAX: usize = 4;
/// Batches that wait between reading and writing.
const BATCHES_WAITING_MAX: usize = 2;

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
    let options = session.write_options(Using::default(), &[])?;
    match copy.options.format {
        Format::Csv => csv(session, copy, table, options).await,
        Format::Parquet => parquet(session, copy, table, options).await,
    }
}

fn io(copy: &CopyFrom, error: impl std::fmt::Display) -> QueryError {
    QueryError::new(ErrorKind::Io, format!("cannot read '{}': {error}", copy.file))
        .at(copy.file_span)
}

async fn csv(
    session: &Session,
    copy: &CopyFrom,
    table: SchemaRef,
    options: WriteOptions,
) -> Result<Outcome> {
    let file = File::open(&copy.file).map_err(|error| io(copy, error))?;
    let bytes_max = file.metadata().map_err(|error| io(copy, error))?.len();
    let loader = Loader::open(copy, table, options, session.database.clone(), file)?;
    let (sender, receiver) = mpsc::channel(BATCHES_WAITING_MAX);
    let reading = tokio::task::spawn_blocking(move || loader.run(&sender));
    let mut loaded = 0;
    write_batches(session, receiver, bytes_max, &mut loaded).await.map_err(|error| {
        error.with_help(format!("{loaded} rows had been loaded before and stay"))
    })?;
    let rejects = reading
        .await
        .map_err(|error| QueryError::new(ErrorKind::Internal, error.to_string()))?
        .map_err(|error| {
            error.at(copy.file_span).with_help(format!(
                "{loaded} rows had been loaded before and stay; ON_ERROR skip sets bad lines aside"
            ))
        })?;
    Ok(outcome(loaded, rejects))
}

fn outcome(loaded: u64, rejects: Rejects) -> Outcome {
    let mut outcome = Outcome::count(loaded);
    if rejects.count > 0 {
        let path = &rejects.path;
        outcome.note = Some(format!("{} lines were rejected, see {path}", rejects.count));
    }
    outcome
}

/// Writes what arrives, several batches at once, and tells how far it came.
async fn write_batches(
    session: &Session,
    mut receiver: mpsc::Receiver<Batch>,
    bytes_max: u64,
    loaded: &mut u64,
) -> Result<()> {
    let mut writing = FuturesUnordered::new();
    let mut reached = 0;
    loop {
        let next = if writing.len() < BATCHES_IN_FLIGHT_MAX { receiver.recv().await } else { None };
        if let Some(batch) = next {
            let rows = batch.mutations.len() as u64;
            let bytes = batch.bytes;
            let write = session.database.apply_many(batch.mutations);
            writing.push(async move { write.await.map(|()| (rows, bytes)) });
            if writing.len() < BATCHES_IN_FLIGHT_MAX {
                continue;
            }
        }
        let Some((rows, bytes)) = writing.try_next().await? else { return Ok(()) };
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
    expiry: Option<(i32, i32)>,
    database: Database,
    reader: ::csv::Reader<File>,
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
        let mut reader = ::csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(copy.options.delimiter)
            .from_reader(file);
        let fields = if copy.options.header {
            let mut header = ::csv::StringRecord::new();
            reader.read_record(&mut header).map_err(|error| io(copy, error))?;
            header_fields(copy, &table, &header)?
        } else if copy.columns.is_empty() {
            table.ids().map(Some).collect()
        } else {
            let ids: Result<Vec<_>> =
                copy.columns.iter().map(|name| Ok(write::find_column(&table, name)?.0)).collect();
            ids?.into_iter().map(Some).collect()
        };
        check_keys(copy, &table, &fields)?;
        let expiry = write::expiry(&table, &options)?;
        let path = copy.options.reject_file.clone();
        let path = path.unwrap_or_else(|| format!("{}.rejected", copy.file));
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
        let mut record = ::csv::ByteRecord::new();
        let mut batch = Vec::with_capacity(BATCH_ROWS);
        loop {
            let failed = match self.reader.read_byte_record(&mut record) {
                Ok(false) => break,
                Ok(true) => match self.mutation(&record) {
                    Ok(mutation) => {
                        batch.push(mutation);
                        None
                    }
                    Err(reason) => self.refuse(&record, &reason).err(),
                },
                Err(error) => Some(io_error(&self.file, &error)),
            };
            if failed.is_some() || batch.len() == BATCH_ROWS {
                let mutations = std::mem::replace(&mut batch, Vec::with_capacity(BATCH_ROWS));
                let bytes = self.reader.position().byte();
                if sender.blocking_send(Batch { mutations, bytes }).is_err() {
                    return Ok(self.rejects);
                }
            }
            if let Some(error) = failed {
                return Err(error);
            }
        }
        let bytes = self.reader.position().byte();
        // Nobody listens any more only when the statement was cancelled.
        let _ = sender.blocking_send(Batch { mutations: batch, bytes });
        self.rejects.finish()?;
        Ok(self.rejects)
    }

    /// One line as an INSERT, or why it is none.
    fn mutation(&self, record: &::csv::ByteRecord) -> Result<Mutation, String> {
        if record.len() != self.fields.len() {
            return Err(format!("{} fields, {} are wanted", record.len(), self.fields.len()));
        }
        let table = &*self.table;
        let mut values: Vec<Option<Value>> = vec![None; table.columns.len()];
        for (field, id) in record.iter().zip(&self.fields) {
            let Some(id) = id else { continue };
            let column = table.column(*id);
            let of_column = |reason: String| format!("column '{}': {reason}", column.name);
            let text = std::str::from_utf8(field).map_err(|_| of_column("not UTF-8".into()))?;
            if text == self.copy.null {
                if column.is_key() {
                    return Err(of_column("a key column must not be null".into()));
                }
                continue;
            }
            let value = literal::parse(column.ty, text).map_err(of_column)?;
            values[usize::from(id.0)] = Some(value);
        }
        let options = WriteOptions { timestamp: self.database.timestamp_us(), ..self.options };
        insert(table, values, &options, self.expiry)
    }

    /// Sets a line aside.
    ///
    /// Errors: the reason, when lines are not skipped or the reject file cannot be written.
    fn refuse(&mut self, record: &::csv::ByteRecord, reason: &str) -> Result<()> {
        let line = record.position().map_or(0, ::csv::Position::line);
        if self.copy.on_error == OnError::Abort {
            let message = format!("{}, line {line}: {reason}", self.file);
            return Err(QueryError::invalid(message));
        }
        let start = record.position().map_or(0, ::csv::Position::byte);
        let end = self.reader.position().byte();
        let mut text = vec![0; usize::try_from(end.saturating_sub(start)).unwrap_or(0)];
        self.reader
            .get_ref()
            .read_exact_at(&mut text, start)
            .map_err(|error| io_error(&self.file, &error))?;
        self.rejects.add(&format!("line {line}: {reason}"), &text)
    }
}

fn io_error(file: &str, error: &dyn std::fmt::Display) -> QueryError {
    QueryError::new(ErrorKind::Io, format!("{file}: {error}"))
}

/// Columns of the table for the fields of a header.
fn header_fields(
    copy: &CopyFrom,
    table: &TableSchema,
    header: &::csv::StringRecord,
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
            let known = table.columns.iter().map(|column| column.name.as_str());
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

/// Errors: `Invalid` when a key column is not among the fields.
fn check_keys(copy: &CopyFrom, table: &TableSchema, fields: &[Option<ColumnId>]) -> Result<()> {
    let missing = table.ids().find(|id| table.column(*id).is_key() && !fields.contains(&Some(*id)));
    match missing {
        Some(id) => Err(QueryError::invalid(format!(
            "{} lacks key column '{}' of {}",
            copy.file,
            table.column(id).name,
            table.full_name()
        ))
        .at(copy.file_span)),
        None => Ok(()),
    }
}

/// An INSERT of values by column; the missing ones stay unset.
fn insert(
    table: &TableSchema,
    mut values: Vec<Option<Value>>,
    options: &WriteOptions,
    expiry: Option<(i32, i32)>,
) -> Result<Mutation, String> {
    let mut take = |ids: Vec<ColumnId>| -> Vec<Value> {
        ids.iter().filter_map(|id| values[usize::from(id.0)].take()).collect()
    };
    let partition = take(table.partition_key_ids());
    let clustering = take(table.clustering_key_ids());
    let key = PartitionKey::from_values(table, &partition).map_err(|error| error.to_string())?;
    let clustering =
        ClusteringKey::from_values(table, &clustering).map_err(|error| error.to_string())?;
    let liveness = match expiry {
        Some((ttl, expiry)) => Liveness::expiring(options.timestamp, ttl, expiry),
        None => Liveness::at(options.timestamp),
    };
    let mut row = Row { liveness: Some(liveness), ..Row::default() };
    let mut fixed = Row::default();
    for (id, value) in table.ids().zip(values) {
        let Some(value) = value else { continue };
        let column = table.column(id);
        let cell: Cell = write::cell(Some(&value), options, expiry);
        if cell.heap_bytes() > CELL_BYTES_MAX {
            return Err(format!(
                "column '{}': the value takes over {CELL_BYTES_MAX} bytes",
                column.name
            ));
        }
        match column.kind {
            ColumnKind::Static => fixed.put(id, cell),
            _ => row.put(id, cell),
        }
    }
    let mut mutation = Mutation::new(table.id, key);
    mutation.static_row = (!fixed.is_empty()).then_some(fixed);
    mutation.rows.push((clustering, row));
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
        let line = line.trim_ascii_start();
        let end = line.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n'));
        let line = &line[..end.map_or(0, |end| end + 1)];
        self.count += 1;
        self.append(reason, line).map_err(|error| io_error(&self.path, &error))
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
            Some(Err(error)) => Err(io_error(&self.path, &error)),
            _ => Ok(()),
        }
    }
}

/// Parquet has types already: its batches become mutations as those of an INSERT do.
async fn parquet(
    session: &Session,
    copy: &CopyFrom,
    table: SchemaRef,
    options: WriteOptions,
) -> Result<Outcome> {
    let bytes_max = std::fs::metadata(&copy.file).map_err(|error| io(copy, error))?.len();
    let read = ParquetReadOptions { file_extension: "", ..ParquetReadOptions::default() };
    let mut frame = session.context.read_parquet(&copy.file, read).await?;
    if !copy.columns.is_empty() {
        let names: Vec<&str> = copy.columns.iter().map(|name| name.value.as_str()).collect();
        frame = frame.select_columns(&names)?;
    }
    let mut rows = frame.execute_stream().await?;
    let path = copy.options.reject_file.clone();
    let path = path.unwrap_or_else(|| format!("{}.rejected", copy.file));
    let mut rejects = Rejects { path, file: None, count: 0 };
    let (mut loaded, mut seen) = (0, 0);
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        let mut good = Vec::with_capacity(batch.num_rows());
        let mut bad = None;
        for mutation in mutations(&table, &batch, &options)? {
            let refused = match mutation {
                Ok(mut mutation) => {
                    stamp::drop_nulls(&mut mutation);
                    good.push(mutation);
                    continue;
                }
                Err(refused) => refused,
            };
            let row = seen + refused.row as u64 + 1;
            let column = refused.column.unwrap_or_default();
            let reason = format!("row {row}: column '{column}': {}", refused.message);
            if copy.options.on_error == OnError::Abort {
                bad = Some(reason);
                break;
            }
            rejects.add(&reason, b"")?;
        }
        loaded += good.len() as u64;
        stamp::stamp(&session.database, &mut good);
        session.database.apply_many(good).await?;
        if let Some(reason) = bad {
            return Err(QueryError::invalid(format!("{}, {reason}", copy.file))
                .at(copy.file_span)
                .with_help(format!("{loaded} rows had been loaded before and stay")));
        }
        seen += batch.num_rows() as u64;
        if let Some(progress) = &session.options.progress {
            // How far into the file a batch reaches is not known; the end is.
            progress(Progress { rows: loaded, bytes: 0, bytes_max });
        }
    }
    rejects.finish()?;
    Ok(outcome(loaded, rejects))
}
