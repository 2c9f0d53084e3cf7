//! Options of a table: `name = value`, where a value may be a map as in CQL.

use sqlparser::tokenizer::Token;
use tidegate_engine::schema::table_schema::RateLimit;
use tidegate_engine::{
    CompactionClass, CompactionOptions, Compression, Compressor, LargeDataOptions, OnCorruption,
    TableOptions, Thousandths, WindowUnit,
};

use super::foreign::{Ignored, refuse_compact_storage};
use crate::query::error::{QueryError, Result, Span};
use crate::query::parse::{Cursor, Name};

/// Names of all options, in order.
pub const OPTIONS: &[&str] = &[
    "column_index_size_in_kb",
    "comment",
    "compaction",
    "compression",
    "default_time_to_live",
    "gc_grace_seconds",
    "large_data",
    "on_corruption",
    "per_partition_rate_limit",
    "rate_limit_by",
];
const RATES: [&str; 2] = ["max_reads_per_second", "max_writes_per_second"];
const THRESHOLDS: [&str; 5] =
    ["partition_bytes", "row_bytes", "cell_bytes", "partition_rows", "collection_elements"];
const COMPACTION: [&str; 14] = [
    "class",
    "enabled",
    "min_threshold",
    "max_threshold",
    "bucket_low",
    "bucket_high",
    "min_sstable_size",
    "sstable_size_in_mb",
    "fanout_size",
    "space_amplification_goal",
    "compaction_window_unit",
    "compaction_window_size",
    "tombstone_threshold",
    "tombstone_compaction_interval",
];
const COMPRESSION: [&str; 4] = ["class", "chunk_length_in_kb", "compression_level", "enabled"];

/// How ScyllaDB names compressors that share dictionaries.
const WITH_DICTIONARIES: &str = "WithDictsCompressor";

/// One option and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableOption {
    DefaultTimeToLive(i32),
    GcGraceSeconds(i32),
    ColumnIndexBytes(u32),
    Comment(String),
    RateLimit(RateLimit),
    /// A column, or none.
    RateLimitBy(Option<String>),
    LargeData(LargeDataOptions),
    OnCorruption(OnCorruption),
    Compression(Option<Compression>),
    Compaction(CompactionOptions),
}

impl TableOption {
    /// Sets the option.
    pub fn apply(self, options: &mut TableOptions) {
        match self {
            TableOption::DefaultTimeToLive(seconds) => options.default_time_to_live = seconds,
            TableOption::GcGraceSeconds(seconds) => options.gc_grace_seconds = seconds,
            TableOption::ColumnIndexBytes(bytes) => options.column_index_bytes = bytes,
            TableOption::Comment(text) => options.comment = text,
            TableOption::RateLimit(limit) => options.per_partition_rate_limit = limit,
            TableOption::RateLimitBy(column) => options.rate_limit_by = column,
            TableOption::LargeData(thresholds) => options.large_data = thresholds,
            TableOption::OnCorruption(choice) => options.on_corruption = choice,
            TableOption::Compression(compression) => options.compression = compression,
            TableOption::Compaction(compaction) => options.compaction = compaction,
        }
    }
}

/// `name = value`; `None` for an option of other products, which goes to `ignored`.
pub fn table_option(cursor: &mut Cursor<'_>, ignored: &mut Ignored) -> Result<Option<TableOption>> {
    refuse_compact_storage(cursor)?;
    let name = cursor.name("an option")?;
    cursor.expect(&Token::Eq)?;
    let span = cursor.span();
    let wrong = |wanted: &str| {
        QueryError::invalid(format!("option {} takes {wanted}", name.value)).at(span)
    };
    let whole = |cursor: &mut Cursor<'_>, wanted: &str| {
        cursor
            .number(wanted)
            .map_err(|_| wrong(wanted))
            .and_then(|value| i32::try_from(value).map_err(|_| wrong(wanted)))
            .and_then(|value| if value < 0 { Err(wrong(wanted)) } else { Ok(value) })
    };
    Ok(Some(match name.value.as_str() {
        "default_time_to_live" => {
            TableOption::DefaultTimeToLive(whole(cursor, "a number of seconds")?)
        }
        "gc_grace_seconds" => TableOption::GcGraceSeconds(whole(cursor, "a number of seconds")?),
        "column_index_size_in_kb" => {
            let kib = whole(cursor, "a number of KiB from 1 to 65536")?;
            if !(1..=65_536).contains(&kib) {
                return Err(wrong("a number of KiB from 1 to 65536"));
            }
            TableOption::ColumnIndexBytes(kib as u32 * 1024)
        }
        "comment" => TableOption::Comment(cursor.string("a text in quotes")?.0),
        "per_partition_rate_limit" => TableOption::RateLimit(rate_limit(cursor)?),
        "rate_limit_by" => {
            let (column, _) = cursor.string("a column of the partition key in quotes, or ''")?;
            TableOption::RateLimitBy((!column.is_empty()).then_some(column))
        }
        "large_data" => TableOption::LargeData(large_data(cursor)?),
        "on_corruption" => TableOption::OnCorruption(on_corruption(cursor)?),
        "compression" => TableOption::Compression(compression(cursor, span, ignored)?),
        "compaction" => TableOption::Compaction(compaction(cursor, span, ignored)?),
        name if ignored.take_table_option(name, cursor)? => return Ok(None),
        unknown => {
            let known = OPTIONS.iter().copied().chain(["clustering"]);
            let error = QueryError::not_found("option", unknown, known).at(name.span);
            let help = "options are CLUSTERING ORDER BY (…), default_time_to_live, \
                        gc_grace_seconds, column_index_size_in_kb, comment, \
                        per_partition_rate_limit, rate_limit_by, large_data, on_corruption, \
                        compression, compaction";
            return Err(if error.help.is_some() { error } else { error.with_help(help) });
        }
    }))
}

/// `'fail'` or `'skip'`, of tables and of ATTACH.
pub fn on_corruption(cursor: &mut Cursor<'_>) -> Result<OnCorruption> {
    choice(cursor, "on_corruption", (OnCorruption::Fail, OnCorruption::Skip))
}

/// `fail` or `skip`.
pub fn choice<T>(cursor: &mut Cursor<'_>, option: &str, (fail, skip): (T, T)) -> Result<T> {
    let span = cursor.span();
    match cursor.option_value()?.to_lowercase().as_str() {
        "fail" => Ok(fail),
        "skip" => Ok(skip),
        other => {
            let message = format!("option {option} takes fail or skip, not '{other}'");
            Err(QueryError::invalid(message).at(span))
        }
    }
}

/// `{'name': value, …}`, in CQL's form; names may be bare. `entry` reads a value, and is told
/// whether the name is known by taking it or not.
fn map(
    cursor: &mut Cursor<'_>,
    (what, names): (&'static str, &[&'static str]),
    mut entry: impl FnMut(&mut Cursor<'_>, &Name) -> Result<bool>,
) -> Result<()> {
    cursor.expect(&Token::LBrace)?;
    if cursor.take(&Token::RBrace) {
        return Ok(());
    }
    loop {
        let span = cursor.span();
        let name = Name { value: cursor.option_value()?.to_lowercase(), span };
        if !cursor.take(&Token::Colon) && !cursor.take(&Token::Eq) {
            return Err(cursor.expected("':'"));
        }
        if !entry(cursor, &name)? {
            let error = QueryError::not_found(what, &name.value, names.iter().copied()).at(span);
            let help = format!("they are {}", names.join(", "));
            return Err(if error.help.is_some() { error } else { error.with_help(help) });
        }
        if !cursor.take(&Token::Comma) {
            return cursor.expect(&Token::RBrace);
        }
    }
}

/// A number that is not negative, in quotes or not.
fn number<T: TryFrom<i64>>(cursor: &mut Cursor<'_>, what: &str) -> Result<T> {
    let span = cursor.span();
    let wrong =
        || QueryError::invalid(format!("{what} are a number that is not negative")).at(span);
    let number: i64 = cursor.option_value()?.parse().map_err(|_| wrong())?;
    T::try_from(number).map_err(|_| wrong())
}

fn boolean(cursor: &mut Cursor<'_>, name: &str) -> Result<bool> {
    let span = cursor.span();
    let wrong = |_| QueryError::invalid(format!("{name} is true or false")).at(span);
    cursor.option_value()?.to_lowercase().parse().map_err(wrong)
}

fn rate_limit(cursor: &mut Cursor<'_>) -> Result<RateLimit> {
    let mut limit = RateLimit::default();
    map(cursor, ("limit", &RATES), |cursor, name| {
        let place = match name.value.as_str() {
            "max_reads_per_second" => &mut limit.max_reads_per_second,
            "max_writes_per_second" => &mut limit.max_writes_per_second,
            _ => return Ok(false),
        };
        *place = Some(number(cursor, "operations a second")?);
        Ok(true)
    })?;
    Ok(limit)
}

fn large_data(cursor: &mut Cursor<'_>) -> Result<LargeDataOptions> {
    let mut options = LargeDataOptions::default();
    map(cursor, ("threshold", &THRESHOLDS), |cursor, name| {
        let place = match name.value.as_str() {
            "partition_bytes" => &mut options.partition_bytes,
            "row_bytes" => &mut options.row_bytes,
            "cell_bytes" => &mut options.cell_bytes,
            "partition_rows" => &mut options.partition_rows,
            "collection_elements" => &mut options.collection_elements,
            _ => return Ok(false),
        };
        *place = Some(number(cursor, "thresholds")?);
        Ok(true)
    })?;
    Ok(options)
}

/// `{'class': 'LZ4Compressor', 'chunk_length_in_kb': 16}`; no class, or `'enabled': false`, for
/// none.
fn compression(
    cursor: &mut Cursor<'_>,
    span: Span,
    ignored: &mut Ignored,
) -> Result<Option<Compression>> {
    let (mut class, mut chunk_kib, mut level, mut is_enabled) = (None, None, None, true);
    map(cursor, ("option of compression", &COMPRESSION), |cursor, name| {
        match name.value.as_str() {
            "class" | "sstable_compression" => {
                let span = cursor.span();
                class = Some((cursor.option_value()?, span));
            }
            "chunk_length_in_kb" | "chunk_length_kb" => {
                chunk_kib = Some(number::<u32>(cursor, "KiB")?)
            }
            "compression_level" => level = Some(number::<i32>(cursor, "levels")?),
            "enabled" => is_enabled = boolean(cursor, "enabled")?,
            name => return ignored.take_within(("compression", name), cursor),
        }
        Ok(true)
    })?;
    let Some((class, class_span)) = class.filter(|(class, _)| is_enabled && !class.is_empty())
    else {
        return Ok(None);
    };
    let plain = class.replace(WITH_DICTIONARIES, "Compressor");
    if plain != class {
        ignored.add(format!("the dictionaries of {class}"));
    }
    let Some(compressor) = Compressor::of_class(&plain) else {
        let names = Compressor::ALL.map(Compressor::class);
        let error = QueryError::not_found("compressor", &class, names).at(class_span);
        let help = format!("compressors are {}", names.join(", "));
        return Err(if error.help.is_some() { error } else { error.with_help(help) });
    };
    let mut compression = Compression { level, ..Compression::new(compressor) };
    if let Some(kib) = chunk_kib {
        compression.chunk_bytes = kib.saturating_mul(1024);
    }
    compression.validate().map_err(|error| QueryError::from(error).at(span))?;
    Ok(Some(compression))
}

/// `{'class': 'SizeTieredCompactionStrategy', 'min_threshold': 4}`, in Cassandra's names; what is
/// not named is as in a new table of that class.
fn compaction(
    cursor: &mut Cursor<'_>,
    span: Span,
    ignored: &mut Ignored,
) -> Result<CompactionOptions> {
    let mut options = CompactionOptions::default();
    // The class may be named behind it, and has a default of its own.
    let mut sstable_bytes = None;
    map(cursor, ("option of compaction", &COMPACTION), |cursor, name| {
        let at = cursor.span();
        match name.value.as_str() {
            "class" => {
                let class = cursor.option_value()?;
                let names = CompactionClass::ALL.map(CompactionClass::class);
                options.class = CompactionClass::of_class(&class)
                    .or_else(|| stand_in(&class, ignored))
                    .ok_or_else(|| unknown("strategy", &class, &names).at(at))?;
            }
            "enabled" => options.is_enabled = boolean(cursor, "enabled")?,
            "min_threshold" => options.min_threshold = number(cursor, "thresholds")?,
            "max_threshold" => options.max_threshold = number(cursor, "thresholds")?,
            "bucket_low" => options.bucket_low = ratio(cursor)?,
            "bucket_high" => options.bucket_high = ratio(cursor)?,
            "min_sstable_size" => options.min_sstable_bytes = number(cursor, "bytes")?,
            "sstable_size_in_mb" => {
                sstable_bytes = Some(number::<u64>(cursor, "MiB")?.saturating_mul(1 << 20));
            }
            "space_amplification_goal" => options.space_amplification_goal = Some(ratio(cursor)?),
            "fanout_size" => options.fanout = number(cursor, "multiples")?,
            "compaction_window_unit" => {
                let unit = cursor.option_value()?;
                let names = WindowUnit::ALL.map(WindowUnit::name);
                options.window_unit = WindowUnit::of_name(&unit)
                    .ok_or_else(|| unknown("unit", &unit, &names).at(at))?;
            }
            "compaction_window_size" => options.window_size = number(cursor, "windows")?,
            "tombstone_threshold" => options.tombstone_threshold = ratio(cursor)?,
            "tombstone_compaction_interval" => {
                options.tombstone_interval_seconds = number(cursor, "seconds")?;
            }
            name => return ignored.take_within(("compaction", name), cursor),
        }
        Ok(true)
    })?;
    let usual = CompactionOptions::of_class(options.class);
    options.sstable_bytes = sstable_bytes.unwrap_or(usual.sstable_bytes);
    options.validate().map_err(|error| QueryError::from(error).at(span))?;
    Ok(options)
}

/// The strategy that stands in for one of Cassandra's that is not offered.
fn stand_in(class: &str, ignored: &mut Ignored) -> Option<CompactionClass> {
    let stand_in = match class.rsplit('.').next()? {
        "UnifiedCompactionStrategy" => CompactionClass::SizeTiered,
        "DateTieredCompactionStrategy" => CompactionClass::TimeWindow,
        _ => return None,
    };
    ignored.add(format!("{class}, of which {} takes the place", stand_in.class()));
    Some(stand_in)
}

fn ratio(cursor: &mut Cursor<'_>) -> Result<Thousandths> {
    let span = cursor.span();
    cursor.option_value()?.parse().map_err(|error| QueryError::from(error).at(span))
}

/// An error that names what there is.
fn unknown(what: &'static str, found: &str, names: &[&'static str]) -> QueryError {
    let error = QueryError::not_found(what, found, names.iter().copied());
    let help = format!("they are {}", names.join(", "));
    if error.help.is_some() { error } else { error.with_help(help) }
}
